//! Counter: the processor's counter of cycles, for the time between two readings of `Instant`.
//!
//! For Linux, where it was compared with `Instant`. Elsewhere (`no_counter.rs`) the two may differ
//! by more than the bias makes up for. Processors other than x86-64 and AArch64 have none here.

use super::nanos::nanos;
use super::rate::{Pair, Rate};
use std::sync::OnceLock;
use std::time::Instant;

/// The counter of a clock.
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter {
    /// `None` if it is not known: each reading of the time is one of `Instant` then.
    rate: Option<Rate>,
}

impl CycleCounter {
    /// The first one of the process takes some milliseconds.
    pub(super) fn new() -> Self {
        static OF_THE_PROCESS: OnceLock<CycleCounter> = OnceLock::new();
        OF_THE_PROCESS.get_or_init(Self::calibrated).clone()
    }

    fn calibrated() -> Self {
        let start = Instant::now();
        let pair = || Pair::read(|| nanos(start.elapsed()), cycles);
        Self {
            rate: is_steady().then(|| Rate::calibrated(pair)).flatten(),
        }
    }

    /// The counter's rate when the process measured it. `None` if it is not known: each reading of
    /// the time is one of `Instant` then.
    pub(super) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// A counter whose rate is not known.
    #[cfg(all(test, not(loom)))]
    pub(super) fn doubted() -> Self {
        Self { rate: None }
    }

    /// The counter now.
    #[inline]
    #[expect(clippy::unused_self, reason = "others have none to read")]
    pub(super) fn reading(&self) -> u64 {
        cycles()
    }
}

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: each x86-64 processor has the instruction, and it changes nothing.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the counter counts at one rate, at whatever speed the processor runs and however deep it
/// sleeps: the processor says so ("invariant TSC").
#[cfg(target_arch = "x86_64")]
fn is_steady() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    #[allow(unused_unsafe, reason = "some versions of Rust call it safe")]
    // SAFETY: each x86-64 processor has the instruction, and it changes nothing.
    let ask = |about| unsafe { std::arch::x86_64::__cpuid(about) };
    ask(0x8000_0000).eax >= POWER_MANAGEMENT && ask(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
}

/// The system counter, as the kernel shows it.
#[cfg(target_arch = "aarch64")]
#[inline]
fn cycles() -> u64 {
    let count: u64;
    // SAFETY: Linux lets programs read this register, and reading changes nothing.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// Each AArch64 has a system counter of one rate.
#[cfg(target_arch = "aarch64")]
const fn is_steady() -> bool {
    true
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
const fn cycles() -> u64 {
    0
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
const fn is_steady() -> bool {
    false
}

#[cfg(all(test, not(loom), any(target_arch = "aarch64", target_arch = "x86_64")))]
mod tests {
    use super::*;

    #[test]
    fn the_counter_counts() {
        let before = cycles();
        assert!(std::iter::repeat_with(cycles).any(|now| now > before));
    }
}
