//! Lives: all that may become of a timer, in one ledger. Nothing is broken.

use super::tale::{A, B, CALL_MS, HANDLER_MS, Lease, RETRY_MS, TTL_MS, Tale};
use crate::trouble::Trouble;
use crate::wire::{Aim, Event, Kind};

/// The first node, under the lease that it takes after its pause.
const A_AGAIN: Lease = Lease { node: 1, fence: 3 };

/// A timer of a node. Those of programs in other languages have smaller numbers.
const N: u64 = 1 << 32;

/// What goes on without trouble.
fn calm(tale: &mut Tale) {
    // Armed and handled, by a node for itself, too.
    tale.plain(1, 0, 1_000);
    tale.handle(1, A, 1_000);
    tale.plain(N, 0, 1_000);
    tale.handle(N, A, 1_004);
    // Cancelled before. A second cancel comes too late, and so does one after the handler.
    tale.plain(2, 0, 1_000);
    tale.cancel(2, 500, true);
    tale.cancel(2, 600, false);
    tale.cancel(1, 1_500, false);
    // Failed, cancelled then.
    tale.arm(3, Kind::Flaky, 0, 1_000);
    tale.fail(3, A, 1_000);
    tale.cancel(3, 1_010, true);
    // Failed, and handled again.
    tale.arm(4, Kind::Flaky, 0, 1_000);
    tale.fail(4, A, 1_000);
    tale.fail(4, A, 1_001 + RETRY_MS);
    tale.handle(4, A, 1_002 + 2 * RETRY_MS);
    // Moved to later, and to earlier. The last move is refused.
    tale.plain(5, 0, 1_000);
    tale.change(5, 500, 1_500, true);
    tale.handle(5, A, 1_500);
    tale.plain(6, 0, 2_000);
    tale.change(6, 500, 800, true);
    tale.handle(6, A, 800);
    tale.change(6, 801, 1_000, false);
    // Replaced by its key, and the second one handled; the key's next timer is moved, cancelled.
    tale.plain_key(N + 10, "k", 0, 1_000);
    tale.plain_key(N + 11, "k", 500, 1_200);
    tale.handle(N + 11, A, 1_200);
    tale.plain_key(N + 12, "k", 1_300, 1_500);
    tale.change_key("k", 1_350, 1_600, true);
    tale.cancel_key("k", 1_400, true);
    tale.cancel_key("k", 1_500, false);
    // In transactions that were committed, rolled back, and of which the answer is lost.
    tale.ask_order(N + 20, 0, 1_000);
    tale.order_is_stored(N + 20);
    tale.armed(N + 20, CALL_MS);
    tale.handle(N + 20, A, 1_000);
    tale.ask_order(N + 21, 0, 1_000);
    tale.rolled_back(N + 21, CALL_MS);
    tale.ask_order(N + 22, 0, 1_000);
    tale.order_is_stored(N + 22);
    tale.handle(N + 22, A, 1_000);
    tale.ask_order(N + 23, 0, 1_000);
    // A handler in a transaction: the first commit fails.
    tale.arm(30, Kind::InTransaction, 0, 1_000);
    tale.handle(30, A, 1_000);
    tale.handle(30, A, 1_001 + RETRY_MS);
    tale.done(30, 1);
    // Dead letters: after three attempts, and without a handler.
    tale.arm(40, Kind::Doomed, 0, 1_000);
    for attempt in 0..3 {
        tale.fail(40, A, 1_000 + attempt * (HANDLER_MS + RETRY_MS));
    }
    tale.is_dead(40);
    tale.arm(41, Kind::Unknown, 0, 1_000);
    tale.is_dead(41);
    // Of a call without an answer nobody knows.
    tale.ask(50, Kind::Plain, None, 0, 1_000);
    tale.tell(A.node, 10, &Event::Doubt(50));
    tale.plain(51, 0, 1_000);
    tale.ask_call(Aim::Number(51), 500, None);
}

/// A node is killed while it handles, and another one is paused.
fn troubled(tale: &mut Tale) {
    // Killed, and handled again by the node that takes over.
    tale.plain(60, 20_000, 21_000);
    tale.start(60, A, 21_000);
    tale.trouble(Trouble::Kill, Some(A.node), 21_000, 21_010);
    tale.handle(60, B, 21_010 + TTL_MS);
    // Paused before its handler: another node handles first, and a timer is cancelled meanwhile.
    tale.plain(61, 40_000, 41_000);
    tale.plain(62, 40_000, 41_000);
    tale.trouble(
        Trouble::PauseLong,
        Some(A.node),
        41_000,
        41_000 + TTL_MS + 2_000,
    );
    tale.handle(61, B, 41_000 + TTL_MS + 100);
    tale.fail(62, B, 41_000 + TTL_MS + 100);
    tale.cancel(62, 41_000 + TTL_MS + 110, true);
    tale.due(62, 41_000);
    tale.handle(61, A, 41_000 + TTL_MS + 2_001);
    tale.handle(62, A, 41_000 + TTL_MS + 2_001);
    // Later the node has the lease again.
    tale.plain(63, 60_000, 61_000);
    tale.handle(63, A_AGAIN, 61_000);
}

#[test]
fn no_life_breaks_a_promise() {
    let mut tale = Tale::new();
    calm(&mut tale);
    troubled(&mut tale);
    tale.breaks_nothing();
    let verdict = tale.judged();
    // 60 after the kill, 61 and 62 after the pause.
    assert_eq!((verdict.again, verdict.after_pause), (3, 1));
    // N + 10 was replaced, and 51 may have been cancelled.
    assert_eq!((verdict.unknown, verdict.dead), (2, 2));
    assert_eq!((verdict.in_transaction, verdict.measured_alone), (1, 2));
}

#[test]
fn lateness_is_sorted_by_what_went_on() {
    let mut tale = Tale::new();
    troubled(&mut tale);
    calm(&mut tale);
    let verdict = tale.judged();
    let found = [
        verdict.calm.count(),
        verdict.calm_found.count(),
        verdict.troubled.count(),
        verdict.take_over.count(),
        verdict.paused_over.count(),
        verdict.others.count(),
    ];
    // Calm and not to be found: N. In trouble: twice each of 60, 61, 62.
    let all = starts(&tale);
    assert_eq!(found, [1, all - 7, 6, 1, 2, 0]);
    assert_eq!(verdict.calm.quantile_ns(1.0) / 100_000, 40);
}

/// All calls of handlers.
fn starts(tale: &Tale) -> u64 {
    let timers = tale.ledger.timers.iter();
    timers.map(|(_, timer)| timer.starts.len() as u64).sum()
}
