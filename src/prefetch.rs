//! Prefetch: fetches memory into the processor's caches before it is used.

/// Prefetches the cache line of an address for a write: the line arrives as the only copy, while
/// other work goes on. Any address is allowed. On processors other than x86-64 and aarch64 it does
/// nothing.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        // Assembly, since the intrinsic becomes a plain prefetch unless the build names a processor
        // that has the instruction. All 64-bit processors accept the instruction.
        // SAFETY: a prefetch does not fault, and changes neither memory nor registers nor flags.
        unsafe {
            core::arch::asm!(
                "prefetchw [{}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly)
            )
        };
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    {
        // Assembly, since the intrinsic is not stable. `pstl1keep`: for a store, into the first
        // cache, to be used again.
        // SAFETY: a prefetch does not fault, and changes neither memory nor registers nor flags.
        unsafe {
            core::arch::asm!(
                "prfm pstl1keep, [{}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly)
            )
        };
    }
    // Elsewhere nothing.
    let _ = address;
}

/// Prefetches all cache lines of a value for a write.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn prefetch_all_to_write<T>(value: &T) {
    let start = (&raw const *value).cast::<u8>();
    // (Four lines at a time: optimized for size, the compiler unrolls no loop.)
    let fours = size_of::<T>() / 256 * 256;
    for offset in (0..fours).step_by(256) {
        prefetch_to_write(start.wrapping_add(offset));
        prefetch_to_write(start.wrapping_add(offset + 64));
        prefetch_to_write(start.wrapping_add(offset + 128));
        prefetch_to_write(start.wrapping_add(offset + 192));
    }
    for offset in (fours..size_of::<T>()).step_by(64) {
        prefetch_to_write(start.wrapping_add(offset));
    }
}
