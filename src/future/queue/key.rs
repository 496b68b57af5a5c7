//! Key: names a value and its queue.

use crate::sync::{Ordering, StaticU64};
use crate::wheel::Handle;
use std::fmt;

/// Names one value of one [`DelayQueue`](super::DelayQueue).
///
/// Plain `Copy` data of 16 bytes, safe to keep for ever. If its value is gone, or with another
/// queue, each call answers that there is no such value.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::DelayQueue;
///
/// let (mut queue, mut other) = (DelayQueue::new(), DelayQueue::new());
/// let key = queue.insert("mine", Duration::from_secs(60));
/// other.insert("another's", Duration::from_secs(60));
/// assert_eq!(other.remove(key), None);
/// assert_eq!(queue.remove(key), Some("mine"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub(super) queue: u64,
    pub(super) handle: Handle,
}

const _: () = assert!(size_of::<Option<Key>>() == 16);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}:{:?})", self.queue, self.handle)
    }
}

/// A number for each queue.
pub(super) fn next_number() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(0);
    // Ordering: Relaxed. Numbers only have to differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
