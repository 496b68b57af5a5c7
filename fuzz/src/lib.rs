//! What the targets are made of: points in time that are worth a try, and the service's ledger.

pub mod ledger;

use arbitrary::Arbitrary;

/// A tick, from the present one.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Span {
    /// So many ticks ago.
    Back(u16),
    /// So many ticks from now.
    On(u16),
    /// `256^level` ticks from now, and ticks more or less.
    Level(u8, i8),
    /// The next multiple of `256^level`, and ticks more or less.
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
        match self {
            Self::Back(ticks) => now.saturating_sub(ticks.into()),
            Self::On(ticks) => now.saturating_add(ticks.into()),
            Self::Level(level, off) => now.saturating_add(1 << shift(level)).saturating_add_signed(off.into()),
            Self::ToEdge(level, off) => (((now >> shift(level)) + 1) << shift(level)).saturating_add_signed(off.into()),
            Self::At(tick) => tick,
            Self::Max => u64::MAX,
        }
    }
}
