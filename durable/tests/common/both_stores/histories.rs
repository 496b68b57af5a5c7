//! Histories: two nodes on two stores, by chance. Each call is made in both stores, and both have
//! to say one thing.

use super::super::shared_memory::{SharedMemory, SharedPlace};
use super::held::with_parts;
use super::{Both, Standing, Tables, Unasked, at, memory, partition_of_key, standing};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use wheelwork_durable::contract::{
    Amendment, DonePlace, DoneRange, HeldWhy, KindSlice, Lease, LeaseNews, Outcome, Position,
    Replacement, RuleChange, Settled, SliceLimit, Store, Target, Write,
};
use wheelwork_durable::{
    Cause, DeadLetter, DoneTimer, DurableId, Partition, Postgres, Rate, Row, RuleFor, StoreTime,
};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "clé 4711"];
const KINDS: [&str; 3] = ["order", "order.unpaid", ""];

/// In the year 2100: rows of others that were due before now are moved to now.
const BEGIN_MS: u64 = 4_102_444_800_000;

/// Few deadlines: many rows have the same one.
const DUES: u64 = 40;

/// A node in both stores.
struct Pair {
    name: String,
    number: u64,
    memory: SharedMemory,
    postgres: Postgres,
}

struct History<'a> {
    rng: Rng,
    place: SharedPlace,
    tables: &'a mut Tables,
    nodes: Vec<Pair>,
    /// Nodes so far.
    named: u32,
    numbers: u64,
    /// Ids so far.
    ids: Vec<DurableId>,
    /// The last epoch of each partition that was seen.
    epochs: BTreeMap<Partition, u64>,
    leases: Vec<Vec<Lease>>,
    surplus: Vec<usize>,
    story: String,
}

/// The same outcome, where the order does not count.
fn sorted(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    for outcome in &mut outcomes {
        if let Outcome::CancelledMany(ids, _) = outcome {
            ids.sort_unstable();
        }
    }
    outcomes
}

type Leases = (Vec<(Partition, u64)>, Vec<Partition>, usize);

fn comparable(news: &LeaseNews) -> Leases {
    let taken = news.taken.iter();
    let mut taken: Vec<_> = taken.map(|lease| (lease.partition, lease.epoch)).collect();
    taken.sort_unstable();
    let mut lost = news.lost.clone();
    lost.sort_unstable();
    (taken, lost, news.surplus)
}

/// Lives through a history. `Err`: its story, and where the stores differ.
pub fn hold_against_memory(seed: u64, tables: &mut Tables) -> Result<(), String> {
    tables.clear();
    let mut history = History {
        rng: Rng::with_seed(seed),
        place: memory(),
        tables,
        nodes: Vec::new(),
        named: 0,
        numbers: 0,
        ids: Vec::new(),
        epochs: BTreeMap::new(),
        leases: Vec::new(),
        surplus: Vec::new(),
        story: String::new(),
    };
    let outcome = history
        .join()
        .and_then(|()| history.join())
        .and_then(|()| (0..120).try_for_each(|_| history.step()))
        .and_then(|()| history.look_at_all());
    let story = history.story;
    outcome.map_err(|why| format!("{story}{why}\nseed {seed}"))
}

impl History<'_> {
    /// Does something in both stores, and compares what they say.
    fn both<T: Debug + PartialEq>(
        &mut self,
        node: usize,
        what: impl Debug,
        call: impl Fn(&mut dyn Both) -> T,
    ) -> Result<T, String> {
        writeln!(self.story, "node {node}: {what:?}").unwrap();
        let pair = &mut self.nodes[node];
        let (first, second) = (call(&mut pair.memory), call(&mut pair.postgres));
        if first == second {
            return Ok(first);
        }
        let [first, second] = [format!("{first:?}"), format!("{second:?}")];
        let mut letters = first.bytes().zip(second.bytes());
        let at = letters.position(|(first, second)| first != second);
        let from = at.unwrap_or_default().saturating_sub(300);
        let [first, second] = [first, second].map(|said| {
            let bytes = said.as_bytes().iter().skip(from).take(800);
            String::from_utf8_lossy(&bytes.copied().collect::<Vec<_>>()).into_owned()
        });
        Err(format!("memory:   .. {first}\npostgres: .. {second}"))
    }

    fn step(&mut self) -> Result<(), String> {
        let node = self.rng.usize(..self.nodes.len());
        match self.rng.u8(..100) {
            0..55 => self.commit(node),
            55..65 => self.load(node),
            65..78 => self.claim(node),
            78..84 => self.look(node),
            84..90 => self.renew(node),
            90..93 => self.give_back(node),
            _ => {
                let dies = self.rng.bool();
                self.leave(node, dies)?;
                // (The one that is left takes over, or the one that comes. Which partitions of many
                // a node takes is left to each store.)
                if self.rng.bool() || self.leases[0].len() < 128 {
                    self.renew(0)?;
                    self.commit(0)?;
                }
                self.join()
            }
        }
    }

    fn join(&mut self) -> Result<(), String> {
        self.named += 1;
        let name = format!("node-{}", self.named);
        let memory = self.place.node(&name, Arc::new(Standing));
        self.nodes.push(Pair {
            number: memory.number(),
            memory,
            postgres: self.tables.node(&name),
            name,
        });
        self.leases.push(Vec::new());
        self.surplus.push(0);
        let node = self.nodes.len() - 1;
        let (memory, postgres) = {
            let pair = &mut self.nodes[node];
            let sort = |mut leases: Vec<Lease>| {
                leases.sort_unstable_by_key(|lease| lease.partition);
                leases
            };
            let memory = sort(pair.memory.acquire().unwrap());
            (memory, sort(pair.postgres.acquire().unwrap()))
        };
        writeln!(self.story, "node {node} joins, has {}", memory.len()).unwrap();
        if memory != postgres {
            return Err(format!("acquire: {memory:?} is not {postgres:?}"));
        }
        self.has_taken(node, &memory);
        Ok(())
    }

    fn has_taken(&mut self, node: usize, taken: &[Lease]) {
        for lease in taken {
            self.epochs.insert(lease.partition, lease.epoch);
            self.leases[node].retain(|own| own.partition != lease.partition);
            self.leases[node].push(*lease);
        }
    }

    fn leave(&mut self, node: usize, dies: bool) -> Result<(), String> {
        writeln!(self.story, "node {node} leaves, dies: {dies}").unwrap();
        let mut pair = self.nodes.remove(node);
        self.leases.remove(node);
        self.surplus.remove(node);
        self.place
            .expire(|number| number == pair.number, standing());
        self.tables.expire(&pair.name);
        if !dies {
            pair.memory.release().unwrap();
            pair.postgres.release().unwrap();
        }
        Ok(())
    }

    fn renew(&mut self, node: usize) -> Result<(), String> {
        let share = 256 / self.nodes.len();
        let wanted = share.saturating_sub(self.leases[node].len());
        let owned: usize = self.leases.iter().map(Vec::len).sum();
        // (Which of many it takes is left to each store.)
        if wanted > 0 && 256 - owned > wanted {
            return Ok(());
        }
        let (taken, lost, surplus) =
            self.both(node, "renew", |store| comparable(&store.renew().unwrap()))?;
        let lease = |&(partition, epoch): &(Partition, u64)| Lease { partition, epoch };
        self.leases[node].retain(|own| !lost.contains(&own.partition));
        let taken: Vec<_> = taken.iter().map(lease).collect();
        self.has_taken(node, &taken);
        self.surplus[node] = surplus;
        Ok(())
    }

    fn give_back(&mut self, node: usize) -> Result<(), String> {
        let others = self.leases.iter().enumerate();
        let mut others = others.filter(|(number, _)| *number != node);
        if self.surplus[node] == 0 && others.any(|(_, leases)| leases.len() < 128) {
            return Ok(());
        }
        let mut leases: Vec<_> = self.leases[node].clone();
        self.rng.shuffle(&mut leases);
        let count = match self.surplus[node] {
            0 => self.rng.usize(..60),
            surplus => surplus,
        };
        leases.truncate(count);
        // (One that another has meanwhile.)
        if self.rng.bool()
            && let Some(lease) = leases.first_mut()
        {
            lease.epoch -= 1;
        }
        self.both(node, ("give back", leases.len()), |store| {
            store.give_back(&leases).unwrap();
        })?;
        self.surplus[node] = 0;
        self.leases[node].retain(|own| !leases.iter().any(|gone| gone.partition == own.partition));
        Ok(())
    }

    fn claim(&mut self, node: usize) -> Result<(), String> {
        let mut leases = self.leases[node].clone();
        self.rng.shuffle(&mut leases);
        leases.truncate(self.rng.usize(..300));
        if self.rng.u8(..4) == 0
            && let Some(lease) = leases.first_mut()
        {
            lease.epoch -= 1;
        }
        let upto = self.due();
        self.both(node, ("claim", leases.len(), upto), |store| {
            store.claim(&leases, upto).unwrap()
        })?;
        Ok(())
    }

    fn due(&mut self) -> StoreTime {
        at(BEGIN_MS + self.rng.u64(..DUES))
    }

    fn some_partitions(&mut self) -> Vec<Partition> {
        let count = [1, 3, 20, 256][self.rng.usize(..4)];
        let mut all: Vec<_> = (0..256).collect();
        self.rng.shuffle(&mut all);
        // (Keys lie in few.)
        all.truncate(count);
        all.extend(KEYS.map(partition_of_key));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn load(&mut self, node: usize) -> Result<(), String> {
        let partitions = self.some_partitions();
        let until = self.due();
        let after = match self.rng.u8(..3) {
            0 => Position::MIN,
            1 => Position::end_of(self.due()),
            _ => Position {
                due: self.due(),
                id: self.some_id().unwrap_or(DurableId::from_bits(1)),
            },
        };
        let limit = [0, 1, 2, 7, 30, 10_000][self.rng.usize(..6)];
        self.both(
            node,
            ("load", partitions.len(), after, until, limit),
            |store| {
                store
                    .load_many(&partitions, after, until, SliceLimit::rows(limit))
                    .unwrap()
            },
        )?;
        self.both(node, "load all of these", |store| {
            store
                .load_many(
                    &partitions,
                    Position::MIN,
                    StoreTime::MAX,
                    SliceLimit::rows(100_000),
                )
                .unwrap()
        })?;
        let from = self.due();
        self.both(node, ("next", from), |store| {
            store.next_due(&partitions, from).unwrap()
        })?;
        Ok(())
    }

    fn look(&mut self, node: usize) -> Result<(), String> {
        if let Some(id) = self.some_id() {
            self.both(node, ("get", id), |store| {
                store.get(&Target::Id(id)).unwrap()
            })?;
        }
        let key = self.rng.choice(KEYS).unwrap();
        self.both(node, ("get", key), |store| {
            store.get(&Target::Key(key.into())).unwrap()
        })?;
        let after = self.some_id().filter(|_| self.rng.bool());
        let limit = self.rng.usize(..5);
        self.both(node, ("dead", after, limit), |store| {
            store.dead(after, SliceLimit::rows(limit)).unwrap()
        })?;
        let range = DoneRange {
            above: DonePlace::begin_of(self.due()),
            newest_first: self.rng.bool(),
            ..DoneRange::ALL
        };
        let limit = [1, 7, 1_000][self.rng.usize(..3)];
        self.both(node, ("done", range, limit), |store| {
            pages_of(store, range, limit)
        })?;
        if self.rng.u8(..4) == 0 {
            let before = self.due();
            self.both(node, ("forget", before), |store| {
                while store.done().unwrap().forget(before, 100).unwrap().has_more {}
            })?;
        }
        Ok(())
    }

    fn look_at_all(&mut self) -> Result<(), String> {
        let all: Vec<_> = (0..256).collect();
        self.both(0, "look at all", |store| {
            let rows = store
                .load_many(
                    &all,
                    Position::MIN,
                    StoreTime::MAX,
                    SliceLimit::rows(100_000),
                )
                .unwrap();
            (
                rows,
                store.dead(None, SliceLimit::rows(usize::MAX)).unwrap(),
                store.rules().unwrap(),
                pages_of(store, DoneRange::ALL, usize::MAX),
            )
        })?;
        Ok(())
    }

    /// An id that was given, the later the likelier.
    fn some_id(&mut self) -> Option<DurableId> {
        let back = self.rng.usize(..30).min(self.rng.usize(..30));
        let at = self.ids.len().checked_sub(back + 1)?;
        Some(self.ids[at])
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.numbers += 1;
        let partition = match key {
            Some(key) => partition_of_key(key),
            // Some in those of keys.
            None if self.rng.bool() => partition_of_key(self.rng.choice(KEYS).unwrap()),
            None => self.rng.u16(..256),
        };
        let id = DurableId::new(partition, due, self.numbers);
        self.ids.push(id);
        id
    }

    fn target(&mut self) -> Option<Target> {
        if self.rng.u8(..3) == 0 {
            return self.rng.choice(KEYS).map(|key| Target::Key(key.into()));
        }
        self.some_id().map(Target::Id)
    }

    /// A delivery, mostly one that is right.
    fn settled(&mut self) -> Option<Settled> {
        let (rows, _) = self.place.contents();
        let row = self.rng.choice(&rows).cloned();
        let (id, mut due) = match row {
            Some(row) if self.rng.u8(..10) > 0 => (row.id, row.due),
            _ => (self.some_id()?, self.due()),
        };
        if self.rng.u8(..20) == 0 {
            due = self.due();
        }
        let epoch = self.epochs.get(&id.partition()).copied().unwrap_or(0);
        let epoch = epoch.saturating_sub(u64::from(self.rng.u8(..10) == 0));
        Some(Settled { id, due, epoch })
    }

    fn write(&mut self) -> Option<Write> {
        let mut due = self.due();
        if self.rng.u8(..40) == 0 {
            // As late as a held row.
            due = at((1 << 47) + due.as_millis());
        }
        Some(match self.rng.u8(..109) {
            0..35 => {
                let key = (self.rng.u8(..3) == 0).then(|| self.rng.choice(KEYS).unwrap());
                Write::Arm(self.row(key, due))
            }
            35..38 => self.replace(due),
            38..40 => self.amend(due)?,

            40..55 => Write::Cancel(self.target()?),
            55..67 => Write::Move(self.target()?, due),
            67..68 => Write::CancelKind(KindSlice::all(self.rng.choice(KINDS).unwrap())),
            68..78 => {
                let next = (self.rng.u8(..4) == 0).then_some(due);
                let of = self.settled()?;
                if self.rng.bool() {
                    return Some(Write::Ack { of, next });
                }
                let mut kept = DoneTimer::new(of.id, of.due, "kind".into(), self.due());
                kept.key = self.rng.bool().then(|| "kö".into());
                kept.attempts = self.rng.u32(..4);
                kept.took = Duration::from_micros(self.rng.u64(..9_000_000));
                Write::AckKept {
                    of,
                    next,
                    kept: Box::new(kept),
                }
            }
            78..86 => Write::Retry {
                of: self.settled()?,
                at: due,
                attempts: self.rng.u32(..9),
                crashes: self.rng.u32(..4),
            },
            86..89 => Write::Begin {
                of: self.settled()?,
                crashes: self.rng.u32(..4),
            },
            89..94 => {
                let causes = [
                    Cause::UnknownKind,
                    Cause::Undecodable("why".into()),
                    Cause::Failed("so".into()),
                    Cause::Crashed,
                    Cause::GivenUp("no such order".into()),
                    Cause::Expired,
                ];
                let of = self.settled()?;
                let next = self.rng.bool().then(|| (due, self.new_id(None, due)));
                Write::Bury {
                    of,
                    cause: self.rng.choice(causes).unwrap(),
                    since: at(5),
                    attempts: self.rng.u32(..9),
                    crashes: self.rng.u32(..4),
                    next,
                }
            }
            100..105 => Write::Hold {
                of: self.settled()?,
                why: self
                    .rng
                    .choice([HeldWhy::Unhandled, HeldWhy::Paused])
                    .unwrap(),
                since: due,
            },
            105.. => Write::Rule(self.rule_for(), self.rule_change(due)),
            94..98 => Write::Revive(self.some_dead()?, due),
            _ => Write::Discard(self.some_dead()?),
        })
    }

    fn row(&mut self, key: Option<&str>, due: StoreTime) -> Row {
        let id = self.new_id(key, due);
        let kind = self.rng.choice(KINDS).unwrap();
        let length = [0, 1, 16, 64, 5_000][self.rng.usize(..5)];
        let payload = (0..length).map(|_| self.rng.u8(..)).collect();
        let mut row = Row::new(id, due, kind.into(), payload);
        row.key = key.map(Into::into);
        row.attempts = self.rng.u32(..4) / 2;
        row.calendar = (self.rng.u8(..4) == 0).then(|| "* * * * *".into());
        if self.rng.u8(..4) == 0 {
            with_parts(&mut row, self.rng.u8(..8));
        }
        row
    }

    fn some_keyed(&mut self) -> Option<Row> {
        let (rows, _) = self.place.contents();
        let rows: Vec<_> = rows.iter().filter(|row| row.key.is_some()).collect();
        self.rng.choice(rows).cloned()
    }

    /// Mostly in place of the row that has the key.
    fn replace(&mut self, due: StoreTime) -> Write {
        let former = self.some_keyed();
        let key = former.as_ref().and_then(|row| row.key.clone());
        let key = key.unwrap_or_else(|| self.rng.choice(KEYS).unwrap().into());
        let mut of = Replacement {
            row: self.row(Some(&key), due),
            former: former.map(|row| row.id),
        };
        match self.rng.u8(..12) {
            0 => of.former = None,
            1 => of.former = self.some_id(),
            2 => of.row.key = None,
            _ => {}
        }
        Write::Replace(Box::new(of))
    }

    /// Half of the time without another deadline.
    fn amend(&mut self, due: StoreTime) -> Option<Write> {
        let row = self.some_keyed()?;
        let new = self.row(None, due);
        let mut of = Amendment {
            id: row.id,
            calendar: "* * * * *".into(),
            payload: new.payload.clone(),
            trace: new.traceparent().map(Into::into),
            former_due: row.shown().due,
            due,
        };
        match self.rng.u8(..12) {
            0 => of.former_due = self.due(),
            1 => of.id = self.some_id()?,
            2..7 => of.due = of.former_due,
            _ => {}
        }
        Some(Write::Amend(Box::new(of)))
    }

    fn rule_for(&mut self) -> RuleFor {
        let text = self.rng.choice(["order", "a", "clé", ""]).unwrap().into();
        match self.rng.bool() {
            true => RuleFor::Kind(text),
            false => RuleFor::Keys(text),
        }
    }

    fn rule_change(&mut self, now: StoreTime) -> RuleChange {
        let is_some = self.rng.bool();
        let count = NonZeroU32::new(self.rng.u32(1..4)).unwrap();
        match self.rng.u8(..6) {
            0..2 => RuleChange::Pause(now),
            2..4 => RuleChange::Resume,
            4 => RuleChange::Rate(Rate::new(0.1, count).filter(|_| is_some)),
            _ => RuleChange::Calls(Some(count).filter(|_| is_some)),
        }
    }

    fn some_dead(&mut self) -> Option<DurableId> {
        let (_, dead) = self.place.contents();
        let letter: Option<&DeadLetter> = self.rng.choice(&dead);
        letter
            .map(|letter| letter.row.id)
            .or_else(|| self.some_id())
    }

    fn commit(&mut self, node: usize) -> Result<(), String> {
        let count = self.rng.usize(1..=12);
        let mut writes: Vec<_> = (0..count).filter_map(|_| self.write()).collect();
        // Often several of one row, or of one key.
        if self.rng.bool()
            && let Some(id) = self.some_id()
        {
            let (rows, _) = self.place.contents();
            let row = rows.iter().find(|row| row.id == id);
            let key = row.and_then(|row| row.key.clone());
            for _ in 0..self.rng.usize(..4) {
                let due = self.due();
                let target = match &key {
                    Some(key) if self.rng.bool() => Target::Key(key.clone()),
                    _ => Target::Id(id),
                };
                writes.push(match self.rng.u8(..3) {
                    0 => Write::Cancel(target),
                    _ => Write::Move(target, due),
                });
            }
            self.rng.shuffle(&mut writes);
        }
        self.both(node, ("commit", &writes), |store| {
            let outcomes = store.commit(writes.clone(), &mut Unasked).unwrap();
            assert_eq!(outcomes.len(), writes.len());
            sorted(outcomes)
        })?;
        Ok(())
    }
}

/// All records of a range, in slices of about `limit`.
fn pages_of(store: &mut dyn Both, mut range: DoneRange, limit: usize) -> Vec<DoneTimer> {
    let mut all = Vec::new();
    loop {
        let found = store.done().unwrap().look(&range, limit).unwrap();
        all.extend(found.done);
        match found.next {
            None => return all,
            Some(next) if range.newest_first => range.below = next,
            Some(next) => range.above = next,
        }
    }
}
