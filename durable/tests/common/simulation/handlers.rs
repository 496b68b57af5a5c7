//! Handlers of a simulation.

use super::super::simulated::{Said, end_by_chance};
use super::acts::Place;
use super::world::Shared;
use wheelwork_durable::{Delivery, HandlerResult};

impl Shared {
    /// A handler for one timer.
    pub fn deliver(&self, delivery: &Delivery, life: u32) -> HandlerResult {
        let (end, acts) = {
            let mut world = self.lock();
            if world.is_over(life) {
                return Ok(());
            }
            let now = world.now();
            world.ledger.began(delivery, now);
            let has_trouble = world.has_trouble;
            let end = end_by_chance(delivery.kind(), &mut world.rng, has_trouble);
            let acts = world.rng.u8(..4) * world.rng.u8(..2);
            (end, if has_trouble { acts } else { 0 })
        };
        for _ in 0..acts {
            self.act(Place::Handler);
        }
        if self.lock().is_over(life) {
            return Ok(());
        }
        self.finish((), delivery, end)
    }

    /// A handler for several. It may answer for some of them only.
    pub fn deliver_all(&self, deliveries: &[Delivery], life: u32) -> Vec<HandlerResult> {
        let answered = {
            let mut world = self.lock();
            match world.rng.u8(..20) {
                0 => world.rng.usize(..=deliveries.len()),
                _ => deliveries.len(),
            }
        };
        let results = deliveries
            .iter()
            .map(|delivery| self.deliver(delivery, life))
            .take(answered)
            .collect();
        let mut world = self.lock();
        let now = world.now();
        for delivery in &deliveries[answered..] {
            if !world.is_over(life) {
                world.ledger.began(delivery, now);
                world.ledger.said(delivery.id(), Said::Failed);
            }
        }
        results
    }
}
