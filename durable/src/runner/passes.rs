//! Passes: ThrottleAsk, whether rules let timers go to their handler now. If not, the writer gets
//! them back, and holds them.

use crate::handler::delivery::Delivery;
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::queue::throttle::{Asked, Pass};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::DurableId;
use std::collections::HashSet;

/// What the calls of some timers have of their limits. They are given back by its end. Without a
/// limit it is empty.
#[derive(Default)]
pub(super) struct Passes(Vec<(DurableId, Pass)>);

impl Passes {
    /// ThrottleAsk: keeps the timers that may go to their handler now, and returns their passes.
    pub(super) fn ask(shared: &DurableShared, timers: &mut Vec<Delivery>) -> Self {
        let mut passes = Self::default();
        if shared.throttle.is_used() {
            timers.retain(|delivery| passes.add(shared, delivery));
        }
        passes
    }

    /// The same for one timer. `None`: it may not go to its handler now.
    pub(super) fn ask_for(shared: &DurableShared, delivery: &Delivery) -> Option<Self> {
        let mut passes = Self::default();
        let may_go = !shared.throttle.is_used() || passes.add(shared, delivery);
        may_go.then_some(passes)
    }

    fn add(&mut self, shared: &DurableShared, delivery: &Delivery) -> bool {
        if is_broken(DurableFault::ThrottleIgnored) {
            return true;
        }
        match shared.throttle.ask(&delivery.row, shared.elapsed()) {
            Asked::Free => {}
            Asked::Pass(pass) => self.0.push((delivery.row.id, pass)),
            Asked::Refused(refused) => {
                shared.tell(Told::Refused(Box::new(delivery.clone()), refused));
                return false;
            }
        }
        true
    }

    /// The handler is called with these timers. What was got for others is given back.
    pub(super) fn begin<'a>(&mut self, timers: impl IntoIterator<Item = &'a Delivery>) {
        if self.0.is_empty() {
            return;
        }
        let ids: HashSet<DurableId> = timers.into_iter().map(|timer| timer.row.id).collect();
        self.0.retain_mut(|(id, pass)| {
            let has_begun = ids.contains(id);
            if has_begun {
                pass.begin();
            }
            has_begun
        });
    }
}
