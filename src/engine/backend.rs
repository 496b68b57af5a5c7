//! Backend: where the timers of a service fire. Used at start only.

use super::affinity::Affinity;
use super::hooks::Users;
use super::{Engine, pools};
use crate::dispatch::channel::{Outbox, ToChannel};
use crate::dispatch::inline::Inline;
use crate::dispatch::pool::{Pool, Threads};
use crate::dispatch::pool_dispatcher::{Executor, PoolDispatcher};
use crate::dispatch::queues::Woken;
use crate::dispatch::relief::Begin;
use crate::dispatch::{Dispatch, Dispatcher, Execute};
use crate::error::StartError;
use std::sync::Arc;

/// Where the timers of a service fire.
pub(super) enum Backend<T> {
    Inline,
    Pool(Pool),
    Executor(Arc<Execute>),
    Channel(Outbox<T>),
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
    match backend {
        Backend::Inline => Box::new(Inline::new(host)),
        Backend::Pool(pool) => {
            let dispatcher = PoolDispatcher::new(host, pool.clone(), waiting, waiting_max);
            Box::new(dispatcher.relieved(relief_threads, free))
        }
        Backend::Executor(execute) => {
            let executor = executor(engine, execute);
            let dispatcher = PoolDispatcher::new(host, executor, waiting, waiting_max);
            Box::new(dispatcher.relieved(relief_threads, free))
        }
        Backend::Channel(outbox) => Box::new(ToChannel::new(host, outbox.clone())),
    }
}

/// A user's executor. Its panics are caught, as the panics of hooks are.
fn executor<T: Send + 'static>(engine: &Arc<Engine<T>>, execute: &Arc<Execute>) -> Executor {
    let (engine, execute) = (engine.clone(), Users::new(execute.clone()));
    Executor::new(move |job| engine.hooks.call(|| execute(job)))
}
