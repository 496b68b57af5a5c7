//! What was cancelled, or replaced, is not handled.

use super::tale::{A, B, Lease, TTL_MS, Tale};
use crate::trouble::Trouble;
use crate::verdict::Offence::{Buried, Early, HandledCancelled, HandledReplaced};
use crate::wire::{Aim, Kind};

const T: u64 = 7;
const OTHER: u64 = 8;

/// A timer that was cancelled from 500 ms to 502 ms.
fn cancelled() -> Tale {
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.cancel(T, 500, true);
    tale
}

#[test]
fn handled_after_its_cancel() {
    let mut tale = cancelled();
    tale.handle(T, A, 503);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn handled_after_a_cancel_that_was_refused() {
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.cancel(T, 500, false);
    tale.handle(T, A, 503);
    tale.breaks_nothing();
}

#[test]
fn handled_while_a_cancel_has_no_answer() {
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.ask_call(Aim::Number(T), 500, None);
    tale.handle(T, A, 503);
    tale.breaks_nothing();
}

#[test]
fn cancelled_after_it_was_handled() {
    let mut tale = cancelled();
    tale.handle(T, A, 498);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_after_its_handler_has_failed() {
    // From 500 to 501: the cancel's answer comes at 502.
    let mut tale = cancelled();
    tale.fail(T, A, 500);
    tale.breaks_nothing();
}

#[test]
fn cancelled_before_its_handler_has_failed() {
    // From 501.5 to 503.
    let mut tale = cancelled();
    let handling = tale.start(T, A, 501);
    tale.end(handling, 503, false);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_while_a_handler_does_not_end() {
    let mut tale = cancelled();
    tale.start(T, A, 450);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_after_the_handler_under_the_last_lease_has_failed() {
    // The first node was paused in its handler, which goes on when the second one has failed.
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    let handling = tale.start(T, A, 400);
    tale.trouble(Trouble::PauseLong, Some(A.node), 401, 401 + TTL_MS + 900);
    tale.fail(T, B, 500 + TTL_MS);
    tale.cancel(T, 510 + TTL_MS, true);
    tale.end(handling, 1_302 + TTL_MS, true);
    tale.breaks_nothing();
    // The first node was paused before its handler, which is called when the second one has failed.
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.trouble(Trouble::PauseLong, Some(A.node), 401, 401 + TTL_MS + 900);
    tale.fail(T, B, 500 + TTL_MS);
    tale.due(T, 400);
    tale.handle(T, A, 1_302 + TTL_MS);
    tale.cancel(T, 1_310 + TTL_MS, true);
    tale.breaks_nothing();
    // It was for the second node to fail.
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.fail(T, A, 400);
    tale.handle(T, B, 500);
    tale.cancel(T, 510, true);
    tale.breaks(&[(HandledCancelled, T)]);
    // Lines of two threads come in any order: the second attempt has not failed.
    let mut tale = Tale::new();
    tale.plain(T, 0, 400);
    tale.handle(T, A, 460);
    tale.fail(T, A, 400);
    tale.cancel(T, 510, true);
    tale.breaks(&[(HandledCancelled, T)]);
}

/// A timer that another node has cancelled while its own one was paused, from 1 s to 5.3 s.
fn paused() -> Tale {
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.trouble(Trouble::PauseLong, Some(A.node), 1_000, 5_300);
    tale.fail(T, B, 4_200);
    tale.cancel(T, 4_300, true);
    tale.due(T, 1_000);
    tale
}

#[test]
fn a_paused_node_handles_what_was_cancelled() {
    let mut tale = paused();
    tale.handle(T, A, 5_300 + 1_000);
    tale.breaks_nothing();
    assert_eq!(tale.judged().after_pause, 1);
}

#[test]
fn a_node_handles_what_was_cancelled_long_after_its_pause() {
    let mut tale = paused();
    tale.handle(T, A, 5_300 + 1_001);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn a_node_that_was_not_paused_handles_what_was_cancelled() {
    let mut tale = paused();
    tale.due(T, 4_251);
    tale.handle(T, B, 5_300);
    tale.breaks(&[(HandledCancelled, T)]);
    // It was paused only then.
    let mut tale = cancelled();
    tale.handle(T, A, 503);
    tale.trouble(Trouble::PauseLong, Some(A.node), 504, 4_000);
    tale.breaks(&[(HandledCancelled, T)]);
    // It was killed, say: that is no pause.
    let mut tale = cancelled();
    tale.trouble(Trouble::Kill, Some(A.node), 495, 510);
    tale.handle(T, A, 503);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_twice() {
    let mut tale = cancelled();
    tale.cancel(T, 503, true);
    tale.breaks(&[(HandledCancelled, T)]);
    // Calls that overlap: it is not known which one was the first.
    let mut tale = cancelled();
    tale.cancel(T, 502, true);
    tale.breaks_nothing();
    // The second one is refused, or has no answer.
    let mut tale = cancelled();
    tale.cancel(T, 503, false);
    tale.ask_call(Aim::Number(T), 600, None);
    tale.breaks_nothing();
}

#[test]
fn moved_after_its_cancel() {
    let mut tale = cancelled();
    tale.change(T, 503, 900, true);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_and_committed_by_its_handler() {
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 400);
    tale.handle(T, A, 400);
    tale.cancel(T, 500, true);
    // The transaction of its handler was rolled back, though it had said Ok.
    tale.breaks_nothing();
    tale.done(T, 1);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn cancelled_and_among_the_dead_letters() {
    let mut tale = Tale::new();
    tale.arm(T, Kind::Unknown, 0, 400);
    tale.is_dead(T);
    tale.breaks_nothing();
    tale.cancel(T, 500, false);
    tale.breaks_nothing();
    tale.cancel(T, 600, true);
    tale.breaks(&[(HandledCancelled, T)]);
    // One that does not die.
    let mut tale = cancelled();
    tale.is_dead(T);
    tale.breaks(&[(Buried, T), (HandledCancelled, T)]);
}

/// A timer with a key that was cancelled from 500 ms to 502 ms, by the key.
fn key_cancelled() -> Tale {
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 400);
    tale.cancel_key("k", 500, true);
    tale
}

#[test]
fn handled_after_the_cancel_of_its_key() {
    key_cancelled().breaks_nothing();
    let mut tale = key_cancelled();
    tale.handle(T, A, 503);
    tale.breaks(&[(HandledCancelled, T)]);
    // The key of another timer.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 400);
    tale.cancel_key("m", 500, true);
    tale.handle(T, A, 503);
    tale.breaks_nothing();
}

#[test]
fn a_key_is_cancelled_twice() {
    let mut tale = key_cancelled();
    tale.cancel_key("k", 503, true);
    tale.breaks(&[(HandledCancelled, T)]);
    // A second timer has the key by then.
    let mut tale = key_cancelled();
    tale.plain_key(OTHER, "k", 503, 900);
    tale.cancel_key("k", 506, true);
    tale.breaks_nothing();
    // The second cancel has no answer.
    let mut tale = key_cancelled();
    tale.ask_call(Aim::Key("k".to_owned()), 600, None);
    tale.breaks_nothing();
    // The first cancel counts.
    let mut tale = key_cancelled();
    tale.handle(T, A, 600);
    tale.cancel_key("k", 700, true);
    tale.breaks(&[(HandledCancelled, T), (HandledCancelled, T)]);
}

#[test]
fn it_is_not_known_whose_key_was_cancelled() {
    // Another timer is armed with the key, until the cancel is answered.
    for (asked, is_known) in [(501, false), (502, true)] {
        let mut tale = key_cancelled();
        tale.plain_key(OTHER, "k", asked, 900);
        tale.handle(T, A, 503);
        tale.handle(OTHER, A, 900);
        match is_known {
            false => tale.breaks_nothing(),
            true => tale.breaks(&[(HandledCancelled, T)]),
        }
    }
    // Of another timer with the key it is not known whether it is there.
    let mut tale = key_cancelled();
    tale.ask(OTHER, Kind::Plain, Some("k"), 100, 900);
    tale.handle(T, A, 503);
    tale.breaks_nothing();
    // It was rolled back.
    tale.rolled_back(OTHER, 110);
    tale.breaks(&[(HandledCancelled, T)]);
    // The timer itself was armed while the cancel went on.
    for (armed, is_known) in [(500, false), (499, true)] {
        let mut tale = Tale::new();
        tale.ask(T, Kind::Plain, Some("k"), 400, 400);
        tale.armed(T, armed);
        tale.cancel_key("k", 500, true);
        tale.handle(T, A, 503);
        match is_known {
            false => tale.breaks_nothing(),
            true => tale.breaks(&[(HandledCancelled, T)]),
        }
    }
}

#[test]
fn the_key_of_the_second_timer_was_cancelled() {
    // The second one has surely replaced the first one, which is handled though.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 400);
    tale.plain_key(OTHER, "k", 300, 900);
    tale.cancel_key("k", 500, true);
    tale.handle(T, A, 503);
    tale.breaks_nothing();
    tale.handle(OTHER, A, 900);
    tale.breaks(&[(HandledCancelled, OTHER)]);
}

/// A timer that is due at `due`, and replaced from 500 ms to 502 ms.
fn replaced(due: i64) -> Tale {
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, due);
    tale.plain_key(OTHER, "k", 500, 1_500);
    tale.handle(OTHER, A, 1_500);
    tale
}

#[test]
fn handled_though_replaced() {
    // A watermark is up to 200 ms ahead of 502 ms.
    let mut tale = replaced(703);
    tale.breaks_nothing();
    tale.handle(T, A, 703);
    tale.breaks(&[(HandledReplaced, T)]);
    let mut tale = replaced(702);
    tale.handle(T, A, 703);
    tale.breaks_nothing();
    // It was replaced twice: the first time counts.
    let mut tale = replaced(703);
    tale.plain_key(9, "k", 1_600, 1_800);
    tale.handle(9, A, 1_800);
    tale.handle(T, A, 1_900);
    tale.breaks(&[(HandledReplaced, T)]);
}

#[test]
fn it_is_not_known_whether_it_was_replaced() {
    // Both are armed at one time: which was the second?
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 900);
    tale.plain_key(OTHER, "k", 2, 1_500);
    tale.handle(T, A, 900);
    tale.handle(OTHER, A, 1_500);
    tale.breaks_nothing();
    // The other call has no answer, or was rolled back.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 900);
    tale.ask(OTHER, Kind::Plain, Some("k"), 500, 1_500);
    tale.handle(T, A, 900);
    tale.breaks_nothing();
    tale.rolled_back(OTHER, 502);
    tale.breaks_nothing();
    // The other one has another key, or none.
    for key in [Some("m"), None] {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 900);
        tale.ask(OTHER, Kind::Plain, key, 500, 1_500);
        tale.armed(OTHER, 502);
        tale.handle(T, A, 900);
        tale.handle(OTHER, A, 1_500);
        tale.breaks_nothing();
    }
}

#[test]
fn handled_before_it_was_replaced() {
    let node = Lease { node: 9, fence: 9 };
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 400);
    tale.plain_key(OTHER, "k", 900, 1_500);
    tale.handle(T, node, 400);
    tale.handle(OTHER, node, 1_500);
    tale.breaks_nothing();
    // And before its deadline.
    let mut tale = replaced(900);
    tale.handle(T, node, 400);
    tale.breaks(&[(Early, T)]);
}
