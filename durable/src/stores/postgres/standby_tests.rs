//! A test of commits that wait for a synchronous standby, which does not come. It needs a server of
//! its own (`tests/common/server.rs`), and is left out without one.

use super::Postgres;
use super::server::OwnServer;
use super::session::ANSWER_MAX;
use crate::store::contract::{Gate, Store};
use crate::store::row::{DurableId, Row, StoreTime};
use crate::store::write::{Outcome, Target, Write};
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

const SECOND: Duration = Duration::from_secs(1);

/// Sessions whose commit waits for a standby.
const WAITING: &str = "FROM pg_stat_activity
    WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'";

/// None of the rows was handed out.
struct AllMayGo;

impl Gate for AllMayGo {
    fn let_go(&mut self, _: DurableId) -> bool {
        true
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGS, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The processes of those sessions.
fn waiting(admin: &mut Client) -> BTreeSet<i32> {
    let found = admin.query(&format!("SELECT pid {WAITING}"), &[]).unwrap();
    found.iter().map(|row| row.get(0)).collect()
}

/// Sets which standby commits wait for. They go on if there is none.
fn set_standby(admin: &mut Client, name: &str) {
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
    admin.batch_execute(&set).unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
}

/// From now on commits wait for a standby that does not come.
fn want_standby(admin: &mut Client, database: &str) {
    set_standby(admin, "nobody");
    // (The server reads its settings a little later.)
    let mut probe = Client::connect(database, NoTls).unwrap();
    let insert = "INSERT INTO probe VALUES (1)";
    let writes = thread::spawn(move || while probe.batch_execute(insert).is_ok() {});
    until("commits wait", || !waiting(admin).is_empty());
    let end = format!("SELECT pg_terminate_backend(pid) {WAITING}");
    admin.batch_execute(&end).unwrap();
    writes.join().unwrap();
    until("the probe has ended", || waiting(admin).is_empty());
}

/// A row that is due in the year 2030.
fn row(store: &mut Postgres) -> Row {
    let due = StoreTime::from_millis(1_900_000_000_000);
    let id = store.new_id(None, due);
    Row::new(id, due, "mail".into(), b"".as_slice().into())
}

/// The node ends the wait itself, when it has had no answer for too long, or an operator does, or
/// the session ends. The server keeps the commit then, though the standby does not have it.
#[test]
fn a_commit_is_stored_when_its_standby_has_it() {
    let Some(server) = OwnServer::start() else {
        return;
    };
    let database = &server.database;
    let mut admin = Client::connect(database, NoTls).unwrap();
    admin.batch_execute("CREATE TABLE probe (n int)").unwrap();
    // (Its role hears no warnings.)
    let quiet = format!("{database} options='-c client_min_messages=error'");
    let builder = Postgres::builder(&quiet).lease(SECOND * 3_600);
    let mut store = builder.patience(HANGS).connect().unwrap();
    store.acquire().unwrap();
    for end in ["the node", "pg_cancel_backend", "pg_terminate_backend"] {
        want_standby(&mut admin, database);
        let is_own = end == "the node";
        store.session.answer_max = if is_own { SECOND } else { ANSWER_MAX };
        let row = row(&mut store);
        let arm = vec![Write::Arm(row.clone())];
        let (is_early, told) = thread::scope(|scope| {
            let commit = scope.spawn(|| store.commit(arm, &mut AllMayGo));
            let mut first = BTreeSet::new();
            until("the commit waits", || {
                first = waiting(&mut admin);
                !first.is_empty()
            });
            if !is_own {
                let end = format!("SELECT {end}(pid) {WAITING}");
                admin.batch_execute(&end).unwrap();
            }
            until("another connection waits for the same", || {
                commit.is_finished() || waiting(&mut admin).difference(&first).count() > 0
            });
            let is_early = commit.is_finished();
            set_standby(&mut admin, "");
            (is_early, commit.join().unwrap())
        });
        assert!(!is_early, "{end} has ended the wait");
        let outcomes = told.unwrap();
        assert_eq!(outcomes, [Outcome::Armed(None)]);
        assert!(store.get(&Target::Id(row.id)).unwrap().is_some());
    }
    // If the standby does not come, nobody knows whether it is stored.
    want_standby(&mut admin, database);
    (store.session.answer_max, store.session.patience) = (SECOND, SECOND * 2);
    let arm = vec![Write::Arm(row(&mut store))];
    let told = store.commit(arm, &mut AllMayGo);
    assert!(told.is_err(), "{told:?}");
    set_standby(&mut admin, "");
    store.session.answer_max = ANSWER_MAX;
    until("it comes back", || store.reopen().is_ok());
}
