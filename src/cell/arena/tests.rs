use super::super::content::Payload;
use super::super::gather::LOOK_AGAIN_NS;
use super::super::state::DueAt;
use super::*;

const PAGE_CELLS: u32 = Arena::<u64>::PAGE_CELLS;
const RUN: u32 = Arena::<u64>::RUN;
const STEP_MAGAZINES: usize = Arena::<u64>::STEP_MAGAZINES;

/// Whether cells can be stripped of their memory here.
const STRIPS: bool = cfg!(all(
    target_os = "linux",
    not(wheelwork_no_linux),
    not(wheelwork_no_mmap)
));

/// Magazines that the cells of a page fill.
const MAGAZINES: usize = PAGE_CELLS as usize / CELLS;

/// An arena with one thread's magazines.
struct Fixture<T = u64> {
    arena: Arena<T>,
    pins: Pins,
    magazines: Magazines,
}

impl Fixture {
    fn new() -> Self {
        Self::of()
    }
}

impl<T: Send + 'static> Fixture<T> {
    fn of() -> Self {
        let depot = Arc::new(Depot::new());
        let (magazines, pins) = (Magazines::new(&depot), Pins::new());
        Self {
            arena: Arena::new(depot, pins.clone()),
            pins,
            magazines,
        }
    }

    fn take(&mut self, cells: usize) -> Vec<u32> {
        (0..cells)
            .map(|_| {
                self.arena
                    .take(&mut self.magazines)
                    .expect("there are more")
            })
            .collect()
    }

    /// Puts cells back, all of them into the depot.
    fn put(&mut self, cells: impl IntoIterator<Item = u32>) {
        cells
            .into_iter()
            .for_each(|cell| self.magazines.put(cell, &self.arena.depot));
        let own = std::mem::replace(&mut self.magazines, Magazines::new(&self.arena.depot));
        own.give_back(&self.arena.depot);
    }

    fn pages(&self) -> u32 {
        // Ordering: Relaxed. There is one thread.
        self.arena.pages.load(Ordering::Relaxed)
    }

    /// Looks at this time, finds nothing yet, looks again, and gathers to the end. The steps, and
    /// what it wants next.
    fn gather(&self, now_ns: u64) -> (usize, Maintenance) {
        let again_ns = now_ns + LOOK_AGAIN_NS;
        assert_eq!(self.arena.maintain(now_ns), Maintenance::At(again_ns));
        assert_eq!(self.arena.maintain(again_ns), Maintenance::Soon);
        self.finish(again_ns)
    }

    /// Looks and gathers for some seconds from this time on.
    fn gather_all(&self, now_ns: u64) {
        for look in 0..20 {
            self.finish(now_ns + look * LOOK_EVERY_NS);
        }
    }

    fn finish(&self, now_ns: u64) -> (usize, Maintenance) {
        let mut next = Maintenance::Soon;
        let steps = (1..).find(|_| {
            next = self.arena.maintain(now_ns);
            next != Maintenance::Soon
        });
        (steps.expect("it ends"), next)
    }
}

/// A look-up without a pin leans on it.
#[test]
fn a_page_ends_where_the_next_one_begins() {
    for first in [0, PAGE_CELLS, 7 * PAGE_CELLS] {
        assert!(Arena::<u64>::same_page(first, first + PAGE_CELLS - 1));
        assert!(!Arena::<u64>::same_page(
            first + PAGE_CELLS - 1,
            first + PAGE_CELLS
        ));
    }
    assert!(!Arena::<u64>::same_page(0, u32::MAX));
}

#[test]
fn cells_come_in_order_and_each_once() {
    let mut fixture = Fixture::new();
    let cells = fixture.take(3 * PAGE_CELLS as usize);
    assert!(cells.into_iter().eq(0..3 * PAGE_CELLS));
    assert_eq!(fixture.pages(), 3);
    assert!(fixture.arena.indices().eq(0..3 * PAGE_CELLS));
    fixture.take(1);
    assert!(
        fixture.arena.indices().eq(0..4 * PAGE_CELLS),
        "those too that were never taken"
    );
}

#[test]
fn there_are_as_many_pages_as_there_can_be() {
    let mut fixture = Fixture::new();
    // Ordering: Relaxed. There is one thread.
    fixture
        .arena
        .numbers
        .store(PAGES_MAX - 1, Ordering::Relaxed);
    let first = (PAGES_MAX - 1) * PAGE_CELLS;
    assert!(
        fixture
            .take(PAGE_CELLS as usize)
            .into_iter()
            .eq(first..first + PAGE_CELLS)
    );
    assert_eq!(fixture.arena.take(&mut fixture.magazines), None);
    fixture.put([first + 5]);
    assert_eq!(fixture.take(1), [first + 5]);
}

/// What a thread that has made a page at the same time as another does with its own.
#[test]
fn the_rest_of_a_page_is_taken_by_others() {
    let mut fixture = Fixture::new();
    fixture.take(1);
    let number = fixture.arena.make_page().expect("there is room");
    fixture.arena.give_rest(number);
    assert!(
        fixture.take(RUN as usize - 1).into_iter().eq(1..RUN),
        "what is left of its own"
    );
    assert!(
        fixture
            .take((PAGE_CELLS - RUN) as usize)
            .into_iter()
            .eq(PAGE_CELLS + RUN..2 * PAGE_CELLS)
    );
    assert_eq!(fixture.take(1), [RUN]);
}

#[test]
fn cells_that_two_looks_have_seen_are_given_back() {
    let mut fixture = Fixture::new();
    let cells = fixture.take(8 * PAGE_CELLS as usize);
    assert_eq!(
        fixture.arena.maintain(7),
        Maintenance::Done,
        "all are in use"
    );
    fixture.put(cells);
    let first_ns = 7 + LOOK_EVERY_NS;
    assert_eq!(
        fixture.arena.maintain(8),
        Maintenance::At(first_ns),
        "it is not yet time to look"
    );
    assert_eq!(
        fixture.arena.maintain(first_ns - 1),
        Maintenance::Done,
        "somebody comes at that time"
    );
    assert_eq!(
        fixture.arena.maintain(first_ns),
        Maintenance::At(first_ns + LOOK_AGAIN_NS)
    );
    assert_eq!(fixture.arena.maintain(first_ns + 1), Maintenance::Done);
    assert_eq!(fixture.pages(), 8);
    let second_ns = first_ns + LOOK_AGAIN_NS;
    assert_eq!(fixture.arena.maintain(second_ns), Maintenance::Soon);
    assert_eq!(
        fixture.finish(second_ns),
        (
            // The last one frees the first page, and each further one another.
            8 * MAGAZINES / STEP_MAGAZINES + 7,
            Maintenance::At(second_ns + LOOK_AGAIN_NS)
        )
    );
    assert_eq!((fixture.pages(), fixture.arena.depot.full_len()), (0, 0));
    assert_eq!(
        fixture.arena.maintain(second_ns + LOOK_EVERY_NS),
        Maintenance::Done
    );
    let collected = fixture.pins.register();
    assert!((0..8 * PAGE_CELLS).all(|cell| fixture.arena.get(cell, &collected.pin()).is_none()));
}

/// One cell of each page is in use. What was gathered goes back a step at a time, and all of it:
/// the memory to the system, but for a page beside each cell that is in use, and the cells to the
/// depot.
#[test]
fn what_is_gathered_is_stripped_and_put_back_in_steps() {
    let mut fixture = Fixture::new();
    let mut cells = fixture.take(20 * PAGE_CELLS as usize);
    let kept: Vec<_> = cells
        .extract_if(.., |cell| *cell % PAGE_CELLS == 777)
        .collect();
    fixture.put(cells);
    let depot = fixture.arena.depot.clone();
    let before = depot.full_len();
    assert_eq!(before, 20 * MAGAZINES - 1, "and some in a partial one");
    assert_eq!(fixture.arena.maintain(0), Maintenance::At(LOOK_AGAIN_NS));
    assert_eq!(fixture.arena.maintain(LOOK_AGAIN_NS), Maintenance::Soon);
    let (mut free, mut steps) = (before * CELLS, 0);
    loop {
        let next = fixture.arena.maintain(LOOK_AGAIN_NS);
        let now = depot.full_len() * CELLS + depot.bare_cells();
        assert!(now.abs_diff(free) <= (STEP_MAGAZINES + 1) * CELLS);
        (free, steps) = (now, steps + 1);
        if next != Maintenance::Soon {
            break;
        }
    }
    assert_eq!(steps, 2 * before.div_ceil(STEP_MAGAZINES) - 1);
    assert_eq!(fixture.pages(), 20);
    assert_eq!(
        depot.bare_cells() > 20 * (PAGE_CELLS as usize - 400),
        STRIPS
    );
    let mut all = fixture.take(20 * PAGE_CELLS as usize - kept.len());
    assert_eq!((fixture.pages(), depot.bare_cells()), (20, 0));
    all.extend(kept);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20 * PAGE_CELLS));
}

/// A cell that was stripped has a generation that none of its timers had. One that nobody has free
/// keeps what it has.
#[test]
fn a_stripped_cell_goes_on_counting() {
    let mut fixture = Fixture::new();
    let mut cells = fixture.take(8 * PAGE_CELLS as usize);
    let local = fixture.pins.register();
    let arm = |fixture: &Fixture, cell: u32| {
        let pin = local.pin();
        let cell = fixture.arena.get(cell, &pin).expect("the page is there");
        // SAFETY: nobody else has the cell.
        unsafe { cell.fill(DueAt::new(1, 0), Payload(1)) }
    };
    let claim = |fixture: &Fixture, cell: u32, birth: u64| {
        let pin = local.pin();
        let cell = fixture.arena.get(cell, &pin).expect("the page is there");
        cell.claim_id(birth).is_some()
    };
    let kept: Vec<_> = cells
        .extract_if(.., |cell| *cell % PAGE_CELLS == 1_000)
        .collect();
    let (busy, births) = (PAGE_CELLS + 9, [0, 1, 2]);
    for birth in births {
        assert_eq!(arm(&fixture, busy), birth);
        assert!(claim(&fixture, busy, birth));
    }
    kept.iter()
        .for_each(|&cell| assert_eq!(arm(&fixture, cell), 0));
    fixture.put(cells);
    for round in 0..3 {
        fixture.gather_all(round * 100 * LOOK_EVERY_NS);
        let bare = fixture.arena.depot.bare_cells();
        assert_eq!(bare > 8 * (PAGE_CELLS as usize - 400), STRIPS);
        assert!(births.iter().all(|&birth| !claim(&fixture, busy, birth)));
        let cells = fixture.take(8 * PAGE_CELLS as usize - kept.len());
        assert_eq!(arm(&fixture, busy), 3 + round, "dressed");
        assert!(births.iter().all(|&birth| !claim(&fixture, busy, birth)));
        assert!(claim(&fixture, busy, 3 + round));
        fixture.put(cells);
    }
    assert!(kept.iter().all(|&cell| claim(&fixture, cell, 0)));
    fixture.put(kept);
    fixture.gather_all(1_000 * LOOK_EVERY_NS);
    // (Cells that keep their memory go back too: those gatherings were in vain, so the last one had
    // two new looks.)
    assert_eq!(fixture.pages(), 0, "stripped pages are retired, too");
    fixture.take(8 * PAGE_CELLS as usize);
    assert_eq!(arm(&fixture, busy), 6);
}

/// One who gathers is enough.
#[test]
fn who_finds_another_one_gathering_comes_later() {
    let fixture = Fixture::new();
    // Ordering: Relaxed. There is one thread.
    fixture.arena.gathering.store(true, Ordering::Relaxed);
    assert_eq!(
        fixture.arena.maintain(9),
        Maintenance::At(9 + LOOK_EVERY_NS)
    );
}

/// Each of many shards asks for upkeep after its last activity. One of them comes again for all.
#[test]
fn one_shard_looks_for_all_shards() {
    const SHARDS: u64 = 300;
    for used in [0, 8] {
        let mut fixture = Fixture::new();
        let cells = fixture.take(8 * PAGE_CELLS as usize);
        fixture.put(cells.into_iter().skip(used * PAGE_CELLS as usize));
        // When each shard calls.
        let mut calls: Vec<u64> = (0..SHARDS).map(|shard| 1_000_000 * shard).collect();
        let mut count = 0;
        while let Some(at) = (0..calls.len()).min_by_key(|&at| calls[at]) {
            count += 1;
            match fixture.arena.maintain(calls[at]) {
                // Its thread comes late.
                Maintenance::At(at_ns) => calls[at] = at_ns + 50_000_000,
                Maintenance::Soon => calls[at] += 1,
                Maintenance::Done => drop(calls.swap_remove(at)),
            }
        }
        assert_eq!(fixture.pages(), used as u32);
        let steps = if used == 0 {
            8 * MAGAZINES / STEP_MAGAZINES + 7
        } else {
            0
        };
        let looks = count - SHARDS as usize - steps;
        assert!(looks <= 6, "{looks} looks with {used} pages in use");
    }
}

/// Only what nobody needed in between: the fewer of the two looks.
#[test]
fn what_is_taken_between_two_looks_stays() {
    let mut fixture = Fixture::new();
    let mut cells = fixture.take(16 * PAGE_CELLS as usize);
    let later = cells.split_off(15 * PAGE_CELLS as usize);
    fixture.put(cells);
    assert_eq!(fixture.arena.maintain(0), Maintenance::At(LOOK_AGAIN_NS));
    fixture.put(later);
    assert_eq!(fixture.arena.maintain(LOOK_AGAIN_NS), Maintenance::Soon);
    let (steps, next) = fixture.finish(LOOK_AGAIN_NS);
    assert_eq!(
        (steps, next),
        (
            15 * MAGAZINES / STEP_MAGAZINES + 14,
            Maintenance::At(2 * LOOK_AGAIN_NS)
        )
    );
    assert_eq!(
        (fixture.pages(), fixture.arena.depot.full_len()),
        (1, MAGAZINES)
    );

    let mut fixture = Fixture::new();
    let cells = fixture.take(16 * PAGE_CELLS as usize);
    fixture.put(cells);
    assert_eq!(fixture.arena.maintain(0), Maintenance::At(LOOK_AGAIN_NS));
    fixture.take(8 * PAGE_CELLS as usize);
    assert_eq!(
        fixture.arena.maintain(LOOK_AGAIN_NS),
        Maintenance::Done,
        "half of all is no surplus"
    );
    assert_eq!(fixture.pages(), 16);
}

#[test]
fn a_surplus_is_four_pages_and_more_than_half() {
    for (pages, put, surplus) in [
        (4, 4 * MAGAZINES, true),
        (4, 4 * MAGAZINES - 1, false),
        (20, 10 * MAGAZINES + 1, true),
        (20, 10 * MAGAZINES, false),
    ] {
        let mut fixture = Fixture::new();
        let cells = fixture.take(pages * PAGE_CELLS as usize);
        fixture.put(cells[..put * CELLS].iter().copied());
        let expected = if surplus {
            Maintenance::At(5 + LOOK_AGAIN_NS)
        } else {
            Maintenance::Done
        };
        assert_eq!(
            fixture.arena.maintain(5),
            expected,
            "{put} magazines of {pages} pages"
        );
    }
}

/// Cells of each system's page are in use: nothing can be freed, nothing is lost, and it is tried
/// less and less often.
#[test]
fn a_gathering_in_vain_puts_all_back_and_rests() {
    let mut fixture = Fixture::new();
    let cells = fixture.take(8 * PAGE_CELLS as usize);
    fixture.put(cells.iter().copied().filter(|cell| cell % 100 != 3));
    let free = cells.iter().filter(|&cell| cell % 100 != 3).count();
    let mut now_ns = 0;
    for rest in [2, 4, 8, 16, 16] {
        assert_eq!(fixture.gather(now_ns).1, Maintenance::Done);
        now_ns += LOOK_AGAIN_NS + rest * LOOK_EVERY_NS;
        assert_eq!(fixture.arena.maintain(now_ns - 1), Maintenance::At(now_ns));
        assert_eq!(
            (fixture.pages(), fixture.arena.depot.full_len()),
            (8, free / CELLS)
        );
        assert_eq!(fixture.arena.depot.bare_cells(), 0);
    }
    let mut again = fixture.take(free);
    again.sort_unstable();
    assert!(
        again
            .into_iter()
            .eq((0..8 * PAGE_CELLS).filter(|cell| cell % 100 != 3))
    );
    assert_eq!(fixture.pages(), 8);
}

/// Eight pages of cells. Most are free, so that a gathering begins. It is in vain.
fn eight_pages_in_vain() -> Fixture {
    let mut fixture = Fixture::new();
    let cells = fixture.take(8 * PAGE_CELLS as usize);
    fixture.put(cells.into_iter().filter(|cell| cell % 100 != 3));
    fixture
}

/// A rest after a gathering in vain ends when there are twice as many free cells.
#[test]
fn a_rest_ends_when_many_more_cells_are_free() {
    for (pages, rests) in [(15, true), (17, false)] {
        let mut fixture = eight_pages_in_vain();
        assert_eq!(fixture.gather(0).1, Maintenance::Done);
        let cells = fixture.take(pages * PAGE_CELLS as usize);
        fixture.put(cells);
        let look_ns = LOOK_AGAIN_NS + LOOK_EVERY_NS;
        let next = fixture.arena.maintain(look_ns);
        assert_eq!(next == Maintenance::At(look_ns + LOOK_EVERY_NS), rests);
    }
}

/// A gathering begins in the midst of a storm of cancels, in vain. It is tried again with the rest.
#[test]
fn what_comes_during_a_gathering_in_vain_ends_the_rest() {
    for (pages, rests) in [(14, true), (17, false)] {
        let mut fixture = eight_pages_in_vain();
        let again = Maintenance::At(LOOK_AGAIN_NS);
        assert_eq!(fixture.arena.maintain(0), again);
        assert_eq!(fixture.arena.maintain(LOOK_AGAIN_NS), Maintenance::Soon);
        let cells = fixture.take(pages * PAGE_CELLS as usize);
        fixture.put(cells);
        let look_ns = LOOK_AGAIN_NS + LOOK_EVERY_NS;
        let next = fixture.finish(LOOK_AGAIN_NS).1;
        assert_eq!(next, Maintenance::At(look_ns));
        let next = fixture.arena.maintain(look_ns);
        assert_eq!(next == Maintenance::At(look_ns + LOOK_EVERY_NS), rests);
    }
}

/// The first gathering is in vain. If the last part comes during its rest, the rest ends, since few
/// cells are in use then. If it comes between two looks, the gathering does not have it, and a
/// further one follows.
#[test]
fn a_spike_that_ends_in_two_parts_is_given_back() {
    for (look_ns, is_between) in [
        (LOOK_AGAIN_NS + LOOK_EVERY_NS, false),
        (100 * LOOK_EVERY_NS, false),
        (100 * LOOK_EVERY_NS, true),
    ] {
        let mut fixture = Fixture::new();
        let cells = fixture.take(16 * PAGE_CELLS as usize);
        let (last, first): (Vec<_>, Vec<_>) = cells.iter().partition(|&cell| cell % 10 == 3);
        fixture.put(first);
        assert_eq!(fixture.gather(0).1, Maintenance::Done);
        let mut now_ns = look_ns + LOOK_AGAIN_NS;
        if is_between {
            assert_eq!(fixture.arena.maintain(look_ns), Maintenance::At(now_ns));
        }
        fixture.put(last);
        if !is_between {
            assert_eq!(fixture.arena.maintain(look_ns), Maintenance::At(now_ns));
        }
        for _ in 0..1_000 {
            match fixture.arena.maintain(now_ns) {
                Maintenance::Soon => {}
                Maintenance::At(at_ns) => now_ns = at_ns,
                Maintenance::Done => break,
            }
        }
        assert_eq!((fixture.pages(), fixture.arena.depot.full_len()), (0, 0));
        assert_eq!(is_between, now_ns > look_ns + 2 * LOOK_AGAIN_NS);
    }
}

/// One that has freed more than a quarter of what it wanted was worth it.
#[test]
fn the_rest_is_short_after_a_gathering_that_was_worth_it() {
    for (retired, rests) in [(2, true), (3, false)] {
        let mut fixture = Fixture::new();
        let cells = fixture.take(9 * PAGE_CELLS as usize);
        fixture.put(
            cells
                .iter()
                .copied()
                .filter(|cell| cell / PAGE_CELLS < retired || cell % 64 != 3),
        );
        let free = (PAGE_CELLS * retired + (PAGE_CELLS - PAGE_CELLS / 64) * (9 - retired)) as usize;
        let (steps, next) = fixture.gather(0);
        let end_ns = LOOK_AGAIN_NS + if rests { LOOK_EVERY_NS } else { LOOK_AGAIN_NS };
        // Each page is a step, by which it is retired or put back: the first one follows at once.
        assert_eq!(steps, (free / CELLS).div_ceil(STEP_MAGAZINES) + 9 - 1);
        assert_eq!(next, Maintenance::At(end_ns));
        assert_eq!(fixture.pages(), 9 - retired);
        assert_eq!(
            fixture.arena.maintain(end_ns) == Maintenance::At(end_ns + LOOK_EVERY_NS),
            rests,
            "{retired} of 9 pages"
        );
    }
}

/// Timers that end while it gathers: the shard would not hear of it.
#[test]
fn what_is_freed_during_a_gathering_is_looked_at() {
    for (freed, next) in [
        (CELLS, Maintenance::At(LOOK_AGAIN_NS + LOOK_EVERY_NS)),
        (0, Maintenance::Done),
    ] {
        let mut fixture = Fixture::new();
        let cells = fixture.take(9 * PAGE_CELLS as usize);
        let (used, free): (Vec<u32>, Vec<u32>) = cells.iter().partition(|&&cell| cell % 64 == 3);
        fixture.put(free);
        assert_eq!(fixture.arena.maintain(0), Maintenance::At(LOOK_AGAIN_NS));
        assert_eq!(fixture.arena.maintain(LOOK_AGAIN_NS), Maintenance::Soon);
        assert_eq!(fixture.arena.maintain(LOOK_AGAIN_NS), Maintenance::Soon);
        fixture.put(used[..freed].iter().copied());
        assert_eq!(fixture.finish(LOOK_AGAIN_NS).1, next, "{freed} cells");
    }
}

/// A cell of a page number that comes again has a generation that no timer of its predecessors had:
/// their ids mean none of its timers.
#[test]
fn a_page_number_that_comes_again_goes_on_counting() {
    let mut fixture = Fixture::new();
    let cells = fixture.take(4 * PAGE_CELLS as usize);
    let local = fixture.pins.register();
    let busy = PAGE_CELLS + 9;
    let fire = |fixture: &Fixture| {
        let pin = local.pin();
        let cell = fixture.arena.get(busy, &pin).expect("the page is there");
        // SAFETY: nobody else has the cell.
        let birth = unsafe { cell.fill(DueAt::new(1, 0), Payload(1)) };
        assert!(cell.claim_id(birth).is_some());
        birth
    };
    let births: Vec<u64> = (0..3).map(|_| fire(&fixture)).collect();
    assert_eq!(births, [0, 1, 2]);
    fixture.put(cells);
    fixture.gather(0);
    assert_eq!(fixture.pages(), 0);
    let cells = fixture.take(4 * PAGE_CELLS as usize);
    assert_eq!(
        cells.iter().max(),
        Some(&(4 * PAGE_CELLS - 1)),
        "the numbers come again"
    );
    assert_eq!(fire(&fixture), 3);
    let pin = local.pin();
    assert_eq!(
        fixture
            .arena
            .get(PAGE_CELLS, &pin)
            .map(|cell| cell.cell.generation()),
        Some(3),
        "the page's other cells start there, too"
    );
    assert_eq!(
        fixture
            .arena
            .get(0, &pin)
            .map(|cell| cell.cell.generation()),
        Some(0)
    );
}

/// The memory of a page has a limit, whatever the payload's size.
#[test]
fn a_page_of_large_payloads_has_fewer_cells() {
    fn page<T: Send + 'static>() -> (u32, u32, usize) {
        (
            Arena::<T>::PAGE_CELLS,
            Arena::<T>::RUN,
            Arena::<T>::STEP_MAGAZINES,
        )
    }
    const MIB: usize = 1 << 20;
    assert_eq!(page::<u64>(), (4_096, 64, 64));
    assert_eq!(
        page::<[u64; 126]>(),
        (4_096, 64, 64),
        "1,024 bytes with the cell's own"
    );
    assert_eq!(page::<[u64; 127]>(), (2_048, 64, 32));
    assert_eq!(page::<[u8; 64 << 10]>(), (32, 32, 1));
    assert_eq!(page::<[u8; (64 << 10) - 16]>(), (64, 64, 1), "a magazine's");
    assert_eq!(page::<[u8; 2 * MIB]>(), (1, 1, 1));
    assert_eq!(page::<[u8; 16 * MIB]>(), (1, 1, 1));
    assert_eq!(page::<[u8; MIB]>(), (2, 2, 1));
    assert_eq!(
        (Page::<()>::CELLS_BYTES, Page::<[u8; MIB]>::CELLS_BYTES),
        (24 * 4_096, 2 * (MIB + 16))
    );
}

/// As for small payloads: cells come each once, and pages go back.
fn goes_round<T: Send + 'static>(pages: u32) {
    let mut fixture = Fixture::<T>::of();
    let page_cells = Arena::<T>::PAGE_CELLS;
    let cells = fixture.take((pages * page_cells) as usize);
    assert!(cells.iter().copied().eq(0..pages * page_cells), "in order");
    assert_eq!(fixture.pages(), pages);
    assert!(
        cells
            .windows(2)
            .all(|two| Arena::<T>::same_page(two[0], two[1])
                == (two[0] / page_cells == two[1] / page_cells))
    );
    // Each is memory of its own.
    let local = fixture.pins.register();
    let address = |index: u32| {
        let pin = local.pin();
        let cell = fixture.arena.get(index, &pin).expect("the page is there");
        (
            (&raw const *cell.cell).addr(),
            (&raw const *cell.side).addr(),
        )
    };
    let mut addresses: Vec<_> = cells
        .iter()
        .flat_map(|&cell| {
            [
                (address(cell).0, size_of::<Cell<T>>()),
                (address(cell).1, 16),
            ]
        })
        .collect();
    addresses.sort_unstable();
    assert!(
        addresses
            .windows(2)
            .all(|two| two[0].0 + two[0].1 <= two[1].0),
        "cells and sides overlap"
    );
    assert!(
        fixture
            .arena
            .get(pages * page_cells, &local.pin())
            .is_none()
            && fixture.arena.get(u32::MAX, &local.pin()).is_none()
    );
    // As many as fill magazines go back; what is left of a magazine stays.
    let whole = (pages * page_cells) as usize / CELLS * CELLS;
    fixture.put(cells[..whole].iter().copied());
    fixture.gather(0);
    assert_eq!(fixture.pages(), pages - whole as u32 / page_cells);
    let mut again = fixture.take(whole);
    again.extend(&cells[whole..]);
    again.sort_unstable();
    assert_eq!(again, cells, "the numbers come again");
}

#[test]
fn cells_of_any_size_go_round() {
    goes_round::<()>(4);
    goes_round::<[u64; 127]>(5);
    goes_round::<[u64; 1_000]>(5);
    goes_round::<[u8; 64 << 10]>(9);
    goes_round::<[u8; 1 << 20]>(130);
    goes_round::<[u8; 16 << 20]>(200);
}
