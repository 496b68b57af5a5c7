//! Batch: what a handler gets.

use crate::dispatch::grain::Grain;
use std::any::Any;
use std::fmt;

/// Payloads of timers that fired, for the handler to take: an iterator.
///
/// These timers have fired, so they can no longer be cancelled. The handler should take all
/// payloads. Payloads that it leaves are dropped, counted in
/// [`TimerCounts::dropped`](crate::TimerCounts::dropped), and reported to the hook
/// [`on_dropped`](crate::Builder::on_dropped).
///
/// Another worker may take from the same batch at the same time. So the handler may get fewer
/// payloads than [`remaining`](Self::remaining) says.
///
/// # Example
/// ```
/// use wheelwork::{Batch, TimerService};
///
/// let service = TimerService::builder()
///     .on_expire(|names: &mut Batch<'_, String>| {
///         for name in names {
///             println!("{name} is due");
///         }
///     })
///     .start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
pub struct Batch<'a, T> {
    pub(crate) grain: &'a Grain<'a, T>,
    /// The `Arc` of the engine, for the room `service`. Its type is left out here, because the type
    /// of the engine has that of the batch in it.
    pub(crate) engine: &'a dyn Any,
}

impl<T> Batch<'_, T> {
    /// The number of payloads that nobody has taken yet.
    ///
    /// # Example
    /// ```
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let service = TimerService::builder()
    ///     .on_expire(|batch: &mut Batch<'_, u64>| {
    ///         let mut numbers = Vec::with_capacity(batch.remaining());
    ///         numbers.extend(batch);
    ///     })
    ///     .start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.grain.left()
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.grain.take()
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("remaining", &self.remaining())
            .finish()
    }
}
