//! Memory that has been written to, so that it is resident before the service starts.

use std::hint::black_box;

/// Room for this many bytes at least. Else the slots of two threads, if they have few, would share
/// a cache line.
const BYTES: usize = 256;

/// Empty slots in such memory.
pub(super) fn touched<T>(slots: usize) -> Vec<Option<T>> {
    let room = BYTES.div_ceil(size_of::<Option<T>>().max(1));
    let mut touched = Vec::with_capacity(slots.max(room));
    touched.resize_with(slots, || None);
    // An allocator may hand out zeros that no one has written.
    black_box(&mut touched).fill_with(|| None);
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_two_threads_share_no_cache_line() {
        let all = [(); 9].map(|()| touched::<u64>(1));
        let mut starts = all.each_ref().map(|slots| slots.as_ptr().addr());
        assert!(all.iter().all(|slots| slots.len() == 1));
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= BYTES));
    }
}
