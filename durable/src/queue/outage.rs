//! Outage: whether the store works, and if not, since when and why.
//!
//! The writer alone changes it. Any thread asks: a caller, before it leaves a request, and a thread
//! that hands a timer out.
//!
//! # Ground rules
//!  - The word changes under the lock (`StandingSet`). So a caller that finds no outage under the
//!    lock sees that the store works, and a caller that waits does not miss the end.
//!  - Without the lock the word is a hint (`StandingLook`). It is set before a caller is told of
//!    the failure. So a caller that was told sees the failure, or what came after it.

use crate::handler::error::DurableError;
use crate::store::contract::StoreError;
use crate::sync::{AtomicUsize, Condvar, Fault, Mutex, MutexGuard, Ordering, broken};
use crate::time::Clock;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

const WORKS: usize = 0;

/// It has failed, and is opened again.
const AWAY: usize = 1;

/// It has failed for good.
const ENDED: usize = 2;

/// A time in which the store does not work.
///
/// # Example
/// See [`DurableClient::health`](crate::DurableClient::health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outage {
    /// Since when.
    pub since: SystemTime,
    /// Why: what has failed last.
    pub why: StoreError,
    /// How often the store was opened again, in vain.
    pub tries: u64,
    /// When it is opened again. `None`: never. The program has to be started anew.
    pub next_try: Option<SystemTime>,
}

/// Whether durable timers work, for a probe.
///
/// # Example
/// See [`DurableClient::health`](crate::DurableClient::health).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// The store has failed: since when, and why. `None`: it has not, or it is back.
    pub outage: Option<Outage>,
    /// The last outage that is over: when it began, and how long it lasted.
    pub last_outage: Option<(SystemTime, Duration)>,
    /// How long the writer's present turn has lasted, as in
    /// [`stats`](crate::DurableClient::stats): a store that hangs has not failed.
    pub turn: Duration,
}

impl Health {
    /// Whether the store has not failed, or is back. A store that hangs has not failed, nor has a
    /// database that does not answer, until its `patience` has ended. Calls wait meanwhile, and no
    /// timer that comes due fires: look at [`turn`](Self::turn), too. After a stop it says what it
    /// said before.
    ///
    /// # Example
    /// See [`DurableClient::health`](crate::DurableClient::health).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.outage.is_none()
    }
}

/// Whether the store works.
pub(crate) struct StoreStanding {
    state: AtomicUsize,
    outages: Mutex<Outages>,
    /// The store works again, or never will.
    over: Condvar,
}

#[derive(Default)]
struct Outages {
    now: Option<Outage>,
    last: Option<(SystemTime, Duration)>,
}

impl StoreStanding {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicUsize::new(WORKS),
            outages: Mutex::default(),
            over: Condvar::new(),
        }
    }

    fn outages(&self) -> MutexGuard<'_, Outages> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// StandingSet.
    fn set(&self, state: usize) {
        // Ordering: Relaxed. As in `works`; what goes with it is under the lock.
        self.state.store(state, Ordering::Relaxed);
    }

    /// StandingLook.
    pub(crate) fn works(&self) -> bool {
        // Ordering: Relaxed. A hint: what is handed out meanwhile stays in the window, and a
        // request that comes meanwhile is answered by the writer.
        self.state.load(Ordering::Relaxed) == WORKS
    }

    /// Whether it may work again.
    pub(super) fn is_away(&self) -> bool {
        // Ordering: Relaxed. As in `works`.
        self.state.load(Ordering::Relaxed) == AWAY
    }

    /// It has failed, or was `tried` in vain. `next_try`: when it is opened again, if it is.
    pub(crate) fn fail(
        &self,
        why: StoreError,
        now: SystemTime,
        next_try: Option<SystemTime>,
        tried: bool,
    ) {
        let mut outages = self.outages();
        let former = outages.now.take();
        outages.now = Some(Outage {
            since: former.as_ref().map_or(now, |former| former.since),
            tries: former.map_or(0, |former| former.tries) + u64::from(tried),
            why,
            next_try,
        });
        self.set(if next_try.is_some() { AWAY } else { ENDED });
        drop(outages);
        self.over.notify_all();
    }

    /// It works again, after this time.
    pub(crate) fn come_back(&self, lasted: Duration) {
        let mut outages = self.outages();
        if let Some(outage) = outages.now.take() {
            outages.last = Some((outage.since, lasted));
        }
        if broken(Fault::StandingToldTooEarly) {
            drop(outages);
            self.over.notify_all();
            return self.set(WORKS);
        }
        self.set(WORKS);
        drop(outages);
        self.over.notify_all();
    }

    /// What a caller is told whose request is not taken. `None`: it works by now.
    pub(crate) fn refusal(&self) -> Option<DurableError> {
        let outage = self.outages().now.clone()?;
        Some(match outage.next_try {
            Some(_) => DurableError::Unavailable {
                since: outage.since,
                why: outage.why,
            },
            None => DurableError::Store(outage.why),
        })
    }

    /// Waits until it works again or never will, or for this time.
    pub(crate) fn wait(&self, limit: Duration) {
        let clock = Clock::monotonic();
        let begun = clock.now_ns();
        let mut outages = self.outages();
        while self.is_away() {
            let Some(left) = limit
                .checked_sub(Duration::from_nanos(clock.now_ns().saturating_sub(begun)))
                .filter(|left| !left.is_zero())
            else {
                return;
            };
            let waited = self.over.wait_timeout(outages, left);
            outages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Why it does not work.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.outages().now.as_ref().map(|outage| outage.why.clone())
    }

    /// With the present turn.
    pub(super) fn health(&self, turn: Duration) -> Health {
        let outages = self.outages();
        Health {
            outage: outages.now.clone(),
            last_outage: outages.last,
            turn,
        }
    }
}
