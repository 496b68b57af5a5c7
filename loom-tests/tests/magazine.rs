//! Magazines, depot, fresh cells and retired pages: src/cell/README.md, exchange and retire. A
//! magazine holds one cell here, a page two, an arena four pages.

use loom::thread;
use std::collections::HashSet;
use std::sync::Arc;
use wheelwork::TimerId;
use wheelwork::internals::loom::{Arena, Cells, Entry, Fault, Local, Magazines, set_pins};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail};

/// All cells that there can be.
const CELLS: usize = 8;

type Holders = Ledger<CELLS>;

/// Takes a cell, and says so.
fn take(arena: &Arena, magazines: &mut Magazines, holders: &Holders) -> u32 {
    let cell = arena.take(magazines).expect("there are enough");
    assert_eq!(holders.add(cell as usize), 1, "held twice");
    cell
}

fn put(arena: &Arena, magazines: &mut Magazines, holders: &Holders, cell: u32) {
    holders.remove(cell as usize);
    arena.put(magazines, cell);
}

/// Every cell is there, once.
fn all_there(arena: &Arena, holders: &Holders) {
    let mut magazines = Held::new(arena.magazines());
    let mut cells = 0;
    while let Some(cell) = arena.take(&mut magazines) {
        assert_eq!(holders.add(cell as usize), 1, "held twice");
        cells += 1;
    }
    assert_eq!(cells, CELLS, "a cell is lost");
}

/// Two threads, each of which runs `each`, and gives back what it has in its magazines. Before,
/// `warm` cells are taken.
fn two_threads(warm: usize, each: fn(&Arena, &mut Magazines, &Holders)) {
    let arena = Held::new(Arc::new(Arena::new()));
    let holders = Arc::new(Holders::new());
    let mut magazines = Held::new(arena.magazines());
    let before: Vec<_> = (0..warm)
        .map(|_| take(&arena, &mut magazines, &holders))
        .collect();
    let (other_arena, other_holders) = (arena.clone(), holders.clone());
    let run = move |arena: &Arena, holders: &Holders| {
        let mut magazines = Held::new(arena.magazines());
        each(arena, &mut magazines, holders);
        arena.give_back(magazines.into_inner());
    };
    let other = thread::spawn(move || run(&other_arena, &other_holders));
    run(&arena, &holders);
    other.join().unwrap();
    before
        .into_iter()
        .for_each(|cell| put(&arena, &mut magazines, &holders, cell));
    arena.give_back(magazines.into_inner());
    all_there(&arena, &holders);
}

/// Both make a page, or one makes it and the other takes its second cell.
fn first_cells() {
    two_threads(0, use_one);
}

/// Both come for the last cell of a page; the loser makes a page.
fn last_cell() {
    two_threads(1, use_one);
}

fn use_one(arena: &Arena, magazines: &mut Magazines, holders: &Holders) {
    let cell = take(arena, magazines, holders);
    // SAFETY: we hold the cell.
    let (_, claimed) = unsafe { arena.use_once(cell, 7) };
    assert_eq!(claimed, Some(7));
    put(arena, magazines, holders, cell);
}

/// Three cells are more than a pair of magazines: the third put exchanges one for an empty one.
fn exchange() {
    two_threads(0, |arena, magazines, holders| {
        let cells = [0; 3].map(|_| take(arena, magazines, holders));
        cells
            .into_iter()
            .for_each(|cell| put(arena, magazines, holders, cell));
        let cell = take(arena, magazines, holders);
        put(arena, magazines, holders, cell);
    });
}

/// One thread gathers and retires pages while another takes cells and makes new pages of the same
/// numbers.
fn retire() {
    const LOOK_NS: u64 = 250_000_000;
    let arena = Held::new(Arc::new(Arena::new()));
    let mut used = HashSet::new();
    let mut magazines = Held::new(arena.magazines());
    // All cells are used once, then all are in the depot; two looks see it.
    let cells = [0; CELLS].map(|_| arena.take(&mut magazines).expect("there are enough"));
    for cell in cells {
        // SAFETY: we hold the cell.
        let (generation, _) = unsafe { arena.use_once(cell, 1) };
        assert!(used.insert((cell, generation)));
        arena.put(&mut magazines, cell);
    }
    arena.give_back(magazines.into_inner());
    arena.maintain(0);
    arena.maintain(LOOK_NS);
    let other_arena = arena.clone();
    let other = thread::spawn(move || {
        let mut magazines = Held::new(other_arena.magazines());
        // None: the gatherer has it all in hand at this moment.
        let cell = other_arena.take(&mut magazines);
        let used = cell.map(|cell| {
            // SAFETY: we hold the cell.
            let (generation, claimed) = unsafe { other_arena.use_once(cell, 2) };
            assert_eq!(claimed, Some(2));
            other_arena.put(&mut magazines, cell);
            (cell, generation)
        });
        other_arena.give_back(magazines.into_inner());
        used
    });
    arena.maintain(2 * LOOK_NS);
    let other_used = other.join().unwrap();
    assert!(
        other_used.is_none_or(|timer| used.insert(timer)),
        "an id came twice"
    );
    let mut magazines = Held::new(arena.magazines());
    let mut count = 0;
    while let Some(cell) = arena.take(&mut magazines) {
        // SAFETY: we hold the cell.
        let (generation, _) = unsafe { arena.use_once(cell, 3) };
        assert!(used.insert((cell, generation)), "an id came twice");
        count += 1;
    }
    assert_eq!(count, CELLS, "a cell is lost");
}

/// One thread looks up cells without a pin where its own magazine guards their page, while another
/// gathers and retires what it can.
fn look_up() {
    const LOOK_NS: u64 = 250_000_000;
    let (cells, _shard) = Cells::new();
    let (cells, _shard) = (Held::new(Arc::new(cells)), Held::new(_shard));
    let mut first = Held::new(cells.local());
    let mut own = Held::new(cells.local());
    // The first page's cells end in the depot. Of the second page this thread has a free cell at
    // hand, and the other cell is armed.
    let stale = [0, 1].map(|_| cells.admit(&mut first, 9, 1u64).expect("it runs"));
    let [freed, armed] = [0, 1].map(|_| cells.admit(&mut own, 9, 2u64).expect("it runs"));
    for id in stale {
        assert_eq!(cells.take(&mut first, id), Some(1));
    }
    drop(first);
    assert_eq!(cells.take(&mut own, freed), Some(2));
    let others = cells.clone();
    let other = thread::spawn(move || {
        let mut local = Held::new(others.local());
        let taken = others.take(&mut local, armed).is_some();
        drop(local);
        (0..3).for_each(|look| others.maintain(look * LOOK_NS));
        taken
    });
    // Its page is guarded; the first page may be gone, or made anew.
    let taken = cells.take(&mut own, armed).is_some();
    assert_eq!(cells.take(&mut own, stale[0]), None, "it is stale");
    assert_ne!(other.join().unwrap(), taken, "one of the two takes it");
}

/// One thread looks at a page with a pin, by an id, by a due entry, or as `stop` does, while
/// another retires it, and makes it anew for a timer. Freed memory is noted.
fn look_at_a_page_that_is_retired(look: impl FnOnce(&Cells<u64>, &mut Local, TimerId)) {
    const LOOK_NS: u64 = 250_000_000;
    set_pins(true);
    let (cells, shard) = Cells::new();
    set_pins(false);
    let (cells, _shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let mut first = Held::new(cells.local());
    // All cells of the page end in the depot; two looks see it.
    let stale = [0, 1].map(|_| cells.admit(&mut first, 9, 1).expect("it runs"));
    stale
        .iter()
        .for_each(|&id| assert_eq!(cells.take(&mut first, id), Some(1)));
    drop(first);
    (0..2).for_each(|look| cells.maintain(look * LOOK_NS));
    let others = cells.clone();
    let other = thread::spawn(move || {
        others.maintain(2 * LOOK_NS);
        let mut local = Held::new(others.local());
        let id = others.admit(&mut local, 9, 2);
        (local, id)
    });
    let mut local = Held::new(cells.local());
    look(&cells, &mut local, stale[0]);
    let (mut other_local, id) = other.join().unwrap();
    // `None`: it was refused, or handed back, if that was a stop.
    let taken = id.ok().and_then(|id| cells.take(&mut other_local, id));
    assert!(
        taken == Some(2) || cells.admit(&mut local, 9, 3).is_err(),
        "the new timer is there"
    );
}

/// One thread looks at a cell with a pin while another strips it, and takes it again for a timer.
/// The other cell of its page is armed all the time.
fn look_at_a_cell_that_is_stripped(look: impl FnOnce(&Cells<u64>, &mut Local, TimerId)) {
    const LOOK_NS: u64 = 250_000_000;
    set_pins(true);
    let (cells, shard) = Cells::new();
    set_pins(false);
    let (cells, _shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let mut first = Held::new(cells.local());
    // Three of four cells end in the depot; two looks see it.
    let [stale, kept, others @ ..] =
        [0; 4].map(|_| cells.admit(&mut first, 9, 1).expect("it runs"));
    for id in [others[0], others[1], stale] {
        assert_eq!(cells.take(&mut first, id), Some(1));
    }
    drop(first);
    (0..2).for_each(|look| cells.maintain(look * LOOK_NS));
    let others = cells.clone();
    let other = thread::spawn(move || {
        others.maintain(2 * LOOK_NS);
        let mut local = Held::new(others.local());
        let id = others.admit(&mut local, 9, 2).expect("it runs");
        (local, id)
    });
    let mut local = Held::new(cells.local());
    look(&cells, &mut local, stale);
    let (mut other_local, id) = other.join().unwrap();
    assert_eq!(cells.take(&mut local, stale), None, "it is stale");
    assert_eq!(cells.take(&mut local, kept), Some(1), "it was armed");
    assert_eq!(cells.take(&mut other_local, id), Some(2), "it is new");
}

fn strip_under_a_stale_id() {
    look_at_a_cell_that_is_stripped(|cells, local, id| {
        assert_eq!(cells.take(local, id), None, "it is stale")
    });
}

fn strip_under_a_dead_entry() {
    look_at_a_cell_that_is_stripped(|cells, local, id| {
        assert_eq!(cells.claim_due(local, Entry::of(id, 9)), None, "it is dead")
    });
}

fn strip_under_a_re_arm() {
    look_at_a_cell_that_is_stripped(|cells, local, id| {
        assert!(!cells.rearm(local, id, 8), "it is stale")
    });
}

fn look_by_a_stale_id() {
    look_at_a_page_that_is_retired(|cells, local, id| {
        assert_eq!(cells.take(local, id), None, "it is stale")
    });
}

fn look_by_a_dead_entry() {
    look_at_a_page_that_is_retired(|cells, local, id| {
        assert_eq!(cells.claim_due(local, Entry::of(id, 9)), None, "it is dead")
    });
}

fn look_by_a_re_arm() {
    look_at_a_page_that_is_retired(|cells, local, id| {
        assert!(!cells.rearm(local, id, 8), "it is stale")
    });
}

/// What is there is claimed, which may be the new timer.
fn look_by_stop() {
    look_at_a_page_that_is_retired(|cells, local, _| {
        assert!(cells.stop());
        cells.claim_all(local, |_, payload| assert_eq!(payload, 2, "claimed twice"));
    });
}

/// Two shards look after the arena at the same time: one of them gathers.
fn two_gather() {
    const LOOK_NS: u64 = 250_000_000;
    let arena = Held::new(Arc::new(Arena::new()));
    let holders = Holders::new();
    let mut magazines = Held::new(arena.magazines());
    let cells = [0; CELLS].map(|_| take(&arena, &mut magazines, &holders));
    cells
        .into_iter()
        .for_each(|cell| put(&arena, &mut magazines, &holders, cell));
    arena.give_back(magazines.into_inner());
    (0..2).for_each(|look| arena.maintain(look * LOOK_NS));
    let other_arena = arena.clone();
    let other = thread::spawn(move || other_arena.maintain(2 * LOOK_NS));
    arena.maintain(2 * LOOK_NS);
    other.join().unwrap();
    all_there(&arena, &holders);
}

#[test]
fn one_shard_gathers_at_a_time() {
    explore(None, two_gather);
}

#[test]
fn broken_gathering() {
    must_fail(
        Fault::GatherTogether,
        "Causality violation",
        None,
        two_gather,
    );
}

#[test]
fn nor_for_a_re_arm() {
    explore(Some(3), look_by_a_re_arm);
}

#[test]
fn nor_for_a_stop() {
    explore(Some(3), look_by_stop);
}

#[test]
fn broken_retire_at_once_for_a_re_arm() {
    must_fail(Fault::RetireAtOnce, "unsync mut", Some(3), look_by_a_re_arm);
}

#[test]
fn broken_retire_at_once_for_a_stop() {
    must_fail(Fault::RetireAtOnce, "unsync mut", Some(3), look_by_stop);
}

#[test]
fn a_page_is_freed_when_nobody_looks_at_it() {
    explore(Some(3), look_by_a_stale_id);
}

#[test]
fn nor_for_a_dead_entry() {
    explore(Some(3), look_by_a_dead_entry);
}

#[test]
fn broken_retire_at_once() {
    must_fail(
        Fault::RetireAtOnce,
        "unsync mut",
        Some(3),
        look_by_a_stale_id,
    );
}

#[test]
fn broken_retire_at_once_for_a_dead_entry() {
    must_fail(
        Fault::RetireAtOnce,
        "unsync mut",
        Some(3),
        look_by_a_dead_entry,
    );
}

#[test]
fn broken_order_of_unlinking() {
    must_fail(
        Fault::UnlinkedLate,
        "Causality violation",
        Some(3),
        look_by_a_stale_id,
    );
}

#[test]
fn a_look_up_without_a_pin_is_of_a_page_that_stays() {
    explore(Some(3), look_up);
}

#[test]
fn broken_look_up() {
    must_fail(Fault::LookUpUnguarded, "is_null", Some(3), look_up);
}

#[test]
fn two_threads_make_a_page() {
    explore(Some(4), first_cells);
}

#[test]
fn a_fresh_cell_is_handed_out_once() {
    explore(Some(4), last_cell);
}

#[test]
fn no_cell_is_held_twice_or_lost() {
    explore(Some(3), exchange);
}

#[test]
fn a_retired_page_counts_on() {
    explore(Some(5), retire);
}

#[test]
fn broken_exchange() {
    must_fail(Fault::MagazineKept, "held twice", Some(2), exchange);
}

#[test]
fn broken_fresh() {
    must_fail(Fault::FreshNotAtomic, "", Some(4), last_cell);
}

#[test]
fn broken_fresh_relaxed() {
    must_fail(Fault::FreshRelaxed, "is_null", Some(4), first_cells);
}

#[test]
fn a_stripped_cell_counts_on() {
    explore(Some(3), strip_under_a_stale_id);
}

#[test]
fn so_it_does_for_a_dead_entry() {
    explore(Some(3), strip_under_a_dead_entry);
}

#[test]
fn so_it_does_for_a_re_arm() {
    explore(Some(3), strip_under_a_re_arm);
}

#[test]
fn broken_strip_note() {
    must_fail(
        Fault::StripForgetsGeneration,
        "it is stale",
        Some(3),
        strip_under_a_stale_id,
    );
}

#[test]
fn broken_strip() {
    must_fail(
        Fault::StripAll,
        "it was armed",
        Some(3),
        strip_under_a_stale_id,
    );
}

#[test]
fn broken_retire() {
    must_fail(
        Fault::RetireForgetsGeneration,
        "an id came twice",
        Some(3),
        retire,
    );
}
