//! Release: what the writer does with rows that are held, or are to be. `hold.rs` has what it knows
//! of them. The README has the steps: HoldCommit and HeldRelease.

use super::hold::{HeldScan, ToHold};
use super::plan::{Changes, Plan};
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::recurrence::next_run;
use crate::queue::fired::Fired;
use crate::queue::request::{CountingHeld, Look, Reply};
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::list::RowFilter;
use crate::store::row::{Cause, DeadLetter, Held, HeldWhy, Row, StoreTime};
use crate::store::unhandled::UnhandledKind;
use crate::store::write::{Outcome, Settled, SliceLimit, Write};
use std::sync::Arc;
use std::time::Duration;

/// What becomes of a row that is held, and that a scan has read.
enum Becomes {
    /// It is handed out again.
    Released,
    /// It has waited for too long.
    Dead(Box<DeadLetter>),
    /// It waits, for another reason than before.
    HeldAgain(HeldWhy),
}

impl Writer {
    /// HoldCommit: plans that rows are held which this process does not hand out.
    pub(super) fn plan_holds(&mut self, now: StoreTime, changes: &mut Changes) {
        let most = self.ownership.requests_max(self.pace.limit());
        for row in self.core.held.take_due(changes.elapsed, most.max(1)) {
            changes.add(row.write(now), Plan::Hold(Box::new(row)), Reply::Nobody);
        }
    }

    /// A row is held, or is gone, or the store could not hold it yet.
    pub(super) fn hold_done(&mut self, row: ToHold, outcome: Option<Outcome>) {
        let now = self.core.shared.elapsed();
        match outcome {
            // (As long as it stands before `loaded` it is known here alone.)
            Some(Outcome::Blocked(_) | Outcome::PutOff(_)) => self.core.held.push_again(row, now),
            Some(Outcome::Settled(true, Some(stored))) => {
                let held = stored.held();
                if let Some(held) = held {
                    self.core.held.note_in_scan(&stored, held);
                }
                match held {
                    Some(Held {
                        why: HeldWhy::Unhandled,
                        since,
                    }) => {
                        let bury_after = self.core.shared.hooks.unhandled.bury_after;
                        let place = (row.of.id.partition(), &row.kind);
                        let told = self.core.held.held(place, since, bury_after, now);
                        if let Some(rows) = told {
                            self.tell_of_unhandled(row.kind, rows);
                        }
                    }
                    Some(Held {
                        why: HeldWhy::Limited,
                        ..
                    }) => {
                        // (By the rules as they are now: others may have refused it.)
                        let met = self.core.shared.throttle.met(&stored);
                        let is_free = met.is_empty();
                        self.held_by_limit(&stored, met);
                        if is_free {
                            // Its limit is gone since it was refused, so no queue has it.
                            self.core.held.scan_soon();
                        } else {
                            self.core.held.scan_later(now);
                        }
                    }
                    _ => self.core.held.held_paused(now),
                }
                self.count_held();
            }
            // (It is gone, or it was held by a commit whose answer was lost: the scan knows.)
            _ => self.core.held.scan_later(now),
        }
    }

    /// Reads the next slice of the rows that are held, if a scan is under way or it is time for
    /// one. Returns whether there is nothing more to do now.
    pub(super) fn scan_held(
        &mut self,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<bool, StoreError> {
        if self.core.is_stopping || self.core.only_looks() {
            return Ok(true);
        }
        let began = self.core.shared.elapsed();
        self.core.held.begin_scan(began, now);
        let Some(mut scan) = self.core.held.scan.take() else {
            return Ok(true);
        };
        // (What it releases is one commit.)
        let (look, most) = (self.slice_of(usize::MAX), self.pace.limit());
        let limit = SliceLimit {
            rows: look.rows.min(most.rows),
            ..look
        };
        let after = scan.after;
        let found = (self.ownership).read_held(&mut self.core, after, limit)?;
        scan.after = found.next.unwrap_or(after);
        self.follow_scan(found.rows, &mut scan, clocks, now)?;
        let ended = self.core.shared.elapsed();
        scan.took += ended.saturating_sub(began);
        if found.next.is_some() {
            self.core.held.scan = Some(scan);
            return Ok(false);
        }
        let bury_after = self.core.shared.hooks.unhandled.bury_after;
        self.core.queues.rows = scan.limited;
        let told = self.core.held.end_scan(scan, bury_after, ended, now);
        for (kind, rows) in told {
            self.tell_of_unhandled(kind, rows);
        }
        self.count_held();
        Ok(true)
    }

    fn count_held(&self) {
        let counts = &self.core.shared.counts;
        counts.unhandled.set(self.core.held.waiting());
        counts.paused.set(self.core.held.paused());
        counts.limited.set(self.core.queues.rows);
    }

    /// HeldRelease: rows that are handed out again get their deadlines again. Rows that have waited
    /// for their handler for too long become dead letters, and others are counted.
    fn follow_scan(
        &mut self,
        rows: Vec<Row>,
        scan: &mut HeldScan,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        let (mut writes, mut plans) = (Vec::new(), Vec::new());
        for row in rows {
            // (Others are due after the year 6429.)
            let Some(held) = row.held() else { continue };
            let Some((write, plan)) = self.plan_held(&row, held, now)? else {
                if held.why == HeldWhy::Limited {
                    self.found_limited(&row);
                }
                scan.note(&row, held);
                continue;
            };
            writes.push(write);
            plans.push((row, held, plan));
        }
        let outcomes = self.commit_in_pace(writes)?;
        let mut released = Vec::new();
        for ((row, held, plan), outcome) in plans.into_iter().zip(outcomes) {
            match (outcome, plan) {
                (Outcome::Blocked(_) | Outcome::PutOff(_), _) => {
                    if self.core.held_for(&row).is_some() {
                        scan.note(&row, held);
                    }
                    scan.is_held_up = true;
                }
                (Outcome::Settled(true, Some(stored)), Becomes::HeldAgain(why)) => {
                    let since = stored.held().map_or(now, |held| held.since);
                    scan.note(&row, Held { why, since });
                }
                (Outcome::Settled(true, stored), Becomes::Dead(letter)) => {
                    self.tell_of_death(*letter);
                    released.extend(stored);
                }
                (Outcome::Settled(true, stored), Becomes::Released) => released.extend(stored),
                // (Or it was moved, or is gone.)
                _ => {}
            }
        }
        self.large.note_released(&released, &mut self.core.aside);
        if released.is_empty() {
            return Ok(());
        }
        for row in released {
            self.place_row(row, clocks);
        }
        // (Those that are overdue fire at once. Not claimed they would come back, in no order.)
        self.ownership.claim(&mut self.core, now)
    }

    /// What becomes of a row that is held. `None`: it waits on.
    fn plan_held(
        &mut self,
        row: &Row,
        held: Held,
        now: StoreTime,
    ) -> Result<Option<(Write, Becomes)>, StoreError> {
        let of = Settled {
            id: row.id,
            due: row.due,
            epoch: self.core.epoch(row.id.partition()),
        };
        let Some(why) = self.core.held_for(row) else {
            if held.why == HeldWhy::Limited && !self.core.shared.throttle.met(row).is_empty() {
                return Ok(None);
            }
            let at = match is_broken(DurableFault::HeldReleasedNow) {
                true => now,
                false => row.wanted(),
            };
            let release = Write::Retry {
                of,
                at,
                attempts: row.attempts,
                crashes: row.crashes,
            };
            return Ok(Some((release, Becomes::Released)));
        };
        if why != held.why {
            let since = now;
            let hold = Write::Hold { of, why, since };
            return Ok(Some((hold, Becomes::HeldAgain(why))));
        }
        let bury_after = self.core.shared.hooks.unhandled.bury_after;
        let is_over = held.since.after(bury_after) <= now || is_broken(DurableFault::BuriedEarly);
        let is_paused = self.core.is_paused(row) && !is_broken(DurableFault::PausedBuried);
        let is_unhandled = why == HeldWhy::Unhandled || is_broken(DurableFault::PausedBuried);
        // (Its partition is about to go to a node that has the kind.)
        let is_buried = is_unhandled
            && is_over
            && !is_paused
            && !self.ownership.may_have(&mut self.core, &row.kind)?;
        Ok(is_buried.then(|| self.plan_held_burial(row, of, now)))
    }

    /// A row has waited for its handler for too long. A recurring one waits for its next run.
    fn plan_held_burial(&mut self, row: &Row, of: Settled, now: StoreTime) -> (Write, Becomes) {
        let due = row.wanted();
        let next = next_run(row.calendar.as_deref(), due, now, 0).unwrap_or_default();
        let next = next.at.map(|at| (at, self.core.store.new_id(None, due)));
        self.core.note_made_up(row.id, 0);
        let (attempts, crashes) = (row.attempts, row.crashes);
        // (As with other letters, the hook is told neither payload nor key.)
        let id = next.map_or(row.id, |(_, copy)| copy);
        let mut dead = Row::new(id, due, row.kind.clone(), [].into());
        (dead.attempts, dead.crashes) = (attempts, crashes);
        let cause = Cause::UnknownKind;
        let letter = DeadLetter::new(dead, cause.clone(), now);
        let write = Write::Bury {
            of,
            cause,
            since: now,
            attempts,
            crashes,
            next,
        };
        (write, Becomes::Dead(Box::new(letter)))
    }

    /// How long the writer may wait before it has something to do with held rows.
    pub(super) fn next_held(&self, now: StoreTime) -> Option<Duration> {
        let is_idle = self.core.is_stopping || self.core.only_looks();
        let next = || self.core.held.next(self.core.shared.elapsed(), now);
        (!is_idle).then(next).flatten()
    }

    /// Tells the program that timers of a kind wait for a handler.
    fn tell_of_unhandled(&self, kind: Arc<str>, rows: u64) {
        let hook = self.core.shared.hooks.unhandled.hook.clone();
        if hook.is_none() && !cfg!(feature = "tracing") {
            return;
        }
        let told = Fired::Hook(Box::new(move || {
            #[cfg(feature = "tracing")]
            crate::queue::events::unhandled(&kind, rows);
            if let Some(hook) = hook {
                hook(&kind, rows);
            }
        }));
        // (A service that has stopped tells nobody.)
        let _ = self.core.window.service().schedule(Duration::ZERO, told);
    }

    /// Reads a slice of the rows that wait for a handler, for a call that counts them.
    pub(super) fn look_at_held(&mut self, mut counting: CountingHeld) -> Result<(), StoreError> {
        let begun = self.core.time();
        let limit = self.slice_of(usize::MAX);
        let until = StoreTime::MAX;
        let (core, after) = (&mut self.core, counting.after);
        let read = (self.ownership).read_all(core, after, until, &RowFilter::ALL, limit);
        let found = match read {
            Ok(found) => found,
            Err(error) => return self.answer(counting.teller, Err(error)),
        };
        self.note_look(found.looked_at.0, found.looked_at.1, begun);
        for row in found.rows {
            if let Some(held) = row.held().filter(|held| held.why == HeldWhy::Unhandled) {
                let (rows, since) = (counting.kinds.entry(row.kind)).or_insert((0, held.since));
                *rows += 1;
                *since = held.since.min(*since);
            }
        }
        if let Some(after) = found.next {
            counting.after = after;
            self.large.push_look(Look::Unhandled(counting));
            return Ok(());
        }
        let nodes = match counting.kinds.is_empty() {
            true => Ok(Vec::new()),
            false => self.ownership.node_kinds(&mut self.core),
        };
        let nodes = match nodes {
            Ok(nodes) => nodes,
            Err(error) => return self.answer(counting.teller, Err(error)),
        };
        let named = |kind: &str| {
            let having = nodes.iter().filter(|node| node.has(kind));
            having.map(|node| node.name.clone()).collect()
        };
        let kinds = counting.kinds.into_iter();
        let kinds = kinds.map(|(kind, (rows, since))| UnhandledKind {
            nodes: named(&kind),
            kind,
            rows,
            since: since.system_time(),
        });
        let kinds = kinds.collect();
        self.answer(counting.teller, Ok(kinds))
    }
}
