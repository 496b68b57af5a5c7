//! Promise: a timer whose kind some node has a handler of is handed out, however the kinds are
//! spread over the nodes, and partitions do not go back and forth for nothing.
//!
//! The model has the hand-over of partitions (GiveAway) and no more: two nodes, two partitions, and
//! in each a timer of each of two kinds. That a partition stays with its owner for 5 s is the guard
//! that what the owner can hand out is handed out before the partition goes. That others leave a
//! partition alone for 2 s is the guard that a node with the kind takes it, if one is alive.

use stateright::{Checker, Model, Property};

const NODES: usize = 2;
const PARTITIONS: usize = 2;
const KINDS: usize = 2;

/// So often may a partition change its owner before one of its timers is handed out.
const HOPS_MAX: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Timer {
    Due,
    Held,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Partition {
    owner: Option<usize>,
    /// Kinds for which it was given away.
    wants: [bool; KINDS],
    timers: [Timer; KINDS],
    /// Hand-overs since one of its timers was handed out.
    hops: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    partitions: [Partition; PARTITIONS],
    is_alive: [bool; NODES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Take { node: usize, at: usize },
    Hold { at: usize, kind: usize },
    Release { at: usize, kind: usize },
    HandOut { at: usize, kind: usize },
    GiveAway { at: usize },
    Crash { node: usize },
}

/// A guard that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// Any node takes a partition, whatever it wants.
    WantsIgnored,
    /// A partition goes before its owner has handed out what it can.
    GoesAtOnce,
    /// A partition is not given away.
    StaysForEver,
}

struct Kinds {
    /// Which node has which kinds.
    has: [[bool; KINDS]; NODES],
    broken: Option<Broken>,
}

impl Kinds {
    fn live(&self, state: &State, kind: usize) -> bool {
        (0..NODES).any(|node| state.is_alive[node] && self.has[node][kind])
    }

    fn is_enabled(&self, state: &State, event: Event) -> bool {
        let is_broken = |broken| self.broken == Some(broken);
        match event {
            Event::Take { node, at } => {
                let of = &state.partitions[at];
                let own = state.partitions.iter().filter(|of| of.owner == Some(node));
                let others = state.is_alive.iter().filter(|alive| **alive).count();
                let has_room = own.count() < PARTITIONS.div_ceil(others);
                let wanted: Vec<_> = (0..KINDS).filter(|&kind| of.wants[kind]).collect();
                let is_wanted = wanted.iter().any(|&kind| self.has[node][kind]);
                let is_left = wanted.iter().any(|&kind| self.live(state, kind));
                let is_right = match wanted.is_empty() || is_broken(Broken::WantsIgnored) {
                    true => has_room,
                    false => is_wanted || !is_left && has_room,
                };
                state.is_alive[node] && of.owner.is_none() && is_right
            }
            Event::Hold { at, kind } => self.of_owner(state, at, kind, Timer::Due, false),
            Event::Release { at, kind } => self.of_owner(state, at, kind, Timer::Held, true),
            Event::HandOut { at, kind } => self.of_owner(state, at, kind, Timer::Due, true),
            Event::GiveAway { at } => {
                let of = &state.partitions[at];
                let Some(owner) = of.owner else { return false };
                let can_hand_out =
                    |kind: usize| self.has[owner][kind] && of.timers[kind] != Timer::Done;
                let is_done = !(0..KINDS).any(can_hand_out) || is_broken(Broken::GoesAtOnce);
                let is_held =
                    |kind: usize| of.timers[kind] == Timer::Held && self.live(state, kind);
                let waits = (0..KINDS).any(|kind| is_held(kind) && !self.has[owner][kind]);
                is_done && waits && !is_broken(Broken::StaysForEver)
            }
            Event::Crash { node } => state.is_alive == [true; NODES] && node < NODES,
        }
    }

    /// Whether a timer is so in a partition that has an owner, which has its kind or lacks it.
    fn of_owner(&self, state: &State, at: usize, kind: usize, timer: Timer, has: bool) -> bool {
        let of = &state.partitions[at];
        let owner = of.owner.filter(|&owner| self.has[owner][kind] == has);
        owner.is_some() && of.timers[kind] == timer
    }
}

impl Model for Kinds {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let partition = Partition {
            owner: None,
            wants: [false; KINDS],
            timers: [Timer::Due; KINDS],
            hops: 0,
        };
        vec![State {
            partitions: [partition; PARTITIONS],
            is_alive: [true; NODES],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        let mut all = Vec::new();
        for at in 0..PARTITIONS {
            all.extend((0..NODES).map(|node| Event::Take { node, at }));
            for kind in 0..KINDS {
                all.push(Event::Hold { at, kind });
                all.push(Event::Release { at, kind });
                all.push(Event::HandOut { at, kind });
            }
            all.push(Event::GiveAway { at });
        }
        all.extend((0..NODES).map(|node| Event::Crash { node }));
        actions.extend(
            all.into_iter()
                .filter(|&event| self.is_enabled(state, event)),
        );
    }

    fn next_state(&self, last: &State, event: Event) -> Option<State> {
        let mut state = last.clone();
        match event {
            Event::Take { node, at } => {
                let of = &mut state.partitions[at];
                (of.owner, of.wants) = (Some(node), [false; KINDS]);
            }
            Event::Hold { at, kind } => state.partitions[at].timers[kind] = Timer::Held,
            Event::Release { at, kind } => state.partitions[at].timers[kind] = Timer::Due,
            Event::HandOut { at, kind } => {
                let of = &mut state.partitions[at];
                (of.timers[kind], of.hops) = (Timer::Done, 0);
            }
            Event::GiveAway { at } => {
                let live = [0, 1].map(|kind| self.live(&state, kind));
                let of = &mut state.partitions[at];
                let owner = of.owner.take()?;
                let wants = |kind: usize| {
                    of.timers[kind] == Timer::Held && live[kind] && !self.has[owner][kind]
                };
                of.wants = [wants(0), wants(1)];
                // (Beyond the bound the promise is broken: no more is counted.)
                of.hops = (of.hops + 1).min(HOPS_MAX + 1);
            }
            Event::Crash { node } => {
                state.is_alive[node] = false;
                for of in &mut state.partitions {
                    (of.owner, of.hops) = (of.owner.filter(|&owner| owner != node), 0);
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(
                "no partition goes back and forth for nothing",
                |_, state| state.partitions.iter().all(|of| of.hops <= HOPS_MAX),
            ),
            Property::<Self>::always("nothing that has a handler is left", |model, state| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                actions.retain(|event| !matches!(event, Event::Crash { .. }));
                let is_left = |of: &Partition| {
                    (0..KINDS).any(|kind| of.timers[kind] != Timer::Done && model.live(state, kind))
                };
                !actions.is_empty() || !state.partitions.iter().any(is_left)
            }),
            Property::<Self>::sometimes("all are handed out", |_, state| {
                state
                    .partitions
                    .iter()
                    .all(|of| of.timers == [Timer::Done; KINDS])
            }),
        ]
    }
}

/// The first node knows both kinds, or one; the second one knows the other.
const UPDATE: [[bool; KINDS]; NODES] = [[true, true], [true, false]];
const APART: [[bool; KINDS]; NODES] = [[true, false], [false, true]];

#[test]
fn a_node_that_is_updated_first_takes_what_waits() {
    let model = Kinds {
        has: UPDATE,
        broken: None,
    };
    let checker = model.checker().spawn_bfs().join();
    assert!(checker.is_done());
    checker.assert_properties();
}

#[test]
fn nodes_without_a_kind_in_common_take_turns() {
    let model = Kinds {
        has: APART,
        broken: None,
    };
    let checker = model.checker().spawn_bfs().join();
    assert!(checker.is_done());
    checker.assert_properties();
}

#[test]
fn broken_guards_are_noticed() {
    for (broken, name) in [
        (
            Broken::WantsIgnored,
            "no partition goes back and forth for nothing",
        ),
        (
            Broken::GoesAtOnce,
            "no partition goes back and forth for nothing",
        ),
        (Broken::StaysForEver, "nothing that has a handler is left"),
    ] {
        let model = Kinds {
            has: APART,
            broken: Some(broken),
        };
        let checker = model.checker().spawn_bfs().join();
        checker.assert_any_discovery(name);
    }
}
