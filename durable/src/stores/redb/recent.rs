//! The index of the table `recent`: which rows are in it, and which of them are due when.
//!
//! Arming appends a key to a bucket, about 65 seconds of deadlines wide. Nothing is taken out of a
//! bucket: a key whose row is gone, or was moved, is stale. It is told by the row's present
//! deadline, and stale keys are dropped when there are more of them than others. A bucket is sorted
//! when it is read.
//!
//! A row at its first deadline has a key of eight bytes: the time in its bucket, and how far its
//! number is from the first one that came. The others have all of their [`DueKey`], in buckets of
//! their own.
//!
//! Memory: some 20 to 30 bytes for each row of `recent`, of which sweeps keep few; 30 to 60 for one
//! that was moved.

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
    /// Of rows at their first deadline.
    plain: Buckets<PlainKey>,
    /// Of all others.
    full: Buckets<DueKey>,
    /// The first number that has come.
    first: Option<u64>,
}

/// In a bucket: the time since the bucket's begin, above the distance of the number. So the order
/// is that of [`DueKey`]s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlainKey(u64);

impl PlainKey {
    const DISTANCE_BITS: u32 = u64::BITS - BUCKET_BITS;

    /// The distance of the first number.
    const MIDDLE: u64 = 1 << (Self::DISTANCE_BITS - 1);

    /// The key of a row that is at its first deadline, unless its number is too far away. (Numbers
    /// are below 2^63, so their distances have their order.)
    fn new(key: &DueKey, first: u64) -> Option<Self> {
        let distance = key.number().wrapping_sub(first).wrapping_add(Self::MIDDLE);
        let has = !key.is_moved() && distance >> Self::DISTANCE_BITS == 0;
        let since = key.due().as_millis() % (1 << BUCKET_BITS);
        has.then_some(Self(since << Self::DISTANCE_BITS | distance))
    }
}

/// A key in a bucket.
trait BucketKey: Copy + Ord {
    /// All of it, in this bucket, where `first` is the first number.
    fn full(self, bucket: u64, first: u64) -> DueKey;
}

impl BucketKey for PlainKey {
    fn full(self, bucket: u64, first: u64) -> DueKey {
        let since = self.0 >> Self::DISTANCE_BITS;
        let distance = self.0 % (1 << Self::DISTANCE_BITS);
        let due = StoreTime::from_millis(bucket << BUCKET_BITS | since);
        let number = distance.wrapping_sub(Self::MIDDLE).wrapping_add(first);
        DueKey::new(due, due, number)
    }
}

impl BucketKey for DueKey {
    fn full(self, _bucket: u64, _first: u64) -> DueKey {
        self
    }
}

/// Keys by the time of their deadlines.
struct Buckets<K> {
    buckets: BTreeMap<u64, Bucket<K>>,
    /// Keys in all buckets.
    keys: usize,
}

struct Bucket<K> {
    keys: Vec<K>,
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
        self.plain.keys + self.full.keys
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
        let bucket = bucket_of(key.due());
        let first = *self.first.get_or_insert(key.number());
        match PlainKey::new(&key, first) {
            Some(key) => self.plain.push(bucket, key),
            None => self.full.push(bucket, key),
        }
        if self.plain.keys + self.full.keys > 2 * self.rows.len() + STALE_MIN {
            let rows = IndexedRows {
                rows: &self.rows,
                first,
            };
            self.plain.drop_stale(rows);
            self.full.drop_stale(rows);
            self.rows.shrink();
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
        let Some(first) = self.first else {
            return;
        };
        let rows = IndexedRows {
            rows: &self.rows,
            first,
        };
        let begin = out.len();
        self.plain.range(after, until, limit, rows, out);
        let plain = out.len();
        self.full.range(after, until, limit, rows, out);
        if out.len() > plain {
            // Stable: it takes the two sorted runs as such.
            out[begin..].sort();
            out.truncate(begin.saturating_add(limit));
        }
    }
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            keys: 0,
        }
    }
}

impl<K: BucketKey> Buckets<K> {
    fn push(&mut self, bucket: u64, key: K) {
        self.buckets.entry(bucket).or_default().keys.push(key);
        self.keys += 1;
    }

    /// Appends up to `limit` keys after `after` and due at `until` or before, in their order.
    fn range(
        &mut self,
        after: DueKey,
        until: StoreTime,
        limit: usize,
        rows: IndexedRows<'_>,
        out: &mut Vec<DueKey>,
    ) {
        let (first, last) = (bucket_of(after.due()), bucket_of(until));
        if first > last || limit == 0 {
            return;
        }
        let (end, full) = (DueKey::end_of(until), out.len().saturating_add(limit));
        for (&number, bucket) in self.buckets.range_mut(first..=last) {
            self.keys -= bucket.sort();
            let is_before = |key: &K| key.full(number, rows.first) <= after;
            let begin = bucket.keys.partition_point(is_before);
            for key in &bucket.keys[begin..] {
                let key = key.full(number, rows.first);
                if key > end || out.len() == full {
                    return;
                }
                if rows.has(&key) {
                    out.push(key);
                }
            }
        }
    }

    fn drop_stale(&mut self, rows: IndexedRows<'_>) {
        self.buckets.retain(|&number, bucket| {
            let is_current = |key: &K| rows.has(&key.full(number, rows.first));
            bucket.keys.retain(is_current);
            bucket.sorted = 0;
            bucket.sort();
            bucket.keys.shrink_to(2 * bucket.keys.len());
            !bucket.keys.is_empty()
        });
        self.keys = self.buckets.values().map(|bucket| bucket.keys.len()).sum();
    }
}

impl<K> Default for Bucket<K> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            sorted: 0,
        }
    }
}

impl<K: BucketKey> Bucket<K> {
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

fn bucket_of(due: StoreTime) -> u64 {
    due.as_millis() >> BUCKET_BITS
}

fn entry(key: &DueKey) -> u64 {
    key.due().as_millis() | if key.is_moved() { MOVED } else { 0 }
}

/// The rows, and the first number that has come.
#[derive(Clone, Copy)]
struct IndexedRows<'a> {
    rows: &'a NumberMap,
    first: u64,
}

impl IndexedRows<'_> {
    /// Whether the key's row is there, and is due when the key says.
    fn has(self, key: &DueKey) -> bool {
        self.rows
            .get(key.number())
            .is_some_and(|row| row & !KEYED == entry(key))
    }
}
