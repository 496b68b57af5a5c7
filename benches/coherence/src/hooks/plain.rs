//! Plain: loads, stores, ranges, and what the pass puts in place of `memcpy` and its like.

use crate::access::Kind;
use crate::log::note;
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

extern "C" fn read<const BYTES: usize>(address: usize, site: usize) {
    note(address, BYTES, Kind::Read, site);
}

extern "C" fn write<const BYTES: usize>(address: usize, site: usize) {
    note(address, BYTES, Kind::Write, site);
}

extern "C" fn read_range(address: usize, bytes: usize, site: usize) {
    note(address, bytes, Kind::Read, site);
}

extern "C" fn write_range(address: usize, bytes: usize, site: usize) {
    note(address, bytes, Kind::Write, site);
}

/// Functions of one argument: the address. The second argument becomes the caller.
macro_rules! accesses {
    ($($name:ident => $with:path;)*) => { $(
        // SAFETY: the pass calls it by this name, and no other runtime is linked.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(address: usize) {
            naked_asm!("mov rsi, [rsp]", "jmp {}", sym $with)
        }
    )* };
}

accesses! {
    __tsan_read1 => read::<1>;
    __tsan_read2 => read::<2>;
    __tsan_read4 => read::<4>;
    __tsan_read8 => read::<8>;
    __tsan_read16 => read::<16>;
    __tsan_unaligned_read2 => read::<2>;
    __tsan_unaligned_read4 => read::<4>;
    __tsan_unaligned_read8 => read::<8>;
    __tsan_unaligned_read16 => read::<16>;
    __tsan_write1 => write::<1>;
    __tsan_write2 => write::<2>;
    __tsan_write4 => write::<4>;
    __tsan_write8 => write::<8>;
    __tsan_write16 => write::<16>;
    __tsan_unaligned_write2 => write::<2>;
    __tsan_unaligned_write4 => write::<4>;
    __tsan_unaligned_write8 => write::<8>;
    __tsan_unaligned_write16 => write::<16>;
}

/// Functions of two arguments: the address, and the bytes. The third becomes the caller.
macro_rules! ranges {
    ($($name:ident => $with:path;)*) => { $(
        // SAFETY: the pass calls it by this name, and no other runtime is linked.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(address: usize, bytes: usize) {
            naked_asm!("mov rdx, [rsp]", "jmp {}", sym $with)
        }
    )* };
}

ranges! {
    __tsan_read_range => read_range;
    __tsan_write_range => write_range;
}

/// Functions of three arguments that do what they note. The fourth becomes the caller.
macro_rules! moves {
    ($($name:ident($second:ty) => $with:path;)*) => { $(
        // SAFETY: the pass calls it by this name, and no other runtime is linked.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(to: *mut c_void, second: $second, bytes: usize) -> *mut c_void {
            naked_asm!("mov rcx, [rsp]", "jmp {}", sym $with)
        }
    )* };
}

moves! {
    __tsan_memcpy(*const c_void) => copy;
    __tsan_memmove(*const c_void) => copy;
    __tsan_memset(c_int) => set;
}

unsafe extern "C" fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    site: usize,
) -> *mut c_void {
    note(from as usize, bytes, Kind::Read, site);
    note(to as usize, bytes, Kind::Write, site);
    // SAFETY: the arguments are those of the program's own `memcpy` or `memmove`.
    unsafe { libc::memmove(to, from, bytes) }
}

unsafe extern "C" fn set(to: *mut c_void, byte: c_int, bytes: usize, site: usize) -> *mut c_void {
    note(to as usize, bytes, Kind::Write, site);
    // SAFETY: the arguments are those of the program's own `memset`.
    unsafe { libc::memset(to, byte, bytes) }
}

// SAFETY: the pass calls it by this name, and no other runtime is linked.
#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn __tsan_func_entry(_: *const c_void) {}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn __tsan_func_exit() {}
