//! Trouble: how the calls of a store end. A call is good, refused, slow, or its store fails before
//! or after it is made.

use super::world::{MS, World};
use std::time::Duration;

/// Calls of a store by a node that does not come to rest.
const CALLS_MAX: u32 = 100_000;

/// What is called of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Release,
    Renew,
    GiveBack,
    Commit,
    Load,
    Claim,
    HandOut,
    Clock,
    Look,
}

/// How a store is opened again that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopening {
    Refused,
    /// Nobody has had it meanwhile.
    GoesOn,
    /// Another process has had it.
    NewLife,
}

/// How a call of a store ends.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Good,
    /// The node is dead, or its store has failed before.
    Refused,
    /// The call is not made. The process dies, or its store has failed.
    Before {
        dies: bool,
    },
    /// The call is made, and its answer is lost. The process dies, or its store has failed.
    After {
        dies: bool,
    },
    /// Time passes before and after the call is made.
    Slow {
        before: Duration,
        after: Duration,
        /// The whole process stands still meanwhile.
        stands: bool,
    },
}

/// Trouble to come.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls that end well before.
    pub left: u32,
    /// Calls of this kind alone count.
    pub only: Option<Call>,
    pub fate: Fate,
}

impl Plan {
    /// One of the next calls is slow.
    pub fn slow(left: u32, before: Duration, after: Duration) -> Self {
        let stands = false;
        Self {
            left,
            only: None,
            fate: Fate::Slow {
                before,
                after,
                stands,
            },
        }
    }

    /// A call is made. `Some`: trouble comes with it.
    fn next(&mut self, call: Call) -> Option<Fate> {
        if self.only.is_some_and(|only| only != call) {
            return None;
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        Some(self.fate)
    }
}

impl World {
    /// How a call of the store ends.
    pub fn fate(&mut self, call: Call, number: usize) -> Fate {
        let (depth, is_fleet) = (self.depth(), self.scene.is_fleet());
        let node = &mut self.nodes[number];
        if node.has_failed || node.is_down {
            return Fate::Refused;
        }
        node.calls += 1;
        if node.calls > CALLS_MAX {
            self.ledger.wrong("it takes turns without end");
            node.dies();
            return Fate::Refused;
        }
        let is_rare = !is_fleet && matches!(call, Call::Clock | Call::Look);
        if !self.has_trouble || is_rare && self.rng.u8(..8) > 0 {
            return Fate::Good;
        }
        let takes_over = call == Call::Renew && self.ledger.leases.is_some_free(self.base);
        if self.nodes[number].plan.is_none() && takes_over && self.rng.bool() {
            self.nodes[number].plan = Some(self.late_take_over());
        }
        let node = &mut self.nodes[number];
        let Some(fate) = node.plan.as_mut().and_then(|plan| plan.next(call)) else {
            return Fate::Good;
        };
        // (Time passes in one place at a time.)
        let is_slow = matches!(fate, Fate::Slow { .. });
        if is_slow && is_fleet && (depth > 1 || node.is_in_store) {
            return Fate::Good;
        }
        node.plan = None;
        self.note(format_args!("{call:?} of node {number} is fated: {fate:?}"));
        fate
    }

    /// How a store is opened again. In a fleet leases may end meanwhile; then others take them.
    pub fn reopening(&mut self, number: usize) -> Reopening {
        let (chance, life) = (self.heal.u8(..4), self.heal.u8(..5));
        let now = self.now();
        let is_fleet = self.scene.is_fleet();
        let node = &self.nodes[number];
        let how = match () {
            () if node.has_failed => Reopening::Refused,
            () if !self.has_trouble => Reopening::GoesOn,
            () if chance == 0 || node.away_until.is_some_and(|until| now < until) => {
                Reopening::Refused
            }
            () if life == 0 && !is_fleet => Reopening::NewLife,
            () => Reopening::GoesOn,
        };
        self.note(format_args!(
            "the store of node {number} is opened again: {how:?}"
        ));
        how
    }

    /// Plans trouble for one of the next calls of a node's store.
    pub fn plan_trouble(&mut self, node: usize) {
        let plan = match self.scene.is_fleet() {
            false => self.trouble_of_a_process(),
            true if self.heal.u8(..4) == 0 => self.outage(),
            true if self.rng.u8(..10) < 4 => self.late_answer(),
            true => self.trouble_of_a_node(),
        };
        self.nodes[node].plan = Some(plan);
    }

    fn trouble_of_a_process(&mut self) -> Plan {
        let (left, dies) = (self.rng.u32(..6), self.rng.bool());
        let only = None;
        match self.rng.u8(..8) {
            0 => Plan {
                left,
                only,
                fate: Fate::Before { dies },
            },
            1 | 2 => Plan {
                left,
                only,
                fate: Fate::After { dies },
            },
            _ => {
                let mut wait = || MS * self.rng.u32(..40) * self.rng.u32(..2);
                Plan::slow(left, wait(), wait())
            }
        }
    }

    /// A node's store fails, and comes back if it may.
    fn outage(&mut self) -> Plan {
        let fate = match self.heal.bool() {
            true => Fate::Before { dies: false },
            false => Fate::After { dies: false },
        };
        Plan {
            left: self.heal.u32(..5),
            only: self.heal.bool().then_some(Call::Commit),
            fate,
        }
    }

    fn trouble_of_a_node(&mut self) -> Plan {
        let left = self.rng.u32(..5);
        let lease = self.lease;
        let fate = match self.rng.u8(..10) {
            0 => Fate::Before {
                dies: self.heal.bool(),
            },
            1 => Fate::After {
                dies: self.heal.bool(),
            },
            _ => {
                let mut wait = || match self.rng.u8(..8) {
                    0..4 => MS * self.rng.u32(..60),
                    4 => lease.mul_f64(0.3 + self.rng.f64() * 1.2),
                    _ => Duration::ZERO,
                };
                Fate::Slow {
                    before: wait(),
                    after: wait(),
                    stands: self.rng.bool(),
                }
            }
        };
        let calls = [Call::Renew, Call::Claim, Call::Commit, Call::Load];
        let only = self.rng.bool().then(|| calls[self.rng.usize(..4)]);
        Plan { left, only, fate }
    }

    /// An answer about leases comes when they end, or later.
    fn late_answer(&mut self) -> Plan {
        let calls = [Call::Renew, Call::Renew, Call::Claim];
        let call = calls[self.rng.usize(..3)];
        let after = self.lease.mul_f64(0.8 + self.rng.f64() * 0.6);
        self.late(call, after)
    }

    /// A partition is taken over, and the answer is late.
    fn late_take_over(&mut self) -> Plan {
        let after = match self.rng.bool() {
            true => MS * self.rng.u32(1..60),
            false => self.lease.mul_f64(self.rng.f64()),
        };
        self.late(Call::Renew, after)
    }

    /// The next answer to this call comes late.
    fn late(&mut self, call: Call, after: Duration) -> Plan {
        Plan {
            left: 0,
            only: Some(call),
            fate: Fate::Slow {
                before: Duration::ZERO,
                after,
                stands: self.rng.bool(),
            },
        }
    }
}
