//! Memory: zeroed pages, and prefetching.
//!
//! Zeroed memory comes straight from the operating system: untouched pages cost nothing, and dropping it gives it back at once.
//! An allocator keeps freed blocks for later; after a spike of ten million timers that is half a gigabyte that nobody asked for.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// A zeroed `Self` is valid, and `Self` does not need to be dropped.
pub(crate) unsafe trait Zeroable {
    /// The same value, made one at a time: loom's types are not plain memory.
    #[cfg(loom)]
    fn zeroed() -> Self;
}

// SAFETY: its elements are.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {
    #[cfg(loom)]
    fn zeroed() -> Self {
        std::array::from_fn(|_| T::zeroed())
    }
}

#[cfg(not(loom))]
// SAFETY: an integer.
unsafe impl Zeroable for u64 {}

/// A boxed slice of zeroed `T` in pages of its own.
pub(crate) struct Zeroed<T> {
    #[cfg(not(loom))]
    map: memmap2::MmapRaw,
    #[cfg(loom)]
    map: Box<[T]>,
    len: usize,
    _owns: PhantomData<T>,
}

// SAFETY: owns its `T`s like a box does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T: Zeroable> Zeroed<T> {
    /// `len` zeroed values, `len` at least 1. Aborts like any allocation if the system has no memory.
    #[cfg(not(loom))]
    pub(crate) fn new(len: usize) -> Self {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        assert!(len > 0, "there is a first one");
        let layout = std::alloc::Layout::array::<T>(len).expect("sizes are bounded by the callers");
        match memmap2::MmapMut::map_anon(layout.size()) {
            Ok(map) => Self { map: map.into(), len, _owns: PhantomData },
            Err(_) => std::alloc::handle_alloc_error(layout),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new(len: usize) -> Self {
        assert!(len > 0, "there is a first one");
        Self { map: (0..len).map(|_| T::zeroed()).collect(), len, _owns: PhantomData }
    }

    /// Has the system lay memory under all of it now, up to so many bytes. Otherwise each of its pages comes when it is first touched; and one that is read before it is written comes twice, as zeros
    /// that all share, then as a page of its own, of which every core that runs this process is told by an interrupt: some 10 us. Returns whether the system did: it is no more than a saving.
    pub(crate) fn populate(&self, bytes: usize) -> bool {
        #[cfg(all(target_os = "linux", not(loom)))]
        return self.map.advise_range(memmap2::Advice::PopulateWrite, 0, bytes.min(self.len * size_of::<T>())).is_ok();
        #[cfg(not(all(target_os = "linux", not(loom))))]
        return bytes == 0;
    }

    /// The first value, without a look at how many there are.
    #[inline]
    pub(crate) fn first(&self) -> &T {
        // SAFETY: there is one at least (`new`), zeroed at first; it lives as long as `self`.
        unsafe { &*self.as_ptr() }
    }

    pub(crate) fn as_ptr(&self) -> *const T {
        #[cfg(not(loom))]
        return self.map.as_ptr().cast();
        #[cfg(loom)]
        return self.map.as_ptr();
    }
}

impl<T: Zeroable> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the map holds `len` values, zeroed at first, which is valid for `T` (`Zeroable`); it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` makes us the only ones.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().cast_mut(), self.len) }
    }
}

/// Asks for the cache line of an address, to write: it arrives as the only copy, while other work goes on. The address may be anything.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        // The intrinsic's hint for it becomes a plain prefetch unless the build names a processor that has the instruction. All 64-bit ones accept it.
        // SAFETY: a prefetch does not fault, and changes neither memory nor registers nor flags.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    let _ = address;
}

/// The same of all cache lines of a value.
#[inline]
pub(crate) fn prefetch_all_to_write<T>(value: &T) {
    let start = (&raw const *value).cast::<u8>();
    (0..size_of::<T>()).step_by(64).for_each(|offset| prefetch_to_write(start.wrapping_add(offset)));
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests {
    use super::*;

    /// How many of these pages of the system are there. The words begin with one.
    fn pages_there(words: &[u64]) -> usize {
        let mut pages = vec![0u8; size_of_val(words).div_ceil(4096)];
        // SAFETY: the range is mapped, begins with a page, and there is a byte for each of its pages (fewer, should they be larger).
        assert_eq!(unsafe { libc::mincore(words.as_ptr().cast_mut().cast(), size_of_val(words), pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }

    #[test]
    fn what_is_populated_is_there_at_once_and_zero() {
        const BYTES: usize = 1 << 20;
        let memory = Zeroed::<u64>::new(BYTES / size_of::<u64>());
        if !memory.populate(BYTES / 2) {
            return println!("a kernel that can't");
        }
        let (here, not_here) = memory.split_at(BYTES / 2 / size_of::<u64>());
        // Before anybody reads it, which would bring pages too.
        assert!(pages_there(here) > pages_there(not_here), "{} and {}", pages_there(here), pages_there(not_here));
        assert!(here.iter().all(|&word| word == 0));
        assert!(Zeroed::<u64>::new(10).populate(usize::MAX), "no more than there is");
    }
}
