//! What a pause, a resume and the calls beside them do with a cell in each state.

use super::super::pausing::{LeftSet, Paused, Resumed};
use super::super::state::Left;
use super::super::word::Pause;
use super::*;
use crate::repeat::NextLook;
use std::sync::Arc;
use std::time::Duration;

/// Pauses the timer at this time. A tick is a nanosecond here.
fn pause(fixture: &Fixture, now: u64) -> Paused {
    fixture
        .cell()
        .halt(GENERATION, |deadline| (deadline, now), true)
}

fn resume(fixture: &Fixture, now: u64) -> Resumed {
    fixture
        .cell()
        .resume(GENERATION, |left| (now + left.left_ns, 3), true)
}

fn left(fixture: &Fixture) -> Option<u64> {
    fixture.cell().look(false)?.left_ns
}

fn resumed(fixture: &Fixture, now: u64) -> Filed {
    match resume(fixture, now) {
        Resumed::Filed(filed) => filed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_timer_is_paused_once_and_goes_on_once() {
    let armed = Fixture::armed(100);
    let cell = armed.cell();
    assert!(matches!(resume(&armed, 1), Resumed::Unchanged), "it waits");
    assert!(
        matches!(pause(&armed, 30), Paused::Waits { old } if old == filed(100, GENERATION)),
        "its entry is dead"
    );
    assert_eq!(
        (left(&armed), armed.word().state()),
        (Some(70), State::Paused)
    );
    assert!(cell.is_pending(GENERATION) && cell.payload_due_at().is_none());
    assert!(matches!(pause(&armed, 31), Paused::Unchanged));
    assert!(matches!(cell.rearm(GENERATION, 7), Rearmed::Paused));
    assert!(cell.claim_first(GENERATION).is_none());
    for generation in [GENERATION, GENERATION + 1] {
        assert!(cell.claim_due_plain(entry(1_000, generation)).is_none());
        let claim = cell.claim_due(entry(1_000, generation));
        assert!(matches!(claim, DueClaim::Dead), "nothing fires it");
    }
    assert_eq!(resumed(&armed, 200), filed(270, GENERATION + 2));
    assert_eq!(
        seen(cell, false),
        Some((GENERATION, DueAt::new(270, SHARD)))
    );
    assert!(matches!(resume(&armed, 201), Resumed::Unchanged));
    assert!(matches!(
        cell.claim_due(entry(270, GENERATION)),
        DueClaim::Dead
    ));
    assert!(matches!(
        cell.claim_due(entry(270, GENERATION + 2)),
        DueClaim::Payload("payload")
    ));
    assert!(
        matches!(pause(&armed, 1), Paused::Unchanged),
        "it has fired"
    );
}

#[test]
fn a_lag_is_part_of_what_is_left() {
    let armed = Fixture::armed(100);
    assert!(matches!(
        armed.cell().rearm(GENERATION, 350),
        Rearmed::Done { .. }
    ));
    let later = armed.cell().claim_due(entry(100, GENERATION));
    assert!(matches!(later, DueClaim::Later(_)), "it was put back");
    assert!(matches!(pause(&armed, 100), Paused::Waits { old } if old == filed(350, GENERATION)));
    assert_eq!(left(&armed), Some(250));
}

#[test]
fn a_paused_timer_keeps_its_id_however_often_it_is_paused() {
    let armed = Fixture::armed(100);
    for round in 0..2 * MOVES_MAX {
        assert!(matches!(pause(&armed, 0), Paused::Waits { .. }));
        assert!(armed.cell().is_pending(GENERATION));
        // By 3 the deadline was rounded up.
        assert_eq!(left(&armed), Some(if round == 0 { 100 } else { 97 }));
        let set = armed.cell().set_left(GENERATION, 100, true);
        assert!(matches!(set, LeftSet::Set { .. }));
        let generation = GENERATION + 3 * round + 3;
        assert_eq!(resumed(&armed, 0), filed(100, generation));
    }
    assert!(armed.cell().claim_id(GENERATION).is_some());
}

#[test]
fn what_was_rounded_up_is_not_left() {
    let armed = Fixture::armed(100);
    pause(&armed, 30);
    assert_eq!(resumed(&armed, 200).entry.deadline(), 270);
    pause(&armed, 210);
    assert_eq!(left(&armed), Some(57));
    assert_eq!(resumed(&armed, 300).entry.deadline(), 357);
    // One that was moved since is not rounded.
    let moved = armed.cell().rearm(GENERATION, 400);
    assert!(matches!(moved, Rearmed::Done { .. }));
    pause(&armed, 310);
    assert_eq!(left(&armed), Some(90));
    assert_eq!(resumed(&armed, 310).entry.deadline(), 400);
    let moved = armed.cell().rearm(GENERATION, 350);
    assert!(matches!(moved, Rearmed::Refiled { .. }));
    pause(&armed, 310);
    assert_eq!(left(&armed), Some(40));
}

#[test]
fn what_is_left_is_handed_out_with_a_paused_timer() {
    type Way = fn(&Fixture) -> Option<Claimed<&'static str>>;
    let ways: [Way; 4] = [
        |armed| armed.cell().claim_id(GENERATION),
        |armed| armed.cell().claim_payload(GENERATION),
        |armed| armed.cell().claim_any(),
        |armed| armed.cell().claim_waiting(),
    ];
    for way in ways {
        let armed = Fixture::armed(100);
        pause(&armed, 30);
        assert!(armed.cell().claim_repeat().is_none());
        let claimed = way(&armed).expect("it is paused");
        assert!(matches!(claimed.content, Some(Content::Payload("payload"))));
        assert_eq!(
            (claimed.filed, claimed.due_at.left_ns(), claimed.index),
            (Some(filed(0, GENERATION + 1)), Some(70), Some(INDEX)),
            "the shard is told of the free cell"
        );
        assert_eq!(claimed.due_at.shard(), SHARD);
        assert!(way(&armed).is_none() && !armed.cell().is_pending(GENERATION));
        assert!(matches!(resume(&armed, 1), Resumed::Unchanged));
        assert_eq!(armed.word(), Word::new(GENERATION + 2, State::Vacant));
    }
}

#[test]
fn what_is_left_can_be_set() {
    let armed = Fixture::armed(100);
    let cell = armed.cell();
    assert!(matches!(
        cell.set_left(GENERATION, 7, true),
        LeftSet::NotPaused
    ));
    pause(&armed, 30);
    let set = cell.set_left(GENERATION, 7, true);
    assert!(matches!(set, LeftSet::Set { shard: SHARD }));
    assert_eq!(left(&armed), Some(7));
    assert_eq!(resumed(&armed, 200), filed(207, GENERATION + 3));
    assert!(cell.claim_id(GENERATION).is_some());
    assert!(matches!(cell.set_left(GENERATION, 7, true), LeftSet::Gone));
}

/// A cancel that meets a pause or a resume has the payload at once; whoever leaves last has the
/// cell.
#[test]
fn a_timer_that_is_being_paused_or_resumed_is_cancelled() {
    for (how, left_ns) in [(Pause::Pausing, None), (Pause::Changing, Some(70))] {
        let armed = Fixture::armed(100);
        if how == Pause::Changing {
            pause(&armed, 30);
        }
        let word = armed.word();
        let held = word.paused(how);
        armed.cell[0]
            .exchange(word, held)
            .expect("there is one thread");
        assert!(armed.cell().is_pending(GENERATION));
        // In a process that was forked off nobody is waited for.
        let cell = armed.cell();
        assert!(matches!(
            cell.halt(GENERATION, |_| (0, 0), false),
            Paused::Unchanged
        ));
        assert!(matches!(
            cell.resume(GENERATION, |_| (0, 0), false),
            Resumed::Unchanged
        ));
        assert!(matches!(cell.set_left(GENERATION, 1, false), LeftSet::Gone));
        assert_eq!(cell.look(true).expect("it waits").left_ns, left_ns);
        let claimed = cell.claim_id(GENERATION).expect("it waits");
        assert!(matches!(claimed.content, Some(Content::Payload("payload"))));
        assert_eq!(
            (claimed.filed, claimed.due_at.left_ns(), claimed.index),
            (None, left_ns, None)
        );
        assert!(!cell.is_pending(GENERATION) && cell.look(false).is_none());
        assert_eq!(cell.leave(held), Some(INDEX));
        assert_eq!(armed.word().state(), State::Vacant);
    }
}

#[test]
fn a_run_that_is_paused_is_the_last_until_it_is_resumed() {
    let armed = Fixture::repeating(100);
    let cell = armed.cell();
    let repeat = armed.run(100, GENERATION);
    assert!(matches!(pause(&armed, 0), Paused::InRun));
    assert!(matches!(pause(&armed, 0), Paused::Unchanged));
    assert!(cell.is_pending(GENERATION));
    assert_eq!(left(&armed), Some(0), "until its run ends");
    assert!(matches!(cell.set_left(GENERATION, 1, true), LeftSet::Gone));
    assert!(cell.claim_waiting().is_none(), "a run has it");
    // SAFETY: the run is ours.
    let filed_again = unsafe { cell.file_again(repeat, DueAt::new(110, SHARD), 10, None) };
    assert!(matches!(filed_again, Err(NotFiled::Paused)));
    assert_eq!(left(&armed), Some(10));
    assert_eq!(resumed(&armed, 500), filed(510, GENERATION + 2));
    drop(armed.run(510, GENERATION + 2));
    assert!(cell.is_resumed());
    // SAFETY: as above.
    assert_eq!(unsafe { cell.end() }.0, Some(INDEX));

    // Resumed in the same run.
    let armed = Fixture::repeating(100);
    let cell = armed.cell();
    let repeat = armed.run(100, GENERATION);
    assert!(matches!(pause(&armed, 0), Paused::InRun));
    assert!(matches!(resume(&armed, 0), Resumed::InRun));
    // SAFETY: as above.
    let again = unsafe { cell.file_again(repeat, DueAt::new(110, SHARD), 10, None) };
    assert!(matches!(again, Ok(again) if again == filed(110, GENERATION + 1)));
    drop(armed.run(110, GENERATION + 1));
    assert!(!cell.is_resumed());

    // Cancelled, or over, in a run in which it was paused.
    for is_cancelled in [true, false] {
        let armed = Fixture::repeating(100);
        let cell = armed.cell();
        let repeat = armed.run(100, GENERATION);
        pause(&armed, 0);
        if is_cancelled {
            let claimed = cell.claim_repeat().expect("it runs");
            assert!(claimed.content.is_none() && claimed.index.is_none());
            // SAFETY: as above.
            let ended = unsafe { cell.file_again(repeat, DueAt::new(110, SHARD), 10, None) };
            assert!(matches!(ended, Err(NotFiled::Ended(_, Some(INDEX)))));
        } else {
            // SAFETY: as above.
            assert_eq!(unsafe { cell.end() }, (Some(INDEX), false));
        }
        assert_eq!(armed.word(), Word::new(GENERATION + 1, State::Vacant));
    }
}

/// The one run of a timer for a time of day ends it before its closure is called, unless it was
/// paused by then.
#[test]
fn a_run_that_was_paused_does_not_end_its_timer() {
    let armed = Fixture::repeating(100);
    let repeat = armed.run(100, GENERATION);
    pause(&armed, 0);
    // SAFETY: the run is ours.
    assert_eq!(unsafe { armed.cell().end_unless_paused() }, None);
    assert!(
        armed.cell().claim_waiting_repeat().is_none(),
        "a run has it"
    );
    let due_at = DueAt::new(110, SHARD);
    // SAFETY: as above.
    let filed = unsafe { armed.cell().file_again(repeat, due_at, 10, None) };
    assert!(matches!(filed, Err(NotFiled::Paused)));
    assert!(armed.cell().claim_waiting_repeat().is_some());

    for is_cancelled in [false, true] {
        let armed = Fixture::repeating(100);
        drop(armed.run(100, GENERATION));
        if is_cancelled {
            assert!(armed.cell().claim_repeat().is_some(), "it runs");
        }
        // SAFETY: as above.
        let ended = unsafe { armed.cell().end_unless_paused() };
        assert_eq!(ended, Some((Some(INDEX), is_cancelled)));
    }
}

#[test]
fn a_timer_by_the_wall_clock_has_nothing_left_and_knows_that_it_was_resumed() {
    let by_wall = || {
        let fixture = Fixture::new();
        // SAFETY: no other thread uses the cell.
        unsafe { fixture.cell().fill(DueAt::new(100, SHARD), by_wall()) };
        fixture
    };
    let armed = by_wall();
    let cell = armed.cell();
    pause(&armed, 30);
    assert_eq!(left(&armed), Some(0));
    assert_eq!(resumed(&armed, 500), filed(500, GENERATION + 2));
    drop(armed.run(500, GENERATION + 2));
    assert!(cell.is_resumed());

    // Moved by somebody while it was paused, or after it was resumed.
    let armed = by_wall();
    let cell = armed.cell();
    pause(&armed, 30);
    let set = cell.set_left(GENERATION, 7, true);
    assert!(matches!(set, LeftSet::Set { .. }));
    assert_eq!(resumed(&armed, 500), filed(507, GENERATION + 3));
    drop(armed.run(507, GENERATION + 3));
    assert!(!cell.is_resumed());

    let armed = by_wall();
    let cell = armed.cell();
    pause(&armed, 30);
    assert_eq!(resumed(&armed, 500), filed(500, GENERATION + 2));
    assert!(matches!(cell.rearm(GENERATION, 600), Rearmed::Done { .. }));
    drop(armed.run(600, GENERATION + 2));
    assert!(!cell.is_resumed());

    // To the very tick at which it is due.
    let armed = by_wall();
    let cell = armed.cell();
    pause(&armed, 30);
    assert_eq!(resumed(&armed, 500), filed(500, GENERATION + 2));
    assert!(matches!(cell.rearm(GENERATION, 500), Rearmed::Done { .. }));
    drop(armed.run(500, GENERATION + 2));
    assert!(!cell.is_resumed());

    // The cell's next timer is not by the wall clock.
    let armed = by_wall();
    assert!(armed.cell().claim_any().is_some());
    // SAFETY: the claim gave us the index.
    let birth = unsafe {
        armed
            .cell()
            .fill(DueAt::new(100, SHARD), Payload("payload"))
    };
    let paused = armed.cell().halt(birth, |deadline| (deadline, 30), true);
    assert!(matches!(paused, Paused::Waits { .. }));
    assert_eq!(left(&armed), Some(70));
}

/// Of a resume or a pause that lost to a cancel, nothing is noted for the cell's next timer, which
/// may have the generation that the lost one would have got.
#[test]
fn what_lost_to_a_cancel_leaves_no_mark() {
    let armed = Fixture::armed(100);
    let cell = armed.cell();
    pause(&armed, 30);
    let cancel = |left: Left| {
        assert!(cell.claim_id(GENERATION).expect("it waits").index.is_none());
        (200 + left.left_ns, 3)
    };
    let lost = cell.resume(GENERATION, cancel, true);
    assert!(matches!(lost, Resumed::Cancelled { index: Some(INDEX) }));
    // SAFETY: the resume gave us the index.
    let birth = unsafe { cell.fill(DueAt::new(100, SHARD), Payload("payload")) };
    assert_eq!(birth, GENERATION + 2);
    let paused = cell.halt(birth, |deadline| (deadline, 30), true);
    assert!(matches!(paused, Paused::Waits { .. }));
    assert_eq!(left(&armed), Some(70), "too little is left");

    // A pause: the next timer, of the wall clock, was moved to sooner, and not resumed.
    let armed = Fixture::armed(100);
    let cell = armed.cell();
    let cancel = |deadline| {
        assert!(cell.claim_id(GENERATION).expect("it waits").index.is_none());
        (deadline, 0)
    };
    let lost = cell.halt(GENERATION, cancel, true);
    assert!(matches!(
        lost,
        Paused::Cancelled {
            index: Some(INDEX),
            ..
        }
    ));
    // SAFETY: as above.
    let birth = unsafe { cell.fill(DueAt::new(100, SHARD), by_wall()) };
    assert_eq!(birth, GENERATION + 1);
    let moved = cell.rearm(birth, 50);
    assert!(matches!(moved, Rearmed::Refiled { .. }));
    let begun = cell.begin(entry(50, GENERATION + 2));
    assert!(matches!(begun, RunBegun::Run { .. }));
    assert!(!cell.is_resumed(), "a move is lost");
}

/// A move to the very tick for which a resume has filed the timer: the rounding is not that of the
/// new deadline.
#[test]
fn a_move_to_the_same_tick_forgets_the_rounding() {
    let armed = Fixture::armed(100);
    pause(&armed, 30);
    assert_eq!(resumed(&armed, 200).entry.deadline(), 270);
    let moved = armed.cell().rearm(GENERATION, 270);
    assert!(matches!(moved, Rearmed::Done { .. }));
    pause(&armed, 210);
    assert_eq!(left(&armed), Some(60));
    // One that was never paused stays where it is.
    let armed = Fixture::armed(100);
    let moved = armed.cell().rearm(GENERATION, 100);
    assert!(matches!(moved, Rearmed::Done { .. }));
}

/// The rounding of a run that follows a pause is noted, too.
#[test]
fn what_a_run_has_rounded_up_is_not_left() {
    let armed = Fixture::repeating(100);
    let cell = armed.cell();
    pause(&armed, 30);
    assert_eq!(resumed(&armed, 200), filed(270, GENERATION + 2));
    let repeat = armed.run(270, GENERATION + 2);
    assert_eq!(cell.run_rounded_ns(), Some(3));
    // A pause that is over before the run is does not change that.
    assert!(matches!(
        cell.halt(GENERATION, |at| (at, 0), true),
        Paused::InRun
    ));
    assert_eq!(cell.run_rounded_ns(), Some(3));
    let resumed_in_run = cell.resume(GENERATION, |left| (left.left_ns, 0), true);
    assert!(matches!(resumed_in_run, Resumed::InRun));
    assert_eq!(cell.run_rounded_ns(), Some(3));
    // SAFETY: the run is ours.
    let again = unsafe { cell.file_again(repeat, DueAt::new(280, SHARD), 7, Some(4)) };
    assert!(matches!(again, Ok(again) if again == filed(280, GENERATION + 3)));
    pause(&armed, 272);
    assert_eq!(left(&armed), Some(4));
    assert_eq!(resumed(&armed, 300), filed(304, GENERATION + 5));
    // Moved since: the deadline is what somebody asked for.
    assert!(matches!(cell.rearm(GENERATION, 400), Rearmed::Done { .. }));
    drop(armed.run(400, GENERATION + 5));
    assert_eq!(cell.run_rounded_ns(), None);
}

fn by_wall() -> Box<Repeat> {
    let run = RunClosure::Plain(Box::new(|| ()));
    let look = Box::new(|_, _| Some(Duration::from_secs(1)));
    let next_look = Some(Arc::new(NextLook::default()));
    Box::new(Repeat::by_wall(look, next_look, 100, 3, run))
}
