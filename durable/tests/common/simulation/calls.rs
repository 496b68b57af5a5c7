//! Calls: what callers ask of durable timers. Each answer is compared with what the store has done.

use super::answers::Pending;
use super::ledger::{State, token};
use super::world::{MS, Shared};
use wheelwork_durable::contract::Target;
use wheelwork_durable::{
    DeadLetter, DeadQuery, DurableClient, DurableError, ListQuery, Row, Shift, When,
};

/// A timer that is about to be armed.
struct NewTimer {
    kind: &'static str,
    when: When,
    key: Option<&'static str>,
    token: u64,
    payload: String,
    /// When it is not handed out any more.
    not_after: Option<When>,
}

impl Shared {
    fn new_timer(&self, node: usize) -> NewTimer {
        let mut world = self.lock();
        let (kind, when) = (world.kind(), world.when());
        let has_key = world.rng.u8(..3) == 0;
        let key = has_key.then(|| world.some_key());
        let bytes = world.rng.usize(..60);
        let token = world.next_token();
        let payload = format!("{token} {}", "x".repeat(bytes));
        let not_after = world.not_after(when);
        world.note(format_args!(
            "node {node} arms {token}: {kind}, {key:?}, {when:?}, {not_after:?}"
        ));
        NewTimer {
            kind,
            when,
            key,
            token,
            payload,
            not_after,
        }
    }

    /// Arms a timer, with this key or by chance another.
    pub fn schedule(&self, node: usize, handle: &DurableClient, key: Option<&'static str>) {
        let mut timer = self.new_timer(node);
        timer.key = key.or(timer.key);
        if timer.key.is_some_and(|key| self.is_key_held(key)) {
            return self.ask_for(node, handle, timer);
        }
        let (kind, when, payload) = (timer.kind, timer.when, timer.payload);
        let answer = self.run(node, || match (timer.key, timer.not_after) {
            (key, Some(time)) => {
                let timer = handle.timer(kind, when, payload).not_after(time);
                key.iter()
                    .fold(timer, |timer, key| timer.key(key))
                    .schedule()
            }
            (Some(key), None) => handle.key(key).schedule(kind, when, payload),
            (None, None) => handle.schedule(kind, when, payload),
        });
        self.lock().check_arm(node, timer.token, &answer);
    }

    #[cfg(not(feature = "calendar"))]
    pub fn schedule_recurring(&self, node: usize, handle: &DurableClient) {
        self.schedule(node, handle, None);
    }

    #[cfg(feature = "calendar")]
    pub fn schedule_recurring(&self, node: usize, handle: &DurableClient) {
        use std::time::Duration;
        use wheelwork::calendar::{Calendar, Missed};
        let timer = self.new_timer(node);
        let former = self.lock().some_recurring();
        let key = match &former {
            Some(row) => row.key.as_deref(),
            None => timer.key,
        };
        if key.is_some_and(|key| self.is_key_held(key)) {
            return;
        }
        let (kind, payload) = (self.lock().scene.recurring_kind(timer.kind), timer.payload);
        let kind = former.as_ref().map_or(kind, |row| &*row.kind);
        let (pattern, missed) = {
            let mut world = self.lock();
            // (The clock may be set forward by a year.)
            let missed = match world.rng.u8(..3) {
                0 => Missed::Once,
                1 => Missed::Burst(3),
                _ => Missed::SkipAfter(Duration::from_secs(2)),
            };
            let patterns = world.scene.patterns();
            let pattern = patterns[world.rng.usize(..patterns.len())];
            world.note(format_args!("at {pattern}, missed: {missed:?}"));
            (pattern, missed)
        };
        let calendar = Calendar::cron(pattern).unwrap().zone("UTC").unwrap();
        // Every other one is later than its pattern by more than a second.
        let offset = Duration::from_millis(timer.token % 2 * 1_250);
        let mut calendar = calendar.missed(missed).offset(offset);
        if let Some(former) = former.as_ref().and_then(|row| row.calendar.as_deref()) {
            // It is armed anew, with another payload.
            calendar = former.parse().unwrap();
        }
        let answer = self.run(node, || match key {
            Some(key) => handle.key(key).schedule_calendar(kind, calendar, payload),
            None => handle.schedule_calendar(kind, calendar, payload),
        });
        self.lock().check_arm(node, timer.token, &answer);
    }

    fn is_key_held(&self, key: &str) -> bool {
        self.lock().is_held(&Target::Key(key.into()))
    }

    /// Arms a timer, with this key or by chance another, and does not wait for the answer.
    pub fn schedule_ticket(&self, node: usize, handle: &DurableClient, key: Option<&'static str>) {
        let mut timer = self.new_timer(node);
        timer.key = key.or(timer.key);
        self.ask_for(node, handle, timer);
    }

    fn ask_for(&self, node: usize, handle: &DurableClient, timer: NewTimer) {
        let (kind, when, payload) = (timer.kind, timer.when, timer.payload);
        let ticket = self.run(node, || match (timer.key, timer.not_after) {
            (key, Some(time)) => {
                let timer = handle.timer(kind, when, payload).not_after(time);
                key.iter()
                    .fold(timer, |timer, key| timer.key(key))
                    .schedule_ticket()
            }
            (Some(key), None) => handle.key(key).schedule_ticket(kind, when, payload),
            (None, None) => handle.schedule_ticket(kind, when, payload),
        });
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => world.nodes[node]
                .tickets
                .push(Pending::Arm(timer.token, ticket)),
            Err(error) => world.check_arm(node, timer.token, &Err(error)),
        }
    }

    pub fn schedule_many(&self, node: usize, handle: &DurableClient) {
        let count = self.lock().rng.usize(..12);
        let timers: Vec<_> = (0..count).map(|_| self.new_timer(node)).collect();
        let answer = self.run(node, || {
            let timers = timers.iter();
            handle.schedule_many(timers.map(|new| (new.kind, new.when, new.payload.as_str())))
        });
        let mut world = self.lock();
        match answer {
            Ok(ids) => {
                for (timer, id) in timers.iter().zip(&ids) {
                    world.check_arm(node, timer.token, &Ok(*id));
                }
                if ids.len() != count {
                    world.ledger.wrong("schedule_many: not an id for each");
                }
            }
            Err(error) => world.check_error(node, "schedule_many", &error),
        }
    }

    /// Cancels a timer, and does not wait for the answer.
    pub fn cancel_ticket(&self, node: usize, handle: &DurableClient) {
        let row = self.lock().some_row(false);
        if let Some(row) = row {
            self.ask_to_cancel(node, handle, row);
        }
    }

    fn ask_to_cancel(&self, node: usize, handle: &DurableClient, row: Row) {
        let (id, first) = {
            let mut world = self.lock();
            let token = token(&row.payload);
            world.note(format_args!("node {node} cancels {token}, without waiting"));
            (row.id, world.so_far().0)
        };
        let ticket = self.run(node, || handle.cancel_ticket(id));
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => world.nodes[node]
                .tickets
                .push(Pending::Cancel(id, first, ticket)),
            Err(error) => world.check_error(node, "cancel", &error),
        }
    }

    /// By key, or by id.
    pub fn some_target(&self) -> Option<Target> {
        let mut world = self.lock();
        match world.rng.u8(..3) {
            0 => Some(Target::Key(world.some_key().into())),
            _ => world.some_row(false).map(|row| Target::Id(row.id)),
        }
    }

    /// Cancels a timer, or moves it. Outside: nothing else is under way.
    pub fn end(
        &self,
        node: usize,
        handle: &DurableClient,
        target: &Target,
        is_outside: bool,
        moves: bool,
    ) {
        // (Nothing else would be done until it has its answer.)
        let is_held = self.lock().is_held(target);
        if is_held {
            let row = self.lock().ledger.find(target).map(|of| of.row.clone());
            if let Some(row) = row.filter(|_| !moves) {
                self.ask_to_cancel(node, handle, row);
            }
            return;
        }
        let (when, (first, nested), stood) = {
            let mut world = self.lock();
            let when = world.when();
            let stood = world
                .ledger
                .find(target)
                .filter(|timer| !timer.row.superseded)
                .map(|timer| timer.row.clone());
            let token = stood.as_ref().map(|row| token(&row.payload));
            let what = match moves {
                true => format!("moves {target:?} ({token:?}) to {when:?}"),
                false => format!("cancels {target:?} ({token:?})"),
            };
            world.note(format_args!("node {node} {what}"));
            (when, world.so_far(), stood)
        };
        let answer = self.run(node, || match (target, moves) {
            (Target::Id(id), false) => handle.cancel(*id),
            (Target::Id(id), true) => handle.reschedule(*id, when),
            (Target::Key(key), false) => handle.key(key).cancel(),
            (Target::Key(key), true) => handle.key(key).reschedule(when),
        });
        let mut world = self.lock();
        let is_done = match answer {
            Ok(is_done) => is_done,
            Err(error) => {
                let is_untouched = matches!(error, DurableError::Unavailable { .. });
                if is_untouched && world.nested == nested && world.is_true(first, target, true) {
                    let what = format!("{target:?}: {error}, and it is done");
                    world.ledger.wrong(what);
                }
                return world.check_error(node, "cancel", &error);
            }
        };
        if !world.is_true(first, target, is_done) {
            world
                .ledger
                .wrong(format_args!("{target:?}: {is_done} is not what was done"));
        }
        // A `false` outside says that nobody stood there.
        let is_alone = is_outside && world.nested == nested;
        if let Some(row) = stood.filter(|_| !is_done && is_alone)
            && !world.may_be_gone(&row)
        {
            world
                .ledger
                .wrong(format_args!("{target:?}: false, and it was {row:?}"));
        }
    }

    pub fn cancel_many(&self, node: usize, handle: &DurableClient) {
        let (ids, first, nested) = {
            let mut world = self.lock();
            let count = world.rng.usize(..6);
            let mut ids: Vec<_> = (0..count)
                .filter_map(|_| Some(world.some_row(false)?.id))
                .collect();
            ids.sort_unstable();
            ids.dedup();
            ids.retain(|&id| !world.is_held(&Target::Id(id)));
            world.note(format_args!("node {node} cancels {ids:?}"));
            let (first, nested) = world.so_far();
            (ids, first, nested)
        };
        let answer = self.run(node, || handle.cancel_many(ids.iter().copied()));
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let ended = world.ledger.ended_since(first, State::Cancelled);
                let found = ended.iter().filter(|id| ids.contains(id)).count();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_many: {count} is {found}"));
                }
            }
            Err(error) => world.check_error(node, "cancel_many", &error),
        }
    }

    /// Cancels a kind, by chance which. If the call fails, the kind is none.
    pub fn cancel_some_kind(&self, node: usize, handle: &DurableClient) -> &'static str {
        let (kind, (first, nested)) = {
            let mut world = self.lock();
            let kind = world.kind();
            world.note(format_args!("node {node} cancels all of {kind}"));
            (kind, world.so_far())
        };
        let answer = self.run(node, || handle.cancel_kind(kind));
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let found = world.ledger.ended_since(first, State::Cancelled).len();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_kind: {count} is {found}"));
                }
                kind
            }
            Err(error) => {
                world.check_error(node, "cancel_kind", &error);
                ""
            }
        }
    }

    /// Revives or discards one of these dead letters.
    pub fn end_letter(&self, node: usize, handle: &DurableClient, letters: &[DeadLetter]) {
        let (id, revives, nested, was_dead) = {
            let mut world = self.lock();
            let letter = world.rng.choice(letters);
            let revives = world.rng.u8(..3) > 0;
            let Some(id) = letter.map(|letter| letter.row.id) else {
                return;
            };
            world.note(format_args!("node {node} revives {revives}: {id}"));
            let was_dead = world.ledger.is_dead(id);
            (id, revives, world.nested, was_dead)
        };
        let answer = self.run(node, || match revives {
            true => handle.revive(id),
            false => handle.discard_dead(id),
        });
        let mut world = self.lock();
        match answer {
            Ok(is_done) => {
                let is_alone = !world.scene.is_fleet() || world.nested == nested;
                if is_done != was_dead && is_alone {
                    world
                        .ledger
                        .wrong(format_args!("{id} was dead: {was_dead}"));
                }
            }
            Err(error) => world.check_error(node, "retry", &error),
        }
    }

    /// Revives or discards all dead letters of the kind of one of these.
    pub fn end_letters(&self, node: usize, handle: &DurableClient, letters: &[DeadLetter]) {
        let (kind, revives, nested, before) = {
            let mut world = self.lock();
            let letter = world.rng.choice(letters);
            let Some(kind) = letter.map(|letter| letter.row.kind.clone()) else {
                return;
            };
            let revives = world.rng.bool();
            world.note(format_args!("node {node} revives {revives}: all of {kind}"));
            let before = world.ledger.dead_of(&kind);
            (kind, revives, world.nested, before)
        };
        let query = DeadQuery::new().kind(kind);
        let answer = self.run(node, || match revives {
            true => handle.revive_all(&query)?.wait(),
            false => handle.discard_all(&query)?.wait(),
        });
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                // (A letter that is revived may be dead again meanwhile.)
                let is_right = match revives {
                    true => count >= before,
                    false => count == before,
                };
                if !is_right && world.nested == nested {
                    let what = format!("{query:?}: {count} of {before} were changed");
                    world.ledger.wrong(what);
                }
            }
            Err(error) => world.check_error(node, "end_letters", &error),
        }
    }

    /// Moves all timers of a kind, by chance which.
    pub fn move_kind(&self, node: usize, handle: &DurableClient) {
        let (kind, shift, nested, before) = {
            let mut world = self.lock();
            // (It would wait for a user's transaction, and nothing else would be done meanwhile.)
            if world.may_wait() {
                return;
            }
            let kind = world.kind();
            let by = MS * world.rng.u32(..5_000);
            let shift = match world.rng.u8(..3) {
                0 => Shift::Sooner(by),
                _ => Shift::Later(by),
            };
            world.note(format_args!("node {node} moves all of {kind}: {shift:?}"));
            let stored = world.ledger.stored();
            let before = stored.filter(|timer| *timer.row.kind == *kind).count();
            (kind, shift, world.nested, before)
        };
        let query = ListQuery::new().kind(kind);
        let answer = self.run(node, || handle.move_all(&query, shift)?.wait());
        let mut world = self.lock();
        match answer {
            Ok(count) if count > before && world.nested == nested => {
                let what = format!("{count} of {before} of {kind} were moved");
                world.ledger.wrong(what);
            }
            Ok(_) => {}
            Err(error) => world.check_error(node, "move_all", &error),
        }
    }
}
