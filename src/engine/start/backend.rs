//! Backend: where the timers of a service fire. Used at start only.

use super::pools;
use crate::dispatch::channel::{Outbox, Outgoing, ToChannel};
use crate::dispatch::inline::Inline;
use crate::dispatch::job::{Notice, Spawn};
use crate::dispatch::pool::{Pool, Threads};
use crate::dispatch::pool_dispatcher::{Executor, PoolDispatcher};
use crate::dispatch::queues::Woken;
use crate::dispatch::relief::Begin;
use crate::dispatch::{Dispatch, Dispatcher, Execute};
use crate::engine::Engine;
use crate::engine::affinity::Affinity;
use crate::engine::host::ShardHost;
use crate::engine::notices::hooks::Users;
use crate::error::StartError;
use std::sync::Arc;

/// Where the timers of a service fire.
pub(super) enum Backend<T> {
    Inline,
    Pool(Pool),
    Executor(Arc<Execute>),
    Channel(Arc<dyn Channel<T>>),
}

/// A channel for payloads, and the shards' way to it.
pub(crate) trait Channel<T>: Outgoing<T> {
    fn dispatcher(&self, host: Arc<ShardHost<T>>) -> Box<dyn Dispatcher>;
}

impl<T: Send + 'static> Channel<T> for Outbox<T> {
    fn dispatcher(&self, host: Arc<ShardHost<T>>) -> Box<dyn Dispatcher> {
        Box::new(ToChannel::new(host, self.clone()))
    }
}

/// A pool of rayon's, or a user's executor. One type for both: what works at jobs is compiled once.
#[derive(Clone)]
enum Workers {
    Pool(Pool),
    Executor(Executor),
}

impl Spawn for Workers {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        match self {
            Self::Pool(pool) => pool.spawn(work),
            Self::Executor(executor) => executor.spawn(work),
        }
    }

    fn submit(&self, is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Notice {
        match self {
            Self::Pool(pool) => pool.submit(is_urgent, begin),
            Self::Executor(executor) => executor.submit(is_urgent, begin),
        }
    }

    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        match self {
            Self::Pool(pool) => pool.offer(take_up),
            Self::Executor(executor) => executor.offer(take_up),
        }
    }

    fn pulse(&self) {
        match self {
            Self::Pool(pool) => pool.pulse(),
            Self::Executor(executor) => executor.pulse(),
        }
    }

    fn watch(&self) {
        match self {
            Self::Pool(pool) => pool.watch(),
            Self::Executor(executor) => executor.watch(),
        }
    }

    fn look(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.look(),
            Self::Executor(executor) => executor.look(),
        }
    }

    fn unwatch(&self) {
        match self {
            Self::Pool(pool) => pool.unwatch(),
            Self::Executor(executor) => executor.unwatch(),
        }
    }
}

impl<T> Backend<T> {
    /// The counters of the threads of a pool that the service wakes.
    pub(super) fn woken(&self) -> Arc<Woken> {
        if let Self::Pool(pool) = self {
            pool.woken()
        } else {
            Arc::default()
        }
    }
}

/// The backend for a user's choice.
///
/// On a manual clock no thread of a pool attends: nobody looks again after work that was left to an
/// attendant. So such a service has a pool of its own.
pub(super) fn backend<T>(
    dispatch: Dispatch,
    name: &str,
    is_manual: bool,
) -> Result<Backend<T>, StartError> {
    let threads = match dispatch {
        Dispatch::Inline => return Ok(Backend::Inline),
        Dispatch::Executor(executor) => return Ok(Backend::Executor(executor.0)),
        Dispatch::Pool(threads) => Threads::of(threads),
        Dispatch::RayonThreads(threads) => pools::own(threads, name, !is_manual)?,
        Dispatch::Rayon if is_manual => pools::own(pools::cores(), name, false)?,
        Dispatch::Rayon => pools::shared()?,
    };
    Ok(Backend::Pool(Pool::on(threads)))
}

/// A shard's way to where its timers fire.
pub(super) fn dispatcher<T: Send + 'static>(
    engine: &Arc<Engine<T>>,
    shard: usize,
    backend: &Backend<T>,
    waiting_max: usize,
    relief_threads: usize,
) -> Box<dyn Dispatcher> {
    let (host, waiting) = (engine.host(shard), engine.backlogs[shard].clone());
    // (The shard's thread, which starts them, will be pinned.)
    let cores = Affinity::of_this_thread();
    let free: Begin = Arc::new(move || _ = cores.as_ref().map(Affinity::restore));
    let workers = match backend {
        Backend::Inline => return Box::new(Inline::new(host)),
        Backend::Channel(channel) => return channel.dispatcher(host),
        Backend::Pool(pool) => Workers::Pool(pool.clone()),
        Backend::Executor(execute) => Workers::Executor(executor(engine, execute)),
    };
    let dispatcher = PoolDispatcher::new(host, workers, waiting, waiting_max);
    Box::new(dispatcher.relieved(relief_threads, free))
}

/// A user's executor. Its panics are caught, as the panics of hooks are.
fn executor<T: Send + 'static>(engine: &Arc<Engine<T>>, execute: &Arc<Execute>) -> Executor {
    let (engine, execute) = (engine.clone(), Users::new(execute.clone()));
    Executor::new(move |job| engine.hooks.call(|| execute(job)))
}
