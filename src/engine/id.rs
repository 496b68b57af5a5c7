//! Timer ids: plain data, safe to keep for ever.

use crate::entry::GENERATION_BITS;
use crate::lane::POSITION_BITS;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::{NonZeroU32, NonZeroU64};

/// Names one timer of one service.
///
/// Plain `Copy` data of 16 bytes, without a reference count or a pointer. It stays safe to use when
/// its timer or its service is gone: [`cancel`](crate::ServiceHandle::cancel) then returns `false`.
/// A service never gives the same id to two timers.
///
/// The order of ids has no meaning: it is there for sorted maps and sets.
///
/// With the feature `serde` an id can be serialized, as its [bits](Self::to_bits): as its text, 32
/// hexadecimal digits, in formats that people read, as JSON is; a `u128` in others. What these name
/// is said there: a timer in this run of the program.
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
    /// `service << 32 | cell`. The number of the service is unique among the 2^32 services made
    /// last.
    // (Two numbers go in two registers, three parts through memory.)
    place: NonZeroU64,
}

const _: () = assert!(size_of::<Option<TimerId>>() == 16);

const BIRTH_BITS: u32 = u64::BITS - POSITION_BITS;

/// Where the place begins in the bits of an id, and the number of the service in the place.
const PLACE_SHIFT: u32 = u64::BITS;
const SERVICE_SHIFT: u32 = u32::BITS;

impl TimerId {
    /// The id as a number, for places that keep numbers: a key of another program, a column of a
    /// table, the user data of an event. Two ids are equal exactly if their bits are.
    ///
    /// The bits name the timer in this run of the program only. Another run may give them to
    /// another timer.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerId;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(30), || println!("timed out"))?;
    /// let bits: u128 = id.to_bits();
    /// assert!(TimerId::from_bits(bits).is_some_and(|id| service.cancel(id)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_bits(self) -> u128 {
        u128::from(self.place.get()) << PLACE_SHIFT | u128::from(self.birth())
    }

    /// The id of these bits. `None` if they have not the form of those of an id.
    ///
    /// Any bits are safe to use. Made-up bits name no timer, most likely. At worst they name
    /// another timer of the service. A call then cancels or moves that one, as if by its own id.
    ///
    /// The bits have the name of the timer, and not the place of its insert in the lane. So a
    /// cancel soon after the arming takes some nanoseconds longer by an id that came from bits.
    ///
    /// # Example
    /// ```
    /// use wheelwork::TimerId;
    ///
    /// assert_eq!(TimerId::from_bits(0), None);
    /// assert_eq!(TimerId::from_bits(u128::MAX), None);
    /// ```
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        let (birth, place) = (bits as u64, (bits >> PLACE_SHIFT) as u64);
        let service = NonZeroU32::new((place >> SERVICE_SHIFT) as u32)?;
        (birth >> GENERATION_BITS == 0).then(|| Self::new(birth, place as u32, service, 0))
    }

    /// An id of no service.
    pub(crate) const NOBODY: Self = Self {
        word: 0,
        place: NonZeroU64::MIN,
    };

    /// Names the timer of this birth in a cell. `position` is the place of its insert in the lane
    /// of the thread that armed it; any value is allowed, since it is a hint.
    #[inline]
    pub(crate) fn new(birth: u64, cell: u32, service: NonZeroU32, position: u32) -> Self {
        let place = u64::from(service.get()) << SERVICE_SHIFT | u64::from(cell);
        Self {
            word: u64::from(position) << BIRTH_BITS | birth,
            place: NonZeroU64::new(place).expect("the number of a service is not 0"),
        }
    }

    /// The index of the timer's cell.
    #[inline]
    pub(crate) fn cell(self) -> u32 {
        self.place.get() as u32
    }

    /// Whether the service of this number has given the id.
    #[inline]
    pub(crate) fn is_of(self, service: NonZeroU32) -> bool {
        self.service() == service.get()
    }

    #[inline]
    fn service(self) -> u32 {
        (self.place.get() >> SERVICE_SHIFT) as u32
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
    fn name(self) -> (u64, u32, u32) {
        (self.birth(), self.cell(), self.service())
    }
}

impl PartialEq for TimerId {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TimerId {}

impl PartialOrd for TimerId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerId {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}

impl Hash for TimerId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// As its [bits](TimerId::to_bits): 32 hexadecimal digits.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(30), || println!("timed out"))?;
/// assert_eq!(u128::from_str_radix(&id.to_string(), 16)?, id.to_bits());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.to_bits())
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TimerId({}:{}:{})",
            self.service(),
            self.cell(),
            self.birth()
        )
    }
}

/// As its text where people read it (JSON), since many programs keep no number of 128 bits;
/// elsewhere its [bits](TimerId::to_bits), a `u128`.
#[cfg(feature = "serde")]
impl serde::Serialize for TimerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u128(self.to_bits())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for TimerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(BitsVisitor)
        } else {
            deserializer.deserialize_u128(BitsVisitor)
        }
    }
}

/// Reads an id from its bits.
#[cfg(feature = "serde")]
struct BitsVisitor;

#[cfg(feature = "serde")]
impl serde::de::Visitor<'_> for BitsVisitor {
    type Value = TimerId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bits of a timer's id, as 32 hexadecimal digits in a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TimerId, E> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        let wrong = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
        bits.and_then(TimerId::from_bits).ok_or_else(wrong)
    }

    fn visit_u128<E: serde::de::Error>(self, bits: u128) -> Result<TimerId, E> {
        let wrong = || E::custom("these are the bits of no timer's id");
        TimerId::from_bits(bits).ok_or_else(wrong)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn a_position_is_no_part_of_the_name() {
        let (birth, position) = ((1 << GENERATION_BITS) - 1, (1 << POSITION_BITS) - 1);
        let id = |birth, cell, position| TimerId::new(birth, cell, NonZeroU32::MIN, position);
        let (first, second) = (id(birth, 7, 0), id(birth, 7, u32::MAX));
        assert_eq!([first, second].map(TimerId::birth), [birth; 2]);
        assert_eq!([first, second].map(TimerId::position), [0, position]);
        let state = RandomState::new();
        assert!(first == second && state.hash_one(first) == state.hash_one(second));
        assert!(first.cmp(&second).is_eq() && first.to_bits() == second.to_bits());
        assert_eq!(TimerId::from_bits(second.to_bits()), Some(first));
        assert!(first != id(birth - 1, 7, 0) && first != id(birth, 8, 0));
    }
}
