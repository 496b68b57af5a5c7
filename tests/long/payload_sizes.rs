//! Promise: payloads of any size. Each comes out as it went in, and none asks for much more memory
//! than it takes itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Large payloads are moved by way of the stack, and often where nothing is optimized.
const STACK: usize = 1024 * MIB;

/// `BYTES` bytes, of which the first and the last show a number. Counts the living.
struct Payload<const BYTES: usize> {
    bytes: [u8; BYTES],
    _alive: Arc<()>,
}

impl<const BYTES: usize> Payload<BYTES> {
    #[inline(never)]
    fn new(number: u8, alive: &Arc<()>) -> Self {
        let mut bytes = [0; BYTES];
        (bytes[0], bytes[BYTES - 1]) = (number, number);
        Self {
            bytes,
            _alive: alive.clone(),
        }
    }

    fn number(&self) -> u8 {
        assert_eq!(self.bytes[0], self.bytes[BYTES - 1]);
        self.bytes[0]
    }
}

/// Arms `timers` timers, up to 255, again and again, moves, takes, cancels and fires them, and
/// leaves some to `stop`.
fn comes_out_as_it_went_in<const BYTES: usize>(timers: u8, rounds: u8) {
    let alive = Arc::new(());
    let (clock, (send, fired)) = (ManualClock::new(), mpsc::channel());
    let handler = move |batch: &mut Batch<'_, Payload<BYTES>>| {
        batch.for_each(|payload| send.send(payload.number()).unwrap())
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(handler)
        .start()
        .unwrap();
    for _ in 0..rounds {
        let arm = |number| {
            service
                .schedule(MS * (1 + u32::from(number)), Payload::new(number, &alive))
                .unwrap_or_else(|_| panic!("full"))
        };
        let ids: Vec<TimerId> = (0..timers).map(arm).collect();
        assert!(ids.iter().all(|&id| service.is_pending(id)));
        let (mut taken, mut expected) = (0, Vec::new());
        for (&id, number) in ids.iter().zip(0..) {
            match number % 5 {
                0 => taken += usize::from(service.take(id).expect("it waits").number() == number),
                1 => assert!(service.cancel(id)),
                2 => {
                    assert!(service.reschedule(id, MS * 300));
                    assert!(service.reschedule(id, MS * 2));
                    expected.push(number);
                }
                _ => expected.push(number),
            }
        }
        assert_eq!(taken, usize::from(timers).div_ceil(5));
        clock.advance(MS * 300);
        let mut numbers: Vec<u8> = fired.try_iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, expected, "{BYTES} bytes");
        assert_eq!(Arc::strong_count(&alive), 1);
        assert!(
            ids.iter()
                .all(|&id| !service.is_pending(id) && !service.cancel(id)),
            "stale ids"
        );
    }
    service
        .schedule(MS, Payload::new(7, &alive))
        .unwrap_or_else(|_| panic!("full"));
    let unfired: Vec<u8> = service
        .stop()
        .iter()
        .map(|unfired| unfired.payload.number())
        .collect();
    assert_eq!((unfired, Arc::strong_count(&alive)), (vec![7], 1));
}

fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(test)
        .unwrap()
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn small_ones() {
    on_a_large_stack(|| {
        comes_out_as_it_went_in::<1>(255, 40);
        comes_out_as_it_went_in::<8>(255, 40);
        comes_out_as_it_went_in::<{ KIB - 24 }>(255, 20);
    });
}

/// A cell is 24 bytes larger than the array. These are sizes around those from which on a page has
/// fewer cells: half of them, less than a thread takes at a time, one.
#[test]
fn those_around_the_limits() {
    on_a_large_stack(|| {
        comes_out_as_it_went_in::<{ KIB - 23 }>(255, 20);
        comes_out_as_it_went_in::<{ 64 * KIB - 24 }>(130, 3);
        comes_out_as_it_went_in::<{ 64 * KIB - 23 }>(130, 3);
        comes_out_as_it_went_in::<{ MIB - 24 }>(9, 3);
        comes_out_as_it_went_in::<{ 4 * MIB - 24 }>(5, 3);
        comes_out_as_it_went_in::<{ 4 * MIB - 23 }>(5, 3);
    });
}

#[test]
fn one_of_sixteen_mebibytes() {
    on_a_large_stack(|| comes_out_as_it_went_in::<{ 16 * MIB }>(3, 3));
}

/// Threads that arm, and others that cancel: cells change hands, a page at a time where a page is a
/// cell.
#[test]
fn cells_of_large_ones_change_hands() {
    on_a_large_stack(cells_change_hands);
}

fn cells_change_hands() {
    const TIMERS: usize = 300;
    let alive = Arc::new(());
    let fired = Arc::new(AtomicUsize::new(0));
    let count = fired.clone();
    let handler = move |batch: &mut Batch<'_, Payload<{ 256 * KIB }>>| {
        _ = count.fetch_add(batch.count(), Ordering::Relaxed)
    };
    // The thread that fires them has a large stack too.
    let (give, jobs) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let fires = thread::Builder::new().stack_size(STACK);
    let fires = fires.spawn(move || jobs.into_iter().for_each(|job| job()));
    let service = TimerService::builder()
        .tick(MS)
        .dispatch(Dispatch::executor(move |job| give.send(job).unwrap()))
        .on_expire(handler)
        .start()
        .unwrap();
    let (send, ids) = mpsc::channel();
    let cancelled = thread::scope(|scope| {
        for _ in 0..2 {
            let (service, alive, send) = (&service, &alive, send.clone());
            let arm = move || {
                for number in 0..TIMERS {
                    let delay = if number % 2 == 0 { MS } else { MS * 100_000 };
                    let id = service
                        .schedule(delay, Payload::new(number as u8, alive))
                        .unwrap_or_else(|_| panic!("full"));
                    send.send((number, id)).unwrap();
                }
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, arm)
                .unwrap();
        }
        drop(send);
        let service = &service;
        let cancel = move || {
            ids.iter()
                .filter(|&(number, id)| number % 2 == 1 && service.cancel(id))
                .count()
        };
        let canceller = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, cancel)
            .unwrap();
        canceller.join().unwrap()
    });
    assert_eq!(cancelled, TIMERS);
    while fired.load(Ordering::Relaxed) < TIMERS {
        thread::yield_now();
    }
    assert_eq!((service.stop().len(), Arc::strong_count(&alive)), (0, 1));
    drop(service);
    fires.unwrap().join().unwrap();
}
