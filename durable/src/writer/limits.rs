//! Limits: what the writer does with rows that rules let through only so fast, or so many at once.
//!
//! `queue/throttle.rs` says what may go on, and `queues.rs` has the rows that wait. The README has
//! the steps: ThrottleHold, ThrottleFill and ThrottleRelease.

use super::hold::ToHold;
use super::queues::Queued;
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::delivery::Delivery;
use crate::queue::counted::AHEAD;
use crate::queue::throttle::{Met, Refused, RuleNumber};
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{HeldWhy, Position, Row, StoreTime};
use crate::store::rule::Rule;
use crate::store::write::{Outcome, Settled, Write};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time for which a turn asks for grants.
const ASK_MAX: Duration = Duration::from_millis(50);

impl Writer {
    /// The store has these rules now.
    pub(super) fn limit(&mut self, rules: &[Rule]) {
        let shared = &self.core.shared;
        let now = shared.elapsed();
        if shared.throttle.set(rules, now) {
            let numbers = shared.throttle.left(now);
            self.core.queues.begin(numbers.into_keys());
            // (Rows may be held by a limit that is no more.)
            self.core.held.scan_soon();
        }
    }

    /// ThrottleHold: a timer may not go to its handler yet. If others wait before it, or there is
    /// still no room, it is to be held. Returns it otherwise.
    pub(super) fn refused(
        &mut self,
        delivery: Box<Delivery>,
        refused: Refused,
    ) -> Option<Box<Delivery>> {
        let id = delivery.row.id;
        if delivery.row.is_on_trial() {
            // (It waits in the window, and stays a suspect.)
            return Some(delivery);
        }
        let (now, from) = (self.core.shared.elapsed(), self.core.time());
        let at = delivery.row.position();
        if let Some(wait) = (self.core.shared.throttle).release_at_once(&refused, at, now) {
            self.core.window.delay(id, from + wait);
            return Some(delivery);
        }
        let (of, kind) = (delivery.settled(), delivery.row.kind.clone());
        self.core.held.push(ToHold {
            of,
            kind,
            why: HeldWhy::Limited,
            refused: Some(refused),
        });
        None
    }

    /// ThrottleHold: the store holds a row, which meets these limits.
    pub(super) fn held_by_limit(&mut self, row: &Row, met: Met) {
        let throttle = &self.core.shared.throttle;
        self.core.queues.rows += 1;
        self.core.queues.add(row, met);
        // (Before the refusal ends.)
        throttle.set_waiting(&self.core.queues.news());
    }

    /// A look at all rows that are held has found one that a limit holds.
    pub(super) fn found_limited(&mut self, row: &Row) {
        let met = self.core.shared.throttle.met(row);
        self.core.queues.add(row, met);
    }

    /// ThrottleRelease and ThrottleFill: rows that were held go on, as many as may. Returns whether
    /// there is nothing more to do now.
    pub(super) fn release_limited(
        &mut self,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<bool, StoreError> {
        self.core.window.end_delays();
        let is_idle = self.core.is_stopping || self.core.only_looks();
        if self.core.queues.is_empty() || is_idle {
            return Ok(true);
        }
        let elapsed = self.core.shared.elapsed();
        let (throttle, window) = (&self.core.shared.throttle, &self.core.window);
        // (One that was moved, or that waits longer since the clock was set, is no longer one.)
        let soon = now.after(AHEAD);
        throttle.keep_released(|at| {
            let is_about_to = at.due <= soon && window.is_armed(at);
            is_about_to || is_broken(DurableFault::ReleaseKept) && window.has(at.id)
        });
        if !self.core.queues.any_waits() {
            throttle.set_waiting(&self.core.queues.news());
            return Ok(true);
        }
        let mut left = throttle.left(elapsed);
        let taken = self.core.queues.take(&mut left, elapsed);
        self.let_go_on(taken, clocks, now)?;
        let is_filled = self.fill_queues(&left)?;
        let core = &mut self.core;
        let news = core.queues.news();
        core.shared.throttle.set_waiting(&news);
        core.shared.counts.limited.set(core.queues.rows);
        Ok(is_filled)
    }

    /// ThrottleRelease: these rows get their deadlines again, and come before newcomers.
    fn let_go_on(
        &mut self,
        taken: Vec<(Position, Queued)>,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        if taken.is_empty() {
            return Ok(());
        }
        let write = |(position, row): &(Position, Queued)| Write::Retry {
            of: Settled {
                id: position.id,
                due: position.due,
                epoch: self.core.epoch(position.id.partition()),
            },
            at: position.unheld().due,
            attempts: row.attempts,
            crashes: row.crashes,
        };
        let writes = taken.iter().map(write).collect();
        let outcomes = self.commit_in_pace(writes)?;
        // (By both clocks at one time, after the commit: it may have taken long.)
        let (elapsed, from) = (self.core.shared.elapsed(), self.core.time());
        let mut released = Vec::new();
        for ((position, queued), outcome) in taken.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Blocked(_) | Outcome::PutOff(_) => {
                    self.core.queues.try_again(position, queued, elapsed);
                }
                Outcome::Settled(true, row) => {
                    let queues = &mut self.core.queues;
                    queues.rows = queues.rows.saturating_sub(1);
                    self.core.held.note_released(position);
                    released.extend(row.map(|row| (row, queued.met)));
                }
                // It was moved, or is gone.
                _ => {}
            }
        }
        let rows: Vec<Row> = released.iter().map(|(row, _)| row.clone()).collect();
        self.large.note_released(&rows, &mut self.core.aside);
        for (row, met) in released {
            let id = row.id;
            let wait = match is_broken(DurableFault::ReleasedNewcomer) {
                false => (self.core.shared.throttle).release(row.position(), &met, elapsed),
                true => Duration::ZERO,
            };
            if !wait.is_zero() {
                self.core.window.delay(id, from + wait);
            }
            self.place_row(row, clocks);
        }
        // (They fire at once. Not claimed they would come back, in no order.)
        self.ownership.claim(&mut self.core, now)
    }

    /// ThrottleFill: reads a slice of the rows that are held, for a queue that has come to its end.
    /// Returns whether there is nothing more to read now.
    fn fill_queues(&mut self, left: &BTreeMap<RuleNumber, u32>) -> Result<bool, StoreError> {
        let Some(after) = self.core.queues.to_fill(left) else {
            return Ok(true);
        };
        let limit = self.slice_of(usize::MAX);
        let found = (self.ownership).read_held(&mut self.core, after, limit)?;
        let mut queues = std::mem::take(&mut self.core.queues);
        let met = |row: &Row| self.limits_of(row);
        queues.fill(after, &found.rows, found.next, left, met);
        self.core.queues = queues;
        Ok(false)
    }

    /// The limits by which a row is held. (A row that is held for another reason waits for that.)
    pub(super) fn limits_of(&self, row: &Row) -> Met {
        match self.core.held_for(row) {
            None => self.core.shared.throttle.met(row),
            Some(_) => Met::new(),
        }
    }

    /// ThrottleWant and ThrottleGrant: where nodes share the store, it is asked for the tokens and
    /// calls of the next moments.
    pub(super) fn ask_grants(&mut self) -> Result<(), StoreError> {
        if self.core.only_looks() {
            return Ok(());
        }
        let (queues, throttle) = (&self.core.queues, &self.core.shared.throttle);
        let began = self.core.shared.elapsed();
        for (number, want) in throttle.wants(began, |number| queues.count(number)) {
            // (Tokens lapse from before the store is asked.)
            let asked = self.core.shared.elapsed();
            let Some(store) = self.core.store.shared() else {
                return Ok(());
            };
            if asked.saturating_sub(began) > ASK_MAX {
                // The next turn asks for the others.
                return Ok(());
            }
            let grants = store.grant(std::slice::from_ref(&want))?;
            if let Some(grant) = grants.first() {
                throttle.grant(number, &want, grant, asked);
            }
        }
        Ok(())
    }

    /// How long the writer may wait before it looks whether held rows may go on.
    pub(super) fn next_limited(&self) -> Option<Duration> {
        let core = &self.core;
        if core.queues.is_empty() || core.only_looks() {
            return None;
        }
        let now = core.shared.elapsed();
        let throttle = &core.shared.throttle;
        if core.is_stopping {
            return throttle.next_want(now, |_| 0);
        }
        let wait = |number| throttle.wait(number, now);
        let waits = core.queues.queued().filter_map(wait);
        let again = core.queues.again(|| throttle.left(now), now, wait);
        let want = throttle.next_want(now, |number| core.queues.count(number));
        waits.chain(again).chain(want).min()
    }
}
