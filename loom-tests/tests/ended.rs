//! Lanes of threads that have ended: src/lane/README.md. The shard keeps none of them in a model.

use super::lane::{drain, inbox};
use super::recall::{outcome, recallable_inbox};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{Doorbell, FOREVER, Fault};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// A thread sends messages and ends, while the shard drains, trims, and looks for lanes to free.
fn end_against_look() {
    let (inbox, mut lanes) = inbox();
    let producer = inbox.clone();
    let pusher = thread::spawn(move || {
        let mut sender = Held::new(producer.attach());
        (1..=3).for_each(|message| sender.push(message));
    });
    let mut got = Vec::new();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    drain(&mut lanes, 1, &mut got);
    lanes.trim();
    lanes.look();
    pusher.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    assert_eq!(got, [1, 2, 3]);
    assert_eq!(inbox.lanes(), 0, "it is freed");
    assert!(!lanes.wants_look());
}

/// A thread has ended. Another one comes, and gets its lane or one of its own, while the shard
/// looks for lanes to free.
fn attach_against_look() {
    let (inbox, mut lanes) = inbox();
    let mut first = Held::new(inbox.attach());
    first.push(1);
    let mut got = Vec::new();
    drain(&mut lanes, 1, &mut got);
    drop(first);
    let producer = inbox.clone();
    let comer = thread::spawn(move || {
        let mut sender = Held::new(producer.attach());
        sender.push(2);
        sender
    });
    lanes.look();
    drain(&mut lanes, 1, &mut got);
    let sender = comer.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    assert_eq!(got, [1, 2]);
    lanes.look();
    assert_eq!(inbox.lanes(), 1);
    drop(sender);
    lanes.look();
    assert_eq!(inbox.lanes(), 0);
}

/// One thread ends, and one comes, sends and ends. Lanes are used again, or freed.
fn come_and_go_against_look() {
    let (inbox, mut lanes) = inbox();
    let mut first = Held::new(inbox.attach());
    let producer = inbox.clone();
    let leaver = thread::spawn(move || {
        first.push(1);
        drop(first);
    });
    let comer = thread::spawn(move || {
        let mut sender = Held::new(producer.attach());
        (2..=4).for_each(|message| sender.push(message));
    });
    let mut got = Vec::new();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    lanes.trim();
    leaver.join().unwrap();
    comer.join().unwrap();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4]);
    assert_eq!(inbox.lanes(), 0);
}

/// Another thread walks the lanes while the shard frees one, and one that comes meanwhile.
fn walk_against_look() {
    let (inbox, mut lanes) = inbox();
    let [first, second] = [(); 2].map(|()| Held::new(inbox.attach()));
    drop(first);
    let walker = inbox.clone();
    let walker = thread::spawn(move || assert_eq!(walker.depth(), 0));
    lanes.look();
    drop(second);
    lanes.look();
    walker.join().unwrap();
    lanes.look();
    assert!(!lanes.wants_look() && inbox.lanes() == 0);
}

/// The same while a third thread attaches.
fn walk_and_attach_against_look() {
    let (inbox, mut lanes) = inbox();
    let first = Held::new(inbox.attach());
    drop(first);
    let (walker, comer) = (inbox.clone(), inbox.clone());
    let walker = thread::spawn(move || assert!(walker.depth() <= 1));
    let comer = thread::spawn(move || {
        let mut sender = Held::new(comer.attach());
        sender.push(1);
    });
    lanes.look();
    walker.join().unwrap();
    comer.join().unwrap();
    let mut got = Vec::new();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    assert_eq!(got, [1]);
    assert!(!lanes.wants_look() && inbox.lanes() == 0);
}

/// A thread recalls its message, which may be left to the shard, and ends.
fn recall_against_look() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    let pusher = thread::spawn(move || {
        let position = sender.send(1);
        sender.recall(position, 1)
    });
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    let recalled = pusher.join().unwrap();
    lanes.look();
    drain(&mut lanes, 2, &mut got);
    let (came, late) = outcome(&got, 1);
    assert!(
        came == (late || !recalled),
        "recalled: {recalled}, and {got:?} came"
    );
    lanes.look();
    assert_eq!(inbox.lanes(), 0);
}

/// A thread sends a message that may be recalled, and ends. The next one recalls it, if it gets
/// that lane.
fn recall_by_the_next_against_look() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    let position = sender.send(1);
    drop(sender);
    let comer = inbox.clone();
    let comer = thread::spawn(move || {
        let mut next = Held::new(comer.attach());
        let recalled = next.recall(position, 1);
        next.push(2);
        recalled
    });
    lanes.look();
    drain(&mut lanes, 1, &mut got);
    lanes.look();
    let recalled = comer.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    let (came, late) = outcome(&got, 1);
    assert!(
        came == (late || !recalled),
        "recalled: {recalled}, and {got:?} came"
    );
    assert!(got.contains(&2), "{got:?} came");
    lanes.look();
    assert_eq!(inbox.lanes(), 0);
}

/// A thread ends while the shard sleeps, and asks for a look.
fn end_against_sleep() {
    let (inbox, mut lanes) = inbox();
    let bell = Held::new(Arc::new(Doorbell::new()));
    let sender = Held::new(inbox.attach());
    let shard_bell = bell.clone();
    let shard = thread::spawn(move || {
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { shard_bell.attach() };
        while !lanes.wants_look() {
            // SAFETY: this thread has attached.
            unsafe { shard_bell.wait(FOREVER, || lanes.wants_look()) };
        }
        lanes.look();
        lanes
    });
    drop(sender);
    if inbox.wants_ring() {
        bell.ring(0);
    }
    let lanes = shard.join().unwrap();
    assert_eq!(inbox.lanes(), 0);
    drop(lanes);
}

#[test]
fn a_lane_is_freed_when_it_is_read() {
    explore(Some(3), end_against_look);
}

#[test]
fn a_thread_attaches_while_a_lane_is_freed() {
    explore(Some(5), attach_against_look);
}

#[test]
fn lanes_are_used_again_or_freed() {
    explore(Some(2), come_and_go_against_look);
}

#[test]
fn a_lane_outlives_those_who_walk_it() {
    explore(Some(5), walk_against_look);
}

#[test]
fn and_those_who_come() {
    explore(Some(3), walk_and_attach_against_look);
}

#[test]
fn a_recall_is_settled_before_its_lane_is_freed() {
    explore(None, recall_against_look);
}

#[test]
fn a_message_is_recalled_by_the_next_thread_or_comes() {
    explore(Some(4), recall_by_the_next_against_look);
}

#[test]
fn a_thread_that_ends_wakes_the_shard() {
    explore(None, end_against_sleep);
}

#[test]
fn broken_end_of_an_unread_lane() {
    must_fail(
        Fault::LaneEndUnread,
        "left == right",
        Some(3),
        end_against_look,
    );
}

#[test]
fn broken_end_of_an_unsettled_lane() {
    must_fail(
        Fault::LaneEndUnsettled,
        "recalled: true",
        Some(4),
        recall_against_look,
    );
}

#[test]
fn broken_unlink_by_a_store() {
    must_fail(
        Fault::LaneEndStored,
        "left == right",
        Some(4),
        attach_against_look,
    );
}

#[test]
fn broken_end_without_a_fence() {
    must_fail(
        Fault::LaneEndUnfenced,
        "Causality violation",
        Some(4),
        walk_against_look,
    );
}

#[test]
fn broken_walk_without_a_fence() {
    must_fail(
        Fault::LaneWalkUnfenced,
        "Causality violation",
        Some(4),
        walk_against_look,
    );
}

#[test]
fn broken_end_under_a_walk() {
    must_fail(
        Fault::LaneEndUnderWalk,
        "Causality violation",
        Some(4),
        walk_against_look,
    );
}

#[test]
fn broken_leave_of_a_walk() {
    must_fail(
        Fault::LaneWalkLeftRelaxed,
        "Causality violation",
        Some(4),
        walk_against_look,
    );
}

#[test]
fn broken_hand_over_to_the_shard() {
    must_fail(
        Fault::QueueRelaxed,
        "Causality violation",
        Some(3),
        come_and_go_against_look,
    );
}
