//! Promise: a list has each timer that stays as it is exactly once, also if another node holds or
//! releases it between two looks at the store.

use crate::all_may_go::AllMayGo;
use crate::shared_memory::{Exact, Making, SharedMemory, SharedPlace};
use crate::slow_store::{Slow, Speed};
use std::sync::Arc;
use std::time::Duration;
use wheelwork::ManualClock;
#[cfg(feature = "__faults")]
use wheelwork_durable::DurableFault;
use wheelwork_durable::contract::{HeldWhy, Settled, Store, Target, Write};
use wheelwork_durable::{Durable, DurableId, ListQuery, Partition, Row, StoreTime};

const HOUR: Duration = Duration::from_secs(3_600);

const PARTITIONS: Partition = 8;

/// Holds a row, or releases one that is held.
fn turn_over(node: &mut SharedMemory, id: DurableId, epoch: u64) {
    let row = node.get(&Target::Id(id)).unwrap().unwrap();
    let write = match row.held() {
        Some(_) => Write::Move(Target::Id(id), row.shown().due),
        None => Write::Hold {
            of: Settled {
                id,
                due: row.due,
                epoch,
            },
            why: HeldWhy::Unhandled,
            since: StoreTime::from_millis(1),
        },
    };
    let was_held = matches!(write, Write::Move(..));
    node.commit(vec![write], &mut AllMayGo).unwrap();
    let row = node.get(&Target::Id(id)).unwrap().unwrap();
    assert_ne!(row.held().is_some(), was_held);
}

/// What a list has of two timers, of which one is held in the beginning. After this number of looks
/// of the list another node releases that one and holds the other one.
fn listed(after: usize) -> Vec<String> {
    let clock = ManualClock::new();
    let making = Making {
        partitions: PARTITIONS,
        partition_of_key: |key| key.parse::<Partition>().unwrap() % PARTITIONS,
        lease: HOUR,
        claim_ahead: Duration::from_millis(25),
        has_news: false,
        strikes: true,
        broken: None,
    };
    let place = SharedPlace::new(making, clock.system_time());
    let node = |name| place.node(name, Arc::new(Exact(clock.clone())));
    let mut other = node("other");
    let leases = other.acquire().unwrap();
    let due = StoreTime::reading(clock.system_time()).after(HOUR);
    let armed = ["first", "second"].map(|text| {
        let id = other.new_id(None, due);
        let row = Row::new(id, due, "mail".into(), text.as_bytes().into());
        other.commit(vec![Write::Arm(row)], &mut AllMayGo).unwrap();
        let lease = leases
            .iter()
            .find(|lease| lease.partition == id.partition());
        (id, lease.unwrap().epoch)
    });
    turn_over(&mut other, armed[0].0, armed[0].1);

    let store = Slow::new(node("this"), clock.clone(), Speed::default());
    let after_looks = store.after_looks();
    let timers = Durable::builder(store).clock(clock).start().unwrap();
    let mut acts = after_looks.lock().unwrap();
    acts.clear();
    for _ in 1..after {
        acts.push_back(Box::new(|| {}));
    }
    acts.push_back(Box::new(move || {
        for (id, epoch) in armed {
            turn_over(&mut other, id, epoch);
        }
    }));
    drop(acts);
    let page = timers.list_page(&ListQuery::new()).unwrap();
    assert_eq!(page.next, None);
    let rows = page.rows.iter();
    let mut texts: Vec<_> = rows
        .map(|row| String::from_utf8_lossy(&row.payload).into_owned())
        .collect();
    texts.sort_unstable();
    texts
}

#[test]
fn a_timer_that_is_held_or_released_meanwhile_is_listed_once() {
    for after in 1..=3 {
        assert_eq!(listed(after), ["first", "second"], "after look {after}");
    }
}

#[cfg(feature = "__faults")]
#[test]
fn without_the_first_look_one_that_is_released_is_missed() {
    wheelwork_durable::set_durable_fault(Some(DurableFault::ReleasedUnlisted));
    let listed = listed(1);
    wheelwork_durable::set_durable_fault(None);
    assert_eq!(listed, ["second"]);
}
