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

/// Kinds of timers: a number below 100 chooses the first whose bound is above it, in a process and
/// in a fleet. Some timers have a kind that has no handler before the trouble ceases.
const KIND_BOUNDS: [(&str, [u8; 2]); 7] = [
    ("steady", [40, 35]),
    ("shaky", [60, 50]),
    ("batch", [80, 62]),
    ("limited", [96, 77]),
    ("lasting", [96, 97]),
    ("poison", [98, 98]),
    ("unknown", [100, 100]),
];

/// Acts, in the same way.
const ACT_BOUNDS: [(Act, [u8; 2]); 12] = [
    (Act::Schedule, [30, 34]),
    (Act::Recurring, [35, 34]),
    (Act::Many, [40, 40]),
    (Act::Ticket, [45, 46]),
    (Act::Cancel, [65, 66]),
    (Act::Move, [78, 84]),
    (Act::CancelMany, [82, 88]),
    (Act::CancelKind, [83, 89]),
    (Act::Recurring, [83, 92]),
    (Act::Look, [90, 96]),
    (Act::Trouble, [92, 96]),
    (Act::Dead, [100, 100]),
];

/// Steps, in the same way.
const STEP_BOUNDS: [(Step, [u8; 2]); 12] = [
    (Step::Act, [50, 44]),
    (Step::EndFuture, [50, 52]),
    (Step::Pass, [70, 70]),
    (Step::ToNext, [86, 84]),
    (Step::Race, [88, 84]),
    (Step::SetClock, [91, 84]),
    (Step::Pause, [91, 89]),
    (Step::Crash, [95, 92]),
    (Step::Stop, [98, 95]),
    (Step::Join, [98, 99]),
    (Step::Calm, [100, 100]),
    (Step::Executor, [103, 100]),
];

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

    /// What a table has for a number.
    fn chosen<T: Copy>(self, table: &[(T, [u8; 2])], number: u8) -> T {
        let mut choices = table.iter();
        let chosen = choices.find(|(_, bounds)| number < bounds[self as usize]);
        chosen.unwrap().0
    }

    /// A kind, by a number below 100.
    pub fn kind(self, number: u8) -> &'static str {
        self.chosen(&KIND_BOUNDS, number)
    }

    /// An act, by a number below 100.
    pub fn act(self, number: u8) -> Act {
        self.chosen(&ACT_BOUNDS, number)
    }

    /// Steps have numbers below this.
    pub fn steps(self) -> u8 {
        STEP_BOUNDS[STEP_BOUNDS.len() - 1].1[self as usize]
    }

    /// A step, by its number. While all nodes stand still, time passes.
    pub fn step(self, number: u8, has_node: bool) -> Step {
        match self.chosen(&STEP_BOUNDS, number) {
            Step::Act | Step::EndFuture if !has_node => Step::Pass,
            Step::Pause | Step::Crash | Step::Stop if !has_node => Step::Calm,
            step => step,
        }
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

    /// How long time passes at a step, at most. One of these.
    pub fn passes_ms(self) -> [u32; 5] {
        match self {
            Self::Process => [2, 20, 500, 3_000, 12_000],
            Self::Fleet => [2, 20, 500, 3_000, 8_000],
        }
    }
}
