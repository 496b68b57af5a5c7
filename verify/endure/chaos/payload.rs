//! Payload of a timer under chaos. It checks that it is whole, tells its line what
//! happens to it, and makes trouble of its own: it panics, blocks, and arms other timers when it
//! fires and when it is dropped.

use crate::ledger::{Ledger, Line, Outcome};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, IntoPayload, ServiceHandle, Task, TimerId};
use wheelwork_kit::mix::mix;

/// Payloads that come of payloads that come of ...
const DEPTH_MAX: u32 = 6;

/// What a service under chaos is armed with.
pub(crate) trait Cargo: IntoPayload<Self> + Send + Sized + 'static {
    fn pack(payload: Payload<Self>) -> Self;
}

impl Cargo for Task {
    fn pack(payload: Payload<Self>) -> Self {
        Self::new(move || payload.fire())
    }
}

/// A payload as a typed payload.
pub(crate) struct Typed(Payload<Typed>);

impl Cargo for Typed {
    fn pack(payload: Payload<Self>) -> Self {
        Self(payload)
    }
}

impl Typed {
    pub(crate) fn fire(self) {
        self.0.fire();
    }

    /// The handler.
    pub(crate) fn fire_all(batch: &mut Batch<'_, Self>) {
        batch.for_each(Self::fire);
    }
}

/// One service and its ledger.
pub(crate) struct World<C: Cargo> {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) handle: ServiceHandle<C>,
    pub(crate) seed: u64,
}

pub(crate) struct Payload<C: Cargo> {
    line: Arc<Line>,
    world: Arc<World<C>>,
    depth: u32,
    /// How long its task blocks.
    blocks: Duration,
    /// Read by whoever fires or drops it: a claim that does not order them would find it torn, or
    /// dead.
    seal: Box<[u64; 3]>,
}

/// Bits for choices without a generator: thread-locals may be gone.
fn choice(seed: u64, line: &Line) -> u64 {
    mix(seed ^ mix(line.number().into()))
}

impl<C: Cargo> World<C> {
    /// A line and a payload for a timer of this delay.
    pub(crate) fn payload(
        self: &Arc<Self>,
        delay: Duration,
        depth: u32,
        blocks: Duration,
    ) -> (Arc<Line>, C) {
        let line = self.ledger.open(self.ledger.after_ns(delay), false);
        let number = u64::from(line.number());
        let payload = Payload {
            line: line.clone(),
            world: self.clone(),
            depth,
            blocks,
            seal: Box::new([number, !number, number ^ 0x5555]),
        };
        (line, C::pack(payload))
    }

    /// Arms a payload. `None` if the service refused it.
    pub(crate) fn arm(
        self: &Arc<Self>,
        delay: Duration,
        depth: u32,
        blocks: Duration,
    ) -> Option<(TimerId, Arc<Line>)> {
        let (line, cargo) = self.payload(delay, depth, blocks);
        match self.handle.schedule(delay, cargo) {
            Ok(id) => Some((id, line)),
            Err(refused) => {
                self.ledger.note(&line, Outcome::Refused);
                drop(refused.into_payload());
                None
            }
        }
    }
}

impl<C: Cargo> Payload<C> {
    fn check(&self, when: &str) {
        let [number, inverse, mixed] = *black_box(&*self.seal);
        let own = u64::from(self.line.number());
        if number != own || inverse != !number || mixed != number ^ 0x5555 {
            self.world.ledger.fault(format_args!(
                "{when} torn or dead: {:?} has {number:x} {inverse:x} {mixed:x}",
                self.line
            ));
        }
    }

    /// Arms some other timer, if this one has the disposition and is not the last of its line.
    fn bear(&self, choice: u64) {
        if self.depth < DEPTH_MAX {
            let delay = Duration::from_micros(choice >> 8 & 0x3FFF);
            if let Some((id, line)) = self.world.arm(delay, self.depth + 1, Duration::ZERO)
                && choice >> 24 & 3 == 0
                && self.world.handle.cancel(id)
            {
                self.world.ledger.note(&line, Outcome::Cancelled);
            }
        }
    }

    fn fire(self) {
        let ledger = &self.world.ledger;
        ledger.fires(&self.line, self.line.due_ns(), ledger.now_ns());
        self.check("fires");
        ledger.note(&self.line, Outcome::Fired);
        if !self.blocks.is_zero() {
            thread::sleep(self.blocks);
        }
        let choice = choice(self.world.seed, &self.line);
        match choice % 100 {
            0..4 => panic!("chaos: a task panics"),
            4..24 => self.bear(choice),
            24 => thread::sleep(Duration::from_micros(500)),
            25 => {
                // From inside a task it is an error, and does nothing.
                let world = &self.world;
                let armed = world.arm(Duration::from_secs(3600), DEPTH_MAX, Duration::ZERO);
                if let Some((id, _)) = armed
                    && world.handle.cancel_and_wait(id).is_ok()
                    && !ledger.is_deferred
                {
                    ledger.fault(format_args!("cancel_and_wait waited inside a task"));
                }
            }
            _ => {}
        }
    }
}

impl<C: Cargo> Drop for Payload<C> {
    fn drop(&mut self) {
        self.check("is dropped");
        *self.seal = [0xDEAD; 3];
        let choice = choice(!self.world.seed, &self.line);
        if choice % 100 < 5 {
            self.bear(choice);
        }
        // Last: the ledger is complete when all are dropped.
        self.world.ledger.dropped(&self.line, self.line.number());
    }
}
