//! Backend: where the timers of a service fire. Used at start only.

use super::Engine;
use super::hooks::Users;
use crate::dispatch::channel::{Outbox, ToChannel};
use crate::dispatch::inline::Inline;
use crate::dispatch::pool::Pool;
use crate::dispatch::pool_dispatcher::{Executor, PoolDispatcher};
use crate::dispatch::queues::{Woken, may_attend};
use crate::dispatch::{Dispatch, Dispatcher, Execute};
use crate::error::StartError;
use crate::sync::ThreadBuilder;
use rayon::ThreadPoolBuilder;
use std::sync::Arc;
use std::thread;

/// Where the timers of a service fire.
pub(super) enum Backend<T> {
    Inline,
    Pool(Pool),
    Executor(Arc<Execute>),
    Channel(Outbox<T>),
}

impl<T> Backend<T> {
    /// The counters of the threads that its pool wakes.
    pub(super) fn woken(&self) -> Arc<Woken> {
        if let Self::Pool(pool) = self {
            pool.woken()
        } else {
            Arc::default()
        }
    }
}

/// The backend for a user's choice. `attended`: one thread of the service's own pool attends.
pub(super) fn backend<T>(
    dispatch: Dispatch,
    name: &str,
    attended: bool,
) -> Result<Backend<T>, StartError> {
    let threads = match dispatch {
        Dispatch::Inline => return Ok(Backend::Inline),
        Dispatch::Pool(threads) => return Ok(Backend::Pool(Pool::of(threads))),
        Dispatch::Executor(executor) => return Ok(Backend::Executor(executor.0)),
        Dispatch::RayonThreads(0) => {
            return Err(StartError::Pool(
                "RayonThreads(0): it has one thread at least".to_string(),
            ));
        }
        Dispatch::RayonThreads(threads) => threads,
        Dispatch::Rayon => thread::available_parallelism().map_or(1, usize::from),
    };
    own_pool(threads, name, attended).map(Backend::Pool)
}

/// A shard's way to where its timers fire.
pub(super) fn dispatcher<T: Send + 'static>(
    engine: &Arc<Engine<T>>,
    shard: usize,
    backend: &Backend<T>,
    waiting_max: usize,
) -> Box<dyn Dispatcher> {
    let (host, waiting) = (engine.host(shard), engine.backlogs[shard].clone());
    match backend {
        Backend::Inline => Box::new(Inline::new(host)),
        Backend::Pool(pool) => Box::new(PoolDispatcher::new(
            host,
            pool.clone(),
            waiting,
            waiting_max,
        )),
        Backend::Executor(execute) => {
            let executor = executor(engine, execute);
            Box::new(PoolDispatcher::new(host, executor, waiting, waiting_max))
        }
        Backend::Channel(outbox) => Box::new(ToChannel::new(host, outbox.clone())),
    }
}

/// A pool of the service's own. `attended` is false on a manual clock: there nobody looks again
/// after work that was left to an attendant.
fn own_pool(threads: usize, name: &str, attended: bool) -> Result<Pool, StartError> {
    let mut started = Vec::new();
    let spawn = |thread: rayon::ThreadBuilder| {
        let number = thread.index();
        let builder = ThreadBuilder::new().name(format!("{name}-pool-{number}"));
        let run = || {
            may_attend();
            thread.run();
        };
        started.push((number, builder.spawn(run)?.thread().clone()));
        Ok(())
    };
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .spawn_handler(spawn)
        .build();
    let pool = Arc::new(pool.map_err(|error| StartError::Pool(error.to_string()))?);
    if !attended {
        return Ok(Pool::of(pool));
    }
    started.sort_unstable_by_key(|&(number, _)| number);
    Ok(Pool::attended(
        pool,
        started.into_iter().map(|(_, thread)| thread),
    ))
}

/// A user's executor. Its panics are caught, as the panics of hooks are.
fn executor<T: Send + 'static>(engine: &Arc<Engine<T>>, execute: &Arc<Execute>) -> Executor {
    let (engine, execute) = (engine.clone(), Users::new(execute.clone()));
    Executor(Arc::new(move |job| engine.hooks.call(|| execute(job))))
}
