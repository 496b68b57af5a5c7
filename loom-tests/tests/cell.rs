//! Cell: src/cell/README.md, arm and claim. Payloads are numbers; the ledger notes who got which.

use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{Cell, Cells, Due, Entry, Fault};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail};

const DUE: u64 = 5;
const LATER: u64 = 6;

/// What a worker gets that comes with this entry.
fn fires(cell: &Cell<usize>, deadline: u64, generation: u64) -> Option<usize> {
    match cell.claim_due(Entry::new(deadline, 0, generation)) {
        Due::Fires(payload) => Some(payload),
        Due::Dead | Due::Later(_) => None,
        Due::Runs(_) => panic!("it is not periodic"),
    }
}

/// What the holder of an id gets.
fn cancels(cell: &Cell<usize>, generation: u64) -> Option<usize> {
    cell.claim_id(generation).map(|claimed| {
        assert!(claimed.mine, "nobody else has to do with it");
        claimed.payload.expect("it is not periodic")
    })
}

/// A worker comes with the entry, a canceller with the id. One of them wins; the cell has one
/// outcome.
fn worker_against_canceller() {
    let cell = Arc::new(Cell::starting_at(0));
    let won = Arc::new(Ledger::<1>::new());
    // SAFETY: nobody else has the cell yet.
    let generation = unsafe { cell.arm(DUE, 0usize) };
    let (worker_cell, worker_won) = (cell.clone(), won.clone());
    let worker = thread::spawn(move || {
        fires(&worker_cell, DUE, generation).map(|payload| worker_won.add(payload))
    });
    let cancelled = cell.claim_id(generation).map(|claimed| {
        (
            claimed.entry,
            claimed.payload.map(|payload| won.add(payload)),
        )
    });
    let fired = worker.join().unwrap();
    assert!(
        cancelled.is_some() != fired.is_some(),
        "one winner: {cancelled:?} {fired:?}"
    );
    assert!(cancelled.is_none_or(|(entry, _)| entry == Some(Entry::new(DUE, 0, generation))));
    assert_eq!(won.counts(), [1]);
}

/// Two cancellers and a worker.
fn three_claim() {
    let cell = Arc::new(Cell::starting_at(0));
    let won = Arc::new(Ledger::<1>::new());
    // SAFETY: nobody else has the cell yet.
    let generation = unsafe { cell.arm(DUE, 0usize) };
    let others = [true, false].map(|due| {
        let (cell, won) = (cell.clone(), won.clone());
        thread::spawn(move || {
            let claimed = if due {
                fires(&cell, DUE, generation)
            } else {
                cancels(&cell, generation)
            };
            claimed.map(|payload| won.add(payload));
        })
    });
    cancels(&cell, generation).map(|payload| won.add(payload));
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(won.counts(), [1]);
}

/// The canceller arms the cell again at once, for another deadline or the same: the old entry does
/// not take the new timer.
fn reuse(
    deadline: u64,
    worker_claims: impl Fn(&Cell<usize>, u64) -> Option<usize> + Send + 'static,
) {
    let cell = Arc::new(Cell::starting_at(0));
    let won = Arc::new(Ledger::<2>::new());
    // SAFETY: nobody else has the cell yet.
    let generation = unsafe { cell.arm(DUE, 0usize) };
    let (worker_cell, worker_won) = (cell.clone(), won.clone());
    let worker = thread::spawn(move || {
        if let Some(payload) = worker_claims(&worker_cell, generation) {
            assert_eq!(payload, 0, "the old entry took the new timer");
            worker_won.add(payload);
        }
    });
    let again = cancels(&cell, generation).map(|payload| {
        won.add(payload);
        // SAFETY: whoever won the claim has the cell.
        unsafe { cell.arm(deadline, 1usize) }
    });
    worker.join().unwrap();
    let rest = again
        .and_then(|generation| cancels(&cell, generation))
        .map(|payload| won.add(payload));
    assert_eq!(won.counts(), [1, u32::from(again.is_some())]);
    assert_eq!(
        rest.is_some(),
        again.is_some(),
        "the new timer is still there"
    );
}

fn reuse_against_worker() {
    reuse(LATER, |cell, generation| fires(cell, DUE, generation));
}

fn reuse_same_deadline() {
    reuse(DUE, |cell, generation| fires(cell, DUE, generation));
}

fn reuse_against_second_canceller() {
    reuse(LATER, cancels);
}

/// Somebody who learns of the timer by the cell's word alone, as `stop` does.
fn arm_against_stop() {
    let cell = Arc::new(Cell::starting_at(0));
    let won = Arc::new(Ledger::<1>::new());
    let (stop_cell, stop_won) = (cell.clone(), won.clone());
    let stop = thread::spawn(move || {
        stop_cell
            .claim_any()
            .and_then(|claimed| claimed.payload)
            .map(|payload| stop_won.add(payload))
    });
    // SAFETY: nobody else arms it.
    let generation = unsafe { cell.arm(DUE, 0usize) };
    let stopped = stop.join().unwrap();
    let rest = cancels(&cell, generation).map(|payload| won.add(payload));
    assert!(stopped.is_some() != rest.is_some());
    assert_eq!(won.counts(), [1]);
}

/// Reuse through the arena: the canceller's next timer gets the cell that it freed.
fn cancel_and_schedule_against_worker() {
    let (cells, shard) = Cells::new();
    let (cells, shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let won = Arc::new(Ledger::<2>::new());
    let mut local = Held::new(cells.local());
    let first = cells.admit(&mut local, DUE, 0usize).expect("not stopped");
    let (worker_cells, worker_won) = (cells.clone(), won.clone());
    let worker = thread::spawn(move || {
        let mut local = Held::new(worker_cells.local());
        if let Some(payload) = worker_cells.claim_due(&mut local, Entry::of(first, DUE)) {
            assert_eq!(payload, 0, "the old entry took the new timer");
            worker_won.add(payload);
        }
        local
    });
    if let Some(payload) = cells.take(&mut local, first) {
        won.add(payload);
    }
    let second = cells.admit(&mut local, LATER, 1usize).expect("not stopped");
    let worker_local = worker.join().unwrap();
    assert_eq!(cells.take(&mut local, first), None);
    won.add(
        cells
            .take(&mut local, second)
            .expect("nobody else has its id"),
    );
    assert_eq!(won.counts(), [1, 1]);
    drop((worker_local, local, shard));
}

#[test]
fn a_claim_has_one_winner() {
    explore(None, worker_against_canceller);
}

#[test]
fn a_claim_of_three_has_one_winner() {
    explore(Some(3), three_claim);
}

#[test]
fn an_old_entry_does_not_take_a_new_timer() {
    explore(None, reuse_against_worker);
}

#[test]
fn an_old_entry_of_the_same_deadline_does_not_take_a_new_timer() {
    explore(None, reuse_same_deadline);
}

#[test]
fn an_old_id_does_not_take_a_new_timer() {
    explore(None, reuse_against_second_canceller);
}

#[test]
fn what_is_armed_is_complete() {
    explore(None, arm_against_stop);
}

#[test]
fn a_freed_cell_is_armed_again() {
    explore(Some(4), cancel_and_schedule_against_worker);
}

#[test]
fn broken_claim() {
    must_fail(
        Fault::ClaimNotAtomic,
        "Causality violation",
        None,
        worker_against_canceller,
    );
}

#[test]
fn broken_generation_of_an_entry() {
    must_fail(
        Fault::ClaimIgnoresGeneration,
        "the old entry took the new timer",
        None,
        reuse_same_deadline,
    );
}

#[test]
fn broken_generation_of_an_id() {
    must_fail(
        Fault::ClaimIgnoresGeneration,
        "the old entry took the new timer",
        None,
        reuse_against_second_canceller,
    );
}

#[test]
fn broken_arm() {
    must_fail(
        Fault::ArmRelaxed,
        "Causality violation",
        None,
        arm_against_stop,
    );
}
