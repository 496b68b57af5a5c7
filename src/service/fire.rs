//! Fire: from claimed entries to tasks that have run.
//!
//! A leaf of due entries is claimed by one worker, under one pin; the payloads lie in a [`Leaf`] from which this worker takes one after the other, and
//! idle workers that help. So a slow task holds up nobody while a worker is idle, and no user code runs pinned.

use super::cells::Run;
use super::inner::{Inner, ShardHouse};
use super::lateness::Histogram;
use super::tally::Event;
use crate::cell::Place;
use crate::dispatch::leaf::{Leaf, Leaves};
use crate::dispatch::{Fire, Half, LEAF};
use crate::entry::Entry;
use crate::time::TickLength;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Payloads of timers that fired, for the handler to take: an iterator.
///
/// What is in it has fired: it can be cancelled no more. The handler should take all. What it leaves is dropped, counted in
/// [`ShardStats::dropped`](crate::ShardStats::dropped), and told to the hook [`on_dropped`](crate::Builder::on_dropped). Another worker may
/// take from the same batch at the same time, so fewer may come than [`left`](Self::left) says.
///
/// # Example
/// ```
/// use wheelwork::{Batch, TimerService};
///
/// let service = TimerService::builder().on_expire(|batch: &mut Batch<'_, String>| batch.for_each(|name| println!("{name} is due"))).start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
pub struct Batch<'a, T> {
    leaf: &'a Leaf<'a, T>,
}

impl<T> Batch<'_, T> {
    /// How many payloads are left now.
    ///
    /// # Example
    /// ```
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let service = TimerService::builder()
    ///     .on_expire(|batch: &mut Batch<'_, u64>| {
    ///         let mut numbers = Vec::with_capacity(batch.left());
    ///         numbers.extend(batch);
    ///     })
    ///     .start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn left(&self) -> usize {
        self.leaf.left()
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.leaf.take()
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.left()).finish()
    }
}

/// How late the timers of a leaf are, as they are claimed: each against its own deadline, all by one reading of the clock.
struct Late<'a> {
    tick: TickLength,
    now_ns: u64,
    histogram: &'a Histogram,
    /// The deadline of those that came last, and how many came before them: these are in the histogram.
    deadline: u64,
    before: usize,
    /// Those that the hook is to be told of: more than this late, how late at the most, how many.
    above_ns: u64,
    lateness_ns_max: u64,
    late: u64,
}

impl Late<'_> {
    /// One more, after so many.
    #[inline]
    fn add(&mut self, fired: usize, deadline: u64) {
        if deadline != self.deadline {
            self.close(fired);
            self.deadline = deadline;
        }
    }

    /// Puts those of the last deadline in the histogram.
    fn close(&mut self, fired: usize) {
        let same = (fired - std::mem::replace(&mut self.before, fired)) as u64;
        if same == 0 {
            return;
        }
        let lateness_ns = self.now_ns.saturating_sub(self.tick.start(self.deadline));
        self.histogram.add(lateness_ns, same);
        if lateness_ns > self.above_ns {
            self.lateness_ns_max = self.lateness_ns_max.max(lateness_ns);
            self.late += same;
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Counts a run of a periodic timer that was due at this tick.
    pub(super) fn count_run(&self, place: Place) {
        let lateness_ns = self.cells.with_local(|local| {
            let lateness_ns = self.clock.arming_now_ns(&mut local.anchor).saturating_sub(self.tick.start(place.deadline()));
            local.with_lateness(|local, histogram| {
                histogram.add(lateness_ns, 1);
                local.count(place.shard(), Event::Run, 1);
            });
            lateness_ns
        });
        if lateness_ns > self.hooks.late_above_ns() {
            self.hooks.late(lateness_ns, 1);
        }
    }

    /// Runs the handler until the leaf is empty, whatever panics.
    fn run(&self, shard: usize, leaf: &Leaf<'_, T>) {
        loop {
            let left = leaf.left();
            if left == 0 {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| (self.handler)(&mut Batch { leaf }))) {
                Ok(()) if leaf.left() == 0 => {}
                // What the handler did not take.
                Ok(()) => self.discard(shard, std::iter::from_fn(|| leaf.take())),
                Err(panic) => {
                    self.panicked(panic);
                    // A handler that panics before it takes anything costs a payload each time, so that it comes to an end.
                    if leaf.left() == left {
                        self.discard(shard, leaf.take().into_iter());
                    }
                }
            }
        }
    }

    /// Drops payloads of timers that fired, each though another one's drop may panic; counts and tells that. (Apart, so that large payloads have no place on the
    /// stack of those that need it not.)
    #[cold]
    #[inline(never)]
    fn discard(&self, shard: usize, payloads: impl Iterator<Item = T>) {
        let mut dropped = 0;
        for payload in payloads {
            dropped += 1;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                self.panicked(panic);
            }
        }
        if dropped > 0 {
            self.cells.with_local(|local| local.count(shard, Event::Dropped, dropped));
            self.hooks.dropped(dropped);
        }
    }

    /// Fires payloads on the calling thread: for the first shard, as nobody knows any more whose they were.
    pub(super) fn fire_here(&self, mut payloads: impl Iterator<Item = T>) {
        if let Some(outbox) = &self.outbox {
            while let Some(first) = payloads.next() {
                let some = std::iter::once(first).chain(payloads.by_ref().take(LEAF - 1)).collect();
                if let Err(refused) = outbox.send(some) {
                    self.discard(0, refused.into_iter());
                }
            }
            return;
        }
        let mut leaves = Leaves::new(LEAF);
        while let Some(first) = payloads.next() {
            leaves.clear();
            let Some(mut leaf) = leaves.leaf(0) else { return };
            let some = std::iter::once(first).chain(payloads.by_ref().take(LEAF - 1));
            // SAFETY: once since it was cleared.
            unsafe { leaf.fill(|filling| some.for_each(|payload| filling.add(payload))) };
            self.run(0, &leaf);
        }
    }
}

impl<T: Send + 'static> Fire for ShardHouse<T> {
    type Payload = T;
    type Run = Run;

    fn begin(&self) -> Half {
        self.inner.running.begin() // F1
    }

    fn begin_in(&self, half: Half) {
        self.inner.running.begin_in(half); // F1
    }

    fn claim(&self, entries: &[Entry], mut add: impl FnMut(T), run: impl FnMut(Run)) {
        let inner = &*self.inner;
        let (lateness_ns_max, late) = inner.cells.with_local(|local| {
            let now_ns = inner.clock.arming_now_ns(&mut local.anchor);
            local.with_lateness(|local, histogram| {
                let (tick, above_ns) = (inner.tick, inner.hooks.late_above_ns());
                let mut late = Late { tick, now_ns, histogram, deadline: 0, before: 0, above_ns, lateness_ns_max: 0, late: 0 };
                let fire = |fired, entry: Entry, payload| {
                    late.add(fired, entry.deadline());
                    add(payload);
                };
                let fired = inner.cells.claim_due(local, entries, fire, run);
                late.close(fired);
                if fired > 0 {
                    local.count(self.shard, Event::Fired, fired as u64);
                }
                (late.lateness_ns_max, late.late)
            })
        });
        if late > 0 {
            inner.hooks.late(lateness_ns_max, late);
        }
    }

    fn run(&self, leaf: &Leaf<'_, T>) {
        self.inner.run(self.shard, leaf);
    }

    fn discard(&self, payloads: impl Iterator<Item = T>) {
        self.inner.discard(self.shard, payloads);
    }

    fn repeat(&self, run: Run) {
        self.inner.run_periodic(run);
    }

    fn give_up(&self, run: Run) {
        self.inner.give_up(run);
    }

    fn end(&self, half: Half) {
        self.inner.running.end(half); // F3
    }
}
