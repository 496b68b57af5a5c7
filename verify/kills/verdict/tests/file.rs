//! Files: a timer's process is killed, and the next one goes on. Lives are nodes here.

use super::tale::{Lease, Tale};
use crate::trouble::Trouble;
use crate::verdict::Offence::{
    Altered, Doubled, Early, HandledAbsent, HandledCancelled, Left, LeftCancelled, Lost, Refused,
};
use crate::wire::{Aim, Event, Kind};

const T: u64 = 17;

const FIRST: Lease = Lease { node: 1, fence: 1 };
const SECOND: Lease = Lease { node: 2, fence: 2 };
const THIRD: Lease = Lease { node: 3, fence: 3 };

/// When the first life is killed, and the second one.
const KILL: i64 = 5_000;
const KILL_AGAIN: i64 = 8_000;

/// A timer of the first life that is due at 1 s. Two lives are killed.
fn armed() -> Tale {
    let mut tale = killed();
    tale.arm(T, Kind::Sealed, 0, 1_000);
    tale
}

fn killed() -> Tale {
    let mut tale = Tale::new();
    tale.trouble(Trouble::Kill, Some(FIRST.node), KILL, KILL + 10);
    tale.trouble(
        Trouble::Kill,
        Some(SECOND.node),
        KILL_AGAIN,
        KILL_AGAIN + 10,
    );
    tale
}

#[test]
fn handled_once_or_cancelled() {
    let mut tale = armed();
    tale.breaks(&[(Lost, T)]);
    tale.handled(T, FIRST, 1_000, 0);
    tale.breaks_nothing();
    let mut tale = armed();
    tale.cancel(T, 500, true);
    tale.breaks_nothing();
    // A run that broke off has timers that are still to come.
    let mut tale = armed();
    tale.facts.is_cut_off = true;
    tale.breaks_nothing();
}

#[test]
fn doubled_in_one_life_but_not_across_a_kill() {
    let mut tale = armed();
    tale.handled(T, FIRST, 1_000, 0);
    tale.handled(T, SECOND, KILL + 100, 0);
    tale.breaks_nothing();
    assert_eq!(tale.judged().again, 1);
    tale.handled(T, SECOND, KILL + 200, 0);
    tale.breaks(&[(Doubled, T)]);
}

#[test]
fn early_and_altered() {
    // By the clock that the handler has read: a millisecond is told apart.
    let mut tale = armed();
    tale.handled(T, FIRST, 999, 0);
    tale.breaks(&[(Early, T)]);
    for by in [-1, 1] {
        let mut tale = armed();
        tale.handled(T, FIRST, 1_001, by);
        tale.breaks(&[(Altered, T)]);
    }
    let mut tale = armed();
    tale.handled(T, FIRST, 1_000, 0);
    tale.tell(FIRST.node, 1_001, &Event::Altered(9));
    tale.breaks(&[(Altered, 0)]);
}

#[test]
fn what_was_cancelled_is_not_handled_but_in_an_earlier_life() {
    // Before and after, in one life.
    for at in [499, 503] {
        let mut tale = killed();
        tale.arm(T, Kind::Sealed, 0, 400);
        tale.cancel(T, 500, true);
        tale.handled(T, FIRST, at, 0);
        tale.breaks(&[(HandledCancelled, T)]);
    }
    // In an earlier life: its ack may have been cut off. In a later one not.
    let mut tale = armed();
    tale.handled(T, FIRST, 1_000, 0);
    tale.cancel_as(SECOND, T, KILL + 100, true);
    tale.breaks_nothing();
    assert_eq!(tale.judged().after_kill, 1);
    tale.handled(T, THIRD, KILL_AGAIN + 100, 0);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn a_cancel_without_an_answer_may_have_been_done() {
    let mut tale = armed();
    tale.ask_call(Aim::Number(T), 500, None);
    tale.breaks_nothing();
    // It is asked again.
    tale.cancel_as(SECOND, T, KILL + 100, false);
    tale.breaks_nothing();
    // Twice it cannot be done.
    tale.cancel_as(SECOND, T, KILL + 200, true);
    tale.cancel_as(SECOND, T, KILL + 300, true);
    tale.breaks(&[(HandledCancelled, T)]);
}

#[test]
fn a_cancel_is_refused_only_when_it_is_late() {
    let far = || {
        let mut tale = killed();
        tale.arm(T, Kind::Sealed, 0, 4_000);
        tale
    };
    let mut tale = far();
    tale.cancel(T, 1_990, false);
    tale.handled(T, FIRST, 4_000, 0);
    tale.breaks(&[(Refused, T)]);
    let mut tale = far();
    tale.cancel(T, 2_000, false);
    tale.handled(T, FIRST, 4_000, 0);
    tale.breaks_nothing();
    // It was handled, though early; or cancelled.
    let mut tale = far();
    tale.handled(T, FIRST, 1_000, 0);
    tale.cancel(T, 1_500, false);
    tale.breaks(&[(Early, T), (Early, T)]);
    let mut tale = far();
    tale.cancel(T, 1_000, true);
    tale.cancel(T, 1_500, false);
    tale.breaks_nothing();
}

/// A timer with a key, of whose arming nobody knows.
fn in_doubt() -> Tale {
    let mut tale = killed();
    tale.ask(T, Kind::Sealed, Some("k"), 0, 6_000);
    tale
}

#[test]
fn an_arm_without_an_answer_may_have_been_done() {
    in_doubt().breaks_nothing();
    let mut tale = in_doubt();
    tale.handled(T, SECOND, 6_000, 0);
    tale.breaks_nothing();
    // What was found is to be handled; what was not found is not.
    let mut tale = in_doubt();
    tale.armed(T, KILL + 100);
    tale.breaks(&[(Lost, T)]);
    tale.handled(T, SECOND, 6_000, 0);
    tale.breaks_nothing();
    let mut tale = in_doubt();
    tale.tell(SECOND.node, KILL + 100, &Event::Absent(T));
    tale.breaks_nothing();
    tale.handled(T, SECOND, 6_000, 0);
    tale.breaks(&[(HandledAbsent, T)]);
}

#[test]
fn what_is_left_at_the_end() {
    let found = |tale: &mut Tale, at| {
        let id = super::tale::id(T);
        tale.tell(THIRD.node, at, &Event::Row { number: T, id });
    };
    // In doubt, and not due long ago: it is cancelled then.
    let mut tale = in_doubt();
    found(&mut tale, KILL_AGAIN + 100);
    tale.cancel_as(THIRD, T, KILL_AGAIN + 200, true);
    tale.breaks_nothing();
    // Due long ago. One that was handled waits for its ack.
    let late = 6_000 + 10_000;
    for (at, is_handled, broken) in [
        (late, false, &[][..]),
        (late + 1, true, &[]),
        (late + 1, false, &[(Left, T)]),
    ] {
        let mut tale = in_doubt();
        if is_handled {
            tale.handled(T, SECOND, 6_000, 0);
        }
        found(&mut tale, at);
        tale.breaks(broken);
    }
    // Cancelled, and found not to be there.
    let mut tale = armed();
    tale.cancel(T, 500, true);
    found(&mut tale, KILL_AGAIN + 100);
    tale.breaks(&[(LeftCancelled, T)]);
    let mut tale = in_doubt();
    tale.tell(SECOND.node, KILL + 100, &Event::Absent(T));
    found(&mut tale, KILL_AGAIN + 100);
    tale.breaks(&[(HandledAbsent, T)]);
}
