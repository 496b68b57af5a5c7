//! Timer ids: plain data, safe to keep for ever.

use crate::lane::POSITION_BITS;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

/// Names one timer of one service.
///
/// Plain `Copy` data of 16 bytes, without a reference count or a pointer. It stays safe to use when
/// its timer or its service is gone: [`cancel`](crate::ServiceHandle::cancel) then returns `false`.
/// A service never gives the same id to two timers.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(30), || println!("timed out"))?;
/// assert!(service.cancel(id));
/// assert!(!service.cancel(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct TimerId {
    /// `position << 40 | birth`.
    word: u64,
    pub(crate) cell: u32,
    /// The number of the service, unique among the 2^32 services made last.
    pub(crate) service: NonZeroU32,
}

const _: () = assert!(size_of::<Option<TimerId>>() == 16);

const BIRTH_BITS: u32 = u64::BITS - POSITION_BITS;

impl TimerId {
    /// Names the timer of this birth in a cell. `position` is the place of its insert in the lane
    /// of the thread that armed it; any value is allowed, since it is a hint.
    #[inline]
    pub(crate) fn new(birth: u64, cell: u32, service: NonZeroU32, position: u32) -> Self {
        Self {
            word: u64::from(position) << BIRTH_BITS | birth,
            cell,
            service,
        }
    }

    /// The generation of the cell when the timer was armed.
    #[inline]
    pub(crate) fn birth(self) -> u64 {
        self.word & ((1 << BIRTH_BITS) - 1)
    }

    /// A hint, and no part of the name: the lowest bits of the insert's position in its lane.
    #[inline]
    pub(crate) fn position(self) -> u32 {
        (self.word >> BIRTH_BITS) as u32
    }

    /// The parts that name the timer.
    fn name(self) -> (u64, u32, NonZeroU32) {
        (self.birth(), self.cell, self.service)
    }
}

impl PartialEq for TimerId {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TimerId {}

impl Hash for TimerId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TimerId({}:{}:{})",
            self.service,
            self.cell,
            self.birth()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn a_position_is_no_part_of_the_name() {
        let (birth, position) = ((1 << BIRTH_BITS) - 1, (1 << POSITION_BITS) - 1);
        let id = |birth, cell, position| TimerId::new(birth, cell, NonZeroU32::MIN, position);
        let (first, second) = (id(birth, 7, 0), id(birth, 7, u32::MAX));
        assert_eq!([first, second].map(TimerId::birth), [birth; 2]);
        assert_eq!([first, second].map(TimerId::position), [0, position]);
        let state = RandomState::new();
        assert!(first == second && state.hash_one(first) == state.hash_one(second));
        assert!(first != id(birth - 1, 7, 0) && first != id(birth, 8, 0));
    }
}
