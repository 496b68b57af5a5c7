//! Batch calls: many timers in one call. One clock reading, one doorbell a shard, and cells that are asked for ahead.

use super::TimerHandle;
use super::ending::Drops;
use super::id::TimerId;
use super::task::IntoPayload;
use crate::cell::{Payload, Place};
use crate::error::ScheduleError;
use crate::time;
use std::time::Duration;

/// So many are taken from the caller's iterator before the thread's local is borrowed: no code of the caller's runs meanwhile.
const CHUNK: usize = 64;

/// Gives `f` what an iterator has, in chunks.
fn in_chunks<I>(items: impl IntoIterator<Item = I>, mut f: impl FnMut(&mut Vec<I>)) {
    let mut items = items.into_iter();
    let mut chunk = Vec::with_capacity(items.size_hint().0.clamp(1, CHUNK));
    loop {
        chunk.extend(items.by_ref().take(CHUNK));
        if chunk.is_empty() {
            return;
        }
        f(&mut chunk);
        chunk.clear();
    }
}

impl<T: Send + 'static> TimerHandle<T> {
    /// Arms many timers, as [`schedule`](Self::schedule) does one; there is a result for each, in order. All delays count from the same clock reading, and the
    /// shard is woken once, if at all.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().on_expire(|_: &mut wheelwork::Batch<'_, u64>| {}).start()?;
    /// let armed = service.schedule_many((0..1_000).map(|session| (Duration::from_secs(30), session)));
    /// let ids: Vec<_> = armed.into_iter().collect::<Result<_, _>>()?;
    /// assert_eq!(service.cancel_many(ids), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_many<P: IntoPayload<T>>(
        &self,
        timers: impl IntoIterator<Item = (Duration, P)>,
    ) -> Vec<Result<TimerId, ScheduleError<T>>> {
        let inner = &*self.inner;
        let timers = timers.into_iter();
        let mut armed = Vec::with_capacity(timers.size_hint().0);
        let mut now_ns = None;
        in_chunks(timers.map(|(delay, payload)| (time::nanos(delay).max(1), payload.into_payload())), |chunk| {
            inner.cells.with_local(|local| {
                let now_ns = *now_ns.get_or_insert_with(|| inner.clock.arming_now_ns(&mut local.anchor));
                let home = local.home();
                let places = chunk.drain(..).map(|(delay_ns, payload)| {
                    let place = Place::new(inner.tick.deadline(now_ns + delay_ns), home);
                    (place, Payload(payload))
                });
                inner.cells.schedule_many(local, home, places, |result| armed.push(result));
            });
        });
        armed
    }

    /// Cancels many timers, as [`cancel`](Self::cancel) does one, and returns how many of them were cancelled. Cheaper by far than one by one where the timers are
    /// some of a million: the processor looks for many cells at a time. If drops of payloads panic, the first panic goes on when all are cancelled.
    ///
    /// # Example
    /// See [`schedule_many`](Self::schedule_many).
    pub fn cancel_many(&self, ids: impl IntoIterator<Item = TimerId>) -> usize {
        let inner = &*self.inner;
        let (mut cancelled, mut claimed, mut drops) = (0, Vec::with_capacity(CHUNK), Drops::default());
        in_chunks(ids, |chunk| {
            inner.cells.with_local(|local| {
                cancelled += inner.cells.cancel_many(local, chunk, |content| claimed.push(content));
            });
            // The payloads' own code runs when the local is free again.
            drops.add(claimed.drain(..));
        });
        drops.finish();
        cancelled
    }

    /// Moves many timers to now + `delay`, as [`reschedule`](Self::reschedule) does one, and returns how many of them were moved.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let ids: Vec<_> = (0..3).map(|_| service.schedule(Duration::from_secs(30), || ())).collect::<Result<_, _>>()?;
    /// assert_eq!(service.reschedule_many(ids, Duration::from_secs(30)), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule_many(&self, ids: impl IntoIterator<Item = TimerId>, delay: Duration) -> usize {
        let inner = &*self.inner;
        let delay_ns = time::nanos(delay).max(1);
        let (mut moved, mut deadline) = (0, None);
        in_chunks(ids, |chunk| {
            inner.cells.with_local(|local| {
                let now = || inner.tick.deadline(inner.clock.arming_now_ns(&mut local.anchor) + delay_ns);
                let deadline = *deadline.get_or_insert_with(now);
                moved += inner.cells.rearm_many(local, chunk, deadline);
            });
        });
        moved
    }
}
