//! Doorbell: src/doorbell/README.md. The park is unbounded here, so that a lost wake-up is a
//! deadlock.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{Doorbell, Drain, FOREVER, Fault, Inbox};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// Drains and sleeps until `messages` have come; returns how often it slept, or nearly.
fn shard(bell: &Doorbell, drain: &mut Drain<u64>, messages: u64) -> u64 {
    // SAFETY: once, before the waits below; no other thread waits.
    unsafe { bell.attach() };
    let (mut got, mut sleeps) = (0, 0);
    loop {
        got += drain.drain(|_, _| {});
        if got == messages {
            return sleeps;
        }
        // SAFETY: this thread has attached.
        unsafe { bell.wait(FOREVER, || drain.has_messages()) };
        sleeps += 1;
    }
}

/// The model of `producers` producers, the first of which is its own thread. Each sends `each`
/// messages that are due at once.
///
/// The shard is a thread that ends when it has all: a late unpark would wake the model's own thread
/// from a `join`, in loom only.
fn ring_against_wait(producers: u64, each: u64) {
    let (inbox, drain) = Inbox::new();
    let (inbox, mut drain) = (Held::new(inbox), Held::new(drain));
    let bell = Held::new(Arc::new(Doorbell::new()));
    let shard_bell = bell.clone();
    let shard = thread::spawn(move || (shard(&shard_bell, &mut drain, producers * each), drain));
    let mut ringers = (0..producers).map(|_| {
        let (bell, mut sender) = (bell.clone(), Held::new(inbox.attach()));
        move || {
            for message in 0..each {
                sender.push(message);
                bell.ring(1);
            }
            sender
        }
    });
    let first = ringers.next().expect("at least one");
    let others: Vec<_> = ringers.map(thread::spawn).collect();
    let mut senders = vec![first()];
    senders.extend(others.into_iter().map(|ringer| ringer.join().unwrap()));
    let (sleeps, drain) = shard.join().unwrap();
    assert!(bell.rings() <= sleeps, "a sleep costs one unpark at most");
    drop((senders, drain));
}

fn one_ring() {
    ring_against_wait(1, 1);
}

fn one_ringer() {
    ring_against_wait(1, 2);
}

fn two_ringers() {
    ring_against_wait(2, 1);
}

/// The tick until which the shard of the next model sleeps.
const WAKE_AT: u64 = 10;

/// A shard whose look takes messages in: one that is due after its sleep, which nobody rings for,
/// and one before it. It sleeps as long as nothing is due before that; here that is for ever.
fn ring_against_look() {
    let (inbox, drain) = Inbox::new();
    let (inbox, mut drain) = (Held::new(inbox), Held::new(drain));
    let bell = Held::new(Arc::new(Doorbell::new()));
    let shard_bell = bell.clone();
    let shard = thread::spawn(move || {
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { shard_bell.attach() };
        let mut is_due = false;
        while !is_due {
            // SAFETY: this thread has attached.
            unsafe {
                shard_bell.wait(WAKE_AT, || {
                    drain.drain(|deadline, _| is_due |= deadline < WAKE_AT);
                    is_due
                });
            }
            drain.drain(|deadline, _| is_due |= deadline < WAKE_AT);
        }
        drain
    });
    let mut sender = Held::new(inbox.attach());
    for deadline in [WAKE_AT + 1, WAKE_AT - 1] {
        sender.push(deadline);
        bell.ring(deadline);
    }
    let drain = shard.join().unwrap();
    drop((sender, drain));
}

/// The stop of a service: no message, a mark that the shard looks at instead.
fn ring_without_message() {
    let bell = Held::new(Arc::new(Doorbell::new()));
    let mark = Held::new(Arc::new(AtomicBool::new(false)));
    let (shard_bell, shard_mark) = (bell.clone(), mark.clone());
    let shard = thread::spawn(move || {
        // Ordering: Relaxed. Ordered by the fence in `wait`; otherwise a hint.
        let marked = || shard_mark.load(Ordering::Relaxed);
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { shard_bell.attach() };
        while !marked() {
            // SAFETY: this thread has attached.
            unsafe { shard_bell.wait(FOREVER, marked) };
        }
    });
    // Ordering: Relaxed. Ordered by the fence in `ring`.
    mark.store(true, Ordering::Relaxed);
    bell.ring(0);
    shard.join().unwrap();
}

#[test]
fn no_wake_up_is_lost() {
    explore(None, one_ring);
}

#[test]
fn no_wake_up_of_the_second_sleep_is_lost() {
    explore(Some(4), one_ringer);
}

#[test]
fn no_wake_up_of_two_is_lost() {
    explore(Some(3), two_ringers);
}

#[test]
fn no_wake_up_of_a_shard_that_takes_in_is_lost() {
    explore(Some(4), ring_against_look);
}

#[test]
fn a_mark_wakes_as_a_message_does() {
    explore(None, ring_without_message);
}

#[test]
fn broken_ring_fence() {
    must_fail(Fault::DoorbellNoRingFence, "deadlock", None, one_ring);
}

#[test]
fn broken_wait_fence() {
    must_fail(Fault::DoorbellNoSleepFence, "deadlock", None, one_ring);
}

#[test]
fn broken_second_look() {
    must_fail(Fault::DoorbellNoSecondLook, "deadlock", None, one_ring);
}

#[test]
fn broken_look_that_takes_in() {
    must_fail(
        Fault::DoorbellNoSecondLook,
        "deadlock",
        None,
        ring_against_look,
    );
}

#[test]
fn broken_fence_before_a_look_that_takes_in() {
    must_fail(
        Fault::DoorbellNoSleepFence,
        "deadlock",
        None,
        ring_against_look,
    );
}

#[test]
fn broken_unpark() {
    must_fail(Fault::DoorbellNoUnpark, "deadlock", None, one_ring);
}

#[test]
fn broken_announcement() {
    must_fail(
        Fault::DoorbellAnnounceRelaxed,
        "Causality violation",
        None,
        one_ring,
    );
}
