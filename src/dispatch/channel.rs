//! Channel: sends the payloads of due timers, in batches, to whoever receives.
//!
//! Each shard owns a [`ToChannel`]; its thread alone touches it. The shards share the channel.
//!
//! Ground rule: **the shard finds a free place in the channel before it claims**. So a timer that
//! does not fit can still be cancelled.
//!
//! # How it works
//!
//! - The shard's thread claims a grain of entries and sends its payloads as one message.
//! - The channel itself is unbounded: the look before each claim bounds it. So it needs memory only
//!   for the messages in it, and no send fails for want of a place. A receiver that goes away takes
//!   the messages with it.
//!
//! Limit: shards that find the last free place at one instant all use it.

use super::buffers::OwnRuns;
use super::dispatcher::Dispatcher;
use super::fire::Fire;
use super::job::during;
use super::receiver::Receiver;
use super::sizes::{EntryBatch, GRAIN};
use crate::entry::Entry;
use crossbeam_channel::{SendError, Sender, unbounded};
use std::sync::Arc;

/// A channel, known by this call alone: a program without a channel need not compile what one is
/// made of.
pub(crate) trait Outgoing<P>: Send + Sync {
    /// Sends a message, even if the channel is full. The message comes back if all receivers are
    /// gone.
    fn send(&self, payloads: Vec<P>) -> Result<(), Vec<P>>;
}

/// The shards' end of a channel.
pub(crate) struct Outbox<P> {
    sender: Sender<Vec<P>>,
    /// Messages that the channel holds when it is full.
    capacity: usize,
}

impl<P> Outbox<P> {
    /// A channel for `capacity` messages; 0 counts as 1. `None`: as many as memory holds.
    pub(crate) fn new(capacity: Option<usize>) -> (Self, Receiver<P>) {
        let (sender, receiver) = unbounded();
        (
            Self {
                sender,
                capacity: capacity.map_or(usize::MAX, |capacity| capacity.max(1)),
            },
            Receiver::new(receiver),
        )
    }

    /// The number of free places. All places are free if all receivers are gone.
    fn free(&self) -> usize {
        self.capacity.saturating_sub(self.sender.len())
    }
}

impl<P: Send> Outgoing<P> for Outbox<P> {
    fn send(&self, payloads: Vec<P>) -> Result<(), Vec<P>> {
        self.sender.send(payloads).map_err(SendError::into_inner)
    }
}

// Not derived: a payload needs no Clone.
impl<P> Clone for Outbox<P> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            capacity: self.capacity,
        }
    }
}

/// Sends to a channel.
pub(crate) struct ToChannel<F: Fire> {
    fire: Arc<F>,
    outbox: Outbox<F::Payload>,
    runs: OwnRuns<F>,
}

impl<F: Fire> ToChannel<F> {
    pub(crate) fn new(fire: Arc<F>, outbox: Outbox<F::Payload>) -> Self {
        Self {
            fire,
            outbox,
            runs: OwnRuns::new(),
        }
    }

    /// Claims a grain of entries and sends their payloads. Runs periodic timers here.
    fn send(&mut self, entries: &[Entry]) {
        let mut payloads = Vec::with_capacity(entries.len());
        let add = |payload| payloads.push(payload);
        let runs = self.runs.claim(&self.fire, entries, add);
        // A send is refused only if all receivers are gone.
        if !payloads.is_empty()
            && let Err(refused) = self.outbox.send(payloads)
        {
            self.fire.discard(refused.into_iter());
        }
        self.fire.repeat(&runs);
    }
}

impl<F: Fire> Dispatcher for ToChannel<F> {
    fn room(&self) -> usize {
        self.outbox.free().saturating_mul(GRAIN)
    }

    fn submit(&mut self, batch: &mut EntryBatch) {
        let mut sent = 0;
        let fire = self.fire.clone();
        during(&*fire, |_| {
            for entries in batch.chunks(GRAIN) {
                if self.outbox.free() == 0 {
                    break;
                }
                self.send(entries);
                sent += entries.len();
            }
        });
        batch.drain(..sent);
    }
}
