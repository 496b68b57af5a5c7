//! Pins: which threads may look at a page, and the pages that are unlinked.

use crate::cell;

/// The threads that may pin.
pub struct Pins(cell::Pins);

/// With it a thread pins itself.
pub struct Pinner(cell::Pinner);

/// Pages that are unlinked.
pub struct Limbo<P>(cell::Limbo<P>);

impl Pins {
    /// No threads. They count: see [`set_pins`](super::set_pins).
    #[expect(clippy::new_without_default, reason = "a model's")]
    pub fn new() -> Self {
        Self(cell::Pins::new())
    }

    /// PinRegister.
    pub fn register(&self) -> Pinner {
        Pinner(self.0.register())
    }

    /// No pages.
    pub fn limbo<P>(&self) -> Limbo<P> {
        Limbo(cell::Limbo::new(self.0.clone()))
    }
}

impl Pinner {
    /// PinStore, PinFence; at the end Unpin.
    pub fn pinned<R>(&self, f: impl FnOnce() -> R) -> R {
        let _pinned = self.0.pin();
        f()
    }
}

impl<P> Limbo<P> {
    /// Takes a page that was unlinked.
    pub fn add(&mut self, page: P) {
        self.0.add(page);
    }

    /// RetireFence, RetireLook.
    pub fn look(&mut self) {
        self.0.look();
    }

    /// PinSweep.
    pub fn sweep(&mut self) -> bool {
        self.0.sweep()
    }

    /// A page that no thread looks at any more.
    pub fn take(&mut self) -> Option<P> {
        self.0.take()
    }
}
