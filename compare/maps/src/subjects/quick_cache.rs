//! quick_cache's `Cache`, without a bound for its entries, which do not expire. All threads share
//! one.

use super::Map;
use crate::job::Job;
use quick_cache::UnitWeighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::time::Duration;
use wheelwork_kit::lateness::Lateness;

/// An entry weighs one.
const WEIGHT_MAX: u64 = 1 << 40;

pub(crate) struct QuickCache(Arc<Cache<u64, u64>>);

impl Map for QuickCache {
    fn of_threads(job: &Job, entries: usize) -> Vec<Self> {
        let cache = Arc::new(Cache::with_weighter(entries, WEIGHT_MAX, UnitWeighter));
        (0..job.threads).map(|_| Self(Arc::clone(&cache))).collect()
    }

    fn insert(&mut self, key: u64, due_ns: u64, _: Duration) {
        self.0.insert(key, due_ns);
    }

    fn renew(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.0.remove(&key).map(|(_, due_ns)| due_ns)
    }

    fn settle(&mut self) {}

    fn len(maps: &[Self]) -> usize {
        maps[0].0.len()
    }

    fn serve(_: &mut [Self]) -> Lateness {
        Lateness::default()
    }
}
