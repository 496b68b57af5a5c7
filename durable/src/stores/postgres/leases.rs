//! Leases: which partitions are this node's, and for how long.
//!
//! One row says until when all leases of a node last, so one statement renews them, and no
//! transaction of a user stands in its way. A node that did not renew in time is marked as dead, in
//! a transaction of its own; then others take its partitions. It comes back under a new name. The
//! rows that an owner before may have handed out get one more attempt when they are loaded: a slice
//! at a time, since there may be many.

use super::clock::DatabaseClock;
use super::migrations::PROGRAM;
use super::session::{Live, Session};
use super::statements::grant::ForgetCalls;
use super::statements::lease::{
    Expire, ForgetNodes, ForgetSeqs, ForgetWatermarks, Free, Join, JoinWatermark, LookOnly,
    OtherNodes, Others, Own, Renew, Take,
};
use super::statements::rows::{gate, partition};
use crate::random::random;
use crate::store::contract::{Lease, LeaseNews, StoreError};
use crate::store::row::Partition;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Error;
use uuid::Uuid;

/// How many leases one statement takes, or gives back: it compares each with each.
pub(super) const LEASES_AT_ONCE: usize = 256;

/// One part in `MARGIN` of a lease's length is not counted on: clocks do not run alike.
const MARGIN: u32 = 10;

/// From the end of another node's lease to the look at it.
const AFTER_END: Duration = Duration::from_millis(20);

/// Between two looks at least.
const LOOK_MIN: Duration = Duration::from_millis(200);

/// A renewal that takes longer says that this node is far from the database, in seconds; and one
/// that takes less that it is not.
const SLOW: f64 = 0.15;
const FAST: f64 = 0.075;

/// How many renewals in a row say so.
const SLOW_COUNT: u32 = 2;

/// After one of them the next one comes by then.
const SLOW_AGAIN: Duration = Duration::from_secs(2);

/// A partition that was taken for a kind does not count to the share for so long: it does not go
/// back and forth. In seconds.
const KEPT: f64 = 60.0;

/// One that was given away for kinds that this node lacks is left alone for so long.
const LEFT: f64 = 2.0;

/// A node tells others of its kinds, if they are not more, nor longer.
const KINDS_MAX: usize = 1_000;
const KINDS_BYTES_MAX: usize = 64 << 10;

/// The leases of this node, as the database has said.
pub(crate) struct Leases {
    pub(super) node: Uuid,
    pub(super) name: String,
    /// The number of the schema that this program knows.
    number: i64,
    pub(crate) lasts: Duration,
    /// How many partitions the schema has.
    pub(super) partitions: u32,
    /// Epochs by partition.
    pub(super) own: BTreeMap<Partition, u64>,
    /// Rows due by then are suspect, if they were not written in the partition's epoch.
    pub(super) owed: BTreeMap<Partition, i64>,
    /// Those that were taken for a kind, over this node's share, and until when they do not count.
    kept: BTreeMap<Partition, f64>,
    /// Those that are left to nodes with other kinds, and since when.
    left: BTreeMap<Partition, f64>,
    /// How many are over this node's share.
    pub(super) surplus: usize,
    /// A statement that gives partitions back was sent, and its answer has not come.
    pub(super) gives_back: bool,
    /// Renewals so far.
    pub(super) renewals: u64,
    /// The kinds that it hands out. `None`: they are too many to be told.
    kinds: Option<Vec<String>>,
    /// It hands out none: it only looks, and owns nothing.
    looks: bool,
    /// It began to do so after it had joined, and its row does not say so yet.
    tells_looks: bool,
    /// The node is far from the database: others do its work, if there are any that are not.
    is_slow: bool,
    /// Renewals in a row that said otherwise.
    contrary: u32,
    pub(super) watermark: Watermark,
    /// Whether the floor has risen for what this node writes.
    pub(super) closed: Closed,
}

/// Whether this node knows that no program works with the schema that does not know of what few
/// rows have. It holds for as long as this node is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Closed {
    #[default]
    No,
    /// It does not, and a row was held.
    Wanted,
    /// For rows that are held. It may open again when this node is gone.
    ForHeld,
    ForEver,
}

/// The watermark of this node, as it is stored.
#[derive(Default)]
pub(super) struct Watermark {
    /// The number of its row.
    pub(super) gen_: i64,
    /// How often that was written.
    pub(super) written: u32,
    pub(super) upto: i64,
    /// Up to where the rows of partitions may be read without looking at locks, by gate
    /// (GateProbe).
    pub(super) free: BTreeMap<i16, i64>,
}

impl Leases {
    pub(super) fn new(
        node: Uuid,
        name: String,
        lasts: Duration,
        number: i64,
        partitions: u32,
    ) -> Self {
        Self {
            node,
            name,
            number,
            lasts,
            partitions,
            own: BTreeMap::new(),
            owed: BTreeMap::new(),
            kept: BTreeMap::new(),
            left: BTreeMap::new(),
            surplus: 0,
            gives_back: false,
            renewals: 0,
            kinds: None,
            looks: false,
            tells_looks: false,
            is_slow: false,
            contrary: 0,
            watermark: Watermark::default(),
            closed: Closed::No,
        }
    }

    /// Which kinds this node hands out.
    pub(super) fn handles(&mut self, kinds: &[Arc<str>]) {
        let bytes: usize = kinds.iter().map(|kind| kind.len()).sum();
        let is_told = kinds.len() <= KINDS_MAX && bytes <= KINDS_BYTES_MAX;
        self.kinds = is_told.then(|| kinds.iter().map(|kind| kind.to_string()).collect());
        self.looks = kinds.is_empty();
        if self.looks {
            self.kept.clear();
            self.tells_looks = self.renewals > 0;
        }
    }

    /// The store has failed, and is opened again. The node goes on under its name, and under its
    /// leases if they have not run out, as after a pause. But if it was giving partitions back, the
    /// database may do that at any time from now on: so the node has another name.
    pub(super) fn come_back(&mut self) {
        if std::mem::take(&mut self.gives_back) {
            self.node = random_node();
        }
        self.watermark.free.clear();
    }

    /// Renews them, and takes what is free, up to this node's share. Reads the database's clock.
    pub(super) fn renew(
        &mut self,
        session: &mut Session,
        clock: &DatabaseClock,
    ) -> Result<LeaseNews, StoreError> {
        let (sent, time) = self.stay_alive(session, clock)?;
        let answered = clock.elapsed();
        let node = self.node;
        if self.tells_looks {
            session.run(async |live| live.ask(&LookOnly { node }).await)?;
            self.tells_looks = false;
        }
        let (others, own) = session.run(async |live| look(live, node).await)?;
        clock.read(sent, answered, time);
        if self.note_speed(answered - sent) {
            // Others are told before it gives anything back: a turn of a slow node takes long.
            self.renew_row(session)?;
        }
        let mut news = LeaseNews::new(self.lasts - self.lasts / MARGIN, self.lasts / 3);
        self.note_own(&own, &mut news);
        let share = self.share(&others);
        let is_first_over = others.first_end.is_some_and(|end| end <= 0.0);
        let is_free = is_first_over || others.has_free;
        if is_free && (self.own.len() < share || others.has_wants) {
            self.take_free(session, share, answered, &mut news)?;
        }
        for lease in &news.taken {
            let gate = gate(lease.partition, self.partitions);
            self.watermark.free.remove(&gate);
        }
        (self.kept).retain(|number, until| self.own.contains_key(number) && *until > answered);
        self.surplus = self.own.len().saturating_sub(share + self.kept.len());
        news.surplus = self.surplus;
        if let Some(end) = others.first_end.filter(|&end| end > 0.0) {
            // A lease that is not renewed in time is taken soon after its end.
            let look = Duration::try_from_secs_f64(end).unwrap_or(news.again) + AFTER_END;
            news.again = news.again.min(look.max(LOOK_MIN));
        } else if self.own.len() < share && is_free {
            news.again = news.again.min(LOOK_MIN);
        }
        if self.contrary > 0 {
            news.again = news.again.min(SLOW_AGAIN);
        }
        self.renewals += 1;
        if self.renewals % 1_000 == 1 {
            forget_the_dead(session)?;
        }
        Ok(news)
    }

    /// Renews the node's row, or makes it. Returns the database's time, and before it this node's
    /// from before it asked.
    fn stay_alive(
        &mut self,
        session: &mut Session,
        clock: &DatabaseClock,
    ) -> Result<(f64, f64), StoreError> {
        let mut has_name = self.renewals == 0;
        loop {
            let sent = clock.elapsed();
            if let Some(time) = self.renew_row(session)? {
                return Ok((sent, time));
            }
            // It has just come, or others have found it dead.
            if !has_name {
                self.node = random_node();
            }
            has_name = false;
            self.enlist(session)?;
        }
    }

    /// These leases are its own. Those that are new, and those that are lost, are news.
    fn note_own(&mut self, own: &[(Lease, i64)], news: &mut LeaseNews) {
        let epochs = own.iter().map(|(lease, _)| (lease.partition, lease.epoch));
        let former = std::mem::replace(&mut self.own, epochs.collect());
        let is_lost = |partition: &&Partition| !self.own.contains_key(partition);
        news.lost = former.keys().filter(is_lost).copied().collect();
        // (One that was taken by a statement whose answer was lost is new here, too.)
        let owed = own.iter().map(|(lease, owed)| (lease.partition, *owed));
        self.owed = owed.collect();
        let is_new = |lease: &Lease| former.get(&lease.partition) != Some(&lease.epoch);
        let own = own.iter().map(|(lease, _)| *lease);
        news.taken = own.filter(is_new).collect();
    }

    /// How many partitions it should have. Nodes that are far from the database leave them to the
    /// others.
    fn share(&self, others: &OtherNodes) -> usize {
        let partitions = self.partitions as usize;
        match (self.is_slow, others.fast) {
            _ if self.looks => 0,
            (true, 0) => partitions.div_ceil(others.count + 1),
            (true, _) => 0,
            (false, fast) => partitions.div_ceil(fast + 1),
        }
    }

    /// Takes what is free.
    fn take_free(
        &mut self,
        session: &mut Session,
        share: usize,
        now: f64,
        news: &mut LeaseNews,
    ) -> Result<(), StoreError> {
        let node = self.node;
        let free = session.run(async |live| free(live).await)?;
        let parts = self.choose(&free, share, now);
        if parts.is_empty() {
            return Ok(());
        }
        for (lease, raise_upto) in session.run(async |live| take(live, node, &parts).await)? {
            self.own.insert(lease.partition, lease.epoch);
            self.owed.insert(lease.partition, raise_upto);
            news.taken.push(lease);
        }
        Ok(())
    }

    /// Which of these partitions are taken: those that were given away for a kind of this node's,
    /// and others up to its share. One for other kinds is left alone for a moment.
    fn choose(&mut self, free: &[(i16, Option<Vec<String>>)], share: usize, now: f64) -> Vec<i16> {
        let has = |kind: &String| (self.kinds.iter().flatten()).any(|own| own == kind);
        let (mut parts, mut others, mut left) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (part, wants) in free {
            let number = partition(*part);
            match wants {
                Some(wants) if wants.iter().any(has) && !self.looks => {
                    if parts.len() < share.max(1) {
                        parts.push(*part);
                        self.kept.insert(number, now + KEPT);
                    }
                }
                Some(_) => {
                    let since = self.left.get(&number).copied().unwrap_or(now);
                    left.insert(number, since);
                    if now - since >= LEFT {
                        others.push(*part);
                    }
                }
                None => others.push(*part),
            }
        }
        self.left = left;
        // Nodes that take at one time begin at different places.
        let begin = self.node.as_u128() as usize % others.len().max(1);
        let wanted = share.saturating_sub(self.own.len());
        let others = (others.iter().cycle().skip(begin)).take(wanted.min(others.len()));
        parts.extend(others);
        parts
    }

    /// LeaseRenew. Returns the database's time; `None`: there is no such node alive.
    fn renew_row(&self, session: &mut Session) -> Result<Option<f64>, StoreError> {
        let renew = Renew {
            node: self.node,
            lasts: self.lasts.as_secs_f64(),
            // (Programs that do not know of nodes that look take them for slow ones.)
            slow: self.is_slow || self.looks,
        };
        let renewed = session.run(async |live| live.ask(&renew).await)?;
        Ok(renewed.first().copied())
    }

    /// LeaseJoin: the node's rows, under a name that no lease has.
    fn enlist(&mut self, session: &mut Session) -> Result<(), StoreError> {
        self.watermark = Watermark::default();
        // (While it was dead, the floor may have fallen. What it has held is another's to ask for.)
        self.closed = Closed::No;
        let node = self.node;
        let comes = Join {
            node,
            name: &self.name,
            lasts: self.lasts.as_secs_f64(),
            number: self.number,
            program: PROGRAM,
            kinds: self.kinds.as_deref(),
            looks: self.looks,
        };
        session.run(async |live| {
            live.ask(&comes).await?;
            live.ask(&JoinWatermark { node }).await
        })?;
        Ok(())
    }

    /// A renewal has taken `took` seconds. Returns whether the node is slow from now on, or is not
    /// any more.
    fn note_speed(&mut self, took: f64) -> bool {
        let is_contrary = if self.is_slow {
            took < FAST
        } else {
            took > SLOW
        };
        self.contrary = if is_contrary { self.contrary + 1 } else { 0 };
        let is_news = self.contrary >= SLOW_COUNT;
        if is_news {
            self.is_slow = !self.is_slow;
            self.contrary = 0;
        }
        is_news
    }
}

/// A name for a node.
pub(super) fn random_node() -> Uuid {
    Uuid::from_u128(u128::from(random()) << 64 | u128::from(random()))
}

/// What a node sees of others, and its leases, each with up to when rows are suspect.
async fn look(live: &Live, node: Uuid) -> Result<(OtherNodes, Vec<(Lease, i64)>), Error> {
    let others = live.ask(&Others { node }).await?;
    let own = live.ask(&Own { node }).await?;
    Ok((others.into_iter().next().unwrap_or_default(), own))
}

/// The partitions that are free, and the kinds for which they were given away.
async fn free(live: &Live) -> Result<Vec<(i16, Option<Vec<String>>)>, Error> {
    live.ask(&Expire {}).await?;
    live.ask(&Free {}).await
}

/// Takes these partitions, if they are free still. Returns also up to when rows are suspect.
async fn take(live: &Live, node: Uuid, parts: &[i16]) -> Result<Vec<(Lease, i64)>, Error> {
    let mut taken = Vec::with_capacity(parts.len());
    for part in parts.chunks(LEASES_AT_ONCE) {
        taken.extend(live.ask(&Take { node, part }).await?);
    }
    Ok(taken)
}

/// Removes what dead nodes have left, if it is old enough.
fn forget_the_dead(session: &mut Session) -> Result<(), StoreError> {
    session.run(async |live| {
        live.ask(&ForgetNodes {}).await?;
        live.ask(&ForgetWatermarks {}).await?;
        live.ask(&ForgetSeqs {}).await?;
        live.ask(&ForgetCalls {}).await
    })?;
    Ok(())
}
