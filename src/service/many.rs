//! Many: calls for many timers at once. A call reads the clock once, rings a doorbell at most once
//! for each 64 timers, and prefetches cells.

use super::handle::ServiceHandle;
use crate::cell::{Content, DueAt, Payload};
use crate::engine::drops::Drops;
use crate::engine::id::TimerId;
use crate::engine::task::IntoPayload;
use crate::error::ScheduleError;
use crate::time;
use crate::time::Nanos;
use std::time::Duration;

/// Items that are taken from the caller's iterator at once, before the thread's local is borrowed:
/// the iterator's code does not run during the borrow.
const CHUNK: usize = 64;

/// Gives `f` the items of an iterator, in chunks.
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

/// The same for ids. (A vector would look at its capacity for each.)
fn ids_in_chunks(ids: impl IntoIterator<Item = TimerId>, mut f: impl FnMut(&[TimerId])) {
    let mut ids = ids.into_iter();
    let mut chunk = [TimerId::NOBODY; CHUNK];
    loop {
        let mut found = 0;
        for place in &mut chunk {
            let Some(id) = ids.next() else {
                break;
            };
            *place = id;
            found += 1;
        }
        if found == 0 {
            return;
        }
        f(&chunk[..found]);
    }
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// Arms many timers, as [`schedule`](Self::schedule) arms one. Returns a result for each, in
    /// order. All delays count from one reading of the clock. The shard is woken at most
    /// once for each 64 timers, mostly once in all. If the iterator panics, the timers that were
    /// armed before stay armed, and their ids are lost.
    ///
    /// # Errors
    /// Each result is that of a [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let service = TimerService::builder()
    ///     .on_expire(|sessions: &mut Batch<'_, u64>| sessions.for_each(drop))
    ///     .start()?;
    /// let timers = (0..1_000).map(|session| (Duration::from_secs(30), session));
    /// let ids: Vec<_> = service.schedule_many(timers).into_iter().collect::<Result<_, _>>()?;
    /// assert_eq!(service.cancel_many(ids), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_many<P: IntoPayload<T>>(
        &self,
        timers: impl IntoIterator<Item = (Duration, P)>,
    ) -> Vec<Result<TimerId, ScheduleError<T>>> {
        let engine = &*self.engine;
        let timers = timers.into_iter();
        let mut armed = Vec::with_capacity(timers.size_hint().0);
        let mut now_ns = None;
        in_chunks(
            timers.map(|(delay, payload)| (time::nanos(delay).max(1), payload.into_payload())),
            |chunk| {
                engine.cells.with_local(|local| {
                    let now_ns = *now_ns
                        .get_or_insert_with(|| engine.clock.arming_now_ns(&mut local.anchor));
                    let (home, tick) = (local.home(), engine.tick);
                    let places = chunk.drain(..).map(move |(delay_ns, payload)| {
                        let due_at = DueAt::new(tick.deadline(Nanos(now_ns + delay_ns)).0, home);
                        (due_at, Payload(payload))
                    });
                    engine.cells.admit_many(local, home, places, &mut armed);
                });
            },
        );
        armed
    }

    /// Cancels many timers, as [`cancel`](Self::cancel) cancels one, and returns how many were
    /// cancelled.
    ///
    /// Where the timers are some of a million it takes three quarters of the CPU of single calls:
    /// the processor fetches many cells at a time. If drops of payloads panic, the first panic goes
    /// on when all timers are cancelled.
    ///
    /// # Example
    /// See [`schedule_many`](Self::schedule_many).
    pub fn cancel_many(&self, ids: impl IntoIterator<Item = TimerId>) -> usize {
        let engine = &*self.engine;
        let (mut cancelled, mut claimed, mut drops) =
            (0, Vec::with_capacity(CHUNK), Drops::default());
        ids_in_chunks(ids, |chunk| {
            engine.cells.with_local(|local| {
                cancelled += engine.cells.cancel_many(local, chunk, |content| {
                    if let Some(content) = content.filter(Content::needs_drop) {
                        claimed.push(content);
                    }
                });
            });
            // The payloads' own code runs after the borrow of the local.
            drops.add(claimed.drain(..));
        });
        drops.finish();
        cancelled
    }

    /// Moves many timers to now + `delay`, as [`reschedule`](Self::reschedule) moves one, and
    /// returns how many were moved.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let timers = (0..3).map(|_| (Duration::from_secs(30), || ()));
    /// let ids: Vec<_> = service.schedule_many(timers).into_iter().collect::<Result<_, _>>()?;
    /// assert_eq!(service.reschedule_many(ids, Duration::from_secs(30)), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule_many(
        &self,
        ids: impl IntoIterator<Item = TimerId>,
        delay: Duration,
    ) -> usize {
        let engine = &*self.engine;
        let delay_ns = time::nanos(delay).max(1);
        let (mut moved, mut place) = (0, None);
        ids_in_chunks(ids, |chunk| {
            engine.cells.with_local(|local| {
                let now = || {
                    let now_ns = engine.clock.arming_now_ns(&mut local.anchor);
                    (engine.tick.deadline(Nanos(now_ns + delay_ns)).0, now_ns)
                };
                let (deadline, now_ns) = *place.get_or_insert_with(now);
                moved += engine
                    .cells
                    .rearm_many(local, chunk, deadline, |local, id| {
                        engine.rearm_paused(local, id, deadline, now_ns)
                    });
            });
        });
        moved
    }
}
