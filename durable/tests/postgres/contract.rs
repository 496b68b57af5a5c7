//! Promise: `Postgres` does what the traits `Store` and `SharedStore` say.
//!
//! - It meets a list of demands.
//! - So does the one in memory. Broken ones that hold rows wrongly do not.
//! - In random histories of two nodes it does what a store in memory does: `WHEELWORK_SEEDS`
//!   histories, from `WHEELWORK_SEED` on.
//!
//! It needs a server (`common/server.rs`). Without one the tests are left out, which is said.

use crate::both_stores::demands::{Demand, Opened, demands, texts_may_have_anything};
use crate::both_stores::held::{any_node_ends_a_held_row, held_demands};
use crate::both_stores::histories::hold_against_memory;
use crate::both_stores::{Standing, Tables, broken_memory, memory};
use crate::shared_memory::{HELD_BREAKS, SharedMemory};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    for (name, demand) in demands().into_iter().chain(held_demands()) {
        println!("{name}, in memory");
        demand(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    }
    let Some(mut tables) = Tables::new() else {
        return;
    };
    for (name, demand) in demands().into_iter().chain(held_demands()) {
        println!("{name}");
        tables.clear();
        demand(&mut Opened::new(tables.node("node")));
    }
}

#[test]
fn any_node_ends_a_row_that_is_held() {
    let place = memory();
    let node = |name: &str| place.node(name, Arc::new(Standing));
    any_node_ends_a_held_row(&mut Opened::new(node("owner")), &mut node("other"));
    if let Some(tables) = Tables::new() {
        let owner = &mut Opened::new(tables.node("owner"));
        any_node_ends_a_held_row(owner, &mut tables.node("other"));
    }
}

/// The demands are worth something: a store that does not meet them is found.
#[test]
fn a_broken_store_does_not_meet_them() {
    for broken in HELD_BREAKS {
        let is_met = |demand: Demand<SharedMemory>| {
            let node = broken_memory(Some(broken)).node("node", Arc::new(Standing));
            let met = catch_unwind(AssertUnwindSafe(|| demand(&mut Opened::new(node))));
            met.is_ok()
        };
        let missed = held_demands()
            .into_iter()
            .find(|(_, demand)| !is_met(*demand));
        let (name, _) = missed.unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        println!("{broken:?}: {name}");
    }
}

#[test]
fn texts_are_stored_as_they_are() {
    texts_may_have_anything(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    if let Some(tables) = Tables::new() {
        texts_may_have_anything(&mut Opened::new(tables.node("node")));
    }
}
