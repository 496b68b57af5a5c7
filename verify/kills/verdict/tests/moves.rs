//! Moved timers: handled at their new deadlines, as far as it is known which one is the last.

use super::tale::{A, B, TTL_MS, Tale};
use crate::trouble::Trouble;
use crate::verdict::Offence::{Early, Forgotten, Lost};
use crate::wire::{Aim, Kind};

const T: u64 = 7;
const OTHER: u64 = 8;
const FORGOTTEN_MS: i64 = 2 * TTL_MS + 14_000;

/// A timer that is due at 1 s.
fn armed() -> Tale {
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale
}

/// It is handled at its first deadline, and told so.
fn at_first_deadline(mut tale: Tale) -> Tale {
    tale.due(T, 1_000);
    tale.handle(T, A, 1_000);
    tale
}

#[test]
fn handled_at_the_old_deadline() {
    let mut tale = armed();
    tale.change(T, 500, 2_000, true);
    at_first_deadline(tale).breaks(&[(Early, T)]);
    // The move is refused, has no answer, or has it after the handler was called.
    let mut tale = armed();
    tale.change(T, 500, 2_000, false);
    at_first_deadline(tale).breaks_nothing();
    let mut tale = armed();
    tale.ask_call(Aim::Number(T), 500, Some(2_000));
    at_first_deadline(tale).breaks_nothing();
    for (answered, is_early) in [(999, true), (1_000, false)] {
        let mut tale = armed();
        let call = tale.ask_call(Aim::Number(T), 995, Some(2_000));
        tale.answer(call, answered, true);
        let tale = at_first_deadline(tale);
        let found: Vec<_> = tale.judged().broken.iter().map(|one| one.0).collect();
        // Whoever says true to both has lost the second handling.
        let expected: &[_] = if is_early { &[Early] } else { &[] };
        assert_eq!(found, expected);
    }
}

#[test]
fn handled_at_the_new_deadline() {
    for (at, is_early) in [(497, true), (498, false)] {
        let mut tale = armed();
        tale.change(T, 100, 500, true);
        tale.handle(T, A, at);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
    // The move is refused.
    let mut tale = armed();
    tale.change(T, 100, 500, false);
    tale.due(T, 500);
    tale.handle(T, A, 500);
    tale.breaks(&[(Early, T)]);
    // It has no answer, or was asked for only then.
    for (asked, is_early) in [(499, false), (500, true)] {
        let mut tale = armed();
        tale.ask_call(Aim::Number(T), asked, Some(500));
        tale.due(T, 500);
        tale.handle(T, A, 500);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn moved_twice() {
    // To earlier, and to later again.
    let mut tale = armed();
    tale.change(T, 100, 500, true);
    tale.change(T, 200, 2_000, true);
    tale.due(T, 500);
    tale.handle(T, A, 500);
    tale.breaks(&[(Early, T)]);
    // Calls that overlap: either may be the last one.
    let moved = |second_asked: i64, first_answered: i64| {
        let mut tale = armed();
        let first = tale.ask_call(Aim::Number(T), 100, Some(500));
        let second = tale.ask_call(Aim::Number(T), second_asked, Some(2_000));
        tale.answer(second, 130, true);
        tale.answer(first, first_answered, true);
        tale.due(T, 500);
        tale.handle(T, A, 500);
        tale
    };
    moved(110, 120).breaks_nothing();
    moved(121, 120).breaks(&[(Early, T)]);
    // A line of the first call is read after those of the second one.
    let mut tale = armed();
    tale.change(T, 200, 500, true);
    tale.change(T, 100, 2_000, true);
    tale.due(T, 500);
    tale.handle(T, A, 500);
    tale.breaks_nothing();
    // The first one has no answer: it may come to the server after the second one.
    let mut tale = armed();
    tale.ask_call(Aim::Number(T), 100, Some(500));
    tale.change(T, 200, 2_000, true);
    tale.due(T, 500);
    tale.handle(T, A, 500);
    tale.breaks_nothing();
}

#[test]
fn a_paused_node_handles_what_was_moved() {
    // Before its pause the timer was due. Another node has failed, and the timer was moved.
    let moved = |paused: Trouble, at: i64| {
        let mut tale = armed();
        tale.trouble(paused, Some(A.node), 1_000, 5_300);
        tale.fail(T, B, 4_200);
        tale.change(T, 4_300, 9_000, true);
        tale.due(T, 1_000);
        tale.handle(T, A, at);
        tale.due(T, 9_000);
        tale.handle(T, B, 9_000);
        tale
    };
    moved(Trouble::PauseLong, 6_300).breaks_nothing();
    moved(Trouble::PauseLong, 6_301).breaks(&[(Early, T)]);
    // What was moved before the pause is early after it, too.
    let mut tale = armed();
    tale.change(T, 500, 9_000, true);
    tale.trouble(Trouble::PauseShort, Some(A.node), 1_000, 3_000);
    tale.due(T, 1_000);
    tale.handle(T, A, 3_001);
    tale.breaks(&[(Early, T)]);
}

#[test]
fn moved_by_its_key() {
    let moved = |is_done: bool| {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 1_000);
        tale.change_key("k", 500, 2_000, is_done);
        tale
    };
    at_first_deadline(moved(true)).breaks(&[(Early, T)]);
    at_first_deadline(moved(false)).breaks_nothing();
    let mut tale = moved(true);
    tale.due(T, 2_000);
    tale.handle(T, A, 2_000);
    tale.breaks_nothing();
    // To earlier.
    for (is_done, is_early) in [(true, false), (false, true)] {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 1_000);
        tale.change_key("k", 100, 500, is_done);
        tale.due(T, 500);
        tale.handle(T, A, 500);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn it_is_not_known_whose_key_was_moved() {
    // Another timer may have the key: either has one of two deadlines.
    let moved = || {
        let mut tale = Tale::new();
        tale.plain_key(T, "k", 0, 1_000);
        tale.ask(OTHER, Kind::Plain, Some("k"), 100, 1_500);
        tale.change_key("k", 500, 2_000, true);
        tale
    };
    at_first_deadline(moved()).breaks_nothing();
    let mut tale = moved();
    tale.due(T, 2_000);
    tale.handle(T, A, 2_000);
    tale.breaks_nothing();
    // The other one is armed at the very moment when the move is asked for.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 1_000);
    tale.ask(OTHER, Kind::Plain, Some("k"), 300, 1_500);
    tale.armed(OTHER, 500);
    tale.change_key("k", 500, 600, true);
    tale.due(T, 600);
    tale.handle(T, A, 600);
    tale.handle(OTHER, A, 1_500);
    tale.breaks_nothing();
    // The other one has surely replaced the first one.
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 600);
    tale.plain_key(OTHER, "k", 100, 1_500);
    tale.change_key("k", 110, 200, true);
    tale.handle(OTHER, A, 200);
    tale.breaks(&[(Early, OTHER)]);
    let mut tale = Tale::new();
    tale.plain_key(T, "k", 0, 300);
    tale.plain_key(OTHER, "k", 100, 1_500);
    tale.change_key("k", 110, 200, true);
    tale.due(T, 200);
    tale.handle(T, A, 200);
    tale.due(OTHER, 200);
    tale.handle(OTHER, A, 200);
    tale.breaks(&[(Early, T)]);
}

#[test]
fn moved_after_it_was_handled() {
    // The call was asked for after the handler was called, or before that.
    for (asked, is_lost) in [(1_000, true), (999, false)] {
        let mut tale = armed();
        tale.handle(T, A, 1_000);
        tale.change(T, asked, 2_000, true);
        let lost: &[_] = if is_lost { &[(Lost, T)] } else { &[] };
        tale.breaks(lost);
    }
    // It was refused.
    let mut tale = armed();
    tale.handle(T, A, 1_000);
    tale.change(T, 1_010, 2_000, false);
    tale.breaks_nothing();
    // The handler has failed, and the next one has not.
    let mut tale = armed();
    tale.fail(T, A, 1_000);
    tale.change(T, 1_010, 2_000, true);
    tale.breaks(&[(Lost, T)]);
    tale.handle(T, A, 2_000);
    tale.breaks_nothing();
}

#[test]
fn moved_to_what_is_past() {
    // It can be handled from when the call is answered, at 10,002 ms.
    let moved = |answer: Option<bool>, at: i64| {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        let call = tale.ask_call(Aim::Number(T), 10_000, Some(900));
        if let Some(is_done) = answer {
            tale.answer(call, 10_002, is_done);
        }
        tale.due(T, if answer == Some(false) { 1_000 } else { 900 });
        tale.handle(T, B, at);
        tale
    };
    moved(Some(true), 10_002 + FORGOTTEN_MS).breaks_nothing();
    moved(Some(true), 10_003 + FORGOTTEN_MS).breaks(&[(Forgotten, T)]);
    // Without an answer, at any moment.
    moved(None, 1_001 + FORGOTTEN_MS).breaks_nothing();
    // A move that was refused changes nothing.
    moved(Some(false), 1_000 + FORGOTTEN_MS).breaks_nothing();
    moved(Some(false), 1_001 + FORGOTTEN_MS).breaks(&[(Forgotten, T)]);
}

#[test]
fn its_key_was_moved_before_it_was_armed() {
    // That call has no answer. It moves no timer that was not asked for yet.
    for (asked, is_forgotten) in [(-100, true), (100, false)] {
        let mut tale = Tale::new();
        tale.ask_call(Aim::Key("k".to_owned()), asked, Some(900));
        tale.plain_key(T, "k", 0, 1_000);
        tale.handle(T, A, 1_001 + FORGOTTEN_MS);
        let forgotten: &[_] = if is_forgotten { &[(Forgotten, T)] } else { &[] };
        tale.breaks(forgotten);
    }
}
