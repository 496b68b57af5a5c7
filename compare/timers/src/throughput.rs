//! W1 to W4 and W8: how fast timers are armed, cancelled and moved, and what it costs. Delays and
//! choices are made before the clock starts.

use crate::job::Job;
use crate::memory;
use crate::producers::{self, Cost, start};
use crate::subjects::{Producer, Subject};
use crate::workload::Workload;
use fastrand::Rng;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// The delay of a request timeout, and of a heartbeat's.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timers that are armed before the first one is cancelled, in W2b.
pub(crate) const WINDOW: usize = 1_000;

/// Producers take timers of W1, pairs and steps in blocks as they come along: one that shares its
/// core with a service's thread takes fewer.
const BLOCK: usize = 4_096;

/// Blocks of operations that the producers share. The last one may be shorter.
struct Blocks {
    operations: usize,
    next: AtomicUsize,
}

impl Blocks {
    /// Of a job's pairs or steps, all of them whole.
    fn of(job: &Job) -> Self {
        Self::with(job.operations().next_multiple_of(BLOCK))
    }

    fn with(operations: usize) -> Self {
        Self {
            operations,
            next: AtomicUsize::new(0),
        }
    }

    fn number(&self) -> usize {
        self.operations.div_ceil(BLOCK)
    }

    /// The sizes of the calling producer's, one after the other.
    fn taken(&self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(|| {
            // Ordering: Relaxed. Numbers only.
            let begin = self.next.fetch_add(1, Relaxed) * BLOCK;
            let left = self.operations.checked_sub(begin)?;
            (left > 0).then(|| left.min(BLOCK))
        })
    }

    /// A producer's even share of them, in operations; one that takes more begins its choices anew.
    fn share(&self, job: &Job) -> usize {
        self.number().div_ceil(job.threads) * BLOCK
    }
}

/// What a producer owns: a slot for each of its timers, touched before the clock starts.
pub(crate) struct Own<H> {
    slots: Vec<Option<H>>,
    pub(crate) delays: Vec<Duration>,
    /// Random slots, and a delay for each.
    order: Vec<u32>,
    new_delays: Vec<Duration>,
    rng: Rng,
}

impl<H> Own<H> {
    /// The timers shared out among the threads.
    pub(crate) fn shares(job: &Job) -> Vec<Self> {
        let begin = |thread: usize| job.timers * thread / job.threads;
        Self::each(job, |thread| begin(thread + 1) - begin(thread))
    }

    /// For each thread as many as there are in all: it arms the first of them, as it comes along.
    fn with_all(job: &Job) -> Vec<Self> {
        Self::each(job, |_| job.timers)
    }

    fn each(job: &Job, timers: impl Fn(usize) -> usize) -> Vec<Self> {
        let own = |thread| {
            let timers = timers(thread);
            let mut rng = Rng::with_seed(job.seed.wrapping_mul(1009).wrapping_add(thread as u64));
            Self {
                slots: (0..timers).map(|_| None).collect(),
                delays: (0..timers).map(|_| delay(&mut rng)).collect(),
                order: Vec::new(),
                new_delays: Vec::new(),
                rng,
            }
        };
        (0..job.threads).map(own).collect()
    }

    /// The same with an order for each one's share of the steps.
    fn ordered(job: &Job, blocks: &Blocks) -> Vec<Self> {
        let mut owns = Self::shares(job);
        for own in &mut owns {
            let slots = own.slots.len() as u32;
            let steps = 0..blocks.share(job);
            own.order = steps.map(|_| own.rng.u32(..slots)).collect();
        }
        owns
    }
}

/// Uniform from 1 s to 60 s.
fn delay(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.u64(1_000_000_000..=60_000_000_000))
}

/// The figures of a phase of `operations` operations.
fn figures(job: &Job, operations: usize, cost: &Cost) -> Figures {
    let (elapsed_s, millions) = (cost.elapsed.as_secs_f64(), operations as f64 / 1e6);
    Figures::from([
        ("mops", millions / elapsed_s),
        ("ns_per_op", elapsed_s * 1e3 * job.threads as f64 / millions),
        ("cpu_s_per_mop", cost.cpu.as_secs_f64() / millions),
        ("settle_ms", cost.settling.as_secs_f64() * 1e3),
    ])
}

/// What most phases begin with.
pub(crate) fn arm<P: Producer>(producer: &mut P, own: &mut Own<P::Handle>) {
    producer.arm_many(&own.delays, &mut own.slots);
}

/// Arms a timer and cancels it: from then on the thread, and the service's threads, have what they
/// need.
pub(crate) fn touch<P: Producer>(producer: &mut P, _: &mut Own<P::Handle>) {
    let handle = producer.arm(TIMEOUT, 0);
    producer.cancel(handle);
}

fn cancel<P: Producer>(producer: &mut P, own: &mut Own<P::Handle>) {
    producer.cancel_many(&mut own.slots);
}

/// W1: the cold one arms once. In the other one each producer has armed and cancelled as many as
/// all together arm then: whatever its part is, it has had the memory.
pub(crate) fn insert<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::with_all(job);
    let blocks = Blocks::with(job.timers);
    let arm_blocks = |producer: &mut S::Producer, own: &mut Own<_>| {
        let mut begin = 0;
        for timers in blocks.taken() {
            let these = begin..begin + timers;
            producer.arm_many(&own.delays[these.clone()], &mut own.slots[these]);
            begin += timers;
        }
    };
    let phases: &[producers::Phase<'_, S::Producer, _>] = match job.workload {
        Workload::W1Cold => &[&arm_blocks],
        _ => &[&arm, &cancel, &arm_blocks],
    };
    let cost = producers::run(start::<S>(job), &mut owns, phases, |_| ());
    std::mem::forget(owns);
    figures(job, job.timers, &cost)
}

/// W2, W2b: arm, and cancel what was armed `window` timers before. The second of two rounds counts.
pub(crate) fn window<S: Subject>(job: &Job, window: usize) -> Figures {
    let rounds = [Blocks::of(job), Blocks::of(job)];
    let ring = |_| (0..window).map(|_| None).collect();
    let mut rings: Vec<Vec<Option<_>>> = (0..job.threads).map(ring).collect();
    let pairs = |producer: &mut S::Producer, ring: &mut Vec<Option<_>>, blocks: &Blocks| {
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
    let [first, second] = rounds.each_ref();
    let phases: &[producers::Phase<'_, S::Producer, _>] = &[
        &|producer, ring| pairs(producer, ring, first),
        &|producer, ring| pairs(producer, ring, second),
    ];
    let cost = producers::run(start::<S>(job), &mut rings, phases, |_| ());
    figures(job, second.operations, &cost)
}

/// W3: a step cancels a random own timer and arms another.
pub(crate) fn churn<S: Subject>(job: &Job) -> Figures {
    let blocks = Blocks::of(job);
    let mut owns = Own::ordered(job, &blocks);
    for own in &mut owns {
        own.new_delays = own.order.iter().map(|_| delay(&mut own.rng)).collect();
    }
    let churn = |producer: &mut S::Producer, own: &mut Own<_>| {
        let choices = own.order.chunks(BLOCK).zip(own.new_delays.chunks(BLOCK));
        for (_, (order, delays)) in blocks.taken().zip(choices.cycle()) {
            for (&place, &delay) in order.iter().zip(delays) {
                let slot = &mut own.slots[place as usize];
                if let Some(before) = slot.take() {
                    producer.cancel(before);
                }
                *slot = Some(producer.arm(delay, 0));
            }
        }
    };
    let cost = producers::run(start::<S>(job), &mut owns, &[&arm, &churn], |_| ());
    std::mem::forget(owns);
    figures(job, blocks.operations, &cost)
}

/// W4: cancel all in random order; then wait until the memory is back. Of two rounds the first one
/// tells of the memory, and the second one how long it took.
pub(crate) fn cancel_all<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    let shuffle = |_: &mut S::Producer, own: &mut Own<_>| own.rng.shuffle(&mut own.slots);
    let patience = Duration::from_secs(if job.quick { 1 } else { 5 });
    let (mut before, mut full, mut returned) = (0, 0, (None, 0));
    let phases: &[producers::Phase<'_, S::Producer, _>] =
        &[&touch, &arm, &shuffle, &cancel, &arm, &shuffle, &cancel];
    let cost = producers::run(start::<S>(job), &mut owns, phases, |phase| match phase {
        0 => before = system::trimmed_bytes(),
        1 => full = system::trimmed_bytes(),
        3 => returned = memory::wait_for_return(before, full, patience),
        _ => (),
    });
    let (back, kept_bytes) = returned;
    let mut figures = figures(job, job.timers, &cost);
    figures.extend(back.map(|time| ("back_ms", time.as_secs_f64() * 1e3)));
    figures.extend([("kept_bytes", kept_bytes as f64 / job.timers as f64)]);
    figures
}

/// W8: random own timers are moved to now + 30 s.
pub(crate) fn rearm<S: Subject>(job: &Job) -> Figures {
    let blocks = Blocks::of(job);
    let mut owns = Own::ordered(job, &blocks);
    let rearm = |producer: &mut S::Producer, own: &mut Own<_>| {
        for (_, order) in blocks.taken().zip(own.order.chunks(BLOCK).cycle()) {
            producer.rearm_many(&mut own.slots, order, TIMEOUT);
        }
    };
    let cost = producers::run(start::<S>(job), &mut owns, &[&arm, &rearm], |_| ());
    std::mem::forget(owns);
    figures(job, blocks.operations, &cost)
}
