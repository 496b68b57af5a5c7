//! Promise: one program runs on a file and on a database that nodes share, with one line changed.
//!
//! The program is `tests/common/program.rs`, which is included twice. What differs is `store`. With
//! a database only if there is a server (`common/server.rs`).

use crate::own_schema::server;

mod on_a_file {
    use std::time::Duration;
    use wheelwork_durable::{Durable, Redb, RetryPolicy, StoreError};

    fn store() -> Result<Redb, StoreError> {
        Redb::open(super::file())
    }

    include!("../common/program.rs");
}

mod on_a_database {
    use std::time::Duration;
    use wheelwork_durable::{Durable, Postgres, RetryPolicy, StoreError};

    fn store() -> Result<Postgres, StoreError> {
        Postgres::connect(super::server::database().unwrap())
    }

    include!("../common/program.rs");
}

fn file() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("wheelwork-program-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("timers.redb")
}

#[test]
fn it_runs_on_a_file() {
    assert_eq!(on_a_file::run().unwrap(), ["4711", "4713", "4714"]);
    std::fs::remove_dir_all(file().parent().unwrap()).unwrap();
}

#[test]
fn it_runs_on_a_database() {
    if server::database().is_none() {
        return;
    }
    assert_eq!(on_a_database::run().unwrap(), ["4711", "4713", "4714"]);
}
