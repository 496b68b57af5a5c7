//! Typed kind: the name of a kind together with the type of its payloads.

use std::fmt;
use std::marker::PhantomData;

/// A kind whose payloads are values of `T`, as a constant of your program.
///
/// Such a constant spells a kind once, and ties it to the type of its payloads. Where it is used, a
/// name that is misspelt or a payload of another type does not compile. A string names a kind as
/// well, but promises nothing of its payloads. Calls that take only strings get
/// [`name`](Self::name).
///
/// # What does not compile
/// ```compile_fail
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Kind, Memory};
///
/// const REMIND: Kind<u64> = Kind::new("cart.remind");
///
/// let timers = Durable::builder(Memory::new()).start().unwrap();
/// timers.schedule_typed(REMIND, Duration::ZERO, "no number").unwrap();
/// ```
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::ManualClock;
/// use wheelwork_durable::{Durable, Kind, Memory};
///
/// const REMIND: Kind<u64> = Kind::new("cart.remind");
///
/// let clock = ManualClock::new();
/// let timers = Durable::builder(Memory::new())
///     .clock(clock.clone())
///     .on_typed(REMIND, |_, cart| Ok(println!("cart {cart} waits")))
///     .start()?;
/// timers.schedule_typed(REMIND, Duration::from_secs(60), &7)?;
/// timers.key("cart-8").schedule_typed(REMIND, Duration::from_secs(60), &8)?;
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(timers.stats().done, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Kind<T: ?Sized> {
    name: &'static str,
    payload: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Kind<T> {
    /// The kind with this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            payload: PhantomData,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl<T: ?Sized> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Kind<T> {}

impl<T: ?Sized> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

impl<T: ?Sized> fmt::Display for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What names a kind whose payloads are values of `T`: a [`Kind<T>`], or any string. This crate
/// alone implements it.
///
/// # Example
/// See [`Kind`].
pub trait KindOf<T: ?Sized>: Sealed {
    /// The kind's name.
    #[doc(hidden)]
    fn kind_name(&self) -> &str;
}

/// Keeps [`KindOf`] to this crate.
#[doc(hidden)]
pub trait Sealed {}

impl<T: ?Sized> Sealed for Kind<T> {}

impl<T: ?Sized> KindOf<T> for Kind<T> {
    fn kind_name(&self) -> &str {
        self.name
    }
}

impl<S: AsRef<str> + ?Sized> Sealed for &S {}

impl<T: ?Sized, S: AsRef<str> + ?Sized> KindOf<T> for &S {
    fn kind_name(&self) -> &str {
        (**self).as_ref()
    }
}
