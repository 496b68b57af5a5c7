//! Manual: the shards of a service on a manual clock, which takes their turns, and tells of a time
//! of day that is set.
//!
//! Owned by the service; the clock has a weak reference. Whoever moves the clock takes the turns,
//! under a lock, and is inside a task meanwhile.

use super::Engine;
use super::id::TimerId;
use crate::cold_drop::ColdDrop;
use crate::dispatch::inside::inside;
use crate::repeat::NextLook;
use crate::shard::turn::Shard;
use crate::shard::worker::turn;
use crate::sync::{Fault, Mutex, broken};
use crate::time::{Busy, Driven, Nanos, Pass, Tick};
use std::sync::{Arc, PoisonError, TryLockError};

/// The shards of a service on a manual clock.
pub(crate) struct ManualShards<T> {
    pub(crate) engine: Arc<Engine<T>>,
    pub(crate) shards: Mutex<Vec<ColdDrop<Shard>>>,
}

impl<T> ManualShards<T> {
    pub(crate) fn new(engine: Arc<Engine<T>>, shards: Vec<ColdDrop<Shard>>) -> Self {
        let shards = Mutex::new(shards);
        Self { engine, shards }
    }
}

impl<T: Send + 'static> Engine<T> {
    /// The next look of a timer by the wall clock, if somebody brings it forward when the clock is
    /// set. `None`: the timer has to look by itself.
    pub(crate) fn next_look(&self) -> Option<Arc<NextLook>> {
        self.wall_timers.as_ref().map(|_| Arc::default())
    }

    /// Takes in a timer that was armed by a wall clock that had been set so often.
    pub(crate) fn follow_wall(&self, id: TimerId, next_look: Arc<NextLook>, sets: u64) {
        if let Some(timers) = &self.wall_timers {
            timers.add(id, next_look, &|id| self.is_pending(id));
            self.recheck_wall(sets);
        }
    }

    /// SetRecheck. A timer was filed by a wall clock that had been set so often.
    pub(crate) fn recheck_wall(&self, sets: u64) {
        if self.clock.wall_sets() != sets && !broken(Fault::SetNotSeenAfterFile) {
            self.wall_was_set();
        }
    }

    /// SetTell. Moves the next looks of the timers that wait to the next tick. Those that somebody
    /// has moved to another tick stay there.
    pub(crate) fn wall_was_set(&self) {
        let Some(timers) = &self.wall_timers else {
            return;
        };
        let now = self.tick.deadline(Nanos(self.clock.now_ns() + 1)).0;
        let bring = |id, next_look: &NextLook| {
            let deadline = self.deadline_of(id);
            let is_ahead = |&deadline: &u64| deadline > now && next_look.is_at(deadline);
            if let Some(deadline) = deadline.filter(is_ahead) {
                next_look.bring_to(now);
                // Unless a user has moved it meanwhile. (A move that finds the cell HELD is lost.)
                self.cells
                    .with_local(|local| self.cells.rearm_from(local, id, deadline, now));
            }
        };
        timers.for_each(&|id| self.is_pending(id), &bring);
    }

    fn is_pending(&self, id: TimerId) -> bool {
        self.cells
            .with_local(|local| self.cells.is_pending(local, id))
    }
}

impl<T: Send + 'static> Driven for ManualShards<T> {
    fn turn(&self) -> Pass {
        let take_turns = || {
            let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
            // Looked at under the lock: see StopJoin in `service/stop.rs`.
            if self.engine.cells.shared.is_stopped() {
                return Pass::default();
            }
            let mut pass = Pass::default();
            for shard in &mut *shards {
                let turn = turn(shard, &self.engine.clock);
                pass = pass.and(Pass {
                    dispatched: turn.dispatched as u64,
                    is_more: turn.more && !turn.held,
                    is_held: turn.held,
                });
            }
            pass
        };
        inside(take_turns)
    }

    fn has_messages(&self) -> bool {
        let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        shards.iter().any(|shard| shard.has_messages())
    }

    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        if self.engine.cells.shared.is_stopped() {
            return Ok(None);
        }
        let mut shards = match self.shards.try_lock() {
            Ok(shards) => shards,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        let now_ns = self.engine.clock.now_ns();
        if shards.iter().any(|shard| shard.has_messages()) {
            return Ok(Some(now_ns));
        }
        let mut next_ns = u64::MAX;
        for shard in &mut *shards {
            while shard.settle() {}
            let start_ns = shard
                .next_event()
                .map(|tick| self.engine.tick.start(Tick(tick)).0);
            // Entries that a shard holds, for want of room, do not hold up the time.
            if let Some(start_ns) = start_ns
                && start_ns > now_ns
            {
                next_ns = start_ns.min(next_ns);
            }
        }
        Ok((next_ns < u64::MAX).then_some(next_ns))
    }

    fn wall_was_set(&self) {
        self.engine.wall_was_set();
    }
}
