//! Unless: steps that a model can break, each in one line where it stands in its protocol. Outside
//! loom no step is broken, and each is what the first half of its name says.

use super::fault::{Fault, broken};
use super::imp::{AtomicU64, Ordering, full_fence};
use super::membarrier::{heavy_fence, light_fence};

/// The frequent side of a pair of fences, unless the running model leaves it out.
#[inline(always)]
pub(crate) fn light_fence_unless(fault: Fault) {
    if !broken(fault) {
        light_fence();
    }
}

/// The rare side of a pair of fences, unless the running model leaves it out.
#[inline(always)]
pub(crate) fn heavy_fence_unless(fault: Fault) {
    if !broken(fault) {
        heavy_fence();
    }
}

/// A fence that pairs with itself, unless the running model leaves it out.
#[inline(always)]
pub(crate) fn full_fence_unless(fault: Fault) {
    if !broken(fault) {
        full_fence();
    }
}

/// A compare-and-swap of a word: `from` and `to`; the orderings if it is won, and if it is lost.
/// Unless the running model makes a store of it: then two threads may both win.
#[inline(always)]
pub(crate) fn cas_unless(
    fault: Fault,
    word: &AtomicU64,
    (from, to): (u64, u64),
    (won, lost): (Ordering, Ordering),
) -> Result<u64, u64> {
    if broken(fault) {
        // Ordering: Release. The broken variant.
        word.store(to, Ordering::Release);
        return Ok(from);
    }
    // Ordering: as the caller says, with the reason.
    word.compare_exchange(from, to, won, lost)
}
