//! Atomics: they do what the program asked for, and note it.
//!
//! Each access is sequentially consistent here, which is at least what the program asked for. One
//! thread runs at a time, so a stronger order changes nothing that is counted. What counts as a
//! locked instruction is what would be one on x86-64: each read-modify-write, and a store that the
//! program wants sequentially consistent.

use crate::access::Kind;
use crate::log::note;
use std::arch::naked_asm;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// The compiler's number for a sequentially consistent access.
const SEQ_CST: c_int = 5;

/// A function that the pass calls: its arguments, the register of the one after them, and what it
/// goes on with.
macro_rules! hook {
    ($name:ident($($argument:ident: $of:ty),*) $(-> $result:ty)?, $register:literal, $with:path) => {
        // SAFETY: the pass calls it by this name, and no other runtime is linked.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name($($argument: $of),*) $(-> $result)? {
            naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {}", sym $with)
        }
    };
}

/// The functions for one width.
macro_rules! width {
    ($room:ident, $int:ty, $atomic:ty,
     $load:ident, $store:ident, $exchange:ident, $compare:ident,
     $($rmw:ident => $call:ident,)*) => {
        mod $room {
            use super::*;

            const BYTES: usize = size_of::<$int>();

            fn at(address: *mut $int, kind: Kind, site: usize) -> &'static $atomic {
                note(address as usize, BYTES, kind, site);
                // SAFETY: the program's own atomic, which lives as long as the call.
                unsafe { <$atomic>::from_ptr(address) }
            }

            extern "C" fn load(address: *mut $int, _: c_int, site: usize) -> $int {
                // Ordering: SeqCst. See the head of this file.
                at(address, Kind::Read, site).load(Ordering::SeqCst)
            }

            extern "C" fn store(address: *mut $int, value: $int, order: c_int, site: usize) {
                let kind = if order == SEQ_CST { Kind::Locked } else { Kind::Write };
                // Ordering: SeqCst. See the head of this file.
                at(address, kind, site).store(value, Ordering::SeqCst);
            }

            extern "C" fn exchange(
                address: *mut $int,
                value: $int,
                _: c_int,
                site: usize,
            ) -> $int {
                // Ordering: SeqCst. See the head of this file.
                at(address, Kind::Locked, site).swap(value, Ordering::SeqCst)
            }

            extern "C" fn compare(
                address: *mut $int,
                expected: $int,
                value: $int,
                _: c_int,
                _: c_int,
                site: usize,
            ) -> $int {
                let atomic = at(address, Kind::Locked, site);
                // Ordering: SeqCst. See the head of this file.
                atomic
                    .compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|found| found)
            }

            $(
                extern "C" fn $call(
                    address: *mut $int,
                    value: $int,
                    _: c_int,
                    site: usize,
                ) -> $int {
                    // Ordering: SeqCst. See the head of this file.
                    at(address, Kind::Locked, site).$call(value, Ordering::SeqCst)
                }
                hook!($rmw(address: *mut $int, value: $int, order: c_int) -> $int, "rcx", $call);
            )*

            hook!($load(address: *mut $int, order: c_int) -> $int, "rdx", load);
            hook!($store(address: *mut $int, value: $int, order: c_int), "rcx", store);
            hook!($exchange(address: *mut $int, value: $int, order: c_int) -> $int, "rcx", exchange);
            hook!(
                $compare(
                    address: *mut $int,
                    expected: $int,
                    value: $int,
                    won: c_int,
                    lost: c_int
                ) -> $int,
                "r9",
                compare
            );
        }
    };
}

width! {
    bits_8, u8, AtomicU8,
    __tsan_atomic8_load, __tsan_atomic8_store, __tsan_atomic8_exchange,
    __tsan_atomic8_compare_exchange_val,
    __tsan_atomic8_fetch_add => fetch_add,
    __tsan_atomic8_fetch_sub => fetch_sub,
    __tsan_atomic8_fetch_and => fetch_and,
    __tsan_atomic8_fetch_or => fetch_or,
    __tsan_atomic8_fetch_xor => fetch_xor,
    __tsan_atomic8_fetch_nand => fetch_nand,
}

width! {
    bits_16, u16, AtomicU16,
    __tsan_atomic16_load, __tsan_atomic16_store, __tsan_atomic16_exchange,
    __tsan_atomic16_compare_exchange_val,
    __tsan_atomic16_fetch_add => fetch_add,
    __tsan_atomic16_fetch_sub => fetch_sub,
    __tsan_atomic16_fetch_and => fetch_and,
    __tsan_atomic16_fetch_or => fetch_or,
    __tsan_atomic16_fetch_xor => fetch_xor,
    __tsan_atomic16_fetch_nand => fetch_nand,
}

width! {
    bits_32, u32, AtomicU32,
    __tsan_atomic32_load, __tsan_atomic32_store, __tsan_atomic32_exchange,
    __tsan_atomic32_compare_exchange_val,
    __tsan_atomic32_fetch_add => fetch_add,
    __tsan_atomic32_fetch_sub => fetch_sub,
    __tsan_atomic32_fetch_and => fetch_and,
    __tsan_atomic32_fetch_or => fetch_or,
    __tsan_atomic32_fetch_xor => fetch_xor,
    __tsan_atomic32_fetch_nand => fetch_nand,
}

width! {
    bits_64, u64, AtomicU64,
    __tsan_atomic64_load, __tsan_atomic64_store, __tsan_atomic64_exchange,
    __tsan_atomic64_compare_exchange_val,
    __tsan_atomic64_fetch_add => fetch_add,
    __tsan_atomic64_fetch_sub => fetch_sub,
    __tsan_atomic64_fetch_and => fetch_and,
    __tsan_atomic64_fetch_or => fetch_or,
    __tsan_atomic64_fetch_xor => fetch_xor,
    __tsan_atomic64_fetch_nand => fetch_nand,
}

// SAFETY: the pass calls it by this name, and no other runtime is linked.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_thread_fence(_: c_int) {
    // Ordering: SeqCst. See the head of this file.
    fence(Ordering::SeqCst);
}

// SAFETY: as above. A fence for signals is the compiler's matter.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_: c_int) {}
