//! The parts of a service, set up for who measures them: criterion by the clock, callgrind by
//! instructions. One thread uses them, and what it does is inlined, as in a service.

use fastrand::Rng;
use std::hint::black_box;
use wheelwork::internals::{Arena, Drain, Entry, Inbox, Magazines, Sender, Wheel};

/// The pace of a service at a tick of 1 ms.
const PACE: u64 = 16_384;

/// Ticks of a slot of the wheel's second level.
pub(crate) const SLOT: u64 = 256;

/// The latest deadline of `deadlines`: a minute at a tick of 1 ms.
pub(crate) const HORIZON: u64 = 60_000;

/// A lane, with both its ends.
pub(crate) struct Lane {
    sender: Sender<Entry>,
    drain: Drain<Entry>,
    entry: Entry,
}

impl Lane {
    pub(crate) fn new() -> Self {
        let (inbox, drain) = Inbox::new();
        let sender = inbox.attach();
        let entry = Entry::new(30_000, 1, 1);
        Self {
            sender,
            drain,
            entry,
        }
    }

    #[inline(always)]
    pub(crate) fn push_and_drain(&mut self, messages: usize) {
        (0..messages).for_each(|_| self.sender.push(black_box(self.entry)));
        let drained = self.drain.drain(|message, _| _ = black_box(message));
        assert_eq!(drained, messages as u64);
    }
}

/// A cell that is armed and claimed again and again.
pub(crate) struct Cell {
    arena: Arena,
    cell: u32,
}

impl Cell {
    pub(crate) fn new() -> Self {
        let arena = Arena::new();
        let cell = arena.take(&mut arena.magazines());
        let cell = cell.expect("there are enough");
        Self { arena, cell }
    }

    /// As `cancel` claims.
    #[inline(always)]
    pub(crate) fn claim_id(&self, payload: u64) {
        // SAFETY: the cell was taken, and each claim gives it back.
        let (_, claimed) = unsafe { self.arena.use_once(self.cell, payload) };
        assert_eq!(claimed, Some(payload));
    }

    /// As a worker claims what is due.
    #[inline(always)]
    pub(crate) fn claim_due(&self, payload: u64) {
        // SAFETY: the cell was taken, and each claim gives it back.
        let entry = unsafe { self.arena.arm(self.cell, 1, payload) };
        // SAFETY: armed here, and nobody calls `maintain`.
        let claimed = unsafe { self.arena.claim_due(entry) };
        assert_eq!(claimed, Some(payload));
    }
}

/// Cells that one thread takes and another puts back: their magazines go through the depot.
pub(crate) struct Exchange {
    arena: Arena,
    arming: Magazines,
    firing: Magazines,
}

impl Exchange {
    pub(crate) fn new() -> Self {
        let arena = Arena::new();
        let (arming, firing) = (arena.magazines(), arena.magazines());
        Self {
            arena,
            arming,
            firing,
        }
    }

    #[inline(always)]
    pub(crate) fn exchange(&mut self, cells: usize) {
        for _ in 0..cells {
            let cell = self.arena.take(&mut self.arming);
            let cell = cell.expect("there are enough");
            self.arena.put(&mut self.firing, cell);
        }
    }
}

/// A wheel with these.
pub(crate) fn wheel_of(entries: &[Entry]) -> Wheel {
    let mut wheel = Wheel::new(0, PACE);
    file_all(&mut wheel, entries);
    wheel
}

#[inline(always)]
pub(crate) fn file_all(wheel: &mut Wheel, entries: &[Entry]) {
    entries.iter().for_each(|&entry| wheel.file(entry));
}

/// Uniform over a minute.
pub(crate) fn deadlines(number: usize) -> Vec<u64> {
    let mut rng = Rng::with_seed(1);
    (0..number).map(|_| rng.u64(1_000..=HORIZON)).collect()
}

/// Entries with such deadlines.
pub(crate) fn spread(number: usize) -> Vec<Entry> {
    entries(deadlines(number))
}

/// Entries of one tick.
pub(crate) fn at_once(number: usize) -> Vec<Entry> {
    entries(vec![1; number])
}

/// Entries of the second level's first slot, all over it, but for its start.
pub(crate) fn in_one_slot(number: usize) -> Vec<Entry> {
    let deadlines = 0..number as u64;
    entries(deadlines.map(|cell| SLOT + 1 + cell % (SLOT - 1)).collect())
}

fn entries(deadlines: Vec<u64>) -> Vec<Entry> {
    let entries = deadlines.into_iter().zip(0..);
    entries
        .map(|(deadline, cell)| Entry::new(deadline, cell, 1))
        .collect()
}
