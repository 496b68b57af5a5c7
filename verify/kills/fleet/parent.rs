//! Parent: starts the nodes and the trouble, keeps the ledger, and judges.

use super::args::Args;
use super::nodes::{AllOrders, Nodes, Setting, can_fake};
use super::plan::Plan;
use super::server::Server;
use super::table;
use super::work::{is_foreign, plain_sql};
use crate::clock::{now_ns, offset_ns};
use crate::ledger::{Ledger, Moment, Sums};
use crate::process::{Listener, Told};
use crate::report;
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Facts, Judge};
use crate::wire::{Event, Order, Teller};
use postgres::Client;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::lock::lock;
use wheelwork_kit::program::say;

/// What was told may wait for the ledger: as many pieces.
const TOLD_MAX: usize = 4_096;

/// Minutes from which on there is a standby.
const STANDBY_MINUTES: u32 = 10;

const PROGRESS: Duration = Duration::from_secs(5);

/// How long the rows that are left have to be handled at the end, beyond lease and delays.
const DRAIN: Duration = Duration::from_secs(40);

const STOPPED: Duration = Duration::from_secs(60);

/// How long a thread is not run on a machine that stands still, at least.
const STALL: Duration = Duration::from_millis(150);

const TICK: Duration = Duration::from_millis(20);

/// How long a snapshot is held at the most, in milliseconds.
const SNAPSHOT_MAX_MS: u64 = 60_000;

/// Nodes at the most, beyond those of the beginning.
const MORE_NODES: usize = 2;

const TABLES: &str = "
    CREATE TABLE check_done (number bigint NOT NULL, fence bigint NOT NULL);
    CREATE TABLE check_order (number bigint NOT NULL)";

/// What threads of the parent have in common.
#[derive(Default)]
struct Common {
    sums: Mutex<Sums>,
    happened: Mutex<Vec<Happened>>,
    offsets: Mutex<Vec<(Moment, i64)>>,
    ready: Mutex<BTreeSet<u32>>,
    quiet: Mutex<BTreeSet<u32>>,
    complaints: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

/// A run.
struct Run<'a> {
    options: &'a Args,
    server: Server,
    nodes: Nodes,
    plan: Plan,
    common: &'a Common,
    begun: Instant,
    said: Instant,
}

pub(crate) fn run(options: &Args) -> Result<ExitCode, String> {
    let mut server = Server::of_environment()?;
    let folder = std::env::temp_dir().join(format!("wheelwork-fleet-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let has_standby = options.standby || options.minutes >= STANDBY_MINUTES;
    if has_standby {
        server.add_standby()?;
    }
    let database = server.connection();
    let made = server.connect()?.batch_execute(TABLES);
    made.map_err(|error| format!("the tables of the check: {error}"))?;
    let (sender, told) = sync_channel::<Told>(TOLD_MAX);
    let setting = Setting {
        seed: options.seed,
        rate: options.rate,
        ttl_ms: u64::from(options.ttl) * 1_000,
        offset_ns: offset_ns(),
        database: database.clone(),
    };
    let offset = setting.offset_ns;
    let nodes = Nodes::new(setting, sender.clone());
    say(format_args!(
        "{} nodes, {} arms a second each, leases of {} s, {} min of trouble, seed {}, {} cores{}{}",
        options.nodes,
        options.rate,
        options.ttl,
        options.minutes,
        options.seed,
        wheelwork_kit::system::cores(),
        if has_standby { ", with a standby" } else { "" },
        if can_fake() {
            ""
        } else {
            ", without libfaketime: all clocks are right"
        },
    ));
    let common = Common::default();
    let begun = now_ns();
    let orders = nodes.orders.clone();
    let log = File::create(folder.join("events.log")).map_err(|error| error.to_string())?;
    let (ledger, ended) = thread::scope(|scope| {
        let common = &common;
        let ledger = scope.spawn(move || keep(&told, common, &orders, BufWriter::new(log)));
        scope.spawn(|| watch_clocks(common));
        let sql_is_over = Arc::new(AtomicBool::new(false));
        let plain = {
            let (is_over, teller) = (sql_is_over.clone(), Teller::new(Here(sender)));
            let (database, seed) = (database.as_str(), options.seed);
            scope.spawn(move || plain_sql(&teller, database, seed, offset, &is_over))
        };
        let mut run = Run {
            options,
            server,
            nodes,
            plan: Plan::new(options.seed, &options.only),
            common,
            begun: Instant::now(),
            said: Instant::now(),
        };
        let ended = run.all(&sql_is_over, has_standby, || _ = plain.join());
        sql_is_over.store(true, Relaxed);
        common.is_over.store(true, Relaxed);
        let (with_other_clock, server) = (run.nodes.with_other_clock, run.server);
        // The readers end with their pipes, and the ledger with them.
        drop(run.nodes);
        let ledger = ledger.join().expect("it does not panic");
        (ledger, ended.map(|facts| (facts, with_other_clock, server)))
    });
    let (mut facts, with_other_clock, server) = ended?;
    let happened = lock(&common.happened).clone();
    facts.offsets = lock(&common.offsets).clone();
    let ttl_ms = u64::from(options.ttl) * 1_000;
    let judge = Judge::new(&ledger, &facts, &happened, ttl_ms, begun);
    let mut verdict = judge.verdict();
    let complaints = [lock(&common.complaints).clone(), ledger.complaints()].concat();
    table::table(
        &ledger,
        &mut verdict,
        &happened,
        with_other_clock,
        &complaints,
    );
    if verdict.broken.is_empty() && complaints.is_empty() {
        let _ = fs::remove_dir_all(&folder);
        return Ok(ExitCode::SUCCESS);
    }
    let told = report::broken(&judge, &verdict, &complaints).join("\n\n");
    let _ = fs::write(folder.join("broken.txt"), &told);
    for log in server.logs() {
        if let Some(name) = log.file_name() {
            let _ = fs::copy(&log, folder.join(name));
        }
    }
    table::say_broken(&told, options, &folder);
    Ok(ExitCode::FAILURE)
}

/// What the parent tells itself goes the same way as what nodes tell.
struct Here(SyncSender<Told>);

impl Write for Here {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // At the end nobody hears it.
        let _ = self.0.send((0, bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the ledger, until nobody tells anything any more.
fn keep(
    told: &Receiver<Told>,
    common: &Common,
    orders: &AllOrders,
    mut log: BufWriter<File>,
) -> Ledger {
    let (mut ledger, mut listener) = (Ledger::default(), Listener::default());
    let mut is_keyed = HashSet::new();
    loop {
        let told = match told.recv_timeout(Duration::from_millis(100)) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => {
                *lock(&common.sums) = ledger.sums.clone();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let node = told.0;
        let heard = listener.hear(&told, |at, event| {
            let _ = writeln!(log, "{node} {at} {event:?}");
            match &event {
                Event::Ready { .. } => _ = lock(&common.ready).insert(node),
                Event::Quiet => _ = lock(&common.quiet).insert(node),
                Event::Ask {
                    number,
                    key: Some(_),
                    ..
                } => _ = is_keyed.insert(*number),
                Event::Armed { number, id }
                    if is_foreign(*number) && !is_keyed.contains(number) =>
                {
                    forward(orders, node, *number, *id);
                }
                _ => {}
            }
            ledger.note(node, at, event);
            Ok(())
        });
        if let Err(why) = heard {
            ledger.complain(format!("node {node} has told {why}"));
        }
        *lock(&common.sums) = ledger.sums.clone();
    }
    let _ = log.flush();
    ledger
}

/// Gives a timer to another node, to cancel or move it.
fn forward(orders: &AllOrders, node: u32, number: u64, id: u128) {
    let orders = lock(orders);
    let others: Vec<_> = orders.iter().filter(|(other, _)| **other != node).collect();
    if !others.is_empty() {
        let (_, other) = others[(number / 8) as usize % others.len()];
        other.give(&[Order::Take(vec![(number, id)])]);
    }
}

/// Notes how the server's clock goes, and when the machine stands still.
fn watch_clocks(common: &Common) {
    let mut last = now_ns();
    let mut noted = 0;
    while !common.is_over.load(Relaxed) {
        thread::sleep(TICK);
        let now = now_ns();
        let stood = Duration::from_nanos(now - last).saturating_sub(TICK);
        if stood > STALL {
            lock(&common.happened).push(Happened {
                what: Trouble::Stall,
                node: None,
                from: last,
                to: now,
                partitions: Vec::new(),
            });
        }
        if now - noted > 100_000_000 {
            lock(&common.offsets).push((now, offset_ns()));
            noted = now;
        }
        last = now;
    }
}

impl Run<'_> {
    fn all(
        &mut self,
        sql_is_over: &AtomicBool,
        has_standby: bool,
        join_sql: impl FnOnce(),
    ) -> Result<Facts, String> {
        for number in 0..self.options.nodes {
            let off = if number == 0 {
                0
            } else {
                Nodes::random_off(&mut self.plan.random)
            };
            self.nodes.start(off)?;
        }
        self.wait_ready()?;
        let end = Duration::from_secs(u64::from(self.options.minutes) * 60);
        let promote_at = has_standby.then(|| end.mul_f64(0.4 + 0.3 * self.plan.random.f64()));
        let mut promote_at = promote_at;
        while self.begun.elapsed() < end {
            if promote_at.is_some_and(|at| self.begun.elapsed() > at) {
                promote_at = None;
                self.promote()?;
                continue;
            }
            let next = self.plan.next();
            self.trouble(next)?;
            // Mostly a trouble is over before the next one begins.
            let wait = if self.plan.random.u32(..4) == 0 {
                self.plan.random.u64(..500)
            } else {
                u64::from(self.options.ttl) * 1_000 + self.plan.random.u64(2_200..4_000)
            };
            self.wait(Duration::from_millis(wait).min(end.saturating_sub(self.begun.elapsed())));
        }
        self.drain(sql_is_over, join_sql)
    }

    fn say(&mut self, what: &str) {
        let sums = lock(&self.common.sums).clone();
        say(format_args!(
            "{:>5.0} s  {} nodes  armed {}  cancelled {}  handled {}  {what}",
            self.begun.elapsed().as_secs_f64(),
            self.nodes.alive().len(),
            sums.armed,
            sums.cancelled,
            sums.handled
        ));
        self.said = Instant::now();
    }

    /// Waits, and looks after the nodes meanwhile.
    fn wait(&mut self, wait: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            thread::sleep(TICK.min(wait));
            for (node, status) in self.nodes.ended() {
                let why = format!("node {node} has ended by itself: {status}");
                lock(&self.common.complaints).push(why);
            }
            if self.said.elapsed() > PROGRESS {
                self.say("");
            }
        }
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let alive: BTreeSet<u32> = self.nodes.alive().into_iter().collect();
            if alive.is_subset(&lock(&self.common.ready)) {
                return Ok(());
            }
            if begun.elapsed() > STOPPED {
                return Err("the nodes are not ready within 60 s".to_owned());
            }
            self.wait(TICK);
        }
    }

    /// A node that runs.
    fn some_node(&mut self) -> Option<u32> {
        let ready = lock(&self.common.ready).clone();
        let alive = self.nodes.alive();
        let ready: Vec<u32> = alive
            .into_iter()
            .filter(|node| ready.contains(node))
            .collect();
        (!ready.is_empty()).then(|| ready[self.plan.random.usize(..ready.len())])
    }

    fn note(&self, what: Trouble, node: Option<u32>, from: Moment, partitions: Vec<u16>) {
        lock(&self.common.happened).push(Happened {
            what,
            node,
            from,
            to: now_ns(),
            partitions,
        });
    }

    fn trouble(&mut self, what: Trouble) -> Result<(), String> {
        let ttl = Duration::from_secs(u64::from(self.options.ttl));
        match what {
            Trouble::Kill => self.kill(),
            Trouble::PauseLong => {
                let more = Duration::from_millis(self.plan.random.u64(300..2_500));
                self.pause(what, ttl + more);
                Ok(())
            }
            Trouble::PauseShort => {
                let wait = ttl.mul_f64(0.9 * self.plan.random.f64());
                self.pause(what, wait);
                Ok(())
            }
            Trouble::Add => {
                if self.nodes.alive().len() < self.options.nodes as usize + MORE_NODES {
                    let from = now_ns();
                    let off = Nodes::random_off(&mut self.plan.random);
                    let node = self.nodes.start(off)?;
                    self.say(&format!("node {node} added, clock off by {off} s"));
                    self.wait_ready()?;
                    self.note(what, Some(node), from, Vec::new());
                }
                Ok(())
            }
            Trouble::Stop => {
                if self.nodes.alive().len() > 2
                    && let Some(node) = self.some_node()
                {
                    self.say(&format!("node {node} is told to stop"));
                    let from = now_ns();
                    if let Err(why) = self.nodes.stop(node, STOPPED) {
                        lock(&self.common.complaints).push(why);
                    }
                    self.note(what, Some(node), from, Vec::new());
                }
                Ok(())
            }
            Trouble::ServerKilled | Trouble::ServerEnded => {
                let down = Duration::from_millis(match self.plan.random.u32(..3) {
                    0 => self.plan.random.u64(
                        u64::from(self.options.ttl) * 1_000
                            ..6_000.max(u64::from(self.options.ttl) * 1_500),
                    ),
                    _ => self.plan.random.u64(..1_500),
                });
                self.say(&format!("{}, for {} ms", what.name(), down.as_millis()));
                let from = now_ns();
                self.server.kill(what == Trouble::ServerKilled)?;
                self.wait(down);
                self.server.start()?;
                self.note(what, None, from, Vec::new());
                Ok(())
            }
            Trouble::Snapshot => {
                self.hold_snapshot();
                Ok(())
            }
            Trouble::Promote | Trouble::Stall => Ok(()),
        }
    }

    fn kill(&mut self) -> Result<(), String> {
        let Some(node) = self.some_node() else {
            return Ok(());
        };
        let mut client = self.server.connect().ok();
        let (from, off) = (now_ns(), self.nodes.off(node));
        self.nodes.kill(node);
        let partitions = client.as_mut().and_then(|client| owned(client, node));
        let partitions = partitions.unwrap_or_default();
        let count = partitions.len();
        self.note(Trouble::Kill, Some(node), from, partitions);
        self.say(&format!(
            "node {node} killed, of {count} partitions, its clock off by {off} s"
        ));
        // The next one comes before the leases have run out, or after.
        let ttl_ms = u64::from(self.options.ttl) * 1_000;
        let wait = self.plan.random.u64(..2 * ttl_ms);
        self.wait(Duration::from_millis(wait));
        let off = Nodes::random_off(&mut self.plan.random);
        self.nodes.start(off)?;
        Ok(())
    }

    fn pause(&mut self, what: Trouble, wait: Duration) {
        let Some(node) = self.some_node() else {
            return;
        };
        self.say(&format!("node {node} paused for {} ms", wait.as_millis()));
        let mut client = self.server.connect().ok();
        let from = now_ns();
        self.nodes.signal(node, libc::SIGSTOP);
        let partitions = client.as_mut().and_then(|client| owned(client, node));
        let ttl = Duration::from_secs(u64::from(self.options.ttl));
        let before = wait.min(ttl + Duration::from_millis(250));
        self.wait(before);
        for waits in client.as_mut().map(waiting).unwrap_or_default() {
            self.say(&waits);
        }
        self.wait(wait - before);
        self.nodes.signal(node, libc::SIGCONT);
        self.note(what, Some(node), from, partitions.unwrap_or_default());
    }

    /// Holds a snapshot, while other trouble goes on.
    fn hold_snapshot(&mut self) {
        let left = u64::from(self.options.minutes) * 60_000;
        let wait = self.plan.random.u64(5_000..SNAPSHOT_MAX_MS.min(left / 2));
        self.say(&format!("snapshot held for {wait} ms"));
        let from = now_ns();
        let Ok(mut client) = self.server.connect() else {
            return;
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM wheelwork.timer";
        let _ = client.batch_execute(begin);
        self.note(Trouble::Snapshot, None, from, Vec::new());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(wait));
            let _ = client.batch_execute("COMMIT");
        });
    }

    fn promote(&mut self) -> Result<(), String> {
        // (After a restart the standby has to have caught up: what the primary has, and it has not,
        // is lost to it, though others may have read it.)
        let begun = Instant::now();
        while !self.server.has_synchronous_standby() {
            if begun.elapsed() > STOPPED {
                return Err("the standby is not synchronous within 60 s".to_owned());
            }
            self.wait(TICK);
        }
        self.wait(Duration::from_secs(2));
        self.say("the primary killed, the standby promoted");
        let from = now_ns();
        self.server.promote()?;
        self.note(Trouble::Promote, None, from, Vec::new());
        self.wait(Duration::from_secs(u64::from(self.options.ttl) + 4));
        Ok(())
    }

    /// No arms and no trouble any more: all that is stored is handled.
    fn drain(
        &mut self,
        sql_is_over: &AtomicBool,
        join_sql: impl FnOnce(),
    ) -> Result<Facts, String> {
        self.say("the trouble is over");
        self.nodes.is_quiet = true;
        if self.nodes.alive().is_empty() {
            self.nodes.start(0)?;
        }
        self.wait_ready()?;
        sql_is_over.store(true, Relaxed);
        join_sql();
        for node in self.nodes.alive() {
            self.nodes.order(node, Order::Quiet);
        }
        let begun = Instant::now();
        let patience = DRAIN + Duration::from_secs(u64::from(self.options.ttl));
        let mut client = self.server.connect()?;
        loop {
            self.wait(Duration::from_millis(200));
            let alive: BTreeSet<u32> = self.nodes.alive().into_iter().collect();
            let is_quiet = alive.is_subset(&lock(&self.common.quiet));
            let count = client.query_one("SELECT count(*) FROM wheelwork.timer", &[]);
            let count: i64 = count
                .map_err(|error| format!("PostgreSQL: {error}"))?
                .get(0);
            if is_quiet && count == 0 || begun.elapsed() > patience {
                break;
            }
        }
        self.say("stopping");
        let facts = facts(&mut client).map_err(|error| format!("PostgreSQL: {error}"))?;
        for node in self.nodes.alive() {
            if let Err(why) = self.nodes.stop(node, STOPPED) {
                lock(&self.common.complaints).push(why);
            }
        }
        Ok(facts)
    }
}

/// The partitions of a node, by its name.
fn owned(client: &mut Client, node: u32) -> Option<Vec<u16>> {
    let sql = "SELECT part FROM wheelwork.lease l JOIN wheelwork.node n ON n.node = l.owner
        WHERE n.name = $1 AND n.until > now() AND NOT n.dead";
    let rows = client.query(sql, &[&format!("node-{node}")]).ok()?;
    Some(rows.iter().map(|row| row.get::<_, i16>(0) as u16).collect())
}

/// Statements that wait for another connection, and what that one does.
fn waiting(client: &mut Client) -> Vec<String> {
    let sql = "SELECT left(regexp_replace(w.query, '\\s+', ' ', 'g'), 60), b.state,
            left(regexp_replace(b.query, '\\s+', ' ', 'g'), 60), count(*)
        FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) u (pid)
            JOIN pg_stat_activity b ON b.pid = u.pid
        WHERE b.state LIKE 'idle in transaction%' GROUP BY 1, 2, 3";
    let rows = client.query(sql, &[]).unwrap_or_default();
    let text = |row: &postgres::Row, at| row.get::<_, Option<String>>(at).unwrap_or_default();
    let line = |row: &postgres::Row| {
        let [waits, state, after] = [0, 1, 2].map(|at| text(row, at));
        format!("waits: '{waits}', for one that is {state}, after '{after}'")
    };
    rows.iter().map(line).collect()
}

fn facts(client: &mut Client) -> Result<Facts, postgres::Error> {
    let mut facts = Facts::default();
    // Payloads are numbers of timers.
    let numbered = |rows: Vec<postgres::Row>| {
        let number = |row: &postgres::Row| String::from_utf8_lossy(row.get(0)).parse().ok();
        let rows = rows
            .iter()
            .map(|row| (number(row).unwrap_or(0), row.get(1)));
        rows.collect::<HashMap<u64, String>>()
    };
    let done = "SELECT number, count(*) FROM check_done GROUP BY number";
    for row in client.query(done, &[])? {
        let count: i64 = row.get(1);
        facts.done.insert(row.get::<_, i64>(0) as u64, count as u64);
    }
    for row in client.query("SELECT number FROM check_order", &[])? {
        facts.orders.insert(row.get::<_, i64>(0) as u64);
    }
    let dead =
        "SELECT payload, cause || ' ' || why || ', attempts ' || attempts FROM wheelwork.dead";
    facts.dead = numbered(client.query(dead, &[])?);
    let left = "SELECT t.payload, format('due %s, part %s, row epoch %s, attempts %s, \
        superseded %s, moved %s; lease: owner %s, epoch %s, until %s, claimed %s, raise %s; \
        now %s', t.due, t.part, t.epoch, t.attempts, t.superseded, t.moved, \
        n.name, l.epoch, n.until, greatest(l.claimed_upto, \
        (SELECT max(w.upto) FROM wheelwork.watermark w WHERE w.node = l.owner)), l.raise_upto, \
        (extract(epoch FROM now()) * 1000)::bigint)
        FROM wheelwork.timer t JOIN wheelwork.lease l ON l.part = t.part
            LEFT JOIN wheelwork.node n ON n.node = l.owner";
    facts.left = numbered(client.query(left, &[])?);
    Ok(facts)
}
