//! Measure: the writer counts what is there.

use super::core::LOOK_EVERY;
use super::turn::Writer;
use crate::store::contract::StoreError;
use crate::store::row::StoreTime;

impl Writer {
    /// Counts what is there. The store is asked once a second at most.
    pub(super) fn measure(&mut self, now: StoreTime) -> Result<(), StoreError> {
        let counts = &self.core.shared.counts;
        counts.window_rows.set(self.core.window.rows() as u64);
        counts.window_bytes.set(self.core.window.bytes() as u64);
        let oldest = self.core.window.oldest_overdue(now);
        counts
            .oldest_due
            .set(oldest.map_or(0, StoreTime::as_millis));
        let time = self.core.time();
        let is_recent = self
            .measured
            .is_some_and(|measured| time.saturating_duration_since(measured) < LOOK_EVERY);
        if is_recent {
            return Ok(());
        }
        self.measure_store()
    }

    /// The node has stopped: no timer waits for it.
    pub(super) fn measure_stopped(&self) {
        let counts = &self.core.shared.counts;
        let of_window = [
            &counts.window_rows,
            &counts.window_bytes,
            &counts.oldest_due,
        ];
        of_window.into_iter().for_each(|count| count.set(0));
    }

    /// Asks the store how much it has.
    pub(super) fn measure_store(&mut self) -> Result<(), StoreError> {
        self.measured = Some(self.core.time());
        self.core.look_every = self.core.look_every.saturating_mul(2);
        // What has come since may be put off too.
        self.has_upkeep = true;
        let size = self.core.store.size()?;
        let kept = self.count_done()?;
        let counts = &self.core.shared.counts;
        counts.done_kept.set(kept);
        self.core.has_rows = size.rows > 0;
        counts.rows.set(size.rows);
        counts.dead.set(size.dead);
        counts.disk_bytes.set(size.disk_bytes.unwrap_or(0));
        Ok(())
    }
}
