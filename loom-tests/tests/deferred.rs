//! Messages that wait in their lane: src/lane/README.md.

use super::lane::{LATE, inbox};
use super::recall::{assert_came_rightly, outcome};
use loom::thread;
use wheelwork::internals::loom::{Drain, Fault, Inbox, Sender};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// The present key when the models begin, one at which nothing is due, and one after the patience
/// with a lane to which nothing is sent.
const NOW: u64 = 100;
const QUIET: u64 = NOW + 50;

/// A key that is far away, and one that is due before `QUIET`.
const FAR: u64 = 10_000;
const NEAR: u64 = NOW + 20;

type World = (
    Held<Inbox<u64>>,
    Held<Sender<u64>>,
    Held<Drain<u64>>,
    Vec<u64>,
);

/// A lane of which far messages wait, and its drain.
fn open() -> World {
    let (inbox, mut lanes) = inbox();
    let mut sender = Held::new(inbox.attach());
    (0..2).for_each(|_| sender.push(0));
    lanes.drain_at(NOW, |message, _| assert_eq!(message, 0));
    lanes.defer(NOW);
    (inbox, sender, lanes, Vec::new())
}

fn drain_at(lanes: &mut Drain<u64>, now: u64, got: &mut Vec<u64>) {
    lanes.drain_at(now, |message, late| {
        got.push(if late { LATE + message } else { message });
    });
}

/// Takes all that is left.
fn end(lanes: &mut Drain<u64>, got: &mut Vec<u64>) {
    drain_at(lanes, QUIET, got);
    drain_at(lanes, 2 * QUIET, got);
    assert!(!lanes.has_messages());
}

/// Two messages are sent and the first one recalled, while the shard sees them and passes over what
/// is recalled, `drains` times. At the end it takes what is left.
fn recall_against_pass() {
    let (_, mut sender, mut lanes, mut got) = open();
    let pusher = thread::spawn(move || {
        let position = sender.send_by_key(1, FAR);
        let recalled = sender.recall(position, 1);
        sender.send_by_key(2, FAR);
        recalled
    });
    drain_at(&mut lanes, NOW, &mut got);
    drain_at(&mut lanes, NOW, &mut got);
    let recalled = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    assert_came_rightly(&got, 1, recalled);
    assert!(got.contains(&2), "{got:?} came");
}

/// A message is recalled while the shard takes it, because the lane is quiet.
fn recall_against_quiet() {
    let (_, mut sender, mut lanes, mut got) = open();
    let positions = [1, 2].map(|message| sender.send_by_key(message, FAR));
    drain_at(&mut lanes, NOW, &mut got);
    let pusher = thread::spawn(move || {
        let second = sender.recall(positions[1], 2);
        (second, sender.recall(positions[0], 1))
    });
    drain_at(&mut lanes, QUIET, &mut got);
    let (second, first) = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    // The shard sees to one recall that it meets. The other one may say that it failed, and the
    // message may come or not.
    for (message, recalled) in [(1, first), (2, second)] {
        let (comes, dies) = outcome(&got, message);
        assert!(
            if recalled { comes == dies } else { !dies },
            "recalled: {recalled}, and {got:?} came"
        );
    }
}

/// A message is recalled while the shard takes it, because one behind it is due. The lane stays
/// open, and a later message is recalled from the segments that are used again.
fn recall_against_due() {
    let (_, mut sender, mut lanes, mut got) = open();
    let position = sender.send_by_key(1, FAR);
    sender.send_by_key(2, NEAR);
    drain_at(&mut lanes, NOW, &mut got);
    let pusher = thread::spawn(move || {
        let first = sender.recall(position, 1);
        let position = sender.send_by_key(3, FAR);
        (first, sender.recall(position, 3))
    });
    drain_at(&mut lanes, NEAR, &mut got);
    drain_at(&mut lanes, NEAR, &mut got);
    let (first, third) = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    assert_came_rightly(&got, 1, first);
    assert!(got.contains(&2), "{got:?} came");
    let (comes, dies) = outcome(&got, 3);
    assert!(
        if third { comes == dies } else { !dies },
        "recalled: {third}, and {got:?} came"
    );
}

/// A message is sent behind far ones, and is due sooner. The shard has seen it, and takes it then.
fn due_behind_far_ones() {
    let (_, mut sender, mut lanes, mut got) = open();
    let pusher = thread::spawn(move || {
        sender.send_by_key(1, FAR);
        sender.send_by_key(2, FAR);
        sender.send_by_key(3, FAR);
        sender.send_by_key(4, NEAR);
        sender
    });
    drain_at(&mut lanes, NOW, &mut got);
    let mut sender = pusher.join().unwrap();
    drain_at(&mut lanes, NOW, &mut got);
    // The lane is not quiet.
    sender.send_by_key(5, FAR);
    drain_at(&mut lanes, NEAR, &mut got);
    assert!(got.contains(&4), "4 is due, and {got:?} came");
    end(&mut lanes, &mut got);
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4, 5]);
}

/// The shard takes what waits and frees the segments, while the producer recalls a message that
/// lies in one of them.
fn recall_against_trim() {
    let (_, mut sender, mut lanes, mut got) = open();
    let positions: Vec<_> = (1..=9)
        .map(|message| sender.send_by_key(message, FAR))
        .collect();
    let pusher = thread::spawn(move || sender.recall(positions[1], 2));
    drain_at(&mut lanes, NOW, &mut got);
    drain_at(&mut lanes, QUIET, &mut got);
    lanes.trim();
    let recalled = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    lanes.trim();
    assert_came_rightly(&got, 2, recalled);
    got.retain(|message| *message < LATE && *message != 2);
    assert_eq!(got, [1, 3, 4, 5, 6, 7, 8, 9]);
}

/// The same with an old position, at which another message lies.
fn vain_recall_against_trim() {
    let (_, mut sender, mut lanes, mut got) = open();
    let positions: Vec<_> = (1..=9)
        .map(|message| sender.send_by_key(message, FAR))
        .collect();
    let pusher = thread::spawn(move || assert!(!sender.recall(positions[1], 77)));
    drain_at(&mut lanes, NOW, &mut got);
    drain_at(&mut lanes, QUIET, &mut got);
    lanes.trim();
    pusher.join().unwrap();
    end(&mut lanes, &mut got);
    assert_eq!(got, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// The shard passes over what is dead and frees the segments, and messages go on waiting. The
/// producer looks for another message at an old position, and recalls one that waits.
fn recalls_against_trim_of_what_waits() {
    let (_, mut sender, mut lanes, mut got) = open();
    let positions: Vec<_> = (1..=9)
        .map(|message| sender.send_by_key(message, FAR))
        .collect();
    lanes.trim_unused();
    for message in 1..=8 {
        assert!(sender.recall(positions[message as usize - 1], message));
    }
    let pusher = thread::spawn(move || {
        assert!(!sender.recall(positions[1], 77));
        let recalled = sender.recall(positions[8], 9);
        sender.send_by_key(10, FAR);
        recalled
    });
    drain_at(&mut lanes, NOW, &mut got);
    lanes.trim_unused();
    let recalled = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    assert_came_rightly(&got, 9, recalled);
    assert!(got.contains(&10), "{got:?} came");
}

/// A thread sends a message that waits, and leaves. The next thread of the lane recalls it, while
/// the shard looks.
fn recall_by_the_next_thread() {
    let (inbox, mut sender, mut lanes, mut got) = open();
    let pusher = thread::spawn(move || {
        let position = sender.send_by_key(1, FAR);
        drop(sender);
        let mut next = Held::new(inbox.attach());
        let recalled = next.recall(position, 1);
        next.send_by_key(2, FAR);
        recalled
    });
    drain_at(&mut lanes, NOW, &mut got);
    drain_at(&mut lanes, QUIET, &mut got);
    let recalled = pusher.join().unwrap();
    end(&mut lanes, &mut got);
    assert_came_rightly(&got, 1, recalled);
    assert!(got.contains(&2), "{got:?} came");
}

/// Two messages wait that are in doubt, the first one until it is vouched for: then any word is
/// right. The shard settles their doubts when it sees them.
fn doubts_of_what_waits() {
    let (_, mut sender, mut lanes, _) = open();
    let pusher = thread::spawn(move || {
        sender.push_in_doubt_by_key(1, FAR, 10);
        sender.settle_doubts(true);
        sender.push_in_doubt_by_key(2, FAR, 20);
        sender.settle_doubts(false);
        sender.send_by_key(3, FAR);
    });
    let mut got = Vec::new();
    let mut drain =
        |now| lanes.drain_doubts_at(now, |message, _, doubt| got.push((message, doubt)));
    drain(NOW);
    pusher.join().unwrap();
    drain(NOW);
    drain(QUIET);
    assert!(
        matches!(
            got[..],
            [(1, None | Some(10 | 20)), (2, Some(10 | 20)), (3, None)]
        ),
        "in doubt: {got:?}"
    );
}

/// A message in doubt is vouched for while the shard takes it and frees segments.
fn vouch_against_trim() {
    let (_, mut sender, mut lanes, mut got) = open();
    (1..=4).for_each(|message| _ = sender.send_by_key(message, FAR));
    sender.push_in_doubt_by_key(5, FAR, 10);
    (6..=7).for_each(|message| _ = sender.send_by_key(message, FAR));
    let pusher = thread::spawn(move || {
        sender.settle_doubts(true);
        sender.send_by_key(8, FAR);
    });
    drain_at(&mut lanes, NOW, &mut got);
    drain_at(&mut lanes, QUIET, &mut got);
    lanes.trim();
    pusher.join().unwrap();
    end(&mut lanes, &mut got);
    // What was sent when the lane was closed has overtaken what waited.
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn what_is_recalled_is_passed_over() {
    explore(Some(4), recall_against_pass);
}

#[test]
fn a_message_is_recalled_while_a_quiet_lane_is_emptied() {
    explore(Some(4), recall_against_quiet);
}

#[test]
fn a_message_is_recalled_while_one_behind_it_is_due() {
    explore(Some(4), recall_against_due);
}

#[test]
fn a_message_behind_far_ones_is_taken_in_time() {
    explore(Some(4), due_behind_far_ones);
}

#[test]
fn trim_waits_for_no_recall_and_spoils_none() {
    explore(Some(4), recall_against_trim);
}

#[test]
fn trim_waits_for_no_vain_recall() {
    explore(Some(4), vain_recall_against_trim);
}

#[test]
fn trim_of_what_waits_spoils_no_recall() {
    explore(Some(2), recalls_against_trim_of_what_waits);
}

#[test]
fn what_waits_is_recalled_by_the_next_thread() {
    explore(Some(3), recall_by_the_next_thread);
}

#[test]
fn doubts_are_settled_when_the_message_is_seen() {
    explore(Some(3), doubts_of_what_waits);
}

#[test]
fn trim_leaves_what_is_vouched_for() {
    explore(Some(3), vouch_against_trim);
}

#[test]
fn broken_recall_without_a_fence() {
    must_fail(
        Fault::LaneNoRecallFence,
        "recalled: true",
        Some(4),
        recall_against_quiet,
    );
}

#[test]
fn broken_claim_without_a_fence() {
    must_fail(
        Fault::LaneNoDrainFence,
        "recalled: true",
        Some(4),
        recall_against_quiet,
    );
}

#[test]
fn broken_pass_that_is_not_noted() {
    must_fail(
        Fault::LanePassedUnnoted,
        "recalled: true",
        Some(4),
        recall_against_pass,
    );
}

#[test]
fn broken_key_that_is_forgotten() {
    must_fail(
        Fault::LaneKeyForgotten,
        "4 is due",
        Some(3),
        due_behind_far_ones,
    );
}

#[test]
fn broken_trim_under_a_recall() {
    must_fail(
        Fault::LaneTrimUnderRecall,
        "Causality violation",
        Some(4),
        recall_against_trim,
    );
}

#[test]
fn broken_enter_without_a_fence() {
    must_fail(
        Fault::LaneNoEnterFence,
        "Causality violation",
        Some(4),
        recall_against_trim,
    );
}

#[test]
fn broken_leave_of_a_recall() {
    must_fail(
        Fault::LaneRecallLeftRelaxed,
        "Causality violation",
        Some(4),
        vain_recall_against_trim,
    );
}

#[test]
fn broken_trim_without_a_fence() {
    must_fail(
        Fault::LaneTrimUnfenced,
        "Causality violation",
        Some(2),
        recalls_against_trim_of_what_waits,
    );
}

#[test]
fn broken_trim_of_what_is_vouched_for() {
    must_fail(
        Fault::LaneTrimTooEarly,
        "Causality violation",
        Some(2),
        vouch_against_trim,
    );
}
