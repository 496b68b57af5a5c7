//! What each call does with a cell in each state, one call after the other. The models of
//! loom-tests have calls at one time.

use super::claim::{Claimed, DueClaim};
use super::content::{Content, Payload};
use super::rearm::{NotFiled, Rearmed, RunBegun};
use super::state::{Cell, CellRef, DueAt, Filed, PauseSide, Side};
use super::word::{GENERATION_LAST, LAG_MAX, MOVES_MAX, State, Word};
use crate::entry::{DEADLINE_MAX, Entry};
use crate::mem::Zeroed;
use crate::repeat::{Missed, Repeat, RunClosure};

mod pause;

const SHARD: usize = 5;

/// A cell that starts at this generation, of this index.
struct Fixture {
    cell: Zeroed<Cell<&'static str>>,
    side: Zeroed<Side>,
    pause_side: Zeroed<PauseSide>,
}

const GENERATION: u64 = 40;
const INDEX: u32 = 17;

impl Fixture {
    fn new() -> Self {
        let fixture = Self {
            cell: Zeroed::new(1),
            side: Zeroed::new(1),
            pause_side: Zeroed::new(1),
        };
        fixture.cell[0].start_at(GENERATION);
        fixture
    }

    /// One in which a payload is armed, due then.
    fn armed(deadline: u64) -> Self {
        let fixture = Self::new();
        // SAFETY: no other thread uses the cell.
        let birth = unsafe {
            fixture
                .cell()
                .fill(DueAt::new(deadline, SHARD), Payload("payload"))
        };
        assert_eq!(birth, GENERATION);
        fixture
    }

    /// One in which a periodic timer is armed, due then.
    fn repeating(deadline: u64) -> Self {
        let fixture = Self::new();
        let repeat = Box::new(Repeat::every(
            10,
            Missed::Skip,
            deadline,
            3,
            RunClosure::Plain(Box::new(|| ())),
        ));
        // SAFETY: no other thread uses the cell.
        let birth = unsafe { fixture.cell().fill(DueAt::new(deadline, SHARD), repeat) };
        assert_eq!(birth, GENERATION);
        fixture
    }

    fn cell(&self) -> CellRef<'_, &'static str> {
        CellRef {
            index: INDEX,
            cell: &self.cell[0],
            side: &self.side[0],
            pause_side: &self.pause_side[0],
        }
    }

    fn word(&self) -> Word {
        self.cell().load()
    }

    fn set(&self, state: State) -> Word {
        let before = self.word();
        self.cell[0]
            .exchange(before, before.with_state(state))
            .expect("there is one thread");
        before
    }

    /// Claims a due entry, whose run then waits.
    fn wait_to_run(&self, deadline: u64, generation: u64) {
        let claim = self.cell().claim_due(entry(deadline, generation));
        assert!(matches!(claim, DueClaim::Run), "it is due");
        assert_eq!(self.word().state(), State::Armed);
    }

    /// Begins the run of a due entry.
    fn begin(&self, deadline: u64, generation: u64) -> Box<Repeat> {
        let begun = self.cell().begin(entry(deadline, generation));
        let RunBegun::Run {
            repeat,
            birth,
            due_at,
        } = begun
        else {
            panic!("nobody cancelled it")
        };
        assert_eq!(
            (birth, due_at, self.word().state()),
            (GENERATION, DueAt::new(deadline, SHARD), State::Running)
        );
        repeat
    }

    /// The same after its claim.
    fn run(&self, deadline: u64, generation: u64) -> Box<Repeat> {
        self.wait_to_run(deadline, generation);
        self.begin(deadline, generation)
    }
}

fn entry(deadline: u64, generation: u64) -> Entry {
    Entry::new(deadline, INDEX, generation)
}

fn filed(deadline: u64, generation: u64) -> Filed {
    Filed {
        entry: entry(deadline, generation),
        shard: SHARD,
    }
}

/// What a cancel got: deadline, whether there was a payload, where the entry is, index.
fn got(claimed: Option<Claimed<&'static str>>) -> Option<(u64, bool, Option<Filed>, Option<u32>)> {
    let Claimed {
        content,
        filed,
        due_at,
        index,
    } = claimed?;
    assert_eq!(due_at.shard(), SHARD);
    let is_payload = matches!(content, Some(Content::Payload(payload)) if payload == "payload");
    Some((due_at.deadline(), is_payload, filed, index))
}

/// Birth and deadline of the timer that waits.
fn seen(cell: CellRef<'_, &'static str>, is_forked: bool) -> Option<(u64, DueAt)> {
    let look = cell.look(is_forked)?;
    assert_eq!(look.left_ns, None, "it is not paused");
    Some((look.birth, look.due_at))
}

#[test]
fn a_payload_is_claimed_once_by_any_way() {
    let ways: [&dyn Fn(&Fixture) -> bool; 6] = [
        &|armed| {
            got(armed.cell().claim_id(GENERATION))
                == Some((100, true, Some(filed(100, GENERATION)), Some(INDEX)))
        },
        &|armed| {
            got(armed.cell().claim_payload(GENERATION))
                == Some((100, true, Some(filed(100, GENERATION)), Some(INDEX)))
        },
        &|armed| {
            got(armed.cell().claim_any())
                == Some((100, true, Some(filed(100, GENERATION)), Some(INDEX)))
        },
        &|armed| {
            let claim = armed.cell().claim_first(GENERATION);
            // SAFETY: the cell is not freed as long as the test has it.
            claim.map(|claim| unsafe { claim.take() }) == Some(("payload", DueAt::new(100, SHARD)))
        },
        &|armed| armed.cell().claim_due_plain(entry(100, GENERATION)) == Some("payload"),
        &|armed| {
            matches!(
                armed.cell().claim_due(entry(100, GENERATION)),
                DueClaim::Payload("payload")
            )
        },
    ];
    for first in ways {
        let armed = Fixture::armed(100);
        assert!(armed.cell().is_pending(GENERATION) && !armed.cell().is_pending(GENERATION + 1));
        assert_eq!(
            seen(armed.cell(), false),
            Some((GENERATION, DueAt::new(100, SHARD)))
        );
        assert!(first(&armed));
        assert_eq!(armed.word(), Word::new(GENERATION + 1, State::Vacant));
        assert!(!armed.cell().is_pending(GENERATION) && seen(armed.cell(), false).is_none());
        for second in ways {
            assert!(!second(&armed));
        }
    }
}

#[test]
fn who_names_another_timer_gets_nothing() {
    let armed = Fixture::armed(100);
    let cell = armed.cell();
    for generation in [GENERATION - 1, GENERATION + 1] {
        assert!(
            cell.claim_id(generation).is_none()
                && cell.claim_payload(generation).is_none()
                && cell.claim_first(generation).is_none()
        );
        assert!(
            cell.claim_due_plain(entry(100, generation)).is_none()
                && matches!(cell.claim_due(entry(100, generation)), DueClaim::Dead)
        );
        assert!(matches!(cell.rearm(generation, 500), Rearmed::Gone));
    }
    assert!(cell.claim_repeat().is_none() && cell.claim_due_plain(entry(99, GENERATION)).is_none());
    assert_eq!(armed.word(), Word::new(GENERATION, State::Armed));
}

#[test]
fn later_is_a_lag_up_to_its_limit() {
    for (deadline, lag) in [(100, 0), (101, 1), (100 + LAG_MAX, LAG_MAX)] {
        let armed = Fixture::armed(100);
        assert!(matches!(
            armed.cell().rearm(GENERATION, deadline),
            Rearmed::Done { shard: SHARD }
        ));
        assert_eq!(
            armed.word(),
            Word::new(GENERATION, State::Armed).with_lag(lag)
        );
        assert_eq!(
            seen(armed.cell(), false),
            Some((GENERATION, DueAt::new(deadline, SHARD)))
        );
        // Nothing was put back: the entry is where it was.
        assert_eq!(
            got(armed.cell().claim_id(GENERATION)),
            Some((deadline, true, Some(filed(100, GENERATION)), Some(INDEX)))
        );
    }
    for deadline in [99, 0, 101 + LAG_MAX, DEADLINE_MAX] {
        let armed = Fixture::armed(100);
        let Rearmed::Refiled { old, new } = armed.cell().rearm(GENERATION, deadline) else {
            panic!("{deadline} is filed anew")
        };
        assert_eq!(
            (old, new),
            (filed(100, GENERATION), filed(deadline, GENERATION + 1))
        );
        assert_eq!(
            seen(armed.cell(), false),
            Some((GENERATION, DueAt::new(deadline, SHARD)))
        );
        assert!(
            matches!(
                armed.cell().claim_due(entry(100, GENERATION)),
                DueClaim::Dead
            ),
            "the old entry is"
        );
        assert!(matches!(
            armed.cell().claim_due(entry(deadline, GENERATION + 1)),
            DueClaim::Payload("payload")
        ));
    }
}

/// From its lag a timer can be moved to earlier than it is, though not earlier than it is filed.
#[test]
fn less_late_is_filed_anew() {
    let armed = Fixture::armed(100);
    assert!(matches!(
        armed.cell().rearm(GENERATION, 300),
        Rearmed::Done { .. }
    ));
    let Rearmed::Refiled { old, new } = armed.cell().rearm(GENERATION, 299) else {
        panic!("it is earlier")
    };
    assert_eq!(
        (old, new),
        (filed(100, GENERATION), filed(299, GENERATION + 1))
    );
    assert_eq!(armed.word().lag(), 0);
}

/// A set clock moves only what nobody else has moved.
#[test]
fn a_move_from_a_tick_needs_that_tick() {
    let armed = Fixture::armed(100);
    assert!(matches!(
        armed.cell().rearm(GENERATION, 300),
        Rearmed::Done { .. }
    ));
    for from in [100, 299, 301] {
        let rearmed = armed.cell().rearm_from(GENERATION, from, 50);
        assert!(matches!(rearmed, Rearmed::Gone));
    }
    let rearmed = armed.cell().rearm_from(GENERATION, 300, 50);
    assert!(matches!(rearmed, Rearmed::Refiled { new, .. } if new == filed(50, GENERATION + 1)));
}

#[test]
fn an_entry_that_comes_too_early_goes_to_the_deadline() {
    let armed = Fixture::armed(100);
    assert!(matches!(
        armed.cell().rearm(GENERATION, 350),
        Rearmed::Done { .. }
    ));
    assert!(
        armed
            .cell()
            .claim_due_plain(entry(100, GENERATION))
            .is_none()
    );
    let DueClaim::Later(later) = armed.cell().claim_due(entry(100, GENERATION)) else {
        panic!("it is not due")
    };
    assert_eq!(later, filed(350, GENERATION));
    // Its tombstone goes there too.
    assert!(matches!(
        armed.cell().rearm(GENERATION, 400),
        Rearmed::Done { .. }
    ));
    assert_eq!(
        seen(armed.cell(), false),
        Some((GENERATION, DueAt::new(400, SHARD)))
    );
    assert_eq!(
        got(armed.cell().claim_id(GENERATION)),
        Some((400, true, Some(filed(350, GENERATION)), Some(INDEX)))
    );

    // What the cell's timer before had put back is not this one's.
    // SAFETY: the claim gave us the index.
    let birth = unsafe {
        armed
            .cell()
            .fill(DueAt::new(1_000, SHARD), Payload("payload"))
    };
    assert_eq!(birth, GENERATION + 1);
    assert!(matches!(
        armed.cell().rearm(birth, 1_100),
        Rearmed::Done { .. }
    ));
    assert_eq!(
        got(armed.cell().claim_id(birth)),
        Some((1_100, true, Some(filed(1_000, birth)), Some(INDEX)))
    );
}

#[test]
fn an_entry_that_comes_late_finds_its_timer() {
    let armed = Fixture::armed(100);
    assert!(matches!(
        armed.cell().rearm(GENERATION, 350),
        Rearmed::Done { .. }
    ));
    assert!(matches!(
        armed.cell().claim_due(entry(350, GENERATION)),
        DueClaim::Payload("payload")
    ));
}

#[test]
fn no_entry_goes_beyond_the_end_of_time() {
    let armed = Fixture::armed(DEADLINE_MAX - 10);
    assert!(matches!(
        armed.cell().rearm(GENERATION, DEADLINE_MAX),
        Rearmed::Done { .. }
    ));
    let DueClaim::Later(later) = armed.cell().claim_due(entry(DEADLINE_MAX - 10, GENERATION))
    else {
        panic!("it is not due")
    };
    assert_eq!(later, filed(DEADLINE_MAX, GENERATION));
}

/// However often it is moved, its id names it.
#[test]
fn an_id_outlives_all_moves() {
    let armed = Fixture::armed(1_000);
    for moves in 1..3 * MOVES_MAX {
        let Rearmed::Refiled { old, new } = armed.cell().rearm(GENERATION, 1_000 - moves) else {
            panic!("it is earlier")
        };
        assert_eq!(
            (old, new),
            (
                filed(1_001 - moves, GENERATION + moves - 1),
                filed(1_000 - moves, GENERATION + moves)
            )
        );
        assert!(
            armed.cell().is_pending(GENERATION) && !armed.cell().is_pending(GENERATION + moves)
        );
        assert_eq!(
            seen(armed.cell(), false),
            Some((GENERATION, DueAt::new(1_000 - moves, SHARD)))
        );
        assert!(
            armed.cell().claim_first(GENERATION).is_none(),
            "it is not as it was first filed"
        );
    }
    let generation = GENERATION + 3 * MOVES_MAX - 1;
    let deadline = 1_001 - 3 * MOVES_MAX;
    assert_eq!(
        got(armed.cell().claim_id(GENERATION)),
        Some((
            deadline,
            true,
            Some(filed(deadline, generation)),
            Some(INDEX)
        ))
    );
    assert_eq!(armed.word(), Word::new(generation + 1, State::Vacant));
}

/// A cancel that meets a re-arm has the payload at once; whoever leaves last has the cell.
#[test]
fn a_timer_that_is_being_moved_is_cancelled() {
    let armed = Fixture::armed(100);
    let word = armed.set(State::Held);
    assert!(armed.cell().is_pending(GENERATION));
    assert!(
        matches!(
            armed.cell().rearm(GENERATION, 7),
            Rearmed::Done { shard: SHARD }
        ),
        "the other one's takes effect after it"
    );
    assert!(matches!(
        armed.cell().claim_due(entry(100, GENERATION)),
        DueClaim::Dead
    ));
    assert_eq!(
        got(armed.cell().claim_id(GENERATION)),
        Some((100, true, None, None))
    );
    assert!(
        !armed.cell().is_pending(GENERATION)
            && seen(armed.cell(), false).is_none()
            && armed.cell().claim_any().is_none()
    );
    assert!(matches!(armed.cell().rearm(GENERATION, 7), Rearmed::Gone));
    assert_eq!(armed.word().state(), State::Left);
    // What the re-arm does when it finds that.
    assert_eq!(armed.cell().leave(word), Some(INDEX));
    assert_eq!(armed.word(), Word::new(GENERATION + 1, State::Vacant));

    // In the other order.
    let armed = Fixture::armed(100);
    let word = armed.set(State::Doomed);
    assert_eq!(armed.cell().leave(word), None);
    assert_eq!(armed.cell().leave(word), Some(INDEX));
}

#[test]
fn a_periodic_timer_runs_and_comes_again() {
    let armed = Fixture::repeating(100);
    let cell = armed.cell();
    assert!(
        cell.claim_due_plain(entry(100, GENERATION)).is_none()
            && cell.claim_payload(GENERATION).is_none()
            && cell.claim_first(GENERATION).is_none()
    );
    let mut generation = GENERATION;
    for deadline in [100, 110, 120] {
        let is_on_its_way = || {
            assert!(
                cell.is_pending(GENERATION)
                    && seen(cell, false) == Some((GENERATION, DueAt::new(deadline, SHARD)))
            );
            assert!(cell.claim_payload(GENERATION).is_none());
        };
        let finds_nothing =
            |generation| matches!(cell.begin(entry(deadline, generation)), RunBegun::Dead);
        armed.wait_to_run(deadline, generation);
        is_on_its_way();
        assert!(finds_nothing(generation + 1), "another filing's");
        let repeat = armed.begin(deadline, generation);
        is_on_its_way();
        assert!(finds_nothing(generation), "twice");
        assert!(matches!(
            cell.claim_due(entry(deadline, generation)),
            DueClaim::Dead
        ));
        assert!(matches!(cell.rearm(GENERATION, 500), Rearmed::Gone));
        generation += 1;
        // SAFETY: the run is ours.
        let again = unsafe { cell.file_again(repeat, DueAt::new(deadline + 10, SHARD), 10, None) };
        let Ok(again) = again else {
            panic!("nobody cancelled it")
        };
        assert_eq!(again, filed(deadline + 10, generation));
    }
    drop(armed.run(130, generation));
    // SAFETY: as above.
    assert_eq!(unsafe { cell.end() }, (Some(INDEX), false));
    assert_eq!(armed.word(), Word::new(generation + 1, State::Vacant));
}

#[test]
fn a_periodic_timer_is_cancelled_while_it_waits_and_while_it_runs() {
    type Cancel = fn(CellRef<'_, &'static str>) -> Option<Claimed<&'static str>>;
    let cancels: [Cancel; 3] = [
        |cell| cell.claim_id(GENERATION),
        |cell| cell.claim_repeat(),
        |cell| cell.claim_any(),
    ];
    let armed = Fixture::repeating(100);
    assert!(armed.cell().claim_waiting_id(GENERATION + 1).is_none());
    assert!(armed.cell().claim_waiting_id(GENERATION).is_some());
    for cancel in cancels {
        let armed = Fixture::repeating(100);
        let claimed = cancel(armed.cell()).expect("it waits");
        assert!(matches!(claimed.content, Some(Content::Repeat(_))));
        assert_eq!(
            (claimed.filed, claimed.due_at, claimed.index),
            (
                Some(filed(100, GENERATION)),
                DueAt::new(100, SHARD),
                Some(INDEX)
            )
        );

        // Before the run has begun.
        let armed = Fixture::repeating(100);
        armed.wait_to_run(100, GENERATION);
        let claimed = cancel(armed.cell()).expect("it waits to run");
        assert!(matches!(claimed.content, Some(Content::Repeat(_))));
        assert_eq!(
            (claimed.due_at, claimed.index),
            (DueAt::new(100, SHARD), Some(INDEX))
        );
        assert_eq!(armed.word(), Word::new(GENERATION + 1, State::Vacant));
        let begun = armed.cell().begin(entry(100, GENERATION));
        assert!(matches!(begun, RunBegun::Dead));

        // While it runs.
        for files in [true, false] {
            let armed = Fixture::repeating(100);
            let cell = armed.cell();
            let repeat = armed.run(100, GENERATION);
            assert!(cell.claim_waiting_id(GENERATION).is_none(), "a run has it");
            let claimed = cancel(cell).expect("it runs");
            assert!(
                claimed.content.is_none() && claimed.filed.is_none() && claimed.index.is_none()
            );
            assert_eq!(claimed.due_at, DueAt::new(100, SHARD));
            assert!(
                cancel(cell).is_none()
                    && !cell.is_pending(GENERATION)
                    && seen(cell, false).is_none()
            );
            if files {
                // SAFETY: the run is ours.
                let ended = unsafe { cell.file_again(repeat, DueAt::new(110, SHARD), 10, None) };
                let Err(NotFiled::Ended(_, index)) = ended else {
                    panic!("it was cancelled")
                };
                assert_eq!(index, Some(INDEX));
            } else {
                // SAFETY: as above.
                assert_eq!(unsafe { cell.end() }, (Some(INDEX), true));
            }
            assert_eq!(armed.word(), Word::new(GENERATION + 1, State::Vacant));
        }
    }
}

#[test]
fn a_run_that_waits_may_be_moved() {
    let armed = Fixture::repeating(100);
    let (cell, begin) = (armed.cell(), |deadline, generation| {
        armed.cell().begin(entry(deadline, generation))
    });
    armed.wait_to_run(100, GENERATION);
    assert!(matches!(
        cell.rearm(GENERATION, 500),
        Rearmed::Done { shard: SHARD }
    ));
    let RunBegun::Later(put_back) = begin(100, GENERATION) else {
        panic!("it is due later")
    };
    assert_eq!(put_back, filed(500, GENERATION));
    // Sooner: it is filed anew.
    armed.wait_to_run(500, GENERATION);
    assert!(matches!(
        cell.rearm(GENERATION, 400),
        Rearmed::Refiled { old, new }
            if (old, new) == (filed(500, GENERATION), filed(400, GENERATION + 1))
    ));
    assert!(matches!(begin(500, GENERATION), RunBegun::Dead));
    drop(armed.run(400, GENERATION + 1));
}

/// Its ids would come a second time: the generation never goes below `GENERATION_LAST` again.
#[test]
fn a_cell_whose_generation_has_gone_round_is_held_no_more() {
    const HIGHEST: u64 = 2 * GENERATION_LAST - 1;
    let fixture = Fixture::armed(1_000);
    let mut deadline = 1_000;
    let mut move_sooner = || {
        deadline -= 1;
        let moved = fixture.cell().rearm(GENERATION, deadline);
        assert!(matches!(moved, Rearmed::Refiled { .. }));
        fixture.word().generation()
    };
    // Until the birth is in the side.
    (0..MOVES_MAX).for_each(|_| _ = move_sooner());
    // As after that many filings.
    let (before, step) = (fixture.word(), Word::new(1, State::Vacant).0);
    let after = Word(before.0 + (HIGHEST - 1 - before.generation()) * step);
    fixture.cell[0]
        .exchange(before, after)
        .expect("there is one thread");
    assert_eq!(
        [(); 3].map(|()| move_sooner()),
        [HIGHEST, GENERATION_LAST, GENERATION_LAST + 1]
    );
    assert!(fixture.cell().is_pending(GENERATION));
    let claimed = fixture.cell().claim_id(GENERATION).expect("it is armed");
    assert_eq!(claimed.index, None);
}

/// In a process that was forked off the thread that holds a cell HELD is not there.
#[test]
fn a_look_in_another_process_waits_for_no_holder() {
    for deadline in [1_000, DEADLINE_MAX] {
        let fixture = Fixture::armed(deadline);
        fixture.set(State::Held);
        let due_at = DueAt::new(deadline, SHARD);
        assert_eq!(seen(fixture.cell(), true), Some((GENERATION, due_at)));
        let claimed = fixture.cell().claim_id(GENERATION).expect("it waits");
        assert!(claimed.content.is_some() && claimed.index.is_none());
        assert_eq!(seen(fixture.cell(), true), None, "it is cancelled");
    }
}
