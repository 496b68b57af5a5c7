//! Worker: the thread of a shard. Takes turns, and sleeps as long as it may.
//!
//! Three sleeps:
//! - a **nap** to the next tick edge, when something is due there: not announced, nobody rings (see the doorbell);
//! - **linger**: while nothing comes, naps as long as the quiet has lasted, announced. So a server that arms and cancels a timeout of 30 s for each request
//!   on an otherwise empty wheel does not ring for each request;
//! - **deep sleep** to the next deadline, or for ever.
//!
//! With a spin margin a sleep ends so much before its time, and the thread spins for the rest; with an endless one it never sleeps.

use super::turn::Shard;
use super::upkeep::Upkeep;
use super::{Count, Counters};
use crate::cell::Maintenance;
use crate::doorbell::{Doorbell, FOREVER};
use crate::sync::{park, spin};
use crate::time::{Clock, TickLength};
use std::time::Duration;

/// The shortest nap of a linger, unless the tick is longer.
const LINGER_NAP_NS: u64 = 1_000_000;

/// A shard lingers for so long after the last message.
const LINGER_NS: u64 = 2_000_000_000;

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
    let mut last_message_ns = 0;
    let mut held_nap = HELD_NAP;
    while !house.is_stopped() {
        let turn = shard.turn(|| house.clock().now_ns());
        let now_ns = turn.now_ns;
        if turn.drained > 0 {
            last_message_ns = now_ns;
        }
        upkeep.note(turn.drained > 0 || turn.dispatched > 0);
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
        let quiet_ns = now_ns - last_message_ns;
        let nap_until_ns = if quiet_ns < LINGER_NS.max(tick.nanos()) {
            now_ns + quiet_ns.max(LINGER_NAP_NS).max(tick.nanos())
        } else if shard.settle() || shard.tidy() {
            continue;
        } else {
            u64::MAX
        };
        sleep(&shard, house, tick.floor(now_ns), nap_until_ns.min(upkeep_ns));
    }
}

/// Sleeps from the tick `now` to the next event, or to the tick of `until_ns` if that comes first.
fn sleep(shard: &Shard, house: &impl House, now: u64, until_ns: u64) {
    let tick = house.tick();
    let until = if until_ns == u64::MAX { FOREVER } else { tick.floor(until_ns) };
    let wake_at = shard.next_event().unwrap_or(FOREVER).min(until).max(now + 1);
    let timeout = |wake_at| {
        let left_ns = || tick.start(wake_at).saturating_sub(house.clock().now_ns());
        (wake_at != FOREVER).then(|| Duration::from_nanos(left_ns().saturating_sub(house.spin_ns())).min(house.clock().sleep_max()))
    };
    let work_waits = || shard.has_messages() || house.is_stopped();
    if house.spin_ns() == u64::MAX || timeout(wake_at) == Some(Duration::ZERO) {
        // Within the margin. A sleep of no time takes as long as any other: 23 to 25 us on a virtual machine.
        return spin_until(wake_at, house, work_waits);
    }
    // A nap of a long tick is announced too: a backlog may ring.
    let announced = wake_at > now + 1 || tick.nanos() > LINGER_NAP_NS;
    // SAFETY: this thread attached to the doorbell in `run`.
    let slept = announced && unsafe { house.doorbell().wait(wake_at, timeout(wake_at), work_waits) };
    if !slept {
        // While messages keep coming they are taken once a tick, and once a millisecond at least, not one by one.
        park(timeout(now + 1).map(|left| left.min(Duration::from_nanos(LINGER_NAP_NS))));
    }
    house.counters().add(Count::Wakeups, 1);
    if house.spin_ns() > 0 {
        // A nap ends at the next tick, whatever the sleep was meant for.
        spin_until(if slept { wake_at } else { now + 1 }, house, work_waits);
    }
}

/// Spins to the tick `wake_at`, if that is not further off than the margin, or until there is work; a millisecond at most, so that a shard that spins takes turns, and
/// is seen to.
fn spin_until(wake_at: u64, house: &impl House, work_waits: impl Fn() -> bool) {
    let end_ns = house.clock().now_ns().saturating_add(LINGER_NAP_NS);
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
