//! Cold drop: a value whose drop is compiled once, where the value is made.
//!
//! The compiler writes the code that drops a value, and its parts, into each crate that may drop
//! it, and several times into each: wherever a panic may pass by. For a shard that was a tenth of
//! what a program compiled. A [`ColdDrop`] calls that code by its address instead.
//!
//! Ground rule: it is made by code that does not depend on the payload's type. Elsewhere it is as
//! good, and saves nothing. For what is dropped at an end: the call is not inlined.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A value with the address of the code that drops it.
pub(crate) struct ColdDrop<T> {
    value: ManuallyDrop<T>,
    drop: unsafe fn(&mut ManuallyDrop<T>),
}

impl<T> ColdDrop<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            drop: ManuallyDrop::drop,
        }
    }
}

impl<T> Deref for ColdDrop<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ColdDrop<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for ColdDrop<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { (self.drop)(&mut self.value) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn it_drops_its_value_once() {
        let value = Arc::new(0);
        let mut cold = ColdDrop::new(vec![value.clone()]);
        cold.push(value.clone());
        assert_eq!((cold.len(), Arc::strong_count(&value)), (2, 3));
        drop(cold);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
