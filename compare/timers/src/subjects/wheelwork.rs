//! wheelwork with a `u64` for each timer: one call for each, batches of calls, and settings in
//! which the handler runs on the shard's thread. And wheelwork with a closure for each.

use super::{Producer, Subject};
use crate::ledger::{self, PERIOD};
use crate::name::Name;
use std::thread;
use std::time::Duration;
use wheelwork::{Builder, Dispatch, ServiceHandle, Task, TimerId, TimerService};
use wheelwork_kit::system;

/// Timers of one call of the batched subject.
const BATCH: usize = 1_000;

/// How often a lane with messages that the shard has not seen is looked at again.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// How often a lane is looked at in which messages wait. A look takes some microseconds.
const LOOK_LATER: Duration = Duration::from_millis(5);

/// What a timer has: a number for a handler, or what it runs.
pub(crate) trait Payload: Sized + Send + 'static {
    fn builder() -> Builder<Self>;

    fn new(payload: u64) -> Self;
}

impl Payload for u64 {
    fn builder() -> Builder<Self> {
        TimerService::builder().on_expire(|batch| batch.for_each(ledger::fired))
    }

    fn new(payload: u64) -> Self {
        payload
    }
}

impl Payload for Task {
    fn builder() -> Builder<Self> {
        TimerService::builder()
    }

    fn new(payload: u64) -> Self {
        Self::new(move || ledger::fired(payload))
    }
}

pub(crate) struct Service<T: Payload> {
    service: TimerService<T>,
    by_many: bool,
}

impl<T: Payload> Service<T> {
    /// What `f` says of the messages in all lanes, and of how many of these wait there.
    fn in_lanes(&self, f: impl Fn(u64, u64) -> bool) -> bool {
        let stats = self.service.stats();
        let waiting = stats.sum(|shard| {
            let figure = shard.machinery.figure("lane_waiting");
            figure.expect("a figure of each shard")
        });
        f(stats.sum(|shard| shard.machinery.lane_depth()), waiting)
    }
}

impl<T: Payload> Subject for Service<T> {
    type Producer = Handle<T>;

    fn start(name: Name) -> Self {
        let pooled = T::builder();
        let inline = |builder: Builder<T>| builder.dispatch(Dispatch::Inline);
        let micros = Duration::from_micros;
        let builder = match name {
            // The handler runs on the shard's thread, as the rivals' tasks run on theirs.
            Name::WheelworkInline => inline(pooled),
            Name::WheelworkCores => inline(pooled).shards(system::cores()),
            // A tick that can be held against exact deadlines.
            Name::WheelworkFine => inline(pooled).tick(micros(50)),
            // The shard has a core to itself as long as the next timer is not further off than the
            // margin.
            Name::WheelworkSpin => inline(pooled).tick(micros(10)).spin(micros(100)),
            _ => pooled,
        };
        Self {
            service: builder.start().expect("a service starts"),
            by_many: name == Name::WheelworkBatch,
        }
    }

    fn within(&self, work: impl FnOnce(&mut Handle<T>)) {
        work(&mut Handle {
            service: self.service.handle(),
            by_many: self.by_many,
        });
    }

    /// Waits until the shards have looked at all messages. A shard that sleeps past them is woken
    /// by a timer that is due at once, and taken back.
    fn settle(&self) {
        let is_unseen = || self.in_lanes(|depth, waiting| depth > waiting);
        if is_unseen() {
            for shard in 0..self.service.shards() {
                let armed = self.service.schedule_on(shard, Duration::ZERO, T::new(0));
                self.service.cancel(armed.expect("the service runs"));
            }
            while is_unseen() {
                thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Waits until the lanes are empty: what waits there is filed when no message comes for some
    /// time.
    fn work_off(&self) {
        while self.in_lanes(|depth, _| depth > 0) {
            thread::sleep(LOOK_LATER);
        }
    }

    fn rings(&self) -> Option<u64> {
        Some(self.service.stats().sum(|shard| shard.machinery.rings()))
    }
}

/// The rings of the service behind [`wheelwork::future`], which is started if need be.
pub(super) fn rings_of_futures() -> Option<u64> {
    let timers = wheelwork::future::Timers::global().expect("a service starts");
    Some(timers.handle().stats().sum(|shard| shard.machinery.rings()))
}

pub(crate) struct Handle<T: Payload> {
    service: ServiceHandle<T>,
    by_many: bool,
}

impl<T: Payload> Producer for Handle<T> {
    type Handle = TimerId;

    fn arm(&mut self, delay: Duration, payload: u64) -> TimerId {
        self.service
            .schedule(delay, T::new(payload))
            .expect("the service runs")
    }

    fn cancel(&mut self, handle: TimerId) {
        self.service.cancel(handle);
    }

    fn rearm(&mut self, handle: &mut TimerId, delay: Duration) {
        self.service.reschedule(*handle, delay);
    }

    fn arm_many(&mut self, delays: &[Duration], slots: &mut [Option<TimerId>]) {
        if !self.by_many {
            for (slot, &delay) in slots.iter_mut().zip(delays) {
                *slot = Some(self.arm(delay, 0));
            }
            return;
        }
        for (delays, slots) in delays.chunks(BATCH).zip(slots.chunks_mut(BATCH)) {
            let timers = delays.iter().map(|&delay| (delay, T::new(0)));
            let armed = self.service.schedule_many(timers);
            for (slot, result) in slots.iter_mut().zip(armed) {
                *slot = Some(result.expect("the service runs"));
            }
        }
    }

    fn cancel_many(&mut self, slots: &mut [Option<TimerId>]) {
        for slots in slots.chunks_mut(BATCH) {
            let handles = slots.iter_mut().filter_map(Option::take);
            if self.by_many {
                self.service.cancel_many(handles);
            } else {
                handles.for_each(|handle| self.cancel(handle));
            }
        }
    }

    fn rearm_many(&mut self, slots: &mut [Option<TimerId>], order: &[u32], delay: Duration) {
        for order in order.chunks(BATCH) {
            let handles = order.iter().filter_map(|&slot| slots[slot as usize]);
            if self.by_many {
                self.service.reschedule_many(handles, delay);
            } else {
                handles.for_each(|mut handle| self.rearm(&mut handle, delay));
            }
        }
    }

    fn every(&mut self, mut due_ns: u64) -> Result<(), String> {
        let run = move || due_ns = ledger::fired_again(due_ns);
        let first = ledger::delay_until(due_ns);
        let started = self.service.every(PERIOD).first(first).start(run);
        started.map(|_| ()).map_err(|error| error.to_string())
    }
}
