//! Leases: which partitions are this node's, and for how long.
//!
//! One row says until when all leases of a node last, so one statement renews them, and no
//! transaction of a user stands in its way. A node that did not renew in time is marked as dead, in
//! a transaction of its own; then others take its partitions. It comes back under a new name. The
//! rows that an owner before may have handed out get one more attempt when they are loaded: a slice
//! at a time, since there may be many.

use super::clock::DatabaseClock;
use super::session::{Live, Session};
use super::statements::rows::partition;
use super::statements::sql;
use crate::store::contract::{Lease, LeaseNews, StoreError};
use crate::store::row::Partition;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;
use tokio_postgres::Error;
use uuid::Uuid;

/// How many partitions there are.
pub(super) const PARTITIONS: Partition = 256;

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

/// The leases of this node, as the database has said.
pub(crate) struct Leases {
    pub(super) node: Uuid,
    pub(super) name: String,
    pub(crate) lasts: Duration,
    /// Epochs by partition.
    pub(super) own: BTreeMap<Partition, u64>,
    /// Rows due by then are suspect, if they were not written in the partition's epoch.
    pub(super) owed: BTreeMap<Partition, i64>,
    /// How many are over this node's share.
    pub(super) surplus: usize,
    /// Renewals so far.
    pub(super) renewals: u64,
    /// The node is far from the database: others do its work, if there are any that are not.
    is_slow: bool,
    /// Renewals in a row that said otherwise.
    contrary: u32,
    pub(super) watermark: Watermark,
}

/// The watermark of this node, as it is stored.
#[derive(Default)]
pub(super) struct Watermark {
    /// The number of its row.
    pub(super) gen_: i64,
    /// How often that was written.
    pub(super) written: u32,
    pub(super) upto: i64,
    /// Up to where the rows of partitions may be read without looking at locks (GateProbe).
    pub(super) free: BTreeMap<Partition, i64>,
}

/// What a renewal has found.
struct Renewed {
    time: f64,
    /// Other nodes that are alive, and those that are not slow.
    others: usize,
    others_fast: usize,
    /// When the first lease of others ends, or ended, in seconds from now.
    first_end: Option<f64>,
    /// Whether partitions have no owner that is alive.
    has_free: bool,
    own: BTreeMap<Partition, u64>,
    owed: BTreeMap<Partition, i64>,
}

impl Leases {
    pub(super) fn new(node: Uuid, name: String, lasts: Duration) -> Self {
        Self {
            node,
            name,
            lasts,
            own: BTreeMap::new(),
            owed: BTreeMap::new(),
            surplus: 0,
            renewals: 0,
            is_slow: false,
            contrary: 0,
            watermark: Watermark::default(),
        }
    }

    /// Renews them, and takes what is free, up to this node's share. Reads the database's clock.
    pub(super) fn renew(
        &mut self,
        session: &mut Session,
        clock: &DatabaseClock,
    ) -> Result<LeaseNews, StoreError> {
        let (mut sent, mut time) = (clock.elapsed(), self.renew_row(session)?);
        let mut has_name = self.renewals == 0;
        while time.is_none() {
            // It has just come, or others have found it dead.
            if !has_name {
                self.node = random_node();
            }
            has_name = false;
            self.enlist(session)?;
            (sent, time) = (clock.elapsed(), self.renew_row(session)?);
        }
        let answered = clock.elapsed();
        let node = self.node;
        let mut renewed = session.run(async |live| look(live, node).await)?;
        renewed.time = time.unwrap_or(renewed.time);
        clock.read(sent, answered, renewed.time);
        if self.note_speed(answered - sent) {
            // Others are told before it gives anything back: a turn of a slow node takes long.
            self.renew_row(session)?;
        }
        let mut news = LeaseNews::new(self.lasts - self.lasts / MARGIN, self.lasts / 3);
        let former = std::mem::replace(&mut self.own, renewed.own);
        news.lost = former
            .keys()
            .filter(|partition| !self.own.contains_key(partition))
            .copied()
            .collect();
        // (One that was taken by a statement whose answer was lost is new here, too.)
        self.owed = renewed.owed;
        let new = |(partition, epoch): (&Partition, &u64)| former.get(partition) != Some(epoch);
        news.taken = self
            .own
            .iter()
            .filter(|&entry| new(entry))
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        let share = match (self.is_slow, renewed.others_fast) {
            (true, 0) => usize::from(PARTITIONS).div_ceil(renewed.others + 1),
            (true, _) => 0,
            (false, others) => usize::from(PARTITIONS).div_ceil(others + 1),
        };
        let is_first_over = renewed.first_end.is_some_and(|end| end <= 0.0);
        let is_free = is_first_over || renewed.has_free;
        if self.own.len() < share && is_free {
            let wanted = share - self.own.len();
            let taken = session.run(async |live| take(live, node, wanted).await)?;
            for (lease, raise_upto) in taken {
                self.own.insert(lease.partition, lease.epoch);
                self.owed.insert(lease.partition, raise_upto);
                news.taken.push(lease);
            }
        }
        for lease in &news.taken {
            self.watermark.free.remove(&lease.partition);
        }
        self.surplus = self.own.len().saturating_sub(share);
        news.surplus = self.surplus;
        if let Some(end) = renewed.first_end.filter(|&end| end > 0.0) {
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
            session.run(async |live| {
                for forget in [sql::FORGET_NODES, sql::FORGET_WATERMARKS, sql::FORGET_SEQS] {
                    live.rows(forget, &[]).await?;
                }
                Ok(())
            })?;
        }
        Ok(news)
    }

    /// LeaseRenew. Returns the database's time; `None`: there is no such node alive.
    fn renew_row(&self, session: &mut Session) -> Result<Option<f64>, StoreError> {
        let (node, lasts, is_slow) = (self.node, self.lasts.as_secs_f64(), self.is_slow);
        let renewed =
            session.run(async |live| live.rows(sql::RENEW, &[&node, &lasts, &is_slow]).await)?;
        Ok(renewed.first().map(|row| row.get(0)))
    }

    /// LeaseJoin: the node's rows, under a name that no lease has.
    fn enlist(&mut self, session: &mut Session) -> Result<(), StoreError> {
        self.watermark = Watermark::default();
        let (node, name, lasts) = (self.node, self.name.clone(), self.lasts.as_secs_f64());
        session.run(async |live| {
            live.rows(sql::JOIN, &[&node, &name, &lasts]).await?;
            live.rows(sql::JOIN_WATERMARK, &[&node]).await
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

/// A number that nobody can guess.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A name for a node.
pub(super) fn random_node() -> Uuid {
    Uuid::from_u128(u128::from(random()) << 64 | u128::from(random()))
}

async fn look(live: &Live, node: Uuid) -> Result<Renewed, Error> {
    let others = live.rows(sql::OTHERS, &[&node]).await?;
    let own = live.rows(sql::OWN, &[&node]).await?;
    let leases = own.iter().map(|row| {
        let (part, epoch): (i16, i64) = (row.get(0), row.get(1));
        let epoch = u64::try_from(epoch).unwrap_or_default();
        ((partition(part), epoch), (partition(part), row.get(2)))
    });
    let (own, owed) = leases.unzip();
    let count = |at| {
        let count = others.first().map_or(0, |row| row.get::<_, i64>(at));
        usize::try_from(count).unwrap_or_default()
    };
    Ok(Renewed {
        time: 0.0,
        others: count(0),
        others_fast: count(1),
        first_end: others.first().and_then(|row| row.get(2)),
        has_free: count(3) > 0,
        own,
        owed,
    })
}

/// Takes free partitions, up to this number. Returns also up to when rows are suspect.
async fn take(live: &Live, node: Uuid, wanted: usize) -> Result<Vec<(Lease, i64)>, Error> {
    live.rows(sql::EXPIRE, &[]).await?;
    let free = live.rows(sql::FREE, &[]).await?;
    // Nodes that take at one time begin at different places.
    let begin = node.as_u128() as usize % free.len().max(1);
    let parts: Vec<i16> = (free.iter().cycle().skip(begin))
        .take(wanted.min(free.len()))
        .map(|row| row.get(0))
        .collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let taken = live.rows(sql::TAKE, &[&node, &parts]).await?;
    let leases = taken.iter().map(|row| {
        let (part, epoch): (i16, i64) = (row.get(0), row.get(1));
        let lease = Lease {
            partition: partition(part),
            epoch: u64::try_from(epoch).unwrap_or_default(),
        };
        (lease, row.get(2))
    });
    Ok(leases.collect())
}
