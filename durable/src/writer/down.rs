//! Down: an outage of the store, as the writer knows it.
//!
//! The writer owns it. It says when the store is opened again, and keeps what handlers say
//! meanwhile.

use crate::queue::request::{Control, Told};
use std::time::Duration;

/// The first wait before the store is opened again. Each wait is twice as long as the one before.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A store that has worked for so long begins with the first wait again.
const SOUND: Duration = Duration::from_secs(10);

/// What the writer knows of outages.
#[derive(Default)]
pub(super) struct Down {
    /// The present one. Times are by the node's clock.
    pub(super) now: Option<Now>,
    wait: Duration,
    /// When the last one was over.
    back_at: Option<Duration>,
    /// What handlers have said meanwhile, and a stop. The commit of the first turn has them.
    pub(super) told: Vec<Told>,
    pub(super) controls: Vec<Control>,
    /// A stop has had the store opened again. It is not opened once more.
    pub(super) was_tried_by_stop: bool,
}

/// An outage that lasts.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) began: Duration,
    pub(super) again_at: Duration,
}

impl Down {
    /// The store has failed. Returns after how long it is opened again.
    pub(super) fn begin(&mut self, now: Duration) -> Duration {
        let is_sound = self
            .back_at
            .is_none_or(|back_at| now.saturating_sub(back_at) > SOUND);
        if is_sound {
            self.wait = Duration::ZERO;
        }
        self.now = Some(Now {
            began: now,
            again_at: now,
        });
        self.put_off(now)
    }

    /// The store could not be opened. Returns after how long it is opened again.
    pub(super) fn put_off(&mut self, now: Duration) -> Duration {
        self.wait = (self.wait * 2).clamp(WAIT_MIN, WAIT_MAX);
        if let Some(outage) = &mut self.now {
            outage.again_at = now.saturating_add(self.wait);
        }
        self.wait
    }

    /// The outage is over. Returns how long it has lasted.
    pub(super) fn end(&mut self, now: Duration) -> Duration {
        self.back_at = Some(now);
        let outage = self.now.take();
        outage.map_or(Duration::ZERO, |outage| now.saturating_sub(outage.began))
    }

    /// A stop waits for the outage to end.
    pub(super) fn has_stop(&self) -> bool {
        let mut controls = self.controls.iter();
        controls.any(|control| matches!(control, Control::Stop(_)))
    }
}
