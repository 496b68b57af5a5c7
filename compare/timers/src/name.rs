//! The subjects by name: what there is to know of each before it is measured.

use crate::workload::Workload;
use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Name {
    /// One call for each timer, handler on a rayon pool
    Wheelwork,
    /// With a closure for each timer
    WheelworkClosure,
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
    /// Its wheel, one in each thread
    WheelworkWheel,
    /// Its futures, under tokio
    WheelworkFuture,
    /// Its `Sleep`
    Tokio,
    /// Its futures, as those of wheelwork
    TokioFuture,
    /// Its usual timer, in a runtime of each thread
    TokioEach,
    /// tokio-util's, one in each thread
    Delayqueue,
    /// One in a mutex, with a thread that polls it
    MutexDelayqueue,
    /// hierarchical_hash_wheel_timer's thread timer
    Hhwt,
    /// pingora-timeout
    Pingora,
    /// Its `Timer`
    AsyncIo,
    /// A binary heap in a mutex, a flag for what is cancelled
    Heap,
    /// One in each thread
    HeapEach,
    /// A B-tree in a mutex
    Btree,
    /// Of the library that the environment names, under a name of another program
    #[value(hide = true)]
    Library,
    /// tokio's alternative timer, each producer with a runtime of its own
    #[cfg(tokio_unstable)]
    TokioAlt,
}

impl Name {
    /// Whether each thread has timers of its own, and drives them itself.
    fn is_owned(self) -> bool {
        matches!(
            self,
            Self::WheelworkWheel | Self::TokioEach | Self::Delayqueue | Self::HeapEach
        )
    }

    /// Why it is not measured in a workload, if it is not.
    pub(crate) fn refuses(self, workload: Workload) -> Option<&'static str> {
        use Workload::{W1, W1Cold, W4, W5, W5b, W8};
        let is_paced = workload.rates().is_some();
        match self {
            Self::WheelworkBatch if matches!(workload, W1 | W1Cold | W4 | W8) => None,
            Self::WheelworkBatch => Some("its calls take many timers at a time"),
            Self::WheelworkInline | Self::WheelworkFuture | Self::TokioFuture if is_paced => None,
            Self::WheelworkClosure if workload.is_periodic() => Some("as wheelwork"),
            Self::WheelworkInline if workload.has_windows() => None,
            Self::WheelworkFuture | Self::TokioFuture => {
                Some("its tasks matter where something fires")
            }
            Self::WheelworkCores if is_paced => Some("one shard is enough"),
            Self::WheelworkInline | Self::WheelworkCores if matches!(workload, W5 | W5b) => None,
            Self::WheelworkInline | Self::WheelworkCores => Some("as wheelwork: nothing fires"),
            Self::WheelworkFine | Self::WheelworkSpin if workload == W5 => None,
            Self::WheelworkFine | Self::WheelworkSpin => {
                Some("its tick matters for lateness alone")
            }
            _ if self.is_owned() && workload == Workload::W11Other => {
                Some("each thread owns its timers")
            }
            _ if self.is_owned() && (is_paced || workload == Workload::W7) => {
                Some("its owner sleeps, and polls nothing")
            }
            Self::Tokio if workload.is_periodic() => {
                Some("its interval needs a task: tokio-future")
            }
            #[cfg(tokio_unstable)]
            Self::TokioAlt if workload == Workload::W11Other => Some("each thread owns its timers"),
            _ => None,
        }
    }

    /// What there is to say of how it does a workload.
    pub(crate) fn remark(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::Heap | Self::HeapEach | Self::Hhwt | Self::Pingora, Workload::W8) => {
                Some("no re-arm: by cancel and arm")
            }
            (Self::Heap | Self::HeapEach, _)
                if workload == Workload::W4 || workload.is_server() || workload.has_windows() =>
            {
                Some("cancel frees nothing")
            }
            (Self::Pingora | Self::AsyncIo, _) if workload.is_periodic() => {
                Some("by sleeps, in tasks of tokio's")
            }
            (Self::Pingora, Workload::W5 | Workload::W5b) => Some("on a grid of 10 ms"),
            _ if self.is_owned() && workload.has_windows() => {
                Some("its owner polls nothing: no probe")
            }
            (Self::Pingora, _) if workload.rates().is_some() || workload.has_windows() => {
                Some("on a grid of 10 ms")
            }
            _ => None,
        }
    }
}
