//! What the models of the service share: spans of time that like the edges between two levels of
//! the wheel, and where sequences of calls begin.
//!
//! A failure prints where the sequence began and the shortest one that fails. `PROPTEST_RNG_SEED=1`
//! (any number) makes every run try the same sequences.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use std::time::Duration;

/// The last nanosecond and the last tick that a service counts.
pub const NANOS_MAX: u64 = i64::MAX as u64;
const TICKS_MAX: u64 = (1 << 52) - 1;

const DECADE: Duration = Duration::from_secs(315_576_000);

/// The last deadline there is.
pub fn end_ns(tick_ns: u64) -> u64 {
    (NANOS_MAX / tick_ns).min(TICKS_MAX) * tick_ns
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

#[derive(Clone, Copy, Debug)]
pub enum Span {
    Zero,
    Max,
    /// A number of ticks, and nanoseconds more or less.
    Ticks(u64, i64),
    /// `256^level` ticks, and ticks and nanoseconds more or less.
    Level(u32, i64, i64),
    /// To the next multiple of `256^level` ticks, and ticks and nanoseconds more or less.
    ToEdge(u32, i64, i64),
    Nanos(u64),
}

pub fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        1 => Just(Span::Zero),
        1 => Just(Span::Max),
        5 => (0u64..600, -1i64..=1).prop_map(|(ticks, off_ns)| Span::Ticks(ticks, off_ns)),
        3 => (1u32..7, -1i64..=1, -1i64..=1).prop_map(|(level, off, off_ns)| Span::Level(level, off, off_ns)),
        3 => (1u32..7, -1i64..=1, -1i64..=1).prop_map(|(level, off, off_ns)| Span::ToEdge(level, off, off_ns)),
        2 => (0u32..64, any::<u64>()).prop_map(|(bits, low)| Span::Nanos(low & ((1 << bits) - 1))),
    ]
}

impl Span {
    /// How long it is at a point in time.
    pub fn at(self, now_ns: u64, tick_ns: u64) -> Duration {
        let off = |nanos: u64, ticks: i64, off_ns: i64| {
            let nanos =
                i128::from(nanos) + i128::from(ticks) * i128::from(tick_ns) + i128::from(off_ns);
            Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
        };
        let level_ns = |level: u32| tick_ns.saturating_mul(1 << (8 * level));
        match self {
            Self::Zero => Duration::ZERO,
            Self::Max => Duration::MAX,
            Self::Ticks(ticks, off_ns) => off(ticks * tick_ns, 0, off_ns),
            Self::Level(level, ticks, off_ns) => off(level_ns(level), ticks, off_ns),
            Self::ToEdge(level, ticks, off_ns) => {
                let to_edge = (now_ns + 1)
                    .checked_next_multiple_of(level_ns(level))
                    .map_or(u64::MAX, |edge| edge - now_ns);
                off(to_edge, ticks, off_ns)
            }
            Self::Nanos(nanos) => Duration::from_nanos(nanos),
        }
    }
}

/// Where a sequence begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub tick: Duration,
    pub shards: usize,
    pub at_ns: u64,
}

/// All starts with this tick: zero; one tick before, at and after `256^level` ticks, a multiple of
/// it, and the last one before the next level; and every ten years of a hundred.
fn starts(tick: Duration) -> Vec<Start> {
    let tick_ns = nanos(tick);
    let edges = (0..=6).flat_map(|level| [1u64, 3, 255].map(|times| times << (8 * level)));
    let ticks = edges.flat_map(|edge| [edge - 1, edge, edge + 1]);
    // On the edge of a tick, and within one.
    let times = ticks
        .filter_map(|ticks| ticks.checked_mul(tick_ns))
        .flat_map(|nanos| [nanos, nanos + tick_ns / 3]);
    let decades = (1..=10).map(|decade| nanos(DECADE * decade));
    let mut times: Vec<_> = [0, 1]
        .into_iter()
        .chain(times)
        .chain(decades)
        .filter(|&at_ns| at_ns < end_ns(tick_ns) / 2)
        .collect();
    times.sort_unstable();
    times.dedup();
    times
        .into_iter()
        .flat_map(|at_ns| {
            [1, 3].map(|shards| Start {
                tick,
                shards,
                at_ns,
            })
        })
        .collect()
}

/// Tries this number of sequences from each start.
pub fn from_every_start<S: Strategy>(
    tick: Duration,
    cases: u32,
    sequences: &S,
    test: impl Fn(Start, S::Value) -> TestCaseResult,
) {
    let starts = starts(tick);
    assert!(starts.len() > 150, "levels 0 to 4 are there at least");
    for start in starts {
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let outcome = TestRunner::new(config).run(sequences, |sequence| test(start, sequence));
        if let Err(why) = outcome {
            panic!("{start:?}: {why}");
        }
    }
}
