//! The store of a node, which fails, is slow, and loses answers. It tells the ledger what it does.

use super::ledger::{FOR_EVER, Made};
use super::time::NodeTime;
use super::trouble::{Call, Fate, Reopening};
use super::world::Shared;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{
    DoneForgotten, DoneListed, DoneRange, DoneStore, Gate, Grant, Lease, LeaseNews, Listed,
    NodeKinds, Outcome, Position, RowFilter, SharedStore, SliceLimit, Store, StoreClock, StoreSize,
    Target, TrialBegun, Want, Write,
};
use wheelwork_durable::{
    DeadLetter, DurableId, Fleet, Partition, Row, Rule, StoreError, StoreTime,
};

/// What a node of a fleet knows of the store that it shares.
pub struct Sharing {
    pub time: Arc<NodeTime>,
    pub partitions: Partition,
    pub claim_ahead: Duration,
}

/// How much longer than it took a scan of a fleet's node rests.
const SCAN_SHARE: u32 = 10;

/// One node's store.
pub struct FaultyStore {
    pub inner: Box<dyn Store>,
    pub world: Shared,
    pub node: usize,
    /// `None`: it is a process's own.
    pub sharing: Option<Sharing>,
    /// What its clock has shown last.
    pub now: StoreTime,
}

/// Tells the ledger what it is asked.
struct Watched<'a> {
    gate: &'a mut dyn Gate,
    world: &'a Shared,
}

impl Gate for Watched<'_> {
    fn let_go(&mut self, id: DurableId) -> bool {
        let is_ours = self.gate.let_go(id);
        self.world.lock().ledger.asked(id, is_ours);
        is_ours
    }
}

fn io_error() -> StoreError {
    StoreError::Io("simulated".into())
}

/// Rows that a commit has cancelled, and that were still there: a handler has them, and their
/// calendars are at an end. (A later change of the commit may have deleted them.)
fn struck(
    store: &mut dyn Store,
    writes: &[Write],
    outcomes: &[Outcome],
) -> Result<Vec<DurableId>, StoreError> {
    let (mut struck, mut settled) = (Vec::new(), Vec::new());
    for (write, outcome) in writes.iter().zip(outcomes).rev() {
        let gone = match (write, outcome) {
            (
                Write::Ack { of, .. }
                | Write::AckKept { of, .. }
                | Write::Retry { of, .. }
                | Write::Hold { of, .. }
                | Write::Bury { of, .. },
                Outcome::Settled(true, _),
            )
            | (Write::Begin { of, .. }, Outcome::Begun(TrialBegun::Superseded)) => {
                settled.push(of.id);
                continue;
            }
            (_, Outcome::Cancelled(gone)) => gone.as_slice(),
            (_, Outcome::CancelledMany(gone, _)) => gone,
            _ => continue,
        };
        for &id in gone {
            if settled.contains(&id) || store.get(&Target::Id(id))?.is_some() {
                struck.push(id);
            }
        }
    }
    Ok(struck)
}

impl FaultyStore {
    /// Makes a call, as it is fated.
    fn call<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fate = self.world.lock().fate(call, self.node);
        match fate {
            Fate::Good => make(self),
            Fate::Refused => Err(io_error()),
            Fate::Before { dies } => {
                self.world.lock().fail(self.node, dies);
                Err(io_error())
            }
            Fate::After { dies } => {
                let told = self.world.lock().ledger.told();
                make(self)?;
                let mut world = self.world.lock();
                if call == Call::Commit {
                    world.ledger.is_untold(told);
                }
                world.fail(self.node, dies);
                Err(io_error())
            }
            Fate::Slow {
                before,
                after,
                stands,
            } => {
                self.world.pass_in_store(self.node, before, stands);
                // (A process may have died meanwhile, and its call is on its way.)
                if self.is_dead() && self.sharing.is_some() {
                    return Err(io_error());
                }
                let made = make(self);
                self.world.pass_in_store(self.node, after, stands);
                if call == Call::Load && self.sharing.is_some() {
                    // A scan of a fleet's node takes a tenth of the time at most, so the next one
                    // comes late.
                    self.world.lock().trouble((before + after) * SCAN_SHARE);
                }
                if self.is_dead() {
                    Err(io_error())
                } else {
                    made
                }
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.world.lock().nodes[self.node].is_dead
    }

    /// The clock is read: it showed the time of the call between its begin and its end.
    fn read<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(time) = self.sharing.as_ref().map(|sharing| sharing.time.clone()) else {
            return self.call(call, make);
        };
        let sent = time.elapsed();
        let mut showed = None;
        let answer = self.call(call, |store| {
            showed = Some(time.now_exactly());
            make(store)
        });
        if let (Some(showed), Ok(_)) = (showed, &answer) {
            time.read(sent, showed);
        }
        answer
    }

    fn shared_inner(&mut self) -> &mut dyn SharedStore {
        self.inner.shared().unwrap()
    }

    fn sharing(&self) -> &Sharing {
        self.sharing.as_ref().unwrap()
    }

    /// The node has leases. Without other nodes they last.
    fn leased(&self, taken: &[Lease], lost: &[Partition]) {
        let mut world = self.world.lock();
        let now = world.shows(self.node);
        let lease = self.sharing.as_ref().map_or(FOR_EVER, |_| world.lease);
        let until = now + lease;
        world.ledger.renewed(self.node, taken, lost, until, now);
    }

    /// A node's store is opened again. Others may have taken its leases meanwhile.
    fn reopen_shared(&mut self) -> Result<Vec<Lease>, StoreError> {
        let time = self.sharing().time.clone();
        let (sent, showed) = (time.elapsed(), time.now_exactly());
        let leases = self.inner.reopen()?;
        time.read(sent, showed);
        let known = self.world.lock().ledger.leases.of_node(self.node);
        let taken = leases.iter().filter(|lease| !known.contains(lease));
        let taken: Vec<_> = taken.copied().collect();
        self.leased(&taken, &[]);
        Ok(leases)
    }

    /// Holds the records that the store has against the ledger.
    fn watch_records(&mut self) -> Result<(), StoreError> {
        let now = self.now;
        let done = self.inner.done().unwrap();
        let found = done.look(&DoneRange::ALL, usize::MAX)?.done;
        self.world.lock().ledger.has_records(&found, now);
        Ok(())
    }

    fn watch(&mut self, writes: Vec<Write>, outcomes: &[Outcome]) -> Result<(), StoreError> {
        let struck = struck(&mut *self.inner, &writes, outcomes)?;
        let mut world = self.world.lock();
        // (In a fleet what was held up is tried again, beside what a turn takes.)
        if self.sharing.is_none() {
            world.check_bytes(self.node, &writes);
        }
        let shows = world.shows(self.node);
        let now = self.sharing.as_ref().map_or(world.now(), |_| shows);
        let made = Made {
            node: self.node,
            now,
            shows,
            struck: &struck,
        };
        for (mut write, outcome) in writes.into_iter().zip(outcomes) {
            // (What was due before is due now, in others' partitions.)
            let armed = match &mut write {
                Write::Arm(row) => Some(row),
                Write::Replace(of) => Some(&mut of.row),
                _ => None,
            };
            if let Some(row) = armed
                && self.sharing.is_some()
                && let Some(stored) = self.inner.get(&Target::Id(row.id))?
            {
                row.due = row.due.max(stored.due);
            }
            world.ledger.wrote(&write, outcome, made);
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.read(Call::Acquire, |store| {
            let leases = store.inner.acquire()?;
            store.leased(&leases, &[]);
            Ok(leases)
        })
    }

    fn can_reopen(&self) -> bool {
        self.inner.can_reopen()
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        let how = self.world.lock().reopening(self.node);
        let leases = match how {
            Reopening::Refused => return Err(io_error()),
            Reopening::GoesOn if self.sharing.is_some() => self.reopen_shared()?,
            Reopening::GoesOn => self.inner.reopen()?,
            Reopening::NewLife => {
                self.inner.reopen()?;
                let leases = self.inner.acquire()?;
                self.leased(&leases, &[]);
                leases
            }
        };
        let mut world = self.world.lock();
        let known = world.ledger.leases.of_node(self.node);
        let is_right = leases == known;
        world.ledger.demand(is_right, || {
            format!("the store is opened again with {leases:?}, and had {known:?}")
        });
        world.come_back(self.node);
        Ok(leases)
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.call(Call::Release, |store| {
            store.inner.release()?;
            let mut world = store.world.lock();
            let leases = world.ledger.leases.of_node(store.node);
            world.ledger.given_back(store.node, &leases);
            Ok(())
        })
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let outcomes = self.call(Call::Commit, |store| {
            let world = store.world.clone();
            // (A disk that is full has its answer before the gate is asked, or after.)
            let mut gate = Watched {
                gate,
                world: &world,
            };
            let outcomes = store.inner.commit(writes.clone(), &mut gate)?;
            let has_kept = writes
                .iter()
                .any(|write| matches!(write, Write::AckKept { .. }));
            store.watch(writes, &outcomes)?;
            if has_kept {
                store.watch_records()?;
            }
            Ok(outcomes)
        });
        self.world.lock().ledger.committed();
        outcomes
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.call(Call::Load, |store| {
            let rows = store.inner.load(partition, after, until, limit)?;
            store.world.lock().ledger.loaded(&rows);
            Ok(rows)
        })
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.call(Call::HandOut, |store| {
            store.inner.hand_out(upto)?;
            let mut world = store.world.lock();
            world.ledger.leases.raise(store.node, upto);
            Ok(())
        })
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        self.world.lock().nodes[self.node].has_begun = true;
        let now = match self.sharing {
            Some(_) => self.inner.clock(node),
            None => self.call(Call::Clock, |store| store.inner.clock(node)),
        };
        self.now = now.as_ref().map_or(self.now, |now| *now);
        now
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.call(Call::Look, |store| store.inner.get(target))
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.call(Call::Look, |store| store.inner.dead(after, limit))
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        // (Where there are none, chances are as they would be without them.)
        if !self.world.lock().has_rules {
            return self.inner.rules();
        }
        self.call(Call::Look, |store| store.inner.rules())
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.inner.has_news_of_rules()
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.call(Call::Look, |store| store.inner.size())
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        if self.sharing.is_some() {
            return self.inner.upkeep();
        }
        self.call(Call::Look, |store| store.inner.upkeep())
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        match self.sharing {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl DoneStore for FaultyStore {
    fn node(&self) -> Arc<str> {
        format!("node-{}", self.node).into()
    }

    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError> {
        self.call(Call::Look, |store| {
            store.inner.done().unwrap().look(range, limit)
        })
    }

    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError> {
        self.call(Call::Look, |store| {
            let forgotten = store.inner.done().unwrap().forget(before, limit)?;
            store.watch_records()?;
            Ok(forgotten)
        })
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        self.call(Call::Look, |store| store.inner.done().unwrap().count())
    }
}

impl SharedStore for FaultyStore {
    fn partitions(&self) -> u32 {
        self.sharing().partitions.into()
    }

    fn handles(&mut self, kinds: &[Arc<str>]) {
        self.shared_inner().handles(kinds);
    }

    fn give_away(&mut self, leases: &[(Lease, Vec<Arc<str>>)]) -> Result<(), StoreError> {
        self.call(Call::GiveBack, |store| {
            store.shared_inner().give_away(leases)?;
            let leases: Vec<_> = leases.iter().map(|(lease, _)| *lease).collect();
            let mut world = store.world.lock();
            world.ledger.given_back(store.node, &leases);
            Ok(())
        })
    }

    fn node_kinds(&mut self) -> Result<Vec<NodeKinds>, StoreError> {
        self.call(Call::Look, |store| store.shared_inner().node_kinds())
    }

    fn grant(&mut self, wants: &[Want]) -> Result<Vec<Grant>, StoreError> {
        self.call(Call::Look, |store| store.shared_inner().grant(wants))
    }

    fn claim_ahead(&self) -> Duration {
        self.sharing().claim_ahead
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        self.read(Call::Renew, |store| {
            let news = store.shared_inner().renew()?;
            store.leased(&news.taken, &news.lost);
            Ok(news)
        })
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.call(Call::GiveBack, |store| {
            store.shared_inner().give_back(leases)?;
            let mut world = store.world.lock();
            world.ledger.given_back(store.node, leases);
            Ok(())
        })
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.call(Call::Claim, |store| {
            let lost = store.shared_inner().claim(leases, upto)?;
            let mut world = store.world.lock();
            if lost.is_empty() {
                world.ledger.leases.raise(store.node, upto);
            }
            Ok(lost)
        })
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.call(Call::Load, |store| {
            let inner = store.shared_inner();
            let rows = inner.load_many(partitions, after, until, limit)?;
            store.world.lock().ledger.loaded(&rows);
            Ok(rows)
        })
    }

    fn list_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        self.call(Call::Load, |store| {
            let inner = store.shared_inner();
            inner.list_many(partitions, after, until, filter, limit)
        })
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.call(Call::Load, |store| {
            store.shared_inner().next_due(partitions, from)
        })
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        self.sharing().time.clone()
    }

    fn takes_clock(&self) -> bool {
        true
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.shared_inner().on_news(wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.call(Call::Look, |store| store.shared_inner().fleet())
    }
}
