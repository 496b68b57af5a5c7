//! Health: whether durable timers work, for a readiness probe.

use super::client::DurableClient;
use crate::queue::outage::Health;

impl DurableClient {
    /// Returns whether the store has failed, and if so, since when and why, and when it is opened
    /// again. The call does not ask the store, and does not wait for it. A database that does not
    /// answer has failed only after its `patience`. Until then [`Health::turn`] grows.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let health = timers.health();
    /// match &health.outage {
    ///     None => assert!(health.is_ready()),
    ///     Some(outage) => println!("since {:?}: {}", outage.since, outage.why),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.health()
    }
}
