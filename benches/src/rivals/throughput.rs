//! W1 to W4 and W8: how fast timers are armed, cancelled and moved, and what it costs. Delays and choices are made before the clock starts.

use crate::crew::{self, Cost};
use crate::job::Job;
use crate::line::Figures;
use crate::memory;
use crate::subjects::{Producer, Subject};
use crate::workload::Workload;
use fastrand::Rng;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The delay of a request timeout, and of a heartbeat's.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timers that are armed before the first one is cancelled, in W2b.
pub(crate) const WINDOW: usize = 1_000;

/// Producers take pairs and steps in blocks as they come along: one that shares its core with a service's thread takes fewer.
const BLOCK: usize = 4_096;

/// Blocks of operations that the producers share.
struct Blocks {
    number: usize,
    next: AtomicUsize,
}

impl Blocks {
    fn of(job: &Job) -> Self {
        Self { number: job.operations().div_ceil(BLOCK), next: AtomicUsize::new(0) }
    }

    /// The calling producer's, one after the other.
    fn taken(&self) -> impl Iterator<Item = usize> {
        // Ordering: Relaxed. Numbers only.
        std::iter::from_fn(|| Some(self.next.fetch_add(1, Relaxed)).filter(|&block| block < self.number))
    }

    fn operations(&self) -> usize {
        self.number * BLOCK
    }

    /// A producer's even share of them, in operations; one that takes more begins its choices anew.
    fn share(&self, job: &Job) -> usize {
        self.number.div_ceil(job.threads) * BLOCK
    }
}

/// What a producer owns: a slot for each of its timers, touched before the clock starts.
pub(crate) struct Own<H> {
    pub(crate) slots: Vec<Option<H>>,
    pub(crate) delays: Vec<Duration>,
    rng: Rng,
}

impl<H> Own<H> {
    /// The timers shared out among the threads.
    pub(crate) fn shares(job: &Job) -> Vec<Self> {
        let share = |thread: usize| job.timers * (thread + 1) / job.threads - job.timers * thread / job.threads;
        let own = |thread| {
            let mut rng = Rng::with_seed(job.seed.wrapping_mul(1009).wrapping_add(thread as u64));
            let delays = (0..share(thread)).map(|_| delay(&mut rng)).collect();
            Self { slots: (0..share(thread)).map(|_| None).collect(), delays, rng }
        };
        (0..job.threads).map(own).collect()
    }

    /// Random slots.
    fn order(&mut self, steps: usize) -> Vec<u32> {
        (0..steps).map(|_| self.rng.u32(..self.slots.len() as u32)).collect()
    }
}

/// Uniform from 1 s to 60 s.
fn delay(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.u64(1_000_000_000..=60_000_000_000))
}

/// The figures of a phase of so many operations.
fn figures(job: &Job, operations: usize, cost: &Cost) -> Figures {
    let (elapsed_s, millions) = (cost.elapsed.as_secs_f64(), operations as f64 / 1e6);
    Figures::from([
        ("mops", millions / elapsed_s),
        ("ns_per_op", elapsed_s * 1e3 * job.threads as f64 / millions),
        ("cpu_s_per_mop", cost.cpu.as_secs_f64() / millions),
        ("settle_ms", cost.settling.as_secs_f64() * 1e3),
    ])
}

/// The service is not taken down: the process ends.
pub(crate) fn start<S: Subject>() -> &'static S {
    Box::leak(Box::new(S::start()))
}

/// What most phases begin with.
pub(crate) fn arm<P: Producer>(producer: &mut P, own: &mut Own<P::Handle>) {
    producer.arm_many(&own.delays, &mut own.slots);
}

/// Arms a timer and cancels it: from then on the thread, and the service's threads, have what they need.
pub(crate) fn touch<P: Producer>(producer: &mut P, _: &mut Own<P::Handle>) {
    let handle = producer.arm(TIMEOUT, 0);
    producer.cancel(handle);
}

fn cancel<P: Producer>(producer: &mut P, own: &mut Own<P::Handle>) {
    producer.cancel_many(&mut own.slots);
}

/// W1: the cold one arms once; the other one has armed and cancelled as many before.
pub(crate) fn insert<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    let mut last = Cost::default();
    let phases: &[crew::Phase<'_, S::Producer, _>] = if job.workload == Workload::W1Cold { &[&arm] } else { &[&arm, &cancel, &arm] };
    crew::run(start::<S>(), &mut owns, phases, |_, cost| last = *cost);
    std::mem::forget(owns);
    figures(job, job.timers, &last)
}

/// W2, W2b: arm, and cancel what was armed `window` timers before.
pub(crate) fn window<S: Subject>(job: &Job, window: usize) -> Figures {
    let blocks = Blocks::of(job);
    let mut rings: Vec<Vec<Option<<S::Producer as Producer>::Handle>>> =
        (0..job.threads).map(|_| (0..window).map(|_| None).collect()).collect();
    let pairs = |producer: &mut S::Producer, ring: &mut Vec<Option<_>>| {
        let mut place = 0;
        for _ in blocks.taken() {
            for _ in 0..BLOCK {
                let armed = producer.arm(TIMEOUT, 0);
                let Some(slot) = ring.get_mut(place) else {
                    producer.cancel(armed);
                    continue;
                };
                if let Some(before) = slot.replace(armed) {
                    producer.cancel(before);
                }
                place = if place + 1 == window { 0 } else { place + 1 };
            }
        }
        producer.cancel_many(ring);
    };
    let mut last = Cost::default();
    crew::run(start::<S>(), &mut rings, &[&pairs], |_, cost| last = *cost);
    figures(job, blocks.operations(), &last)
}

/// W3: a step cancels a random own timer and arms another.
pub(crate) fn churn<S: Subject>(job: &Job) -> Figures {
    let blocks = Blocks::of(job);
    let mut owns: Vec<_> = Own::shares(job)
        .into_iter()
        .map(|mut own| {
            let order = own.order(blocks.share(job));
            let delays: Vec<Duration> = order.iter().map(|_| delay(&mut own.rng)).collect();
            (own, order, delays)
        })
        .collect();
    let mut last = Cost::default();
    type Churn<H> = (Own<H>, Vec<u32>, Vec<Duration>);
    let arm = |producer: &mut S::Producer, (own, ..): &mut Churn<_>| arm(producer, own);
    let churn = |producer: &mut S::Producer, (own, order, delays): &mut Churn<_>| {
        let choices = order.chunks(BLOCK).zip(delays.chunks(BLOCK)).cycle();
        for (_, (order, delays)) in blocks.taken().zip(choices) {
            for (&place, &delay) in order.iter().zip(delays) {
                let slot = &mut own.slots[place as usize];
                if let Some(before) = slot.take() {
                    producer.cancel(before);
                }
                *slot = Some(producer.arm(delay, 0));
            }
        }
    };
    crew::run(start::<S>(), &mut owns, &[&arm, &churn], |_, cost| last = *cost);
    std::mem::forget(owns);
    figures(job, blocks.operations(), &last)
}

/// W4: cancel all in random order; then wait until the memory is back.
pub(crate) fn cancel_all<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    let shuffle = |_: &mut S::Producer, own: &mut Own<_>| own.rng.shuffle(&mut own.slots);
    let (mut before, mut full, mut result) = (0, 0, Figures::default());
    crew::run(start::<S>(), &mut owns, &[&touch, &arm, &shuffle, &cancel], |phase, cost| match phase {
        0 => before = memory::trimmed_bytes(),
        1 => full = memory::trimmed_bytes(),
        2 => (),
        _ => {
            result = figures(job, job.timers, cost);
            let patience = Duration::from_secs(if job.quick { 1 } else { 5 });
            let (back, kept_bytes) = memory::wait_for_return(before, full, patience);
            result.extend(back.map(|time| ("back_ms", time.as_secs_f64() * 1e3)));
            result.extend([("kept_bytes", kept_bytes as f64 / job.timers as f64)]);
        }
    });
    result
}

/// W8: random own timers are moved to now + 30 s.
pub(crate) fn rearm<S: Subject>(job: &Job) -> Figures {
    let blocks = Blocks::of(job);
    let mut owns: Vec<_> = Own::shares(job)
        .into_iter()
        .map(|mut own| {
            let order = own.order(blocks.share(job));
            (own, order)
        })
        .collect();
    let mut last = Cost::default();
    let arm = |producer: &mut S::Producer, (own, _): &mut (Own<_>, Vec<u32>)| arm(producer, own);
    let rearm = |producer: &mut S::Producer, (own, order): &mut (Own<_>, Vec<u32>)| {
        for (_, order) in blocks.taken().zip(order.chunks(BLOCK).cycle()) {
            producer.rearm_many(&mut own.slots, order, TIMEOUT);
        }
    };
    crew::run(start::<S>(), &mut owns, &[&arm, &rearm], |_, cost| last = *cost);
    std::mem::forget(owns);
    figures(job, blocks.operations(), &last)
}
