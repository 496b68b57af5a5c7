//! Durable: a ticket, and the leases of a node.

use crate::durable;

/// The writer's end of a durable ticket.
pub struct Teller(durable::Teller<u32>);

impl Teller {
    /// TicketTell.
    pub fn tell(self, answer: u32) {
        self.0.tell(Ok(answer));
    }
}

/// A durable ticket.
pub fn ticket() -> (Teller, durable::Ticket<u32>) {
    let (teller, ticket) = durable::ticket();
    (Teller(teller), ticket)
}

/// The leases of a node, as its handlers' threads see them.
pub struct LeaseRights(durable::LeaseRights);

impl LeaseRights {
    /// One partition, without a lease.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(durable::LeaseRights::new(1))
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
