//! wheelwork with a `u64` for each timer: one call for each, batches of calls, and settings in which the handler runs on the shard's thread.

use super::{Producer, Subject};
use crate::book::{self, PERIOD};
use std::marker::PhantomData;
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Builder, Dispatch, TimerHandle, TimerId, TimerService};

/// Timers of one call of the batched subject.
const BATCH: usize = 1_000;

/// How often a lane that is not empty is looked at again.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

pub(crate) type Pooled = Service<Single, AsItComes>;
pub(crate) type Batched = Service<Many, AsItComes>;
pub(crate) type Inline = Service<Single, OnShard>;
pub(crate) type Cores = Service<Single, OnShardOfEachCore>;
pub(crate) type Fine = Service<Single, FineTick>;
pub(crate) type Spin = Service<Single, Margin>;

/// How the service is set.
pub(crate) trait Setting: 'static {
    fn set(builder: Builder<u64>) -> Builder<u64>;
}

/// The handler runs on a rayon pool of the service's own.
pub(crate) struct AsItComes;

impl Setting for AsItComes {
    fn set(builder: Builder<u64>) -> Builder<u64> {
        builder
    }
}

/// The handler runs on the shard's thread, as the rivals' tasks run on theirs.
pub(crate) struct OnShard;

impl Setting for OnShard {
    fn set(builder: Builder<u64>) -> Builder<u64> {
        builder.dispatch(Dispatch::Inline)
    }
}

/// And there is a shard for each core.
pub(crate) struct OnShardOfEachCore;

impl Setting for OnShardOfEachCore {
    fn set(builder: Builder<u64>) -> Builder<u64> {
        OnShard::set(builder).shards(thread::available_parallelism().map_or(1, usize::from))
    }
}

/// One shard with a tick that can be held against exact deadlines.
pub(crate) struct FineTick;

impl Setting for FineTick {
    fn set(builder: Builder<u64>) -> Builder<u64> {
        OnShard::set(builder).tick(Duration::from_micros(50))
    }
}

/// One shard that has a core to itself as long as the next timer is not further off than the margin.
pub(crate) struct Margin;

impl Setting for Margin {
    fn set(builder: Builder<u64>) -> Builder<u64> {
        OnShard::set(builder).tick(Duration::from_micros(10)).spin(Duration::from_micros(100))
    }
}

pub(crate) struct Service<P, S> {
    service: TimerService<u64>,
    _used: PhantomData<fn() -> (P, S)>,
}

impl<P, S> Subject for Service<P, S>
where
    P: Producer + From<TimerHandle<u64>> + 'static,
    S: Setting,
{
    type Producer = P;

    fn start() -> Self {
        let service = S::set(TimerService::builder().on_expire(handle)).start().expect("a service starts");
        Self { service, _used: PhantomData }
    }

    fn within(&self, work: impl FnOnce(&mut P)) {
        work(&mut P::from(self.service.handle()));
    }

    fn settle(&self) {
        settle(&self.service);
    }

    fn rings(&self) -> Option<u64> {
        Some(self.service.stats().sum(|shard| shard.rings))
    }
}

fn handle(batch: &mut Batch<'_, u64>) {
    batch.for_each(book::fired);
}

/// Waits until the lanes are empty. A shard that sleeps past what is in them is woken by a timer that is due at once, and taken back.
fn settle(service: &TimerService<u64>) {
    let depth = || service.stats().sum(|shard| shard.lane_depth);
    if depth() > 0 {
        for shard in 0..service.shards() {
            let id = service.schedule_on(shard, Duration::ZERO, 0u64).expect("the service runs");
            service.cancel(id);
        }
        while depth() > 0 {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

pub(crate) struct Single(TimerHandle<u64>);

impl From<TimerHandle<u64>> for Single {
    fn from(handle: TimerHandle<u64>) -> Self {
        Self(handle)
    }
}

impl Producer for Single {
    type Handle = TimerId;

    fn arm(&mut self, delay: Duration, payload: u64) -> TimerId {
        self.0.schedule(delay, payload).expect("the service runs")
    }

    fn cancel(&mut self, handle: TimerId) {
        self.0.cancel(handle);
    }

    fn rearm(&mut self, handle: &mut TimerId, delay: Duration) {
        self.0.reschedule(*handle, delay);
    }

    fn every(&mut self, mut due_ns: u64) -> Result<(), String> {
        let run = move || {
            book::fired(due_ns);
            due_ns = book::next_ns(due_ns);
        };
        let started = self.0.every(PERIOD).first(book::delay_until(due_ns)).start(run);
        started.map(|_| ()).map_err(|error| error.to_string())
    }
}

pub(crate) struct Many(Single);

impl From<TimerHandle<u64>> for Many {
    fn from(handle: TimerHandle<u64>) -> Self {
        Self(handle.into())
    }
}

impl Producer for Many {
    type Handle = TimerId;

    fn arm(&mut self, delay: Duration, payload: u64) -> TimerId {
        self.0.arm(delay, payload)
    }

    fn cancel(&mut self, handle: TimerId) {
        self.0.cancel(handle);
    }

    fn rearm(&mut self, handle: &mut TimerId, delay: Duration) {
        self.0.rearm(handle, delay);
    }

    fn arm_many(&mut self, delays: &[Duration], slots: &mut [Option<TimerId>]) {
        for (delays, slots) in delays.chunks(BATCH).zip(slots.chunks_mut(BATCH)) {
            let armed = self.0.0.schedule_many(delays.iter().map(|&delay| (delay, 0u64)));
            for (slot, result) in slots.iter_mut().zip(armed) {
                *slot = Some(result.expect("the service runs"));
            }
        }
    }

    fn cancel_many(&mut self, slots: &mut [Option<TimerId>]) {
        for slots in slots.chunks_mut(BATCH) {
            self.0.0.cancel_many(slots.iter_mut().filter_map(Option::take));
        }
    }

    fn rearm_many(&mut self, slots: &mut [Option<TimerId>], order: &[u32], delay: Duration) {
        for order in order.chunks(BATCH) {
            self.0.0.reschedule_many(order.iter().filter_map(|&slot| slots[slot as usize]), delay);
        }
    }
}
