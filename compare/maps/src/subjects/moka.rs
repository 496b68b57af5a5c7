//! moka's caches, without a bound for their entries. All threads share one.

use super::{Map, RENEWED};
use crate::clock::{instant, now_ns};
use crate::job::Job;
use crate::name::Name;
use crate::workload::Workload;
use moka::Expiry;
use moka::sync::{Cache, CacheBuilder, SegmentedCache};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lock::lock;

const SEGMENTS: usize = 16;

/// What is put off is done so often where nothing else is done.
const MAINTENANCE: Duration = Duration::from_millis(10);

/// An entry's value says when it is due.
struct Due {
    /// A read renews.
    renews: bool,
}

impl Expiry<u64, u64> for Due {
    fn expire_after_create(&self, _: &u64, due_ns: &u64, now: Instant) -> Option<Duration> {
        Some(instant(*due_ns).saturating_duration_since(now))
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        left: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        if self.renews { Some(RENEWED) } else { left }
    }
}

/// A kind of cache.
pub(crate) trait Kind: Clone + Send {
    fn build(builder: CacheBuilder<u64, u64, Cache<u64, u64>>) -> Self;
    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    fn remove(&self, key: u64) -> Option<u64>;
    fn run_pending_tasks(&self);
    fn len(&self) -> u64;
}

impl Kind for Cache<u64, u64> {
    fn build(builder: CacheBuilder<u64, u64, Self>) -> Self {
        builder.build()
    }

    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }

    fn run_pending_tasks(&self) {
        self.run_pending_tasks();
    }

    fn len(&self) -> u64 {
        self.entry_count()
    }
}

impl Kind for SegmentedCache<u64, u64> {
    fn build(builder: CacheBuilder<u64, u64, Cache<u64, u64>>) -> Self {
        builder.segments(SEGMENTS).build()
    }

    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }

    fn run_pending_tasks(&self) {
        self.run_pending_tasks();
    }

    fn len(&self) -> u64 {
        self.entry_count()
    }
}

pub(crate) struct Moka<C> {
    cache: C,
    /// What the listener was told.
    told: Arc<Mutex<Lateness>>,
}

impl<C: Kind> Map for Moka<C> {
    fn of_threads(job: &Job, entries: usize) -> Vec<Self> {
        let told = Arc::new(Mutex::new(Lateness::ready()));
        let mut builder = Cache::builder().initial_capacity(entries);
        if job.subject == Name::MokaIdle {
            builder = builder.time_to_idle(RENEWED);
        } else {
            let renews = job.workload == Workload::Renew;
            builder = builder.expire_after(Due { renews });
        }
        // It costs each call something, and is there only where something is told.
        if job.workload == Workload::Expire {
            let told = Arc::clone(&told);
            let listener = move |_, due_ns, _| lock(&told).fired(due_ns, now_ns());
            builder = builder.eviction_listener(listener);
        }
        let cache = C::build(builder);
        (0..job.threads)
            .map(|_| Self {
                cache: cache.clone(),
                told: Arc::clone(&told),
            })
            .collect()
    }

    fn insert(&mut self, key: u64, due_ns: u64, _: Duration) {
        self.cache.insert(key, due_ns);
    }

    fn renew(&mut self, key: u64) -> Option<u64> {
        self.cache.get(key)
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        self.cache.get(key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.cache.remove(key)
    }

    fn settle(&mut self) {
        self.cache.run_pending_tasks();
    }

    fn len(maps: &[Self]) -> usize {
        maps[0].cache.len() as usize
    }

    fn serve(maps: &mut [Self]) -> Lateness {
        let Self { cache, told } = &maps[0];
        while cache.len() > 0 {
            thread::sleep(MAINTENANCE);
            cache.run_pending_tasks();
        }
        std::mem::take(&mut *lock(told))
    }
}
