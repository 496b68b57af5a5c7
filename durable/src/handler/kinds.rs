//! Kinds: which handler a timer has, and how often it is tried.

#[cfg(feature = "serde")]
use super::codec::Codec;
use super::delivery::{Delivery, HandlerResult};
use super::places::Places;
use super::retry::RetryPolicy;
use crate::store::row::{DurableId, HeldWhy};
#[cfg(feature = "postgres")]
use crate::store::write::Write;
use crate::sync::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The most timers that a batch handler gets at once.
pub(crate) const BATCH_MAX: usize = 256;

/// A future that a handler has made.
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// A future for the user's runtime.
///
/// # Example
/// See [`DurableBuilder::on_async`](crate::DurableBuilder::on_async).
pub type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler of timers of one kind that are due together.
pub(crate) type BatchHandler = Box<dyn Fn(&[Delivery]) -> Vec<HandlerResult> + Send + Sync>;

/// A handler of one timer.
pub(crate) type OneHandler = Box<dyn Fn(&Delivery) -> Said + Send + Sync>;

/// A handler that works in a transaction of the store. If it answers `Ok`, the timer's end was
/// stored in that transaction. `None`: the timer may not be handed out any more.
#[cfg(feature = "postgres")]
pub(crate) type TransactionHandler =
    Box<dyn Fn(&mut dyn TransactionCall) -> Option<HandlerResult> + Send + Sync>;

/// What the transaction of a handler needs to know of the timer.
#[cfg(feature = "postgres")]
pub(crate) trait TransactionCall: Send + Sync {
    /// Whether its transaction is still waited for. An attempt that has begun goes on.
    fn is_wanted(&self) -> bool;

    /// The timer goes back to the writer: no transaction was wanted any more.
    fn give_back(&self);

    /// How long each statement of the handler may take. `None`: that is not limited.
    fn time_left(&self) -> Option<Duration>;

    /// RunAdmit, TrialBegin and LimitBegin, just before the handler is called: a transaction has
    /// begun, for which the timer may have waited long. Returns whether the handler is called.
    fn begin(&mut self) -> bool;

    /// The timer, as the handler gets it.
    fn delivery(&self) -> &Delivery;

    /// The change that acknowledges the timer, when its handler has answered.
    fn ack(&self) -> Write;

    /// Whether the timer's lease is still the node's, as far as the node knows.
    fn has_right(&self) -> bool;
}

/// What runs for a kind.
pub(crate) enum KindHandler {
    One(OneHandler),
    Batch(BatchHandler),
    #[cfg(feature = "postgres")]
    InTransaction(TransactionHandler),
    Async(Box<dyn Fn(Delivery) -> HandlerFuture + Send + Sync>),
}

/// What a handler of one timer said.
pub(crate) enum Said {
    Result(HandlerResult),
    /// The payload is not what it reads: why.
    #[cfg(feature = "serde")]
    Undecodable(String),
}

/// All that is set for a kind.
#[derive(Default)]
pub(crate) struct Kind {
    pub(crate) handler: Option<KindHandler>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) places: Places,
    /// How long an attempt may take, unless the timer has a limit of its own.
    pub(crate) time_limit: Option<Duration>,
    #[cfg(feature = "serde")]
    pub(crate) codec: Option<Codec>,
}

/// The kinds of a service.
#[derive(Default)]
pub(crate) struct Kinds {
    kinds: HashMap<Arc<str>, Kind>,
    /// Whether a `Fired::Help` is on its way.
    help_asked: AtomicBool,
    /// The policy of kinds without one of their own.
    pub(crate) retry: RetryPolicy,
    /// The codec of kinds without one of their own.
    #[cfg(feature = "serde")]
    pub(crate) codec: Codec,
}

impl Kinds {
    /// The kind with this name, for its settings.
    pub(crate) fn entry(&mut self, name: &str) -> &mut Kind {
        self.kinds.entry(name.into()).or_default()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// Why timers of a kind are held and not handed out, if they are: it has no handler.
    pub(crate) fn held_for(&self, name: &str) -> Option<HeldWhy> {
        let is_handled = self.get(name).is_some_and(|kind| kind.handler.is_some());
        (!is_handled).then_some(HeldWhy::Unhandled)
    }

    /// The kinds that are handed out, in order.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.kinds.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Whether there is no kind.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The name, without an allocation if the kind is known.
    pub(crate) fn name(&self, name: &str) -> Arc<str> {
        match self.kinds.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => name.into(),
        }
    }

    /// The policy of a kind.
    pub(crate) fn retry_of(&self, name: &str) -> RetryPolicy {
        self.get(name)
            .and_then(|kind| kind.retry)
            .unwrap_or(self.retry)
    }

    /// The codec of a kind.
    #[cfg(feature = "serde")]
    pub(crate) fn codec_of(&self, name: &str) -> Codec {
        self.get(name)
            .and_then(|kind| kind.codec)
            .unwrap_or(self.codec)
    }

    /// A kind that has settings, and no handler.
    pub(crate) fn without_handler(&self) -> Option<&str> {
        self.kinds
            .iter()
            .find(|(_, kind)| kind.handler.is_none())
            .map(|(name, _)| &**name)
    }

    /// A kind whose handler makes futures, if there is one.
    pub(crate) fn first_async(&self) -> Option<&str> {
        let is_async = |kind: &Kind| matches!(kind.handler, Some(KindHandler::Async(_)));
        let all = self.kinds.iter().filter(|(_, kind)| is_async(kind));
        all.map(|(name, _)| &**name).min()
    }

    /// How many threads relieve the pool at the most, if there are several kinds: each kind whose
    /// handler runs there may block one, and the last one hands out what blocks none.
    pub(crate) fn relief_threads(&self) -> usize {
        let blocks = |kind: &&Kind| !matches!(kind.handler, Some(KindHandler::Async(_)));
        match self.kinds.len() {
            0 | 1 => 0,
            _ => self.kinds.values().filter(blocks).count() + 1,
        }
    }

    /// The kinds for whose calls timers may wait.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().filter(|kind| kind.places.may_wait())
    }

    /// Notes whether help is on its way for timers that wait. Returns what was noted before.
    pub(crate) fn note_help(&self, is_asked: bool) -> bool {
        // Ordering: AcqRel. Whoever finds that help is on its way has put its timers there before.
        // The help that comes notes that it is here, and sees them.
        self.help_asked.swap(is_asked, Ordering::AcqRel)
    }

    /// GateWithdraw: takes a timer out of those that wait for a call. `false`: it does not wait.
    pub(crate) fn withdraw(&self, id: DurableId) -> bool {
        self.waited_for().any(|kind| kind.places.withdraw(id))
    }

    /// Forgets what waits for a free place. It stays stored.
    pub(crate) fn forget_waiting(&self) {
        for kind in self.kinds.values() {
            kind.places.forget_waiting();
        }
    }
}
