//! Cores: the core to which each shard's thread is pinned.
//!
//! One count for the whole process: how many shards of all services are pinned to each core. So
//! services that do not know of each other are spread over the cores. Whoever starts a service
//! takes a [`Seat`] for each shard, under a lock. The shard's thread gives it back when it ends.
//!
//! Limit: threads that are not shards are not counted.

use super::settings::Pinning;
use core_affinity::CoreId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The number of cores in the system's set of cores. `core_affinity` panics beyond.
///
/// None where threads cannot be pinned: on Apple's systems a core's number is only a hint, and
/// `core_affinity` 0.8 gives the hint for another thread than its caller.
const CORES_MAX: usize = if cfg!(target_vendor = "apple") {
    0
} else if cfg!(all(target_os = "android", target_pointer_width = "32")) {
    32
} else if cfg!(any(target_os = "linux", target_os = "android")) {
    1024
} else {
    64
};

static SEATS: Seats = Seats::new();

/// How many shards are pinned to each core, by the core's number. Cores without a shard are left
/// out.
struct Seats(Mutex<BTreeMap<usize, usize>>);

/// A shard's place on a core, until it is dropped.
pub(super) struct Seat {
    core: CoreId,
    seats: &'static Seats,
}

/// The places of a service's shards, in order. `None`: the shard runs unpinned.
pub(super) fn seats(pinning: Pinning, count: usize) -> Vec<Option<Seat>> {
    let all = || core_affinity::get_core_ids().unwrap_or_default();
    SEATS.of_service(pinning, count, all)
}

/// The core with the fewest shards; of several, the first in the list.
fn least_loaded(cores: &[CoreId], load: impl Fn(usize) -> usize) -> Option<CoreId> {
    cores.iter().copied().min_by_key(|core| load(core.id))
}

impl Seats {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// As [`seats`], with the cores that the process may use.
    fn of_service(
        &'static self,
        pinning: Pinning,
        count: usize,
        all: impl FnOnce() -> Vec<CoreId>,
    ) -> Vec<Option<Seat>> {
        let (cores, in_turn) = match pinning {
            Pinning::AllCores => (all(), false),
            Pinning::Cores(cores) => (cores.into_iter().map(|id| CoreId { id }).collect(), true),
            Pinning::Off => (Vec::new(), false),
        };
        let choice = |number: usize| match cores.len() {
            0 => &[],
            len if in_turn => &cores[number % len..][..1],
            _ => &cores[..],
        };
        (0..count).map(|number| self.take(choice(number))).collect()
    }

    /// A seat on one of these cores.
    fn take(&'static self, cores: &[CoreId]) -> Option<Seat> {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let core = least_loaded(cores, |id| loads.get(&id).copied().unwrap_or(0))?;
        *loads.entry(core.id).or_default() += 1;
        Some(Seat { core, seats: self })
    }

    fn give_back(&self, core: CoreId) {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(load) = loads.get_mut(&core.id) {
            *load -= 1;
            if *load == 0 {
                loads.remove(&core.id);
            }
        }
    }
}

impl Seat {
    /// Pins the calling thread to the core. Returns whether that worked.
    pub(super) fn pin(&self) -> bool {
        self.core.id < CORES_MAX && core_affinity::set_for_current(self.core)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.give_back(self.core);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A process of its own.
    fn process() -> &'static Seats {
        Box::leak(Box::new(Seats::new()))
    }

    fn list(ids: impl IntoIterator<Item = usize>) -> Vec<CoreId> {
        ids.into_iter().map(|id| CoreId { id }).collect()
    }

    fn numbers(seats: &[Option<Seat>]) -> Vec<usize> {
        seats.iter().flatten().map(|seat| seat.core.id).collect()
    }

    #[test]
    fn the_first_of_the_least_loaded_cores_is_taken() {
        let chosen = |loads: [usize; 4]| least_loaded(&list(0..4), |id| loads[id]).unwrap().id;
        assert_eq!(chosen([0, 0, 0, 0]), 0);
        assert_eq!(chosen([1, 0, 0, 0]), 1);
        assert_eq!(chosen([2, 2, 1, 1]), 2);
        assert_eq!(chosen([3, 2, 2, 1]), 3);
        assert_eq!(least_loaded(&[], |_| 0), None);
    }

    #[test]
    fn four_services_are_on_four_cores() {
        let (process, cores) = (process(), || list([4, 5, 8, 9]));
        let start = |shards| process.of_service(Pinning::AllCores, shards, cores);
        let mut services: Vec<_> = (0..4).map(|_| start(1)).collect();
        let on: Vec<_> = services.iter().flat_map(|seats| numbers(seats)).collect();
        assert_eq!(on, [4, 5, 8, 9]);
        // One ends: the next one has its core.
        services.remove(2);
        assert_eq!(numbers(&start(1)), [8]);
        drop(services);
        assert!(process.0.lock().unwrap().is_empty(), "all is given back");
        assert_eq!(numbers(&start(3)), [4, 5, 8]);
    }

    #[test]
    fn shards_of_services_are_spread_evenly() {
        let (process, cores) = (process(), || list(0..3));
        let first = process.of_service(Pinning::AllCores, 4, cores);
        assert_eq!(numbers(&first), [0, 1, 2, 0]);
        let second = process.of_service(Pinning::AllCores, 4, cores);
        assert_eq!(numbers(&second), [1, 2, 0, 1]);
    }

    #[test]
    fn chosen_cores_are_taken_in_turn_and_count() {
        let (process, cores) = (process(), || list(0..4));
        let chosen = process.of_service(Pinning::Cores(vec![1, 0, 1]), 4, cores);
        assert_eq!(numbers(&chosen), [1, 0, 1, 1]);
        assert_eq!(
            numbers(&process.of_service(Pinning::AllCores, 3, cores)),
            [2, 3, 0]
        );
        for pinning in [Pinning::Off, Pinning::Cores(Vec::new())] {
            let unpinned = process.of_service(pinning, 2, cores);
            assert!(unpinned.len() == 2 && numbers(&unpinned).is_empty());
        }
    }

    #[test]
    fn a_process_without_a_list_of_cores_runs_unpinned() {
        let unpinned = process().of_service(Pinning::AllCores, 2, Vec::new);
        assert!(unpinned.len() == 2 && unpinned.iter().all(Option::is_none));
    }
}
