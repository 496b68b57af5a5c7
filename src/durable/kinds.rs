//! Kinds: which handler a timer has, how often it is tried, and how many run at once.

#[cfg(feature = "serde")]
use super::codec::Codec;
use super::delivery::{Delivery, HandlerResult};
#[cfg(feature = "durable-postgres")]
use super::recurrence::NextRun;
use super::retry::RetryPolicy;
use super::row::StoreTime;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most timers that a batch handler gets at once.
pub(super) const BATCH_MAX: usize = 256;

/// A future that a handler has made.
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// A future for the user's runtime.
///
/// # Example
/// See [`DurableBuilder::handle_async`](super::DurableBuilder::handle_async).
pub type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler of timers of one kind that are due together.
type BatchHandler = Box<dyn Fn(&[Delivery]) -> Vec<HandlerResult> + Send + Sync>;

/// A handler of one timer. It is told when its call begins.
type OneHandler = Box<dyn Fn(&Delivery, StoreTime) -> Said + Send + Sync>;

/// What runs for a kind.
pub(super) enum KindHandler {
    One(OneHandler),
    Batch(BatchHandler),
    Async(Box<dyn Fn(Delivery) -> HandlerFuture + Send + Sync>),
}

/// What a handler of one timer said.
pub(super) enum Said {
    Result(HandlerResult),
    /// The payload is not what it reads: why.
    #[cfg(feature = "serde")]
    Undecodable(String),
    /// It is done, and the store has that already, with the next run.
    #[cfg(feature = "durable-postgres")]
    Acked(NextRun),
}

/// All that is set for a kind.
#[derive(Default)]
pub(super) struct Kind {
    pub(super) handler: Option<KindHandler>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) limit: Option<Limit>,
    #[cfg(feature = "serde")]
    pub(super) codec: Option<Codec>,
}

/// The kinds of a service.
#[derive(Default)]
pub(super) struct Kinds {
    kinds: HashMap<Arc<str>, Kind>,
    /// The policy of kinds without one of their own.
    pub(super) retry: RetryPolicy,
    /// The codec of kinds without one of their own.
    #[cfg(feature = "serde")]
    pub(super) codec: Codec,
}

impl Kinds {
    /// The kind with this name, for its settings.
    pub(super) fn entry(&mut self, name: &str) -> &mut Kind {
        self.kinds.entry(name.into()).or_default()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// The name, without an allocation if the kind is known.
    pub(super) fn name(&self, name: &str) -> Arc<str> {
        match self.kinds.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => name.into(),
        }
    }

    /// The policy of a kind.
    pub(super) fn retry_of(&self, name: &str) -> RetryPolicy {
        self.get(name)
            .and_then(|kind| kind.retry)
            .unwrap_or(self.retry)
    }

    /// The codec of a kind.
    #[cfg(feature = "serde")]
    pub(super) fn codec_of(&self, name: &str) -> Codec {
        self.get(name)
            .and_then(|kind| kind.codec)
            .unwrap_or(self.codec)
    }

    /// A kind that has settings, and no handler.
    pub(super) fn without_handler(&self) -> Option<&str> {
        self.kinds
            .iter()
            .find(|(_, kind)| kind.handler.is_none())
            .map(|(name, _)| &**name)
    }

    /// A kind whose handler makes futures, if there is one.
    pub(super) fn first_async(&self) -> Option<&str> {
        let is_async = |kind: &Kind| matches!(kind.handler, Some(KindHandler::Async(_)));
        let all = self.kinds.iter().filter(|(_, kind)| is_async(kind));
        all.map(|(name, _)| &**name).min()
    }

    /// Forgets what waits for a free place. It stays stored.
    pub(super) fn forget_waiting(&self) {
        for limit in self.kinds.values().filter_map(|kind| kind.limit.as_ref()) {
            limit.forget_waiting();
        }
    }
}

/// How many calls of a handler run at once. What is too much waits in order.
pub(super) struct Limit {
    max: NonZeroUsize,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    taken: usize,
    waiting: VecDeque<Delivery>,
}

impl Limit {
    pub(super) fn new(max: NonZeroUsize) -> Self {
        Self {
            max,
            places: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a call with these timers. Without a free place they wait, and the answer
    /// is empty. Whoever gets timers calls [`leave`](Self::leave) after the call.
    pub(super) fn enter(&self, timers: Vec<Delivery>) -> Vec<Delivery> {
        let mut places = self.lock();
        if places.taken < self.max.get() {
            places.taken += 1;
            timers
        } else {
            places.waiting.extend(timers);
            Vec::new()
        }
    }

    /// Gives a place back, or keeps it for up to `count` timers that have waited.
    pub(super) fn leave(&self, count: usize) -> Vec<Delivery> {
        let mut places = self.lock();
        let count = count.min(places.waiting.len());
        if count == 0 {
            places.taken -= 1;
        }
        places.waiting.drain(..count).collect()
    }

    fn forget_waiting(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        drop(waiting);
    }
}
