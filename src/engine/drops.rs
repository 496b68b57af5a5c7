//! Drops: drops many payloads of users, one by one, although some drops may panic.

use super::notices::hooks::discard;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Drops payloads one after the other, and catches panics. (In a `Vec` the second drop that panics
/// would abort the process.)
#[derive(Default)]
pub(crate) struct Drops {
    /// The first panic.
    panic: Option<Box<dyn Any + Send>>,
}

impl Drops {
    /// Drops all values. Then panics if a drop did.
    pub(crate) fn all(values: impl Iterator) {
        let mut drops = Self::default();
        drops.add(values);
        drops.finish();
    }

    /// Drops all values. A panic of the iterator counts as a panic of a value.
    pub(crate) fn add(&mut self, mut values: impl Iterator) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
            for value in values.by_ref() {
                drop(value);
            }
        })) {
            match self.panic {
                None => self.panic = Some(panic),
                Some(_) => discard(panic),
            }
        }
    }

    /// Panics as the first drop did, unless the thread already panics.
    pub(crate) fn finish(mut self) {
        match self.panic.take() {
            Some(panic) if std::thread::panicking() => discard(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}

impl Drop for Drops {
    /// Without `finish` the thread is unwinding. The payload of the first panic may panic in its
    /// drop.
    fn drop(&mut self) {
        self.panic.take().into_iter().for_each(discard);
    }
}
