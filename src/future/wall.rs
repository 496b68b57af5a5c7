//! Wall: waits by the time of day, which somebody may set.
//!
//! Owned by a future, which one thread at a time polls. Its [`Waiting`] waits by the service's
//! clock until the next look at the time of day. A look comes when the wait is over by that time,
//! and at least once a minute, rounded up to a tick. On a manual clock nothing looks in vain:
//! whoever sets the time of day brings the looks forward (`engine/manual.rs`), as for the timers of
//! [`schedule_at_system_time`](crate::ServiceHandle::schedule_at_system_time).

use super::timers::Home;
use super::waiting::Waiting;
use crate::engine::id::TimerId;
use crate::repeat::{NextLook, Repeat};
use crate::service::inspect::WallReading;
use crate::time::{NANOS_MAX, Nanos, nanos};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a look at the time of day finds.
pub(super) enum Look<R> {
    /// The wait is over.
    Over(R),
    /// It lasts this long, unless somebody sets the time of day.
    Lasts(Duration),
}

/// A wait by the time of day. Its drop cancels its timer.
#[derive(Debug)]
pub(super) struct WallWaiting {
    waiting: Waiting,
    /// How often a manual clock's time of day had been set at the last look. `None`: it was not
    /// looked at.
    sets: Option<u64>,
    /// On a manual clock: the timer, and its next look for whoever sets the time of day.
    followed: Option<(TimerId, Arc<NextLook>)>,
}

impl WallWaiting {
    pub(super) fn new(home: Home) -> Self {
        let now_ns = home.handle().now_ns();
        Self {
            waiting: Waiting::new(home, now_ns),
            sets: None,
            followed: None,
        }
    }

    pub(super) fn home(&self) -> &Home {
        self.waiting.home()
    }

    /// Polls the wait. `look` decides by a reading of the time of day.
    pub(super) fn poll<R>(
        &mut self,
        context: &mut Context<'_>,
        mut look: impl FnMut(WallReading) -> Look<R>,
    ) -> Poll<R> {
        loop {
            let is_new = self.sets != Some(self.home().handle().clock().wall_sets());
            if !is_new && self.waiting.poll(context).is_pending() {
                self.follow();
                return Poll::Pending;
            }
            match self.look(&mut look) {
                Look::Over(over) => return Poll::Ready(over),
                // Time has ended before the wait has: it waits for nothing.
                Look::Lasts(_) if self.waiting.is_over() && self.has_ended() => {
                    return Poll::Pending;
                }
                // The wait is polled next: a task that is woken for nothing costs little.
                Look::Lasts(_) => {}
            }
        }
    }

    /// Looks at the time of day, and moves the wait to the next look.
    pub(super) fn look<R>(&mut self, look: impl FnOnce(WallReading) -> Look<R>) -> Look<R> {
        let handle = self.home().handle();
        let is_told = handle.engine.next_look().is_some();
        let wall = handle.wall_clock();
        let now_ns = handle.now_ns();
        self.sets = Some(wall.sets);
        let found = look(wall);
        let delay = match &found {
            Look::Over(_) => Duration::ZERO,
            Look::Lasts(delay) => Repeat::wall_delay(*delay, is_told),
        };
        self.waiting.move_to(now_ns.saturating_add(nanos(delay)));
        found
    }

    /// Whether the service's clock shows its last tick.
    fn has_ended(&self) -> bool {
        let handle = self.home().handle();
        let ticks = handle.ticks();
        handle.now_ns() >= ticks.start(ticks.deadline(Nanos(NANOS_MAX))).0
    }

    /// On a manual clock: lets whoever sets the time of day bring the next look forward. If it was
    /// set since the last look, it is brought forward now (SetRecheck).
    fn follow(&mut self) {
        let (Some(timer), Some(sets)) = (self.waiting.timer(), self.sets) else {
            return;
        };
        let engine = &self.waiting.home().handle().engine;
        let known = self.followed.take().filter(|(id, _)| *id == timer);
        let is_known = known.is_some();
        let next_look = known.map(|(_, next_look)| next_look);
        let Some(next_look) = next_look.or_else(|| engine.next_look()) else {
            return;
        };
        if let Some(deadline) = engine.deadline_of(timer) {
            next_look.file(deadline);
        }
        self.followed = Some((timer, next_look.clone()));
        if is_known {
            engine.recheck_wall(sets);
        } else {
            engine.follow_wall(timer, next_look, sets);
        }
    }
}
