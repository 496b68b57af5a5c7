//! Alone: a process that has its store for itself. All that is due soon is in the window, and the
//! watermark is one for all partitions.

use super::core::{Core, LOOK_EVERY, Owned};
use super::ownership::Ownership;
use super::plan::Plan;
use super::window::ClockReading;
use crate::store::contract::{NodeKinds, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::fleet::{Fleet, FleetNode, FleetPartition};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use std::time::Duration;

/// The most requests of one commit.
const REQUESTS_MAX: usize = 16_384;

/// Rows may be handed out that are due within this time, or twice it.
const CLAIM_AHEAD: Duration = Duration::from_millis(500);

/// A process that has its store for itself.
pub(super) struct Alone;

impl Ownership for Alone {
    fn renew(&mut self, _: &mut Core) -> Result<(), StoreError> {
        Ok(())
    }

    fn claim(&mut self, core: &mut Core, now: StoreTime) -> Result<(), StoreError> {
        if claim_at(core).is_none_or(|at| at > now) {
            return Ok(());
        }
        let upto = now.after(CLAIM_AHEAD * 3);
        if is_broken(DurableFault::ClaimedBeforeCommit) {
            core.shared.claim(upto);
        }
        debug_assert!(upto >= core.claimed, "the watermark never falls");
        core.store.hand_out(upto)?;
        core.claimed = upto;
        core.shared.claim(upto);
        // (What falls due may lag.)
        core.look_every = LOOK_EVERY;
        Ok(())
    }

    /// What is claimed is in the window already.
    fn load_claimed(&mut self, _: &mut Core, _: ClockReading) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Loads a slice of the window, if it has room and is not loaded far enough ahead.
    fn load(
        &mut self,
        core: &mut Core,
        clocks: ClockReading,
        now: StoreTime,
        _: bool,
    ) -> Result<bool, StoreError> {
        if core.only_looks() {
            return Ok(true);
        }
        let bounds = core.window.bounds();
        let until = now.after(bounds.ahead);
        let enough = now.after(bounds.ahead / 4 * 3);
        for number in 0..core.owned.len() {
            let &Owned { lease, loaded, .. } = &core.owned[number];
            let room = core.window.room();
            if loaded.due >= enough || room == 0 || core.is_stopping {
                continue;
            }
            let limit = core.slice(room);
            let rows = core.store.load(lease.partition, loaded, until, limit)?;
            let loaded = core.take_in(rows, until, limit, clocks)?;
            core.owned[number].loaded = loaded;
        }
        let has_room = core.window.room() > 0 && !core.is_stopping;
        let is_loaded = !has_room || core.owned.iter().all(|owned| owned.loaded.due >= enough);
        self.claim(core, now)?;
        Ok(is_loaded)
    }

    fn give_back_idle(&mut self, _: &mut Core) -> Result<(), StoreError> {
        Ok(())
    }

    fn begin_anew(&mut self) {}

    fn next(&self, core: &mut Core, now: StoreTime) -> Result<Option<Duration>, StoreError> {
        let claim = claim_at(core).map(|at| at.since(now));
        let load = next_load(core, now)?;
        // (A manual clock drifts from no other one, and tells when it is set.)
        let look_every = match core.shared.is_manual() {
            true => core.look_every,
            false => LOOK_EVERY,
        };
        let look = core.has_rows.then_some(look_every);
        Ok([claim, load, look].into_iter().flatten().min())
    }

    /// (The many calls of one process's store cost it little.)
    fn requests_max(&self, _: SliceLimit) -> usize {
        REQUESTS_MAX
    }

    fn rows_left(&self, slice: SliceLimit, _: usize) -> usize {
        slice.rows
    }

    fn expect(&mut self, _: &Core, _: &Row) {}

    fn look_soon(&mut self) {}

    fn look_at_all_soon(&mut self) {}

    fn plan_aside(&self, plan: Plan) -> Plan {
        plan
    }

    fn read_owned(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        for Owned { lease, .. } in &core.owned {
            rows.extend(core.store.load(lease.partition, after, until, limit)?);
        }
        rows.sort_by_key(Row::position);
        rows.truncate(limit.rows);
        Ok(rows)
    }

    fn node_kinds(&self, _: &mut Core) -> Result<Vec<NodeKinds>, StoreError> {
        Ok(Vec::new())
    }

    fn may_have(&mut self, _: &mut Core, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn read_held(
        &self,
        core: &mut Core,
        after: Position,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let rows = self.read_owned(core, after, StoreTime::MAX, limit)?;
        Ok(Listed::of(rows, limit, &RowFilter::ALL))
    }

    fn read_all(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let mut all = Listed::default();
        for Owned { lease, .. } in &core.owned {
            all.add((core.store).list(lease.partition, after, until, filter, limit)?);
        }
        Ok(all)
    }

    fn fleet(&self, core: &mut Core) -> Result<Fleet, StoreError> {
        let now = core.shared.now();
        let lag = core.window.oldest_overdue(StoreTime::reading(now));
        let lag = lag.map_or(Duration::ZERO, |due| StoreTime::reading(now).since(due));
        let name = String::from("this process");
        let partitions = core.owned.iter().map(|owned| FleetPartition {
            number: owned.lease.partition,
            owner: Some(name.clone()),
            epoch: owned.lease.epoch,
            lag,
        });
        let partitions: Vec<_> = partitions.collect();
        let node = FleetNode {
            name: name.clone(),
            partitions: partitions.len(),
            is_this: true,
        };
        Ok(Fleet {
            nodes: vec![node],
            partitions,
        })
    }
}

/// When the watermark is to be raised next.
fn claim_at(core: &Core) -> Option<StoreTime> {
    let oldest = core.window.oldest_after(core.claimed)?;
    let ahead = |time: StoreTime, by: Duration| {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        StoreTime::from_millis(time.as_millis().saturating_sub(by))
    };
    // Not before most of the present claim is used up.
    Some(ahead(oldest, CLAIM_AHEAD * 2).max(ahead(core.claimed, CLAIM_AHEAD)))
}

/// How long it takes until the window is to be loaded further.
fn next_load(core: &mut Core, now: StoreTime) -> Result<Option<Duration>, StoreError> {
    if core.window.room() == 0 || core.is_stopping || core.only_looks() {
        return Ok(None);
    }
    let mut next = None;
    for Owned { lease, loaded, .. } in &core.owned {
        let mut upto = Some(loaded.due);
        if core.shared.is_manual() {
            // Years may pass at once: it waits until there is something to load.
            let (until, limit) = (StoreTime::MAX, SliceLimit::rows(1));
            let rows = core.store.load(lease.partition, *loaded, until, limit)?;
            upto = rows.first().map(|row| row.due);
        }
        next = next.into_iter().chain(upto).min();
    }
    let ahead = core.window.bounds().ahead / 4 * 3;
    Ok(next.map(|due| due.since(now).saturating_sub(ahead)))
}
