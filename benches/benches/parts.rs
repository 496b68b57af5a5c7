//! The parts by the clock: lane, claim, magazines, wheel and doorbell, each on one thread. Only
//! ratios of runs in turn say something.

#[path = "../src/instructions/setup.rs"]
mod setup;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use setup::{Cell, Exchange, Lane, SLOT, at_once, file_all, in_one_slot, spread, wheel_of};
use std::hint::black_box;
use std::time::Duration;
use wheelwork::internals::{Doorbell, Entry, Wheel};

/// Operations of one measurement, where it has several.
const OPERATIONS: usize = 1_000;

fn parts(criterion: &mut Criterion) {
    let (mut lane, cell, mut exchange) = (Lane::new(), Cell::new(), Exchange::new());
    many(criterion, "lane/push_and_drain", || {
        lane.push_and_drain(OPERATIONS)
    });
    one(criterion, "claim/arm_and_claim_id", || {
        cell.claim_id(black_box(7))
    });
    one(criterion, "claim/arm_and_claim_due", || {
        cell.claim_due(black_box(7))
    });
    many(criterion, "magazine/exchange", || {
        exchange.exchange(OPERATIONS)
    });
    // The shard is awake.
    let doorbell = Doorbell::new();
    one(criterion, "doorbell/ring", || {
        doorbell.ring(black_box(30_000))
    });
    let advance = |wheel: &mut Wheel, now| _ = wheel.advance(now, |due| _ = black_box(due));
    let entries = spread(OPERATIONS);
    in_wheel(criterion, "insert", &[], |wheel| file_all(wheel, &entries));
    in_wheel(criterion, "advance", &at_once(OPERATIONS), |wheel| {
        advance(wheel, 1)
    });
    in_wheel(criterion, "cascade", &in_one_slot(OPERATIONS), |wheel| {
        advance(wheel, SLOT)
    });
}

fn one(criterion: &mut Criterion, name: &str, mut work: impl FnMut()) {
    criterion.bench_function(name, |bencher| bencher.iter(&mut work));
}

fn many(criterion: &mut Criterion, name: &str, mut work: impl FnMut()) {
    let (group, name) = name.split_once('/').expect("it has both");
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    group.bench_function(name, |bencher| bencher.iter(&mut work));
}

/// In a new wheel with these each time.
fn in_wheel(
    criterion: &mut Criterion,
    name: &str,
    entries: &[Entry],
    mut work: impl FnMut(&mut Wheel),
) {
    let mut group = criterion.benchmark_group("wheel");
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(|| wheel_of(entries), &mut work, BatchSize::SmallInput);
    });
}

/// Half a minute for all of them.
fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group!(name = all; config = short(); targets = parts);
criterion_main!(all);
