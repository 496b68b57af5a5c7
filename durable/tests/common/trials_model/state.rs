//! State: the store, the nodes, and a ledger that stands outside of both.

use super::Bounds;

/// Timers of a model. They are interchangeable.
pub const TIMERS: usize = 2;

/// Nodes of a model. They are interchangeable.
pub const NODES: usize = 2;

/// The row of a timer. It is a suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// 1, and 2 when it was moved.
    pub due: u8,
    pub crashes: u8,
}

/// What has become of a timer, by what handlers were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    Stored,
    Acked,
    Buried,
}

/// A timer, and what the ledger has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    pub row: Option<Row>,
    pub fate: Fate,
    /// A user's transaction has locked the row.
    pub is_locked: bool,
    /// Whether it was called when it went with others, and how often when it went alone.
    pub was_called: bool,
    pub calls_alone: u8,
    /// It was charged in the present life.
    pub is_charged: bool,
    /// Lives in which it was charged, and that ended before it was settled.
    pub charged_lives: u8,
}

impl Timer {
    /// It is done with: nothing that the ledger has of it counts any more.
    pub const fn settled(fate: Fate) -> Self {
        Self {
            row: None,
            fate,
            is_locked: false,
            was_called: false,
            calls_alone: 0,
            is_charged: false,
            charged_lives: 0,
        }
    }
}

/// How far a row has come that the window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A suspect, which has no timer.
    Waiting,
    /// It has a timer of the service.
    Armed,
    /// That has fired: a thread has the row.
    Fired,
    /// Its crash is stored by TrialBegin.
    Begun,
    Called,
    /// The writer is told that it was not called.
    Back,
}

/// A row in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    pub due: u8,
    /// Its crashes when it was read.
    pub crashes: u8,
    pub epoch: u8,
    pub stage: Stage,
}

/// A row that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Charge {
    pub due: u8,
    /// The crashes that it had before.
    pub crashes: u8,
    pub epoch: u8,
}

/// A trial that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trial {
    Together,
    Alone,
}

/// What a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The epoch of its lease. 0: it has none, or that is over.
    pub epoch: u8,
    /// By its own clock its lease lasts.
    pub has_right: bool,
    pub window: [Option<Delivery>; TIMERS],
    pub trials: [Option<Trial>; TIMERS],
    /// Noted by TrialNote, and neither settled nor taken back.
    pub noted: [Option<Charge>; TIMERS],
    /// Charged, and not called after all: the store is to be told.
    pub uncalled: [Option<Charge>; TIMERS],
}

impl Node {
    pub const FRESH: Self = Self {
        epoch: 0,
        has_right: false,
        window: [None; TIMERS],
        trials: [None; TIMERS],
        noted: [None; TIMERS],
        uncalled: [None; TIMERS],
    };

    /// Whether a timer other than this one is on trial.
    pub fn is_on_trial(&self, but: Option<usize>) -> bool {
        (0..TIMERS).any(|timer| Some(timer) != but && self.trials[timer].is_some())
    }

    /// Whether it may hand out the row that it has of this timer.
    pub fn has_right_to(&self, timer: usize) -> bool {
        let of = self.window[timer];
        self.has_right && of.is_some_and(|of| of.epoch == self.epoch)
    }

    pub fn is_alone_on_trial(&self) -> bool {
        self.trials.contains(&Some(Trial::Alone))
    }

    /// Whether the window has something that no thread has.
    pub fn has_unfired(&self) -> bool {
        let mut deliveries = self.window.iter().flatten();
        deliveries.any(|delivery| delivery.stage <= Stage::Armed)
    }

    /// Whether no handler has anything, and nothing is to be taken back.
    pub fn may_release(&self) -> bool {
        let mut deliveries = self.window.iter().flatten();
        deliveries.all(|delivery| delivery.stage <= Stage::Armed)
            && self.noted == [None; TIMERS]
            && self.uncalled == [None; TIMERS]
    }

    /// A row leaves the window that was not called.
    pub fn let_go(&mut self, timer: usize) {
        self.window[timer] = None;
        self.trials[timer] = None;
        if let Some(charge) = self.noted[timer].take() {
            self.uncalled[timer] = Some(charge);
        }
    }

    /// The same for one that was called, and is settled.
    pub fn settled(&mut self, timer: usize) {
        self.window[timer] = None;
        self.trials[timer] = None;
        self.noted[timer] = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The epoch of the lease.
    pub epoch: u8,
    /// Its owner has given it back, and left no suspects of its own.
    pub is_released: bool,
    pub timers: [Timer; TIMERS],
    pub nodes: [Node; NODES],
    /// How often each may still be.
    pub crashes_left: u8,
    pub ends_left: u8,
    pub releases_left: u8,
    pub moves_left: u8,
    pub locks_left: u8,
    pub backs_left: u8,
    /// Promises that a move has broken, one bit each.
    pub broken: u8,
}

impl State {
    pub const fn new(bounds: &Bounds) -> Self {
        let mut timer = Timer::settled(Fate::Stored);
        timer.row = Some(Row { due: 1, crashes: 0 });
        Self {
            epoch: 1,
            is_released: true,
            timers: [timer; TIMERS],
            nodes: [Node::FRESH; NODES],
            crashes_left: bounds.crashes,
            ends_left: bounds.ends,
            releases_left: bounds.releases,
            moves_left: bounds.moves,
            locks_left: bounds.locks,
            backs_left: bounds.backs,
            broken: 0,
        }
    }

    /// Whether LeaseTake would find the lease to be had.
    pub fn is_takeable(&self) -> bool {
        let is_stored = self.timers.iter().any(|timer| timer.row.is_some());
        let mut nodes = self.nodes.iter();
        is_stored && !nodes.any(|node| node.has_right && node.epoch == self.epoch)
    }

    /// Whether a row can be moved, as far as the store is concerned.
    pub fn may_move(&self, timer: usize) -> bool {
        let stored = &self.timers[timer];
        self.moves_left > 0 && !stored.is_locked && stored.row.is_some_and(|row| row.due == 1)
    }

    /// The row, if it is there with this deadline and epoch.
    pub fn in_flight(&mut self, timer: usize, due: u8, epoch: u8) -> Option<&mut Row> {
        let is_current = epoch == self.epoch;
        let row = self.timers[timer].row.as_mut();
        row.filter(|row| is_current && row.due == due)
    }

    /// Whether the present life has charged a row with crashes for a call that has not begun.
    pub fn is_charged_uncalled(&self) -> bool {
        self.nodes.iter().any(|node| {
            (0..TIMERS).any(|timer| {
                let crashes = match (node.window[timer], node.uncalled[timer]) {
                    (Some(of), _) if of.stage == Stage::Begun || of.stage == Stage::Back => {
                        (of.epoch == self.epoch).then_some(of.crashes)
                    }
                    (_, Some(charge)) => (charge.epoch == self.epoch).then_some(charge.crashes),
                    _ => None,
                };
                let row = self.timers[timer].row;
                let is_more = |crashes: u8| row.is_some_and(|row| row.crashes > crashes);
                crashes.is_some_and(|crashes| crashes > 0 && is_more(crashes))
            })
        })
    }

    /// Makes states that go on alike the same: the lease's epoch is 1, those that are over are 0,
    /// and both timers and nodes are sorted.
    pub fn merge_alike(&mut self) {
        let current = self.epoch;
        let rename = |epoch: &mut u8| *epoch = u8::from(*epoch == current);
        for node in &mut self.nodes {
            rename(&mut node.epoch);
            let deliveries = node.window.iter_mut().flatten();
            deliveries.for_each(|delivery| rename(&mut delivery.epoch));
            let charges = node.noted.iter_mut().chain(&mut node.uncalled);
            charges
                .flatten()
                .for_each(|charge| rename(&mut charge.epoch));
        }
        self.epoch = 1;
        self.nodes.sort_unstable();
        let mut other = *self;
        other.timers.swap(0, 1);
        for node in &mut other.nodes {
            node.window.swap(0, 1);
            node.trials.swap(0, 1);
            node.noted.swap(0, 1);
            node.uncalled.swap(0, 1);
        }
        other.nodes.sort_unstable();
        if other < *self {
            *self = other;
        }
    }
}
