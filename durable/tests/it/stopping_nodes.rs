//! Promise: timers of a node that stops do not wait for the handlers that it still runs. Other
//! nodes have them meanwhile.

use crate::shared_memory::{Exact, Making, SharedPlace, StoreBreak};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::{Delivery, Durable, DurableId, Partition, SpawnedFuture};

const MS: Duration = Duration::from_millis(1);

const PARTITIONS: Partition = 16;

/// A node whose handler of `slow` takes until it is let go.
struct Node {
    timers: Durable,
    futures: Arc<Mutex<Vec<SpawnedFuture>>>,
}

impl Node {
    fn start(
        place: &SharedPlace,
        name: &str,
        clock: &ManualClock,
        handled: &Arc<AtomicUsize>,
        is_over: &Arc<AtomicBool>,
    ) -> Self {
        let futures = Arc::<Mutex<Vec<SpawnedFuture>>>::default();
        let (spawned, is_over, handled) = (futures.clone(), is_over.clone(), handled.clone());
        let timers = Durable::builder(place.node(name, Arc::new(Exact(clock.clone()))))
            .clock(clock.clone())
            .spawner(move |future| spawned.lock().unwrap().push(future))
            .on_async("slow", move |_: Delivery| {
                let is_over = is_over.clone();
                poll_fn(move |_| match is_over.load(Ordering::SeqCst) {
                    true => Poll::Ready(Ok(())),
                    false => Poll::Pending,
                })
            })
            .on("mail", move |_| {
                handled.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .start();
        Self {
            timers: timers.unwrap(),
            futures,
        }
    }

    fn has_future(&self) -> bool {
        !self.futures.lock().unwrap().is_empty()
    }
}

/// Polls futures, and forgets those that are ready.
fn poll(futures: &Mutex<Vec<SpawnedFuture>>) {
    let mut context = Context::from_waker(Waker::noop());
    let mut futures = futures.lock().unwrap();
    futures.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
}

/// How many timers of as many partitions were handled while a handler of a node that stops was
/// running; and when it had ended.
fn handled_meanwhile(broken: Option<StoreBreak>) -> (usize, usize) {
    let clock = ManualClock::new();
    let making = Making {
        partitions: PARTITIONS,
        partition_of_key: |key| key.parse::<Partition>().unwrap() % PARTITIONS,
        lease: Duration::from_secs(10),
        claim_ahead: MS * 25,
        has_news: true,
        strikes: true,
        broken,
    };
    let place = SharedPlace::new(making, clock.system_time());
    let (handled, is_over) = (Arc::default(), Arc::default());
    let start = |name| Node::start(&place, name, &clock, &handled, &is_over);
    let nodes = [start("one"), start("other")];
    clock.advance(Duration::from_secs(10));
    for key in 0..PARTITIONS {
        let key = key.to_string();
        let timer = nodes[0].timers.key(&key);
        timer.schedule("mail", Duration::from_secs(5), "").unwrap();
    }
    nodes[0].timers.key("16").schedule("slow", MS, "").unwrap();
    clock.advance(Duration::from_secs(1));
    let [stops, stays] = match nodes {
        [one, other] if one.has_future() => [one, other],
        [one, other] => [other, one],
    };
    assert!(stops.has_future() && !stays.has_future());
    poll(&stops.futures);
    let Node { timers, futures } = stops;
    let client = timers.client();
    // A drop goes on with the stop on another thread, when no more timer begins here.
    drop(timers);
    for _ in 0..200 {
        clock.advance(MS * 100);
        // (It takes its turns here: its part of the clock has ended.)
        client.get(DurableId::from_bits(1)).unwrap();
    }
    let meanwhile = handled.load(Ordering::SeqCst);
    is_over.store(true, Ordering::SeqCst);
    poll(&futures);
    while client.schedule("mail", Duration::MAX, "").is_ok() {
        thread::yield_now();
    }
    clock.advance(Duration::from_secs(20));
    stays.timers.stop().unwrap();
    (meanwhile, handled.load(Ordering::SeqCst))
}

#[test]
fn its_timers_fire_elsewhere_while_a_handler_runs() {
    let all = usize::from(PARTITIONS);
    // (The handler that runs keeps its own partition.)
    assert_eq!(handled_meanwhile(None), (all - 1, all));
}

#[test]
fn a_node_that_keeps_its_share_holds_them_up() {
    let all = usize::from(PARTITIONS);
    let half = all / 2;
    assert_eq!(
        handled_meanwhile(Some(StoreBreak::LeavingIgnored)),
        (half, all)
    );
}
