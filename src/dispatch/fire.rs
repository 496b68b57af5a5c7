//! Fire: what a worker needs to fire due entries. The engine implements it.

use super::grain::Grain;
use crate::entry::Entry;

/// Threads that run jobs are counted in two halves. All threads of one job are counted in one half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Half(pub(crate) usize);

/// Fires due entries: claims them, and runs their tasks. Does not unwind.
pub(crate) trait Fire: Send + Sync + 'static {
    /// What a timer was armed with.
    type Payload: Send;

    /// A run of a periodic timer.
    type Run: Send;

    /// Whether the service has ever armed a periodic timer. `false`: `claim` gives no runs for
    /// entries that were filed before the call.
    fn repeats(&self) -> bool;

    /// FireBegin. A thread begins a job. Until `end` it may claim, and run tasks.
    fn begin(&self) -> Half;

    /// FireBegin. A further thread joins a job that is counted in this half.
    fn begin_in(&self, half: Half);

    /// FireClaim. Claims at most [`GRAIN`](super::GRAIN) entries. Gives `add` their payloads, and
    /// `run` the runs of periodic timers.
    fn claim(&self, entries: &[Entry], add: impl FnMut(Self::Payload), run: impl FnMut(Self::Run));

    /// Takes payloads and runs their tasks, until no payload is left.
    fn run(&self, grain: &Grain<'_, Self::Payload>);

    /// Takes runs of periodic timers, runs each, and files its timer for the next one, until no run
    /// is left.
    fn repeat(&self, runs: &Grain<'_, Self::Run>);

    /// Gives up a run that nobody will do. Its timer ends.
    fn give_up(&self, run: Self::Run);

    /// Drops payloads that nobody will take.
    fn discard(&self, payloads: impl Iterator<Item = Self::Payload>);

    /// Whether the service has stopped: what is not claimed is not to be fired any more.
    fn is_stopped(&self) -> bool;

    /// FireEnd. A thread leaves a job that is counted in this half.
    fn end(&self, half: Half);
}
