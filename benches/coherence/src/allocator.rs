//! Allocator: memory whose place in the cache lines is alike in each run and on each machine.
//!
//! A thread that acts as a core allocates from that core's region, as with the thread caches of
//! ordinary allocators: what one thread allocates lies together, and what it frees it allocates
//! again. What threads allocate that act as no core is the system's. The allocator's own accesses
//! are not logged.
//!
//! Ground rule: only the thread that acts as a core touches its region.

use crate::log::{self, CORES_MAX};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::OnceLock;

/// Bytes of address space of a region.
const REGION: usize = 512 << 20;

/// Blocks up to this size come in multiples of [`STEP`], larger ones in powers of two.
const SMALL_MAX: usize = 1024;

const STEP: usize = 16;

const PAGE: usize = 4096;

const CLASSES: usize = SMALL_MAX / STEP + 1 + usize::BITS as usize;

/// The allocator of the program.
#[derive(Debug)]
pub struct Allocator {
    start: OnceLock<usize>,
    regions: [Region; CORES_MAX],
}

/// What one core allocates from.
#[derive(Debug)]
struct Region(UnsafeCell<Free>);

#[derive(Debug)]
struct Free {
    /// Bytes that were handed out for the first time.
    used: usize,
    /// For each class the first free block, which begins with the address of the next.
    blocks: [usize; CLASSES],
}

// SAFETY: only the thread that acts as a core touches its region.
unsafe impl Sync for Region {}

impl Allocator {
    /// An allocator that nothing was allocated from.
    #[expect(clippy::new_without_default, reason = "it is made in a static")]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: OnceLock::new(),
            regions: [const { Region(UnsafeCell::new(Free::NONE)) }; CORES_MAX],
        }
    }

    fn start(&self) -> usize {
        *self.start.get_or_init(|| {
            let (protection, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            // SAFETY: a new mapping touches no other memory.
            let start = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    REGION * CORES_MAX,
                    protection,
                    flags,
                    -1,
                    0,
                )
            };
            assert!(start != libc::MAP_FAILED, "there is address space");
            start as usize
        })
    }

    fn owns(&self, address: usize) -> bool {
        let start = self.start.get().copied();
        start.is_some_and(|start| (start..start + REGION * CORES_MAX).contains(&address))
    }
}

impl Free {
    const NONE: Self = Self {
        used: 0,
        blocks: [0; CLASSES],
    };
}

/// The class of a layout and the bytes of its blocks. `None`: the system's.
fn class(layout: Layout) -> Option<(usize, usize)> {
    let (bytes, align) = (layout.size().max(1), layout.align());
    if align <= STEP && bytes <= SMALL_MAX {
        let steps = bytes.div_ceil(STEP);
        return Some((steps, steps * STEP));
    }
    let block = bytes.max(align).next_power_of_two();
    let class = SMALL_MAX / STEP + 1 + block.trailing_zeros() as usize;
    (align <= PAGE && block < REGION).then_some((class, block))
}

// SAFETY: blocks are as large and as aligned as the layout says, and handed out once.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (Some(core), Some((class, block))) = (log::core(), class(layout)) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: this thread acts as the core.
        let free = unsafe { &mut *self.regions[core].0.get() };
        let first = free.blocks[class];
        if first != 0 {
            // SAFETY: a free block begins with the address of the next.
            free.blocks[class] = unsafe { *(first as *const usize) };
            return first as *mut u8;
        }
        let is_small = class <= SMALL_MAX / STEP;
        let align = if is_small { STEP } else { block.min(PAGE) };
        let at = free.used.next_multiple_of(align);
        if at + block > REGION {
            return ptr::null_mut();
        }
        free.used = at + block;
        (self.start() + core * REGION + at) as *mut u8
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if !self.owns(address as usize) {
            // SAFETY: the caller's promise.
            return unsafe { System.dealloc(address, layout) };
        }
        // A thread that acts as no core leaves it: the run is over.
        let (Some(core), Some((class, _))) = (log::core(), class(layout)) else {
            return;
        };
        // SAFETY: this thread acts as the core.
        let free = unsafe { &mut *self.regions[core].0.get() };
        // SAFETY: the block is free, and has room for an address.
        unsafe { *address.cast::<usize>() = free.blocks[class] };
        free.blocks[class] = address as usize;
    }
}
