//! Limits: rates and limits of calls, which callers set and remove.

use super::Simulation;
use super::ledger::{RATES, Since};
use std::num::NonZeroU32;
use std::time::Duration;
use wheelwork_durable::{DurableClient, DurableError, Rate, RuleFor, Ruled};

/// For which timers there are limits. (A key of a scene begins so.)
fn rules(is_fleet: bool) -> [RuleFor; 4] {
    let third = if is_fleet { "lasting" } else { "batch" };
    let kinds = ["steady", "shaky", third].map(|kind| RuleFor::Kind(kind.into()));
    let [steady, shaky, third] = kinds;
    [steady, shaky, third, RuleFor::Keys("a".into())]
}

fn ruled<'a>(handle: &'a DurableClient, of: &RuleFor) -> Ruled<'a> {
    match of {
        RuleFor::Kind(kind) => handle.kind(kind),
        RuleFor::Keys(prefix) => handle.keys_with(prefix),
        _ => unreachable!("there is no other rule"),
    }
}

impl Simulation {
    /// In some seeds a limit is set, or removed, by chance.
    pub fn change_limits(&self) {
        let (node, handle, of, rate, calls) = {
            let mut world = self.shared.lock();
            let awake = world.awake();
            let node = world.limits.choice(&awake).copied();
            let is_time = world.has_limits && world.limits.u8(..10) == 0;
            let Some(node) = node.filter(|_| is_time) else {
                return;
            };
            let of = rules(world.scene.is_fleet())[world.limits.usize(..4)].clone();
            let (per_second, burst) = RATES[world.limits.usize(..RATES.len())];
            let burst = NonZeroU32::new(burst).unwrap();
            let rate = Rate::new(per_second, burst).filter(|_| world.limits.u8(..3) > 0);
            let calls = NonZeroU32::new(world.limits.u32(..3));
            world.note(format_args!("{of} gets {rate:?} and {calls:?} calls"));
            world.ledger.limits.change(&of);
            let handle = world.nodes[node].handle.clone();
            (node, handle, of, rate, calls)
        };
        let Some(handle) = handle else { return };
        let changed = self.shared.run(node, || {
            let rule = ruled(&handle, &of);
            match rate {
                Some(rate) => rule.set_rate(rate)?,
                None => rule.clear_rate()?,
            };
            match calls {
                Some(calls) => rule.set_calls(calls),
                None => rule.clear_calls(),
            }
        });
        let mut world = self.shared.lock();
        world.limits_changed(node, of, rate, calls, &changed);
    }

    /// The trouble has ceased: no limit is in the way any more.
    pub fn end_limits(&self) {
        let (node, handle, touched) = {
            let mut world = self.shared.lock();
            let Some(node) = world.awake().last().copied() else {
                return;
            };
            let handle = world.nodes[node].handle.clone();
            (
                node,
                handle,
                std::mem::take(&mut world.ledger.limits.to_end),
            )
        };
        let Some(handle) = handle else { return };
        for of in touched {
            let ended = self.shared.run(node, || {
                let rule = ruled(&handle, &of);
                rule.clear_rate().and(rule.clear_calls())
            });
            let mut world = self.shared.lock();
            world.ledger.limits.forget(&of);
            if let Err(error) = ended {
                world.check_error(node, "a limit", &error);
                world.ledger.limits.to_end.push(of);
            }
            world.trouble(Duration::ZERO);
        }
    }
}

/// How long it takes in a fleet until each node that works knows of a limit.
const KNOWN: Duration = Duration::from_secs(3);

impl super::world::World {
    fn limits_changed(
        &mut self,
        node: usize,
        of: RuleFor,
        rate: Option<Rate>,
        calls: Option<NonZeroU32>,
        changed: &Result<bool, DurableError>,
    ) {
        match changed {
            Ok(_) => {
                let (now, is_fleet) = (self.now(), self.scene.is_fleet());
                let calls = calls.map(NonZeroU32::get);
                // (Other nodes hear of it at their next scan, and have claimed some by then.)
                let since = match is_fleet {
                    true => Since {
                        from: now + self.lease + KNOWN,
                        more: 1.4,
                    },
                    false => Since {
                        from: now,
                        more: 0.0,
                    },
                };
                self.ledger.limits.hold(of, rate, calls, since);
            }
            Err(error) => self.check_error(node, "a limit", error),
        }
        // (What waits for a limit may all come at once.)
        self.trouble(Duration::ZERO);
    }
}
