//! Re-arm and periodic runs against fire, cancel and stop: src/cell/README.md, re-arm, put back,
//! doom, and a periodic run. Payloads are numbers; the ledger notes who got which.

use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{Cell, Cells, Due, Entry, Fault, Ran, Rearmed};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail};

const DUE: u64 = 5;
const SOONER: u64 = 3;
/// Near enough for the entry to find out.
const LATER: u64 = 6;
/// Too far: the timer is filed anew.
const MUCH_LATER: u64 = 1 << 20;

/// An armed cell, its birth, and who got its payload.
fn armed() -> (Arc<Cell<usize>>, u64, Arc<Ledger<2>>) {
    let cell = Arc::new(Cell::starting_at(0));
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm(DUE, 0) };
    (cell, birth, Arc::new(Ledger::new()))
}

/// A worker that comes with an entry, and follows it to where the timer was put. Returns the
/// deadline at which it fired.
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

/// A worker comes with the due entry, another thread moves the timer. If it says that it has, the
/// timer does not fire at the old deadline, but once at the new one.
fn rearm_against_worker(deadline: u64) {
    let (cell, birth, won) = armed();
    let (worker_cell, worker_won) = (cell.clone(), won.clone());
    let worker =
        thread::spawn(move || follow(&worker_cell, Entry::new(DUE, 0, birth), &worker_won));
    let rearmed = cell.rearm(birth, deadline);
    let fired = worker.join().unwrap();
    match rearmed {
        Rearmed::Gone => assert_eq!(fired, Some(DUE)),
        Rearmed::Done => assert_eq!(fired, Some(deadline), "fired early, or lost"),
        Rearmed::Refiled(entry) => {
            assert_eq!(fired, None, "fired at the old deadline");
            assert_eq!(follow(&cell, entry, &won), Some(deadline), "lost");
        }
        Rearmed::Cancelled(_) | Rearmed::Paused => panic!("nobody cancels, or pauses"),
    }
    assert_eq!(won.counts()[0], 1);
}

fn later_against_worker() {
    rearm_against_worker(LATER);
}

fn sooner_against_worker() {
    rearm_against_worker(SOONER);
}

fn much_later_against_worker() {
    rearm_against_worker(MUCH_LATER);
}

/// Two threads move the timer, a worker comes with the old entry. It fires once, at a deadline that
/// one of them asked for.
fn two_rearms_against_worker(deadlines: [u64; 2]) {
    let (cell, birth, won) = armed();
    let (worker_cell, worker_won) = (cell.clone(), won.clone());
    let worker =
        thread::spawn(move || follow(&worker_cell, Entry::new(DUE, 0, birth), &worker_won));
    let other_cell = cell.clone();
    let other = thread::spawn(move || other_cell.rearm(birth, deadlines[1]));
    let rearmed = [cell.rearm(birth, deadlines[0]), other.join().unwrap()];
    let mut fired = worker.join().unwrap();
    let moved = rearmed.iter().any(|&rearmed| rearmed != Rearmed::Gone);
    for rearmed in rearmed {
        if let Rearmed::Refiled(entry) = rearmed
            && let Some(deadline) = follow(&cell, entry, &won)
        {
            assert_eq!(fired.replace(deadline), None, "fired twice");
        }
    }
    let fired = fired.expect("lost");
    assert!(
        if moved {
            deadlines.contains(&fired)
        } else {
            fired == DUE
        },
        "fired at {fired}: {rearmed:?}"
    );
    assert_eq!(won.counts()[0], 1);
}

fn later_and_sooner_against_worker() {
    two_rearms_against_worker([LATER, SOONER]);
}

fn sooner_and_much_later_against_worker() {
    two_rearms_against_worker([SOONER, MUCH_LATER]);
}

/// One thread moves the timer, another cancels it; whoever has the cell then uses it again at once.
fn rearm_against_cancel(deadline: u64) {
    let (cell, birth, won) = armed();
    let (other_cell, other_won) = (cell.clone(), won.clone());
    let other = thread::spawn(move || {
        let claimed = other_cell
            .claim_id(birth)
            .expect("a timer that nobody fires can be cancelled");
        other_won.add(claimed.payload.expect("it is not periodic"));
        // SAFETY: the cell is ours if it says so.
        claimed
            .mine
            .then(|| unsafe { other_cell.arm(DUE, 1) })
            .is_some()
    });
    let rearmed = cell.rearm(birth, deadline);
    let mut mine = false;
    if rearmed == Rearmed::Cancelled(true) {
        mine = true;
        // SAFETY: as above.
        unsafe { cell.arm(DUE, 1) };
    }
    assert!(other.join().unwrap() != mine, "the cell is free once");
    let again = cell.claim_any().expect("armed again");
    won.add(again.payload.expect("it is not periodic"));
    assert_eq!(won.counts(), [1, 1]);
    assert!(cell.claim_id(birth).is_none(), "cancelled twice");
}

fn sooner_against_cancel() {
    rearm_against_cancel(SOONER);
}

fn later_against_cancel() {
    rearm_against_cancel(LATER);
}

/// The same with two who cancel: one of them is `true`.
fn rearm_against_two_cancels() {
    let (cell, birth, won) = armed();
    let others = [(); 2].map(|()| {
        let (cell, won) = (cell.clone(), won.clone());
        thread::spawn(move || {
            let claimed = cell.claim_id(birth)?;
            won.add(claimed.payload.expect("it is not periodic"));
            Some(claimed.mine)
        })
    });
    let rearmed = cell.rearm(birth, SOONER);
    let cancelled: Vec<bool> = others
        .into_iter()
        .filter_map(|other| other.join().unwrap())
        .collect();
    assert_eq!((cancelled.len(), won.counts()[0]), (1, 1), "cancelled once");
    assert!(
        (rearmed == Rearmed::Cancelled(true)) != cancelled[0],
        "the cell is free once"
    );
    assert!(!cell.is_pending(birth));
}

/// A worker runs a periodic timer once and files it again; another thread cancels it. After that
/// nothing runs.
fn run_against_cancel() {
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
    let cancelled = cell
        .claim_id(birth)
        .expect("a periodic timer can be cancelled, run or no run");
    assert!(cell.claim_id(birth).is_none(), "cancelled twice");
    let ran = worker.join().unwrap();
    assert!(!cell.is_pending(birth));
    match ran {
        Ran::Cancelled => assert!(
            !cancelled.runs && cancelled.mine && runs.counts()[0] == 0,
            "it was cancelled before the run"
        ),
        Ran::Ended(_) => assert!(
            cancelled.runs && !cancelled.mine,
            "the run had the timer when it was cancelled"
        ),
        Ran::Again(entry) => {
            assert!(
                !cancelled.runs && cancelled.mine,
                "it was cancelled after the run"
            );
            assert!(matches!(cell.claim_due(entry), Due::Dead), "it runs on");
        }
        Ran::Moved(_) | Ran::Paused => panic!("nobody moves it, or pauses it"),
    }
    assert!(runs.counts()[0] <= 1);
}

/// A periodic timer's run, a re-arm, a cancel.
fn run_against_rearm_and_cancel() {
    let cell = Arc::new(Cell::<usize>::starting_at(0));
    let runs = Arc::new(Ledger::<1>::new());
    let counted = runs.clone();
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm_repeat(DUE, move || _ = counted.add(0)) };
    let worker_cell = cell.clone();
    let worker = thread::spawn(
        move || match worker_cell.claim_due(Entry::new(DUE, 0, birth)) {
            Due::Runs(run) => u32::from(matches!(worker_cell.run(run, LATER), Ran::Ended(_))),
            _ => 0,
        },
    );
    let mover_cell = cell.clone();
    let mover = thread::spawn(move || {
        u32::from(mover_cell.rearm(birth, SOONER) == Rearmed::Cancelled(true))
    });
    let cancelled = cell
        .claim_id(birth)
        .expect("a periodic timer can be cancelled, run or no run");
    let freed = u32::from(cancelled.mine) + worker.join().unwrap() + mover.join().unwrap();
    assert_eq!(freed, 1, "the cell is free once");
    assert!(!cell.is_pending(birth));
}

/// A periodic timer's run that waits, and a re-arm to a deadline after that of the run, and before
/// the next one.
fn run_against_later() {
    let cell = Arc::new(Cell::<usize>::starting_at(0));
    // SAFETY: nobody else has the cell yet.
    let birth = unsafe { cell.arm_repeat(DUE, || ()) };
    let Due::Runs(run) = cell.claim_due(Entry::new(DUE, 0, birth)) else {
        panic!("it is due")
    };
    let mover_cell = cell.clone();
    let mover = thread::spawn(move || mover_cell.rearm(birth, LATER));
    let ran = cell.run(run, MUCH_LATER);
    match mover.join().unwrap() {
        Rearmed::Done => {
            let Ran::Moved(entry) = ran else {
                panic!("it has run early: {ran:?}")
            };
            let run = match cell.claim_due(entry) {
                Due::Runs(run) => run,
                other => panic!("it is lost: {other:?}"),
            };
            assert!(matches!(cell.run(run, MUCH_LATER), Ran::Again(_)));
        }
        Rearmed::Gone | Rearmed::Refiled(_) => assert!(matches!(ran, Ran::Again(_))),
        Rearmed::Cancelled(_) | Rearmed::Paused => panic!("nobody cancels it"),
    }
}

/// A periodic timer's run that waits, a cancel, and the cell's next timer, whose run waits too.
fn run_against_cancel_and_the_next() {
    let cell = Arc::new(Cell::<usize>::starting_at(0));
    let runs = Arc::new(Ledger::<2>::new());
    // SAFETY: the cell is nobody else's when it is armed.
    let arm = |number| unsafe {
        cell.arm_repeat(DUE, {
            let runs = runs.clone();
            move || _ = runs.add(number)
        })
    };
    let birth = arm(0);
    let Due::Runs(run) = cell.claim_due(Entry::new(DUE, 0, birth)) else {
        panic!("it is due")
    };
    let worker_cell = cell.clone();
    let worker = thread::spawn(move || matches!(worker_cell.run(run, LATER), Ran::Ended(_)));
    let cancelled = cell
        .claim_id(birth)
        .expect("a periodic timer can be cancelled, run or no run");
    if !cancelled.mine {
        assert!(
            worker.join().unwrap(),
            "the run had the timer when it was cancelled"
        );
        return;
    }
    let next = arm(1);
    let Due::Runs(run) = cell.claim_due(Entry::new(DUE, 0, next)) else {
        panic!("nobody else knows of it")
    };
    assert!(
        matches!(cell.run(run, LATER), Ran::Again(_)),
        "another timer's run began in its place"
    );
    worker.join().unwrap();
    assert_eq!(runs.counts()[1], 1);
}

/// Through the arena and the lanes: a re-arm against a cancel, and the cell's next timer.
fn rearm_and_cancel_and_schedule() {
    let (cells, shard) = Cells::new();
    let (cells, shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let won = Arc::new(Ledger::<2>::new());
    let mut local = Held::new(cells.local());
    let id = cells.admit(&mut local, DUE, 0usize).expect("not stopped");
    let other_cells = cells.clone();
    let other = thread::spawn(move || {
        let mut local = Held::new(other_cells.local());
        other_cells.rearm(&mut local, id, SOONER);
        local
    });
    won.add(cells.take(&mut local, id).expect("nobody fires it"));
    let next = cells.admit(&mut local, LATER, 1usize).expect("not stopped");
    let other_local = other.join().unwrap();
    assert!(!cells.rearm(&mut local, id, LATER), "it is gone");
    won.add(
        cells
            .take(&mut local, next)
            .expect("nobody else has its id"),
    );
    assert_eq!(won.counts(), [1, 1]);
    drop((other_local, local, shard));
}

/// The service stops while a timer is moved: it is handed back, once.
fn rearm_against_stop() {
    let (cells, shard) = Cells::new();
    let (cells, shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let won = Arc::new(Ledger::<1>::new());
    let mut local = Held::new(cells.local());
    let id = cells.admit(&mut local, DUE, 0usize).expect("not stopped");
    let other_cells = cells.clone();
    let other = thread::spawn(move || {
        let mut local = Held::new(other_cells.local());
        other_cells.rearm(&mut local, id, SOONER);
        local
    });
    assert!(cells.stop());
    cells.claim_all(&mut local, |_, payload| _ = won.add(payload));
    let mut other_local = other.join().unwrap();
    assert_eq!(
        (won.counts(), cells.take(&mut other_local, id)),
        ([1], None),
        "it is handed back"
    );
    drop((other_local, local, shard));
}

#[test]
fn a_timer_that_is_moved_is_handed_back_by_stop() {
    explore(Some(4), rearm_against_stop);
}

#[test]
fn broken_move_while_the_service_stops() {
    must_fail(Fault::ClaimNotAtomic, "", Some(4), rearm_against_stop);
}

#[test]
fn a_timer_that_was_moved_later_fires_then() {
    explore(None, later_against_worker);
}

#[test]
fn a_timer_that_was_moved_sooner_fires_then() {
    explore(None, sooner_against_worker);
}

#[test]
fn a_timer_that_was_moved_far_fires_then() {
    explore(None, much_later_against_worker);
}

#[test]
fn a_timer_that_two_move_fires_once() {
    explore(Some(3), later_and_sooner_against_worker);
}

#[test]
fn a_timer_that_two_move_far_and_near_fires_once() {
    explore(Some(3), sooner_and_much_later_against_worker);
}

#[test]
fn a_timer_that_is_moved_is_cancelled_once() {
    explore(None, sooner_against_cancel);
}

#[test]
fn a_timer_that_is_moved_later_is_cancelled_once() {
    explore(None, later_against_cancel);
}

#[test]
fn a_timer_that_is_moved_is_cancelled_by_one_of_two() {
    explore(Some(3), rearm_against_two_cancels);
}

#[test]
fn a_periodic_timer_that_was_cancelled_runs_no_more() {
    explore(None, run_against_cancel);
}

#[test]
fn a_periodic_timer_that_is_moved_and_cancelled_is_free_once() {
    explore(Some(3), run_against_rearm_and_cancel);
}

#[test]
fn a_moved_and_cancelled_timers_cell_is_armed_again() {
    explore(Some(3), rearm_and_cancel_and_schedule);
}

#[test]
fn broken_move() {
    must_fail(
        Fault::ClaimNotAtomic,
        "fired early, or lost",
        None,
        later_against_worker,
    );
}

#[test]
fn broken_deadline_of_a_moved_timer() {
    must_fail(
        Fault::ClaimIgnoresDeadline,
        "fired early",
        None,
        later_against_worker,
    );
}

#[test]
fn broken_count_of_a_moved_timer() {
    must_fail(
        Fault::RefileKeepsGeneration,
        "fired at the old deadline",
        None,
        much_later_against_worker,
    );
}

#[test]
fn broken_leave() {
    must_fail(
        Fault::LeaveAlone,
        "the cell is free once",
        None,
        sooner_against_cancel,
    );
}

#[test]
fn broken_ordering_of_leave() {
    must_fail(
        Fault::LeaveRelaxed,
        "Causality violation",
        None,
        sooner_against_cancel,
    );
}

#[test]
fn a_run_that_waits_does_not_begin_anothers() {
    explore(None, run_against_cancel_and_the_next);
}

#[test]
fn broken_count_of_a_run_that_waits() {
    must_fail(
        Fault::RunIgnoresGeneration,
        "another timer's run began in its place",
        None,
        run_against_cancel_and_the_next,
    );
}

#[test]
fn broken_end_of_a_run() {
    must_fail(
        Fault::RunFilesBlindly,
        "it was cancelled after the run",
        None,
        run_against_cancel,
    );
}

#[test]
fn a_run_that_waits_does_not_begin_before_a_later_deadline() {
    explore(None, run_against_later);
}

#[test]
fn broken_deadline_of_a_run_that_waits() {
    must_fail(
        Fault::RunIgnoresDeadline,
        "it has run early",
        None,
        run_against_later,
    );
}
