//! Promise: a timer's id is plain data: it is compared, sorted, hashed, and turned into a number
//! and back. Whatever number an id is made from, every call that takes it is safe, and each timer
//! has its one outcome.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, ManualClock, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);

/// The bits of the birth in the number of an id, and of the cell.
const BIRTH: u128 = (1 << 38) - 1;
const CELL_SHIFT: u32 = 64;
const SERVICE_SHIFT: u32 = 96;

fn service() -> (ManualClock, TimerService) {
    let clock = ManualClock::new();
    let service = TimerService::builder().clock(clock.clone()).start();
    (clock, service.unwrap())
}

#[test]
fn an_id_and_its_bits_name_the_same_timer() {
    let (_, service) = service();
    let mut ids = BTreeMap::new();
    for number in 0..10_000u32 {
        let id = service.schedule(MS * (number + 1), || ()).unwrap();
        assert_eq!(TimerId::from_bits(id.to_bits()), Some(id));
        ids.insert(id, number);
        // Used cells, whose generations have risen.
        if number % 3 == 0 {
            assert!(service.cancel(id) && ids.remove(&id).is_some());
        }
    }
    let bits: HashSet<_> = ids.keys().map(|id| id.to_bits()).collect();
    assert_eq!(bits.len(), ids.len(), "no two of them are equal");
    // The ids that `pending` gives are equal, and so are their bits.
    let pending: BTreeSet<_> = service.pending(0).map(|(id, _)| id.to_bits()).collect();
    assert_eq!(pending, bits.into_iter().collect::<BTreeSet<_>>());
    for bits in pending {
        let id = TimerId::from_bits(bits).unwrap();
        assert!(service.is_pending(id) && service.remaining(id).is_some());
        assert!(service.reschedule(id, MS) && service.cancel(id) && !service.cancel(id));
        assert!(ids.contains_key(&id));
    }
    assert!(service.is_empty());
}

#[test]
fn ids_are_sorted_as_they_are_compared() {
    let (_, one) = service();
    let (_, other) = service();
    let mut ids: Vec<_> = [&one, &other, &one, &other]
        .into_iter()
        .flat_map(|service| (0..50).map(|_| service.schedule(MS, || ()).unwrap()))
        .collect();
    ids.sort();
    for two in ids.windows(2) {
        assert!(two[0] < two[1]);
        assert_ne!(two[0], two[1]);
    }
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 200);
}

#[test]
fn bits_of_no_id_are_refused() {
    let (_, service) = service();
    let bits = service.schedule(MS, || ()).unwrap().to_bits();
    for bit in 38..64 {
        assert_eq!(TimerId::from_bits(bits | 1 << bit), None, "bit {bit}");
    }
    assert_eq!(
        TimerId::from_bits(bits & !(u128::MAX << SERVICE_SHIFT)),
        None
    );
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100_000 {
        let bits = random.u128(..);
        if let Some(id) = TimerId::from_bits(bits) {
            assert_eq!(id.to_bits(), bits);
        }
    }
}

/// Made-up ids of a service: any cell and birth, and such as are near to what there is.
fn forge(random: &mut fastrand::Rng, real: u128) -> TimerId {
    let service = real >> SERVICE_SHIFT;
    let cell = match random.u8(0..4) {
        0 => random.u32(..),
        1 => u32::MAX - random.u32(0..8_192),
        // The first pages, and the next ones, which are not there.
        2 => random.u32(0..40_000),
        _ => (real >> CELL_SHIFT) as u32,
    };
    let birth = match random.u8(0..4) {
        0 => random.u128(..) & BIRTH,
        1 => BIRTH - u128::from(random.u8(..)),
        2 => u128::from(random.u8(0..4)),
        _ => real & BIRTH,
    };
    let bits = service << SERVICE_SHIFT | u128::from(cell) << CELL_SHIFT | birth;
    TimerId::from_bits(bits).expect("the service has a number")
}

/// Every call with ids that nobody gave out, on threads that arm, move and cancel meanwhile. They
/// may hit a timer: then it is cancelled or moved, and counted as such.
#[test]
fn made_up_ids_do_no_harm() {
    const TIMERS: u64 = 20_000;
    let (clock, fired) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let sink = fired.clone();
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(move |batch: &mut Batch<'_, u64>| sink.lock().unwrap().extend(batch));
    let service = service.start().unwrap();
    let (runs, taken) = (Arc::new(AtomicU64::new(0)), Mutex::new(Vec::new()));
    for _ in 0..100 {
        let runs = runs.clone();
        let run = move || _ = runs.fetch_add(1, Ordering::Relaxed);
        service.every(MS * 10).start(run).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..2 {
            let (service, taken) = (&service, &taken);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for number in 0..TIMERS / 2 {
                    let number = thread * TIMERS / 2 + number;
                    let real = service.schedule(MS * random.u32(1..500), number).unwrap();
                    let mut forge = || forge(&mut random, real.to_bits());
                    taken.lock().unwrap().extend(service.take(forge()));
                    _ = service.cancel(forge());
                    _ = service.cancel_and_wait(forge());
                    _ = service.cancel_many([forge(), forge(), forge()]);
                    _ = service.reschedule(forge(), MS * 3);
                    _ = service.reschedule_at(forge(), Instant::now());
                    _ = service.reschedule_many([forge(), forge(), forge()], MS * 1_000_000);
                    _ = service.is_pending(forge());
                    _ = (service.remaining(forge()), service.deadline(forge()));
                    drop(service.guard(forge()));
                }
            });
        }
    });
    clock.advance(MS * 600);
    let unfired = service.stop();
    let stats = service.stats();
    let (fired, taken) = (fired.lock().unwrap(), taken.lock().unwrap());
    let seen = fired.iter().chain(&*taken).copied();
    let seen = seen.chain(unfired.into_iter().map(|unfired| unfired.payload));
    let mut all: Vec<_> = seen.collect();
    let seen = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), seen, "no payload came twice");
    let timers = stats.timers;
    assert_eq!(timers.armed, TIMERS + 100);
    assert_eq!(
        (
            timers.fired,
            timers.fired + timers.cancelled + timers.handed_back + timers.ended
        ),
        (fired.len() as u64, timers.armed),
        "each timer has one outcome"
    );
    assert!(timers.cancelled > 0 && timers.fired > 0 && !taken.is_empty());
    assert_eq!(stats.panics, 0);
}

/// Pages of one cell, and of two: the largest indices name no page of them.
#[test]
fn made_up_ids_do_no_harm_where_payloads_are_large() {
    fn try_all<const BYTES: usize>() {
        let service = TimerService::builder()
            .clock(ManualClock::new())
            .on_expire(|_: &mut Batch<'_, [u8; BYTES]>| ())
            .start()
            .unwrap();
        let real = service.schedule(MS, [1; BYTES]).unwrap();
        let mut random = fastrand::Rng::with_seed(BYTES as u64);
        for _ in 0..10_000 {
            let id = forge(&mut random, real.to_bits());
            if id != real {
                assert!(!service.cancel(id) && service.take(id).is_none());
                assert!(!service.is_pending(id) && !service.reschedule(id, MS));
                assert_eq!(service.remaining(id), None);
            }
        }
        assert!(service.cancel(real));
    }
    try_all::<1>();
    try_all::<2_000>();
    try_all::<40_000>();
}
