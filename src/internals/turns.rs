//! Turns: the shards of a service on a manual clock, each for a thread of its own.

use crate::TimerService;
use crate::cold_drop::ColdDrop;
use crate::dispatch::inside::inside;
use crate::engine::Engine;
use crate::shard::{turn, worker};
use std::sync::{Arc, PoisonError};

/// A shard of a service on a manual clock.
pub struct Shard<T> {
    engine: Arc<Engine<T>>,
    shard: ColdDrop<turn::Shard>,
}

/// Takes the shards out of a service on a manual clock. The clock's `advance` takes no turns of
/// this service after that: `ManualClock::jump` moves the time.
pub fn take_shards<T: Send + 'static>(service: &TimerService<T>) -> Vec<Shard<T>> {
    let Some(manual) = service.started.manual.as_deref() else {
        return Vec::new();
    };
    let mut shards = manual.shards.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |shard| Shard {
        engine: manual.engine.clone(),
        shard,
    };
    shards.drain(..).map(of).collect()
}

impl<T: Send + 'static> Shard<T> {
    /// Takes one turn. Returns whether anything was drained or fired.
    pub fn turn(&mut self) -> bool {
        let turn = inside(|| worker::turn(&mut self.shard, &self.engine.clock));
        turn.drained > 0 || turn.dispatched > 0 || (turn.more && !turn.held)
    }
}
