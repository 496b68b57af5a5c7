//! Promise: a node that is far from the store gives its partitions to the others, however many
//! timers fall due meanwhile.
//!
//! The store takes time for what one of two nodes does, on a manual clock.

use crate::shared_memory::{Exact, Making, SharedPlace};
use crate::slow_store::{Slow, Speed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::{Durable, DurableId, Partition};

const MS: Duration = Duration::from_millis(1);

const PARTITIONS: Partition = 64;

/// How long a call of the slow node takes: three statements, say, of 0.4 s.
const CALL: Duration = Duration::from_millis(1_200);

/// Between two timers.
const EVERY: Duration = Duration::from_millis(10);

const TIMERS: u32 = 6_000;

/// How many partitions a node has.
fn partitions_of(name: &str, timers: &Durable) -> usize {
    let fleet = timers.fleet().unwrap();
    let mut nodes = fleet.nodes.iter();
    nodes
        .find(|node| node.name == name)
        .map_or(0, |node| node.partitions)
}

/// When the last timer fell due that the node has handled which is slow: so long after it began to
/// be so.
fn last_of_slow() -> Duration {
    let clock = ManualClock::new();
    let making = Making {
        partitions: PARTITIONS,
        partition_of_key: |key| key.parse::<Partition>().unwrap() % PARTITIONS,
        lease: Duration::from_secs(10),
        claim_ahead: MS * 25,
        has_news: true,
        strikes: true,
        broken: None,
    };
    let place = SharedPlace::new(making, clock.system_time());
    let start = |name| {
        let node = place.node(name, Arc::new(Exact(clock.clone())));
        let store = Slow::new(node, clock.clone(), Speed::default());
        let (speed, dues) = (store.speed(), Arc::<Mutex<Vec<_>>>::default());
        let handled = Arc::clone(&dues);
        let timers = Durable::builder(store)
            .clock(clock.clone())
            .on("mail", move |timer| {
                handled.lock().unwrap().push(timer.due());
                Ok(())
            })
            .start();
        (timers.unwrap(), speed, dues)
    };
    let (far, speed, by_far) = start("far");
    let (near, _, by_near) = start("near");
    clock.advance(Duration::from_secs(10));
    assert_eq!(partitions_of("far", &near), usize::from(PARTITIONS) / 2);
    let begun = clock.system_time();
    for number in 0..TIMERS {
        let key = number.to_string();
        let timer = near.key(&key);
        timer.schedule("mail", EVERY * number, "").unwrap();
    }
    speed.lock().unwrap().call = CALL;
    while clock.system_time() < begun + EVERY * TIMERS {
        // (It takes its turns here, not inside of the clock's.)
        far.get(DurableId::from_bits(1)).unwrap();
    }
    clock.advance(Duration::from_secs(2));
    let (by_far, by_near) = (by_far.lock().unwrap(), by_near.lock().unwrap());
    assert_eq!(by_far.len() + by_near.len(), TIMERS as usize);
    let last = by_far.iter().max().unwrap();
    last.duration_since(begun).unwrap()
}

/// Two renewals in a row have to be slow, and each turn takes some seconds.
const GONE: Duration = Duration::from_secs(15);

#[test]
fn a_slow_node_gives_all_its_partitions_to_the_others() {
    let last = last_of_slow();
    assert!(last < GONE, "it has had timers for {last:?}");
}

#[cfg(feature = "__faults")]
#[test]
fn partitions_that_rest_one_by_one_stay_with_a_slow_node() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::RestOneByOne));
    let last = last_of_slow();
    set_durable_fault(None);
    assert!(last > GONE * 3, "it has had timers for {last:?} only");
}
