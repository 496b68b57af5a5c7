//! Buffers: the memory from which a batch is fired, and what a worker claims of it at a time.
//!
//! Owned by a job, or by a shard that fires alone. It is used again for later batches.

use super::fire::Fire;
use super::grain::{Grain, Grains};
use super::sizes::{EntryBatch, GRAIN};
use crate::entry::Entry;
use crate::sync::{Fault, broken};

/// Memory for payloads that is kept for another batch, at most, in bytes.
const PAYLOAD_BYTES_KEPT: usize = 32 << 10;

/// The memory from which a batch is fired.
pub(crate) struct Buffers<F: Fire> {
    pub(super) entries: EntryBatch,
    /// The payloads of claimed entries.
    grains: Grains<F::Payload>,
    /// Runs of the claimed entries of periodic timers, in as many grains. `None` in a service that
    /// has never had such timers: it pays nothing for them.
    runs: Option<Box<Grains<F::Run>>>,
}

/// What a worker claims at a time: grains of the same number.
pub(super) struct Portion<'a, F: Fire> {
    payloads: Grain<'a, F::Payload>,
    runs: Option<Grain<'a, F::Run>>,
}

impl<F: Fire> Buffers<F> {
    pub(crate) fn new(entries: EntryBatch) -> Self {
        Self {
            entries,
            grains: Grains::new(0),
            runs: None,
        }
    }

    /// Those of a shard that fires alone, a grain at a time: with room for one portion.
    pub(super) fn alone() -> Self {
        Self {
            grains: Grains::new(GRAIN),
            ..Self::new(EntryBatch::new())
        }
    }

    /// Makes room for what `entries` entries bring, after a `clear`.
    #[inline]
    pub(super) fn fit(&mut self, entries: usize, fire: &F) {
        self.grains.fit(entries);
        self.fit_runs(entries, fire);
    }

    /// Makes room for the runs among `entries` entries, after a `clear`.
    #[inline]
    pub(super) fn fit_runs(&mut self, entries: usize, fire: &F) {
        if fire.repeats() {
            let runs = self.runs.get_or_insert_with(|| Box::new(Grains::new(0)));
            runs.fit(entries);
        }
    }

    /// The portion of this number, if there is one.
    #[inline]
    pub(super) fn portion(&self, number: usize) -> Option<Portion<'_, F>> {
        Some(Portion {
            payloads: self.grains.grain(number)?,
            runs: self.runs.as_ref().and_then(|runs| runs.grain(number)),
        })
    }

    /// All portions.
    pub(super) fn portions(&self) -> impl Iterator<Item = Portion<'_, F>> {
        (0..).map_while(|number| self.portion(number))
    }

    /// Drops the payloads that are left, and forgets the runs.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.grains.clear();
        self.runs.iter_mut().for_each(|runs| runs.clear());
    }

    /// Empties all for another batch, and gives back what large payloads took.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.clear();
        if self.payload_bytes() > PAYLOAD_BYTES_KEPT {
            self.grains = Grains::new(0);
        }
    }

    /// The room for payloads, in bytes.
    pub(super) fn payload_bytes(&self) -> usize {
        self.grains.payload_bytes()
    }
}

impl<F: Fire> Portion<'_, F> {
    /// FireClaim, GrainFill. Claims at most [`GRAIN`] entries, and publishes what they bring.
    ///
    /// # Safety
    /// Called once for each number; once again after a `clear`.
    #[inline]
    pub(super) unsafe fn fill(&mut self, fire: &F, entries: &[Entry]) {
        debug_assert!(entries.len() <= GRAIN);
        let payloads = &mut self.payloads;
        let mut claim = |add_run: &mut dyn FnMut(F::Run)| {
            // SAFETY: the caller's promise.
            unsafe { payloads.fill(|filling| fire.claim(entries, |one| filling.add(one), add_run)) }
        };
        match &mut self.runs {
            // SAFETY: the caller's promise.
            Some(runs) => unsafe { runs.fill(|filling| claim(&mut |run| filling.add(run))) },
            None => claim(&mut |_| unreachable!("no periodic timer was armed")),
        }
    }

    /// How many payloads and runs are left to take. A stale answer, as that of [`Grain::left`].
    #[inline]
    pub(super) fn left(&self) -> usize {
        let runs = self.runs.as_ref().map_or(0, Grain::left);
        self.payloads.left()
            + if broken(Fault::LeftWithoutRuns) {
                0
            } else {
                runs
            }
    }

    /// Runs the tasks that are left, and then the periodic timers.
    #[inline]
    pub(super) fn run(&self, fire: &F) {
        fire.run(&self.payloads);
        if let Some(runs) = &self.runs {
            fire.repeat(runs);
        }
    }

    /// Drops the payloads that are left, and ends the periodic timers.
    pub(super) fn discard(&self, fire: &F) {
        fire.discard(rest(&self.payloads));
        if let Some(runs) = &self.runs {
            rest(runs).for_each(|run| fire.give_up(run));
        }
    }
}

/// Runs of periodic timers that one thread claims and runs, a grain at a time.
pub(super) struct OwnRuns<F: Fire>(Grains<F::Run>);

impl<F: Fire> OwnRuns<F> {
    pub(super) fn new() -> Self {
        Self(Grains::new(GRAIN))
    }

    /// FireClaim. Claims at most [`GRAIN`] entries. Gives `add` their payloads, and returns their
    /// runs.
    pub(super) fn claim(
        &mut self,
        fire: &F,
        entries: &[Entry],
        add: impl FnMut(F::Payload),
    ) -> Grain<'_, F::Run> {
        self.0.clear();
        let mut runs = self.0.grain(0).expect("it has room for one");
        // SAFETY: the only call since the grain was cleared.
        unsafe { runs.fill(|filling| fire.claim(entries, add, |run| filling.add(run))) };
        runs
    }
}

fn rest<P>(grain: &Grain<'_, P>) -> impl Iterator<Item = P> {
    std::iter::from_fn(|| (grain.left() > 0).then(|| grain.take()).flatten())
}
