//! Internals: the parts by themselves, for models and fuzz targets. Built only under the feature
//! `__internals` or `--cfg loom`; no part of the public interface.
//!
//! Ground rule: a function here calls one function of the file that it opens. No step of a protocol
//! is written here.

#[cfg(loom)]
use crate::queue::{claims, outage, rights, throttle, ticket};
#[cfg(loom)]
use crate::store::contract::StoreError;
#[cfg(loom)]
use crate::store::row::{DurableId, Position, Row, StoreTime};
#[cfg(loom)]
use crate::store::rule::{Rule, RuleFor};
#[cfg(loom)]
use std::num::NonZeroU32;
#[cfg(loom)]
use std::sync::Arc;
#[cfg(loom)]
use std::time::{Duration, SystemTime};

#[cfg(loom)]
pub use crate::sync::{Fault, set_fault};

/// Decodes a value of a store's file, whose checksum is right, and encodes it again. `table`:
/// `row`, `dead`, `state`, `version`, or else a key of `by_due`. Whether it is one.
#[cfg(feature = "redb")]
pub fn round_trip(table: &str, under: u128, body: &[u8]) -> bool {
    crate::stores::redb::round_trip::round_trip(table, under, body)
}

/// The writer's end of a ticket.
#[cfg(loom)]
pub struct Teller(ticket::Teller<u32>);

#[cfg(loom)]
impl Teller {
    /// TicketTell.
    pub fn tell(self, answer: u32) {
        self.0.tell(Ok(answer));
    }
}

/// A ticket.
#[cfg(loom)]
pub fn ticket() -> (Teller, ticket::Ticket<u32>) {
    let (teller, ticket) = ticket::ticket();
    (Teller(teller), ticket)
}

/// The leases of a node, as its handlers' threads see them.
#[cfg(loom)]
pub struct LeaseRights(rights::LeaseRights);

#[cfg(loom)]
impl LeaseRights {
    /// One partition, without a lease.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(rights::LeaseRights::new(1))
    }

    /// Whether a row that was loaded under this epoch may be handed out now.
    pub fn allow(&self, epoch: u64, now_ns: u64) -> bool {
        self.0.allow(0, epoch, now_ns)
    }

    /// The lease is taken, or with 0 withdrawn.
    pub fn set(&self, epoch: u64) {
        self.0.set(0, epoch);
    }

    /// Leases last until then.
    pub fn extend(&self, until_ns: u64) {
        self.0.extend(until_ns);
    }
}

/// What may be handed out, as handlers' threads see it.
#[cfg(loom)]
pub struct Claims(claims::Claims);

#[cfg(loom)]
impl Claims {
    /// Nothing may.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(claims::Claims::new())
    }

    /// ClaimLook.
    pub fn has(&self, due_ms: u64) -> bool {
        self.0.has(StoreTime::from_millis(due_ms))
    }

    /// FenceLook.
    pub fn allow(&self, epoch: u64) -> bool {
        self.0.allow(epoch)
    }

    /// ClaimPublish.
    pub fn publish(&self, upto_ms: u64) {
        self.0.publish(StoreTime::from_millis(upto_ms));
    }

    /// ClaimDrop.
    pub fn drop_all(&self) {
        self.0.drop_all();
    }

    /// FenceRaise.
    pub fn raise_fence(&self, epoch: u64) {
        self.0.raise_fence(epoch);
    }
}

/// Whether the store works, as all threads see it.
#[cfg(loom)]
pub struct StoreStanding(outage::StoreStanding);

#[cfg(loom)]
impl StoreStanding {
    /// It works.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(outage::StoreStanding::new())
    }

    /// It has failed, and may come back.
    pub fn fail(&self) {
        let (why, now) = (StoreError::Io("a model".into()), SystemTime::UNIX_EPOCH);
        self.0.fail(why, now, Some(now), false);
    }

    /// It works again.
    pub fn come_back(&self) {
        self.0.come_back(Duration::ZERO);
    }

    /// StandingLook.
    pub fn works(&self) -> bool {
        self.0.works()
    }

    /// Whether a caller is refused, by what is under the lock.
    pub fn is_refused(&self) -> bool {
        self.0.refusal().is_some()
    }

    /// Waits until it works.
    pub fn wait(&self) {
        self.0.wait(Duration::MAX);
    }
}

/// What rules let through: of one kind, this many calls at one time.
#[cfg(loom)]
#[derive(Clone)]
pub struct Throttle(Arc<throttle::Throttle>);

/// What a thread is told that asks.
#[cfg(loom)]
pub enum Asked {
    /// No rule limits the timer.
    Free,
    /// It may go.
    Pass(Pass),
    /// It may not.
    Refused(Refused),
}

/// That a timer may go. Its drop is ThrottleGive.
#[cfg(loom)]
pub struct Pass(#[allow(dead_code)] throttle::Pass);

/// That a timer was refused.
#[cfg(loom)]
pub struct Refused(#[allow(dead_code)] throttle::Refused);

#[cfg(loom)]
impl Throttle {
    /// With a limit of calls. `wake`: wakes the writer.
    pub fn new(calls: u32, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let mut rule = Rule::none(RuleFor::Kind("mail".into()));
        rule.calls = NonZeroU32::new(calls);
        let throttle = throttle::Throttle::new(false, wake);
        throttle.set(&[rule], Duration::ZERO);
        Self(Arc::new(throttle))
    }

    /// ThrottleAsk.
    pub fn ask(&self, id: u64) -> Asked {
        let id = DurableId::from_bits(id.into());
        let row = Row::new(id, StoreTime::MIN, "mail".into(), [].into());
        match self.0.ask(&row, Duration::ZERO) {
            throttle::Asked::Free => Asked::Free,
            throttle::Asked::Pass(pass) => Asked::Pass(Pass(pass)),
            throttle::Asked::Refused(refused) => Asked::Refused(Refused(refused)),
        }
    }

    /// How many timers may go on.
    pub fn left(&self) -> u32 {
        self.0.left(Duration::ZERO).into_values().sum()
    }

    /// ThrottleHold: the writer says whether timers wait.
    pub fn set_waiting(&self, waits: bool) {
        let numbers = self.0.left(Duration::ZERO).into_keys();
        let news: Vec<_> = numbers.map(|number| (number, waits)).collect();
        self.0.set_waiting(&news);
    }

    /// ThrottleRelease.
    pub fn release(&self, id: u64) {
        let met: Vec<_> = self.0.left(Duration::ZERO).into_keys().collect();
        let id = DurableId::from_bits(id.into());
        let at = Position {
            due: StoreTime::MIN,
            id,
        };
        self.0.release(at, &met, Duration::ZERO);
    }
}
