//! Memory that has been written to, so that it is resident before the service starts.

use std::hint::black_box;

/// Empty slots in such memory.
pub(super) fn touched<T>(slots: usize) -> Vec<Option<T>> {
    let mut touched: Vec<Option<T>> = (0..slots).map(|_| None).collect();
    // An allocator may hand out zeros that no one has written.
    black_box(&mut touched).fill_with(|| None);
    touched
}
