//! Channel: payloads of due timers, sent in batches to whoever receives.
//!
//! The shard's thread claims a leaf of entries and sends its payloads as one message. Ground rule: **nothing is claimed before there is a place for it**
//! in the channel, so that what does not fit can still be cancelled.
//!
//! The channel itself has no bound; what bounds it is the look before each claim. So its memory is that of the messages in it, a receiver that goes
//! away takes them with it, and no send fails for want of a place. Shards that find the last place at the same time all use it.

use super::job::during;
use super::{Batch, Dispatcher, Fire, LEAF};
use crate::entry::Entry;
use crossbeam_channel::{Receiver, SendError, Sender, unbounded};
use std::sync::Arc;

/// The shards' end of a channel.
pub(crate) struct Outbox<P> {
    sender: Sender<Vec<P>>,
    /// Messages that it holds before it is full.
    capacity: usize,
}

impl<P> Outbox<P> {
    /// A channel for so many messages, at least one; `None`: for as many as memory holds.
    pub(crate) fn new(capacity: Option<usize>) -> (Self, Receiver<Vec<P>>) {
        let (sender, receiver) = unbounded();
        (Self { sender, capacity: capacity.map_or(usize::MAX, |capacity| capacity.max(1)) }, receiver)
    }

    /// Sends a message, whether there is a place for it or not. It comes back if all receivers are gone.
    pub(crate) fn send(&self, payloads: Vec<P>) -> Result<(), Vec<P>> {
        self.sender.send(payloads).map_err(SendError::into_inner)
    }

    /// How many places are free. All of them, if all receivers are gone.
    fn free(&self) -> usize {
        self.capacity.saturating_sub(self.sender.len())
    }
}

// By hand, so that a payload needs no Clone.
impl<P> Clone for Outbox<P> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), capacity: self.capacity }
    }
}

/// Sends to a channel.
pub(crate) struct ToChannel<F: Fire> {
    fire: Arc<F>,
    outbox: Outbox<F::Payload>,
}

impl<F: Fire> ToChannel<F> {
    pub(crate) fn new(fire: Arc<F>, outbox: Outbox<F::Payload>) -> Self {
        Self { fire, outbox }
    }

    /// Claims a leaf of entries, and sends what that gives. Periodic timers run here.
    fn send(&self, entries: &[Entry]) {
        let mut payloads = Vec::with_capacity(entries.len());
        let mut runs = Vec::new();
        self.fire.claim(entries, |payload| payloads.push(payload), |run| runs.push(run));
        // Refused only if all receivers are gone.
        if !payloads.is_empty()
            && let Err(refused) = self.outbox.send(payloads)
        {
            self.fire.discard(refused.into_iter());
        }
        runs.into_iter().for_each(|run| self.fire.repeat(run));
    }
}

impl<F: Fire> Dispatcher for ToChannel<F> {
    fn room(&self) -> usize {
        self.outbox.free().saturating_mul(LEAF)
    }

    fn submit(&mut self, batch: &mut Batch) {
        let mut sent = 0;
        during(&*self.fire, |_| {
            for entries in batch.chunks(LEAF).take_while(|_| self.outbox.free() > 0) {
                self.send(entries);
                sent += entries.len();
            }
        });
        batch.drain(..sent);
    }
}
