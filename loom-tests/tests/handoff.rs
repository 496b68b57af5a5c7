//! The whole way of a timer: schedule (arm, push, ring) on one side; wait, drain and claim on the
//! other.

use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{Cells, Entry, FOREVER, Fault, Shard};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail};

const DUE: u64 = 1;

/// A payload with an inside, to see that it comes complete.
type Payload = Box<usize>;

type Won = Ledger<2>;

/// Drains and claims until this number of messages has come.
fn shard(cells: &Cells<Payload>, shard: &mut Shard, messages: u64, won: &Won) {
    let mut local = Held::new(cells.local());
    // SAFETY: once, before the waits below; no other thread waits.
    unsafe { shard.attach() };
    let mut got = 0;
    loop {
        let mut due: Vec<Entry> = Vec::new();
        got += shard.drain(|entry| due.push(entry));
        for entry in due.into_iter().filter(|entry| !entry.is_tombstone()) {
            if let Some(payload) = cells.claim_due(&mut local, entry) {
                assert_eq!(won.add(*payload), 1, "fired twice");
            }
        }
        if got >= messages {
            return;
        }
        // SAFETY: this thread has attached.
        unsafe { shard.wait(FOREVER) };
    }
}

/// Each producer has a timer; one of them is the model's own thread.
fn schedule_and_fire(producers: usize) {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let won = Arc::new(Won::new());
    let (shard_cells, shard_won) = (cells.clone(), won.clone());
    let shard = thread::spawn(move || {
        shard(&shard_cells, &mut lanes, producers as u64, &shard_won);
        lanes
    });
    let others: Vec<_> = (1..producers)
        .map(|number| {
            let cells = cells.clone();
            thread::spawn(move || {
                let mut local = Held::new(cells.local());
                cells
                    .admit(&mut local, DUE, Box::new(number))
                    .expect("not stopped");
                local
            })
        })
        .collect();
    let mut local = Held::new(cells.local());
    cells
        .admit(&mut local, DUE, Box::new(0))
        .expect("not stopped");
    let locals: Vec<_> = others
        .into_iter()
        .map(|other| other.join().unwrap())
        .collect();
    let lanes = shard.join().unwrap();
    assert_eq!(won.counts()[..producers], [1, 1][..producers]);
    drop((locals, local, lanes));
}

fn one_timer() {
    schedule_and_fire(1);
}

fn two_timers() {
    schedule_and_fire(2);
}

/// The timer is cancelled while it is on its way. A second one rings the shard, since a tombstone
/// does not.
fn schedule_and_cancel() {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let won = Arc::new(Won::new());
    let (shard_cells, shard_won) = (cells.clone(), won.clone());
    let shard = thread::spawn(move || {
        shard(&shard_cells, &mut lanes, 2, &shard_won);
        lanes
    });
    let mut local = Held::new(cells.local());
    let first = cells
        .admit(&mut local, DUE, Box::new(0))
        .expect("not stopped");
    if let Some(payload) = cells.take(&mut local, first) {
        won.add(*payload);
    }
    let second = cells
        .admit(&mut local, DUE, Box::new(1))
        .expect("not stopped");
    let lanes = shard.join().unwrap();
    // The shard had two messages, which may have been the first timer and its tombstone.
    if let Some(payload) = cells.claim_due(&mut local, Entry::of(second, DUE)) {
        won.add(*payload);
    }
    assert_eq!(won.counts(), [1, 1]);
    drop((local, lanes));
}

#[test]
fn a_scheduled_timer_fires() {
    explore(Some(4), one_timer);
}

#[test]
fn two_scheduled_timers_fire() {
    explore(Some(2), two_timers);
}

#[test]
fn a_scheduled_timer_fires_or_is_cancelled() {
    explore(Some(2), schedule_and_cancel);
}

#[test]
fn broken_ring() {
    must_fail(Fault::DoorbellNoRingFence, "deadlock", Some(4), one_timer);
}

#[test]
fn broken_second_look() {
    must_fail(Fault::DoorbellNoSecondLook, "deadlock", Some(4), one_timer);
}

#[test]
fn broken_publish() {
    must_fail(
        Fault::LanePublishRelaxed,
        "Causality violation",
        Some(4),
        one_timer,
    );
}
