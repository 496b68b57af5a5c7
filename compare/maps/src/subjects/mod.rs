//! The subjects: how a thread uses a map whose values expire.

pub(crate) mod moka;
pub(crate) mod quick_cache;
pub(crate) mod wheelwork;

use crate::job::Job;
use std::time::Duration;
use wheelwork_kit::lateness::Lateness;

/// Calls after which a thread does something else.
pub(crate) const TURN: usize = 256;

/// How long an entry has after it was renewed.
pub(crate) const RENEWED: Duration = Duration::from_secs(600);

/// What a thread has of a map. A value is the time by the [clock](crate::clock) at which it is due.
pub(crate) trait Map: Send + Sized {
    /// One for each thread, of a map that has room for this number of entries.
    fn of_threads(job: &Job, entries: usize) -> Vec<Self>;

    /// A new key that is due then, which is so long from now.
    fn insert(&mut self, key: u64, due_ns: u64, time: Duration);

    /// Gets a value that has [`RENEWED`] left afterwards.
    fn renew(&mut self, key: u64) -> Option<u64>;

    /// Gets a value.
    fn get(&mut self, key: u64) -> Option<u64>;

    /// Removes a key.
    fn remove(&mut self, key: u64) -> Option<u64>;

    /// What a thread does between its calls.
    fn turn(&mut self) {}

    /// Does all that was put off.
    fn settle(&mut self);

    /// Entries of all threads, when nothing is put off.
    fn len(maps: &[Self]) -> usize;

    /// Waits until all have expired, and returns how late it was told.
    fn serve(maps: &mut [Self]) -> Lateness;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::name::Name;
    use crate::workload::Workload;
    use std::thread;

    fn job(subject: Name, workload: Workload) -> Job {
        Job {
            subject,
            workload,
            threads: 2,
            entries: 100,
            seed: 1,
            quick: true,
        }
    }

    fn insert(map: &mut impl Map, key: u64, ms: u64) {
        let time = Duration::from_millis(ms);
        map.insert(key, now_ns() + ms * 1_000_000, time);
    }

    fn is_a_map<M: Map>(subject: Name) {
        let mut maps = M::of_threads(&job(subject, Workload::Get), 100);
        for (thread, map) in maps.iter_mut().enumerate() {
            (0..50).for_each(|key| insert(map, thread as u64 * 50 + key, 60_000));
            map.settle();
        }
        assert_eq!(M::len(&maps), 100, "{subject:?}");
        assert!(maps[1].get(50).is_some() && maps[1].get(100).is_none());
        assert!(maps[1].remove(50).is_some() && maps[1].remove(50).is_none());
        maps[1].settle();
        assert_eq!(M::len(&maps), 99, "{subject:?}");
    }

    #[test]
    fn all_are_maps() {
        is_a_map::<wheelwork::Owned>(Name::Wheelwork);
        is_a_map::<wheelwork::Shared>(Name::WheelworkMutexes);
        is_a_map::<moka::Moka<::moka::sync::Cache<u64, u64>>>(Name::Moka);
        is_a_map::<moka::Moka<::moka::sync::SegmentedCache<u64, u64>>>(Name::MokaSegments);
        is_a_map::<moka::Moka<::moka::sync::Cache<u64, u64>>>(Name::MokaIdle);
        is_a_map::<quick_cache::QuickCache>(Name::QuickCache);
    }

    /// A get does not renew, and a renewal does. Where the test was held up for longer than an
    /// entry has, it begins anew.
    fn expires<M: Map>(subject: Name) {
        let [mut gets, mut renews] = [Workload::Get, Workload::Renew]
            .map(|workload| M::of_threads(&job(subject, workload), 100).remove(0));
        insert(&mut gets, 1, 20);
        gets.get(1);
        let renewed = (0..).find(|&key| {
            insert(&mut renews, key, 20);
            renews.renew(key).is_some()
        });
        thread::sleep(Duration::from_millis(30));
        assert_eq!(gets.get(1), None, "{subject:?}");
        let renewed = renewed.and_then(|key| renews.get(key));
        assert!(renewed.is_some(), "{subject:?}");
    }

    #[test]
    fn renewals_move_the_time() {
        expires::<wheelwork::Owned>(Name::Wheelwork);
        expires::<wheelwork::Shared>(Name::WheelworkMutexes);
        expires::<moka::Moka<::moka::sync::Cache<u64, u64>>>(Name::Moka);
        expires::<moka::Moka<::moka::sync::SegmentedCache<u64, u64>>>(Name::MokaSegments);
    }
}
