//! Scene: what is simulated, a process or a fleet, and in what the two differ by their numbers.

use super::super::shared_memory::StoreBreak;
use wheelwork_durable::contract::Store;

pub const KINDS: [&str; 6] = ["steady", "shaky", "batch", "limited", "lasting", "poison"];
pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Opens a store, the same one each time.
pub type Open = Box<dyn Fn() -> Box<dyn Store>>;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// One process after the other, each alone with the store: a fleet of one node. The system's
    /// clock is the store's clock, and is set.
    Process,
    /// Nodes that share a store, by leases. The store has a clock, and the nodes' clocks drift.
    Fleet,
}

/// Where the timers of a story are kept.
pub enum Kept {
    /// In a store that a process has for itself.
    Alone(Open),
    /// In a store in memory that nodes share, and that may be broken.
    Shared(Option<StoreBreak>),
}

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Schedule,
    Recurring,
    Many,
    Ticket,
    Cancel,
    Move,
    CancelMany,
    CancelKind,
    Look,
    Trouble,
    Dead,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Act,
    /// A handler that lasts ends.
    EndFuture,
    Pass,
    /// Time passes until something is due.
    ToNext,
    /// A call for a key while its timer comes due.
    Race,
    SetClock,
    Pause,
    Crash,
    Stop,
    Join,
    /// Time passes without trouble.
    Calm,
    /// The executor of futures is busy.
    Executor,
}

/// How windows are made: each number is drawn from one of these.
pub struct Windows {
    pub ahead_ms: &'static [u32],
    pub rows: &'static [usize],
    pub bytes: &'static [usize],
    pub slice_rows: &'static [usize],
    pub slice_bytes: &'static [usize],
}

/// The choice that a number below 100 or so comes to: the first whose bound is above it.
fn chosen<T: Copy>(table: &[(u8, T)], number: u8) -> T {
    let choice = table.iter().find(|(bound, _)| number < *bound);
    choice.unwrap_or(&table[table.len() - 1]).1
}

impl Scene {
    pub fn is_fleet(self) -> bool {
        self == Self::Fleet
    }

    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Process => &KEYS[..4],
            Self::Fleet => &KEYS,
        }
    }

    /// Of calendars.
    #[cfg(feature = "calendar")]
    pub fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Process => &["* * * * *", "*/3 * * * * *", "0 4 * * *", "0 0 1 1 *"],
            Self::Fleet => &["* * * * *", "*/3 * * * * *", "*/20 * * * * *"],
        }
    }

    /// A kind, by a number below 100. Some timers have a kind that has no handler.
    pub fn kind(self, number: u8) -> &'static str {
        let bounds = match self {
            Self::Process => [40, 60, 80, 96, 96, 98],
            Self::Fleet => [35, 50, 62, 77, 97, 98],
        };
        let found = bounds.iter().position(|bound| number < *bound);
        found.map_or("unknown", |kind| KINDS[kind])
    }

    /// The kind of a recurring timer, in place of this one. (A node of a fleet that dies at each
    /// run never comes to its end.)
    #[cfg(feature = "calendar")]
    pub fn recurring_kind(self, kind: &'static str) -> &'static str {
        match (self, kind) {
            (Self::Fleet, "poison") => "steady",
            _ => kind,
        }
    }

    pub fn attempts_bound(self) -> u32 {
        if self.is_fleet() { 6 } else { 5 }
    }

    pub fn windows(self) -> Windows {
        match self {
            Self::Process => Windows {
                ahead_ms: &[500, 2_000, 10_000, 60_000, 300_000],
                rows: &[1, 2, 5, 16, 64, 10_000],
                bytes: &[100, 1_000, 10_000, 1 << 20],
                slice_rows: &[1, 2, 7, 4_096],
                slice_bytes: &[1, 200, 1_000, 8 << 20],
            },
            Self::Fleet => Windows {
                ahead_ms: &[500, 2_000, 60_000],
                rows: &[1, 2, 5, 16, 10_000, 10_000],
                bytes: &[100, 1_000, 1 << 20, 1 << 20],
                slice_rows: &[1, 7, 4_096],
                slice_bytes: &[200, 1_000, 8 << 20],
            },
        }
    }

    /// An act, by a number below 100.
    pub fn act(self, number: u8) -> Act {
        let table = match self {
            Self::Process => [
                (30, Act::Schedule),
                (35, Act::Recurring),
                (40, Act::Many),
                (45, Act::Ticket),
                (65, Act::Cancel),
                (78, Act::Move),
                (82, Act::CancelMany),
                (83, Act::CancelKind),
                (90, Act::Look),
                (92, Act::Trouble),
                (100, Act::Dead),
            ],
            Self::Fleet => [
                (34, Act::Schedule),
                (40, Act::Many),
                (46, Act::Ticket),
                (66, Act::Cancel),
                (84, Act::Move),
                (88, Act::CancelMany),
                (89, Act::CancelKind),
                (92, Act::Recurring),
                (96, Act::Look),
                (96, Act::Trouble),
                (100, Act::Dead),
            ],
        };
        chosen(&table, number)
    }

    /// Steps are numbered up to here.
    pub fn steps(self) -> u8 {
        if self.is_fleet() { 100 } else { 103 }
    }

    /// A step, by its number. While all nodes stand still, or none is left, time passes.
    pub fn step(self, number: u8, has_node: bool) -> Step {
        let step = match self {
            Self::Process => chosen(
                &[
                    (50, Step::Act),
                    (70, Step::Pass),
                    (86, Step::ToNext),
                    (88, Step::Race),
                    (91, Step::SetClock),
                    (95, Step::Crash),
                    (98, Step::Stop),
                    (100, Step::Calm),
                    (103, Step::Executor),
                ],
                number,
            ),
            Self::Fleet => chosen(
                &[
                    (44, Step::Act),
                    (52, Step::EndFuture),
                    (70, Step::Pass),
                    (84, Step::ToNext),
                    (89, Step::Pause),
                    (92, Step::Crash),
                    (95, Step::Stop),
                    (99, Step::Join),
                    (100, Step::Calm),
                ],
                number,
            ),
        };
        match step {
            Step::Act | Step::EndFuture if !has_node => Step::Pass,
            Step::Pause | Step::Crash | Step::Stop if !has_node => Step::Calm,
            step => step,
        }
    }

    /// How long time passes at a step, at most. One of these.
    pub fn passes_ms(self) -> [u32; 5] {
        match self {
            Self::Process => [2, 20, 500, 3_000, 12_000],
            Self::Fleet => [2, 20, 500, 3_000, 8_000],
        }
    }
}
