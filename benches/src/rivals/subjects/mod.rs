//! The subjects: each timer behind the same two traits, in the configuration that serves it best.

mod async_io;
mod btree;
mod delay_queue;
mod futures;
mod heap;
mod hhwt;
mod keeper;
mod mutex_delay_queue;
mod pingora;
mod tokio;
mod wakers;
mod wheelwork;

use crate::args::Group;
use crate::job::Job;
use crate::line::{Figures, Line};
use crate::workload::Workload;
use clap::ValueEnum;
use fastrand::Rng;
use std::time::Duration;

/// A timer service. It lives as long as the process.
pub(crate) trait Subject: Sync + Sized + 'static {
    /// Whether each timer has a task, which waits for it again and again.
    const TASKS: bool = false;

    type Producer: Producer;

    fn start() -> Self;

    /// Runs `work` with what a thread needs to arm timers.
    fn within(&self, work: impl FnOnce(&mut Self::Producer));

    /// Waits until everything that was handed over has been taken in, and what was cancelled is free again. For those that do it all inside the calls:
    /// nothing.
    fn settle(&self) {}

    /// How often a thread that armed or cancelled had to wake the service's, where that is counted.
    fn rings(&self) -> Option<u64> {
        None
    }
}

/// A thread's way to a service.
pub(crate) trait Producer {
    type Handle: Send;

    /// Arms a timer that tells the book when it fires. `due_ns` is the time it is meant for, or 0 where nobody asks how late it is.
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
        slots.iter_mut().filter_map(Option::take).for_each(|handle| self.cancel(handle));
    }

    /// Moves the timers in these slots, one after the other, to now + `delay`.
    fn rearm_many(&mut self, slots: &mut [Option<Self::Handle>], order: &[u32], delay: Duration) {
        for &slot in order {
            self.rearm(slots[slot as usize].as_mut().expect("all slots are armed"), delay);
        }
    }

    /// Starts a timer that is due at `due_ns`, and each [`PERIOD`](crate::book::PERIOD) after that.
    /// It tells the book of each run.
    fn every(&mut self, _due_ns: u64) -> Result<(), String> {
        Err("it has no timers that come again".to_string())
    }

    /// Starts a task that waits for a [random time](crate::paced::delay), tells the book, and begins
    /// anew.
    fn wander(&mut self, _rng: Rng) -> Result<(), String> {
        Err("it has no tasks".to_string())
    }

    /// Fires what is armed until nothing is left, for a service without a thread of its own.
    fn serve(&mut self) {}
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Name {
    /// One call for each timer, handler on a rayon pool
    Wheelwork,
    /// By the calls for many timers
    WheelworkBatch,
    /// Its handler runs on the shard's thread
    WheelworkInline,
    /// On that of a shard for each core
    WheelworkCores,
    /// On the one shard's, with a tick of 50 us
    WheelworkFine,
    /// With a tick of 10 us, and a spin margin of 100 us
    WheelworkSpin,
    /// Its futures, under tokio
    WheelworkFuture,
    /// Its `Sleep`
    Tokio,
    /// Its futures, as those of wheelwork
    TokioFuture,
    /// tokio-util's, with one owner
    Delayqueue,
    /// tokio-util's in a mutex, with a thread that polls it
    MutexDelayqueue,
    /// hierarchical_hash_wheel_timer's thread timer
    Hhwt,
    /// pingora-timeout
    Pingora,
    /// Its `Timer`
    AsyncIo,
    /// A binary heap in a mutex, a flag for what is cancelled
    Heap,
    /// A B-tree in a mutex
    Btree,
}

impl Name {
    pub(crate) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    pub(crate) fn is_rival(self) -> bool {
        use Name::{Wheelwork, WheelworkBatch, WheelworkCores, WheelworkFine, WheelworkFuture, WheelworkInline, WheelworkSpin};
        !matches!(self, Wheelwork | WheelworkBatch | WheelworkInline | WheelworkCores | WheelworkFine | WheelworkSpin | WheelworkFuture)
    }

    /// Why it is not measured in a workload, if it is not.
    fn refuses(self, workload: Workload, threads: usize) -> Option<&'static str> {
        use Workload::{W1, W1Cold, W4, W5, W5b, W8, W9Periodic};
        let is_paced = workload.rates().is_some();
        match self {
            Self::WheelworkBatch if matches!(workload, W1 | W1Cold | W4 | W8) => None,
            Self::WheelworkBatch => Some("its calls take many timers at a time"),
            Self::WheelworkInline | Self::WheelworkFuture | Self::TokioFuture if is_paced => None,
            Self::WheelworkFuture | Self::TokioFuture => Some("its tasks matter where something fires"),
            Self::WheelworkCores if is_paced => Some("one shard is enough"),
            Self::WheelworkInline | Self::WheelworkCores if matches!(workload, W5 | W5b) => None,
            Self::WheelworkInline | Self::WheelworkCores => Some("as wheelwork: nothing fires"),
            Self::WheelworkFine | Self::WheelworkSpin if workload == W5 => None,
            Self::WheelworkFine | Self::WheelworkSpin => Some("its tick matters for lateness alone"),
            Self::Delayqueue if is_paced => Some("its owner sleeps, and polls nothing"),
            Self::Tokio if workload == W9Periodic => Some("its interval needs a task: tokio-future"),
            Self::Delayqueue if threads > 1 => Some("it has one owner"),
            _ => None,
        }
    }

    /// What is known before anything was measured.
    pub(crate) fn blank(self, group: Group) -> Line {
        Line {
            subject: self.text(),
            workload: group.workload.text(),
            threads: group.threads,
            timers: group.timers,
            skipped: self.refuses(group.workload, group.threads).map(ToString::to_string),
            remark: self.remark(group.workload).map(ToString::to_string),
            ..Line::default()
        }
    }

    /// What there is to say of how it does a workload.
    fn remark(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::Heap | Self::Hhwt | Self::Pingora, Workload::W8) => Some("no re-arm: by cancel and arm"),
            (Self::Heap, Workload::W4 | Workload::W10 | Workload::W10Fast | Workload::W10Slow) => Some("cancel frees nothing"),
            (Self::Pingora | Self::AsyncIo, Workload::W9Periodic) => Some("by sleeps, in tasks of tokio's"),
            (Self::Pingora, _) if workload.rates().is_some() => Some("on a grid of 10 ms"),
            (Self::Pingora, Workload::W5 | Workload::W5b) => Some("on a grid of 10 ms"),
            _ => None,
        }
    }

    pub(crate) fn measure(self, job: &Job) -> Result<Figures, String> {
        let is_server = matches!(job.workload, Workload::W10 | Workload::W10Fast | Workload::W10Slow);
        match self {
            Self::Wheelwork => job.run::<wheelwork::Pooled>(),
            Self::WheelworkBatch => job.run::<wheelwork::Batched>(),
            Self::WheelworkInline => job.run::<wheelwork::Inline>(),
            Self::WheelworkCores => job.run::<wheelwork::Cores>(),
            Self::WheelworkFine => job.run::<wheelwork::Fine>(),
            Self::WheelworkSpin => job.run::<wheelwork::Spin>(),
            Self::WheelworkFuture if is_server => job.run::<futures::Polled<futures::Ours>>(),
            Self::WheelworkFuture => job.run::<futures::Tasks<futures::Ours>>(),
            Self::TokioFuture if is_server => job.run::<futures::Polled<futures::Tokios>>(),
            Self::TokioFuture => job.run::<futures::Tasks<futures::Tokios>>(),
            Self::Pingora if job.workload == Workload::W9Periodic => job.run::<futures::Tasks<futures::Pingoras>>(),
            Self::AsyncIo if job.workload == Workload::W9Periodic => job.run::<futures::Tasks<futures::AsyncIos>>(),
            Self::Tokio => job.run::<tokio::Tokio>(),
            Self::Delayqueue => job.run::<delay_queue::Owned>(),
            Self::MutexDelayqueue => job.run::<mutex_delay_queue::Locked>(),
            Self::Hhwt => job.run::<hhwt::Hhwt>(),
            Self::Pingora => job.run::<pingora::Pingora>(),
            Self::AsyncIo => job.run::<async_io::AsyncIo>(),
            Self::Heap => job.run::<heap::Heap>(),
            Self::Btree => job.run::<btree::Btree>(),
        }
    }
}
