//! Cores: the core to which each shard's thread is pinned.
//!
//! One count for the whole process: how many shards of all services are pinned to each core. So
//! services that do not know of each other are spread over the cores. Whoever starts a service
//! takes a [`Seat`] for each shard. The shard's thread gives it back when it ends.
//!
//! The counts have no lock. A shard's thread may be at them when its process is forked: a lock
//! would stay locked in the child, whose own services could not start.
//!
//! Other processes are not in that count. So each process begins at another core of the list, by
//! its number, and goes round from there. That is blind to what they do: a thread that others hold
//! up lets go of its core (`tenure.rs`). When it takes one again, it prefers the one on which the
//! system runs it by then. One that has the core of a thread that sends it much moves to a core
//! that has none.

use super::settings::Pinning;
use super::tenure::{Step, Tenure};
use crate::engine::affinity::{
    Affinity, core_of_this_thread, cores_of_this_thread, pin_this_thread,
    preemptions_of_this_thread,
};
use crate::engine::company::Cores;
use crate::shard::wakes::Wakes;
use crate::sync::{Ordering, StaticU32};

/// The number of cores in the system's set of cores. `pin_this_thread` panics beyond.
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

/// How many shards are pinned to each core, by the core's number. Cores beyond are not counted:
/// nobody can be pinned to them.
struct Seats([StaticU32; CORES_MAX]);

/// A shard's place on a core, until it is dropped.
struct Seat {
    core: usize,
    seats: &'static Seats,
}

/// What a shard's thread knows of its core. Whoever starts the service makes it, and gives it to
/// the thread.
pub(super) struct Tenant {
    /// The cores that it may have.
    cores: Vec<usize>,
    seat: Option<Seat>,
    may_let_go: bool,
    /// Where the thread may run while it is not pinned. `None`: it does not let go.
    free: Option<Affinity>,
    tenure: Tenure,
}

/// The cores that a service's shard may have: all, or the one that the user has chosen for it.
fn choice(pinning: &Pinning, number: usize, all: impl FnOnce() -> Vec<usize>) -> Vec<usize> {
    match pinning {
        Pinning::AllCores => all(),
        Pinning::Cores(cores) if cores.is_empty() => Vec::new(),
        Pinning::Cores(cores) => vec![cores[number % cores.len()]],
        Pinning::Off => Vec::new(),
    }
}

/// The position in the list at which a process begins, by its number. Numbers are mixed, because
/// those of processes that start together have much in common (murmur3's last steps).
fn first_of_process(cores: &[usize], process: u32) -> usize {
    let mut mixed = process;
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85EB_CA6B);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35);
    let part = u64::from(mixed ^ mixed >> 16);
    ((part * cores.len() as u64) >> 32) as usize
}

/// The core with the fewest shards, and how many it has. Of several it is the first one, from the
/// position `first` on.
fn least_loaded(
    cores: &[usize],
    first: usize,
    load: impl Fn(usize) -> u32,
) -> Option<(usize, u32)> {
    let (before, from) = cores.split_at(first.min(cores.len()));
    let mut least = None;
    for &core in from.iter().chain(before) {
        let load = load(core);
        if least.is_none_or(|(_, fewest)| load < fewest) {
            least = Some((core, load));
        }
    }
    least
}

/// Those of the cores that have no thread that sends much.
fn without(cores: &[usize], company: Cores) -> Vec<usize> {
    let others = cores.iter().copied();
    others.filter(|&core| !company.has(core)).collect()
}

impl Tenant {
    /// Takes a seat for a service's shard, among the cores that the calling thread may use.
    pub(super) fn new(pinning: &Pinning, number: usize) -> Self {
        let cores = choice(pinning, number, cores_of_this_thread);
        let seat = SEATS.take(&cores, first_of_process(&cores, std::process::id()));
        Self {
            may_let_go: *pinning == Pinning::AllCores && cores.len() > 1,
            cores,
            seat,
            free: None,
            tenure: Tenure::default(),
        }
    }

    /// Pins the calling thread, the shard's. One that cannot be pinned gives its seat back at once.
    pub(super) fn take_up(&mut self) {
        self.free = Affinity::of_this_thread().filter(|_| self.may_let_go);
        self.seat = self.seat.take().filter(Seat::pin);
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.seat.is_some()
    }

    /// Lets go of the core, or takes another one, by how the calling thread, this shard's, has
    /// woken up, and by the cores of the threads that have sent it much.
    pub(super) fn review(&mut self, now_ns: u64, wakes: Wakes, company: Cores) {
        let Some(free) = &self.free else { return };
        let shares = |here| company.has(here) && !without(&self.cores, company).is_empty();
        let in_company = core_of_this_thread().is_some_and(shares);
        let preemptions = preemptions_of_this_thread();
        match self.tenure.step(now_ns, wakes, preemptions, in_company) {
            Step::Stay => (),
            Step::Move => {
                let others = without(&self.cores, company);
                let seat = SEATS.take(&others, first_of_process(&others, std::process::id()));
                self.seat = seat.filter(Seat::pin);
                if self.seat.is_none() {
                    // It is on the core that it had, if this fails, too.
                    let _ = free.restore();
                }
            }
            Step::LetGo if free.restore() => self.seat = None,
            Step::LetGo => self.free = None,
            Step::PinAgain => {
                let here = core_of_this_thread();
                let at = self.cores.iter().position(|&core| Some(core) == here);
                let seat = SEATS.take(&self.cores, at.unwrap_or(0));
                self.seat = seat.filter(Seat::pin);
            }
        }
    }
}

impl Seats {
    const fn new() -> Self {
        Self([const { StaticU32::new(0) }; CORES_MAX])
    }

    /// A seat on one of these cores.
    fn take(&'static self, cores: &[usize], first: usize) -> Option<Seat> {
        loop {
            let (core, load) = least_loaded(cores, first, |core| self.load(core))?;
            let seat = || Seat { core, seats: self };
            let Some(count) = self.0.get(core) else {
                return Some(seat());
            };
            // Ordering: Relaxed. Only the number matters: if it is still the one that was seen, the
            // core has the fewest shards, unless one was given back meanwhile.
            let outcome =
                count.compare_exchange(load, load + 1, Ordering::Relaxed, Ordering::Relaxed);
            if outcome.is_ok() {
                return Some(seat());
            }
        }
    }

    /// How many shards are pinned to the core.
    fn load(&self, core: usize) -> u32 {
        // Ordering: Relaxed. The exchange of `take` decides.
        let load = |count: &StaticU32| count.load(Ordering::Relaxed);
        self.0.get(core).map_or(0, load)
    }

    fn give_back(&self, core: usize) {
        if let Some(count) = self.0.get(core) {
            // Ordering: Relaxed. Only the number matters.
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Seat {
    /// Pins the calling thread to the core. Returns whether that worked.
    fn pin(&self) -> bool {
        self.core < CORES_MAX && pin_this_thread(self.core)
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
    use crate::engine::company::Company;

    /// A process of its own.
    fn process() -> &'static Seats {
        Box::leak(Box::new(Seats::new()))
    }

    fn numbers(seats: &[Seat]) -> Vec<usize> {
        seats.iter().map(|seat| seat.core).collect()
    }

    /// The seats of a service's shards, in a process that begins at this position in the list.
    fn start(
        process: &'static Seats,
        pinning: &Pinning,
        shards: usize,
        cores: &[usize],
        first: usize,
    ) -> Vec<Seat> {
        let all = || cores.to_vec();
        let seat = |number| process.take(&choice(pinning, number, all), first);
        (0..shards).filter_map(seat).collect()
    }

    #[test]
    fn the_first_of_the_least_loaded_cores_is_taken_and_the_list_goes_round() {
        let chosen = |loads: [u32; 4], first| {
            let least = least_loaded(&[0, 1, 2, 3], first, |core| loads[core]);
            let (core, load) = least.unwrap();
            assert_eq!(load, loads[core]);
            core
        };
        assert_eq!(chosen([0, 0, 0, 0], 0), 0);
        assert_eq!(chosen([0, 0, 0, 0], 2), 2);
        assert_eq!(chosen([0, 0, 1, 1], 2), 0);
        assert_eq!(chosen([2, 2, 1, 1], 3), 3);
        assert_eq!(chosen([3, 2, 2, 1], 1), 3);
        assert_eq!(chosen([1, 1, 1, 1], 9), 0);
        assert_eq!(least_loaded(&[], 0, |_| 0), None);
    }

    #[test]
    fn cores_of_threads_that_send_much_are_left_out() {
        let company = Company::new();
        [5, 2].into_iter().for_each(|core| company.note(core));
        let company = company.take();
        assert_eq!(without(&[0, 2, 4, 5], company), [0, 4]);
        assert_eq!(without(&[2, 5], company), []);
    }

    /// Processes know nothing of each other. Their numbers follow each other, at a distance: each
    /// may have started threads, which have numbers too.
    #[test]
    fn processes_are_spread_over_the_cores() {
        for cores in [2, 3, 4, 8, 64] {
            for distance in 1..=40 {
                let mut loads = vec![0; cores];
                for process in 0..40 * cores as u32 {
                    let all: Vec<_> = (0..cores).collect();
                    let first = first_of_process(&all, 30_000 + process * distance);
                    let seats = start(self::process(), &Pinning::AllCores, 1, &all, first);
                    loads[seats[0].core] += 1;
                }
                let (least, most) = (loads.iter().min(), loads.iter().max());
                let is_even = least > Some(&15) && most < Some(&70);
                assert!(is_even, "{cores} cores, each {distance}: {loads:?}");
            }
        }
    }

    #[test]
    fn four_services_are_on_four_cores() {
        let process = process();
        let start =
            |shards, first| start(process, &Pinning::AllCores, shards, &[4, 5, 8, 9], first);
        let mut services: Vec<_> = (0..4).map(|_| start(1, 2)).collect();
        let on: Vec<_> = services.iter().flat_map(|seats| numbers(seats)).collect();
        assert_eq!(on, [8, 9, 4, 5]);
        // One ends: the next one has its core.
        services.remove(2);
        assert_eq!(numbers(&start(1, 2)), [4]);
        drop(services);
        let is_free = (0..CORES_MAX).all(|core| process.load(core) == 0);
        assert!(is_free, "all is given back");
        assert_eq!(numbers(&start(3, 0)), [4, 5, 8]);
    }

    #[test]
    fn shards_of_services_are_spread_evenly() {
        let process = process();
        let first = start(process, &Pinning::AllCores, 4, &[0, 1, 2], 1);
        assert_eq!(numbers(&first), [1, 2, 0, 1]);
        let second = start(process, &Pinning::AllCores, 4, &[0, 1, 2], 1);
        assert_eq!(numbers(&second), [2, 0, 1, 2]);
    }

    #[test]
    fn shards_that_start_at_one_instant_are_spread_evenly() {
        let (process, all) = (process(), [0, 1, 2, 3]);
        let take = || {
            let seats: Vec<_> = (0..100).filter_map(|_| process.take(&all, 1)).collect();
            std::mem::forget(seats);
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(all.map(|core| process.load(core)), [100; 4]);
    }

    #[test]
    fn chosen_cores_are_taken_in_turn_and_count() {
        let (process, all) = (process(), [0, 1, 2, 3]);
        let chosen = start(process, &Pinning::Cores(vec![1, 0, 1]), 4, &all, 3);
        assert_eq!(numbers(&chosen), [1, 0, 1, 1]);
        let beside = start(process, &Pinning::AllCores, 3, &all, 3);
        assert_eq!(numbers(&beside), [3, 2, 3]);
        for pinning in [Pinning::Off, Pinning::Cores(Vec::new())] {
            assert!(start(process, &pinning, 2, &all, 0).is_empty());
        }
    }

    #[test]
    fn a_process_without_a_list_of_cores_runs_unpinned() {
        assert!(start(process(), &Pinning::AllCores, 2, &[], 0).is_empty());
        assert_eq!(first_of_process(&[], 7), 0);
    }
}
