//! Worker: the thread of a shard. Takes turns, and sleeps as long as it may.
//!
//! Four sleeps, each of which ends when something is due:
//! - a **nap** to the next tick edge, when something is due there or messages come by the thousand: not announced, nobody rings (see the doorbell);
//! - a **long nap** while messages come and nobody has to ring: a 16th of the time since the last ring, or
//!   the time for some thousand messages, announced. So a stream of time-outs of 30 s costs some wake-ups
//!   a second, not one for each tick, and a stream of timers of 5 ms some rings a second;
//! - **linger**: while nothing comes, naps as long as the quiet has lasted, announced. So a server that arms and cancels a timeout of 30 s for each request
//!   on an otherwise empty wheel does not ring for each request;
//! - **deep sleep** to the next deadline, or for ever.
//!
//! With a spin margin a sleep ends so much before its time, and the thread spins for the rest; with an endless one it never sleeps.

use super::arrivals::{Arrivals, NAP_MIN_NS};
use super::budget::{Budget, Grid};
use super::turn::Shard;
use super::upkeep::Upkeep;
use super::{Count, Counters};
use crate::cell::Maintenance;
use crate::doorbell::{Doorbell, FOREVER, Look};
use crate::sync::{park, spin};
use crate::time::{Clock, TickLength};
use std::time::Duration;

/// A shard looks after a worker that may be held up after a tick, but neither sooner nor later.
const LOOK_MIN_NS: u64 = 100_000;
const LOOK_MAX_NS: u64 = 1_000_000;

/// How long the shard leaves workers alone that have enough to do. Less than they need for what waits.
const HELD_NAP: Duration = Duration::from_micros(250);

/// The same for workers of which none has begun anything in such a nap: they are blocked, or busy for longer.
const HELD_NAP_MAX: Duration = Duration::from_millis(1);

/// What a shard's thread needs of the service.
pub(crate) trait House {
    fn clock(&self) -> &Clock;
    fn tick(&self) -> TickLength;
    fn doorbell(&self) -> &Doorbell;
    fn counters(&self) -> &Counters;
    fn is_stopped(&self) -> bool;
    /// So much before its time a sleep ends, to spin for the rest.
    fn spin_ns(&self) -> u64;
    /// A shard may wake up once in this time, on average. Zero: as often as there is something due.
    fn wakeup_ns(&self) -> u64;
    /// Some upkeep of the arena.
    fn maintain(&self, now_ns: u64) -> Maintenance;
}

/// Takes turns until the service is stopped.
pub(crate) fn run(mut shard: Shard, house: &impl House) {
    set_timer_slack();
    // SAFETY: this thread is the shard's only one, and calls it once, before `sleep`.
    unsafe { house.doorbell().attach() };
    let tick = house.tick();
    let mut upkeep = Upkeep::new();
    let mut arrivals = Arrivals::new(house.clock().now_ns());
    let mut drained_asleep = 0;
    let mut budget = Budget::new(house.wakeup_ns(), tick, house.clock().now_ns());
    let mut held_nap = HELD_NAP;
    while !house.is_stopped() {
        let turn = shard.turn(now_of(house));
        let now_ns = turn.now_ns;
        let drained = turn.drained + std::mem::take(&mut drained_asleep);
        arrivals.note(now_ns, drained, house.doorbell().rings());
        upkeep.note(drained > 0 || turn.dispatched > 0);
        if turn.held {
            held_nap = if turn.dispatched > 0 { HELD_NAP } else { HELD_NAP_MAX.min(2 * held_nap) };
            park(Some(held_nap));
            house.counters().add(Count::Wakeups, 1);
            continue;
        }
        if turn.more {
            continue;
        }
        let upkeep_ns = upkeep.run(now_ns, |now_ns| house.maintain(now_ns));
        let nap_until_ns = if let Some(nap_ns) = arrivals.nap_ns(now_ns, tick.nanos()) {
            now_ns + nap_ns
        } else if shard.settle() || shard.tidy() {
            continue;
        } else {
            u64::MAX
        };
        let look_ns = if turn.look { now_ns + tick.nanos().clamp(LOOK_MIN_NS, LOOK_MAX_NS) } else { u64::MAX };
        drained_asleep = sleep(&mut shard, house, budget.spend(now_ns), tick.floor(now_ns), nap_until_ns.min(upkeep_ns).min(look_ns));
    }
}

/// The clock, as turns and drains read it: of one type, so that the drain is compiled once.
fn now_of(house: &impl House) -> impl Fn() -> u64 + Copy {
    || house.clock().now_ns()
}

/// Sleeps from the tick `now` to the next event, or to the tick of `until_ns` if that comes first. Returns how many messages it took in.
fn sleep(shard: &mut Shard, house: &impl House, grid: Grid, now: u64, until_ns: u64) -> u64 {
    let tick = house.tick();
    let until = if until_ns == u64::MAX { FOREVER } else { tick.floor(until_ns) };
    let event = |shard: &Shard| shard.next_event().map_or(FOREVER, |event| grid.wake_at(event));
    let nap_to = grid.wake_at(now + 1);
    let wake_at = event(shard).min(until).max(nap_to);
    let timeout = |wake_at| {
        let left_ns = || tick.start(wake_at).saturating_sub(house.clock().now_ns());
        (wake_at != FOREVER).then(|| Duration::from_nanos(left_ns().saturating_sub(house.spin_ns())).min(house.clock().sleep_max()))
    };
    if house.spin_ns() == u64::MAX || timeout(wake_at) == Some(Duration::ZERO) {
        // Within the margin. A sleep of no time takes as long as any other: 23 to 25 us on a virtual machine.
        spin_until(wake_at, house, || shard.has_messages() || house.is_stopped());
        return 0;
    }
    // A nap of a long tick is announced too: a backlog may ring.
    let announced = wake_at > nap_to || tick.nanos() > NAP_MIN_NS;
    let mut drained = 0;
    let look = || {
        if house.is_stopped() || until == FOREVER && shard.has_messages() {
            return Look::Work;
        }
        // What came before the announcement is taken in, and may be due sooner. What comes after it rings if it is due before that.
        drained = shard.drain(now_of(house));
        let wake_at = event(shard).min(wake_at);
        match timeout(wake_at) {
            Some(Duration::ZERO) => Look::Work,
            timeout => Look::Park(timeout),
        }
    };
    // SAFETY: this thread attached to the doorbell in `run`.
    let slept = announced && unsafe { house.doorbell().wait(wake_at, look) };
    let work_waits = || shard.has_messages() || house.is_stopped();
    if announced && !slept {
        return drained;
    }
    if !slept {
        // While messages keep coming they are taken once a tick, and once a millisecond at least, not one by one.
        park(timeout(nap_to).map(|left| left.min(Duration::from_nanos(NAP_MIN_NS))));
    }
    house.counters().add(Count::Wakeups, 1);
    if house.spin_ns() > 0 {
        // A nap ends at the next tick, whatever the sleep was meant for.
        spin_until(if slept { wake_at } else { nap_to }, house, work_waits);
    }
    drained
}

/// Spins to the tick `wake_at`, if that is not further off than the margin, or until there is work; a millisecond at most, so that a shard that spins takes turns, and
/// is seen to.
fn spin_until(wake_at: u64, house: &impl House, work_waits: impl Fn() -> bool) {
    let end_ns = house.clock().now_ns().saturating_add(NAP_MIN_NS);
    while !work_waits() {
        let now_ns = house.clock().now_ns();
        let left_ns = house.tick().start(wake_at).saturating_sub(now_ns);
        if left_ns == 0 || left_ns > house.spin_ns() || now_ns >= end_ns {
            return;
        }
        spin();
    }
}

/// Lets the kernel wake this thread at the time it asked for, not up to 50 us later.
fn set_timer_slack() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: changes only the calling thread's timer slack; the arguments are what the call takes. If it fails, timers are later.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
    }
}
