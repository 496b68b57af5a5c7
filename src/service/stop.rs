//! Stop: how a service ends. The protocol (X) is in README.md of this room.

use super::tally::Event;
use super::{TimerService, Unfired};
use crate::cell::Content;
use crate::dispatch::job::{during, inside_job};
use crate::sync::{Fault, JoinHandle, broken, pause};
use std::sync::PoisonError;
use std::time::Duration;

/// What becomes of the timers that wait when a service is stopped.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::StopPolicy;
/// # let service = wheelwork::TimerService::builder().start()?;
/// service.schedule(Duration::from_millis(5), || println!("still in time"))?;
/// service.schedule(Duration::from_secs(3_600), || unreachable!())?;
/// let unfired = service.stop_with(StopPolicy::Drain(Duration::from_secs(1)));
/// assert_eq!(unfired.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopPolicy {
    /// They are handed back. The default.
    #[default]
    HandBack,
    /// No timer is accepted any more; those that are due within this time fire, the rest is handed back. Periodic timers, and those for a time of day, end at once. It ends as soon as nothing else is due in that time. From
    /// inside a task, which others may have to wait for, it is `HandBack`. On a manual clock another thread has to move the time past the limit: else the call never returns.
    Drain(Duration),
    /// They fire at once, on the calling thread, whatever their deadlines: nothing is handed back. The payloads of a service with a channel are sent to it, full
    /// or not. Timers for a time of day run. Periodic timers, those of calendars too, end without a run. What is dropped since nobody takes it counts in the first shard's [`dropped`](crate::ShardStats::dropped).
    FireAll,
}

impl<T: Send + 'static> TimerService<T> {
    /// Stops the service and hands back every timer that has not fired.
    ///
    /// **From outside a task** it waits for the handlers that run. When it returns no timer fires any more, no handler runs, and the shards' threads have ended (those of the
    /// service's own pool end soon after). Every timer that was accepted has fired, was cancelled, or is in what is returned, once. A timer that is due at the same
    /// time may be handed back. Periodic timers end, and are not handed back; what their closures captured is dropped. A further call waits for the same, and returns nothing.
    ///
    /// **From inside a task** it waits for nobody: those that it would wait for may wait for it. No further timer is claimed, but what was claimed before may still
    /// run. A later call from outside, or the drop of the service there, waits for that. Inside a task is whatever a service calls: handlers, hooks, an executor's
    /// function, the drop of what fires or is ended by `stop`; of this service or another. It goes by threads: a task that has a stop called on another thread
    /// and waits for that (by `rayon::join`, say) waits for itself, for ever.
    ///
    /// What the handler itself has captured is dropped with the last handle or job, soon after. Cost: some nanoseconds for each cell that was ever in use.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().on_expire(|_: &mut wheelwork::Batch<'_, u64>| {}).start()?;
    /// service.schedule(Duration::from_secs(3600), 4711)?;
    /// let unfired = service.stop();
    /// assert_eq!(unfired[0].payload, 4711);
    /// assert!(service.schedule(Duration::from_secs(1), 1).is_err(), "with the payload in the error");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Vec<Unfired<T>> {
        self.stop_with(StopPolicy::HandBack)
    }

    /// Stops the service, and does with its timers what the policy says. Otherwise like [`stop`](Self::stop).
    ///
    /// # Example
    /// See [`StopPolicy`].
    pub fn stop_with(&self, policy: StopPolicy) -> Vec<Unfired<T>> {
        let inner = &*self.handle.inner;
        let core = &inner.cells.core;
        let waits = !inside_job();
        if let StopPolicy::Drain(limit) = policy
            && waits
        {
            self.drain(limit);
        }
        let first = core.stop(policy == StopPolicy::FireAll); // X1, X2
        self.end_threads(waits); // X3
        let mut unfired = Vec::new();
        if first {
            // A job like any other, which has begun before it claims: whoever then finds a timer gone, and waits, waits for it.
            during(&*self.handle.inner.house(0), |_| unfired = self.claim_all(policy));
        } else if waits {
            core.wait_for_claims(); // X4
        }
        if waits {
            inner.running.wait_for_all(); // X5
        }
        #[cfg(feature = "tracing")]
        if first {
            inner.hooks.tell(|events| events.stopped(policy, &inner.stats()));
        }
        unfired
    }

    /// X3. Ends the shards' threads, or waits for the turn that a manual clock takes. Without `waits` it only wakes them.
    fn end_threads(&self, waits: bool) {
        let core = &self.handle.inner.cells.core;
        (0..core.shards()).for_each(|shard| core.bell(shard).ring(0));
        // Naps are not announced; the token ends them too.
        let wake = |threads: &[JoinHandle<()>]| threads.iter().for_each(|thread| thread.thread().unpark());
        if !waits {
            // Somebody else who has them wakes them.
            if let Ok(threads) = self.threads.try_lock() {
                wake(&threads);
            }
            return;
        }
        // Held until they have ended: so every stop waits for them.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        wake(&threads);
        // A shard does not panic: handlers are caught.
        threads.drain(..).for_each(|thread| _ = thread.join());
        drop(threads);
        if let Some(manual) = &self.manual
            && !broken(Fault::StopTurnNotAwaited)
        {
            // Whoever runs a turn holds the lock; who takes it later sees `stopped`.
            drop(manual.shards.lock());
        }
    }

    /// X4. Claims everything that is armed. Fires that, or returns it; ends what is periodic. Runs within a job.
    fn claim_all(&self, policy: StopPolicy) -> Vec<Unfired<T>> {
        let inner = &*self.handle.inner;
        let how = if policy == StopPolicy::FireAll { Event::Fired } else { Event::HandedBack };
        let (mut unfired, mut periodic) = (Vec::new(), Vec::new());
        inner.cells.with_local(|local| {
            inner.cells.claim_all(local, how, |deadline, content| match content {
                Content::Payload(payload) => unfired.push(Unfired { payload, remaining: inner.until(deadline) }),
                Content::Repeat(repeat) => periodic.push(repeat),
            });
        });
        inner.cells.core.note_claims();
        if policy == StopPolicy::FireAll {
            inner.fire_here(unfired.drain(..).map(|unfired| unfired.payload));
            periodic.iter_mut().filter(|repeat| repeat.is_for_time_of_day()).for_each(|repeat| inner.run_here(repeat));
        }
        periodic.into_iter().for_each(|repeat| inner.drop_repeat(Some(repeat)));
        unfired
    }

    /// Refuses new timers, ends the periodic ones, and waits for those that are due within the limit.
    fn drain(&self, limit: Duration) {
        let inner = &*self.handle.inner;
        let (cells, core) = (&inner.cells, &inner.cells.core);
        core.close();
        let end_ns = inner.clock.now_ns().saturating_add(crate::time::nanos(limit));
        // Within a job, so that a stop at the same time waits for what is dropped here.
        during(&*self.handle.inner.house(0), |_| {
            for cell in cells.indices() {
                if let Some(Some(Content::Repeat(repeat))) = cells.with_local(|local| cells.end_periodic_at(local, cell)) {
                    inner.drop_repeat(Some(repeat));
                }
            }
        });
        // No cell is armed any more but by a schedule that takes it back: one look at each is enough.
        for cell in cells.indices() {
            let waits = || {
                let (_, place) = cells.with_local(|local| cells.look_at(local, cell))?;
                Some(inner.tick.start(place.deadline()))
            };
            while waits().is_some_and(|at_ns| at_ns <= end_ns) && !core.is_stopped() {
                // Some time for the workers after the last deadline.
                if inner.clock.now_ns() > end_ns.saturating_add(inner.tick.nanos()) {
                    return;
                }
                pause();
            }
        }
    }
}
