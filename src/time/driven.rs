//! Driven: what a manual clock moves, and what it finds there.

/// Another thread takes a turn of the shards. It may take long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// What turns have found, of one or more shards.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pass {
    /// Due entries that were dispatched.
    pub(crate) dispatched: u64,
    /// More is due, and there is room for it.
    pub(crate) is_more: bool,
    /// More is due, but there was no room for it.
    pub(crate) is_held: bool,
}

impl Pass {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            dispatched: self.dispatched + other.dispatched,
            is_more: self.is_more || other.is_more,
            is_held: self.is_held || other.is_held,
        }
    }
}

/// What a manual clock moves: the shards of one service.
pub(crate) trait Driven: Send + Sync {
    /// Takes one turn of every shard.
    fn turn(&self) -> Pass;

    /// Whether messages have come since the last turn.
    fn has_messages(&self) -> bool;

    /// The next time at which a turn has something to do, in nanoseconds since the clock's origin:
    /// the present time if messages have come since the last turn. `Err`: another thread takes a
    /// turn.
    fn next_event_ns(&self) -> Result<Option<u64>, Busy>;

    /// The time of day was set since the last call. The timers that go by it have to read it again.
    fn wall_was_set(&self);
}
