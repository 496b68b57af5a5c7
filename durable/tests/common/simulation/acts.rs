//! Acts: what a simulation's callers do by chance, and looks at what is there.

use super::super::simulated::{Scene, State};
use super::world::Shared;
use wheelwork_durable::contract::Target;
use wheelwork_durable::{DurableClient, Row};

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
    /// Makes a call, and looks whether the answer is true.
    pub fn act(&self, place: Place) {
        let mut world = self.lock();
        let Some(handle) = world.handle.clone() else {
            return;
        };
        if world.is_over(world.life) {
            return;
        }
        // A call that waits for its answer would wait for the store.
        let place = match world.is_in_store {
            true => Place::Store,
            false => place,
        };
        world.counts().nested += u64::from(place != Place::Outside);
        let act = world.rng.u8(..100);
        drop(world);
        match (place, act) {
            (Place::Store, 0..70) => self.schedule_ticket((), &handle, None),
            (Place::Store, _) => self.cancel_ticket((), &handle),
            (_, 0..30) => self.schedule((), &handle, None),
            (_, 30..35) => self.schedule_recurring((), &handle),
            (_, 35..40) => self.schedule_many((), &handle),
            (_, 40..45) => self.schedule_ticket((), &handle, None),
            (_, 45..78) => {
                if let Some(target) = self.some_target() {
                    self.end((), &handle, &target, place == Place::Outside, act >= 65);
                }
            }
            (_, 78..82) => self.cancel_many((), &handle),
            (_, 82..83) => self.cancel_kind(&handle, place == Place::Outside),
            (_, 83..90) => self.look(&handle),
            (Place::Handler, 90..92) => self.lock().plan_trouble(),
            (_, _) => self.dead(&handle),
        }
    }

    /// Cancels a kind. Outside, nothing of it is left.
    fn cancel_kind(&self, handle: &DurableClient, is_outside: bool) {
        let nested = self.lock().counts().nested;
        let kind = self.cancel_some_kind((), handle);
        let mut world = self.lock();
        if is_outside && world.counts().nested == nested && !world.is_over(world.life) {
            world.check_kind_is_gone(kind);
        }
    }

    /// Arms, cancels or moves the timer with this key.
    pub fn act_on(&self, key: &'static str) {
        let Some(handle) = self.lock().handle.clone() else {
            return;
        };
        let act = self.lock().rng.u8(..4);
        if act < 2 {
            return self.schedule((), &handle, Some(key));
        }
        let target = Target::Key(key.into());
        self.end((), &handle, &target, true, act == 2);
    }

    /// Asks what is there.
    fn look(&self, handle: &DurableClient) {
        let (row, first, limit) = {
            let mut world = self.lock();
            let row = world.some_row(false);
            (row, world.ledger.made.len(), world.rng.usize(..20))
        };
        if let Some(Row { id, .. }) = row {
            let answer = handle.get(id);
            let mut world = self.lock();
            let is_same = world.ledger.made.len() == first;
            match answer {
                Ok(found) if is_same => {
                    let expected = world.ledger.find(&Target::Id(id)).map(|timer| &timer.row);
                    if found.as_ref() != expected {
                        let what = format!("get: {found:?} is {expected:?}");
                        world.ledger.wrong(what);
                    }
                }
                Ok(_) => {}
                Err(error) => world.check_error((), "get", &error),
            }
        }
        let first = self.lock().ledger.made.len();
        let answer = handle.list(.., limit);
        let mut world = self.lock();
        match answer {
            Ok(rows) if world.ledger.made.len() == first => {
                let stored = world.ledger.stored().map(|timer| timer.row.clone());
                let mut expected: Vec<_> = stored.collect();
                expected.sort_unstable_by_key(Row::position);
                expected.truncate(limit);
                if rows != expected {
                    let what = format!("list: {rows:?} is {expected:?}");
                    world.ledger.wrong(what);
                }
            }
            Ok(_) => {}
            Err(error) => world.check_error((), "list", &error),
        }
    }

    /// Looks at the dead, revives or discards one of them.
    fn dead(&self, handle: &DurableClient) {
        let first = self.lock().ledger.made.len();
        let answer = handle.dead_letters(None, usize::MAX);
        let letters = {
            let mut world = self.lock();
            let letters = match answer {
                Ok(letters) => letters,
                Err(error) => return world.check_error((), "dead", &error),
            };
            let dead = world.ledger.in_state(State::Dead);
            let expected: Vec<_> = dead.map(|timer| timer.row.id).collect();
            let found: Vec<_> = letters.iter().map(|letter| letter.row.id).collect();
            if found != expected && world.ledger.made.len() == first {
                world
                    .ledger
                    .wrong(format_args!("dead: {found:?} is {expected:?}"));
            }
            letters
        };
        self.end_letter((), handle, &letters);
    }
}
