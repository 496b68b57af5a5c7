//! Loom pins: whether pins count in a model.
//!
//! Compiled under `--cfg loom` only. Each pin is a step of the model, so pins count only in models
//! that ask for it. In others nothing is pinned, and no page is freed.

use std::cell::Cell;

std::thread_local! {
    static COUNT: Cell<bool> = const { Cell::new(false) };
}

/// Says whether pins count in the services that this thread's models make from now on.
pub fn set_pins(on: bool) {
    COUNT.set(on);
}

/// Whether this thread is unwinding: its model has failed and is gone, and its locks are too.
pub(crate) fn model_has_failed() -> bool {
    std::thread::panicking()
}

pub(crate) fn pins_count() -> bool {
    COUNT.get()
}
