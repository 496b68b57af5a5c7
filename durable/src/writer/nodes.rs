//! Nodes: the writer's part where other nodes write to its store.
//!
//! A row is loaded when the watermark of its partition has reached it, and no sooner: until then
//! any node may end or move it. From then on none may, so what is in the window is this node's. The
//! steps have their names in the README.

use super::turn::{LOOK_EVERY, Owned, Writer};
use super::window::ClockReading;
use crate::store::contract::{Lease, LeaseNews, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::fleet::{Fleet, FleetNode, FleetPartition};
use crate::store::row::{Partition, Position, Row, StoreTime};
use std::time::Duration;

/// How often the store is asked for what other nodes have put in.
const SCAN_EVERY: Duration = Duration::from_secs(1);

/// However long the loads take that follow a scan, the next one comes by then.
const SCAN_AFTER_LOADS: Duration = Duration::from_secs(2);

/// However much news there is, scans are so far apart at least, and renewals.
const SCAN_MIN: Duration = Duration::from_millis(10);
const RENEW_MIN: Duration = Duration::from_millis(200);

/// A scan takes at most this share of the time. If one of all rows takes longer (a database keeps
/// what has fired as long as somebody's snapshot may see it), those between look only at rows
/// that are overdue for less than [`LOW`].
const SCAN_SHARE: u32 = 10;

/// Such a scan begins so long before the oldest row that is being handled.
const LOW: Duration = Duration::from_secs(10);

/// How long a partition rests that is to become idle, before another one does; and how long all of
/// them rest where all are over the share.
const REST: Duration = Duration::from_secs(1);

/// The last millisecond before a time.
fn before(time: StoreTime) -> StoreTime {
    StoreTime::from_millis(time.as_millis().saturating_sub(1))
}

/// A time that much earlier.
fn earlier(time: StoreTime, by: Duration) -> StoreTime {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    StoreTime::from_millis(time.as_millis().saturating_sub(by))
}

impl Writer {
    /// LeaseRenew, LeaseCount: renews the leases, in time. Takes and gives back partitions.
    pub(super) fn renew(&mut self) -> Result<(), StoreError> {
        let Some(fleet) = &self.fleet else {
            return Ok(());
        };
        // Before the store is asked: its answer may have been true for long when it comes.
        let begun = self.shared.elapsed();
        if begun >= fleet.renew_at {
            let Some(store) = self.store.shared() else {
                return Ok(());
            };
            let news = store.renew()?;
            let counted = if is_broken(DurableFault::LeaseFromAnswer) {
                self.shared.elapsed()
            } else {
                begun
            };
            self.take_news(&news, counted);
        }
        self.give_back_idle()?;
        self.rest();
        Ok(())
    }

    fn take_news(&mut self, news: &LeaseNews, counted: Duration) {
        self.lose(&news.lost);
        let taken: Vec<_> = news.taken.iter().map(|lease| lease.partition).collect();
        self.lose(&taken);
        for &lease in &news.taken {
            let at = self
                .owned
                .partition_point(|owned| owned.lease.partition < lease.partition);
            self.owned.insert(at, Owned::new(lease));
            self.set_right(lease.partition, lease.epoch);
        }
        if let Some(rights) = &self.shared.rights {
            let until = counted.saturating_add(news.lasts);
            rights.extend(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.renewed = counted;
            fleet.renew_at = counted.saturating_add(news.again);
            fleet.surplus = news.surplus;
            if !news.taken.is_empty() {
                // Nobody knows yet what is due there.
                fleet.next_due = Some(StoreTime::MIN);
            }
        }
    }

    /// RightsWithdraw: these partitions are others' now.
    fn lose(&mut self, lost: &[Partition]) {
        for &partition in lost {
            self.set_right(partition, 0);
        }
        self.window.empty_partitions(lost);
        self.owned
            .retain(|owned| !lost.contains(&owned.lease.partition));
    }

    fn set_right(&self, partition: Partition, epoch: u64) {
        if let Some(rights) = &self.shared.rights {
            rights.set(partition, epoch);
        }
    }

    /// LeaseRelease: gives as many partitions back as are over this node's share, of those of which
    /// nothing is being handled. Until then they are handed out as the others.
    pub(super) fn give_back_idle(&mut self) -> Result<(), StoreError> {
        let elapsed = self.shared.elapsed();
        let Some(fleet) = &mut self.fleet else {
            return Ok(());
        };
        let is_idle = |owned: &&Owned| {
            let partition = owned.lease.partition;
            let is_busy = self.window.has_of(partition) || self.aside.has_answer_of(partition);
            !is_busy || is_broken(DurableFault::LeaseGivenEarly)
        };
        let free: Vec<Lease> = (self.owned.iter().rev())
            .filter(is_idle)
            .map(|owned| owned.lease)
            .take(fleet.surplus)
            .collect();
        if free.is_empty() {
            return Ok(());
        }
        fleet.surplus -= free.len();
        fleet.rest_at = elapsed + REST;
        let partitions: Vec<_> = free.iter().map(|lease| lease.partition).collect();
        // (Rows that were let go before they were called.)
        self.take_back_notes()?;
        self.lose(&partitions);
        match self.store.shared() {
            Some(store) => store.give_back(&free),
            None => Ok(()),
        }
    }

    /// LeaseRest: of a partition over the share nothing more is loaded for a second, then of
    /// another one: so it becomes idle, if its handlers are fast. A node that is to own none has
    /// all of them rest, for a second or a turn, whichever is longer; then, for as long, it hands
    /// those out that have not become idle.
    fn rest(&mut self) {
        let elapsed = self.shared.elapsed();
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        let (surplus, count) = (fleet.surplus, self.owned.len());
        let is_all = surplus > 0 && surplus >= count && !is_broken(DurableFault::RestOneByOne);
        let former = self.owned.iter().position(|owned| owned.is_leaving);
        if surplus == 0 {
            fleet.rest_at = elapsed + REST;
        }
        let rest_at = if is_all {
            fleet.rest_all_at
        } else {
            fleet.rest_at
        };
        if (surplus > 0 || former.is_none()) && elapsed < rest_at {
            return;
        }
        if former.is_some() {
            for owned in &mut self.owned {
                owned.is_leaving = false;
            }
            fleet.next_due = Some(StoreTime::MIN);
        }
        (fleet.rest_at, fleet.rest_all_at) = (elapsed + REST, elapsed + REST);
        let next = former.map_or(0, |at| at + 1) % count.max(1);
        let resting = match (is_all, former) {
            (true, Some(_)) => 0..0,
            (true, None) => 0..count,
            (false, _) => next..(next + surplus.min(1)).min(count),
        };
        let mut partitions = Vec::new();
        for owned in &mut self.owned[resting] {
            owned.is_leaving = true;
            // Nothing more of it is loaded; what nobody handles leaves the window.
            owned.loaded = Position::MIN;
            partitions.push(owned.lease.partition);
        }
        self.window.empty_partitions(&partitions);
    }

    /// The leases under which rows are handed out.
    fn handing(&self) -> Vec<Lease> {
        let stays = self.owned.iter().filter(|owned| !owned.is_leaving);
        stays.map(|owned| owned.lease).collect()
    }

    /// A row is in the store that is not loaded.
    pub(super) fn expect(&mut self, row: &Row) {
        let is_own = self.owner(row.id.partition()).is_some();
        if let Some(fleet) = self.fleet.as_mut().filter(|_| is_own) {
            let next = fleet.next_due.unwrap_or(StoreTime::MAX);
            fleet.next_due = Some(next.min(row.due));
        }
    }

    /// Another node may have put something in.
    pub(super) fn look_soon(&mut self) {
        if let Some(fleet) = &mut self.fleet {
            fleet.scan_at = fleet.scan_at.min(fleet.scanned + SCAN_MIN);
            fleet.renew_at = fleet.renew_at.min(fleet.renewed + RENEW_MIN);
        }
    }

    /// A row came back that this node may not hand out just now: it is loaded anew, if the node may
    /// again.
    pub(super) fn look_again(&mut self, row: &Row) {
        let (partition, due) = (row.id.partition(), before(row.due));
        for owned in &mut self.owned {
            if owned.lease.partition == partition {
                owned.loaded = owned.loaded.min(Position::end_of(due));
            }
        }
    }

    /// TurnClaim, for the partitions of a fleet: raises their watermarks, if a row is due soon.
    pub(super) fn claim_leases(&mut self, now: StoreTime) -> Result<(), StoreError> {
        let Some(fleet) = &mut self.fleet else {
            return Ok(());
        };
        let ahead = fleet.ahead;
        if self.is_stopping || fleet.next_due.is_none_or(|due| earlier(due, ahead) > now) {
            return Ok(());
        }
        let leases = self.handing();
        let upto = now.after(ahead * 3);
        if leases.is_empty() {
            return Ok(());
        }
        let Some(store) = self.store.shared() else {
            return Ok(());
        };
        let lost = store.claim(&leases, upto)?;
        let lost: Vec<_> = lost.iter().map(|lease| lease.partition).collect();
        self.lose(&lost);
        if !lost.is_empty() {
            // (They may be this node's again.)
            self.look_soon();
        }
        for owned in self.owned.iter_mut().filter(|owned| !owned.is_leaving) {
            owned.claimed = owned.claimed.max(upto);
        }
        self.claimed = self.claimed.max(upto);
        self.shared.claim(self.claimed);
        if let Some(fleet) = &mut self.fleet {
            // The rows after the watermark: a load tells whether there may be some soon.
            fleet.next_due = Some(StoreTime::from_millis(upto.as_millis() + 1));
            fleet.found = false;
        }
        Ok(())
    }

    /// TurnLoad, in a fleet: the rows up to the watermarks. Returns whether all are loaded that the
    /// window has room for.
    pub(super) fn load_claimed(&mut self, clocks: ClockReading) -> Result<bool, StoreError> {
        if self.is_stopping || !self.has_rights() {
            return Ok(true);
        }
        let ahead = self
            .fleet
            .as_ref()
            .map_or(Duration::ZERO, |fleet| fleet.ahead);
        let until_of = |owned: &Owned| {
            if is_broken(DurableFault::LoadBeyondClaim) {
                owned.claimed.after(ahead * 10)
            } else {
                owned.claimed
            }
        };
        loop {
            // Those that are behind, the farthest first, and those that are as far.
            let behind = |owned: &&Owned| {
                let is_claimed = owned.claimed > StoreTime::MIN && !owned.is_leaving;
                is_claimed && owned.loaded < Position::end_of(until_of(owned))
            };
            let Some(from) = self
                .owned
                .iter()
                .filter(behind)
                .map(|owned| owned.loaded)
                .min()
            else {
                return Ok(true);
            };
            let room = self.window.room();
            if room == 0 {
                return Ok(true);
            }
            let together = |owned: &&Owned| owned.loaded == from && behind(owned);
            let until = self.owned.iter().filter(together).map(until_of).min();
            let others = self
                .owned
                .iter()
                .filter(behind)
                .map(|owned| owned.loaded.due);
            let next = others.filter(|&due| due > from.due).min();
            let until = until
                .unwrap_or_default()
                .min(next.unwrap_or(StoreTime::MAX));
            let partitions: Vec<_> = self
                .owned
                .iter()
                .filter(together)
                .map(|owned| owned.lease.partition)
                .collect();
            let limit = self.slice(room);
            let Some(store) = self.store.shared() else {
                return Ok(true);
            };
            let begun = self.shared.elapsed();
            let rows = store.load_many(&partitions, from, until, limit)?;
            let took = self.shared.elapsed().saturating_sub(begun);
            let count = rows.len();
            let is_full = limit.is_reached(count, rows.iter().map(Row::bytes).sum());
            let loaded = self.take_in(rows, until, limit, clocks)?;
            for owned in &mut self.owned {
                if owned.loaded == from && partitions.contains(&owned.lease.partition) {
                    owned.loaded = loaded;
                }
            }
            if let Some(fleet) = &mut self.fleet {
                fleet.found |= count > 0;
                fleet.loaded_for += took;
            }
            if is_full {
                // Others want a turn, too. (A window that is full is not loaded further before some
                // of it is handled.)
                return Ok(self.window.room() == 0);
            }
        }
    }

    /// Whether rows up to the watermarks are not loaded, and the window has room.
    pub(super) fn is_behind(&self) -> bool {
        let is_behind = |owned: &Owned| {
            !owned.is_leaving
                && owned.claimed > StoreTime::MIN
                && owned.loaded < Position::end_of(owned.claimed)
        };
        !self.is_stopping
            && self.window.room() > 0
            && self.has_rights()
            && self.owned.iter().any(is_behind)
    }

    fn has_rights(&self) -> bool {
        let now_ns = u64::try_from(self.shared.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let rights = self.shared.rights.as_ref();
        rights.is_none_or(|rights| rights.last(now_ns))
    }

    /// ScanBelow: looks for rows that other nodes have put in, or moved, at the watermark or before
    /// it; and for the next one that is due. Returns whether nothing is to be loaded for that.
    pub(super) fn scan(&mut self) -> Result<bool, StoreError> {
        let Some(fleet) = &mut self.fleet else {
            return Ok(true);
        };
        let begun = self.shared.elapsed();
        if fleet.scanned_all {
            let loads = fleet.loaded_for * SCAN_SHARE;
            fleet.scan_all_at = fleet.scan_all_at.max(fleet.scanned + loads);
        }
        // After a claim that has found nothing, nobody knows what is next.
        let is_unknown = !fleet.found
            && fleet.next_due == Some(StoreTime::from_millis(self.claimed.as_millis() + 1));
        let is_time = begun >= fleet.scan_at;
        if self.is_stopping || !(is_time || is_unknown) {
            return Ok(true);
        }
        let is_all = begun >= fleet.scan_all_at;
        let partitions: Vec<_> = self.handing().iter().map(|lease| lease.partition).collect();
        if partitions.is_empty() {
            self.scanned(begun, is_all);
            return Ok(true);
        }
        let claimed = self.owned.iter().filter(|owned| !owned.is_leaving);
        let claimed = claimed.map(|owned| owned.claimed).min().unwrap_or_default();
        let low = match self.window.oldest() {
            _ if is_all => StoreTime::MIN,
            Some(oldest) => earlier(oldest.min(claimed), LOW),
            None => earlier(claimed, LOW),
        };
        let is_empty = self.window.rows() == 0;
        let Some(store) = self.store.shared() else {
            return Ok(true);
        };
        let after = StoreTime::from_millis(claimed.as_millis() + 1);
        let mut next = store.next_due(&partitions, if is_empty { low } else { after })?;
        let is_below = !is_empty && is_time || next.is_some_and(|due| due <= claimed);
        let is_below = is_below && !is_broken(DurableFault::BelowNotScanned);
        if is_below && is_empty {
            // (What is below may be locked, and then it is not loaded.)
            next = store.next_due(&partitions, after)?;
        }
        if is_below {
            // Rows that are in the window are passed over.
            let low = if low == StoreTime::MIN {
                Position::MIN
            } else {
                Position::end_of(before(low))
            };
            for owned in &mut self.owned {
                owned.loaded = owned.loaded.min(low);
            }
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.next_due = next;
        }
        if is_time {
            self.scanned(begun, is_all);
        }
        Ok(!is_below)
    }

    /// A delivery was refused: its row may be this node's again, and lie where nobody looks.
    pub(super) fn scan_all_soon(&mut self) {
        if let Some(fleet) = &mut self.fleet {
            (fleet.scan_at, fleet.scan_all_at) = (Duration::ZERO, Duration::ZERO);
        }
    }

    fn scanned(&mut self, begun: Duration, is_all: bool) {
        let elapsed = self.shared.elapsed();
        if let Some(fleet) = &mut self.fleet {
            // (Each scan has the rows of a full window read again. What other nodes have put in
            // does not wait for long for that.)
            let loads = std::mem::take(&mut fleet.loaded_for) * SCAN_SHARE;
            let took = elapsed.saturating_sub(begun);
            let every = SCAN_EVERY.max(loads.min(SCAN_AFTER_LOADS));
            (fleet.scanned, fleet.scanned_all) = (begun, is_all);
            fleet.scan_at = begun + every.max(took * SCAN_SHARE);
            if is_all {
                fleet.scan_all_at = begun + SCAN_EVERY.max(took * SCAN_SHARE);
            }
        }
    }

    /// How long a node of a fleet may wait for a request.
    pub(super) fn next_of_fleet(&self, now: StoreTime) -> Option<Duration> {
        let fleet = self.fleet.as_ref()?;
        let elapsed = self.shared.elapsed();
        let mut wait = fleet.renew_at.saturating_sub(elapsed).min(LOOK_EVERY);
        if !self.is_stopping {
            wait = wait.min(fleet.scan_at.saturating_sub(elapsed));
            let has_leases = self.owned.iter().any(|owned| !owned.is_leaving);
            if let Some(due) = fleet.next_due.filter(|_| has_leases) {
                wait = wait.min(earlier(due, fleet.ahead).since(now));
            }
        }
        Some(wait)
    }

    /// Who owns what.
    pub(super) fn fleet(&mut self) -> Result<Fleet, StoreError> {
        if let Some(store) = self.store.shared() {
            return store.fleet();
        }
        let now = self.shared.now();
        let lag = self.window.oldest_overdue(StoreTime::reading(now));
        let lag = lag.map_or(Duration::ZERO, |due| StoreTime::reading(now).since(due));
        let name = String::from("this process");
        let partitions = self.owned.iter().map(|owned| FleetPartition {
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
