//! Fire: from claimed entries to tasks that have run.
//!
//! Runs on threads that run jobs. One worker claims a grain of due entries, under one pin. It then
//! takes the payloads from the [`Grain`], one after the other; idle workers help. So a slow task
//! holds up nobody while a worker is idle.
//!
//! Ground rule: no user code runs while a thread is pinned or a local is borrowed.

use super::batch::Batch;
use crate::dispatch::grain::{Grain, Grains};
use crate::dispatch::{Fire, GRAIN, Half};
use crate::engine::Engine;
use crate::engine::figures::lateness::Histogram;
use crate::engine::figures::tally::Event;
use crate::engine::host::ShardHost;
use crate::entry::Entry;
use crate::time::{Tick, TickLength};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Measures how late the timers of a grain are when they are claimed. Each timer has its own
/// deadline; one reading of the clock serves all.
struct Late<'a> {
    tick: TickLength,
    now_ns: u64,
    histogram: &'a Histogram,
    /// The deadline of the latest timers.
    deadline: u64,
    /// How many timers came before them. They are in the histogram.
    before: usize,
    /// The hook is called for timers with a lateness above this.
    above_ns: u64,
    /// The greatest lateness above it.
    lateness_ns_max: u64,
    /// How many timers were above it.
    late: u64,
}

impl Late<'_> {
    /// Adds a timer that fires after `fired` others.
    #[inline]
    fn add(&mut self, fired: usize, deadline: u64) {
        if deadline != self.deadline {
            self.close(fired);
            self.deadline = deadline;
        }
    }

    /// Adds the timers of the latest deadline to the histogram. `fired` timers have fired by now.
    #[inline]
    fn close(&mut self, fired: usize) {
        let timers = (fired - std::mem::replace(&mut self.before, fired)) as u64;
        if timers > 0 {
            self.close_with(timers);
        }
    }

    #[inline(never)]
    fn close_with(&mut self, timers: u64) {
        let lateness_ns = self
            .now_ns
            .saturating_sub(self.tick.start(Tick(self.deadline)).0);
        self.histogram.add(lateness_ns, timers);
        if lateness_ns > self.above_ns {
            self.lateness_ns_max = self.lateness_ns_max.max(lateness_ns);
            self.late += timers;
        }
    }
}

impl<T: Send + 'static> Engine<T> {
    /// Runs the handler until the grain is empty. Panics are caught.
    fn run(self: &Arc<Self>, shard: usize, grain: &Grain<'_, T>) {
        let engine = self;
        loop {
            let left = grain.left();
            if left == 0 {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| {
                (self.handler)(&mut Batch { grain, engine })
            })) {
                Ok(()) if grain.left() == 0 => {}
                // The handler has left some payloads.
                Ok(()) => self.discard(shard, std::iter::from_fn(|| grain.take())),
                Err(panic) => {
                    self.panicked(panic);
                    // A handler may panic before it takes a payload. Each such panic drops one
                    // payload, so that the loop ends.
                    if grain.left() == left {
                        self.discard(shard, grain.take().into_iter());
                    }
                }
            }
        }
    }

    /// Drops payloads of timers that fired, although some drops may panic. Counts them, and calls
    /// the hook. (A function of its own, so that its callers need no stack for large payloads.)
    #[cold]
    #[inline(never)]
    fn discard(&self, shard: usize, payloads: impl Iterator<Item = T>) {
        let mut dropped = 0;
        for payload in payloads {
            dropped += 1;
            self.drop_payload(payload);
        }
        if dropped > 0 {
            self.note_dropped(shard, dropped);
        }
    }

    fn drop_payload(&self, payload: T) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            self.panicked(panic);
        }
    }

    fn note_dropped(&self, shard: usize, dropped: u64) {
        self.cells
            .with_local(|local| local.count(shard, Event::Dropped, dropped));
        self.hooks.dropped(dropped);
    }

    /// Fires payloads on the calling thread. They count for the first shard, because their shards
    /// are no longer known.
    pub(crate) fn fire_here(self: &Arc<Self>, payloads: Vec<T>) {
        let mut payloads = payloads.into_iter();
        let mut grains = Grains::new(GRAIN);
        while payloads.len() > 0 {
            let some = payloads.by_ref().take(GRAIN);
            if let Some(channel) = &self.channel {
                if let Err(refused) = channel.send(some.collect()) {
                    self.discard(0, refused.into_iter());
                }
                continue;
            }
            grains.clear();
            let mut grain = grains.grain(0).expect("it has room for one");
            // SAFETY: the only call since the grain was cleared.
            unsafe { grain.fill(|filling| some.for_each(|payload| filling.add(payload))) };
            self.run(0, &grain);
        }
    }
}

impl<T: Send + 'static> Fire for ShardHost<T> {
    type Payload = T;
    /// The entry of a periodic timer that is due.
    type Run = Entry;

    fn begin(&self) -> Half {
        self.engine.in_flight.begin() // FireBegin
    }

    fn begin_in(&self, half: Half) {
        self.engine.in_flight.begin_in(half); // FireBegin
    }

    // FireClaim
    fn claim(&self, entries: &[Entry], mut add: impl FnMut(T), run: impl FnMut(Entry)) {
        let engine = &*self.engine;
        let (lateness_ns_max, late) = engine.cells.with_local(|local| {
            let now_ns = engine.clock.arming_now_ns(&mut local.anchor);
            local.with_lateness(|local, histogram| {
                let (tick, above_ns) = (engine.tick, engine.hooks.late_above_ns());
                let mut late = Late {
                    tick,
                    now_ns,
                    histogram,
                    deadline: 0,
                    before: 0,
                    above_ns,
                    lateness_ns_max: 0,
                    late: 0,
                };
                let fire = |fired, entry: Entry, payload| {
                    late.add(fired, entry.deadline());
                    add(payload);
                };
                let fired = engine.cells.claim_due(local, entries, fire, run);
                late.close(fired);
                if fired > 0 {
                    local.count(self.shard, Event::Fired, fired as u64);
                }
                (late.lateness_ns_max, late.late)
            })
        });
        if late > 0 {
            engine.hooks.late(lateness_ns_max, late);
        }
    }

    fn run(&self, grain: &Grain<'_, T>) {
        self.engine.run(self.shard, grain);
    }

    fn discard(&self, payloads: impl Iterator<Item = T>) {
        self.engine.discard(self.shard, payloads);
    }

    #[inline]
    fn repeats(&self) -> bool {
        self.engine.cells.shared.repeats()
    }

    fn repeat(&self, runs: &Grain<'_, Entry>) {
        self.engine.run_all(runs);
    }

    fn give_up(&self, run: Entry) {
        self.engine.give_up(run);
    }

    fn is_stopped(&self) -> bool {
        self.engine.cells.shared.is_stopped()
    }

    fn end(&self, half: Half) {
        self.engine.in_flight.end(half); // FireEnd
    }
}
