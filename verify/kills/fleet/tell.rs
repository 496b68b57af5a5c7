//! Tell: what a node does, to its parent.

use crate::wire::{Event, Teller};

/// Tells events. Where nobody hears them nobody would know what this node does: it ends.
pub(crate) fn tell(teller: &Teller, events: &[Event]) {
    if teller.tell_all(events).is_err() {
        std::process::exit(3);
    }
}
