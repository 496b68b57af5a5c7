//! The index of the table `recent`: which rows are in it, and which of them are due when.
//!
//! Arming appends a key to a bucket, about 65 seconds of deadlines wide. Nothing is taken out of a
//! bucket: a key whose row is gone, or was moved, is stale. It is told by the row's present
//! deadline, and stale keys are dropped when there are more of them than others. A bucket is sorted
//! when it is read.
//!
//! Memory: some 30 to 60 bytes for each row of `recent`, of which sweeps keep few.

use super::due_key::DueKey;
use super::number_map::NumberMap;
use crate::store::row::StoreTime;
use std::collections::BTreeMap;

/// Milliseconds of a bucket, as a power of two.
const BUCKET_BITS: u32 = 16;

/// Stale keys that are kept in any case.
const STALE_MIN: usize = 65_536;

/// With a row's deadline: it was moved from its first one.
const MOVED: u64 = 1 << 63;

/// With a row's deadline: the row was put in with a key.
const KEYED: u64 = 1 << 62;

/// The rows of `recent`.
#[derive(Default)]
pub(crate) struct RecentIndex {
    /// Deadlines by number, with [`MOVED`] and [`KEYED`].
    rows: NumberMap,
    buckets: BTreeMap<u64, Bucket>,
    /// Keys in all buckets.
    keys: usize,
}

#[derive(Default)]
struct Bucket {
    keys: Vec<DueKey>,
    /// The number of keys at the front that are sorted.
    sorted: usize,
}

/// A row of `recent`, as far as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) due: StoreTime,
    /// Its first deadline is another one.
    pub(crate) is_moved: bool,
    /// It was put in with a key.
    pub(crate) has_key: bool,
}

impl RecentIndex {
    /// Rows in `recent`.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Keys in its buckets, stale ones too.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    pub(crate) fn get(&self, number: u64) -> Option<Known> {
        let entry = self.rows.get(number)?;
        Some(Known {
            due: StoreTime::from_millis(entry & !(MOVED | KEYED)),
            is_moved: entry & MOVED != 0,
            has_key: entry & KEYED != 0,
        })
    }

    /// Notes a row that was put in, or moved.
    pub(crate) fn put(&mut self, key: DueKey, has_key: bool) {
        let keyed = if has_key { KEYED } else { 0 };
        let former = self.rows.insert(key.number(), entry(&key) | keyed);
        if former.is_some_and(|former| former & !KEYED == entry(&key)) {
            return;
        }
        let bucket = key.due().as_millis() >> BUCKET_BITS;
        self.buckets.entry(bucket).or_default().keys.push(key);
        self.keys += 1;
        if self.keys > 2 * self.rows.len() + STALE_MIN {
            self.drop_stale();
        }
    }

    /// Notes a row that has ended, or has left the table. Returns whether it was known.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.rows.remove(number)
    }

    /// Appends up to `limit` keys after `after` and due at `until` or before, in their order.
    pub(crate) fn range(
        &mut self,
        after: DueKey,
        until: StoreTime,
        limit: usize,
        out: &mut Vec<DueKey>,
    ) {
        let first = after.due().as_millis() >> BUCKET_BITS;
        let last = until.as_millis() >> BUCKET_BITS;
        if first > last || limit == 0 {
            return;
        }
        let (end, full) = (DueKey::end_of(until), out.len().saturating_add(limit));
        for bucket in self
            .buckets
            .range_mut(first..=last)
            .map(|(_, bucket)| bucket)
        {
            self.keys -= bucket.sort();
            let begin = bucket.keys.partition_point(|&key| key <= after);
            for key in &bucket.keys[begin..] {
                if *key > end || out.len() == full {
                    return;
                }
                if is_current(&self.rows, key) {
                    out.push(*key);
                }
            }
        }
    }

    fn drop_stale(&mut self) {
        let rows = &self.rows;
        self.buckets.retain(|_, bucket| {
            bucket.keys.retain(|key| is_current(rows, key));
            bucket.sorted = 0;
            bucket.sort();
            bucket.keys.shrink_to(2 * bucket.keys.len());
            !bucket.keys.is_empty()
        });
        self.keys = self.buckets.values().map(|bucket| bucket.keys.len()).sum();
        self.rows.shrink();
    }
}

impl Bucket {
    /// Sorts the keys. Returns how many were there twice.
    fn sort(&mut self) -> usize {
        let before = self.keys.len();
        if self.sorted != before {
            // Stable: it takes the sorted run at the front as one.
            self.keys.sort();
            self.keys.dedup();
            self.sorted = self.keys.len();
        }
        before - self.keys.len()
    }
}

fn entry(key: &DueKey) -> u64 {
    key.due().as_millis() | if key.is_moved() { MOVED } else { 0 }
}

/// Whether the key's row is there, and is due when the key says.
fn is_current(rows: &NumberMap, key: &DueKey) -> bool {
    rows.get(key.number())
        .is_some_and(|row| row & !KEYED == entry(key))
}
