//! Timer ids: plain data, safe to keep for ever.

use std::fmt;
use std::num::NonZeroU32;

/// Names one timer of one service.
///
/// Plain `Copy` data of 16 bytes: no reference count, no pointer. It stays safe to use when its timer, or its service, is gone:
/// [`cancel`](crate::TimerHandle::cancel) then says `false`. No other timer ever gets the same id from the same service.
///
/// # Example
/// ```
/// use std::time::Duration;
/// # let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(30), || println!("timed out"))?;
/// assert!(service.cancel(id));
/// assert!(!service.cancel(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    pub(crate) birth: u64,
    pub(crate) cell: u32,
    /// The service's tag, unique among the 2^32 services made last.
    pub(crate) service: NonZeroU32,
}

const _: () = assert!(size_of::<Option<TimerId>>() == 16);

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerId({}:{}:{})", self.service, self.cell, self.birth)
    }
}
