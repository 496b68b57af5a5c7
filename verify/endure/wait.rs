//! Wait: until nothing is left, or it is stuck; until all is over.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// How long something is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Between two looks.
    pub(crate) look: Duration,
    /// If nothing has come in this many looks, it is stuck. Looks, not time: whoever stops the
    /// process, or takes its cores, makes no fault.
    pub(crate) looks: u32,
}

impl Patience {
    /// As long as that, if nothing holds up whoever looks.
    pub(crate) fn time(self) -> Duration {
        self.look * self.looks
    }

    /// Waits as long as something is left: `left` says how much, and what. Returns what is stuck.
    pub(crate) fn wait_while<T>(self, left: impl Fn() -> Option<(u64, T)>) -> Option<(u64, T)> {
        let (mut fewest, mut looks) = (u64::MAX, 0);
        while let Some((count, what)) = left() {
            if count < fewest {
                (fewest, looks) = (count, 0);
            }
            if looks == self.looks {
                return Some((count, what));
            }
            looks += 1;
            thread::sleep(self.look);
        }
        None
    }
}

/// When it is dropped, at the latest, it is over.
pub(crate) struct EndsAll<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_comes_is_waited_for_and_what_is_stuck_is_told() {
        let patience = Patience {
            look: Duration::ZERO,
            looks: 3,
        };
        let (left, looks) = (Cell::new(5), Cell::new(0));
        // One comes with every third look, until two are left.
        let look = |stuck: u64| {
            looks.set(looks.get() + 1);
            if looks.get() % 3 == 0 && left.get() > stuck {
                left.set(left.get() - 1);
            }
            (left.get() > 0).then(|| (left.get(), "late"))
        };
        assert_eq!(patience.wait_while(|| look(2)), Some((2, "late")));
        assert_eq!(looks.get(), 9 + 3);
        assert_eq!(patience.wait_while(|| look(0)), None);
    }
}
