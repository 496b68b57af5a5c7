//! Places: how many calls of a kind's handler run at once, and the timers that wait for one.
//!
//! Each kind has its places. Threads that call handlers take places and give them back. The writer
//! takes out timers that are cancelled while they wait.
//!
//! # Ground rules
//!  - A call of a kind without a limit needs no place, and takes no lock, on a thread of the pool.
//!    On a thread that relieves the pool it needs the one place that such threads have. So each of
//!    these threads is blocked by a different kind, and there are at most as many of them as kinds.
//!  - While timers wait, a place is taken. The thread that has it calls the handler for them, until
//!    none waits. It gives the place back under the lock, in the step that finds that none waits.

use super::delivery::Delivery;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, StoreTime};
use crate::sync::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The places of a kind.
#[derive(Default)]
pub(crate) struct Places {
    /// The most calls at once. `None`: any number.
    max: Option<NonZeroUsize>,
    /// How many timers wait. A hint without the lock.
    waiting: AtomicUsize,
    taken: Mutex<TakenPlaces>,
}

/// Which places are taken, and which timers wait.
#[derive(Default)]
struct TakenPlaces {
    /// How many places are taken, if the kind has a limit.
    count: usize,
    /// Whether the place of threads that relieve the pool is taken.
    by_relief: bool,
    /// The timers that wait, in the order of their deadlines; those of one deadline in the order in
    /// which they came.
    waiting: BTreeMap<(StoreTime, u64), Delivery>,
    numbers: IdMap<DurableId, (StoreTime, u64)>,
    next: u64,
}

/// The place that a call of a handler has, and that is given back after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallPlace {
    is_counted: bool,
    is_of_relief: bool,
}

impl CallPlace {
    /// The place of a call that needs none.
    const FREE: Self = Self {
        is_counted: false,
        is_of_relief: false,
    };
}

impl Places {
    pub(crate) fn new(max: NonZeroUsize) -> Self {
        Self {
            max: Some(max),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, TakenPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, taken: &TakenPlaces) -> bool {
        self.max.is_some_and(|max| taken.count >= max.get())
    }

    /// Whether timers may wait.
    pub(super) fn may_wait(&self) -> bool {
        // Ordering: Relaxed. The thread that has a timer lets it wait. If the writer does not see
        // that yet, the timer counts as handed out. A thread that looks for something to do finds
        // the timer later.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Notes how many wait.
    fn note(&self, taken: &TakenPlaces) {
        // Ordering: Relaxed. As in `may_wait`.
        self.waiting.store(taken.waiting.len(), Ordering::Relaxed);
    }

    /// PlaceTake: takes a place for a call with these timers. `None`: the timers wait for a place.
    /// `relieves`: the thread relieves the pool, and the call may block it.
    pub(crate) fn take(
        &self,
        timers: Vec<Delivery>,
        relieves: bool,
    ) -> Option<(CallPlace, Vec<Delivery>)> {
        if self.max.is_none() && !relieves {
            return Some((CallPlace::FREE, timers));
        }
        let mut taken = self.lock();
        if self.is_full(&taken) || relieves && taken.by_relief {
            for delivery in timers {
                let number = (delivery.row.due, taken.next);
                taken.next += 1;
                taken.numbers.insert(delivery.row.id, number);
                taken.waiting.insert(number, delivery);
            }
            self.note(&taken);
            return None;
        }
        let place = CallPlace {
            is_counted: self.max.is_some(),
            is_of_relief: relieves,
        };
        taken.count += usize::from(place.is_counted);
        taken.by_relief |= relieves;
        Some((place, timers))
    }

    /// Takes a place for up to `most` timers that wait, on a thread of the pool that has nothing
    /// else to do. `None`: no timer waits, or there is no place.
    pub(crate) fn take_waiting(&self, most: usize) -> Option<(CallPlace, Vec<Delivery>)> {
        let mut taken = self.lock();
        if self.is_full(&taken) {
            return None;
        }
        let timers = self.next(&mut taken, most);
        if timers.is_empty() {
            return None;
        }
        let place = CallPlace {
            is_counted: self.max.is_some(),
            is_of_relief: false,
        };
        taken.count += usize::from(place.is_counted);
        Some((place, timers))
    }

    /// PlaceGive: gives a place back, or keeps it for up to `most` timers that have waited.
    pub(crate) fn give(&self, place: CallPlace, most: usize) -> Vec<Delivery> {
        if place == CallPlace::FREE {
            return Vec::new();
        }
        let mut taken = self.lock();
        let timers = self.next(&mut taken, most);
        if timers.is_empty() {
            taken.count -= usize::from(place.is_counted);
            taken.by_relief &= !place.is_of_relief;
        }
        timers
    }

    fn next(&self, taken: &mut TakenPlaces, most: usize) -> Vec<Delivery> {
        let mut timers = Vec::new();
        while timers.len() < most
            && let Some((_, delivery)) = taken.waiting.pop_first()
        {
            taken.numbers.remove(&delivery.row.id);
            timers.push(delivery);
        }
        self.note(taken);
        timers
    }

    /// GateWithdraw: takes out a timer that waits. `false`: it does not wait.
    pub(super) fn withdraw(&self, id: DurableId) -> bool {
        let mut taken = self.lock();
        let Some(&number) = taken.numbers.get(&id) else {
            return false;
        };
        if is_broken(DurableFault::WithdrawnStays) {
            return true;
        }
        taken.numbers.remove(&id);
        let delivery = taken.waiting.remove(&number);
        self.note(&taken);
        drop(taken);
        delivery.is_some()
    }

    /// Forgets the timers that wait. They stay stored.
    pub(super) fn forget_waiting(&self) {
        let mut taken = self.lock();
        let waiting = std::mem::take(&mut taken.waiting);
        taken.numbers.clear();
        self.note(&taken);
        drop(taken);
        drop(waiting);
    }
}
