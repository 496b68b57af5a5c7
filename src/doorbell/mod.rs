#![doc = include_str!("README.md")]

use crate::sync::{AtomicU64, Fault, Ordering, Thread, UnsafeCell, broken, current, heavy_fence, light_fence, ordering, park};
use crossbeam_utils::CachePadded;
use std::time::Duration;

/// The shard is awake, or naps until the next tick edge: nobody needs to ring.
const AWAKE: u64 = 0;

/// Sleeps for ever, unless rung.
pub(crate) const FOREVER: u64 = u64::MAX;

/// What the look before a sleep says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// There is work: no sleep.
    Work,
    /// The sleep may last so long; `None`: until rung.
    Park(Option<Duration>),
}

impl Look {
    /// For a sleep without a time limit.
    #[cfg(any(loom, feature = "__door"))]
    pub(crate) fn work_or_park(work_waits: bool) -> Self {
        if work_waits { Self::Work } else { Self::Park(None) }
    }
}

/// The sleep of one shard.
pub(crate) struct Doorbell {
    /// The tick until which the shard has announced to sleep. Read by every producer at every push, written rarely.
    wake_at: CachePadded<AtomicU64>,
    /// The shard's thread; written by it before its first W1.
    sleeper: UnsafeCell<Option<Thread>>,
    rings: AtomicU64,
}

// SAFETY: `sleeper` is written by the shard before its first W1 (Release) and read by a ringer after a B3 (Acquire) that saw a value which
// a W1 stored; it is not written after that.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { wake_at: CachePadded::new(AtomicU64::new(AWAKE)), sleeper: UnsafeCell::new(None), rings: AtomicU64::new(0) }
    }

    /// Names the calling thread as the one that waits.
    ///
    /// # Safety
    /// Called once, before this thread's first `wait`, by the only thread that waits.
    pub(crate) unsafe fn attach(&self) {
        // SAFETY: before the first W1, so no ringer reads it.
        self.sleeper.with_mut(|sleeper| unsafe { *sleeper = Some(current()) });
    }

    /// Wakes the shard if it sleeps past `deadline` (a tick). Called after the push of what is due then.
    #[inline]
    pub(crate) fn ring(&self, deadline: u64) {
        if !broken(Fault::DoorbellNoRingFence) {
            // Ordering: light (B1). Pairs with W2 in `wait`.
            light_fence();
        }
        // Ordering: Relaxed (B2). Ordered by B1; the sleeper is read after B3 only.
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        if deadline < wake_at {
            self.ring_slowly(deadline, wake_at);
        }
    }

    #[cold]
    fn ring_slowly(&self, deadline: u64, mut wake_at: u64) {
        while deadline < wake_at {
            // Ordering: Acquire (B3). Pairs with the Release of W1; publishes `sleeper`.
            match self.wake_at.compare_exchange(wake_at, AWAKE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    // Ordering: Relaxed. A counter.
                    self.rings.fetch_add(1, Ordering::Relaxed);
                    self.sleeper.with(|sleeper| {
                        // SAFETY: W1 came before the value that B3 saw, and `attach` before W1: written, and never again.
                        let sleeper = unsafe { &*sleeper };
                        if let Some(sleeper) = sleeper
                            && !broken(Fault::DoorbellNoUnpark)
                        {
                            sleeper.unpark(); // B4
                        }
                    });
                    return;
                }
                Err(now) => wake_at = now,
            }
        }
    }

    /// Announces a sleep until the tick `wake_at`; then sleeps for as long as `look` says, or until rung. `look` may take messages in: it runs no user code.
    /// May return early without a reason. Whether it slept.
    ///
    /// # Safety
    /// Only the thread that attached waits.
    pub(crate) unsafe fn wait(&self, wake_at: u64, look: impl FnOnce() -> Look) -> bool {
        // Ordering: Release (W1). Pairs with the Acquire of B3; publishes `sleeper`. `AWAKE` is no announcement.
        self.wake_at.store(wake_at.max(AWAKE + 1), ordering(Ordering::Release, Fault::DoorbellAnnounceRelaxed));
        if !broken(Fault::DoorbellNoWaitFence) {
            // Ordering: full (W2). Pairs with B1 in `ring`.
            heavy_fence();
        }
        let look = if broken(Fault::DoorbellNoSecondLook) { Look::Park(None) } else { look() }; // W3
        if let Look::Park(timeout) = look {
            park(timeout); // W4
        }
        // Ordering: Relaxed (W5). A ringer that still sees `W` unparks once too often.
        self.wake_at.store(AWAKE, Ordering::Relaxed);
        look != Look::Work
    }

    /// Whether the shard is awake, or naps.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        // Ordering: Relaxed. A hint: whoever sends something after it rings all the same.
        self.wake_at.load(Ordering::Relaxed) == AWAKE
    }

    /// The tick until which the shard has announced to sleep; `None` if it is awake, naps, or was rung. For whoever watches it.
    pub(crate) fn sleeps_until(&self) -> Option<u64> {
        // Ordering: Relaxed. A look from outside: nothing follows from it.
        Some(self.wake_at.load(Ordering::Relaxed)).filter(|&wake_at| wake_at != AWAKE)
    }

    /// How many times the shard was unparked by a ringer.
    pub(crate) fn rings(&self) -> u64 {
        // Ordering: Relaxed. A counter.
        self.rings.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A bell whose shard has announced to sleep to this tick and takes its second look, in which `look` happens. Whether it slept then.
    fn announced(wake_at: u64, look: impl FnOnce(&Doorbell) -> Look) -> bool {
        let bell = Doorbell::new();
        // SAFETY: called once, before the wait, by the only thread there is.
        unsafe { bell.attach() };
        // SAFETY: this thread attached.
        unsafe { bell.wait(wake_at, || look(&bell)) }
    }

    #[test]
    fn rings_for_what_is_due_before_the_shard_wakes() {
        announced(10, |bell| {
            bell.ring(10);
            assert_eq!((bell.rings(), bell.sleeps_until()), (0, Some(10)), "due when it wakes anyway");
            bell.ring(9);
            assert_eq!((bell.rings(), bell.sleeps_until()), (1, None));
            bell.ring(8);
            assert_eq!(bell.rings(), 1, "the first ringer pays");
            Look::Work
        });
    }

    #[test]
    fn rings_nobody_who_is_awake() {
        let bell = Doorbell::new();
        bell.ring(0);
        assert_eq!((bell.rings(), bell.sleeps_until()), (0, None));
        announced(0, |bell| {
            assert_eq!(bell.sleeps_until(), Some(1), "a sleep to tick 0 is announced, too");
            bell.ring(0);
            assert_eq!(bell.rings(), 1);
            Look::Work
        });
    }

    #[test]
    fn sleeps_unless_work_waits() {
        assert!(announced(10, |_| Look::Park(Some(Duration::ZERO))));
        assert!(!announced(10, |_| Look::Work));
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it_at_once() {
        let bell = Doorbell::new();
        // SAFETY: called once, before the wait, by the only thread there is.
        unsafe { bell.attach() };
        let look = || {
            bell.ring(0);
            Look::Park(None)
        };
        // SAFETY: this thread attached. Without a time limit: only the ring ends it.
        assert!(unsafe { bell.wait(FOREVER, look) });
        assert_eq!((bell.rings(), bell.sleeps_until()), (1, None));
    }
}
