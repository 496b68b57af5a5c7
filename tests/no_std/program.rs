//! A program without the standard library that uses the wheel. `tests/source/no_std.rs` builds and
//! runs it. It has a panic handler of its own, so it is refused if anything brings `std`.
//!
//! Its memory is an array, as on a machine without a system. From the C library it has what calls
//! `main`, and functions such as `memcpy`.

#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use wheelwork::wheel::Wheel;

#[link(name = "c")]
unsafe extern "C" {}

const BYTES: usize = 1 << 20;

/// Gives out the bytes of an array, and takes none back.
struct Array {
    bytes: UnsafeCell<[u8; BYTES]>,
    used: AtomicUsize,
}

// SAFETY: each byte is given out once.
unsafe impl Sync for Array {}

// SAFETY: the bytes that are given out lie in the array, do not overlap, and are aligned.
unsafe impl GlobalAlloc for Array {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get().cast::<u8>();
        // Ordering: Relaxed. There is one thread.
        let used = self.used.load(Ordering::Relaxed);
        let at = used + start.wrapping_add(used).align_offset(layout.align());
        if at + layout.size() > BYTES {
            return null_mut();
        }
        // Ordering: Relaxed. As above.
        self.used.store(at + layout.size(), Ordering::Relaxed);
        start.wrapping_add(at)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ARRAY: Array = Array {
    bytes: UnsafeCell::new([0; BYTES]),
    used: AtomicUsize::new(0),
};

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

// `alloc` was built for programs that unwind, and names these. This one does not unwind.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

/// Returns what goes wrong: 0 for nothing.
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let mut wheel = Wheel::new(0);
    let handles: [_; 1_000] = core::array::from_fn(|number| {
        let number = number as u64;
        wheel.insert(number * 7_919 % 100_000, number)
    });
    for handle in handles.iter().step_by(2) {
        if wheel.cancel(*handle).is_none() {
            return 1;
        }
    }
    if !wheel.reschedule(handles[1], 200_000) {
        return 2;
    }
    let (mut last, mut count) = (0, 0);
    while let Some(next) = wheel.next_deadline() {
        while let Some((deadline, number)) = wheel.pop_due(next) {
            let expected = match number {
                1 => 200_000,
                _ => number * 7_919 % 100_000,
            };
            if deadline != expected || deadline < last || number % 2 == 0 {
                return 3;
            }
            (last, count) = (deadline, count + 1);
        }
    }
    if count == 500 && wheel.is_empty() {
        0
    } else {
        4
    }
}
