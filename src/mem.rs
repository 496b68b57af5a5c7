//! Memory: zeroed pages from the operating system.
//!
//! Zeroed memory comes from the operating system, not from the allocator, for two reasons.
//! Untouched pages cost nothing. And dropped memory goes back to the system at once: an allocator
//! would keep it, which is half a gigabyte after a spike of ten million timers.
//!
//! On Linux libc provides it, on other systems memmap2. Where that has no `mmap` (WebAssembly), it
//! comes from the allocator.

#[cfg(not(loom))]
use source::Memory;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// A zeroed `Self` is valid, and `Self` does not need to be dropped.
pub(crate) unsafe trait Zeroable {
    /// A zeroed value. Only for loom, whose types are not plain memory.
    #[cfg(loom)]
    fn zeroed() -> Self;
}

// SAFETY: an array is zeroed if its elements are, and needs no drop if they need none.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {
    #[cfg(loom)]
    fn zeroed() -> Self {
        std::array::from_fn(|_| T::zeroed())
    }
}

#[cfg(not(loom))]
// SAFETY: an integer.
unsafe impl Zeroable for u64 {}

/// Where zeroed memory begins: at a multiple of this.
#[cfg(not(loom))]
const PAGE: usize = 4096;

/// Memory from the operating system.
#[cfg(all(not(loom), any(unix, windows), not(wheelwork_no_mmap)))]
mod source {
    /// A private mapping of this process.
    #[cfg(target_os = "linux")]
    pub(super) struct Memory {
        start: *mut libc::c_void,
        bytes: usize,
    }

    #[cfg(target_os = "linux")]
    impl Memory {
        /// Zeroed memory, which begins at a page. `None` if the system has no memory.
        pub(super) fn zeroed(bytes: usize) -> Option<Self> {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping, where the system likes: it changes no other one.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
            (start != libc::MAP_FAILED).then_some(Self { start, bytes })
        }

        #[inline(always)]
        pub(super) fn start(&self) -> *const u8 {
            self.start.cast()
        }
    }

    #[cfg(target_os = "linux")]
    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: all of a mapping that `zeroed` made. It is unmapped here once, and nobody has
            // a reference into it: its owner is dropped.
            let result = unsafe { libc::munmap(self.start, self.bytes) };
            if result != 0 {
                // The system takes no hole into a mapping when the process has as many mappings as
                // it may have. The memory goes back in any case, and the addresses stay.
                // SAFETY: as above.
                unsafe { libc::madvise(self.start, self.bytes, libc::MADV_DONTNEED) };
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) struct Memory(memmap2::MmapRaw);

    #[cfg(not(target_os = "linux"))]
    impl Memory {
        /// Zeroed memory, which begins at a page. `None` if the system has no memory.
        pub(super) fn zeroed(bytes: usize) -> Option<Self> {
            let map = memmap2::MmapMut::map_anon(bytes).ok()?;
            Some(Self(map.into()))
        }

        #[inline(always)]
        pub(super) fn start(&self) -> *const u8 {
            self.0.as_ptr()
        }
    }

    impl Memory {
        /// Has the system provide the first `bytes` bytes. Returns whether it did so.
        #[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
        pub(super) fn populate(&self, bytes: usize) -> bool {
            // SAFETY: pages of this mapping, which are there from then on, with what they had.
            unsafe { libc::madvise(self.start, bytes, libc::MADV_POPULATE_WRITE) == 0 }
        }

        /// Gives the whole pages among these bytes back to the system. They are zeros from then on.
        /// Returns whether there were any.
        #[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
        pub(super) fn discard(&self, bytes: std::ops::Range<usize>) -> bool {
            // SAFETY: takes an integer.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            let (start, end) = (bytes.start.next_multiple_of(page), bytes.end / page * page);
            if start >= end {
                return false;
            }
            let address = self.start().wrapping_add(start).cast_mut().cast();
            // SAFETY: whole pages of a private mapping of this process: the caller says that they
            // may become zeros.
            unsafe { libc::madvise(address, end - start, libc::MADV_DONTNEED) == 0 }
        }

        /// Other systems do not say that the pages are zeros from then on.
        #[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
        pub(super) fn discard(&self, _: std::ops::Range<usize>) -> bool {
            false
        }

        /// Other systems provide each page at its first access.
        #[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
        pub(super) fn populate(&self, _: usize) -> bool {
            false
        }
    }
}

/// Memory from the allocator.
#[cfg(all(not(loom), not(all(any(unix, windows), not(wheelwork_no_mmap)))))]
mod source {
    use super::PAGE;
    use std::ptr::NonNull;

    pub(super) struct Memory {
        /// All that was allocated: a page more than was asked for. A raw pointer, because others
        /// write through `start`.
        allocated: NonNull<[u8]>,
        start: NonNull<u8>,
    }

    impl Memory {
        /// Zeroed memory, which begins at a multiple of `PAGE`. The allocator gets the alignment of
        /// a byte: a greater one would have std write the zeros, where the system has them.
        pub(super) fn zeroed(bytes: usize) -> Option<Self> {
            let allocated = NonNull::from(Box::leak(vec![0u8; bytes.checked_add(PAGE)?].into()));
            let first = allocated.cast::<u8>();
            let before = first.addr().get().wrapping_neg() % PAGE;
            // SAFETY: `before` is less than `PAGE`, and more than that was allocated.
            let start = unsafe { first.add(before) };
            Some(Self { allocated, start })
        }

        #[inline(always)]
        pub(super) fn start(&self) -> *const u8 {
            self.start.as_ptr()
        }

        /// The allocator cannot be asked for it.
        pub(super) fn populate(&self, _: usize) -> bool {
            false
        }

        /// The allocator cannot take a part of it back.
        pub(super) fn discard(&self, _: std::ops::Range<usize>) -> bool {
            false
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: leaked by `zeroed`, and freed here once.
            drop(unsafe { Box::from_raw(self.allocated.as_ptr()) });
        }
    }
}

/// A boxed slice of zeroed `T` in pages of its own.
pub(crate) struct Zeroed<T> {
    #[cfg(not(loom))]
    memory: Memory,
    #[cfg(loom)]
    memory: Box<[T]>,
    len: usize,
    _owns: PhantomData<T>,
}

// SAFETY: owns its `T`s like a box does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: owns its `T`s like a box does.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T: Zeroable> Zeroed<T> {
    /// `len` zeroed values; `len` is at least 1. Aborts like any allocation if the system has no
    /// memory.
    #[cfg(not(loom))]
    pub(crate) fn new(len: usize) -> Self {
        const {
            assert!(!std::mem::needs_drop::<T>());
            assert!(align_of::<T>() <= PAGE && size_of::<T>() > 0);
        };
        assert!(len > 0, "there is a first one");
        let layout = std::alloc::Layout::array::<T>(len).expect("sizes are bounded by the callers");
        match Memory::zeroed(layout.size()) {
            Some(memory) => Self {
                memory,
                len,
                _owns: PhantomData,
            },
            None => std::alloc::handle_alloc_error(layout),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new(len: usize) -> Self {
        assert!(len > 0, "there is a first one");
        Self {
            memory: (0..len).map(|_| T::zeroed()).collect(),
            len,
            _owns: PhantomData,
        }
    }

    /// Has the system provide the pages of the first `bytes` bytes now. Returns whether the system
    /// did so. It is an optimization only.
    ///
    /// Otherwise the system provides each page at its first access. A page that is read before it
    /// is written comes twice: first as a shared page of zeros, then as its own page. The second
    /// time the system interrupts every core that runs this process: about 10 us.
    pub(crate) fn populate(&self, bytes: usize) -> bool {
        #[cfg(not(loom))]
        return self.memory.populate(bytes.min(self.len * size_of::<T>()));
        #[cfg(loom)]
        return bytes == 0;
    }

    /// Gives the whole pages of the system among these bytes back to it. They are zeros from then
    /// on. Returns whether it did so.
    ///
    /// # Safety
    /// Whatever other threads read of these bytes, they read by atomics, and zeros may be there at
    /// any moment. Nobody writes them meanwhile.
    #[cfg(not(loom))]
    pub(crate) unsafe fn discard(&self, bytes: std::ops::Range<usize>) -> bool {
        self.memory
            .discard(bytes.start..bytes.end.min(self.len * size_of::<T>()))
    }

    /// The first value, without a bounds check.
    #[inline(always)]
    pub(crate) fn first(&self) -> &T {
        // SAFETY: there is at least one value (`new`), zeroed at first; it lives as long as `self`.
        unsafe { &*self.as_ptr() }
    }

    /// As `first`.
    #[inline(always)]
    pub(crate) fn first_mut(&mut self) -> &mut T {
        // SAFETY: as in `first`, and `&mut self` makes this the only reference.
        unsafe { &mut *self.as_ptr().cast_mut() }
    }

    // (Always, as are those that lead here: optimized for size, a call would take more than it.)
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const T {
        #[cfg(not(loom))]
        return self.memory.start().cast();
        #[cfg(loom)]
        return self.memory.as_ptr();
    }
}

impl<T: Zeroable> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the memory holds `len` values, zeroed at first, which is valid for `T`
        // (`Zeroable`); it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the memory holds `len` values, zeroed at first, which is valid for `T`
        // (`Zeroable`); it lives as long as `self`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().cast_mut(), self.len) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_a_page_and_ones_own() {
        let mut all: Vec<_> = [1, 7, 511, 512, 513, 100_000]
            .into_iter()
            .map(Zeroed::<u64>::new)
            .collect();
        for memory in &all {
            assert_eq!(memory.as_ptr().addr() % PAGE, 0);
            assert!(memory.iter().all(|&word| word == 0));
        }
        for (number, memory) in all.iter_mut().enumerate() {
            memory.fill(number as u64 + 1);
        }
        for (number, memory) in all.iter().enumerate() {
            assert_eq!(*memory.first(), number as u64 + 1);
            assert!(memory.iter().all(|&word| word == number as u64 + 1));
        }
    }

    #[cfg(not(all(target_os = "linux", not(wheelwork_no_linux), not(wheelwork_no_mmap))))]
    #[test]
    fn nothing_is_populated() {
        assert!(!Zeroed::<u64>::new(10_000).populate(usize::MAX));
    }
}

#[cfg(all(
    test,
    not(any(loom, wheelwork_no_linux, wheelwork_no_mmap)),
    target_os = "linux"
))]
mod populated {
    use super::*;

    /// How many of the words' pages are in memory. The words begin at a page.
    fn pages_there(words: &[u64]) -> usize {
        let mut pages = vec![0u8; size_of_val(words).div_ceil(4096)];
        // SAFETY: 1. the range is mapped; 2. it begins at a page; 3. there is a byte for each page
        // of 4 KiB, and larger pages need fewer bytes.
        let failed = unsafe {
            libc::mincore(
                words.as_ptr().cast_mut().cast(),
                size_of_val(words),
                pages.as_mut_ptr(),
            )
        };
        assert_eq!(failed, 0);
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }

    #[test]
    fn what_is_populated_is_there_at_once_and_zero() {
        const BYTES: usize = 1 << 20;
        let memory = Zeroed::<u64>::new(BYTES / size_of::<u64>());
        if !memory.populate(BYTES / 2) {
            return println!("this kernel cannot populate");
        }
        let (here, not_here) = memory.split_at(BYTES / 2 / size_of::<u64>());
        // Before the first read, which would bring pages too.
        assert!(
            pages_there(here) > pages_there(not_here),
            "{} and {}",
            pages_there(here),
            pages_there(not_here)
        );
        assert!(here.iter().all(|&word| word == 0));
        assert!(
            Zeroed::<u64>::new(10).populate(usize::MAX),
            "no more than there is"
        );
    }
}
