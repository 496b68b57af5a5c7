//! Lane and inbox: src/lane/README.md. What is recalled, or in doubt: `recall.rs`.

use loom::thread;
use wheelwork::internals::loom::{Drain, Fault, Inbox};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// An inbox, and its drain.
pub(crate) fn inbox() -> (Held<Inbox<u64>>, Held<Drain<u64>>) {
    let (inbox, drain) = Inbox::new();
    (Held::new(inbox), Held::new(drain))
}

/// Added to a message that was recalled after it came.
pub(crate) const LATE: u64 = 100;

/// Drains `times` times, as far as it has come.
pub(crate) fn drain(drain: &mut Drain<u64>, times: usize, got: &mut Vec<u64>) {
    for _ in 0..times {
        drain.drain(|message, late| got.push(if late { LATE + message } else { message }));
    }
}

/// Five messages are three segments, of which the third may be the first one again.
fn push_against_drain() {
    let (inbox, mut lanes) = inbox();
    let producer = inbox.clone();
    let pusher = thread::spawn(move || {
        let mut sender = Held::new(producer.attach());
        (1..=5).for_each(|message| sender.push(message));
    });
    let mut got = Vec::new();
    drain(&mut lanes, 2, &mut got);
    pusher.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    assert_eq!(got, [1, 2, 3, 4, 5]);
    assert!(!lanes.has_messages());
}

/// The shard stands at the end of segment 0, the producer at the end of segment 1: what comes next
/// may reuse segment 0.
fn reuse_while_the_shard_moves_on() {
    let (inbox, mut lanes) = inbox();
    let mut sender = Held::new(inbox.attach());
    let mut got = Vec::new();
    (1..=2).for_each(|message| sender.push(message));
    drain(&mut lanes, 1, &mut got);
    (3..=4).for_each(|message| sender.push(message));
    let pusher = thread::spawn(move || (5..=7).for_each(|message| sender.push(message)));
    drain(&mut lanes, 3, &mut got);
    pusher.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    assert_eq!(got, [1, 2, 3, 4, 5, 6, 7]);
}

/// The idle shard frees segments while the producer looks for one to reuse.
fn trim_against_push() {
    let (inbox, mut lanes) = inbox();
    let mut sender = Held::new(inbox.attach());
    let mut got = Vec::new();
    (1..=5).for_each(|message| sender.push(message));
    drain(&mut lanes, 1, &mut got);
    // Segments 0 and 1 are free now, and the producer has one message to go in segment 2.
    let pusher = thread::spawn(move || (6..=8).for_each(|message| sender.push(message)));
    lanes.trim();
    drain(&mut lanes, 1, &mut got);
    lanes.trim();
    pusher.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    lanes.trim();
    assert_eq!(got, [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// A thread ends while another comes, which gets its lane or one of its own.
fn lane_taken_over() {
    let (inbox, mut lanes) = inbox();
    let pushers = [10, 20].map(|first| {
        let producer = inbox.clone();
        thread::spawn(move || {
            let mut sender = Held::new(producer.attach());
            (first..first + 2).for_each(|message| sender.push(message));
        })
    });
    let mut got = Vec::new();
    drain(&mut lanes, 1, &mut got);
    pushers
        .into_iter()
        .for_each(|pusher| pusher.join().unwrap());
    drain(&mut lanes, 1, &mut got);
    for first in [10, 20] {
        let of_one: Vec<_> = got
            .iter()
            .copied()
            .filter(|message| (first..first + 10).contains(message))
            .collect();
        assert_eq!(of_one, [first, first + 1]);
    }
    assert_eq!(got.len(), 4);
}

/// Two threads attach at the same time, while the shard walks the list of lanes.
fn two_attach() {
    let (inbox, mut lanes) = inbox();
    let pushers = [1, 2].map(|message| {
        let producer = inbox.clone();
        thread::spawn(move || {
            let mut sender = Held::new(producer.attach());
            sender.push(message);
            sender
        })
    });
    let mut got = Vec::new();
    drain(&mut lanes, 2, &mut got);
    let senders = pushers.map(|pusher| pusher.join().unwrap());
    drain(&mut lanes, 1, &mut got);
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    drop(senders);
}

#[test]
fn messages_come_once_and_in_order() {
    explore(Some(2), push_against_drain);
}

#[test]
fn a_segment_is_reused_when_the_shard_has_left_it() {
    explore(Some(3), reuse_while_the_shard_moves_on);
}

#[test]
fn trim_and_push_share_the_chain() {
    explore(Some(4), trim_against_push);
}

#[test]
fn a_lane_outlives_its_thread() {
    explore(Some(3), lane_taken_over);
}

#[test]
fn lanes_attach_at_the_same_time() {
    explore(Some(3), two_attach);
}

#[test]
fn broken_publish() {
    must_fail(
        Fault::LanePublishRelaxed,
        "Causality violation",
        Some(4),
        push_against_drain,
    );
}

#[test]
fn broken_recycle() {
    must_fail(
        Fault::LaneReleaseRelaxed,
        "Causality violation",
        Some(4),
        push_against_drain,
    );
}

#[test]
fn broken_reuse_too_early() {
    must_fail(
        Fault::LaneReuseTooEarly,
        "Causality violation",
        Some(4),
        reuse_while_the_shard_moves_on,
    );
}

#[test]
fn broken_busy_ignored() {
    must_fail(
        Fault::LaneBusyIgnored,
        "Causality violation",
        Some(4),
        trim_against_push,
    );
}

#[test]
fn broken_busy_left_relaxed() {
    must_fail(
        Fault::LaneBusyRelaxed,
        "Causality violation",
        Some(4),
        trim_against_push,
    );
}

#[test]
fn broken_attach() {
    must_fail(
        Fault::LaneAttachRelaxed,
        "Causality violation",
        Some(3),
        two_attach,
    );
}
