//! Promise: `Postgres` does what the traits `Store` and `SharedStore` say.
//!
//! - It meets a list of demands.
//! - In random histories of two nodes it does what a store in memory does: `WHEELWORK_SEEDS`
//!   histories, from `WHEELWORK_SEED` on.
//!
//! It needs a server, by `WHEELWORK_POSTGRES`: `scripts/with-postgres cargo test ..` runs one.
//! Without it the tests are left out.

#[path = "common/shared_memory.rs"]
mod shared_memory;

use fastrand::Rng;
use md5::Digest;
use shared_memory::{Making, MemoryClock, SharedMemory, SharedPlace};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, SystemTime};
use wheelwork::durable::{
    Cause, DeadLetter, DurableId, Gate, Lease, LeaseNews, Outcome, Partition, Position, Postgres,
    Row, Settled, SharedStore, Store, StoreClock, StoreTime, Target, Write,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Histories of a run of all tests.
const HISTORIES: u64 = 12;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "clé 4711"];
const KINDS: [&str; 3] = ["order", "order.unpaid", ""];

/// In the year 2100: rows of others that were due before now are moved to now.
const BEGIN_MS: u64 = 4_102_444_800_000;

/// Few deadlines: many rows have the same one.
const DUES: u64 = 40;

fn at(millis: u64) -> StoreTime {
    StoreTime::from_millis(millis)
}

fn partition_of_key(key: &str) -> Partition {
    md5::Md5::digest(key.as_bytes())[0].into()
}

/// No store that is shared asks.
struct Unasked;

impl Gate for Unasked {
    fn let_go(&mut self, id: DurableId) -> bool {
        panic!("{id}: no gate knows what other nodes have handed out");
    }
}

/// A clock that stands still.
struct Standing;

fn standing() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

impl StoreClock for Standing {
    fn at_least(&self) -> SystemTime {
        standing()
    }

    fn at_most(&self) -> SystemTime {
        standing()
    }
}

impl MemoryClock for Standing {
    fn now(&self) -> SystemTime {
        standing()
    }
}

fn memory() -> SharedPlace {
    let making = Making {
        partitions: 256,
        partition_of_key,
        lease: HOUR,
        claim_ahead: Duration::from_millis(25),
        has_news: false,
        broken: None,
    };
    SharedPlace::new(making, standing())
}

/// The tables of a test, on the server.
struct Tables {
    config: String,
    schema: String,
    client: postgres::Client,
}

impl Tables {
    /// `None`: there is no server.
    fn new() -> Option<Self> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let Ok(config) = env::var("WHEELWORK_POSTGRES") else {
            println!(
                "left out: WHEELWORK_POSTGRES is not set (scripts/with-postgres runs a server)"
            );
            return None;
        };
        let number = SCHEMAS.fetch_add(1, SeqCst);
        let schema = format!("test_{}_{number}", std::process::id());
        let client = postgres::Client::connect(&config, postgres::NoTls).unwrap();
        let tables = Self {
            config,
            schema,
            client,
        };
        // (It makes the tables.)
        drop(tables.node("first"));
        Some(tables)
    }

    fn node(&self, name: &str) -> Postgres {
        Postgres::builder(&self.config)
            .schema(&self.schema)
            .node_name(name)
            .lease(HOUR)
            .patience(Duration::from_secs(5))
            .connect()
            .unwrap()
    }

    fn run(&mut self, statements: &str) {
        let statements = statements.replace("{s}", &self.schema);
        self.client.batch_execute(&statements).unwrap();
    }

    /// As they were when they were made.
    fn clear(&mut self) {
        self.run(
            "TRUNCATE {s}.timer, {s}.dead, {s}.node;
            UPDATE {s}.lease SET owner = NULL, epoch = 0, until = now(), claimed_upto = -1,
                raise_upto = -1, clean = true",
        );
    }

    /// The leases of a node run out, and it counts as dead.
    fn expire(&mut self, name: &str) {
        self.run(&format!(
            "UPDATE {{s}}.lease SET until = now() WHERE owner IN
                (SELECT node FROM {{s}}.node WHERE name = '{name}');
            UPDATE {{s}}.node SET until = now() WHERE name = '{name}'"
        ));
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let _ = self
            .client
            .batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
    }
}

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What a store is asked for, in both.
trait Both: Store + SharedStore {}

impl<S: Store + SharedStore> Both for S {}

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
    surplus: Vec<Vec<Partition>>,
    story: String,
}

/// The same outcome, where the order does not count.
fn sorted(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    for outcome in &mut outcomes {
        if let Outcome::CancelledMany(ids) = outcome {
            ids.sort_unstable();
        }
    }
    outcomes
}

type Leases = (Vec<(Partition, u64)>, Vec<Partition>, BTreeSet<Partition>);

fn comparable(news: &LeaseNews) -> Leases {
    let taken = news.taken.iter();
    let mut taken: Vec<_> = taken.map(|lease| (lease.partition, lease.epoch)).collect();
    taken.sort_unstable();
    let mut lost = news.lost.clone();
    lost.sort_unstable();
    (taken, lost, news.surplus.iter().copied().collect())
}

fn hold_against_memory(seed: u64, tables: &mut Tables) -> Result<(), String> {
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
        self.surplus.push(Vec::new());
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
        self.surplus[node] = surplus.into_iter().collect();
        Ok(())
    }

    fn give_back(&mut self, node: usize) -> Result<(), String> {
        let others = self.leases.iter().enumerate();
        let mut others = others.filter(|(number, _)| *number != node);
        if self.surplus[node].is_empty() && others.any(|(_, leases)| leases.len() < 128) {
            return Ok(());
        }
        let mut leases: Vec<_> = self.leases[node]
            .iter()
            .filter(|lease| self.surplus[node].contains(&lease.partition))
            .copied()
            .collect();
        if leases.is_empty() {
            leases = self.leases[node].clone();
            self.rng.shuffle(&mut leases);
            leases.truncate(self.rng.usize(..60));
        }
        // (One that another has meanwhile.)
        if self.rng.bool()
            && let Some(lease) = leases.first_mut()
        {
            lease.epoch -= 1;
        }
        self.both(node, ("give back", leases.len()), |store| {
            store.give_back(&leases).unwrap();
        })?;
        self.surplus[node].clear();
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
            |store| store.load_many(&partitions, after, until, limit).unwrap(),
        )?;
        // (A load may raise attempts behind its last row, or not.)
        self.both(node, "load all of these", |store| {
            store
                .load_many(&partitions, Position::MIN, StoreTime::MAX, 100_000)
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
            store.dead(after, limit).unwrap()
        })?;
        Ok(())
    }

    fn look_at_all(&mut self) -> Result<(), String> {
        let all: Vec<_> = (0..256).collect();
        self.both(0, "look at all", |store| {
            let rows = store
                .load_many(&all, Position::MIN, StoreTime::MAX, 100_000)
                .unwrap();
            (rows, store.dead(None, usize::MAX).unwrap())
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
        let due = self.due();
        Some(match self.rng.u8(..100) {
            0..40 => {
                let key = (self.rng.u8(..3) == 0).then(|| self.rng.choice(KEYS).unwrap());
                let id = self.new_id(key, due);
                let kind = self.rng.choice(KINDS).unwrap();
                let length = [0, 1, 16, 64, 5_000][self.rng.usize(..5)];
                let payload = (0..length).map(|_| self.rng.u8(..)).collect();
                let mut row = Row::new(id, due, kind.into(), payload);
                row.key = key.map(Into::into);
                row.attempts = self.rng.u32(..4) / 2;
                row.calendar = (self.rng.u8(..4) == 0).then(|| "* * * * *".into());
                Write::Arm(row)
            }
            40..55 => Write::Cancel(self.target()?),
            55..67 => Write::Move(self.target()?, due),
            67..68 => Write::CancelKind(self.rng.choice(KINDS).unwrap().into()),
            68..78 => {
                let next = (self.rng.u8(..4) == 0).then_some(due);
                Write::Ack {
                    of: self.settled()?,
                    next,
                }
            }
            78..86 => Write::Retry {
                of: self.settled()?,
                at: due,
                attempts: self.rng.u32(..9),
            },
            86..93 => {
                let causes = [
                    Cause::UnknownKind,
                    Cause::Undecodable("why".into()),
                    Cause::Failed("so".into()),
                    Cause::Crashed,
                ];
                let of = self.settled()?;
                let next = self.rng.bool().then(|| (due, self.new_id(None, due)));
                Write::Bury {
                    of,
                    cause: self.rng.choice(causes).unwrap(),
                    since: at(5),
                    attempts: self.rng.u32(..9),
                    next,
                }
            }
            93..98 => Write::Revive(self.some_dead()?, due),
            _ => Write::Discard(self.some_dead()?),
        })
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

#[test]
fn postgres_does_what_memory_does() {
    let Some(mut tables) = Tables::new() else {
        return;
    };
    let first = number("WHEELWORK_SEED", 0);
    for seed in first..first + number("WHEELWORK_SEEDS", HISTORIES) {
        if let Err(why) = hold_against_memory(seed, &mut tables) {
            panic!("{why}");
        }
    }
}

/// A store that one node has for itself.
struct Opened<S> {
    store: S,
    epochs: BTreeMap<Partition, u64>,
}

impl<S: Both> Opened<S> {
    fn new(mut store: S) -> Self {
        let leases = store.acquire().unwrap();
        let epochs = leases.iter().map(|lease| (lease.partition, lease.epoch));
        Self {
            epochs: epochs.collect(),
            store,
        }
    }

    fn row(&mut self, due_ms: u64, key: Option<&str>) -> Row {
        let id = self.store.new_id(key, at(due_ms));
        let mut row = Row::new(id, at(due_ms), "kind".into(), (*b"payload").into());
        row.key = key.map(Into::into);
        row
    }

    fn one(&mut self, write: Write) -> Outcome {
        self.store
            .commit(vec![write], &mut Unasked)
            .unwrap()
            .remove(0)
    }

    fn arm(&mut self, row: &Row) {
        assert_eq!(self.one(Write::Arm(row.clone())), Outcome::Armed(None));
    }

    fn of(&self, row: &Row) -> Settled {
        Settled {
            id: row.id,
            due: row.due,
            epoch: self.epochs[&row.id.partition()],
        }
    }

    fn leases(&self) -> Vec<Lease> {
        let leases = self.epochs.iter();
        leases
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect()
    }

    fn claim(&mut self, upto_ms: u64) {
        let lost = self.store.claim(&self.leases(), at(upto_ms)).unwrap();
        assert_eq!(lost, []);
    }

    fn load(&mut self, after: Position, until: StoreTime, limit: usize) -> Vec<Row> {
        let all: Vec<_> = (0..256).collect();
        self.store.load_many(&all, after, until, limit).unwrap()
    }

    fn all(&mut self) -> Vec<Row> {
        self.load(Position::MIN, StoreTime::MAX, 100_000)
    }
}

fn rows_come_back<S: Both>(open: &mut Opened<S>) {
    let mut row = open.row(5_000, Some("key"));
    row.attempts = 3;
    row.calendar = Some("0 4 * * * Europe/Berlin".into());
    row.payload = Arc::from(&[0_u8, 255, 7][..]);
    let mut plain = open.row(6_000, None);
    (plain.kind, plain.payload) = ("".into(), Arc::from(&[][..]));
    let mut large = open.row(7_000, None);
    large.payload = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    for row in [&row, &plain, &large] {
        assert_eq!(open.store.get(&Target::Id(row.id)).unwrap(), None);
        open.arm(row);
        let found = open.store.get(&Target::Id(row.id)).unwrap();
        assert_eq!(found.as_ref(), Some(row));
    }
    let by_key =
        |open: &mut Opened<S>, key: &str| open.store.get(&Target::Key(key.into())).unwrap();
    assert_eq!(by_key(open, "key").as_ref(), Some(&row));
    assert_eq!(by_key(open, "other"), None);
    assert_eq!(open.all(), [row, plain, large]);
}

fn texts_may_have_anything<S: Both>(open: &mut Opened<S>) {
    let texts = ["", "\u{10ffff}", "'; --", "\\", "%s {s} $1"];
    let mut rows = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut row = open.row(number as u64, Some(text));
        row.kind = (*text).into();
        open.arm(&row);
        rows.push(row);
    }
    assert_eq!(open.all(), rows);
    open.claim(100);
    for (row, text) in rows.iter().zip(texts) {
        let key = Target::Key(text.into());
        assert_eq!(open.store.get(&key).unwrap().as_ref(), Some(row));
        let of = open.of(row);
        let cause = Cause::Failed(text.into());
        let outcome = open.one(Write::Bury {
            of,
            cause: cause.clone(),
            since: at(1),
            attempts: 1,
            next: None,
        });
        assert_eq!(outcome, Outcome::Settled(true, None));
        let letters = open.store.dead(None, 100).unwrap();
        let letter = letters.iter().find(|letter| letter.row.id == row.id);
        assert_eq!(letter.map(|letter| &letter.cause), Some(&cause));
    }
}

fn slices<S: Both>(open: &mut Opened<S>) {
    let dues = (0..60_u64).map(|row| [100, 200, 300, 50 + row * 7 % 400][row as usize % 4]);
    let mut rows: Vec<_> = dues.map(|due| open.row(due, None)).collect();
    let arms = rows.iter().cloned().map(Write::Arm).collect();
    open.store.commit(arms, &mut Unasked).unwrap();
    rows.sort_unstable_by_key(Row::position);
    for slice in [1, 2, 3, 7, 59, 60, 61] {
        let (mut found, mut after) = (Vec::new(), Position::MIN);
        loop {
            let rows = open.load(after, StoreTime::MAX, slice);
            found.extend(rows.iter().cloned());
            let Some(last) = rows.last().filter(|_| rows.len() == slice) else {
                break;
            };
            after = last.position();
        }
        assert_eq!(found, rows, "slices of {slice}");
    }
    assert_eq!(open.load(Position::MIN, StoreTime::MAX, 0), []);
}

fn edges<S: Both>(open: &mut Opened<S>) {
    let dues = [0, 10, 10, 20, u64::MAX];
    let mut rows = dues.map(|due| open.row(due, None)).to_vec();
    rows.iter().for_each(|row| open.arm(row));
    rows.sort_unstable_by_key(Row::position);
    let mut load = |after, until| open.load(after, until, 10);
    assert_eq!(load(Position::MIN, StoreTime::MAX), rows);
    assert_eq!(load(Position::MIN, StoreTime::MIN), rows[..1]);
    assert_eq!(load(Position::MIN, at(9)), rows[..1]);
    assert_eq!(load(rows[1].position(), at(10)), rows[2..3]);
    assert_eq!(load(Position::end_of(at(9)), at(19)), rows[1..3]);
    assert_eq!(load(Position::end_of(at(10)), at(5)), []);
    assert_eq!(load(Position::MAX, StoreTime::MAX), []);
}

fn the_watermark_decides<S: Both>(open: &mut Opened<S>) {
    for (due, may_go) in [(10, false), (11, true)] {
        let row = open.row(due, Some("key"));
        open.arm(&row);
        open.claim(10);
        for target in [Target::Id(row.id), Target::Key("key".into())] {
            let Outcome::Moved(moved) = open.one(Write::Move(target.clone(), at(due))) else {
                panic!("another outcome");
            };
            assert_eq!(moved.is_some(), may_go);
        }
        let next = open.row(50, Some("key"));
        let replaced = open.one(Write::Arm(next.clone()));
        assert_eq!(replaced, Outcome::Armed(may_go.then_some(row.id)));
        let left = open.store.get(&Target::Id(row.id)).unwrap();
        assert_eq!(
            left.map(|row| (row.superseded, row.key)),
            (!may_go).then_some((true, None))
        );
        // (A row that is superseded was handed out.)
        let cancelled = open.one(Write::Cancel(Target::Id(row.id)));
        assert_eq!(cancelled, Outcome::Cancelled(None));
        let cancelled = open.one(Write::Cancel(Target::Key("key".into())));
        assert_eq!(cancelled, Outcome::Cancelled(Some(next.id)));
    }
    // The watermark does not fall.
    open.claim(5);
    let row = open.row(10, None);
    open.arm(&row);
    assert_eq!(
        open.one(Write::Cancel(Target::Id(row.id))),
        Outcome::Cancelled(None)
    );
    let of_kind = open.one(Write::CancelKind("kind".into()));
    assert_eq!(of_kind, Outcome::CancelledMany(Vec::new()));
}

fn a_stale_settlement_does_nothing<S: Both>(open: &mut Opened<S>) {
    let row = open.row(10, None);
    open.arm(&row);
    open.claim(10);
    let right = open.of(&row);
    for wrong in [
        Settled {
            epoch: right.epoch - 1,
            ..right.clone()
        },
        Settled {
            epoch: right.epoch + 1,
            ..right.clone()
        },
        Settled {
            due: at(11),
            ..right.clone()
        },
    ] {
        let of = wrong.clone();
        let done = open.one(Write::Ack { of, next: None });
        assert_eq!(done, Outcome::Settled(false, None));
        let of = wrong.clone();
        let again = Write::Retry {
            of,
            at: at(20),
            attempts: 1,
        };
        assert_eq!(open.one(again), Outcome::Settled(false, None));
        let dead = Write::Bury {
            of: wrong,
            cause: Cause::Crashed,
            since: at(3),
            attempts: 1,
            next: Some((at(30), DurableId::from_bits(7))),
        };
        assert_eq!(open.one(dead), Outcome::Settled(false, None));
    }
    assert_eq!(open.store.dead(None, 9).unwrap(), []);
    assert_eq!(open.all(), [row]);
    let done = open.one(Write::Ack {
        of: right,
        next: None,
    });
    assert_eq!(done, Outcome::Settled(true, None));
}

#[test]
fn demands_are_met() {
    type Demand<S> = fn(&mut Opened<S>);
    fn demands<S: Both>() -> [(&'static str, Demand<S>); 5] {
        [
            ("rows come back", rows_come_back),
            ("slices", slices),
            ("edges", edges),
            ("the watermark decides", the_watermark_decides),
            (
                "a stale settlement does nothing",
                a_stale_settlement_does_nothing,
            ),
        ]
    }
    for (name, demand) in demands() {
        println!("{name}, in memory");
        demand(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    }
    let Some(mut tables) = Tables::new() else {
        return;
    };
    for (name, demand) in demands() {
        println!("{name}");
        tables.clear();
        demand(&mut Opened::new(tables.node("node")));
    }
}

#[test]
fn texts_are_stored_as_they_are() {
    texts_may_have_anything(&mut Opened::new(memory().node("node", Arc::new(Standing))));
    if let Some(tables) = Tables::new() {
        texts_may_have_anything(&mut Opened::new(tables.node("node")));
    }
}
