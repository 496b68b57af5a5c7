//! Job: a batch of due entries that several workers fire together.
//!
//! Owned by its workers, by an `Arc`. Any thread of the pool, or of a user's executor, may be a
//! worker. README.md of this room has the protocol and its ground rules.

use super::buffers::{Buffers, Portion};
use super::fire::{Fire, Half};
use super::inside::inside;
use super::sizes::{EntryBatch, GRAIN};
use crate::sync::{AtomicBool, AtomicUsize, Fault, Loose, Ordering, broken, ordering, per_thread};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

per_thread! {
    /// How many offers this thread is leaving. While it leaves one, it is inside the pool's code.
    /// There is more than one if the pool runs an offer at once, on the same thread.
    static OFFERING: Cell<u32> = const { Cell::new(0) };
}

/// Who learned of a job that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Idle threads: the job was announced. Its workers announce what they leave to others.
    Announced,
    /// The attendant, which was woken. It does not announce what it can do alone, so if it is held
    /// up, that work waits.
    Called,
    /// No thread: the job is left to the attendant, which is at work already.
    Left,
}

/// Where jobs run, and where their workers leave offers. It must not unwind.
pub(crate) trait Spawn: Clone + Send + 'static {
    /// Gives the work to an idle thread. If there is none, the calling thread does it later.
    fn spawn(&self, work: impl FnOnce() + Send + 'static);

    /// Gives a job to a thread that begins it. If no thread is told of the job (`Notice::Left`),
    /// the caller has to check on it (`look`).
    fn submit(&self, _is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Notice {
        self.spawn(begin);
        Notice::Announced
    }

    /// Gives an offer to a thread, usually when no job is left to begin. `take_up` takes the offer,
    /// and returns whether there was something to do.
    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.spawn(move || _ = take_up());
    }

    /// The calling thread has been at work for a while. The pool may announce what the thread has
    /// left to itself.
    fn pulse(&self) {}

    /// From now on the caller calls `look`, until that returns `false` or the caller calls
    /// `unwatch`.
    fn watch(&self) {}

    /// Announces the work that was left to a thread, if that thread is held up. Returns whether to
    /// call this again.
    fn look(&self) -> bool {
        false
    }

    /// The caller no longer calls `look`. The pool announces the work that was left.
    fn unwatch(&self) {}
}

/// A helper leaves no offer of a job while this number of its offers are being left. An executor
/// may run an offer elsewhere and wait for it. The offer is then taken, and its helper leaves the
/// next one, before the call that leaves the first one returns. This number ends such a chain.
const OFFERS_DEEP: usize = 8;

/// A batch of due entries.
pub(crate) struct Job<F: Fire> {
    fire: Arc<F>,
    buffers: Buffers<F>,
    /// Whether the job has its first worker.
    begun: AtomicBool,
    /// The number of the grain that is claimed next.
    next: CachePadded<AtomicUsize>,
    /// Grains that are claimed and filled.
    filled: AtomicUsize,
    /// Whether there is an offer that no thread has taken.
    offered: AtomicBool,
    /// Threads that are leaving an offer.
    offering: AtomicUsize,
    /// The half of the jobs in flight in which the job's workers are counted (FireBegin). Written
    /// by the first worker.
    half: AtomicUsize,
    /// Where the buffers go when all workers have left.
    spare: Arc<ArrayQueue<Buffers<F>>>,
}

impl<F: Fire> Job<F> {
    pub(crate) fn new(
        fire: Arc<F>,
        mut buffers: Buffers<F>,
        spare: Arc<ArrayQueue<Buffers<F>>>,
    ) -> Arc<Self> {
        buffers.fit(buffers.entries.len(), &fire);
        let next = CachePadded::new(AtomicUsize::new(0));
        Arc::new(Self {
            fire,
            buffers,
            begun: AtomicBool::new(false),
            next,
            filled: AtomicUsize::new(0),
            offered: AtomicBool::new(false),
            offering: AtomicUsize::new(0),
            half: AtomicUsize::new(0),
            spare,
        })
    }

    /// JobBegin. Returns whether the caller is the first worker. Exactly one caller is, and that
    /// one calls [`work`](Self::work).
    pub(crate) fn begin(&self) -> bool {
        // Ordering: Relaxed, here and below. It publishes nothing: the queue or the thread that
        // gave the job to the caller has published what is in it.
        if broken(Fault::JobBegunTwice) {
            let is_begun = self.begun.load(Ordering::Relaxed);
            self.begun.store(true, Ordering::Relaxed);
            return !is_begun;
        }
        !self.begun.swap(true, Ordering::Relaxed)
    }

    /// OfferTake, by a thread that was not given an offer. If there is one, the thread takes it and
    /// helps: the worker that left the offer has published what a helper needs.
    pub(crate) fn step_in(self: &Arc<Self>, spawn: &impl Spawn) {
        // Ordering: AcqRel (OfferTake). Pairs with OfferLeave.
        if self.offered.swap(false, Ordering::AcqRel) && self.has_work() {
            self.help(spawn);
        }
    }

    /// Begins the job as its first worker, and works until nothing is left to take.
    pub(crate) fn work(self: &Arc<Self>, spawn: &impl Spawn) {
        during(&*self.fire, |half| {
            // Ordering: Relaxed. Published by OfferLeave for whoever takes an offer.
            self.half.store(half.0, Ordering::Relaxed);
            self.take_all(spawn);
        });
    }

    /// Leaves the next offer, and works at a job that another thread has begun.
    fn help(self: &Arc<Self>, spawn: &impl Spawn) {
        let work = || {
            // Ordering: Relaxed. This bounds a chain of nested calls, in which each call happens
            // after the one before.
            if !broken(Fault::OfferNotRenewed)
                && self.offering.load(Ordering::Relaxed) < OFFERS_DEEP
            {
                self.offer(spawn);
            }
            self.take_all(spawn);
        };
        if broken(Fault::HelperNotCounted) {
            return work();
        }
        if broken(Fault::HelperInPresentHalf) {
            return during(&*self.fire, |_| work());
        }
        inside(|| {
            // Ordering: Relaxed. Published by OfferLeave, acquired by OfferTake.
            let half = Half(self.half.load(Ordering::Relaxed));
            self.fire.begin_in(half); // FireBegin
            work();
            self.fire.end(half); // FireEnd
        });
    }

    /// Claims all entries and drops their payloads, for a job at which no thread will work.
    pub(super) fn abandon(&self) {
        let discard_all = || {
            while let Some(portion) = self.claim_grain() {
                portion.discard(&self.fire);
            }
        };
        if broken(Fault::AbandonNotCounted) {
            discard_all();
        } else {
            during(&*self.fire, |_| discard_all());
        }
    }

    fn take_all(self: &Arc<Self>, spawn: &impl Spawn) {
        while let Some(portion) = self.claim_grain() {
            if portion.left() > 1 || !self.is_claimed() {
                self.offer(spawn);
                spawn.pulse();
            }
            portion.run(&self.fire);
        }
        self.buffers
            .portions()
            .filter(|portion| portion.left() > 0)
            .for_each(|portion| portion.run(&self.fire));
    }

    /// GrainClaim. Claims the next grain, and publishes its payloads and runs.
    fn claim_grain(&self) -> Option<Portion<'_, F>> {
        // Ordering: AcqRel (GrainClaim). Pairs with itself: a worker that finds nothing left comes
        // after the FireBegin of the workers that took the rest. See `Grain::left`.
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        let mut portion = self.buffers.portion(number)?;
        let entries = self.buffers.entries.chunks(GRAIN).nth(number)?;
        // SAFETY: GrainClaim gives each number to one worker.
        unsafe { portion.fill(&self.fire, entries) };
        // Ordering: Release. Pairs with the Acquire load in `left`, which sees the payloads then.
        self.filled.fetch_add(1, Ordering::Release);
        Some(portion)
    }

    /// Whether the last grain has been claimed.
    fn is_claimed(&self) -> bool {
        // Ordering: Relaxed. A hint: a worker that misses the last grain finds the offer of the one
        // that has published it.
        self.next.load(Ordering::Relaxed) * GRAIN >= self.buffers.entries.len()
    }

    /// LeftLook. The number of entries and payloads that no worker has taken. 0 means that none is
    /// left, nor ever will be: a grain that is claimed and not yet filled counts as entries.
    pub(crate) fn left(&self) -> usize {
        // Ordering: Acquire. Pairs with the Release in `claim_grain`.
        let filled = self.filled.load(Ordering::Acquire);
        // Ordering: Relaxed. The load above has seen the claims of all grains that it counts.
        let claimed = self.next.load(Ordering::Relaxed);
        let counted = match broken(Fault::LeftByClaims) {
            true => claimed,
            false => filled,
        };
        let unfilled = self.buffers.entries.len().saturating_sub(counted * GRAIN);
        let portions = self.buffers.portions().take(claimed);
        unfilled + portions.map(|portion| portion.left()).sum::<usize>()
    }

    fn has_work(&self) -> bool {
        !self.is_claimed() || self.buffers.portions().any(|portion| portion.left() > 0)
    }

    /// OfferLeave. Leaves an offer, if there is none. The caller has published what there is to
    /// take.
    fn offer(self: &Arc<Self>, spawn: &impl Spawn) {
        // Ordering: AcqRel (OfferLeave). Pairs with OfferTake. If OfferTake comes after this, it
        // sees what this thread has published. If it comes before, this thread sees that the offer
        // is gone.
        if !self.offered.swap(true, Ordering::AcqRel) {
            // A `Loose` reference: an offer that is taken late does not keep its job alive.
            let (job, further) = (Loose::of(self), spawn.clone());
            OFFERING.with(|offering| offering.set(offering.get() + 1));
            // Ordering: Relaxed. See `help`.
            self.offering.fetch_add(1, Ordering::Relaxed);
            spawn.offer(move || job.get().is_some_and(|job| job.take_up(&further)));
            // Ordering: Relaxed. As above.
            self.offering.fetch_sub(1, Ordering::Relaxed);
            OFFERING.with(|offering| offering.set(offering.get() - 1));
        }
    }

    /// OfferTake. Takes the offer, and helps if there is something to take. Returns whether there
    /// was.
    fn take_up(self: &Arc<Self>, spawn: &impl Spawn) -> bool {
        // Ordering: AcqRel (OfferTake). Pairs with OfferLeave.
        self.offered
            .swap(false, ordering(Ordering::AcqRel, Fault::OfferRelaxed));
        // If the pool runs the offer at once, on the thread that leaves it, no thread is idle: the
        // thread that left the offer goes on alone.
        let helps = self.has_work() && OFFERING.with(Cell::get) == 0;
        if helps {
            self.help(spawn);
        }
        helps
    }
}

impl<F: Fire> Drop for Job<F> {
    fn drop(&mut self) {
        let mut buffers = std::mem::replace(&mut self.buffers, Buffers::new(EntryBatch::new()));
        buffers.reset();
        // If the queue is full the buffers go back to the allocator.
        let _ = self.spare.push(buffers);
    }
}

/// Fires a batch on the calling thread alone, a grain at a time, through the first portion of
/// `buffers`. When the service has stopped it claims no further grain, because the `stop` waits for
/// this thread.
pub(crate) fn alone<F: Fire>(fire: &F, batch: &EntryBatch, buffers: &mut Buffers<F>) {
    during(fire, |_| {
        let goes_on = || !fire.is_stopped() || broken(Fault::StopTurnNotAwaited);
        buffers.fit_runs(GRAIN, fire);
        for entries in batch.chunks(GRAIN).take_while(|_| goes_on()) {
            buffers.clear();
            let mut portion = buffers.portion(0).expect("it has room for one");
            // SAFETY: the only call since the portion was cleared.
            unsafe { portion.fill(fire, entries) };
            portion.run(fire);
        }
    });
}

/// Does a job, or the part of its first worker, between FireBegin and FireEnd.
pub(crate) fn during<F: Fire>(fire: &F, part: impl FnOnce(Half)) {
    inside(|| {
        let half = fire.begin(); // FireBegin
        part(half);
        fire.end(half); // FireEnd
    });
}
