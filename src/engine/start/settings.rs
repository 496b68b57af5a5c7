//! Settings: what a service is started with.

use super::backend::Channel;
use crate::dispatch::Dispatch;
use crate::engine::Handler;
use crate::engine::notices::hooks::Hooks;
use crate::time::ManualClock;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// All settings except those that depend on the payload's type. The builder's calls say what each
/// means.
pub(crate) struct Settings {
    /// `None`: [`TICK`].
    pub(crate) tick: Option<Duration>,
    pub(crate) shards: Option<usize>,
    pub(crate) pinning: Pinning,
    pub(crate) name: String,
    pub(crate) dispatch: Option<Dispatch>,
    pub(crate) clock: Option<ManualClock>,
    pub(crate) spin: Duration,
    pub(crate) wakeups: Option<NonZeroU32>,
    pub(crate) boot_time: bool,
    pub(crate) max_pending: usize,
    /// Whether large slots of the wheel are cascaded ahead of time, in steps.
    pub(crate) cascade_budget: bool,
    /// The most threads that are started when all workers of a pool are blocked.
    pub(crate) relief_threads: usize,
    /// Whether timers on a manual clock share readings, too.
    pub(crate) shared_readings: bool,
    /// Whether the start is told as an event. If not, whoever starts the service tells it.
    pub(crate) is_start_told: bool,
    pub(crate) hooks: Hooks,
}

/// The tick, if none was set. Its budget is [`WAKEUPS_PER_S`].
const TICK: Duration = Duration::from_micros(200);

/// The budget of a shard for which neither a tick nor a spin margin was set: as many wake-ups as a
/// tick of 1 ms allows.
const WAKEUPS_PER_S: NonZeroU32 = NonZeroU32::new(1_000).expect("it is not zero");

impl Settings {
    pub(crate) fn tick(&self) -> Duration {
        self.tick.unwrap_or(TICK)
    }

    /// A shard may wake up once in this time, on average. 0: no limit.
    pub(crate) fn wakeup_ns(&self) -> u64 {
        let is_usual = self.tick.is_none() && self.spin == Duration::ZERO;
        let budget = self.wakeups.or(is_usual.then_some(WAKEUPS_PER_S));
        budget.map_or(0, |per_s| 1_000_000_000 / u64::from(per_s.get()))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick: None,
            shards: None,
            pinning: Pinning::default(),
            name: "wheelwork".to_string(),
            dispatch: None,
            clock: None,
            spin: Duration::ZERO,
            wakeups: None,
            boot_time: false,
            max_pending: usize::MAX,
            cascade_budget: true,
            relief_threads: 0,
            shared_readings: false,
            is_start_told: true,
            hooks: Hooks::default(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("tick", &self.tick)
            .field("shards", &self.shards)
            .field("pinning", &self.pinning)
            .field("name", &self.name)
            .field("dispatch", &self.dispatch)
            .field("clock", &self.clock)
            .field("spin", &self.spin)
            .field("wakeups", &self.wakeups)
            .field("boot_time", &self.boot_time)
            .field("max_pending", &self.max_pending)
            .field("relief_threads", &self.relief_threads)
            .finish_non_exhaustive()
    }
}

/// Where payloads go.
pub(crate) enum Outlet<T> {
    Handler(Box<Handler<T>>),
    Channel(Arc<dyn Channel<T>>),
}

/// The cores on which the shards' threads run.
///
/// The process counts how many shards of all services are pinned to each core. A shard counts as
/// long as it is pinned.
///
/// # Example
/// ```
/// use wheelwork::{Pinning, TimerService};
///
/// let service = TimerService::builder().pinning(Pinning::Off).start()?;
/// assert_eq!(service.stats().unpinned_shards, 0, "no thread was to be pinned");
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Each thread is pinned to the core that has the fewest shards, of all services of the
    /// process. So four services of one shard are on four cores. Of several such cores it takes the
    /// first one after the core at which the process begins; which one that is depends on the
    /// process's number, so that processes do not all begin at the same core. The choice is among
    /// the cores that the thread may use which starts the service. The default.
    ///
    /// On Linux a thread lets go of a core that other threads keep busy: if it was late by a
    /// millisecond at an eighth of its wake-ups in the last second, and at four of them at least,
    /// or often had to leave the core. It then runs where the system wants it. It is pinned again
    /// when it is late no more, after a second at the earliest, and later if it was in vain before.
    /// From the core of a thread that arms or cancels at full speed it moves to one that has no
    /// such thread, if there is one.
    #[default]
    AllCores,
    /// Each thread is pinned to a core, in turn over these cores, by their numbers, whatever other
    /// shards these have. It stays there.
    Cores(Vec<usize>),
    /// Threads are not pinned: the system chooses their cores.
    Off,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tick_or_a_spin_margin_that_was_set_has_no_budget() {
        let usual = Settings::default();
        assert_eq!((usual.tick(), usual.wakeup_ns()), (TICK, 1_000_000));
        let mut set = Settings {
            tick: Some(TICK),
            ..Settings::default()
        };
        assert_eq!((set.tick(), set.wakeup_ns()), (TICK, 0));
        set.wakeups = NonZeroU32::new(500);
        assert_eq!(set.wakeup_ns(), 2_000_000);
        let spins = Settings {
            spin: Duration::from_micros(50),
            ..Settings::default()
        };
        assert_eq!((spins.tick(), spins.wakeup_ns()), (TICK, 0));
    }
}
