//! Group: timers of one owner, which are paused, resumed and cancelled at once.
//!
//! A group has the ids of its timers, in a list under a lock. Calls on one group wait for each
//! other; no other call, and no fire, knows of it. No code of the user's runs under the lock.

use super::handle::ServiceHandle;
use crate::engine::drops::Drops;
use crate::engine::id::TimerId;
use crate::engine::life::arm::HOME;
use crate::engine::task::IntoPayload;
use crate::error::ScheduleError;
use crate::sync::Mutex;
use crate::time;
use std::fmt;
use std::ops::DerefMut;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// Up to this number of ids, those of timers that are over are kept.
const KEPT_MIN: usize = 64;

/// Timers of one owner, such as a connection, a session or a scene of a game: they are paused,
/// resumed and cancelled at once. [`ServiceHandle::group`] makes one.
///
/// **Dropping a group cancels its timers**, as dropping a [`TimerGuard`](super::TimerGuard) cancels
/// one. [`keep`](Self::keep) gives the group up and lets the timers go on. If the group is
/// forgotten (`std::mem::forget`), they go on, too, and the memory of the service is never freed.
///
/// A timer of a group is a timer like another: its id works with every call of the service, and a
/// stop of the service has it. It may be in several groups. Pauses are not counted: if two groups
/// have paused a timer, the first `resume` of one of them lets it go on.
///
/// Each call takes the lock of its group, and waits for calls on the same group. To share a group
/// between threads, borrow it, or put it in an `Arc`. It takes 16 bytes for each id, in a `Vec`
/// that doubles when it is full and does not shrink. The place of a timer that is over is used
/// again: a group keeps at most twice as many ids as it had pending timers at one time, or 64.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{ManualClock, TimerService};
///
/// let clock = ManualClock::new();
/// let service = TimerService::builder().clock(clock.clone()).start()?;
/// let scene = service.group();
/// let bomb = scene.schedule(Duration::from_secs(10), || println!("boom"))?;
/// scene.add(service.every(Duration::from_secs(1)).start(|| println!("tick"))?);
///
/// // The player opens the menu, and comes back an hour later.
/// assert_eq!(scene.pause(), 2);
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(scene.resume(), 2);
/// assert_eq!(service.remaining(bomb), Some(Duration::from_secs(10)));
///
/// drop(scene);
/// assert!(service.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it cancels its timers"]
pub struct TimerGroup<T: Send + 'static> {
    handle: ServiceHandle<T>,
    members: Mutex<Members>,
}

struct Members {
    ids: Vec<TimerId>,
    /// At this number of ids, those of timers that are over are removed.
    tidy_at: usize,
    is_paused: bool,
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// An empty group of timers of this service. Costs a reference count.
    ///
    /// # Example
    /// See [`TimerGroup`].
    pub fn group(&self) -> TimerGroup<T> {
        TimerGroup {
            handle: self.clone(),
            members: Mutex::new(Members {
                ids: Vec::new(),
                tidy_at: KEPT_MIN,
                is_paused: false,
            }),
        }
    }
}

impl<T: Send + 'static> TimerGroup<T> {
    /// The members, under the lock. `None`: this process was forked off while another thread had
    /// the lock. Nobody gives it back here.
    fn members(&self) -> Option<impl DerefMut<Target = Members> + '_> {
        if !self.handle.engine.cells.shared.is_forked() {
            return Some(self.members.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.members.try_lock() {
            Ok(members) => Some(members),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Arms a timer of this group, as [`schedule`](ServiceHandle::schedule) does. If the group is
    /// paused, the timer is paused from the beginning, with the whole delay left.
    ///
    /// # Errors
    /// As [`schedule`](ServiceHandle::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let group = service.group();
    /// group.pause();
    /// let id = group.schedule(Duration::ZERO, || println!("after the pause"))?;
    /// assert!(service.is_paused(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule(
        &self,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        let (payload, delay_ns) = (payload.into_payload(), time::nanos(delay).max(1));
        let engine = &self.handle.engine;
        let Some(mut members) = self.members() else {
            return Err(ScheduleError::Stopped(payload));
        };
        let id = if members.is_paused {
            engine.arm_paused(payload, delay_ns)?
        } else {
            engine.arm(payload, HOME, move |now| now + delay_ns)?
        };
        self.take_in(&mut members, id);
        Ok(id)
    }

    /// Takes in a timer that was armed otherwise: a periodic one, or one for a time of day. If the
    /// group is paused, the timer is paused now. Returns `false` if the timer is over, or belongs
    /// to another service. A timer that the group has already stays in it once.
    ///
    /// # Example
    /// See [`TimerGroup`].
    pub fn add(&self, id: TimerId) -> bool {
        let Some(mut members) = self.members() else {
            return false;
        };
        if !self.handle.is_pending(id) {
            return false;
        }
        if members.is_paused {
            self.handle.pause(id);
        }
        self.take_in(&mut members, id);
        true
    }

    fn take_in(&self, members: &mut Members, id: TimerId) {
        if members.ids.len() >= members.tidy_at {
            self.tidy(&mut members.ids);
            members.tidy_at = KEPT_MIN.max(2 * members.ids.len());
        }
        members.ids.push(id);
    }

    /// Leaves one id of each timer that is pending.
    fn tidy(&self, ids: &mut Vec<TimerId>) {
        ids.retain(|&id| self.handle.is_pending(id));
        ids.sort_unstable();
        ids.dedup();
    }

    /// Pauses all timers of the group, and those that come until [`resume`](Self::resume). Returns
    /// how many were paused: those that wait, and were not paused.
    ///
    /// They are paused one after the other, each as [`pause`](ServiceHandle::pause) does it. A
    /// timer that is due meanwhile may fire.
    ///
    /// # Example
    /// See [`TimerGroup`].
    pub fn pause(&self) -> usize {
        let Some(mut members) = self.members() else {
            return 0;
        };
        members.is_paused = true;
        let paused = members.ids.iter().filter(|&&id| self.handle.pause(id));
        paused.count()
    }

    /// Lets all timers of the group go on that are paused, each as
    /// [`resume`](ServiceHandle::resume) does it. Returns how many.
    ///
    /// # Example
    /// See [`TimerGroup`].
    pub fn resume(&self) -> usize {
        let Some(mut members) = self.members() else {
            return 0;
        };
        members.is_paused = false;
        let resumed = members.ids.iter().filter(|&&id| self.handle.resume(id));
        resumed.count()
    }

    /// Whether the group is paused: its timers were, and those that come will be.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.members().is_some_and(|members| members.is_paused)
    }

    /// Cancels all timers of the group, and returns how many there were. The group is empty then,
    /// and paused if it was. Payloads are dropped as by
    /// [`cancel_many`](ServiceHandle::cancel_many).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let group = service.group();
    /// group.schedule(Duration::from_secs(30), || println!("the connection is idle"))?;
    /// assert_eq!(group.cancel_all(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_all(&self) -> usize {
        self.handle.cancel_many(self.take_all())
    }

    /// Gives the group up: its timers go on; those that are paused stay so. Returns the ids of
    /// those that are pending, each once and in no particular order.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let group = service.group();
    /// let id = group.schedule(Duration::from_secs(30), || ())?;
    /// assert_eq!(group.keep(), [id]);
    /// assert!(service.is_pending(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(self) -> Vec<TimerId> {
        let mut ids = self.take_all();
        self.tidy(&mut ids);
        ids
    }

    fn take_all(&self) -> Vec<TimerId> {
        let Some(mut members) = self.members() else {
            return Vec::new();
        };
        members.tidy_at = KEPT_MIN;
        std::mem::take(&mut members.ids)
    }
}

impl<T: Send + 'static> Drop for TimerGroup<T> {
    fn drop(&mut self) {
        // `Drops`, since the thread may be unwinding and the drops of payloads may panic too.
        Drops::all(std::iter::once_with(|| self.cancel_all()));
    }
}

impl<T: Send + 'static> fmt::Debug for TimerGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerGroup")
            .field("is_paused", &self.is_paused())
            .finish_non_exhaustive()
    }
}
