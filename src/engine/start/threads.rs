//! Threads: starts the threads of the shards and of the watchdog, and pins the shards to cores.
//!
//! [`Started`] belongs to the one owner of a service, who stops it. The lock around the threads is
//! taken at start and by `stop`.

use super::cores::Tenant;
use super::settings::Pinning;
use super::thread_name::thread_name;
use crate::cold_drop::ColdDrop;
use crate::dispatch::inside::inside_for_good;
use crate::engine::Engine;
use crate::engine::company::Cores;
use crate::engine::host::ShardHost;
use crate::engine::manual::ManualShards;
use crate::engine::notices::watchdog;
use crate::error::StartError;
use crate::shard::turn::Shard;
use crate::shard::worker::{self, Host};
use crate::sync::{JoinHandle, Mutex, start_thread};
use std::sync::{Arc, PoisonError};

/// A service that was prepared, for whoever starts its threads and stops it.
pub(crate) struct Started<T> {
    pub(crate) engine: Arc<Engine<T>>,
    /// The threads of the shards and of the watchdog.
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// On a manual clock: the shards. They live as long as the service.
    pub(crate) manual: Option<Arc<ManualShards<T>>>,
}

/// The shards of a service whose threads have not started yet.
pub(crate) struct Unstarted {
    pub(super) shards: Vec<ColdDrop<Shard>>,
    pub(super) name: String,
    pub(super) pinning: Pinning,
}

impl<T: Send + 'static> Started<T> {
    /// Starts the threads of the shards and of the watchdog. After an error some may have started.
    pub(crate) fn spawn(&self, unstarted: Unstarted) -> Result<(), StartError> {
        let Unstarted {
            shards,
            name,
            pinning,
        } = unstarted;
        for (number, shard) in shards.into_iter().enumerate() {
            let name = thread_name(&name, &format!("shard-{number}"));
            let run = run_of(shard, self.engine.host(number), &pinning, number);
            spawn_one(&self.threads, name, run)?;
        }
        self.spawn_watchdog(&name)
    }

    /// Starts the watchdog, if there is a hook for it.
    fn spawn_watchdog(&self, name: &str) -> Result<(), StartError> {
        let Some((threshold_ns, _)) = &self.engine.hooks.on_stall else {
            return Ok(());
        };
        let (engine, threshold_ns) = (self.engine.clone(), *threshold_ns);
        let run = Box::new(move || watchdog::run(&engine, threshold_ns));
        spawn_one(&self.threads, thread_name(name, "watchdog"), run)
    }
}

/// What the thread of a shard runs.
fn run_of(
    shard: ColdDrop<Shard>,
    host: Arc<dyn PinnedHost>,
    pinning: &Pinning,
    number: usize,
) -> Box<dyn FnOnce() + Send> {
    let (mut tenant, pins) = (Tenant::new(pinning, number), *pinning != Pinning::Off);
    Box::new(move || {
        tenant.take_up();
        if pins && !tenant.is_pinned() {
            host.note_unpinned();
        }
        worker::run(shard, &*host, &mut |now_ns, wakes| {
            let was_pinned = tenant.is_pinned();
            tenant.review(now_ns, wakes, host.company());
            host.count_pinning(was_pinned, tenant.is_pinned());
        });
    })
}

/// Starts a thread that is inside a task for good, for these.
fn spawn_one(
    threads: &Mutex<Vec<JoinHandle<()>>>,
    name: String,
    run: Box<dyn FnOnce() + Send>,
) -> Result<(), StartError> {
    let run = || {
        inside_for_good();
        run();
    };
    let thread = start_thread(name, Box::new(run)).map_err(StartError::Thread)?;
    threads
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(thread);
    Ok(())
}

/// A host that counts the threads which are not pinned, and knows who sends its shard much.
trait PinnedHost: Host + Send + Sync {
    /// The cores of the threads that have sent the shard much since the last call.
    fn company(&self) -> Cores;

    fn count_pinning(&self, was_pinned: bool, is_pinned: bool);

    /// Counts a shard's thread that could not be pinned, and reports it.
    fn note_unpinned(&self);
}

impl<T: Send + 'static> PinnedHost for ShardHost<T> {
    fn company(&self) -> Cores {
        self.engine.cells.shared.company(self.shard).take()
    }

    fn count_pinning(&self, was_pinned: bool, is_pinned: bool) {
        self.engine.count_pinning(was_pinned, is_pinned);
    }

    fn note_unpinned(&self) {
        self.count_pinning(true, false);
        #[cfg(feature = "tracing")]
        self.engine.hooks.tell(|events| events.unpinned(self.shard));
    }
}
