//! Content: what a timer is armed with, before, in and after its cell.
//!
//! The thread that arms owns it, then the cell, then the winner of the claim. `state.rs` moves it
//! in and out.

use crate::repeat::Repeat;
use std::mem::ManuallyDrop;

/// What a timer was armed with.
#[derive(Debug)]
pub(crate) enum Content<T> {
    Payload(T),
    Repeat(Box<Repeat>),
}

impl<T> Content<T> {
    /// Whether its drop does anything.
    pub(crate) fn needs_drop(&self) -> bool {
        matches!(self, Self::Repeat(_)) || std::mem::needs_drop::<T>()
    }
}

/// What can be put into a cell. It is a type parameter of `fill`, so that arming a payload does not
/// pay for periodic timers.
pub(crate) trait Fill<T>: Sized {
    /// Whether it is a `Repeat`.
    const REPEATS: bool;

    /// What the caller gets back if the service refuses it.
    type Back;

    /// Whether it is a timer by the wall clock.
    fn goes_by_wall(&self) -> bool;

    /// In the form that lies in the cell.
    fn stored(self) -> Stored<T>;

    /// Gives it back to the caller.
    fn back(self) -> Self::Back;

    /// Gives it back to the caller, after it came out of a cell.
    fn of(content: Content<T>) -> Self::Back;
}

/// A payload to be put into a cell.
pub(crate) struct Payload<T>(pub(crate) T);

impl<T> Fill<T> for Payload<T> {
    const REPEATS: bool = false;

    type Back = T;

    #[inline(always)]
    fn goes_by_wall(&self) -> bool {
        false
    }

    #[inline]
    fn stored(self) -> Stored<T> {
        Stored {
            payload: ManuallyDrop::new(self.0),
        }
    }

    fn back(self) -> T {
        self.0
    }

    fn of(content: Content<T>) -> T {
        match content {
            Content::Payload(payload) => payload,
            Content::Repeat(_) => unreachable!("it was a payload"),
        }
    }
}

impl<T> Fill<T> for Box<Repeat> {
    const REPEATS: bool = true;

    type Back = Self;

    fn goes_by_wall(&self) -> bool {
        Repeat::goes_by_wall(self)
    }

    fn stored(self) -> Stored<T> {
        Stored {
            repeat: ManuallyDrop::new(self),
        }
    }

    fn back(self) -> Self {
        self
    }

    fn of(content: Content<T>) -> Self {
        match content {
            Content::Repeat(repeat) => repeat,
            Content::Payload(_) => unreachable!("it was a repeat"),
        }
    }
}

/// A content in its cell. The word says whether there is one, and of which kind.
pub(crate) union Stored<T> {
    pub(super) payload: ManuallyDrop<T>,
    pub(super) repeat: ManuallyDrop<Box<Repeat>>,
}
