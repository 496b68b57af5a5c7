//! Flag: what is known of a timer, as bits.

/// The arming was answered, or the timer was found in the store.
pub(super) const ARMED: u8 = 1;
/// The child was killed before it had an answer to the arming.
pub(super) const IN_DOUBT: u8 = 1 << 1;
/// The store has said that it is not there.
pub(super) const ABSENT: u8 = 1 << 2;
/// A cancel has no answer yet.
pub(super) const CANCEL_ASKED: u8 = 1 << 3;
/// A cancel had no answer when the child was killed.
pub(super) const CANCEL_IN_DOUBT: u8 = 1 << 4;
/// A cancel has said `true`.
pub(super) const CANCELLED: u8 = 1 << 5;
/// A cancel has said `false`.
pub(super) const REFUSED: u8 = 1 << 6;
/// Nothing more has to become of it.
pub(super) const ENDED: u8 = 1 << 7;
