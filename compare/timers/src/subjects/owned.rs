//! Timers that belong to their thread: each thread has some of its own, nobody waits for a lock,
//! and no other thread cancels. Each call takes a timer in or out at once. Those that take a time
//! in place of a delay get it by the clock of the thread's loop, which is read once a turn.

use super::{Producer, Subject, runtime};
use crate::ledger::{self, Awaited};
use crate::name::Name;
use crate::subjects::polled::{self, Futures, TokioSleeps};
use std::marker::PhantomData;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{EnterGuard, Runtime};
use wheelwork::wheel::{Handle, Wheel};

/// What a thread begins with.
pub(crate) trait Owner: Producer + 'static {
    fn begin() -> Self;
}

pub(crate) struct Owned<O>(PhantomData<fn() -> O>);

impl<O: Owner> Subject for Owned<O> {
    const SHARED: bool = false;

    type Producer = O;

    fn start(_: Name) -> Self {
        Self(PhantomData)
    }

    fn within(&self, work: impl FnOnce(&mut O)) {
        work(&mut O::begin());
    }
}

/// A runtime of tokio's, of the calling thread.
pub(super) fn runtime_of_thread() -> (&'static Runtime, EnterGuard<'static>) {
    let runtime: &'static Runtime = Box::leak(Box::new(runtime::new()));
    (runtime, runtime.enter())
}

/// tokio's usual timer, in a runtime of the thread.
pub(crate) struct TokioOwner {
    runtime: &'static Runtime,
    _entered: EnterGuard<'static>,
    awaited: Awaited,
    time: LoopTime,
}

impl Owner for TokioOwner {
    fn begin() -> Self {
        let (runtime, _entered) = runtime_of_thread();
        Self {
            runtime,
            _entered,
            awaited: Awaited::default(),
            time: LoopTime::begin(),
        }
    }
}

impl Producer for TokioOwner {
    type Handle = <TokioSleeps as Futures>::Timer;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle {
        self.awaited.armed(delay, due_ns);
        self.time.called();
        polled::sleep_until(self.time.due(delay, due_ns), due_ns)
    }

    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        self.time.called();
        handle.as_mut().reset(self.time.due(delay, 0).into());
    }

    fn serve(&mut self) {
        self.runtime.block_on(async {
            while let Some(time) = self.awaited.left() {
                tokio::time::sleep(time).await;
            }
        });
    }

    /// The next phase begins with a reading.
    fn settle(&mut self) {
        self.time.read();
    }
}

/// Calls between two turns of a thread's loop.
const TURN: u32 = 256;

/// The time in a thread's loop, which reads the clock once a turn.
pub(super) struct LoopTime {
    now: Instant,
    now_ns: u64,
    calls: u32,
}

impl LoopTime {
    pub(super) fn begin() -> Self {
        let now = Instant::now();
        Self {
            now,
            now_ns: ledger::ns_at(now),
            calls: 0,
        }
    }

    /// Counts a call. Returns whether a turn begins.
    pub(super) fn called(&mut self) -> bool {
        self.calls += 1;
        let is_turn = self.calls == TURN;
        if is_turn {
            self.read();
        }
        is_turn
    }

    pub(super) fn read(&mut self) {
        *self = Self::begin();
    }

    /// When a timer is due that is armed now. The clock is read for each timer of which somebody
    /// asks how late it is.
    pub(super) fn due(&mut self, delay: Duration, payload: u64) -> Instant {
        if payload > 0 {
            self.now = Instant::now();
        }
        self.now + delay
    }

    /// The same in nanoseconds.
    pub(super) fn due_ns(&mut self, delay: Duration, payload: u64) -> u64 {
        if payload > 0 {
            self.now_ns = ledger::now_ns();
        }
        self.now_ns + delay.as_nanos() as u64
    }
}

/// A tick of wheelwork's wheel. It is tokio's, too.
const TICK_NS: u64 = 1_000_000;

/// wheelwork's wheel.
pub(crate) struct WheelOwner {
    wheel: Wheel<u64>,
    time: LoopTime,
}

impl WheelOwner {
    /// The first tick at which a timer is not early, by the loop's time.
    fn tick(&mut self, delay: Duration, payload: u64) -> u64 {
        self.time.due_ns(delay, payload).div_ceil(TICK_NS)
    }

    /// Counts a call. What is due fires at a turn.
    fn called(&mut self) {
        if self.time.called() {
            self.fire();
        }
    }

    fn fire(&mut self) {
        let now = self.time.now_ns / TICK_NS;
        let fire = |_, due_ns| ledger::fired(due_ns);
        self.wheel.advance(now, usize::MAX, fire);
    }
}

impl Owner for WheelOwner {
    fn begin() -> Self {
        let time = LoopTime::begin();
        let wheel = Wheel::new(time.now_ns / TICK_NS);
        Self { wheel, time }
    }
}

impl Producer for WheelOwner {
    type Handle = Handle;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Handle {
        self.called();
        let tick = self.tick(delay, due_ns);
        self.wheel.insert(tick, due_ns)
    }

    fn cancel(&mut self, handle: Handle) {
        self.called();
        self.wheel.cancel(handle);
    }

    fn rearm(&mut self, handle: &mut Handle, delay: Duration) {
        self.called();
        let tick = self.tick(delay, 0);
        self.wheel.reschedule(*handle, tick);
    }

    fn serve(&mut self) {
        while let Some(next) = self.wheel.next_deadline() {
            thread::sleep(ledger::delay_until(next * TICK_NS));
            self.time.read();
            self.fire();
        }
    }

    /// The next phase begins with a reading.
    fn settle(&mut self) {
        self.time.calls = TURN - 1;
    }
}
