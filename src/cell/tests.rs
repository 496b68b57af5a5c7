//! What each call does with a cell in each state, one after the other. What they do at the same time is for the models.

use super::claim::{Claimed, Due};
use super::rearm::Rearmed;
use super::state::{Cell, Content, Filed, Payload, Place, Side, Slot};
use super::word::{LAG_MAX, MOVES_MAX, State, Word};
use crate::entry::{DEADLINE_MAX, Entry};
use crate::mem::Zeroed;
use crate::time::{Missed, Repeat};

const SHARD: usize = 5;

/// A cell that starts at this count, of this index.
struct Fixture {
    cell: Zeroed<Cell<&'static str>>,
    side: Zeroed<Side>,
}

const COUNT: u64 = 40;
const INDEX: u32 = 17;

impl Fixture {
    fn new() -> Self {
        let (cell, side) = (Zeroed::new(1), Zeroed::new(1));
        let fixture = Self { cell, side };
        fixture.cell[0].start_at(COUNT);
        fixture
    }

    /// One in which a payload is armed, due then.
    fn armed(deadline: u64) -> Self {
        let fixture = Self::new();
        // SAFETY: the cell is nobody's else.
        let birth = unsafe { fixture.slot().arm(Place::new(deadline, SHARD), Payload("payload")) };
        assert_eq!(birth, COUNT);
        fixture
    }

    /// One in which a periodic timer is armed, due then.
    fn repeating(deadline: u64) -> Self {
        let fixture = Self::new();
        let repeat = Box::new(Repeat::every(10, Missed::Skip, deadline, 3, Box::new(|| ())));
        // SAFETY: the cell is nobody's else.
        let birth = unsafe { fixture.slot().arm(Place::new(deadline, SHARD), repeat) };
        assert_eq!(birth, COUNT);
        fixture
    }

    fn slot(&self) -> Slot<'_, &'static str> {
        Slot { index: INDEX, cell: &self.cell[0], side: &self.side[0] }
    }

    fn word(&self) -> Word {
        self.slot().load()
    }

    fn set(&self, state: State) -> Word {
        let before = self.word();
        self.cell[0].exchange(before, before.with_state(state)).expect("there is one thread");
        before
    }

    /// Queues a run.
    fn queue(&self, deadline: u64, count: u64) {
        let Due::Run(place) = self.slot().claim_due(entry(deadline, count)) else { panic!("it is due") };
        assert_eq!((place, self.word().state()), (Place::new(deadline, SHARD), State::Queued));
    }

    /// Queues a run, and begins it.
    fn run(&self, deadline: u64, count: u64) -> Box<Repeat> {
        self.queue(deadline, count);
        let repeat = self.slot().begin(count).expect("nobody cancelled it");
        assert_eq!(self.word().state(), State::Running);
        repeat
    }
}

fn entry(deadline: u64, count: u64) -> Entry {
    Entry::new(deadline, INDEX, count)
}

fn filed(deadline: u64, count: u64) -> Filed {
    Filed { entry: entry(deadline, count), shard: SHARD }
}

/// What a cancel got: deadline, whether there was a payload, where the entry is, index.
fn got(claimed: Option<Claimed<&'static str>>) -> Option<(u64, bool, Option<Filed>, Option<u32>)> {
    let Claimed { content, filed, place, index } = claimed?;
    assert_eq!(place.shard(), SHARD);
    let is_payload = matches!(content, Some(Content::Payload(payload)) if payload == "payload");
    Some((place.deadline(), is_payload, filed, index))
}

#[test]
fn a_payload_is_claimed_once_by_any_way() {
    let ways: [&dyn Fn(&Fixture) -> bool; 6] = [
        &|armed| got(armed.slot().claim_id(COUNT)) == Some((100, true, Some(filed(100, COUNT)), Some(INDEX))),
        &|armed| got(armed.slot().claim_payload(COUNT)) == Some((100, true, Some(filed(100, COUNT)), Some(INDEX))),
        &|armed| got(armed.slot().claim_any()) == Some((100, true, Some(filed(100, COUNT)), Some(INDEX))),
        &|armed| armed.slot().claim_first(COUNT) == Some(("payload", Place::new(100, SHARD), Some(INDEX))),
        &|armed| armed.slot().claim_due_plain(entry(100, COUNT)) == Some(("payload", Some(INDEX))),
        &|armed| matches!(armed.slot().claim_due(entry(100, COUNT)), Due::Payload("payload", Some(INDEX))),
    ];
    for first in ways {
        let armed = Fixture::armed(100);
        assert!(armed.slot().is_pending(COUNT) && !armed.slot().is_pending(COUNT + 1));
        assert_eq!(armed.slot().look(), Some((COUNT, Place::new(100, SHARD))));
        assert!(first(&armed));
        assert_eq!(armed.word(), Word::new(COUNT + 1, State::Vacant));
        assert!(!armed.slot().is_pending(COUNT) && armed.slot().look().is_none());
        for second in ways {
            assert!(!second(&armed));
        }
    }
}

#[test]
fn who_names_another_timer_gets_nothing() {
    let armed = Fixture::armed(100);
    let slot = armed.slot();
    for count in [COUNT - 1, COUNT + 1] {
        assert!(slot.claim_id(count).is_none() && slot.claim_payload(count).is_none() && slot.claim_first(count).is_none());
        assert!(slot.claim_due_plain(entry(100, count)).is_none() && matches!(slot.claim_due(entry(100, count)), Due::Dead));
        assert!(matches!(slot.rearm(count, 500), Rearmed::Gone));
    }
    assert!(slot.claim_repeat().is_none() && slot.claim_due_plain(entry(99, COUNT)).is_none());
    assert_eq!(armed.word(), Word::new(COUNT, State::Armed));
}

#[test]
fn later_is_a_lag_up_to_its_limit() {
    for (deadline, lag) in [(100, 0), (101, 1), (100 + LAG_MAX, LAG_MAX)] {
        let armed = Fixture::armed(100);
        assert!(matches!(armed.slot().rearm(COUNT, deadline), Rearmed::Done { shard: SHARD }));
        assert_eq!(armed.word(), Word::new(COUNT, State::Armed).with_lag(lag));
        assert_eq!(armed.slot().look(), Some((COUNT, Place::new(deadline, SHARD))));
        // Nothing was put back: the entry is where it was.
        assert_eq!(got(armed.slot().claim_id(COUNT)), Some((deadline, true, Some(filed(100, COUNT)), Some(INDEX))));
    }
    for deadline in [99, 0, 101 + LAG_MAX, DEADLINE_MAX] {
        let armed = Fixture::armed(100);
        let Rearmed::Refiled { old, new } = armed.slot().rearm(COUNT, deadline) else { panic!("{deadline} is filed anew") };
        assert_eq!((old, new), (filed(100, COUNT), filed(deadline, COUNT + 1)));
        assert_eq!(armed.slot().look(), Some((COUNT, Place::new(deadline, SHARD))));
        assert!(matches!(armed.slot().claim_due(entry(100, COUNT)), Due::Dead), "the old entry is");
        assert!(matches!(armed.slot().claim_due(entry(deadline, COUNT + 1)), Due::Payload("payload", Some(INDEX))));
    }
}

/// From its lag a timer can be moved to earlier than it is, though not earlier than it is filed.
#[test]
fn less_late_is_filed_anew() {
    let armed = Fixture::armed(100);
    assert!(matches!(armed.slot().rearm(COUNT, 300), Rearmed::Done { .. }));
    let Rearmed::Refiled { old, new } = armed.slot().rearm(COUNT, 299) else { panic!("it is earlier") };
    assert_eq!((old, new), (filed(100, COUNT), filed(299, COUNT + 1)));
    assert_eq!(armed.word().lag(), 0);
}

#[test]
fn an_entry_that_comes_too_early_goes_to_the_deadline() {
    let armed = Fixture::armed(100);
    assert!(matches!(armed.slot().rearm(COUNT, 350), Rearmed::Done { .. }));
    assert!(armed.slot().claim_due_plain(entry(100, COUNT)).is_none());
    let Due::Later(later) = armed.slot().claim_due(entry(100, COUNT)) else { panic!("it is not due") };
    assert_eq!(later, filed(350, COUNT));
    // Its tombstone goes there too.
    assert!(matches!(armed.slot().rearm(COUNT, 400), Rearmed::Done { .. }));
    assert_eq!(armed.slot().look(), Some((COUNT, Place::new(400, SHARD))));
    assert_eq!(got(armed.slot().claim_id(COUNT)), Some((400, true, Some(filed(350, COUNT)), Some(INDEX))));

    // What the cell's timer before had put back is not this one's.
    // SAFETY: the claim gave us the index.
    let birth = unsafe { armed.slot().arm(Place::new(1_000, SHARD), Payload("payload")) };
    assert_eq!(birth, COUNT + 1);
    assert!(matches!(armed.slot().rearm(birth, 1_100), Rearmed::Done { .. }));
    assert_eq!(got(armed.slot().claim_id(birth)), Some((1_100, true, Some(filed(1_000, birth)), Some(INDEX))));
}

#[test]
fn an_entry_that_comes_late_finds_its_timer() {
    let armed = Fixture::armed(100);
    assert!(matches!(armed.slot().rearm(COUNT, 350), Rearmed::Done { .. }));
    assert!(matches!(armed.slot().claim_due(entry(350, COUNT)), Due::Payload("payload", Some(INDEX))));
}

#[test]
fn no_entry_goes_beyond_the_end_of_time() {
    let armed = Fixture::armed(DEADLINE_MAX - 10);
    assert!(matches!(armed.slot().rearm(COUNT, DEADLINE_MAX), Rearmed::Done { .. }));
    let Due::Later(later) = armed.slot().claim_due(entry(DEADLINE_MAX - 10, COUNT)) else { panic!("it is not due") };
    assert_eq!(later, filed(DEADLINE_MAX, COUNT));
}

/// However often it is moved, its id names it.
#[test]
fn an_id_outlives_all_moves() {
    let armed = Fixture::armed(1_000);
    for moves in 1..3 * MOVES_MAX {
        let Rearmed::Refiled { old, new } = armed.slot().rearm(COUNT, 1_000 - moves) else { panic!("it is earlier") };
        assert_eq!((old, new), (filed(1_001 - moves, COUNT + moves - 1), filed(1_000 - moves, COUNT + moves)));
        assert!(armed.slot().is_pending(COUNT) && !armed.slot().is_pending(COUNT + moves));
        assert_eq!(armed.slot().look(), Some((COUNT, Place::new(1_000 - moves, SHARD))));
        assert!(armed.slot().claim_first(COUNT).is_none(), "it is not as it was first filed");
    }
    let count = COUNT + 3 * MOVES_MAX - 1;
    let deadline = 1_001 - 3 * MOVES_MAX;
    assert_eq!(got(armed.slot().claim_id(COUNT)), Some((deadline, true, Some(filed(deadline, count)), Some(INDEX))));
    assert_eq!(armed.word(), Word::new(count + 1, State::Vacant));
}

/// A cancel that meets a re-arm has the payload at once; whoever leaves last has the cell.
#[test]
fn a_timer_that_is_being_moved_is_cancelled() {
    let armed = Fixture::armed(100);
    let word = armed.set(State::Held);
    assert!(armed.slot().is_pending(COUNT));
    assert!(matches!(armed.slot().rearm(COUNT, 7), Rearmed::Done { shard: SHARD }), "the other one's takes effect after it");
    assert!(matches!(armed.slot().claim_due(entry(100, COUNT)), Due::Dead));
    assert_eq!(got(armed.slot().claim_id(COUNT)), Some((100, true, None, None)));
    assert!(!armed.slot().is_pending(COUNT) && armed.slot().look().is_none() && armed.slot().claim_any().is_none());
    assert!(matches!(armed.slot().rearm(COUNT, 7), Rearmed::Gone));
    assert_eq!(armed.word().state(), State::Left);
    // What the re-arm does when it finds that.
    assert_eq!(armed.slot().leave(word), Some(INDEX));
    assert_eq!(armed.word(), Word::new(COUNT + 1, State::Vacant));

    // In the other order.
    let armed = Fixture::armed(100);
    let word = armed.set(State::Doomed);
    assert_eq!(armed.slot().leave(word), None);
    assert_eq!(armed.slot().leave(word), Some(INDEX));
}

#[test]
fn a_periodic_timer_runs_and_comes_again() {
    let armed = Fixture::repeating(100);
    let slot = armed.slot();
    assert!(slot.claim_due_plain(entry(100, COUNT)).is_none() && slot.claim_payload(COUNT).is_none() && slot.claim_first(COUNT).is_none());
    let mut count = COUNT;
    for deadline in [100, 110, 120] {
        let is_on_its_way = || {
            assert!(slot.is_pending(COUNT) && slot.look() == Some((COUNT, Place::new(deadline, SHARD))));
            assert!(matches!(slot.rearm(COUNT, 500), Rearmed::Gone) && slot.claim_payload(COUNT).is_none());
            assert!(matches!(slot.claim_due(entry(deadline, count)), Due::Dead));
        };
        armed.queue(deadline, count);
        is_on_its_way();
        assert!(slot.begin(count + 1).is_none(), "another filing's");
        let repeat = slot.begin(count).expect("nobody cancelled it");
        is_on_its_way();
        assert!(slot.begin(count).is_none(), "twice");
        count += 1;
        // SAFETY: the run is ours.
        let again = unsafe { slot.file_again(repeat, Place::new(deadline + 10, SHARD)) };
        assert_eq!(again.expect("nobody cancelled it"), filed(deadline + 10, count));
    }
    drop(armed.run(130, count));
    // SAFETY: as above.
    assert_eq!(unsafe { slot.end() }, (Some(INDEX), false));
    assert_eq!(armed.word(), Word::new(count + 1, State::Vacant));
}

#[test]
fn a_periodic_timer_is_cancelled_while_it_waits_and_while_it_runs() {
    type Cancel = fn(Slot<'_, &'static str>) -> Option<Claimed<&'static str>>;
    let cancels: [Cancel; 3] = [|slot| slot.claim_id(COUNT), |slot| slot.claim_repeat(), |slot| slot.claim_any()];
    for cancel in cancels {
        let armed = Fixture::repeating(100);
        let claimed = cancel(armed.slot()).expect("it waits");
        assert!(matches!(claimed.content, Some(Content::Repeat(_))));
        assert_eq!((claimed.filed, claimed.place, claimed.index), (Some(filed(100, COUNT)), Place::new(100, SHARD), Some(INDEX)));

        // Before the run has begun.
        let armed = Fixture::repeating(100);
        armed.queue(100, COUNT);
        let claimed = cancel(armed.slot()).expect("it waits to run");
        assert!(matches!(claimed.content, Some(Content::Repeat(_))) && claimed.filed.is_none());
        assert_eq!((claimed.place, claimed.index), (Place::new(100, SHARD), Some(INDEX)));
        assert_eq!(armed.word(), Word::new(COUNT + 1, State::Vacant));
        assert!(armed.slot().begin(COUNT).is_none());

        // While it runs.
        for files in [true, false] {
            let armed = Fixture::repeating(100);
            let slot = armed.slot();
            let repeat = armed.run(100, COUNT);
            let claimed = cancel(slot).expect("it runs");
            assert!(claimed.content.is_none() && claimed.filed.is_none() && claimed.index.is_none());
            assert_eq!(claimed.place, Place::new(100, SHARD));
            assert!(cancel(slot).is_none() && !slot.is_pending(COUNT) && slot.look().is_none());
            if files {
                // SAFETY: the run is ours.
                let (_, index) = unsafe { slot.file_again(repeat, Place::new(110, SHARD)) }.expect_err("it was cancelled");
                assert_eq!(index, Some(INDEX));
            } else {
                // SAFETY: as above.
                assert_eq!(unsafe { slot.end() }, (Some(INDEX), true));
            }
            assert_eq!(armed.word(), Word::new(COUNT + 1, State::Vacant));
        }
    }
}
