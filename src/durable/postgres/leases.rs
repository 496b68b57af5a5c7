//! Leases: which partitions are this node's, and for how long.
//!
//! One statement says that the node is alive and asks for the others, one renews all its leases. A
//! partition that is free, or whose lease has run out, is taken by another one. The rows that an
//! owner before may have handed out get one more attempt when they are loaded: a slice at a time,
//! since there may be many.

use super::clock::DatabaseClock;
use super::session::{Live, Session};
use super::sql;
use crate::durable::{Lease, LeaseNews, Partition, StoreError};
use std::collections::BTreeMap;
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

/// The leases of this node, as the database has said.
pub(super) struct Leases {
    pub(super) node: Uuid,
    pub(super) name: String,
    pub(super) lasts: Duration,
    /// Epochs by partition.
    pub(super) own: BTreeMap<Partition, u64>,
    /// Rows due by then are owed an attempt, if they were not written in the partition's epoch.
    pub(super) owed: BTreeMap<Partition, i64>,
    /// Those that are over this node's share.
    pub(super) surplus: Vec<Partition>,
    /// Renewals so far.
    pub(super) renewals: u64,
}

/// What a renewal has found.
struct Renewed {
    time: f64,
    others: usize,
    /// When the first lease of others ends, or ended, in seconds from now.
    first_end: Option<f64>,
    own: BTreeMap<Partition, u64>,
    owed: BTreeMap<Partition, i64>,
}

pub(super) fn part(partition: Partition) -> i16 {
    // (There are 256.)
    i16::try_from(partition).unwrap_or(i16::MAX)
}

pub(super) fn partition(part: i16) -> Partition {
    Partition::try_from(part).unwrap_or_default()
}

pub(super) fn epoch(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

impl Leases {
    pub(super) fn new(node: Uuid, name: String, lasts: Duration) -> Self {
        Self {
            node,
            name,
            lasts,
            own: BTreeMap::new(),
            owed: BTreeMap::new(),
            surplus: Vec::new(),
            renewals: 0,
        }
    }

    /// Renews them, and takes what is free, up to this node's share. Reads the database's clock.
    pub(super) fn renew(
        &mut self,
        session: &mut Session,
        clock: &DatabaseClock,
    ) -> Result<LeaseNews, StoreError> {
        let (node, lasts) = (self.node, self.lasts.as_secs_f64());
        let name = self.name.clone();
        let sent = clock.elapsed();
        let renewed = session.run(async |live| renew(live, node, &name, lasts).await)?;
        clock.read(sent, clock.elapsed(), renewed.time);
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
        let nodes = renewed.others + 1;
        let share = usize::from(PARTITIONS).div_ceil(nodes);
        let is_first_free = renewed.first_end.is_some_and(|end| end <= 0.0);
        if self.own.len() < share && is_first_free {
            let wanted = share - self.own.len();
            let taken = session.run(async |live| take(live, node, lasts, wanted).await)?;
            for (lease, raise_upto) in taken {
                self.own.insert(lease.partition, lease.epoch);
                self.owed.insert(lease.partition, raise_upto);
                news.taken.push(lease);
            }
        }
        let surplus = self.own.len().saturating_sub(share);
        self.surplus = self.own.keys().rev().take(surplus).copied().collect();
        news.surplus = self.surplus.clone();
        if let Some(end) = renewed.first_end.filter(|&end| end > 0.0) {
            // A lease that is not renewed in time is taken soon after its end.
            let look = Duration::try_from_secs_f64(end).unwrap_or(news.again) + AFTER_END;
            news.again = news.again.min(look.max(LOOK_MIN));
        } else if self.own.len() < share && is_first_free {
            news.again = news.again.min(LOOK_MIN);
        }
        self.renewals += 1;
        if self.renewals % 1_000 == 1 {
            session.run(async |live| live.rows(sql::FORGET_NODES, &[]).await)?;
        }
        Ok(news)
    }
}

async fn renew(live: &Live, node: Uuid, name: &str, lasts: f64) -> Result<Renewed, Error> {
    let alive = live.rows(sql::NODE, &[&node, &name, &lasts]).await?;
    // (A lease that a transaction has locked is not renewed, and not this node's for now.)
    let own = live
        .rows_unlocked(sql::RENEW, sql::RENEW_UNLOCKED, &[&node, &lasts])
        .await?;
    let leases = own.iter().map(|row| {
        let (part, epoch): (i16, i64) = (row.get(0), row.get(1));
        let epoch = u64::try_from(epoch).unwrap_or_default();
        ((partition(part), epoch), (partition(part), row.get(2)))
    });
    let (own, owed) = leases.unzip();
    let (time, others, first_end) = match alive.first() {
        Some(row) => (row.get(0), row.get::<_, i64>(1), row.get(2)),
        None => (0.0, 0, None),
    };
    Ok(Renewed {
        time,
        others: usize::try_from(others).unwrap_or_default(),
        first_end,
        own,
        owed,
    })
}

/// Takes free partitions, up to this number. Returns also up to when rows are owed an attempt.
async fn take(
    live: &Live,
    node: Uuid,
    lasts: f64,
    wanted: usize,
) -> Result<Vec<(Lease, i64)>, Error> {
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
    let taken = live.rows(sql::TAKE, &[&node, &lasts, &parts]).await?;
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
