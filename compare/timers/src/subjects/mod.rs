//! The subjects: each timer behind the same two traits, in the configuration that serves it best.

#[cfg(tokio_unstable)]
pub(crate) mod alt;
pub(crate) mod btree;
pub(crate) mod delay_queue;
pub(crate) mod heap;
pub(crate) mod hhwt;
pub(crate) mod keeper;
pub(crate) mod library;
pub(crate) mod owned;
pub(crate) mod polled;
mod runtime;
pub(crate) mod tasks;
mod wakers;
pub(crate) mod wheelwork;

use crate::name::Name;
use fastrand::Rng;
use std::time::Duration;

/// A timer service. It lives as long as the process.
pub(crate) trait Subject: Sync + Sized + 'static {
    /// Whether each timer has a task, which waits for it again and again.
    const TASKS: bool = false;

    /// Whether its producers share their timers, and something fires them meanwhile.
    const SHARED: bool = true;

    type Producer: Producer + 'static;

    fn start(name: Name) -> Self;

    /// Runs `work` with what a thread needs to arm timers.
    fn within(&self, work: impl FnOnce(&mut Self::Producer) + Send);

    /// Waits until everything that was handed over has been taken in or put off on purpose, and
    /// what was cancelled is free again. For those that do it all inside the calls: nothing.
    fn settle(&self) {}

    /// Waits until nothing is put off. For those that put nothing off: nothing.
    fn work_off(&self) {}

    /// How often a thread that armed or cancelled had to wake the service's, where that is counted.
    fn rings(&self) -> Option<u64> {
        None
    }
}

/// A thread's way to a service.
pub(crate) trait Producer {
    type Handle: Send;

    /// Arms a timer that tells the ledger when it fires. `due_ns` is the time it is meant for, or 0
    /// where nobody asks how late it is.
    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle;

    fn cancel(&mut self, handle: Self::Handle);

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration);

    /// Arms a timer for each delay into the slots.
    fn arm_many(&mut self, delays: &[Duration], slots: &mut [Option<Self::Handle>]) {
        for (slot, &delay) in slots.iter_mut().zip(delays) {
            *slot = Some(self.arm(delay, 0));
        }
    }

    /// Cancels the timers in the slots.
    fn cancel_many(&mut self, slots: &mut [Option<Self::Handle>]) {
        let handles = slots.iter_mut().filter_map(Option::take);
        handles.for_each(|handle| self.cancel(handle));
    }

    /// Moves the timers in these slots, one after the other, to now + `delay`.
    fn rearm_many(&mut self, slots: &mut [Option<Self::Handle>], order: &[u32], delay: Duration) {
        for &slot in order {
            let handle = slots[slot as usize].as_mut();
            self.rearm(handle.expect("all slots are armed"), delay);
        }
    }

    /// Starts a timer that is due at `due_ns`, and each [`PERIOD`](crate::ledger::PERIOD) after
    /// that. It tells the ledger of each run.
    fn every(&mut self, _due_ns: u64) -> Result<(), String> {
        Err("it has no timers that come again".to_string())
    }

    /// Starts a task that waits for a random time, tells the ledger, and begins anew.
    fn wander(&mut self, _rng: Rng, _delay: fn(&mut Rng) -> Duration) -> Result<(), String> {
        Err("it has no tasks".to_string())
    }

    /// Fires what is armed until nothing is left, for a service without a thread of its own.
    fn serve(&mut self) {}

    /// Takes in what the thread has handed over to itself, for a service whose timers are those of
    /// their thread. It is called after each phase, and its time counts.
    fn settle(&mut self) {}
}
