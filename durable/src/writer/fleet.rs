//! Fleet: a node of several that share a store.
//!
//! A row is loaded when the watermark of its partition has reached it, and no sooner: until then
//! any node may end or move it. From then on none may, so what is in the window is this node's. The
//! steps have their names in the README.

use super::core::{Core, LOOK_EVERY, Owned};
use super::ownership::Ownership;
use super::plan::Plan;
use super::window::ClockReading;
use crate::store::contract::{Lease, LeaseNews, NodeKinds, SharedStore, Store, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::fleet;
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Partition, Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use std::sync::Arc;
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

/// A partition is owned for so long before it is given away for a kind, and between two tries. One
/// in `AWAY_SHARE` of the node's partitions goes at a time.
const AWAY_AFTER: Duration = Duration::from_secs(5);
const AWAY_SHARE: usize = 8;

/// And how many at most: each takes a commit of its own.
const AWAY_MAX: usize = 32;

/// How often other nodes are asked for their kinds while rows wait for a handler: at first, and as
/// long as no node has it.
const ASK_MIN: Duration = Duration::from_secs(1);
const ASK_MAX: Duration = Duration::from_secs(60);

/// What other nodes have told counts for so long when rows are to be buried.
const TOLD_MAX: Duration = Duration::from_secs(10);

/// The last millisecond before a time.
fn before(time: StoreTime) -> StoreTime {
    StoreTime::from_millis(time.as_millis().saturating_sub(1))
}

/// A time that much earlier.
fn earlier(time: StoreTime, by: Duration) -> StoreTime {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    StoreTime::from_millis(time.as_millis().saturating_sub(by))
}

/// A node of several, and what it knows of what others do.
pub(super) struct Fleet {
    /// How far ahead of its deadline a row's watermark is stored.
    ahead: Duration,
    /// No row of this node's partitions is due before, as far as it is known. `None`: nor is any.
    next_due: Option<StoreTime>,
    /// When to scan next, by the node's clock.
    scan_at: Duration,
    /// When to scan all of it next.
    scan_all_at: Duration,
    /// All of it was scanned last.
    scanned_all: bool,
    /// When it was scanned last, and when the leases were renewed last.
    scanned: Duration,
    renewed: Duration,
    /// When to renew the leases.
    renew_at: Duration,
    /// How long the loads since the last scan have taken.
    loaded_for: Duration,
    /// The store knows that this node is to own none.
    has_left: bool,
    /// How many partitions are over the share; and when one of them rests, or another one.
    surplus: usize,
    rest_at: Duration,
    /// Where all are: when all rest, or go on.
    rest_all_at: Duration,
    /// Since the last claim loads have found rows, or the store was asked what is next.
    has_looked: bool,
    /// The kinds of all nodes, as they were told.
    nodes: Vec<NodeKinds>,
    /// When that was, when they are asked again, and after how long once more.
    told: Option<Duration>,
    ask_at: Duration,
    ask_wait: Duration,
}

impl Fleet {
    pub(super) fn new(ahead: Duration) -> Self {
        Self {
            ahead,
            // Nobody knows yet what is due.
            next_due: Some(StoreTime::MIN),
            scan_at: Duration::ZERO,
            scan_all_at: Duration::ZERO,
            scanned_all: false,
            scanned: Duration::ZERO,
            renewed: Duration::ZERO,
            renew_at: Duration::ZERO,
            loaded_for: Duration::ZERO,
            has_left: false,
            surplus: 0,
            rest_at: Duration::ZERO,
            rest_all_at: Duration::ZERO,
            has_looked: false,
            nodes: Vec::new(),
            told: None,
            ask_at: Duration::ZERO,
            ask_wait: ASK_MIN,
        }
    }

    fn take_news(&mut self, core: &mut Core, news: &LeaseNews, counted: Duration) {
        if !has_rights(core) {
            // (Others may have its calls.)
            core.shared.throttle.forget_grants();
        }
        lose(core, &news.lost);
        let taken: Vec<_> = news.taken.iter().map(|lease| lease.partition).collect();
        lose(core, &taken);
        for &lease in &news.taken {
            let at = core
                .owned
                .partition_point(|owned| owned.lease.partition < lease.partition);
            let since = core.shared.elapsed();
            let owned = Owned::new(lease);
            core.owned.insert(at, Owned { since, ..owned });
            set_right(core, lease.partition, lease.epoch);
        }
        if let Some(rights) = &core.shared.rights {
            let until = counted.saturating_add(news.lasts);
            rights.extend(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        }
        self.renewed = counted;
        self.renew_at = counted.saturating_add(news.again);
        self.surplus = news.surplus;
        if !news.taken.is_empty() {
            // Nobody knows yet what is due there, nor what is held.
            self.next_due = Some(StoreTime::MIN);
            core.held.scan_soon();
        }
    }

    /// StopLeave: a node that stops is to own no partition. So others have those that are idle, and
    /// need not wait for the handlers that it still runs.
    fn leave(&mut self, core: &mut Core) -> Result<(), StoreError> {
        if self.is_to_leave(core) {
            shared(&mut *core.store)?.handles(&[]);
            (self.has_left, self.renew_at) = (true, Duration::ZERO);
        }
        Ok(())
    }

    fn is_to_leave(&self, core: &Core) -> bool {
        core.is_stopping && !self.has_left
    }

    /// LeaseRest: of a partition over the share nothing more is loaded for a second, then of
    /// another one: so it becomes idle, if its handlers are fast. A node that is to own none has
    /// all of them rest, for a second or a turn, whichever is longer; then, for as long, it hands
    /// those out that have not become idle.
    fn rest(&mut self, core: &mut Core) {
        let elapsed = core.shared.elapsed();
        let (surplus, count) = (self.surplus, core.owned.len());
        let is_all = surplus > 0 && surplus >= count && !is_broken(DurableFault::RestOneByOne);
        let former = core.owned.iter().position(|owned| owned.is_leaving);
        if surplus == 0 {
            self.rest_at = elapsed + REST;
        }
        let rest_at = if is_all {
            self.rest_all_at
        } else {
            self.rest_at
        };
        if (surplus > 0 || former.is_none()) && elapsed < rest_at {
            return;
        }
        if former.is_some() {
            for owned in &mut core.owned {
                owned.is_leaving = false;
            }
            self.next_due = Some(StoreTime::MIN);
        }
        (self.rest_at, self.rest_all_at) = (elapsed + REST, elapsed + REST);
        let next = former.map_or(0, |at| at + 1) % count.max(1);
        let resting = match (is_all, former) {
            (true, Some(_)) => 0..0,
            (true, None) => 0..count,
            (false, _) => next..(next + surplus.min(1)).min(count),
        };
        let mut partitions = Vec::new();
        for owned in &mut core.owned[resting] {
            owned.is_leaving = true;
            // Nothing more of it is loaded; what nobody handles leaves the window.
            owned.loaded = Position::MIN;
            partitions.push(owned.lease.partition);
        }
        core.window.empty_partitions(&partitions);
    }

    /// The kinds of all nodes.
    fn ask(&mut self, core: &mut Core) -> Result<(), StoreError> {
        self.nodes = shared(&mut *core.store)?.node_kinds()?;
        self.told = Some(core.shared.elapsed());
        Ok(())
    }

    /// GiveAway: a partition with rows that wait for a handler goes to a node that has it. Some go
    /// at a time. As with LeaseRest, nothing more of them is loaded for a second.
    fn give_away(&mut self, core: &mut Core) -> Result<(), StoreError> {
        let elapsed = core.shared.elapsed();
        let is_over = |owned: &Owned| !owned.wants.is_empty() && owned.goes_until <= elapsed;
        for owned in core.owned.iter_mut().filter(|owned| is_over(owned)) {
            owned.wants.clear();
            owned.since = elapsed;
            self.next_due = Some(StoreTime::MIN);
        }
        if core.held.take_news() {
            self.ask_wait = ASK_MIN;
            self.ask_at = self.ask_at.min(elapsed + ASK_MIN);
        }
        let is_idle = core.held.of.is_empty() || core.is_stopping || elapsed < self.ask_at;
        if is_idle || is_broken(DurableFault::GiveAwayIgnored) {
            return Ok(());
        }
        self.ask(core)?;
        let most = (core.owned.len() / AWAY_SHARE).clamp(1, AWAY_MAX);
        let (mut partitions, mut waits) = (Vec::new(), false);
        let Core { owned, held, .. } = &mut *core;
        for owned in owned.iter_mut().filter(|owned| !owned.rests()) {
            let Some(kinds) = held.of.get(&owned.lease.partition) else {
                continue;
            };
            let others = || self.nodes.iter().filter(|node| !node.is_this);
            let is_wanted = |kind: &&Arc<str>| others().any(|node| node.has(kind));
            let wants: Vec<_> = kinds.iter().filter(is_wanted).cloned().collect();
            if wants.is_empty() {
                continue;
            }
            if elapsed < owned.since + AWAY_AFTER || partitions.len() >= most {
                waits = true;
                continue;
            }
            (owned.wants, owned.goes_until) = (wants, elapsed + REST);
            owned.loaded = Position::MIN;
            partitions.push(owned.lease.partition);
        }
        let is_soon = waits || !partitions.is_empty();
        self.ask_wait = match is_soon {
            true => ASK_MIN,
            false => (self.ask_wait * 2).min(ASK_MAX),
        };
        self.ask_at = elapsed + self.ask_wait;
        core.window.empty_partitions(&partitions);
        Ok(())
    }

    /// Up to where the rows of a partition are loaded.
    fn until(&self, owned: &Owned) -> StoreTime {
        if is_broken(DurableFault::LoadBeyondClaim) {
            owned.claimed.after(self.ahead * 10)
        } else {
            owned.claimed
        }
    }

    /// Of the partitions that are behind those that are the farthest, and equally far: from where
    /// and until when they are loaded. `None`: no partition is behind.
    fn behind(&self, owned: &[Owned]) -> Option<(Position, StoreTime, Vec<Partition>)> {
        let behind = |owned: &&Owned| {
            let is_claimed = owned.claimed > StoreTime::MIN && !owned.rests();
            is_claimed && owned.loaded < Position::end_of(self.until(owned))
        };
        let from = owned
            .iter()
            .filter(behind)
            .map(|owned| owned.loaded)
            .min()?;
        let together: Vec<&Owned> = (owned.iter().filter(behind))
            .filter(|owned| owned.loaded == from)
            .collect();
        let until = together.iter().map(|owned| self.until(owned)).min();
        let others = owned.iter().filter(behind).map(|owned| owned.loaded.due);
        let next = others.filter(|&due| due > from.due).min();
        let until = until
            .unwrap_or_default()
            .min(next.unwrap_or(StoreTime::MAX));
        let partitions = together.iter().map(|owned| owned.lease.partition);
        Some((from, until, partitions.collect()))
    }

    /// ScanBelow: looks for rows that other nodes have put in, or moved, at the watermark or before
    /// it; and for the next one that is due. Returns whether nothing is to be loaded for that.
    fn scan(&mut self, core: &mut Core) -> Result<bool, StoreError> {
        let begun = core.shared.elapsed();
        if self.scanned_all {
            let loads = self.loaded_for * SCAN_SHARE;
            self.scan_all_at = self.scan_all_at.max(self.scanned + loads);
        }
        // After a claim that has found nothing, nobody knows what is next.
        let is_unknown = !self.has_looked
            && self.next_due == Some(StoreTime::from_millis(core.claimed.as_millis() + 1));
        let is_time = begun >= self.scan_at;
        if core.is_stopping || !(is_time || is_unknown) {
            return Ok(true);
        }
        let is_all = begun >= self.scan_all_at;
        let partitions: Vec<_> = handing(core).iter().map(|lease| lease.partition).collect();
        if partitions.is_empty() {
            self.scanned(core, begun, is_all);
            return Ok(true);
        }
        let claimed = core.owned.iter().filter(|owned| !owned.rests());
        let claimed = claimed.map(|owned| owned.claimed).min().unwrap_or_default();
        let low = match core.window.oldest() {
            _ if is_all => StoreTime::MIN,
            Some(oldest) => earlier(oldest.min(claimed), LOW),
            None => earlier(claimed, LOW),
        };
        let is_empty = core.window.rows() == 0;
        let store = shared(&mut *core.store)?;
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
            for owned in &mut core.owned {
                owned.loaded = owned.loaded.min(low);
            }
        }
        (self.next_due, self.has_looked) = (next, true);
        if is_time {
            self.scanned(core, begun, is_all);
        }
        Ok(!is_below)
    }

    fn scanned(&mut self, core: &Core, begun: Duration, is_all: bool) {
        // (Each scan has the rows of a full window read again. What other nodes have put in does
        // not wait for long for that.)
        let loads = std::mem::take(&mut self.loaded_for) * SCAN_SHARE;
        let took = core.shared.elapsed().saturating_sub(begun);
        let every = SCAN_EVERY.max(loads.min(SCAN_AFTER_LOADS));
        (self.scanned, self.scanned_all) = (begun, is_all);
        self.scan_at = begun + every.max(took * SCAN_SHARE);
        if is_all {
            self.scan_all_at = begun + SCAN_EVERY.max(took * SCAN_SHARE);
        }
    }
}

impl Ownership for Fleet {
    /// LeaseRenew, LeaseCount: renews the leases, in time. Takes and gives back partitions.
    fn renew(&mut self, core: &mut Core) -> Result<(), StoreError> {
        self.leave(core)?;
        // Before the store is asked: its answer may have been true for long when it comes.
        let begun = core.shared.elapsed();
        if begun >= self.renew_at {
            let news = shared(&mut *core.store)?.renew()?;
            let counted = if is_broken(DurableFault::LeaseFromAnswer) {
                core.shared.elapsed()
            } else {
                begun
            };
            self.take_news(core, &news, counted);
        }
        self.give_away(core)?;
        self.give_back_idle(core)?;
        self.rest(core);
        Ok(())
    }

    /// Raises the watermarks of the partitions, if a row is due soon.
    fn claim(&mut self, core: &mut Core, now: StoreTime) -> Result<(), StoreError> {
        let ahead = self.ahead;
        if core.is_stopping || self.next_due.is_none_or(|due| earlier(due, ahead) > now) {
            return Ok(());
        }
        let leases = handing(core);
        let upto = now.after(ahead * 3);
        if leases.is_empty() {
            return Ok(());
        }
        let lost = shared(&mut *core.store)?.claim(&leases, upto)?;
        let lost: Vec<_> = lost.iter().map(|lease| lease.partition).collect();
        lose(core, &lost);
        if !lost.is_empty() {
            // (They may be this node's again.)
            self.look_soon();
        }
        for owned in core.owned.iter_mut().filter(|owned| !owned.rests()) {
            owned.claimed = owned.claimed.max(upto);
        }
        core.claimed = core.claimed.max(upto);
        core.shared.claim(core.claimed);
        // The rows after the watermark: a load tells whether there may be some soon.
        self.next_due = Some(StoreTime::from_millis(upto.as_millis() + 1));
        self.has_looked = false;
        Ok(())
    }

    /// The rows up to the watermarks. Returns whether all are loaded that the window has room for.
    fn load_claimed(&mut self, core: &mut Core, clocks: ClockReading) -> Result<bool, StoreError> {
        if core.is_stopping || !has_rights(core) {
            return Ok(true);
        }
        while let Some((from, until, partitions)) = self.behind(&core.owned) {
            let room = core.window.room();
            if room == 0 {
                return Ok(true);
            }
            let limit = core.slice(room);
            let store = shared(&mut *core.store)?;
            let begun = core.shared.elapsed();
            let rows = store.load_many(&partitions, from, until, limit)?;
            let took = core.shared.elapsed().saturating_sub(begun);
            let count = rows.len();
            let is_full = limit.is_reached(count, rows.iter().map(Row::bytes).sum());
            let loaded = core.take_in(rows, until, limit, clocks)?;
            debug_assert!(
                loaded <= Position::end_of(until) && from <= loaded,
                "a load goes on from where it was, up to the watermark"
            );
            for owned in &mut core.owned {
                if owned.loaded == from && partitions.contains(&owned.lease.partition) {
                    owned.loaded = loaded;
                }
            }
            self.has_looked |= count > 0;
            self.loaded_for += took;
            if is_full {
                // Others want a turn, too. (A window that is full is not loaded further before some
                // of it is handled.)
                return Ok(core.window.room() == 0);
            }
        }
        Ok(true)
    }

    /// ScanBelow. What is claimed is loaded in the next turn.
    fn load(
        &mut self,
        core: &mut Core,
        _: ClockReading,
        _: StoreTime,
        has_shrunk: bool,
    ) -> Result<bool, StoreError> {
        let is_loaded = self.scan(core)?;
        // (What was handled has made room. What has just left the window would leave it again.)
        Ok(is_loaded && (has_shrunk || !is_behind(core)))
    }

    /// LeaseRelease: gives as many partitions back as are over this node's share, of those of which
    /// nothing is being handled. Until then they are handed out as the others.
    fn give_back_idle(&mut self, core: &mut Core) -> Result<(), StoreError> {
        let elapsed = core.shared.elapsed();
        let goes = |owned: &&Owned| !owned.wants.is_empty() && is_idle(core, owned);
        let away: Vec<_> = (core.owned.iter().filter(goes))
            .map(|owned| (owned.lease, owned.wants.clone()))
            .collect();
        if !away.is_empty() {
            self.surplus = self.surplus.saturating_sub(away.len());
            let partitions: Vec<_> = away.iter().map(|(lease, _)| lease.partition).collect();
            core.take_back_notes()?;
            lose(core, &partitions);
            shared(&mut *core.store)?.give_away(&away)?;
        }
        let free: Vec<Lease> = (core.owned.iter().rev())
            .filter(|owned| is_idle(core, owned))
            .map(|owned| owned.lease)
            .take(self.surplus)
            .collect();
        if free.is_empty() {
            return Ok(());
        }
        self.surplus -= free.len();
        self.rest_at = elapsed + REST;
        let partitions: Vec<_> = free.iter().map(|lease| lease.partition).collect();
        // (Rows that were let go before they were called.)
        core.take_back_notes()?;
        lose(core, &partitions);
        shared(&mut *core.store)?.give_back(&free)
    }

    /// The leases are renewed, and all rows are looked for, in the next turn.
    fn begin_anew(&mut self) {
        *self = Self::new(self.ahead);
    }

    fn next(&self, core: &mut Core, now: StoreTime) -> Result<Option<Duration>, StoreError> {
        if self.is_to_leave(core) {
            return Ok(Some(Duration::ZERO));
        }
        let elapsed = core.shared.elapsed();
        let mut wait = self.renew_at.saturating_sub(elapsed).min(LOOK_EVERY);
        if !core.is_stopping {
            wait = wait.min(self.scan_at.saturating_sub(elapsed));
            let has_leases = core.owned.iter().any(|owned| !owned.rests());
            if let Some(due) = self.next_due.filter(|_| has_leases) {
                wait = wait.min(earlier(due, self.ahead).since(now));
            }
        }
        Ok(Some(wait))
    }

    fn requests_max(&self, slice: SliceLimit) -> usize {
        slice.rows
    }

    fn rows_left(&self, slice: SliceLimit, requests: usize) -> usize {
        slice.rows - requests
    }

    fn expect(&mut self, core: &Core, row: &Row) {
        if core.owner(row.id.partition()).is_some() {
            let next = self.next_due.unwrap_or(StoreTime::MAX);
            self.next_due = Some(next.min(row.due));
        }
    }

    fn look_soon(&mut self) {
        self.scan_at = self.scan_at.min(self.scanned + SCAN_MIN);
        self.renew_at = self.renew_at.min(self.renewed + RENEW_MIN);
    }

    fn look_at_all_soon(&mut self) {
        (self.scan_at, self.scan_all_at) = (Duration::ZERO, Duration::ZERO);
    }

    fn plan_aside(&self, plan: Plan) -> Plan {
        plan.without_rows()
    }

    fn read_owned(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let handing = handing(core);
        let partitions: Vec<_> = handing.iter().map(|lease| lease.partition).collect();
        shared(&mut *core.store)?.load_many(&partitions, after, until, limit)
    }

    fn read_held(
        &self,
        core: &mut Core,
        after: Position,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let owned = core.owned.iter().map(|owned| owned.lease.partition);
        let owned: Vec<_> = owned.collect();
        if owned.is_empty() {
            return Ok(Listed::default());
        }
        let (store, until) = (shared(&mut *core.store)?, StoreTime::MAX);
        store.list_many(&owned, after, until, &RowFilter::ALL, limit)
    }

    fn node_kinds(&self, core: &mut Core) -> Result<Vec<NodeKinds>, StoreError> {
        shared(&mut *core.store)?.node_kinds()
    }

    fn may_have(&mut self, core: &mut Core, kind: &str) -> Result<bool, StoreError> {
        let elapsed = core.shared.elapsed();
        if self.told.is_none_or(|told| told + TOLD_MAX <= elapsed) {
            self.ask(core)?;
        }
        let mut others = self.nodes.iter().filter(|node| !node.is_this);
        Ok(others.any(|node| node.kinds.is_none() || node.has(kind)))
    }

    fn read_all(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let store = shared(&mut *core.store)?;
        let all = (0..store.partitions()).map(|number| number as Partition);
        let all: Vec<_> = all.collect();
        store.list_many(&all, after, until, filter, limit)
    }

    fn fleet(&self, core: &mut Core) -> Result<fleet::Fleet, StoreError> {
        shared(&mut *core.store)?.fleet()
    }
}

/// The store, as one that other nodes write to.
fn shared(store: &mut dyn Store) -> Result<&mut dyn SharedStore, StoreError> {
    let why = "a store that nodes share is none of these any more";
    store
        .shared()
        .ok_or_else(|| StoreError::Damaged(why.into()))
}

/// RightsWithdraw: these partitions are others' now.
fn lose(core: &mut Core, lost: &[Partition]) {
    if lost.is_empty() {
        return;
    }
    for &partition in lost {
        set_right(core, partition, 0);
    }
    core.window.empty_partitions(lost);
    core.held.lose(lost);
    core.queues.lose(lost);
    // (The node may be another one for the store.)
    core.shared.throttle.forget_grants();
    core.owned
        .retain(|owned| !lost.contains(&owned.lease.partition));
}

fn set_right(core: &Core, partition: Partition, epoch: u64) {
    if let Some(rights) = &core.shared.rights {
        rights.set(partition, epoch);
    }
}

fn has_rights(core: &Core) -> bool {
    let now_ns = u64::try_from(core.shared.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let rights = core.shared.rights.as_ref();
    rights.is_none_or(|rights| rights.last(now_ns))
}

/// The leases under which rows are handed out.
fn handing(core: &Core) -> Vec<Lease> {
    let stays = core.owned.iter().filter(|owned| !owned.rests());
    stays.map(|owned| owned.lease).collect()
}

/// Whether rows up to the watermarks are not loaded, and the window has room.
fn is_behind(core: &Core) -> bool {
    let is_behind = |owned: &Owned| {
        !owned.rests()
            && owned.claimed > StoreTime::MIN
            && owned.loaded < Position::end_of(owned.claimed)
    };
    !core.is_stopping
        && core.window.room() > 0
        && has_rights(core)
        && core.owned.iter().any(is_behind)
}

/// Whether nothing of a partition is being handled, so that it may be given back.
fn is_idle(core: &Core, owned: &Owned) -> bool {
    let partition = owned.lease.partition;
    let is_busy = core.window.has_of(partition) || core.aside.has_answer_of(partition);
    !is_busy || is_broken(DurableFault::LeaseGivenEarly)
}
