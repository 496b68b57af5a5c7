//! The parts by the clock: lane, claim, magazines, wheel and doorbell, each on one thread. Only ratios of runs in turn say something.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use wheelwork::door::{Arena, Doorbell, Entry, Inbox, Wheel};

/// Operations of one measurement.
const OPERATIONS: usize = 1_000;

/// The pace of a service at a tick of 1 ms.
const PACE: u64 = 16_384;

/// Ticks of a slot of the wheel's second level.
const SLOT: u64 = 256;

fn lane(criterion: &mut Criterion) {
    let (inbox, mut drain) = Inbox::new();
    let mut sender = inbox.attach();
    let entry = Entry::new(30_000, 1, 1);
    let mut group = criterion.benchmark_group("lane");
    group.throughput(Throughput::Elements(OPERATIONS as u64)).bench_function("push_and_drain", |bencher| {
        bencher.iter(|| {
            (0..OPERATIONS).for_each(|_| sender.push(black_box(entry)));
            drain.drain(|message, _| _ = black_box(message))
        });
    });
}

fn claim(criterion: &mut Criterion) {
    let arena = Arena::new();
    let cell = arena.take(&mut arena.magazines()).expect("there are enough");
    let mut group = criterion.benchmark_group("claim");
    group.bench_function("arm_and_claim_id", |bencher| {
        // SAFETY: the cell was taken, and each claim gives it back.
        bencher.iter(|| unsafe { arena.use_once(cell, black_box(7)) });
    });
    group.bench_function("arm_and_claim_due", |bencher| {
        bencher.iter(|| {
            // SAFETY: the cell was taken, and each claim gives it back.
            let entry = unsafe { arena.arm(cell, 1, black_box(7)) };
            // SAFETY: armed here, and nobody calls `maintain`.
            unsafe { arena.claim_due(entry) }
        });
    });
}

/// Cells that one thread takes and another puts back.
fn magazine(criterion: &mut Criterion) {
    let arena = Arena::new();
    let (mut arming, mut firing) = (arena.magazines(), arena.magazines());
    let mut group = criterion.benchmark_group("magazine");
    group.throughput(Throughput::Elements(OPERATIONS as u64)).bench_function("exchange", |bencher| {
        bencher.iter(|| {
            for _ in 0..OPERATIONS {
                let cell = arena.take(&mut arming).expect("there are enough");
                arena.put(&mut firing, cell);
            }
        });
    });
}

fn wheel(criterion: &mut Criterion) {
    let spread: Vec<_> = deadlines(|cell| 1_000 + u64::from(cell) * 7_919 % 59_000);
    let at_once = deadlines(|_| 1);
    let in_one_slot = deadlines(|cell| SLOT + 1 + u64::from(cell) % (SLOT - 1));
    let mut group = criterion.benchmark_group("wheel");
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    group.bench_function("insert", |bencher| {
        bencher.iter_batched_ref(|| filled(&[]), |wheel| spread.iter().for_each(|&entry| wheel.file(entry)), BatchSize::SmallInput);
    });
    group.bench_function("advance", |bencher| {
        bencher.iter_batched_ref(|| filled(&at_once), |wheel| wheel.advance(1, |due| _ = black_box(due)), BatchSize::SmallInput);
    });
    group.bench_function("cascade", |bencher| {
        bencher.iter_batched_ref(|| filled(&in_one_slot), |wheel| wheel.advance(SLOT, |due| _ = black_box(due)), BatchSize::SmallInput);
    });
}

fn deadlines(of: impl Fn(u32) -> u64) -> Vec<Entry> {
    (0..OPERATIONS as u32).map(|cell| Entry::new(of(cell), cell, 1)).collect()
}

/// A wheel with these.
fn filled(entries: &[Entry]) -> Wheel {
    let mut wheel = Wheel::new(0, PACE);
    entries.iter().for_each(|&entry| wheel.file(entry));
    wheel
}

/// The shard is awake.
fn doorbell(criterion: &mut Criterion) {
    let doorbell = Doorbell::new();
    criterion.bench_function("doorbell/ring", |bencher| bencher.iter(|| doorbell.ring(black_box(30_000))));
}

/// Half a minute for all of them.
fn short() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
}

criterion_group!(name = parts; config = short(); targets = lane, claim, magazine, wheel, doorbell);
criterion_main!(parts);
