//! Stall: tells a hook of a turn of the writer that does not end, because the store hangs.
//!
//! A service of its own has a timer for as long as a turn lasts. Its only thread tells the hook:
//! the threads of handlers may all wait for the writer. While the writer waits, it has no timer,
//! and costs nothing.

use crate::handler::caught::caught;
use crate::handler::error::OpenError;
use crate::queue::link::DurableShared;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::Dispatch;
use wheelwork::ManualClock;
use wheelwork::Pinning;
use wheelwork::TimerId;
use wheelwork::TimerService;

/// Watches the writer's turns.
pub(crate) struct StallWatch {
    /// What it hands out is when a turn began.
    service: TimerService<Duration>,
    threshold: Duration,
}

impl StallWatch {
    /// `None`: nobody wants to be told.
    pub(crate) fn start(
        shared: &Arc<DurableShared>,
        clock: Option<ManualClock>,
    ) -> Result<Option<Self>, OpenError> {
        let Some((threshold, _)) = shared.hooks.store_stalled else {
            return Ok(None);
        };
        let told = shared.clone();
        let mut builder = TimerService::builder()
            .shards(1)
            .name("stalls")
            .pinning(Pinning::Off)
            .dispatch(Dispatch::Inline)
            .on_expire(move |batch| {
                for began in batch {
                    tell(&told, began);
                }
            });
        if let Some(clock) = clock {
            builder = builder.clock(clock);
        }
        let service = builder.start().map_err(OpenError::Service)?;
        Ok(Some(Self { service, threshold }))
    }

    /// A turn has begun.
    pub(super) fn begin(&self, began: Duration) -> Option<TimerId> {
        self.service.schedule(self.threshold, began).ok()
    }

    /// It has ended.
    pub(super) fn end(&self, timer: TimerId) {
        self.service.cancel(timer);
    }
}

/// Tells the hook of a turn that has lasted for the threshold.
fn tell(shared: &DurableShared, began: Duration) {
    if let Some((_, hook)) = &shared.hooks.store_stalled {
        let lasted = shared.elapsed().saturating_sub(began);
        caught(|| hook(lasted));
    }
}
