//! When timers are handled: never early, and not forgotten.

use super::tale::{A, B, TTL_MS, Tale, due_at};
use crate::trouble::Trouble;
use crate::verdict::Offence::{Early, Forgotten};
use crate::wire::{Aim, Due, Event, Kind};

const T: u64 = 7;

#[test]
fn handled_early() {
    // The clocks are read to 2 ms.
    for (at, is_early) in [(997, true), (998, false)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        tale.handle(T, A, at);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn handled_as_if_it_was_due_before() {
    // The handler is told so, though it is called in time.
    for (due, is_early) in [(997, true), (998, false)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        tale.due(T, due);
        tale.handle(T, A, 1_000);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn handled_early_and_told_of_another_deadline() {
    // Each is within 2 ms of another, and the call is not within 2 ms of the deadline.
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    tale.due(T, 998);
    tale.handle(T, A, 997);
    tale.breaks(&[(Early, T)]);
}

#[test]
fn handled_again_before_it_is_due_again() {
    for (at, is_early) in [(1_097, true), (1_098, false)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        tale.fail(T, A, 1_000);
        tale.due(T, 1_100);
        tale.handle(T, A, at);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn handled_early_by_the_servers_clock() {
    for (us, is_early) in [(999_999, true), (1_000_000, false)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 1_000);
        let handling = tale.start(T, A, 1_000);
        tale.clock(handling, 1_001, us);
        tale.end(handling, 1_002, true);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

#[test]
fn due_after_a_delay() {
    // From when the call was asked for.
    for (at, is_early) in [(1_497, true), (1_498, false)] {
        let mut tale = Tale::new();
        let ask = Event::Ask {
            number: T,
            kind: Kind::Plain,
            key: None,
            due: Due::After(1_000),
            is_outbox: false,
        };
        tale.tell(A.node, 500, &ask);
        tale.armed(T, 502);
        tale.due(T, at);
        tale.handle(T, A, at);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
    assert_ne!(due_at(0), Due::At(0), "the server has a clock of its own");
}

#[test]
fn the_servers_clock_goes_another_way() {
    // From 500 ms on it is 100 ms ahead.
    for (at, is_early) in [(897, true), (898, false)] {
        let mut tale = Tale::new();
        let (begun, offset) = tale.facts.offsets[0];
        let set = (begun + 500_000_000, offset + 100_000_000);
        tale.facts.offsets.push(set);
        tale.plain(T, 0, 1_000);
        tale.handle(T, A, at);
        let early: &[_] = if is_early { &[(Early, T)] } else { &[] };
        tale.breaks(early);
    }
}

/// A timer that was handled `late` ms after it could be, by a node that takes it up again.
fn late(kind: Kind, late: i64) -> Tale {
    let mut tale = Tale::new();
    tale.arm(T, kind, 0, 1_000);
    tale.handle(T, A, 1_000 + late);
    tale
}

const FORGOTTEN_MS: i64 = 2 * TTL_MS + 14_000;

#[test]
fn forgotten() {
    late(Kind::Plain, FORGOTTEN_MS).breaks_nothing();
    late(Kind::Plain, FORGOTTEN_MS + 1).breaks(&[(Forgotten, T)]);
    // Slow ones wait for others of their kind.
    late(Kind::Slow, FORGOTTEN_MS + 1).breaks_nothing();
}

#[test]
fn forgotten_before_another_call() {
    // A cancel without an answer is no move.
    let mut tale = late(Kind::Plain, FORGOTTEN_MS + 1);
    tale.ask_call(Aim::Number(T), 500, None);
    tale.breaks(&[(Forgotten, T)]);
    // A move that was asked for then changes nothing.
    let mut tale = Tale::new();
    tale.plain(T, 0, 1_000);
    let at = 1_001 + FORGOTTEN_MS;
    tale.fail(T, A, at);
    tale.change(T, at + 10, at + 100, true);
    tale.handle(T, A, at + 100);
    tale.breaks(&[(Forgotten, T)]);
}

#[test]
fn forgotten_in_trouble() {
    let mut tale = late(Kind::Plain, FORGOTTEN_MS + 1);
    tale.trouble(Trouble::ServerKilled, None, 1_000, 6_000);
    tale.breaks(&[(Forgotten, T)]);
}

#[test]
fn due_before_it_was_armed() {
    // It can be handled from when its call is answered, at 10,002 ms.
    let at = 10_002 + FORGOTTEN_MS;
    for (at, is_forgotten) in [(at, false), (at + 1, true)] {
        let mut tale = Tale::new();
        tale.plain(T, 10_000, 1_000);
        tale.handle(T, B, at);
        let forgotten: &[_] = if is_forgotten { &[(Forgotten, T)] } else { &[] };
        tale.breaks(forgotten);
    }
    // Without an answer, from when it was asked for.
    let at = 10_000 + FORGOTTEN_MS;
    for (at, is_forgotten) in [(at, false), (at + 1, true)] {
        let mut tale = Tale::new();
        tale.ask(T, Kind::Plain, None, 10_000, 1_000);
        tale.handle(T, B, at);
        let forgotten: &[_] = if is_forgotten { &[(Forgotten, T)] } else { &[] };
        tale.breaks(forgotten);
    }
}
