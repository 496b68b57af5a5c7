//! Crew: what each producer's thread does, and with what. Its memory is touched before the service
//! starts.

use super::plan::{CancelledBy, Plan};
use super::ring::{Receiver, Sender, ring};
use super::service::Timers;
use super::touched::touched;
use fastrand::Rng;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The delay of the timers that are cancelled.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Pairs between two looks whether it is over.
const BLOCK: usize = 256;

/// Looks at the ring before a thread that waits for the other one naps. A nap is shorter than what
/// is in the ring, or fits into it, takes; and it is no work that would count as CPU time.
const SPINS: usize = 64;
const NAP: Duration = Duration::from_micros(20);

/// A producer.
// A random one writes to its `Rng` at each pair: the producers, which are beside each other, share
// no cache line.
#[repr(align(128))]
pub(super) struct Producer<H> {
    /// See [`pin`](crate::system::pin).
    pub(super) core: usize,
    role: Role<H>,
}

enum Role<H> {
    /// Arms, and cancels what was armed a window of inserts ago; a random one if it can choose.
    Both(Vec<Option<H>>, Option<Rng>),
    Arms(Sender<H>),
    /// Cancels what has this many behind it.
    Cancels(Receiver<H>, usize),
}

/// What a producer has done while the windows were full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) pairs: u64,
    pub(super) time: Duration,
}

/// The producers of a plan. Of a pair the one that cancels has the core after the one that arms.
pub(super) fn producers<H: Send>(plan: &Plan) -> Vec<Producer<H>> {
    let mut producers = Vec::new();
    for number in 0..plan.threads {
        let mut add = |core, role| producers.push(Producer { core, role });
        let rng = || Rng::with_seed(plan.seed.wrapping_mul(4007).wrapping_add(number as u64));
        match plan.cancelled_by {
            CancelledBy::Same => add(number, Role::Both(touched(plan.window), None)),
            CancelledBy::Random => add(number, Role::Both(touched(plan.window), Some(rng()))),
            CancelledBy::Other => {
                let (sender, receiver) = ring(plan.window);
                add(number, Role::Arms(sender));
                add(number + 1, Role::Cancels(receiver, plan.window));
            }
        }
    }
    producers
}

impl<H: Send> Producer<H> {
    /// Arms and cancels until it is over, and then cancels all that is left.
    pub(super) fn work(
        &mut self,
        timers: &mut impl Timers<Handle = H>,
        is_over: &AtomicBool,
    ) -> Done {
        let done = match &mut self.role {
            Role::Both(slots, rng) => both(slots, rng.as_mut(), timers, is_over),
            Role::Arms(sender) => arms(sender, timers, is_over),
            Role::Cancels(receiver, held) => cancels(receiver, *held, timers, is_over),
        };
        timers.settle();
        done
    }
}

/// Whether the flight is over.
fn is_set(is_over: &AtomicBool) -> bool {
    // Ordering: Relaxed. Nothing is read that was written before it.
    is_over.load(Relaxed)
}

fn both<H>(
    slots: &mut [Option<H>],
    rng: Option<&mut Rng>,
    timers: &mut impl Timers<Handle = H>,
    is_over: &AtomicBool,
) -> Done {
    for block in slots.chunks_mut(BLOCK) {
        if is_set(is_over) {
            break;
        }
        block.fill_with(|| Some(timers.arm(TIMEOUT, 0)));
    }
    let window = slots.len();
    let done = if let Some(rng) = rng {
        pairs(slots, || rng.usize(..window), timers, is_over)
    } else {
        let mut place = window - 1;
        let in_order = || {
            place = if place + 1 == window { 0 } else { place + 1 };
            place
        };
        pairs(slots, in_order, timers, is_over)
    };
    let left = slots.iter_mut().filter_map(Option::take);
    left.for_each(|handle| timers.cancel(handle));
    done
}

/// Arms into the place that is next, and cancels what was there.
fn pairs<H>(
    slots: &mut [Option<H>],
    mut next: impl FnMut() -> usize,
    timers: &mut impl Timers<Handle = H>,
    is_over: &AtomicBool,
) -> Done {
    let (start, mut pairs) = (Instant::now(), 0);
    while !is_set(is_over) {
        for _ in 0..BLOCK {
            let armed = timers.arm(TIMEOUT, 0);
            if let Some(before) = slots[next()].replace(armed) {
                timers.cancel(before);
            }
        }
        pairs += BLOCK as u64;
    }
    let time = start.elapsed();
    Done { pairs, time }
}

/// The pairs are counted where they end, by [`cancels`].
fn arms<H>(
    sender: &mut Sender<H>,
    timers: &mut impl Timers<Handle = H>,
    is_over: &AtomicBool,
) -> Done {
    while !is_set(is_over) {
        for _ in 0..BLOCK {
            let (mut handle, mut looks) = (timers.arm(TIMEOUT, 0), 0);
            // The other thread pops until the ring is closed.
            while let Err(back) = sender.push(handle) {
                handle = back;
                wait(&mut looks);
            }
        }
    }
    sender.close();
    Done::default()
}

fn cancels<H>(
    receiver: &mut Receiver<H>,
    held: usize,
    timers: &mut impl Timers<Handle = H>,
    is_over: &AtomicBool,
) -> Done {
    let (mut start, mut pairs, mut looks) = (None, 0, 0);
    while !is_set(is_over) {
        for _ in 0..BLOCK {
            let Some(handle) = receiver.pop_beyond(held) else {
                wait(&mut looks);
                break;
            };
            // The window is full.
            start.get_or_insert_with(Instant::now);
            looks = 0;
            timers.cancel(handle);
            pairs += 1;
        }
    }
    let time = start.map_or(Duration::ZERO, |start| start.elapsed());
    while !receiver.is_over() {
        match receiver.pop_beyond(0) {
            Some(handle) => timers.cancel(handle),
            None => wait(&mut looks),
        }
    }
    Done { pairs, time }
}

fn wait(looks: &mut usize) {
    *looks += 1;
    if *looks < SPINS {
        spin_loop();
    } else {
        thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Checks what is cancelled, and ends the work after some pairs.
    struct Checked<'a> {
        armed: u64,
        pending: VecDeque<u64>,
        in_order: bool,
        last: u64,
        pending_max: usize,
        is_over: &'a AtomicBool,
    }

    impl Timers for Checked<'_> {
        type Handle = u64;

        fn arm(&mut self, delay: Duration, due_ns: u64) -> u64 {
            assert_eq!((delay, due_ns), (TIMEOUT, 0));
            self.armed += 1;
            if self.armed == self.last {
                self.is_over.store(true, Relaxed);
            }
            self.pending.push_back(self.armed);
            self.pending_max = self.pending_max.max(self.pending.len());
            self.armed
        }

        fn cancel(&mut self, handle: u64) {
            let place = self.pending.iter().position(|&pending| pending == handle);
            let place = place.expect("it is pending");
            self.pending.remove(place);
            let is_running = !self.is_over.load(Relaxed);
            assert!(!self.in_order || !is_running || place == 0);
        }
    }

    fn plan(cancelled_by: CancelledBy, window: usize) -> Plan {
        Plan {
            window,
            threads: 1,
            cancelled_by,
            time: Duration::ZERO,
            has_probe: true,
            seed: 1,
            resident_bytes_max: u64::MAX,
        }
    }

    #[test]
    fn one_thread_leaves_a_window_pending() {
        for (cancelled_by, window) in [
            (CancelledBy::Same, 1),
            (CancelledBy::Same, 1_000),
            (CancelledBy::Random, 1),
            (CancelledBy::Random, 1_000),
        ] {
            let is_over = AtomicBool::new(false);
            let mut timers = Checked {
                armed: 0,
                pending: VecDeque::new(),
                in_order: cancelled_by == CancelledBy::Same,
                last: 10_000,
                pending_max: 0,
                is_over: &is_over,
            };
            let mut producers = producers(&plan(cancelled_by, window));
            let done = producers[0].work(&mut timers, &is_over);
            assert_eq!(producers.len(), 1);
            assert_eq!(timers.pending.len(), 0, "all are cancelled at the end");
            assert_eq!(timers.pending_max, window + 1);
            assert_eq!(timers.armed, done.pairs + window as u64);
        }
    }

    #[test]
    fn two_threads_share_the_pairs() {
        /// Arms numbers, and counts cancels.
        #[derive(Default)]
        struct Counts([u64; 2]);

        impl Timers for Counts {
            type Handle = u64;

            fn arm(&mut self, _: Duration, _: u64) -> u64 {
                self.0[0] += 1;
                self.0[0]
            }

            fn cancel(&mut self, handle: u64) {
                self.0[1] += 1;
                assert_eq!(self.0[1], handle, "in order");
            }
        }

        let plan = plan(CancelledBy::Other, 1_000);
        let is_over = &AtomicBool::new(false);
        let mut producers = producers(&plan);
        assert_eq!(producers.len(), plan.producers());
        let worked = thread::scope(|scope| {
            let work = |producer: &mut Producer<u64>| {
                let mut counts = Counts::default();
                let done = producer.work(&mut counts, is_over);
                (done.pairs, counts.0)
            };
            let mut threads = Vec::new();
            for producer in &mut producers {
                threads.push(scope.spawn(move || work(producer)));
            }
            is_over.store(true, Relaxed);
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        let [(arms_pairs, [armed, 0]), (pairs, [0, cancelled])] = worked[..] else {
            panic!("{worked:?}");
        };
        assert_eq!((arms_pairs, armed), (0, cancelled));
        assert!(pairs <= cancelled);
    }
}
