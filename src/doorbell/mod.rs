#![doc = include_str!("README.md")]

use crate::sync::{
    AtomicU64, Fault, Ordering, Thread, UnsafeCell, broken, current, heavy_fence_unless,
    light_fence_unless, ordering, park,
};
use crossbeam_utils::CachePadded;
use std::time::Duration;

/// The shard is awake, or naps until the next tick edge (beyond its budget of wake-ups, the next
/// full millisecond): no producer needs to ring.
const AWAKE: u64 = 0;

/// A sleep that only a ring ends.
pub(crate) const FOREVER: u64 = u64::MAX;

/// The result of the look before a sleep (SleepLook).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondLook {
    /// There is work: no sleep.
    Work,
    /// The shard may park for this long; `None`: until rung.
    Park(Option<Duration>),
}

impl SecondLook {
    /// For a sleep without a time limit.
    #[cfg(any(loom, feature = "__internals"))]
    pub(crate) fn work_or_park(work_waits: bool) -> Self {
        if work_waits {
            Self::Work
        } else {
            Self::Park(None)
        }
    }
}

/// The sleep of one shard.
pub(crate) struct Doorbell {
    /// The tick until which the shard has announced to sleep. Every producer reads it at every
    /// push; it is rarely written.
    wake_at: CachePadded<AtomicU64>,
    /// The shard's thread. The shard writes it before its first SleepAnnounce.
    sleeper: UnsafeCell<Option<Thread>>,
    rings: AtomicU64,
}

// SAFETY: the shard writes `sleeper` before its first SleepAnnounce (Release), and not after it. A
// ringer reads it after a RingClaim (Acquire) that saw a value which a SleepAnnounce stored.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self {
            wake_at: CachePadded::new(AtomicU64::new(AWAKE)),
            sleeper: UnsafeCell::new(None),
            rings: AtomicU64::new(0),
        }
    }

    /// Names the calling thread as the one that waits.
    ///
    /// # Safety
    /// The only thread that waits calls this, once, before its first `wait`.
    pub(crate) unsafe fn attach(&self) {
        // SAFETY: this is before the first SleepAnnounce, so no ringer reads it.
        self.sleeper
            .with_mut(|sleeper| unsafe { *sleeper = Some(current()) });
    }

    /// Wakes the shard if it sleeps past `deadline` (a tick). Called after the push of the message
    /// that is due then.
    #[inline]
    pub(crate) fn ring(&self, deadline: u64) {
        // Ordering: light (RingFence). Pairs with SleepFence in `wait`.
        light_fence_unless(Fault::DoorbellNoRingFence);
        // Ordering: Relaxed (RingLook). Ordered by RingFence; the sleeper is read only after
        // RingClaim.
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        if deadline < wake_at {
            self.ring_slowly(deadline, wake_at);
        }
    }

    /// The same, for a deadline that is found out only if the shard sleeps.
    pub(crate) fn ring_asleep(&self, deadline: impl FnOnce() -> u64) {
        // Ordering: light (RingFence), as in `ring`.
        light_fence_unless(Fault::DoorbellNoRingFence);
        // Ordering: Relaxed (RingLook), as in `ring`. No deadline is before `AWAKE`.
        if self.wake_at.load(Ordering::Relaxed) != AWAKE {
            self.ring(deadline());
        }
    }

    #[cold]
    fn ring_slowly(&self, deadline: u64, mut wake_at: u64) {
        while deadline < wake_at {
            // Ordering: Acquire (RingClaim). Pairs with the Release of SleepAnnounce; publishes
            // `sleeper`.
            match self.wake_at.compare_exchange(
                wake_at,
                AWAKE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    // Ordering: Relaxed. A counter.
                    self.rings.fetch_add(1, Ordering::Relaxed);
                    self.sleeper.with(|sleeper| {
                        // SAFETY: RingClaim saw the value of a SleepAnnounce, and `attach` came
                        // before that: it is written, and not written again.
                        let sleeper = unsafe { &*sleeper };
                        if let Some(sleeper) = sleeper
                            && !broken(Fault::DoorbellNoUnpark)
                        {
                            sleeper.unpark(); // RingUnpark
                        }
                    });
                    return;
                }
                Err(now) => wake_at = now,
            }
        }
    }

    /// Announces a sleep until the tick `wake_at`, and calls `look`. Then it sleeps for the time
    /// that `look` has returned, or until a producer rings. `look` may take messages into the
    /// wheel, and runs no user code. The sleep may end early without a reason. Returns whether it
    /// slept.
    ///
    /// # Safety
    /// The caller is the thread that attached.
    pub(crate) unsafe fn wait(&self, wake_at: u64, look: impl FnOnce() -> SecondLook) -> bool {
        // Ordering: Release (SleepAnnounce). Pairs with the Acquire of RingClaim; publishes
        // `sleeper`. A sleep until tick 0 is announced as one until tick 1, because 0 is `AWAKE`.
        self.wake_at.store(
            wake_at.max(AWAKE + 1),
            ordering(Ordering::Release, Fault::DoorbellAnnounceRelaxed),
        );
        // Ordering: full (SleepFence). Pairs with RingFence in `ring`.
        heavy_fence_unless(Fault::DoorbellNoSleepFence);
        let look = if broken(Fault::DoorbellNoSecondLook) {
            SecondLook::Park(None)
        } else {
            look()
        }; // SleepLook
        if let SecondLook::Park(timeout) = look {
            park(timeout); // SleepPark
        }
        // Ordering: Relaxed (SleepEnd). A ringer that still sees the old value unparks the shard
        // once too often.
        self.wake_at.store(AWAKE, Ordering::Relaxed);
        look != SecondLook::Work
    }

    /// Whether the shard is awake, or naps.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        // Ordering: Relaxed. A hint: a producer that sends a message after this look rings if the
        // shard has to be woken.
        self.wake_at.load(Ordering::Relaxed) == AWAKE
    }

    /// The tick until which the shard has announced to sleep. `None`: it is awake, naps, or was
    /// rung. For statistics.
    pub(crate) fn sleeps_until(&self) -> Option<u64> {
        // Ordering: Relaxed. A look from outside: nothing depends on it.
        Some(self.wake_at.load(Ordering::Relaxed)).filter(|&wake_at| wake_at != AWAKE)
    }

    /// How often a ringer has unparked the shard.
    pub(crate) fn rings(&self) -> u64 {
        // Ordering: Relaxed. A counter.
        self.rings.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Announces a sleep until this tick, and calls `look` as its SleepLook. Whether it slept.
    fn announced(wake_at: u64, look: impl FnOnce(&Doorbell) -> SecondLook) -> bool {
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
            assert_eq!(
                (bell.rings(), bell.sleeps_until()),
                (0, Some(10)),
                "due when it wakes anyway"
            );
            bell.ring(9);
            assert_eq!((bell.rings(), bell.sleeps_until()), (1, None));
            bell.ring(8);
            assert_eq!(bell.rings(), 1, "the first ringer pays");
            SecondLook::Work
        });
    }

    #[test]
    fn rings_nobody_who_is_awake() {
        let bell = Doorbell::new();
        bell.ring(0);
        assert_eq!((bell.rings(), bell.sleeps_until()), (0, None));
        announced(0, |bell| {
            assert_eq!(
                bell.sleeps_until(),
                Some(1),
                "a sleep to tick 0 is announced, too"
            );
            bell.ring(0);
            assert_eq!(bell.rings(), 1);
            SecondLook::Work
        });
    }

    #[test]
    fn asks_for_the_deadline_only_of_a_shard_that_sleeps() {
        let bell = Doorbell::new();
        bell.ring_asleep(|| unreachable!("it is awake"));
        announced(10, |bell| {
            bell.ring_asleep(|| 10);
            assert_eq!(bell.rings(), 0);
            bell.ring_asleep(|| 9);
            assert_eq!((bell.rings(), bell.sleeps_until()), (1, None));
            SecondLook::Work
        });
    }

    #[test]
    fn sleeps_unless_work_waits() {
        assert!(announced(10, |_| SecondLook::Park(Some(Duration::ZERO))));
        assert!(!announced(10, |_| SecondLook::Work));
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it_at_once() {
        let bell = Doorbell::new();
        // SAFETY: called once, before the wait, by the only thread there is.
        unsafe { bell.attach() };
        let look = || {
            bell.ring(0);
            SecondLook::Park(None)
        };
        // SAFETY: this thread attached. Without a time limit: only the ring ends it.
        assert!(unsafe { bell.wait(FOREVER, look) });
        assert_eq!((bell.rings(), bell.sleeps_until()), (1, None));
    }
}
