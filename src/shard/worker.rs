//! Worker: the thread of a shard. It takes turns, and sleeps between them.
//!
//! The sleeps (nap, long nap, linger, deep sleep, held) are in the README of this room.

use super::arrivals::{Arrivals, NAP_MIN_NS};
use super::budget::{Budget, Grid};
use super::counters::{Count, Counters};
use super::turn::{Shard, Turn};
use super::upkeep::Upkeep;
use super::wakes::Wakes;
use crate::cell::Maintenance;
use crate::cold_drop::ColdDrop;
use crate::dispatch::LookAgain;
use crate::doorbell::{Doorbell, FOREVER, SecondLook};
use crate::sync::{park, spin};
use crate::time::{Clock, Nanos, Tick, TickLength, nanos};
use std::time::Duration;

/// When a worker may be stuck, its shard checks on it a tick later, but no sooner than this.
const LOOK_MIN_NS: u64 = 100_000;

/// Where the tick is longer than this, the shard checks after this time.
const LOOK_MAX: Duration = Duration::from_millis(1);

/// Compactions that were put off in a storm of cancels go on after this time.
const PUT_OFF: Duration = Duration::from_millis(1);

/// A check that is not urgent comes after this time.
const LOOK_LATER: Duration = Duration::from_millis(5);

/// How long a shard sleeps when the dispatcher has no room. The batches that wait keep the workers
/// busy for longer than this.
const HELD_NAP: Duration = Duration::from_micros(250);

/// The longest such sleep. While no worker begins a batch, because all are blocked or busy for
/// longer, each sleep is twice as long as the one before, up to this time.
const HELD_NAP_MAX: Duration = Duration::from_millis(1);

/// How often `review` is called: the code that has chosen this thread's core learns how the thread
/// wakes up there. In this time two busy threads that share a core take turns several times.
const REVIEW_NS: u64 = 32_000_000;

/// What a shard's thread needs of the service. The thread uses it as a trait object. So the
/// thread's loop does not depend on the type of the payloads, and is compiled once, with the
/// library.
pub(crate) trait Host {
    fn clock(&self) -> &Clock;
    fn tick(&self) -> TickLength;
    fn doorbell(&self) -> &Doorbell;
    fn counters(&self) -> &Counters;
    fn is_stopped(&self) -> bool;
    /// The spin margin: a sleep ends this much early, and the thread spins for the rest.
    fn spin_ns(&self) -> u64;
    /// A shard may wake up once in this time, on average. 0: no limit.
    fn wakeup_ns(&self) -> u64;
    /// Does some upkeep of the arena.
    fn maintain(&self, now_ns: u64) -> Maintenance;
}

/// Takes turns until the service is stopped. Calls `review` with the time and with how the thread
/// has woken up on its core, at most each 32 ms and only after a turn.
pub(crate) fn run(mut shard: ColdDrop<Shard>, host: &dyn Host, review: &mut dyn FnMut(u64, Wakes)) {
    set_timer_slack();
    // SAFETY: this thread is the shard's only one, and calls it once, before `sleep`.
    unsafe { host.doorbell().attach() };
    let shard = &mut *shard;
    let tick = host.tick();
    let mut upkeep = Upkeep::new();
    let mut arrivals = Arrivals::new(host.clock().now_ns());
    let mut drained_asleep = 0;
    let mut budget = Budget::new(host.wakeup_ns(), tick, host.clock().now_ns());
    let mut held_nap = HELD_NAP;
    let (mut wakes, mut review_at_ns) = (Wakes::default(), 0);
    // The tick from which on the next wake-up is not charged: the end of a nap before which nothing
    // is due.
    let mut free_from = u64::MAX;
    while !host.is_stopped() {
        let turn = turn(shard, host.clock());
        let now_ns = turn.now_ns;
        if now_ns >= review_at_ns {
            review_at_ns = now_ns.saturating_add(REVIEW_NS);
            review(now_ns, wakes);
        }
        let drained = turn.drained + std::mem::take(&mut drained_asleep);
        arrivals.note(now_ns, drained, host.doorbell().rings());
        upkeep.note(drained > 0 || turn.dispatched > 0 || turn.gave_back);
        if turn.more && !turn.held {
            continue;
        }
        // A held shard does its upkeep too: it has nothing else to do, and may be held for long.
        let upkeep_ns = upkeep.run(
            now_ns,
            |now_ns| host.maintain(now_ns),
            |now_ns| shard.shrink(now_ns),
        );
        if turn.held {
            held_nap = if turn.dispatched > 0 {
                HELD_NAP
            } else {
                HELD_NAP_MAX.min(2 * held_nap)
            };
            park(Some(held_nap));
            host.counters().add(Count::Wakeups, 1);
            continue;
        }
        let is_busy = arrivals.is_busy();
        let now = tick.floor(Nanos(now_ns)).0;
        let is_charged = turn.dispatched > 0 || now < free_from;
        let grid = budget.spend(now_ns, is_charged, is_busy);
        let nap_until_ns = if is_busy && grid.is_coarse() {
            // To the next point of the grid: such a nap is not announced, so timers share readings
            // of the clock meanwhile.
            now_ns
        } else if let Some(nap_ns) = arrivals.nap_ns(now_ns, tick.nanos()) {
            now_ns + nap_ns
        } else if shard.settle() || shard.tidy() {
            continue;
        } else {
            u64::MAX
        };
        let (look_ns, longest) = match turn.look {
            LookAgain::No => (u64::MAX, None),
            LookAgain::Soon => (now_ns + tick.nanos().max(LOOK_MIN_NS), Some(LOOK_MAX)),
            LookAgain::Later => (now_ns + nanos(LOOK_LATER), Some(LOOK_LATER)),
        };
        let (put_off_ns, longest) = if turn.put_off {
            (now_ns + nanos(PUT_OFF), shorter(longest, Some(PUT_OFF)))
        } else {
            (u64::MAX, longest)
        };
        let other_ns = upkeep_ns
            .min(look_ns)
            .min(put_off_ns)
            .min(shard.gives_back_at_ns());
        let nap_to = (nap_until_ns < other_ns).then(|| tick.floor(Nanos(nap_until_ns)).0);
        free_from = nap_to
            .filter(|&nap_to| nap_to <= next_wakeup(shard, grid))
            .unwrap_or(u64::MAX);
        drained_asleep = sleep(
            shard,
            host,
            &mut wakes,
            grid,
            now,
            nap_until_ns.min(other_ns),
            longest,
        );
    }
}

/// Takes one turn of a shard. All turns and drains get the clock from `now_of`, so that each is
/// compiled once.
pub(crate) fn turn(shard: &mut Shard, clock: &Clock) -> Turn {
    shard.turn(now_of(clock))
}

/// A function that reads the clock, for turns and drains. Each closure has a type of its own, and
/// code that takes one is compiled for each type: so this is the only place that makes one.
fn now_of(clock: &Clock) -> impl Fn() -> u64 + Copy {
    || clock.now_ns()
}

/// The tick at which to wake up for the next event: the event's own, or a later one that the budget
/// of wake-ups allows (`grid`). `FOREVER` if there is no event.
fn next_wakeup(shard: &Shard, grid: Grid) -> u64 {
    shard
        .next_event()
        .map_or(FOREVER, |event| grid.wake_at(event))
}

/// How long to park for a wake-up at this tick: until the spin margin before it. `None`: until
/// unparked.
fn sleep_time(wake_at: u64, host: &dyn Host) -> Option<Duration> {
    let left_ns = || {
        host.tick()
            .start(Tick(wake_at))
            .0
            .saturating_sub(host.clock().now_ns())
    };
    (wake_at != FOREVER).then(|| {
        Duration::from_nanos(left_ns().saturating_sub(host.spin_ns())).min(host.clock().sleep_max())
    })
}

/// The shorter of two times to park. `None`: until unparked.
fn shorter(time: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (time, other) {
        (Some(time), Some(other)) => Some(time.min(other)),
        (time, other) => time.or(other),
    }
}

/// Sleeps from the tick `now` to the next event, or to the tick of `until_ns` if that comes first,
/// for at most `longest`. Returns how many messages it drained.
fn sleep(
    shard: &mut Shard,
    host: &dyn Host,
    wakes: &mut Wakes,
    grid: Grid,
    now: u64,
    until_ns: u64,
    longest: Option<Duration>,
) -> u64 {
    let tick = host.tick();
    let until = if until_ns == u64::MAX {
        FOREVER
    } else {
        tick.floor(Nanos(until_ns)).0
    };
    let nap_to = grid.wake_at(now + 1);
    let wake_at = next_wakeup(shard, grid).min(until).max(nap_to);
    if host.spin_ns() == u64::MAX || sleep_time(wake_at, host) == Some(Duration::ZERO) {
        // The tick is within the spin margin, so the thread spins. Even a sleep of zero length
        // takes 23 to 25 us on a virtual machine.
        spin_until(wake_at, host, || shard.has_messages() || host.is_stopped());
        return 0;
    }
    // A nap to the end of a long tick is announced too, so that a backlog may ring.
    let announced = wake_at > nap_to || tick.nanos() > NAP_MIN_NS;
    let mut drained = 0;
    let mut ends_ns = u64::MAX;
    let end_of = |sleep: Option<Duration>| {
        sleep.map_or(u64::MAX, |sleep| {
            host.clock().now_ns().saturating_add(nanos(sleep))
        })
    };
    let look = || {
        // A thread that has ended wants a turn, which gives back the memory that it leaves. It
        // rings only once.
        let asks = shard.gives_back_at_ns() < until_ns;
        if asks || host.is_stopped() || until == FOREVER && shard.has_messages() {
            return SecondLook::Work;
        }
        // A timer that came before the announcement is drained here. It may be due before
        // `wake_at`. A timer that comes after the announcement rings if it is due before `wake_at`.
        drained = shard.drain(now_of(host.clock()));
        let wake_at = next_wakeup(shard, grid).min(wake_at);
        match sleep_time(wake_at, host) {
            Some(Duration::ZERO) => SecondLook::Work,
            timeout => {
                let timeout = shorter(timeout, longest);
                ends_ns = end_of(timeout);
                SecondLook::Park(timeout)
            }
        }
    };
    // SAFETY: this thread attached to the doorbell in `run`.
    let slept = announced && unsafe { host.doorbell().wait(wake_at, look) };
    let work_waits = || shard.has_messages() || host.is_stopped();
    if announced && !slept {
        return drained;
    }
    if !slept {
        // Messages that keep coming are drained once a tick, and not one by one. If the tick is
        // longer than a millisecond, they are drained once a millisecond.
        let left = sleep_time(nap_to, host).map(|left| left.min(Duration::from_nanos(NAP_MIN_NS)));
        let left = shorter(left, longest);
        ends_ns = end_of(left);
        park(left);
    }
    wakes.note(ends_ns, host.clock().now_ns());
    host.counters().add(Count::Wakeups, 1);
    if host.spin_ns() > 0 {
        // A nap ends at the next tick, even if `wake_at` is later.
        spin_until(if slept { wake_at } else { nap_to }, host, work_waits);
    }
    drained
}

/// Spins until the tick `wake_at`, or until there is work, but for at most a millisecond: a shard
/// that spins must take turns, so that the watchdog sees that it is alive. Returns at once if the
/// tick is further away than the spin margin.
fn spin_until(wake_at: u64, host: &dyn Host, work_waits: impl Fn() -> bool) {
    let (clock, due_ns, margin_ns) = (
        host.clock(),
        host.tick().start(Tick(wake_at)).0,
        host.spin_ns(),
    );
    let end_ns = clock.now_ns().saturating_add(NAP_MIN_NS);
    while !work_waits() {
        let now_ns = clock.now_ns();
        let left_ns = due_ns.saturating_sub(now_ns);
        if left_ns == 0 || left_ns > margin_ns || now_ns >= end_ns {
            return;
        }
        spin();
    }
}

/// Tells the kernel to wake this thread at the time that it asks for. By default the kernel may
/// wake it up to 50 us later.
fn set_timer_slack() {
    #[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
    {
        // SAFETY: changes only the calling thread's timer slack; the arguments are what the call
        // takes. If it fails, timers are later.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatch::{Dispatcher, EntryBatch};
    use crate::lane::Inbox;
    use crate::sync::{AtomicUsize, Ordering, ThreadBuilder};
    use std::sync::{Arc, mpsc};

    /// Long enough to mean that something hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// The shard is stopped after this number of checks.
    const LOOKS: usize = 5;

    /// A service with a long tick, and a dispatcher that always wants another check.
    #[derive(Clone)]
    struct Looked {
        looks: Arc<AtomicUsize>,
        again: LookAgain,
        clock: Clock,
        doorbell: Arc<Doorbell>,
        counters: Arc<Counters>,
    }

    impl Host for Looked {
        fn clock(&self) -> &Clock {
            &self.clock
        }

        fn tick(&self) -> TickLength {
            TickLength::new(HANGS.as_nanos() as u64 * 60)
        }

        fn doorbell(&self) -> &Doorbell {
            &self.doorbell
        }

        fn counters(&self) -> &Counters {
            &self.counters
        }

        fn is_stopped(&self) -> bool {
            // Ordering: Relaxed. The shard's thread alone counts.
            self.looks.load(Ordering::Relaxed) == LOOKS
        }

        fn spin_ns(&self) -> u64 {
            0
        }

        fn wakeup_ns(&self) -> u64 {
            0
        }

        fn maintain(&self, _: u64) -> Maintenance {
            Maintenance::Done
        }
    }

    impl Dispatcher for Looked {
        fn room(&self) -> usize {
            usize::MAX
        }

        fn submit(&mut self, _: &mut EntryBatch) {}

        fn look(&mut self) -> LookAgain {
            // Ordering: Relaxed. As above.
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.again
        }
    }

    #[test]
    fn a_shard_does_not_sleep_through_a_long_tick_when_it_has_to_look() {
        looks_again(LookAgain::Soon);
    }

    #[test]
    fn nor_when_it_has_to_look_later() {
        looks_again(LookAgain::Later);
    }

    fn looks_again(again: LookAgain) {
        let host = Looked {
            looks: Arc::default(),
            again,
            clock: Clock::monotonic(),
            doorbell: Arc::new(Doorbell::new()),
            counters: Arc::default(),
        };
        let (send, ended) = mpsc::channel();
        let run_until_over = move || {
            let (_inbox, drain) = Inbox::new();
            let counters = host.counters.clone();
            let shard = Shard::new(
                host.tick(),
                drain,
                0,
                1_000,
                Box::new(host.clone()),
                counters,
            );
            run(shard, &host, &mut |_, _| ());
            send.send(()).unwrap();
        };
        let thread = ThreadBuilder::new().spawn(run_until_over).unwrap();
        assert_eq!(ended.recv_timeout(HANGS), Ok(()), "it sleeps for a tick");
        thread.join().unwrap();
    }
}
