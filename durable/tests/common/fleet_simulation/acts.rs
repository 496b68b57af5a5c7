//! Acts: what callers do on the nodes of a simulated fleet, by chance.

use super::super::simulated::Scene;
use super::world::Shared;
use wheelwork_durable::DurableClient;

impl Shared {
    /// A call that does not wait for its answer.
    pub fn act_in_store(&self, node: usize) {
        let Some(handle) = self.lock().nodes[node].handle.clone() else {
            return;
        };
        self.lock().counts().nested += 1;
        let arms = self.lock().rng.bool();
        if arms {
            self.schedule_ticket(node, &handle, None);
        } else {
            self.cancel_ticket(node, &handle);
        }
    }

    /// Does something on a node. Outside: nothing else is under way.
    pub fn act(&self, node: usize, is_outside: bool) {
        let (handle, act) = {
            let mut world = self.lock();
            world.counts().nested += u64::from(!is_outside);
            let state = &world.nodes[node];
            if state.has_failed {
                return;
            }
            if state.is_in_store {
                drop(world);
                return self.act_in_store(node);
            }
            (world.nodes[node].handle.clone(), world.rng.u8(..100))
        };
        let Some(handle) = handle else { return };
        match act {
            0..34 => self.schedule(node, &handle, None),
            34..40 => self.schedule_many(node, &handle),
            40..46 => self.schedule_ticket(node, &handle, None),
            46..84 => {
                if let Some(target) = self.some_target() {
                    self.end(node, &handle, &target, is_outside, act >= 66);
                }
            }
            84..88 => self.cancel_many(node, &handle),
            88..89 => {
                self.cancel_some_kind(node, &handle);
            }
            89..92 => self.schedule_recurring(node, &handle),
            92..96 => self.look(node, &handle),
            _ => self.dead(node, &handle),
        }
    }

    /// Asks what is there.
    fn look(&self, node: usize, handle: &DurableClient) {
        let limit = self.lock().rng.usize(..20);
        let rows = self.run(node, || handle.list(.., limit));
        let fleet = self.run(node, || handle.fleet());
        let mut world = self.lock();
        let error = rows.err().or(fleet.err());
        if let Some(error) = error {
            world.check_error(node, "list", &error);
        }
    }

    /// Looks at the dead, revives or discards one of them.
    fn dead(&self, node: usize, handle: &DurableClient) {
        let letters = self.run(node, || handle.dead_letters(None, usize::MAX));
        match letters {
            Ok(letters) => self.end_letter(node, handle, &letters),
            Err(error) => self.lock().check_error(node, "dead", &error),
        }
    }
}
