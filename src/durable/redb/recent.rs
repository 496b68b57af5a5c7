//! The index of the table `recent`: which rows are in it, and which of them are due when.
//!
//! Arming appends a key to a bucket, about 65 seconds of deadlines wide. Nothing is taken out of a
//! bucket: a key whose row is gone, or was moved, is stale. It is told by the row's present
//! deadline, and stale keys are dropped when there are more of them than others. A bucket is sorted
//! when it is read.
//!
//! Memory: some 50 to 100 bytes for each row of `recent`, of which sweeps keep few.

use super::due_key::DueKey;
use crate::durable::StoreTime;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Milliseconds of a bucket, as a power of two.
const BUCKET_BITS: u32 = 16;

/// Stale keys that are kept in any case.
const STALE_MIN: usize = 65_536;

/// In a row's place: it was moved from its first deadline.
const MOVED: u64 = 1 << 63;

/// The rows of `recent`.
#[derive(Default)]
pub(crate) struct RecentIndex {
    /// Deadlines by number, with [`MOVED`].
    rows: HashMap<u64, u64, BuildHasherDefault<NumberHasher>>,
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
pub(crate) enum Known {
    /// It is at its first deadline.
    Unmoved(StoreTime),
    /// Its first deadline is another one.
    Moved(StoreTime),
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
        let &entry = self.rows.get(&number)?;
        let due = StoreTime::from_millis(entry & !MOVED);
        Some(if entry & MOVED == 0 {
            Known::Unmoved(due)
        } else {
            Known::Moved(due)
        })
    }

    /// Notes a row that was put in, or moved.
    pub(crate) fn put(&mut self, key: DueKey) {
        if self.rows.insert(key.number(), entry(&key)) == Some(entry(&key)) {
            return;
        }
        let bucket = key.due().as_millis() >> BUCKET_BITS;
        self.buckets.entry(bucket).or_default().keys.push(key);
        self.keys += 1;
        if self.keys > 2 * self.rows.len() + STALE_MIN {
            self.drop_stale();
        }
    }

    /// Notes a row that is in the table no more.
    pub(crate) fn remove(&mut self, number: u64) {
        self.rows.remove(&number);
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
                if self.rows.get(&key.number()) == Some(&entry(key)) {
                    out.push(*key);
                }
            }
        }
    }

    fn drop_stale(&mut self) {
        let rows = &self.rows;
        self.buckets.retain(|_, bucket| {
            bucket
                .keys
                .retain(|key| rows.get(&key.number()) == Some(&entry(key)));
            bucket.sorted = 0;
            bucket.sort();
            bucket.keys.shrink_to(2 * bucket.keys.len());
            !bucket.keys.is_empty()
        });
        self.keys = self.buckets.values().map(|bucket| bucket.keys.len()).sum();
        self.rows.shrink_to(2 * self.rows.len());
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

/// Hashes numbers that nobody chooses, by a multiplication.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
