//! Loom epochs: a stand-in for the epoch collector, in the models that ask for one.
//!
//! Compiled under `--cfg loom` only. The arena and its models use it as `crossbeam_epoch`.

use super::imp::Mutex;
use std::cell::Cell;

/// Stand-in for `crossbeam_epoch::Collector`. It frees a retired object when no guard is left that
/// was pinned at the retirement.
///
/// Each pin is a step of the model, so this works only in models that ask for it (`set_epochs`). In
/// others nothing is pinned, and nothing is freed.
#[derive(Clone, Debug)]
pub(crate) struct Collector(Option<std::sync::Arc<Mutex<Pins>>>);

#[derive(Debug)]
pub(crate) struct LocalHandle(Collector);

#[derive(Debug)]
pub(crate) struct Guard {
    collector: Collector,
    number: usize,
}

/// The present guards, and each retired object with the guards that it waits for.
#[derive(Default)]
pub(crate) struct Pins {
    guards: usize,
    pinned: Vec<usize>,
    retired: Vec<(Vec<usize>, Box<dyn FnOnce() + Send>)>,
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins")
            .field("pinned", &self.pinned)
            .finish_non_exhaustive()
    }
}

impl Collector {
    pub(crate) fn new() -> Self {
        Self(EPOCHS.get().then(Default::default))
    }

    pub(crate) fn register(&self) -> LocalHandle {
        LocalHandle(self.clone())
    }

    fn with_pins<R: Default>(&self, f: impl FnOnce(&mut Pins) -> R) -> R {
        self.0
            .as_ref()
            .map_or_else(R::default, |pins| f(&mut pins.lock().unwrap()))
    }
}

impl LocalHandle {
    pub(crate) fn pin(&self) -> Guard {
        let number = self.0.with_pins(|pins| {
            pins.guards += 1;
            pins.pinned.push(pins.guards);
            pins.guards
        });
        Guard {
            collector: self.0.clone(),
            number,
        }
    }
}

impl Guard {
    pub(crate) fn flush(&self) {}
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A model that has failed is gone, and its locks are too.
        if std::thread::panicking() {
            return;
        }
        let freed = self.collector.with_pins(|pins| {
            pins.pinned.retain(|&number| number != self.number);
            pins.retired
                .iter_mut()
                .for_each(|(waits_for, _)| waits_for.retain(|&number| number != self.number));
            pins.retired
                .extract_if(.., |(waits_for, _)| waits_for.is_empty())
                .map(|(_, free)| free)
                .collect::<Vec<_>>()
        });
        freed.into_iter().for_each(|free| free());
    }
}

/// Runs `drop_it` once no guard that is pinned now is left. In models without epochs: never.
///
/// # Safety
/// As in the real one.
pub(crate) unsafe fn retire(guard: &Guard, drop_it: impl FnOnce() + Send + 'static) {
    let Collector(Some(pins)) = &guard.collector else {
        return std::mem::forget(drop_it);
    };
    let mut pins = pins.lock().unwrap();
    let pinned = pins.pinned.clone();
    pins.retired.push((pinned, Box::new(drop_it)));
}

std::thread_local! {
    /// Whether collectors that are made from now on collect.
    static EPOCHS: Cell<bool> = const { Cell::new(false) };
}

/// Says whether the collectors that this thread's models make from now on free retired objects.
pub fn set_epochs(on: bool) {
    EPOCHS.set(on);
}
