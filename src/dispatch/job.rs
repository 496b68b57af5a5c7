//! Job: a batch of due entries that several workers fire together.
//!
//! A worker claims a leaf of [`LEAF`] entries at a time, publishes it in the job, and runs its tasks. Before that it leaves an *offer* where idle
//! workers find it, unless one is there: whoever takes the offer leaves the next one, and then works at the job like the first, leaf by leaf, and payload by payload
//! in the leaves that others have claimed. An offer that nobody takes in time finds nothing left.
//!
//! Ground rules: **no worker ever waits for another one**. (With `rayon::join` one does, and runs other jobs on top of its stack meanwhile: a pool that is
//! behind has nested thousands of them, and overflowed.) Whoever may claim or take has said [`Fire::begin`] before; so a job runs as long as one of its
//! workers does (J1 to J3: all of them are counted in one half), and whoever drops it last is alone with its buffers, which go back for another batch. While something is left to take, and nobody idle is on the way to it, there is an offer (O1, O2).

use super::leaf::{Leaf, Leaves};
use super::{Batch, Fire, Half, LEAF};
use crate::sync::{AtomicBool, AtomicUsize, Fault, Loose, Ordering, broken, ordering, per_thread};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

per_thread! {
    /// How many jobs, and turns of shards, this thread is inside of: more than one if a task runs tasks, inline.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

per_thread! {
    /// Whether this thread is leaving an offer, and so inside the pool's code: more than one if that runs jobs at once.
    static OFFERING: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is inside a job, or takes a shard's turns: whoever waits for jobs and threads to end must not do it here.
pub(crate) fn inside_job() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// Runs something that must not unwind, for which others may wait.
pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let result = f();
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    result
}

/// The calling thread takes a shard's turns, or is one that `stop` waits for: it is inside until it has ended, with the destructors of its thread-locals.
pub(crate) fn inside_for_good() {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
}

/// How a job was taken by those who run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// An idle thread knows of it, and so will others of what that leaves.
    Told,
    /// A thread was woken for it that keeps what it can do alone: it may be held up.
    Called,
    /// It is left to such a thread, which is at work.
    Left,
}

/// Where jobs are run, and their workers leave their offers. It must not unwind.
pub(crate) trait Spawn: Clone + Send + 'static {
    /// Has the work done by an idle thread; if there is none, by this one, later.
    fn spawn(&self, work: impl FnOnce() + Send + 'static);

    /// The same, when the calling thread has nothing else to do.
    fn spawn_last(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(work);
    }

    /// Has a job begun. Unless it was told, whoever submits it looks again.
    fn submit(&self, _is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Taken {
        self.spawn(begin);
        Taken::Told
    }

    /// Has an offer taken, most of the time when no job is left to begin. `take_up` says whether there was something to do.
    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.spawn(move || _ = take_up());
    }

    /// The calling thread has been at work for a while: others may be told of what it has left to
    /// itself.
    fn pulse(&self) {}

    /// The caller is going to look, from now until a look says otherwise, or `unwatch`.
    fn watch(&self) {}

    /// Has others told if a thread is held up that jobs were left to. Whether to look again.
    fn look(&self) -> bool {
        false
    }

    /// The caller looks no more: has others told of what was left.
    fn unwatch(&self) {}
}

/// The most offers of a job that are being left at a time. An executor that waits for what it runs
/// elsewhere takes each offer up before the call that leaves it has come back. From this number on a
/// helper leaves no further offer, so that such a chain ends.
const OFFERS_DEEP: usize = 8;

/// No more memory for payloads than this is kept for another batch.
const PAYLOAD_BYTES_KEPT: usize = 32 << 10;

/// What a batch is fired from, and the next one after it.
pub(crate) struct Buffers<P> {
    pub(crate) entries: Batch,
    /// What has been claimed.
    pub(crate) leaves: Leaves<P>,
}

impl<P> Buffers<P> {
    pub(crate) fn new(entries: Batch) -> Self {
        Self { entries, leaves: Leaves::new(0) }
    }
}

/// A batch of due entries.
pub(crate) struct Job<F: Fire> {
    fire: Arc<F>,
    buffers: Buffers<F::Payload>,
    /// The leaf that is claimed next, by number.
    next: CachePadded<AtomicUsize>,
    /// Whether there is an offer that nobody has taken.
    offered: AtomicBool,
    /// Threads that are leaving an offer.
    offering: AtomicUsize,
    /// Where its threads are counted. Written by the one that begins it.
    half: AtomicUsize,
    /// Where the buffers go when all are done with them.
    home: Arc<ArrayQueue<Buffers<F::Payload>>>,
}

impl<F: Fire> Job<F> {
    pub(crate) fn new(fire: Arc<F>, mut buffers: Buffers<F::Payload>, home: Arc<ArrayQueue<Buffers<F::Payload>>>) -> Arc<Self> {
        buffers.leaves.fit(buffers.entries.len());
        let next = CachePadded::new(AtomicUsize::new(0));
        Arc::new(Self {
            fire,
            buffers,
            next,
            offered: AtomicBool::new(false),
            offering: AtomicUsize::new(0),
            half: AtomicUsize::new(0),
            home,
        })
    }

    /// Begins the job, and works at it until nothing is left to take.
    pub(crate) fn work(self: &Arc<Self>, spawn: &impl Spawn) {
        during(&*self.fire, |half| {
            // Ordering: Relaxed. Published by O1 for whoever takes an offer.
            self.half.store(half.0, Ordering::Relaxed);
            self.take_all(spawn);
        });
    }

    /// Works at a job that another thread has begun, and leaves the next offer.
    fn help(self: &Arc<Self>, spawn: &impl Spawn) {
        let work = || {
            // Ordering: Relaxed. A bound for a chain of calls, each of which comes after the one before.
            if !broken(Fault::OfferNotRenewed) && self.offering.load(Ordering::Relaxed) < OFFERS_DEEP {
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
            // Ordering: Relaxed. Published by O1, acquired by O2.
            let half = Half(self.half.load(Ordering::Relaxed));
            self.fire.begin_in(half); // J1
            work();
            self.fire.end(half); // J3
        });
    }

    /// Claims everything, and drops it: for a job that nobody will work at.
    pub(crate) fn abandon(&self) {
        let discard_all = || {
            while let Some(leaf) = self.claim_leaf(|run| self.fire.give_up(run)) {
                self.fire.discard(std::iter::from_fn(|| (leaf.left() > 0).then(|| leaf.take()).flatten()));
            }
        };
        if broken(Fault::AbandonNotCounted) {
            discard_all();
        } else {
            during(&*self.fire, |_| discard_all());
        }
    }

    fn take_all(self: &Arc<Self>, spawn: &impl Spawn) {
        let by_itself = |run| {
            let run = RunJob { fire: self.fire.clone(), run: Some(run) };
            if self.buffers.entries.len() == 1 {
                spawn.spawn_last(move || run.work());
            } else {
                spawn.spawn(move || run.work());
            }
        };
        while let Some(leaf) = self.claim_leaf(by_itself) {
            if leaf.left() > 1 || !self.is_claimed() {
                self.offer(spawn);
                spawn.pulse();
            }
            self.fire.run(&leaf);
        }
        self.buffers.leaves.iter().filter(|leaf| leaf.left() > 0).for_each(|leaf| self.fire.run(&leaf));
    }

    /// Claims the next leaf, and publishes what that gave. Gives `f` the runs of periodic timers.
    fn claim_leaf(&self, f: impl FnMut(F::Run)) -> Option<Leaf<'_, F::Payload>> {
        // Ordering: AcqRel (J2). Whoever finds nothing left knows that those who took the rest had begun: see `Leaf::left`.
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        let mut leaf = self.buffers.leaves.leaf(number)?;
        let entries = self.buffers.entries.chunks(LEAF).nth(number)?;
        let mut runs = Vec::new();
        // SAFETY: the counter gives each number to one worker.
        unsafe { leaf.fill(|filling| self.fire.claim(entries, |payload| filling.add(payload), |run| runs.push(run))) };
        runs.into_iter().for_each(f);
        Some(leaf)
    }

    /// Whether the last leaf has been claimed.
    fn is_claimed(&self) -> bool {
        // Ordering: Relaxed. A hint: who misses the last leaf finds its publisher's offer.
        self.next.load(Ordering::Relaxed) * LEAF >= self.buffers.entries.len()
    }

    fn has_work(&self) -> bool {
        !self.is_claimed() || self.buffers.leaves.iter().any(|leaf| leaf.left() > 0)
    }

    /// O1. Leaves an offer, if there is none. The caller has published what there is to take.
    fn offer(self: &Arc<Self>, spawn: &impl Spawn) {
        // Ordering: AcqRel (O1). If O2 comes after it, O2 sees what we have published; if it comes before, we see that the offer is gone.
        if !self.offered.swap(true, Ordering::AcqRel) {
            // Of a job that is over nothing is kept.
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

    /// O2. Takes the offer, and leaves another one if there is something to take. Whether there was.
    fn take_up(self: &Arc<Self>, spawn: &impl Spawn) -> bool {
        // Ordering: AcqRel (O2). See O1.
        self.offered.swap(false, ordering(Ordering::AcqRel, Fault::OfferRelaxed));
        // A pool that runs it at once has no idle thread: whoever left the offer goes on by itself.
        let helps = self.has_work() && OFFERING.with(Cell::get) == 0;
        if helps {
            self.help(spawn);
        }
        helps
    }
}

impl<F: Fire> Drop for Job<F> {
    fn drop(&mut self) {
        let mut buffers = std::mem::replace(&mut self.buffers, Buffers::new(Batch::new()));
        buffers.entries.clear();
        buffers.leaves.clear();
        if buffers.leaves.payload_bytes() > PAYLOAD_BYTES_KEPT {
            buffers.leaves = Leaves::new(0);
        }
        // A full queue: they go back to the allocator.
        let _ = self.home.push(buffers);
    }
}

/// A periodic timer's run, by itself: however long it takes, it holds up no other.
struct RunJob<F: Fire> {
    fire: Arc<F>,
    /// There until it is done.
    run: Option<F::Run>,
}

impl<F: Fire> RunJob<F> {
    fn work(mut self) {
        if let Some(run) = self.run.take() {
            during(&*self.fire, |_| self.fire.repeat(run));
        }
    }
}

impl<F: Fire> Drop for RunJob<F> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            during(&*self.fire, |_| self.fire.give_up(run));
        }
    }
}

/// Fires a batch on this thread alone, a leaf at a time, by way of the one leaf of `leaves`.
pub(crate) fn alone<F: Fire>(fire: &F, batch: &Batch, leaves: &mut Leaves<F::Payload>) {
    during(fire, |_| {
        for entries in batch.chunks(LEAF) {
            leaves.clear();
            let Some(mut leaf) = leaves.leaf(0) else { return };
            let mut runs = Vec::new();
            // SAFETY: once since it was cleared.
            unsafe { leaf.fill(|filling| fire.claim(entries, |payload| filling.add(payload), |run| runs.push(run))) };
            fire.run(&leaf);
            runs.into_iter().for_each(|run| fire.repeat(run));
        }
    });
}

/// Does a job, or the part of the thread that begins it: J1 begin, J2 work, J3 end.
pub(crate) fn during<F: Fire>(fire: &F, part: impl FnOnce(Half)) {
    inside(|| {
        let half = fire.begin(); // J1
        part(half);
        fire.end(half); // J3
    });
}
