//! How timers end: handled, kept, or buried. What was armed is not lost, what was not armed is not
//! handled, and what is done in a transaction is done once.

use super::tale::{A, B, CALL_MS, Tale};
use crate::verdict::Offence::{
    Buried, HandledCancelled, HandledRolledBack, Left, Lost, OnceInTransaction,
};
use crate::wire::{Aim, Event, Kind};

const T: u64 = 7;
const OTHER: u64 = 8;

#[test]
fn never_handled() {
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.breaks(&[(Lost, T)]);
    // A handler that fails, or does not end, has not handled it.
    tale.fail(T, A, 1_000);
    tale.breaks(&[(Lost, T)]);
    tale.start(T, A, 1_060);
    tale.breaks(&[(Lost, T)]);
}

#[test]
fn never_handled_and_never_surely_armed() {
    let mut tale = Tale::new();
    tale.ask(T, Kind::Plain, None, 0, 1_000);
    tale.breaks_nothing();
    tale.tell(A.node, 10, &Event::Doubt(T));
    tale.breaks_nothing();
}

#[test]
fn never_handled_and_cancelled() {
    let cases = [(Some(true), false), (None, false), (Some(false), true)];
    for (answer, is_lost) in cases {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        let call = tale.ask_call(Aim::Number(T), 500, None);
        if let Some(is_done) = answer {
            tale.answer(call, 502, is_done);
        }
        let lost: &[_] = if is_lost { &[(Lost, T)] } else { &[] };
        tale.breaks(lost);
        assert_eq!(tale.judged().unknown, u64::from(answer.is_none()));
    }
}

#[test]
fn never_handled_and_its_key_was_cancelled() {
    // Before it was armed, while it was armed, and after that.
    for (asked, is_lost) in [(-3, true), (-1, false), (1, false), (500, false)] {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 1_000);
        tale.cancel_key("k", asked, true);
        let lost: &[_] = if is_lost { &[(Lost, T)] } else { &[] };
        tale.breaks(lost);
    }
    // The cancel was refused.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 1_000);
    tale.cancel_key("k", 500, false);
    tale.breaks(&[(Lost, T)]);
    // It has no answer.
    tale.ask_call(Aim::Key("k".to_owned()), 600, None);
    tale.breaks_nothing();
}

#[test]
fn never_handled_and_its_key_was_surely_not_its_when_it_was_cancelled() {
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 1_000);
    tale.plain_key(OTHER, "k", -100, 1_000);
    tale.cancel_key("k", -50, true);
    tale.breaks(&[(Lost, T)]);
}

#[test]
fn never_handled_and_replaced() {
    // By a timer that was armed before, at the same time, or after it.
    for (asked, is_lost) in [(-3, true), (-1, false), (1, false), (500, false)] {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 1_000);
        tale.plain_key(OTHER, "k", asked, 1_000);
        let lost: &[_] = if is_lost { &[(Lost, T)] } else { &[] };
        if !is_lost {
            tale.handle(OTHER, A, 1_000);
        }
        tale.breaks(lost);
        // One of the two.
        assert_eq!(tale.judged().unknown, 1);
    }
    // By a timer that may be there.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 1_000);
    tale.ask(OTHER, Kind::Plain, Some("k"), 500, 1_000);
    tale.breaks_nothing();
    // It was rolled back.
    tale.rolled_back(OTHER, 510);
    tale.breaks(&[(Lost, T)]);
}

#[test]
fn an_order_is_never_handled() {
    let mut tale = Tale::new();
    tale.ask_order(T, 0, 1_000);
    tale.breaks_nothing();
    // Its transaction has committed, though the answer was lost.
    tale.order_is_stored(T);
    tale.breaks(&[(Lost, T)]);
    tale.handle(T, A, 1_000);
    tale.breaks_nothing();
}

#[test]
fn handled_though_rolled_back() {
    let mut tale = Tale::new();
    tale.ask_order(T, 0, 1_000);
    tale.rolled_back(T, CALL_MS);
    tale.breaks_nothing();
    tale.start(T, A, 1_000);
    tale.breaks(&[(HandledRolledBack, T)]);
}

#[test]
fn handled_though_its_transaction_was_not_committed() {
    let mut tale = Tale::new();
    tale.ask_order(T, 0, 1_000);
    tale.handle(T, A, 1_000);
    tale.breaks(&[(HandledRolledBack, T)]);
    // It was: its answer was lost.
    tale.order_is_stored(T);
    tale.breaks_nothing();
    // Of a timer that needs no transaction the answer was lost.
    let mut tale = Tale::new();
    tale.ask(T, Kind::Plain, None, 0, 1_000);
    tale.handle(T, A, 1_000);
    tale.breaks_nothing();
}

#[test]
fn stored_at_the_end() {
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.is_left(T);
    tale.breaks(&[(Left, T)]);
    // Another one's row.
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.handle(T, A, 1_000);
    tale.is_left(OTHER);
    tale.breaks_nothing();
    // Handled, or cancelled, and stored.
    tale.is_left(T);
    tale.breaks(&[(Left, T)]);
    tale.plain(OTHER, 0, 1_000);
    tale.cancel(OTHER, 500, true);
    tale.breaks(&[(Left, T), (Left, OTHER)]);
}

#[test]
fn buried_with_attempts_left() {
    for kind in [Kind::Plain, Kind::Flaky, Kind::Batch, Kind::Slow] {
        let mut tale = Tale::new();
        tale.arm(T, kind, 0, 1_000);
        tale.fail(T, A, 1_000);
        tale.is_dead(T);
        tale.breaks(&[(Buried, T)]);
    }
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 1_000);
    tale.is_dead(T);
    tale.breaks(&[(Buried, T)]);
    for kind in [Kind::Doomed, Kind::Unknown] {
        let mut tale = Tale::new();
        tale.arm(T, kind, 0, 1_000);
        tale.breaks(&[(Lost, T)]);
        tale.is_dead(T);
        tale.breaks_nothing();
        assert_eq!(tale.judged().dead, 1);
    }
    // Another one's letter.
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.handle(T, A, 1_000);
    tale.is_dead(OTHER);
    tale.breaks_nothing();
}

/// The server has committed, and its answer was lost: nobody was told the timer's id.
#[test]
fn known_by_its_number_alone() {
    let mut tale = Tale::new();
    tale.ask_as(T, Kind::Unknown, None, 0, 1_000, true);
    tale.breaks_nothing();
    tale.order_is_stored(T);
    tale.breaks(&[(Lost, T)]);
    tale.is_dead(T);
    tale.breaks_nothing();
    let mut tale = Tale::new();
    tale.ask_as(T, Kind::Plain, None, 0, 1_000, true);
    tale.order_is_stored(T);
    tale.is_left(T);
    tale.breaks(&[(Left, T)]);
}

/// A timer whose handler in a transaction has said `Ok`.
fn inside() -> Tale {
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 1_000);
    tale.handle(T, A, 1_000);
    tale
}

#[test]
fn committed_twice() {
    let mut tale = inside();
    tale.done(T, 1);
    tale.breaks_nothing();
    tale.done(T, 2);
    tale.breaks(&[(OnceInTransaction, T)]);
}

#[test]
fn never_committed() {
    let tale = inside();
    tale.breaks(&[(OnceInTransaction, T)]);
    // No handler was called.
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 1_000);
    tale.breaks(&[(Lost, T)]);
    // It was cancelled, after its transaction was rolled back.
    let mut tale = inside();
    tale.cancel(T, 1_010, true);
    tale.breaks_nothing();
    tale.done(T, 1);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn committed_by_a_handler_that_has_failed() {
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 1_000);
    tale.fail(T, A, 1_000);
    tale.done(T, 1);
    tale.breaks(&[(OnceInTransaction, T)]);
    // The second attempt has said Ok.
    tale.handle(T, B, 1_060);
    tale.breaks_nothing();
}
