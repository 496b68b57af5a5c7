//! Messages of a lane that are recalled, or in doubt: src/lane/README.md.

use super::lane::{LATE, drain, inbox};
use loom::thread;
use wheelwork::internals::loom::{Drain, Fault, Inbox, Sender};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// What came of a message that was recalled or not: it came; it came and was called dead later; it
/// did not come.
pub(crate) fn outcome(got: &[u64], message: u64) -> (bool, bool) {
    (got.contains(&message), got.contains(&(LATE + message)))
}

/// A message that was not recalled came. One that was recalled did not, or was called dead later.
fn assert_came(got: &[u64], message: u64, recalled: bool) {
    let (comes, dies) = outcome(got, message);
    assert!(
        comes == (dies || !recalled),
        "recalled: {recalled}, and {got:?} came"
    );
}

/// The same; and none is called dead that was not recalled.
pub(crate) fn assert_came_rightly(got: &[u64], message: u64, recalled: bool) {
    assert_came(got, message, recalled);
    let (_, dies) = outcome(got, message);
    assert!(recalled || !dies, "not recalled, and {got:?} came");
}

/// A lane whose next messages may be recalled, its drain, and what has come: one message, before
/// them.
fn recallable() -> (Held<Sender<u64>>, Held<Drain<u64>>, Vec<u64>) {
    let (_, sender, lanes, got) = recallable_inbox();
    (sender, lanes, got)
}

type InboxAndLane = (
    Held<Inbox<u64>>,
    Held<Sender<u64>>,
    Held<Drain<u64>>,
    Vec<u64>,
);

/// The same with the inbox, for others to attach to.
pub(crate) fn recallable_inbox() -> InboxAndLane {
    let (inbox, mut lanes) = inbox();
    let mut sender = Held::new(inbox.attach());
    let mut got = Vec::new();
    lanes.let_recall(true);
    sender.push(0);
    drain(&mut lanes, 1, &mut got);
    (inbox, sender, lanes, got)
}

/// A message is pushed and recalled while the shard drains, `drains` times. Whoever is told that it
/// was recalled need do nothing: either it does not come, or the shard is told. Others send a
/// tombstone, and it comes.
fn recall_against(recalls_after: bool, drains: usize) {
    let (mut sender, mut lanes, mut got) = recallable();
    lanes.let_recall(recalls_after);
    if !recalls_after {
        // What it drains may end before the message.
        sender.push(3);
    }
    let pusher = thread::spawn(move || {
        let position = sender.send(1);
        sender.recall(position, 1)
    });
    drain(&mut lanes, drains, &mut got);
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came_rightly(&got, 1, recalled);
}

fn recall_against_drain() {
    recall_against(true, 1);
}

/// The shard stops to let messages be recalled.
fn recall_against_the_last_drain_with_a_fence() {
    recall_against(false, 2);
}

/// The shard drains, and frees what it has read, while one message of an older segment is recalled,
/// and one of the newest.
fn recall_against_trim() {
    let (mut sender, mut lanes, mut got) = recallable();
    let positions: Vec<_> = (1..=7).map(|message| sender.send(message)).collect();
    let pusher = thread::spawn(move || {
        let old = sender.recall(positions[1], 2);
        sender.push(8);
        old
    });
    drain(&mut lanes, 1, &mut got);
    lanes.trim();
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came(&got, 2, recalled);
    got.retain(|message| *message < LATE && *message != 2);
    assert_eq!(got, [0, 1, 3, 4, 5, 6, 7, 8]);
}

/// A recall is left to the shard, and the segment is not used again before the shard has looked.
fn recall_against_reuse() {
    let (mut sender, mut lanes, mut got) = recallable();
    let position = sender.send(1);
    sender.push(2);
    let pusher = thread::spawn(move || {
        let recalled = sender.recall(position, 1);
        (3..=5).for_each(|message| sender.push(message));
        recalled
    });
    drain(&mut lanes, 2, &mut got);
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came(&got, 1, recalled);
    got.retain(|message| *message < LATE && *message != 1);
    assert_eq!(got, [0, 2, 3, 4, 5]);
}

/// What comes of a message that one thread sends and leaves, and that the next thread, which has
/// its lane, recalls. What that one sends comes.
fn recall_by_the_next_thread() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    let pusher = thread::spawn(move || {
        let position = sender.send(1);
        drop(sender);
        let mut next = Held::new(inbox.attach());
        let recalled = next.recall(position, 1);
        next.push(2);
        recalled
    });
    drain(&mut lanes, 2, &mut got);
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came_rightly(&got, 1, recalled);
    assert!(
        got.ends_with(&[2]) || got.ends_with(&[2, LATE + 1]),
        "{got:?} came"
    );
}

/// A thread recalls its message, which may be left to the shard, and leaves. The next thread
/// recalls the second one, and uses the segment again.
fn recall_left_behind() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    let positions = [1, 2].map(|message| sender.send(message));
    let pusher = thread::spawn(move || {
        let first = sender.recall(positions[0], 1);
        drop(sender);
        let mut next = Held::new(inbox.attach());
        let second = next.recall(positions[1], 2);
        (3..=5).for_each(|message| next.push(message));
        [first, second]
    });
    drain(&mut lanes, 2, &mut got);
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    let [first, second] = [1, 2].map(|message| outcome(&got, message));
    assert!(
        first.0 == (first.1 || !recalled[0]),
        "recalled: {recalled:?}, and {got:?} came"
    );
    // The shard sees to one at a time: the second one may be said to come, and not come.
    assert!(
        if recalled[1] {
            second.0 == second.1
        } else {
            !second.1
        },
        "recalled: {recalled:?}, and {got:?} came"
    );
    got.retain(|message| ![1, 2, LATE + 1, LATE + 2].contains(message));
    assert_eq!(got, [0, 3, 4, 5], "recalled: {recalled:?}");
}

/// A thread sends a message and leaves, while another comes, and recalls it if it gets that lane.
/// The shard drains meanwhile.
fn recall_by_a_thread_that_comes() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    // Its number is known: the second one of the lane.
    let position = 1;
    let leaver = thread::spawn(move || assert_eq!(sender.send(1), position));
    let comer = thread::spawn(move || {
        let mut sender = Held::new(inbox.attach());
        let recalled = sender.recall(position, 1);
        sender.push(2);
        recalled
    });
    drain(&mut lanes, 1, &mut got);
    leaver.join().unwrap();
    let recalled = comer.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came_rightly(&got, 1, recalled);
    assert!(got.contains(&2), "{got:?} came");
}

/// A thread makes a lane, sends and recalls, while the shard drains the lanes that it sees: in some
/// drains it finds the new one only after its claim.
fn recall_in_a_new_lane() {
    let (inbox, mut sender, mut lanes, mut got) = recallable_inbox();
    sender.push(3);
    let pusher = thread::spawn(move || {
        let mut new = Held::new(inbox.attach());
        let positions = [1, 2].map(|message| new.send(message));
        new.recall(positions[1], 2)
    });
    drain(&mut lanes, 2, &mut got);
    let recalled = pusher.join().unwrap();
    drain(&mut lanes, 2, &mut got);
    assert_came_rightly(&got, 2, recalled);
    got.retain(|message| *message < LATE && *message != 2);
    got.sort_unstable();
    assert_eq!(got, [0, 1, 3]);
}

/// What comes while another thread sends, and what is said of it if it is in doubt.
fn doubts_of(send: impl FnOnce(&mut Sender<u64>) + 'static) -> Vec<(u64, Option<u64>)> {
    doubts_through(|_, mut sender| send(&mut sender))
}

/// The same; it may leave its lane, and attach to the inbox.
fn doubts_through(
    send: impl FnOnce(&Inbox<u64>, Held<Sender<u64>>) + 'static,
) -> Vec<(u64, Option<u64>)> {
    let (inbox, mut lanes) = inbox();
    let sender = Held::new(inbox.attach());
    let pusher = thread::spawn(move || send(&inbox, sender));
    let mut got = Vec::new();
    let mut drain = || lanes.drain_doubts(|message, _, doubt| got.push((message, doubt)));
    drain();
    drain();
    pusher.join().unwrap();
    drain();
    got
}

/// Two are in doubt, and stay so: with their own word, or a lesser one, of each other.
fn doubts_against_drain() {
    let got = doubts_of(|sender| {
        sender.push_in_doubt(1, 10);
        sender.settle_doubts(false);
        sender.push_in_doubt(2, 20);
        sender.push(3);
    });
    // If the first one was read before, its word is forgotten.
    assert!(
        matches!(got[..], [(1, Some(10)), (2, Some(10 | 20)), (3, None)]),
        "in doubt: {got:?}"
    );
}

/// The first one is vouched for, the second one not. In a segment that is used again nothing is
/// left of that.
fn vouched_for_against_drain() {
    let got = doubts_of(|sender| {
        sender.push_in_doubt(1, 10);
        sender.settle_doubts(true);
        sender.push_in_doubt(2, 20);
        sender.settle_doubts(false);
        (3..=6).for_each(|message| sender.push(message));
    });
    assert!(
        matches!(
            got[..],
            [
                (1, _),
                (2, Some(20)),
                (3, None),
                (4, None),
                (5, None),
                (6, None)
            ]
        ),
        "in doubt: {got:?}"
    );
}

/// A thread leaves a message in doubt. The next one, which has its lane, does not vouch for it, but
/// for its own.
fn doubts_left_behind() {
    let got = doubts_through(|inbox, mut sender| {
        sender.push_in_doubt(1, 10);
        drop(sender);
        let mut next = Held::new(inbox.attach());
        next.settle_doubts(false);
        next.push_in_doubt(2, 20);
        next.settle_doubts(true);
        next.push(3);
    });
    // The second one may have been read before it was vouched for.
    assert!(
        matches!(
            got[..],
            [(1, Some(10)), (2, None | Some(10 | 20)), (3, None)]
        ),
        "in doubt: {got:?}"
    );
}

/// A message in doubt is recalled; the one beside it stays in doubt, and what is sent after that is
/// in none.
fn recall_of_a_doubt() {
    let (mut sender, mut lanes, _) = recallable();
    let pusher = thread::spawn(move || {
        let position = sender.push_in_doubt(1, 10);
        let recalled = sender.recall(position, 1);
        sender.push_in_doubt(2, 20);
        sender.settle_doubts(false);
        sender.push(3);
        recalled
    });
    let mut got = Vec::new();
    let mut drain = || {
        lanes.drain_doubts(|message, late, doubt| {
            got.push((message + if late { LATE } else { 0 }, doubt))
        })
    };
    drain();
    let recalled = pusher.join().unwrap();
    drain();
    drain();
    let messages: Vec<_> = got.iter().map(|&(message, _)| message).collect();
    let (comes, dies) = outcome(&messages, 1);
    assert!(
        comes == (dies || !recalled) && (recalled || !dies),
        "recalled: {recalled}, and {got:?} came"
    );
    // The first one was in doubt, come or not: the second one may be said to be in its doubt.
    let is_right = |&(message, doubt)| {
        matches!(
            (message, doubt),
            (1, Some(10)) | (2, Some(10 | 20)) | (3 | 101, None)
        )
    };
    assert!(
        got.iter().all(is_right) && messages.contains(&2) && messages.contains(&3),
        "in doubt: {got:?}"
    );
}

/// Two threads have a lane each, and leave. What each has left in doubt stays so, with its own
/// word: in a lane that a third one may have taken over.
fn doubts_of_threads_that_come_and_go() {
    let (inbox, mut lanes) = inbox();
    let pushers = [(1, 10), (2, 20)].map(|(message, word)| {
        let inbox = inbox.clone();
        thread::spawn(move || {
            let mut sender = Held::new(inbox.attach());
            sender.settle_doubts(false);
            sender.push_in_doubt(message, word);
        })
    });
    let mut got = Vec::new();
    let mut drain = || lanes.drain_doubts(|message, _, doubt| got.push((message, doubt)));
    drain();
    pushers
        .into_iter()
        .for_each(|pusher| pusher.join().unwrap());
    drain();
    got.sort_unstable();
    // In one lane the lesser word may be heard of both.
    assert!(
        matches!(got[..], [(1, Some(10)), (2, Some(10 | 20))]),
        "in doubt: {got:?}"
    );
}

#[test]
fn a_recalled_message_does_not_come() {
    explore(None, recall_against_drain);
}

#[test]
fn nor_when_the_shard_stops_to_let_them_be_recalled() {
    explore(None, recall_against_the_last_drain_with_a_fence);
}

#[test]
fn trim_leaves_what_may_be_recalled() {
    explore(Some(3), recall_against_trim);
}

#[test]
fn a_segment_is_reused_when_its_recalls_are_settled() {
    explore(Some(2), recall_against_reuse);
}

#[test]
fn what_is_in_doubt_comes_so() {
    explore(Some(3), doubts_against_drain);
}

#[test]
fn what_is_vouched_for_leaves_others_in_doubt() {
    explore(Some(2), vouched_for_against_drain);
}

#[test]
fn a_message_in_doubt_is_recalled() {
    explore(Some(4), recall_of_a_doubt);
}

#[test]
fn broken_recall_of_a_doubt() {
    must_fail(
        Fault::LaneNoRecallFence,
        "recalled: true",
        Some(4),
        recall_of_a_doubt,
    );
}

#[test]
fn broken_doubt_beside_a_recall() {
    must_fail(Fault::LaneDoubtLate, "in doubt", Some(4), recall_of_a_doubt);
}

#[test]
fn a_message_is_recalled_by_the_next_thread() {
    explore(Some(4), recall_by_the_next_thread);
}

#[test]
fn a_recall_outlives_its_thread() {
    explore(Some(2), recall_left_behind);
}

#[test]
fn a_message_is_recalled_by_a_thread_that_comes_meanwhile() {
    explore(Some(3), recall_by_a_thread_that_comes);
}

#[test]
fn a_new_lanes_message_is_recalled_or_comes() {
    explore(Some(4), recall_in_a_new_lane);
}

#[test]
fn a_doubt_outlives_its_thread() {
    explore(Some(3), doubts_left_behind);
}

#[test]
fn doubts_stay_when_threads_come_and_go() {
    explore(Some(3), doubts_of_threads_that_come_and_go);
}

#[test]
fn broken_hand_over_to_a_thread_that_comes() {
    must_fail(
        Fault::QueueRelaxed,
        "Causality violation",
        Some(3),
        recall_by_a_thread_that_comes,
    );
}

#[test]
fn broken_hand_over_of_doubts() {
    must_fail(
        Fault::QueueRelaxed,
        "Causality violation",
        Some(3),
        doubts_of_threads_that_come_and_go,
    );
}

#[test]
fn broken_reuse_before_the_recall_of_an_ended_thread_is_settled() {
    must_fail(
        Fault::LaneReuseUnsettled,
        "recalled: ",
        Some(3),
        recall_left_behind,
    );
}

#[test]
fn broken_recall_by_the_next_thread() {
    must_fail(
        Fault::LaneNoRecallFence,
        "recalled: true",
        Some(4),
        recall_by_the_next_thread,
    );
}

#[test]
fn broken_claim_of_a_new_lane() {
    must_fail(
        Fault::LaneNoDrainFence,
        "recalled: true",
        Some(4),
        recall_in_a_new_lane,
    );
}

#[test]
fn broken_attach_of_a_new_lane() {
    must_fail(
        Fault::LaneAttachRelaxed,
        "Causality violation",
        Some(4),
        recall_in_a_new_lane,
    );
}

#[test]
fn broken_doubts_of_an_ended_thread() {
    must_fail(
        Fault::LaneDoubtsLeftOpen,
        "in doubt",
        Some(3),
        doubts_left_behind,
    );
}

#[test]
fn broken_doubt_not_least() {
    must_fail(
        Fault::LaneDoubtNotLeast,
        "in doubt",
        None,
        doubts_against_drain,
    );
}

#[test]
fn broken_doubt_too_late() {
    must_fail(Fault::LaneDoubtLate, "in doubt", None, doubts_against_drain);
}

#[test]
fn broken_doubt_kept() {
    must_fail(
        Fault::LaneDoubtKept,
        "in doubt",
        Some(3),
        vouched_for_against_drain,
    );
}

#[test]
fn broken_recall_without_a_fence() {
    must_fail(
        Fault::LaneNoRecallFence,
        "recalled: true",
        None,
        recall_against_drain,
    );
}

#[test]
fn broken_claim_without_a_fence() {
    must_fail(
        Fault::LaneNoDrainFence,
        "recalled: true",
        None,
        recall_against_drain,
    );
}

#[test]
fn broken_recall_without_a_second_look() {
    must_fail(
        Fault::LaneClaimIgnored,
        "recalled: true",
        None,
        recall_against_drain,
    );
}

#[test]
fn broken_recall_that_nobody_sees_to() {
    must_fail(
        Fault::LaneUnsureSkipped,
        "recalled: true",
        None,
        recall_against_drain,
    );
}
