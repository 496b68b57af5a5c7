//! Passing: how time passes. In a fleet each node's clock follows the store's, except where a node
//! stands still. A process has one clock, whose time of day may be slewed.

use super::acts::Place;
use super::world::Shared;
use std::time::Duration;

/// A clock that is slewed is set by a little after each such time.
const SLEW_STEP: Duration = Duration::from_millis(10);

/// A turn that lasts so long counts as lag.
const STALL_MIN: Duration = Duration::from_secs(1);

impl Shared {
    /// Time passes for all.
    pub fn pass(&self, by: Duration) {
        let is_fleet = self.lock().scene.is_fleet();
        if is_fleet {
            self.pass_but(by, None);
        } else {
            self.advance(by);
        }
    }

    /// Time passes for a process.
    fn advance(&self, by: Duration) {
        let (clock, slew_ppm) = {
            let world = self.lock();
            let node = world.nodes.last().unwrap();
            (node.clock.clone(), world.slew_ppm)
        };
        if slew_ppm == 0 {
            return clock.advance(by);
        }
        let mut left = by;
        while !left.is_zero() {
            let step = SLEW_STEP.max(by / 1_000).min(left);
            clock.advance(step);
            left -= step;
            let by = step * slew_ppm.unsigned_abs() / 1_000_000;
            let now = clock.system_time();
            clock.set_system_time(if slew_ppm > 0 { now + by } else { now - by });
        }
    }

    /// Moves a node's clock to that of the store. `leaps`: past all that is due on the way.
    fn follow(&self, node: usize, leaps: bool) {
        let (clock, behind, is_driven) = {
            let world = self.lock();
            let state = &world.nodes[node];
            let time = state.time.as_ref().unwrap();
            let behind = time.behind(world.base);
            (state.clock.clone(), behind, state.is_driven)
        };
        if leaps || is_driven {
            clock.jump(behind);
        }
        if is_driven {
            return;
        }
        self.lock().nodes[node].is_driven = true;
        self.run(node, || {
            clock.advance(if leaps { Duration::ZERO } else { behind })
        });
        self.lock().nodes[node].is_driven = false;
    }

    /// Time passes in a fleet. The process of one node may stand still.
    fn pass_but(&self, by: Duration, stands: Option<usize>) {
        let end = self.lock().base + by;
        loop {
            let mut nodes = {
                let mut world = self.lock();
                let left = end.duration_since(world.base).unwrap_or_default();
                if left.is_zero() {
                    break;
                }
                let quantum = world.quantum;
                world.base += left.min(quantum);
                let mut nodes: Vec<_> = (0..world.nodes.len())
                    .filter(|&node| world.is_up(node) && Some(node) != stands)
                    .collect();
                world.rng.shuffle(&mut nodes);
                nodes
            };
            nodes.retain(|&node| self.is_awake(node));
            for node in nodes {
                if self.lock().is_up(node) {
                    self.follow(node, false);
                }
            }
        }
        // (What stood still finds that time has passed.)
        if let Some(node) = stands {
            let (clock, behind) = {
                let world = self.lock();
                let state = &world.nodes[node];
                let time = state.time.as_ref().unwrap();
                (state.clock.clone(), time.behind(world.base))
            };
            clock.jump(behind);
        }
    }

    /// Whether a node's clock goes. One that has stood still for long enough goes on.
    fn is_awake(&self, node: usize) -> bool {
        let mut world = self.lock();
        match world.nodes[node].paused {
            None => return true,
            Some(until) if until > world.base => return false,
            Some(_) => {}
        }
        world.nodes[node].paused = None;
        world.trouble(Duration::ZERO);
        world.note(format_args!("node {node} goes on"));
        drop(world);
        self.follow(node, true);
        true
    }

    /// Time passes while a node's store is at a call. Callers act on all nodes meanwhile.
    pub fn pass_in_store(&self, node: usize, time: Duration, stands: bool) {
        let (acts, others, is_fleet) = {
            let mut world = self.lock();
            let is_fleet = world.scene.is_fleet();
            if time.is_zero() || world.nodes[node].is_in_store && !is_fleet {
                return;
            }
            world.nodes[node].is_in_store = true;
            world.nested += 1;
            world.trouble(time);
            let acts = world.rng.u8(..if is_fleet { 3 } else { 4 });
            let others = is_fleet.then(|| world.others(node));
            (acts, others.unwrap_or_default(), is_fleet)
        };
        for _ in 0..if stands { 0 } else { acts } {
            self.act(node, Place::Store);
        }
        for other in others {
            self.act(other, Place::Handler);
        }
        if is_fleet {
            self.pass_but(time, stands.then_some(node));
        } else {
            self.pass_in_turn(node, time);
        }
        self.lock().nodes[node].is_in_store = false;
    }

    /// A call of a process's store lasts for this time, and so does the writer's turn: its stats
    /// tell.
    fn pass_in_turn(&self, node: usize, time: Duration) {
        let clock = self.lock().nodes[node].clock.clone();
        // (Inside a handler it passes later.)
        let before = clock.elapsed();
        clock.advance(time);
        let lasted = clock.elapsed() - before;
        let Some(handle) = self.lock().nodes[node].handle.clone() else {
            return;
        };
        let stats = handle.stats();
        let (turn, lag) = (stats.turn, stats.lag);
        let is_lag = turn < STALL_MIN || lag >= turn;
        if turn < lasted || !is_lag {
            let what = format!("a call lasts {lasted:?}, and the turn {turn:?}, the lag {lag:?}");
            self.lock().ledger.wrong(what);
        }
    }
}
