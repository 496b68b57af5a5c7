//! Process: what happens to a process alone. Its system clock is set and slewed, its store hangs,
//! and its executor is busy.

use super::acts::Place;
use super::scene::KEYS;
use super::trouble::Plan;
use super::world::MS;
use super::{LATE, Simulation};
use std::time::Duration;
use wheelwork_durable::StoreTime;
use wheelwork_durable::contract::Target;

const YEAR: u64 = 31_536_000;

impl Simulation {
    /// How late a timer may be, if no clock is set and nothing is slow. In a slew less: a second's
    /// part of it, and what is not noticed, twice.
    pub fn late(&self) -> Duration {
        match self.shared.lock().slew_ppm.unsigned_abs() {
            0 => LATE,
            ppm => 2 * (10 * MS + Duration::from_micros(ppm.into())),
        }
    }

    /// A process's system clock is slewed, or no more; or its store hangs in one of its next calls.
    pub fn slew_or_hang(&mut self) {
        let mut guard = self.shared.lock();
        let world = &mut *guard;
        if world.scene.is_fleet() {
            return;
        }
        let act = world.rare.u8(..16);
        match act {
            _ if !world.has_rare => {}
            0 | 1 => {
                world.slew_ppm = [0, 500, 4_900, 80_000, -4_900, -80_000][world.rare.usize(..6)];
                world.trouble(Duration::ZERO);
                let slew_ppm = world.slew_ppm;
                world.note(format_args!("the clock is slewed by {slew_ppm} ppm"));
            }
            2 => {
                let after = MS * world.rare.u32(1_000..20_000);
                let plan = Plan::slow(world.rare.u32(..6), Duration::ZERO, after);
                world.note("the store is to hang");
                world.nodes.last_mut().unwrap().plan = Some(plan);
            }
            3 | 4 if world.slew_ppm != 0 => {
                drop(guard);
                let next = self.to_next(Duration::from_secs(300));
                self.pass(next.unwrap_or_default() + 2 * self.late());
            }
            _ => {}
        }
    }

    pub fn set_clock(&self) {
        let mut world = self.shared.lock();
        let by = match world.rng.u8(..6) {
            0 => Duration::from_secs(world.rng.u64(..YEAR)),
            1 => Duration::from_secs(world.rng.u64(..100_000)),
            2 => Duration::from_micros(world.rng.u64(..8_000)),
            _ => world.delay().min(Duration::from_secs(30)),
        };
        let is_back = world.rng.bool();
        let now = world.store_time();
        world.set_clock(if is_back { now - by } else { now + by });
        world.trouble(Duration::ZERO);
        let how = if is_back { "back" } else { "forward" };
        world.note(format_args!("the clock is set {how} by {by:?}"));
    }

    /// The executor has no time for what comes due. Timers wait for it, and others for their
    /// places, while the clock is set.
    pub fn wait_for_executor(&self, node: usize) {
        let by = self.to_next(Duration::from_secs(30)).unwrap_or(MS);
        let more = {
            let mut world = self.shared.lock();
            world.note("the executor is busy");
            world.is_executor_busy = true;
            MS * world.rng.u32(..8_000)
        };
        self.pass(by + more);
        loop {
            let mut world = self.shared.lock();
            let chance = world.rng.u8(..8);
            if chance < 3 {
                let by = MS * world.rng.u32(..10_000);
                let to = world.store_time() - by;
                world.set_clock(to);
                world.trouble(Duration::ZERO);
                world.note(format_args!("the clock is set back by {by:?}"));
            }
            world.is_executor_busy = chance < 6;
            drop(world);
            if self.shared.run_first(node) {
                continue;
            }
            match chance {
                6.. => break,
                5 => self.shared.act(node, Place::Handler),
                _ => self.pass(MS * u32::from(chance)),
            }
        }
        // (What waited may have filled the window.)
        self.shared.lock().trouble(Duration::ZERO);
    }

    /// A call for a key while its timer comes due: by the wheel, or by the system's clock too.
    pub fn race(&self, node: usize) {
        let (key, wait) = {
            let world = self.shared.lock();
            let now = StoreTime::reading(world.store_time());
            let soon = now.after(Duration::from_secs(30));
            let holder = KEYS.iter().find_map(|&key| {
                let timer = world.ledger.find(&Target::Key(key.into()))?;
                let due = timer.row.due;
                (due > now && due < soon).then(|| (key, due.since(now)))
            });
            let Some(holder) = holder else { return };
            holder
        };
        self.pass(wait - MS);
        {
            let mut world = self.shared.lock();
            world.note(format_args!("a race for {key}"));
            if world.rng.bool() {
                let to = world.store_time() - MS * 4;
                world.set_clock(to);
            }
            let (before, after) = (MS * world.rng.u32(..4), MS * world.rng.u32(..4));
            world.nodes[node].plan = Some(Plan::slow(0, before, after));
        }
        self.shared.act_on(node, key);
    }
}
