//! Pause and resume against fire, cancel, re-arm, a run and each other: src/cell/README.md, pause,
//! resume, set what is left. A tick is a nanosecond here. Payloads are numbers; the ledger notes
//! who got which.

use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{
    Cell, Due, Entry, Fault, LEFT_AFTER_RUN_NS, Paused, ROUNDED_NS, Ran, Rearmed, Resumed,
};
use wheelwork_loom_tests::{Ledger, explore, must_fail};

const DUE: u64 = 5;
const LATER: u64 = 7;
/// When the timer is paused, and when it is resumed.
const PAUSED_AT: u64 = 2;
const RESUMED_AT: u64 = 20;

/// An armed cell, its birth, and who got its payload.
fn armed() -> (Arc<Cell<usize>>, u64, Arc<Ledger<2>>) {
    let cell = Arc::new(Cell::starting_at(0));
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm(DUE, 0) };
    (cell, birth, Arc::new(Ledger::new()))
}

/// A worker comes with an entry, and follows it to where the timer was put. Returns the deadline at
/// which it fired.
fn follow(cell: &Cell<usize>, mut entry: Entry, won: &Ledger<2>) -> Option<u64> {
    loop {
        match cell.claim_due(entry) {
            Due::Fires(payload) => {
                won.add(payload);
                return Some(entry.deadline());
            }
            Due::Later(later) => entry = later,
            Due::Dead => return None,
            Due::Runs(_) => panic!("it is not periodic"),
        }
    }
}

/// A worker comes with the due entry, another thread pauses the timer and resumes it. If it says
/// that it has, the timer fires when what was left has passed, and not before.
fn pause_against_worker() {
    let (cell, birth, won) = armed();
    let (worker_cell, worker_won) = (cell.clone(), won.clone());
    let worker =
        thread::spawn(move || follow(&worker_cell, Entry::new(DUE, 0, birth), &worker_won));
    let paused = cell.pause(birth, PAUSED_AT);
    let resumed = cell.resume(birth, RESUMED_AT);
    let fired = worker.join().unwrap();
    match (paused, resumed) {
        (Paused::Unchanged, Resumed::Unchanged) => assert_eq!(fired, Some(DUE)),
        (Paused::Waits, Resumed::Filed(entry)) => {
            assert_eq!(fired, None, "fired though it was paused");
            let expected = RESUMED_AT + DUE - PAUSED_AT;
            assert_eq!(follow(&cell, entry, &won), Some(expected), "lost, or early");
        }
        other => panic!("nobody cancels it: {other:?}"),
    }
    assert_eq!(won.counts()[0], 1);
}

/// One thread pauses the timer and resumes it, another cancels it; whoever has the cell then uses
/// it again at once. Nothing of the first timer is noted for the second one.
fn pause_against_cancel() {
    let (cell, birth, won) = armed();
    let (other_cell, other_won) = (cell.clone(), won.clone());
    let other = thread::spawn(move || {
        let claimed = other_cell
            .claim_id(birth)
            .expect("a timer that nobody fires can be cancelled");
        other_won.add(claimed.payload.expect("it is not periodic"));
        if let Some(left) = claimed.left {
            assert_eq!(left, DUE - PAUSED_AT, "what is left is that of the pause");
        }
        // SAFETY: the cell is ours if it says so.
        claimed.mine.then(|| unsafe { other_cell.arm(DUE, 1) })
    });
    let paused = cell.pause(birth, PAUSED_AT);
    let resumed = cell.resume(birth, RESUMED_AT);
    let mine = paused == Paused::Cancelled(true) || resumed == Resumed::Cancelled(true);
    // SAFETY: as above.
    let here = mine.then(|| unsafe { cell.arm(DUE, 1) });
    let there = other.join().unwrap();
    assert!(there.is_some() != mine, "the cell is free once");
    let again = here.or(there).expect("one of them has armed it");
    if let Resumed::Filed(entry) = resumed {
        assert_eq!(follow(&cell, entry, &won), None, "fired though cancelled");
    }
    assert_eq!(cell.pause(again, PAUSED_AT), Paused::Waits);
    let again = cell.claim_any().expect("armed again");
    assert_eq!(again.left, Some(DUE - PAUSED_AT), "too little is left");
    won.add(again.payload.expect("it is not periodic"));
    assert_eq!(won.counts(), [1, 1]);
    assert!(cell.claim_id(birth).is_none(), "cancelled twice");
}

/// A timer is moved while it is paused. Whichever comes first, the move is not lost: what is left
/// counts from the new deadline.
fn pause_against_rearm(deadline: u64) {
    let (cell, birth, _) = armed();
    pause_while_moved(cell, birth, deadline);
}

/// The same of a timer that was paused before, and is moved to the very tick at which it is due.
fn pause_against_rearm_of_a_resumed_timer() {
    let (cell, birth, _) = armed();
    assert_eq!(cell.pause(birth, PAUSED_AT), Paused::Waits);
    let Resumed::Filed(entry) = cell.resume(birth, PAUSED_AT) else {
        panic!("nobody cancels it")
    };
    pause_while_moved(cell, birth, entry.deadline());
}

fn pause_while_moved(cell: Arc<Cell<usize>>, birth: u64, deadline: u64) {
    let other_cell = cell.clone();
    let other = thread::spawn(move || {
        let rearmed = other_cell.rearm(birth, deadline);
        if rearmed == Rearmed::Paused {
            assert_eq!(
                other_cell.set_left(birth, deadline - PAUSED_AT),
                Some(true),
                "nobody resumes it"
            );
        }
        rearmed
    });
    assert_eq!(cell.pause(birth, PAUSED_AT), Paused::Waits);
    let rearmed = other.join().unwrap();
    assert!(!matches!(rearmed, Rearmed::Gone | Rearmed::Cancelled(_)));
    assert_eq!(cell.left(), Some(deadline - PAUSED_AT), "the move is lost");
}

fn pause_against_later() {
    pause_against_rearm(LATER);
}

fn pause_against_sooner() {
    pause_against_rearm(DUE - 1);
}

/// A paused timer is resumed by two threads, and what is left is set by a third: one of the two
/// resumes it, once, and it has one of the two times left.
fn resume_against_resume_and_set() {
    let (cell, birth, won) = armed();
    assert_eq!(cell.pause(birth, PAUSED_AT), Paused::Waits);
    let others: [thread::JoinHandle<Resumed>; 1] = [()].map(|()| {
        let cell = cell.clone();
        thread::spawn(move || cell.resume(birth, RESUMED_AT))
    });
    let setter_cell = cell.clone();
    let setter = thread::spawn(move || setter_cell.set_left(birth, 1));
    let mut filed = Vec::new();
    let resumed = others.map(|other| other.join().unwrap());
    for resumed in resumed.into_iter().chain([cell.resume(birth, RESUMED_AT)]) {
        match resumed {
            Resumed::Filed(entry) => filed.push(entry),
            Resumed::Unchanged => {}
            other => panic!("nobody cancels it: {other:?}"),
        }
    }
    let set = setter.join().unwrap();
    assert_eq!(filed.len(), 1, "resumed once");
    let left = if set == Some(true) {
        1
    } else {
        DUE - PAUSED_AT
    };
    assert_eq!(follow(&cell, filed[0], &won), Some(RESUMED_AT + left));
}

/// A periodic timer is paused, and perhaps resumed, while a worker runs it. It does not run while
/// it is paused, and is not lost.
fn run_against_pause(resumes: bool) {
    let cell = Arc::new(Cell::<usize>::starting_at(0));
    let runs = Arc::new(Ledger::<1>::new());
    let counted = runs.clone();
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm_repeat(DUE, move || _ = counted.add(0)) };
    let worker_cell = cell.clone();
    let worker = thread::spawn(
        move || match worker_cell.claim_due(Entry::new(DUE, 0, birth)) {
            Due::Runs(run) => worker_cell.run(run, LATER),
            _ => Ran::Cancelled,
        },
    );
    let paused = cell.pause(birth, PAUSED_AT);
    let resumed = resumes.then(|| cell.resume(birth, RESUMED_AT));
    let ran = worker.join().unwrap();
    let left = match (&paused, &ran) {
        (Paused::Waits, Ran::Cancelled) => DUE - PAUSED_AT,
        (Paused::Waits, Ran::Moved(entry)) => {
            assert!(matches!(cell.claim_due(*entry), Due::Dead), "it is dead");
            DUE - PAUSED_AT
        }
        (Paused::Waits, Ran::Again(entry)) => {
            assert!(matches!(cell.claim_due(*entry), Due::Dead), "it runs on");
            LATER - PAUSED_AT - ROUNDED_NS
        }
        (Paused::InRun, Ran::Paused) => LEFT_AFTER_RUN_NS,
        (Paused::InRun, Ran::Again(_)) if resumes => LEFT_AFTER_RUN_NS,
        other => panic!("paused in its run, and runs on: {other:?}"),
    };
    let entry = match (resumed, ran) {
        (None, _) => {
            assert_eq!(cell.left(), Some(left), "paused in its run, and runs on");
            return;
        }
        (Some(Resumed::Filed(entry)), _) => {
            assert_eq!(entry.deadline(), RESUMED_AT + left);
            entry
        }
        (Some(Resumed::InRun), Ran::Again(entry)) => entry,
        other => panic!("it is lost: {other:?}"),
    };
    let Due::Runs(run) = cell.claim_due(entry) else {
        panic!("it is lost")
    };
    assert!(matches!(cell.run(run, 100), Ran::Again(_)));
}

fn run_against_a_pause() {
    run_against_pause(false);
}

fn run_against_pause_and_resume() {
    run_against_pause(true);
}

/// A periodic timer's run, a pause, a cancel.
fn run_against_pause_and_cancel() {
    let cell = Arc::new(Cell::<usize>::starting_at(0));
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm_repeat(DUE, || ()) };
    let worker_cell = cell.clone();
    let worker = thread::spawn(
        move || match worker_cell.claim_due(Entry::new(DUE, 0, birth)) {
            Due::Runs(run) => u32::from(matches!(worker_cell.run(run, LATER), Ran::Ended(_))),
            _ => 0,
        },
    );
    let pauser_cell = cell.clone();
    let pauser = thread::spawn(move || {
        u32::from(pauser_cell.pause(birth, PAUSED_AT) == Paused::Cancelled(true))
    });
    let cancelled = cell
        .claim_id(birth)
        .expect("a periodic timer can be cancelled, run or no run");
    let freed = u32::from(cancelled.mine) + worker.join().unwrap() + pauser.join().unwrap();
    assert_eq!(freed, 1, "the cell is free once");
    assert!(!cell.is_pending(birth));
    // SAFETY: the other threads have ended, and the cell is free.
    let again = unsafe { cell.arm(DUE, 0) };
    assert_eq!(cell.pause(again, PAUSED_AT), Paused::Waits);
    assert_eq!(cell.left(), Some(DUE - PAUSED_AT), "too little is left");
}

#[test]
fn a_timer_that_was_paused_fires_when_the_rest_has_passed() {
    explore(None, pause_against_worker);
}

#[test]
fn a_timer_that_is_paused_is_cancelled_once() {
    explore(Some(3), pause_against_cancel);
}

#[test]
fn a_move_that_meets_a_pause_is_not_lost() {
    explore(None, pause_against_later);
}

#[test]
fn nor_one_to_sooner() {
    explore(Some(4), pause_against_sooner);
}

#[test]
fn nor_one_to_the_tick_of_a_resume() {
    explore(Some(4), pause_against_rearm_of_a_resumed_timer);
}

#[test]
fn a_timer_is_resumed_once() {
    explore(Some(3), resume_against_resume_and_set);
}

#[test]
fn a_periodic_timer_that_is_paused_does_not_run() {
    explore(None, run_against_a_pause);
}

#[test]
fn and_runs_again_when_it_is_resumed() {
    explore(Some(4), run_against_pause_and_resume);
}

#[test]
fn a_periodic_timer_that_is_paused_and_cancelled_is_free_once() {
    explore(Some(3), run_against_pause_and_cancel);
}

#[test]
fn broken_resume() {
    must_fail(
        Fault::ResumeFilesBlindly,
        "the cell is free once",
        Some(3),
        pause_against_cancel,
    );
}

#[test]
fn broken_pause_that_meets_a_move() {
    must_fail(
        Fault::RearmOverPause,
        "the move is lost",
        Some(4),
        pause_against_sooner,
    );
}

#[test]
fn broken_pause_in_a_run() {
    must_fail(
        Fault::RunFilesBlindly,
        "paused in its run, and runs on",
        None,
        run_against_a_pause,
    );
}

#[test]
fn broken_move_to_the_tick_of_a_resume() {
    must_fail(
        Fault::RearmKeepsRounding,
        "the move is lost",
        Some(4),
        pause_against_rearm_of_a_resumed_timer,
    );
}
