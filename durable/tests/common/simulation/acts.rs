//! Acts: what callers do on the nodes by chance, and look at what is there.

use super::ledger::State;
use super::scene::Act;
use super::world::Shared;
use std::collections::BTreeSet;
use wheelwork_durable::contract::{Position, Target};
use wheelwork_durable::{DurableClient, ListQuery, Row};

/// No list is read further than this many pages: timers may be armed behind each.
const PAGES_MAX: usize = 1_000;

/// Where an act is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing else is under way.
    Outside,
    Handler,
    /// The store is at a call of another thread.
    Store,
}

impl Shared {
    /// Makes a call on a node, and looks whether the answer is true.
    pub fn act(&self, node: usize, place: Place) {
        let mut world = self.lock();
        let state = &world.nodes[node];
        // (A process makes no calls before it has started.)
        let is_early = state.handle.is_none() && !world.scene.is_fleet();
        if state.is_dead || is_early {
            return;
        }
        let handle = state.handle.clone();
        // A call that waits for its answer would wait for the store.
        if state.is_in_store || place == Place::Store {
            drop(world);
            return self.act_in_store(node);
        }
        world.nested += u64::from(place != Place::Outside);
        let number = world.rng.u8(..100);
        let act = world.scene.act(number);
        drop(world);
        let Some(handle) = handle else { return };
        let is_outside = place == Place::Outside;
        match act {
            Act::Schedule => self.schedule(node, &handle, None),
            Act::Recurring => self.schedule_recurring(node, &handle),
            Act::Many => self.schedule_many(node, &handle),
            Act::Ticket => self.schedule_ticket(node, &handle, None),
            Act::Cancel | Act::Move => {
                if let Some(target) = self.some_target() {
                    self.end(node, &handle, &target, is_outside, act == Act::Move);
                }
            }
            Act::CancelMany => self.cancel_many(node, &handle),
            Act::CancelKind => {
                let moves = self.lock().rng.bool();
                if moves {
                    self.move_kind(node, &handle);
                } else {
                    self.cancel_kind(node, &handle, is_outside);
                }
            }
            Act::Look => {
                self.look(node, &handle);
                self.page(node, &handle, is_outside);
            }
            Act::Trouble if !is_outside => self.lock().plan_trouble(node),
            Act::Trouble | Act::Dead => self.dead(node, &handle),
        }
    }

    /// A call that does not wait for its answer.
    fn act_in_store(&self, node: usize) {
        let Some(handle) = self.lock().nodes[node].handle.clone() else {
            return;
        };
        let arms = {
            let mut world = self.lock();
            world.nested += 1;
            match world.scene.is_fleet() {
                true => world.rng.bool(),
                false => world.rng.u8(..100) < 70,
            }
        };
        if arms {
            self.schedule_ticket(node, &handle, None);
        } else {
            self.cancel_ticket(node, &handle);
        }
    }

    /// Cancels a kind. Outside, nothing of it is left that was not handed out, if no user has
    /// locked anything.
    fn cancel_kind(&self, node: usize, handle: &DurableClient, is_outside: bool) {
        let nested = self.lock().nested;
        let kind = self.cancel_some_kind(node, handle);
        let mut world = self.lock();
        let is_alone = world.nested == nested && !world.may_wait();
        if is_outside && is_alone && !world.nodes[node].is_dead {
            let left = world.ledger.stored().find(|timer| {
                let row = &timer.row;
                *row.kind == *kind && !row.superseded && !world.may_be_gone(row)
            });
            if let Some(row) = left.map(|timer| timer.row.clone()) {
                let what = format!("{kind} is cancelled, and there is {row:?}");
                world.ledger.wrong(what);
            }
        }
    }

    /// Arms, cancels or moves the timer with this key.
    pub fn act_on(&self, node: usize, key: &'static str) {
        let Some(handle) = self.lock().nodes[node].handle.clone() else {
            return;
        };
        let act = self.lock().rng.u8(..4);
        if act < 2 {
            return self.schedule(node, &handle, Some(key));
        }
        let target = Target::Key(key.into());
        self.end(node, &handle, &target, true, act == 2);
    }

    /// Asks what is there.
    fn look(&self, node: usize, handle: &DurableClient) {
        let (row, limit) = {
            let mut world = self.lock();
            let asks = !world.scene.is_fleet();
            let row = asks.then(|| world.some_row(false)).flatten();
            (row, world.rng.usize(..20))
        };
        if let Some(Row { id, .. }) = row {
            let first = self.lock().ledger.made.len();
            let answer = self.run(node, || handle.get(id));
            let mut world = self.lock();
            match answer {
                Ok(found) if world.ledger.made.len() == first => {
                    let expected = world.ledger.find(&Target::Id(id));
                    let expected = expected.map(|timer| timer.row.clone().shown());
                    if found != expected {
                        let what = format!("get: {found:?} is {expected:?}");
                        world.ledger.wrong(what);
                    }
                }
                Ok(_) => {}
                Err(error) => world.check_error(node, "get", &error),
            }
        }
        let first = self.lock().ledger.made.len();
        let answer = self.run(node, || handle.list(.., limit));
        {
            let mut world = self.lock();
            let is_same = world.ledger.made.len() == first;
            match answer {
                Ok(rows) if is_same && !world.may_wait() => world.check_list(rows, limit),
                Ok(_) => {}
                Err(error) => return world.check_error(node, "list", &error),
            }
        }
        if self.lock().scene.is_fleet()
            && let Err(error) = self.run(node, || handle.fleet())
        {
            self.lock().check_error(node, "fleet", &error);
        }
    }

    /// Goes through what is there page by page. Outside, timers are armed and ended between the
    /// pages. What stays where it is is on one page.
    fn page(&self, node: usize, handle: &DurableClient, is_outside: bool) {
        let (mut query, kind, before) = {
            let mut world = self.lock();
            let kind = world.kind();
            let kind = world.rng.bool().then_some(kind);
            let limit = world.rng.usize(1..6);
            let query = ListQuery::new().limit(limit);
            let query = kind.map_or(query.clone(), |kind| query.kind(kind));
            (query, kind, world.places(kind))
        };
        let mut listed: Vec<Position> = Vec::new();
        for number in 0.. {
            let page = match self.run(node, || handle.list_page(&query)) {
                Ok(page) => page,
                Err(error) => return self.lock().check_error(node, "list_page", &error),
            };
            listed.extend(page.rows.iter().map(Row::position));
            let Some(next) = page.next.filter(|_| number < PAGES_MAX) else {
                break;
            };
            query = query.after(next);
            let acts = is_outside && self.lock().rng.u8(..4) == 0;
            if acts && !self.lock().nodes[node].is_dead {
                match self.some_target() {
                    Some(target) => self.end(node, handle, &target, is_outside, number % 2 == 0),
                    None => self.schedule(node, handle, None),
                }
            }
        }
        let mut world = self.lock();
        let after = world.places(kind);
        // (One that was moved away and back may be on a page at the other place.)
        let is_listed = |place: &Position| listed.iter().any(|other| other.id == place.id);
        let is_missed = |place: &&Position| after.contains(place) && !is_listed(place);
        let missed = before.iter().find(is_missed).copied();
        let is_ordered = listed.is_sorted_by(|one, other| one < other);
        world.ledger.demand(missed.is_none(), || {
            format!("the pages of {kind:?} have {listed:?}, and not {missed:?}")
        });
        world.ledger.demand(is_ordered, || {
            format!("the pages of {kind:?} are not in order: {listed:?}")
        });
    }

    /// Looks at the dead, revives or discards one of them.
    fn dead(&self, node: usize, handle: &DurableClient) {
        let first = self.lock().ledger.made.len();
        let answer = self.run(node, || handle.dead_letters(None, usize::MAX));
        let letters = {
            let mut world = self.lock();
            let letters = match answer {
                Ok(letters) => letters,
                Err(error) => return world.check_error(node, "dead", &error),
            };
            let expected = world.ledger.dead_ids();
            let found: Vec<_> = letters.iter().map(|letter| letter.row.id).collect();
            if found != expected && world.ledger.made.len() == first {
                let what = format!("dead: {found:?} is {expected:?}");
                world.ledger.wrong(what);
            }
            letters
        };
        let ends_all = self.lock().rng.u8(..4) == 0;
        if ends_all {
            self.end_letters(node, handle, &letters);
        } else {
            self.end_letter(node, handle, &letters);
        }
    }
}

impl super::world::World {
    /// Where lists have the timers that are stored: all, or those of a kind.
    fn places(&self, kind: Option<&str>) -> BTreeSet<Position> {
        let rows = self.ledger.stored().map(|timer| &timer.row);
        let of_kind = rows.filter(|row| kind.is_none_or(|kind| kind == &*row.kind));
        of_kind.map(|row| row.clone().shown().position()).collect()
    }

    /// A list has what is stored. (In a fleet the owner of a row alone sees whether it is suspect.)
    fn check_list(&mut self, mut rows: Vec<Row>, limit: usize) {
        let stored = self.ledger.in_state(State::Stored);
        let mut expected: Vec<_> = stored.map(|timer| timer.row.clone().shown()).collect();
        expected.sort_unstable_by_key(Row::position);
        expected.truncate(limit);
        if self.scene.is_fleet() {
            for row in rows.iter_mut().chain(&mut expected) {
                row.suspect = false;
            }
        }
        if rows != expected {
            let what = format!("list: {rows:?} is {expected:?}");
            self.ledger.wrong(what);
        }
    }
}
