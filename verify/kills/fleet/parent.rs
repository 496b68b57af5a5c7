//! Parent: starts the nodes and the trouble, keeps the ledger, and judges.

use super::args::Args;
use super::node;
use super::nodes::{AllOrders, Nodes, can_fake};
use super::plan::Plan;
use super::server::Server;
use super::table;
use super::work::{is_foreign, plain_sql};
use crate::clock::{now_ns, offset_ns};
use crate::ledger::{Ledger, Moment, Sums};
use crate::process::{Listener, Told};
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Facts, Judge};
use crate::wire::{Event, Order, Teller};
use postgres::Client;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
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

/// How long one thing may take.
const STOPPED: Duration = Duration::from_secs(60);

/// How long a thread is not run on a machine that stands still, at least.
const STALL: Duration = Duration::from_millis(150);

/// How long timers wait for a handler where there are deploys: longer than a run.
const BURY_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// The same at the end, when all nodes have all kinds that are to be handled.
const BURY_AFTER_AT_END: Duration = Duration::from_secs(2);

const TICK: Duration = Duration::from_millis(20);

const TABLES: &str = "
    CREATE TABLE check_done (number bigint NOT NULL, fence bigint NOT NULL);
    CREATE TABLE check_order (number bigint NOT NULL)";

/// What threads of the parent have in common.
#[derive(Default)]
pub(super) struct Common {
    pub(super) sums: Mutex<Sums>,
    pub(super) happened: Mutex<Vec<Happened>>,
    pub(super) offsets: Mutex<Vec<(Moment, i64)>>,
    pub(super) ready: Mutex<BTreeSet<u32>>,
    pub(super) quiet: Mutex<BTreeSet<u32>>,
    pub(super) complaints: Mutex<Vec<String>>,
    pub(super) sql_is_over: AtomicBool,
    pub(super) is_over: AtomicBool,
}

/// In a fleet of two versions the first node works alone for so long; and then so long with a
/// transaction that has locked what the others are to change.
const UPDATED_AFTER: Duration = Duration::from_secs(3);

/// A run.
pub(super) struct Run<'a> {
    pub(super) options: &'a Args,
    pub(super) server: Server,
    pub(super) nodes: Nodes,
    pub(super) plan: Plan,
    pub(super) common: &'a Common,
    /// The thread that calls the functions of the database.
    pub(super) sql: Option<ScopedJoinHandle<'a, ()>>,
    pub(super) begun: Instant,
    pub(super) said: Instant,
}

/// Runs the check, or is one of its nodes.
pub(crate) fn run(options: &Args) -> Result<ExitCode, String> {
    if let Some(node) = options.node {
        return Ok(node::serve(options, node));
    }
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
    let offset = offset_ns();
    let old = options.old.clone();
    let mut nodes = Nodes::new(offset, database.clone(), old, sender.clone());
    if options.has_deploys() {
        nodes.bury_after = BURY_AFTER;
    }
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
    let common = &Common::default();
    let begun = now_ns();
    let orders = nodes.orders.clone();
    let log = File::create(folder.join("events.log")).map_err(|error| error.to_string())?;
    let (ledger, ended) = thread::scope(|scope| {
        let ledger = scope.spawn(move || keep(&told, common, &orders, BufWriter::new(log)));
        scope.spawn(|| watch_clocks(common));
        let (teller, seed) = (Teller::new(Here(sender)), options.seed);
        let sql = scope.spawn(move || {
            plain_sql(&teller, &database, seed, offset, &common.sql_is_over);
        });
        let mut run = Run {
            options,
            server,
            nodes,
            plan: Plan::new(options),
            common,
            sql: Some(sql),
            begun: Instant::now(),
            said: Instant::now(),
        };
        let ended = run.all(has_standby);
        common.sql_is_over.store(true, Relaxed);
        common.is_over.store(true, Relaxed);
        let (with_other_clock, server) = (run.nodes.with_other_clock, run.server);
        if options.old.is_some() {
            let (old, all) = (run.nodes.of_old, run.nodes.started());
            say(format_args!(
                "{old} of {all} nodes were of the earlier version"
            ));
        }
        // The readers end with their pipes, and the ledger with them.
        drop(run.nodes);
        let ledger = ledger.join().expect("it does not panic");
        (ledger, ended.map(|facts| (facts, with_other_clock, server)))
    });
    let (mut facts, with_other_clock, server) = ended?;
    let happened = lock(&common.happened).clone();
    facts.has_old = options.old.is_some();
    facts.offsets = lock(&common.offsets).clone();
    let ttl_ms = options.ttl().as_millis() as u64;
    let judge = Judge::new(&ledger, &facts, &happened, ttl_ms, begun);
    let verdict = judge.verdict();
    let complaints = [lock(&common.complaints).clone(), ledger.complaints()].concat();
    table::table(&ledger, &verdict, &happened, with_other_clock, &complaints);
    if verdict.broken.is_empty() && complaints.is_empty() {
        let _ = fs::remove_dir_all(&folder);
        return Ok(ExitCode::SUCCESS);
    }
    let told = judge.broken(&verdict, complaints).join("\n\n");
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
                Event::Ready => _ = lock(&common.ready).insert(node),
                Event::Quiet => _ = lock(&common.quiet).insert(node),
                Event::Ask(number, ask) if ask.key.is_some() => _ = is_keyed.insert(*number),
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
    let (mut last, mut noted) = (now_ns(), 0);
    while !common.is_over.load(Relaxed) {
        thread::sleep(TICK);
        let now = now_ns();
        if Duration::from_nanos(now - last).saturating_sub(TICK) > STALL {
            common.note(last, Trouble::Stall, None);
        }
        if now - noted > 100_000_000 {
            lock(&common.offsets).push((now, offset_ns()));
            noted = now;
        }
        last = now;
    }
}

impl Common {
    /// A trouble is over.
    pub(super) fn note(&self, from: Moment, what: Trouble, node: Option<u32>) {
        lock(&self.happened).push(Happened::since(from, what, node));
    }

    fn complain(&self, what: String) {
        lock(&self.complaints).push(what);
    }
}

impl Run<'_> {
    fn all(&mut self, has_standby: bool) -> Result<Facts, String> {
        self.nodes.start(0)?;
        if self.options.old.is_some() {
            // It makes the tables, and works while the next nodes want to take them further. A
            // transaction is in the way of that.
            self.wait_ready()?;
            self.wait(UPDATED_AFTER);
            self.hold_snapshot_for(UPDATED_AFTER);
        }
        for _ in 1..self.options.nodes {
            self.start_node()?;
        }
        self.wait_ready()?;
        let end = Duration::from_secs(u64::from(self.options.minutes) * 60);
        let random = &mut self.plan.random;
        let mut promote_at = has_standby.then(|| end.mul_f64(0.4 + 0.3 * random.f64()));
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
                self.random_ms(0..500)
            } else {
                self.options.ttl() + self.random_ms(2_200..4_000)
            };
            self.wait(wait.min(end.saturating_sub(self.begun.elapsed())));
        }
        self.drain()
    }

    pub(super) fn random_ms(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.plan.random.u64(range))
    }

    pub(super) fn say(&mut self, what: &str) {
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

    /// Waits, and checks on the nodes meanwhile.
    pub(super) fn wait(&mut self, wait: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            thread::sleep(TICK.min(wait));
            for (node, status) in self.nodes.ended() {
                let why = format!("node {node} has ended by itself: {status}");
                self.common.complain(why);
            }
            if self.said.elapsed() > PROGRESS {
                self.say("");
            }
        }
    }

    /// Waits until something is so. An error: it is not, and that is `what`.
    pub(super) fn wait_until(
        &mut self,
        what: &str,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so(self) {
            if begun.elapsed() > STOPPED {
                return Err(format!("{what} within {} s", STOPPED.as_secs()));
            }
            self.wait(TICK);
        }
        Ok(())
    }

    fn are_all(&self, told: &Mutex<BTreeSet<u32>>) -> bool {
        let told = lock(told);
        self.nodes.alive().iter().all(|node| told.contains(node))
    }

    pub(super) fn wait_ready(&mut self) -> Result<(), String> {
        let are_ready = |run: &Self| run.are_all(&run.common.ready);
        self.wait_until("the nodes are not ready", are_ready)
    }

    /// Starts a node whose clock may be off. Returns it, and by how many seconds.
    pub(super) fn start_node(&mut self) -> Result<(u32, i32), String> {
        let off = Nodes::random_off(&mut self.plan.random);
        Ok((self.nodes.start(off)?, off))
    }

    /// Tells a node to stop, and waits for its end.
    pub(super) fn stop_node(&mut self, node: u32) {
        if let Err(why) = self.nodes.stop(node, STOPPED) {
            self.common.complain(why);
        }
    }

    /// A node that runs.
    pub(super) fn some_node(&mut self) -> Option<u32> {
        let ready = lock(&self.common.ready).clone();
        let mut alive = self.nodes.alive();
        alive.retain(|node| ready.contains(node));
        self.plan.random.choice(alive)
    }

    /// No arms and no trouble any more: all that is stored is handled.
    fn drain(&mut self) -> Result<Facts, String> {
        self.say("the trouble is over");
        self.nodes.is_quiet = true;
        if self.nodes.alive().is_empty() {
            self.nodes.start(0)?;
        }
        self.wait_ready()?;
        self.end_update()?;
        if self.options.has_deploys() {
            self.nodes.bury_after = BURY_AFTER_AT_END;
            for node in self.nodes.alive() {
                self.replace(node)?;
            }
            self.end_update()?;
        }
        self.common.sql_is_over.store(true, Relaxed);
        self.sql.take().map(ScopedJoinHandle::join);
        for node in self.nodes.alive() {
            self.nodes.order(node, Order::Quiet);
        }
        let begun = Instant::now();
        let mut client = self.server.connect()?;
        let failed = |error| format!("PostgreSQL: {error}");
        loop {
            self.wait(Duration::from_millis(200));
            let count = client.query_one("SELECT count(*) FROM wheelwork.timer", &[]);
            let count: i64 = count.map_err(failed)?.get(0);
            let is_drained = count == 0 && self.are_all(&self.common.quiet);
            if is_drained || begun.elapsed() > DRAIN + self.options.ttl() {
                break;
            }
        }
        self.say("stopping");
        let facts = facts(&mut client).map_err(failed)?;
        for node in self.nodes.alive() {
            self.stop_node(node);
        }
        Ok(facts)
    }
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
