//! `DelayMap`: one for each thread, or several in mutexes for all.

use super::{Map, RENEWED};
use crate::clock::now_ns;
use crate::job::Job;
use futures_lite::future::block_on;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use wheelwork::future::DelayMap;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lock::lock;
use wheelwork_kit::mix::mix;
use wheelwork_kit::system;

/// Takes what has expired. Ready when the map is empty.
fn take(
    map: &mut DelayMap<u64, u64>,
    context: &mut Context<'_>,
    mut told: impl FnMut(u64),
) -> Poll<()> {
    while let Some((_, due_ns)) = std::task::ready!(map.poll_expired(context)) {
        told(due_ns);
    }
    Poll::Ready(())
}

/// The same where nothing is to be woken.
fn take_some(map: &mut DelayMap<u64, u64>) {
    _ = take(map, &mut Context::from_waker(Waker::noop()), |_| ());
}

/// A map of a thread's own.
pub(crate) struct Owned(DelayMap<u64, u64>);

impl Map for Owned {
    fn of_threads(job: &Job, _: usize) -> Vec<Self> {
        (0..job.threads).map(|_| Self(DelayMap::new())).collect()
    }

    fn insert(&mut self, key: u64, due_ns: u64, time: Duration) {
        self.0.insert(key, due_ns, time);
    }

    fn renew(&mut self, key: u64) -> Option<u64> {
        self.0.reset(&key, RENEWED).copied()
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.get(&key).copied()
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.0.remove(&key)
    }

    fn turn(&mut self) {
        take_some(&mut self.0);
    }

    fn settle(&mut self) {
        take_some(&mut self.0);
    }

    fn len(maps: &[Self]) -> usize {
        maps.iter().map(|map| map.0.len()).sum()
    }

    fn serve(maps: &mut [Self]) -> Lateness {
        let serve = |number: usize, map: &mut Self| {
            system::pin(number);
            let mut told = Lateness::ready();
            block_on(async {
                while let Some((_, due_ns)) = map.0.next().await {
                    told.fired(due_ns, now_ns());
                }
            });
            told
        };
        let mut all = Lateness::default();
        thread::scope(|scope| {
            let threads: Vec<_> = maps
                .iter_mut()
                .enumerate()
                .map(|(number, map)| scope.spawn(move || serve(number, map)))
                .collect();
            for thread in threads {
                all.add(&thread.join().expect("it does not panic"));
            }
        });
        all
    }
}

/// More than there are threads, by far.
const MUTEXES: usize = 16;

/// Maps in mutexes. The key says which one.
pub(crate) struct Shared {
    maps: Arc<[Mutex<DelayMap<u64, u64>>; MUTEXES]>,
    /// Whose turn it is.
    next: usize,
}

impl Shared {
    fn at(&self, key: u64) -> &Mutex<DelayMap<u64, u64>> {
        &self.maps[mix(key) as usize % MUTEXES]
    }
}

impl Map for Shared {
    fn of_threads(job: &Job, _: usize) -> Vec<Self> {
        let maps: Arc<[_; MUTEXES]> = Arc::new(std::array::from_fn(|_| Mutex::default()));
        (0..job.threads)
            .map(|next| Self {
                maps: Arc::clone(&maps),
                next,
            })
            .collect()
    }

    fn insert(&mut self, key: u64, due_ns: u64, time: Duration) {
        lock(self.at(key)).insert(key, due_ns, time);
    }

    fn renew(&mut self, key: u64) -> Option<u64> {
        lock(self.at(key)).reset(&key, RENEWED).copied()
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        lock(self.at(key)).get(&key).copied()
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        lock(self.at(key)).remove(&key)
    }

    fn turn(&mut self) {
        self.next += 1;
        take_some(&mut lock(&self.maps[self.next % MUTEXES]));
    }

    fn settle(&mut self) {
        self.maps.iter().for_each(|map| take_some(&mut lock(map)));
    }

    fn len(maps: &[Self]) -> usize {
        maps[0].maps.iter().map(|map| lock(map).len()).sum()
    }

    fn serve(maps: &mut [Self]) -> Lateness {
        let mut all = Lateness::ready();
        block_on(poll_fn(|context| {
            let mut state = Poll::Ready(());
            for map in maps[0].maps.iter() {
                let told = |due_ns| all.fired(due_ns, now_ns());
                if take(&mut lock(map), context, told).is_pending() {
                    state = Poll::Pending;
                }
            }
            state
        }));
        all
    }
}
