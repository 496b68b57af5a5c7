//! What the targets are made of: points in time that are worth a try, and the service's ledger.

pub mod ledger;

use arbitrary::Arbitrary;

/// A tick, from the present one.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Span {
    /// A number of ticks ago.
    Back(u8),
    /// A number of ticks from now.
    On(u8),
    /// Further on.
    Far(u16),
    /// `256^level` ticks from now; a tick more or less where `off` is odd.
    Level(u8, i8),
    /// The next multiple of `256^level`; a tick more or less where `off` is odd.
    ToEdge(u8, i8),
    /// That tick, whatever the present is.
    At(u64),
    /// The end of time.
    Max,
}

impl Span {
    /// The tick that is meant at the tick `now`.
    #[must_use]
    pub fn tick(self, now: u64) -> u64 {
        let shift = |level: u8| 8 * u32::from(level % 7);
        let beside = |tick: u64, off: i8| tick.saturating_add_signed((off % 2).into());
        match self {
            Self::Back(ticks) => now.saturating_sub(ticks.into()),
            Self::On(ticks) => now.saturating_add(ticks.into()),
            Self::Far(ticks) => now.saturating_add(ticks.into()),
            Self::Level(level, off) => beside(now.saturating_add(1 << shift(level)), off),
            Self::ToEdge(level, off) => beside(((now >> shift(level)) + 1) << shift(level), off),
            Self::At(tick) => tick,
            Self::Max => u64::MAX,
        }
    }
}
