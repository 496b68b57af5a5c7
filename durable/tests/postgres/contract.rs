//! Promise: `Postgres` does what the traits `Store` and `SharedStore` say.
//!
//! - It meets a list of demands.
//! - In random histories of two nodes it does what a store in memory does: `WHEELWORK_SEEDS`
//!   histories, from `WHEELWORK_SEED` on.
//!
//! It needs a server (`common/server.rs`). Without one the tests are left out, which is said.

use crate::both_stores::demands::{Opened, demands, texts_may_have_anything};
use crate::both_stores::histories::hold_against_memory;
use crate::both_stores::{Standing, Tables, memory};
use std::env;
use std::sync::Arc;

/// Histories of a run of all tests.
const HISTORIES: u64 = 12;

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn postgres_does_what_memory_does() {
    let Some(mut tables) = Tables::new() else {
        return;
    };
    let first = number("WHEELWORK_SEED", 0);
    for seed in first..first + number("WHEELWORK_SEEDS", HISTORIES) {
        if let Err(why) = hold_against_memory(seed, &mut tables) {
            panic!("{why}");
        }
    }
}

#[test]
fn demands_are_met() {
    for (name, demand) in demands() {
        println!("{name}, in memory");
        demand(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    }
    let Some(mut tables) = Tables::new() else {
        return;
    };
    for (name, demand) in demands() {
        println!("{name}");
        tables.clear();
        demand(&mut Opened::new(tables.node("node")));
    }
}

#[test]
fn texts_are_stored_as_they_are() {
    texts_may_have_anything(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    if let Some(tables) = Tables::new() {
        texts_may_have_anything(&mut Opened::new(tables.node("node")));
    }
}
