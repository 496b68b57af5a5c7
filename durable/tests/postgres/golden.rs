//! Golden: schemas as earlier versions have left them, and what writes such a file.

use crate::all_may_go::AllMayGo;
use crate::own_schema::Schema;
use postgres::{Client, NoTls};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use wheelwork_durable::contract::{
    HeldWhy, Lease, Position, RowFilter, RuleChange, Settled, SharedStore, SliceLimit, Store,
    Target, Write,
};
use wheelwork_durable::{
    Cause, DeadLetter, DurableId, Postgres, Rate, Row, Rule, RuleFor, StoreTime,
};

/// The name of the schema in the files.
pub const GOLDEN: &str = "golden";

/// The year 2100: no row of it falls due while a test runs.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

/// The schemas that there are.
pub const SCHEMAS: [(i64, &str, &str); 2] = [
    (
        3,
        include_str!("../golden/schema-3.sql"),
        include_str!("../golden/schema-3.txt"),
    ),
    (
        5,
        include_str!("../golden/schema-5.sql"),
        include_str!("../golden/schema-5.txt"),
    ),
];

/// Loads a golden schema under the name of a test's own.
pub fn load(schema: &Schema, golden: &str) {
    let sql = golden.replace(GOLDEN, &schema.name);
    // (In the order of names a body may call a function that comes later.)
    let unchecked = format!("SET check_function_bodies = false; {sql}");
    let mut client = schema.client();
    client.batch_execute(&unchecked).unwrap();
    // (It is long gone.)
    let over = schema.sql("UPDATE {s}.node SET until = now() - interval '2 hours'");
    client.batch_execute(&over).unwrap();
}

/// What a store reads, a line a row and a letter, sorted.
pub fn seen(store: &mut Postgres) -> String {
    let all: Vec<_> = (0..=(SharedStore::partitions(store) - 1) as u16).collect();
    let limit = SliceLimit::rows(1_000);
    let (all_of, until) = (RowFilter::ALL, StoreTime::MAX);
    let rows = store.list_many(&all, Position::MIN, until, &all_of, limit);
    let letters = store.dead(None, limit).unwrap();
    let rows = rows.unwrap().rows;
    let rows = rows.iter().map(line_of_row);
    let mut lines: Vec<_> = rows.chain(letters.iter().map(line_of_letter)).collect();
    lines.extend(store.rules().unwrap().iter().map(line_of_rule));
    lines.sort();
    lines.join("")
}

fn line_of_row(row: &Row) -> String {
    let text = String::from_utf8_lossy(&row.payload);
    let mut line = format!(
        "{text}: {} due {} {}",
        row.id,
        row.due.as_millis(),
        row.kind
    );
    let _ = write!(line, ", {} attempts, {} crashes", row.attempts, row.crashes);
    if let Some(key) = &row.key {
        let _ = write!(line, ", key {key}");
    }
    if let Some(calendar) = &row.calendar {
        let _ = write!(line, ", calendar {calendar}");
    }
    if let Some(held) = row.held() {
        let _ = write!(
            line,
            ", held {:?} since {}",
            held.why,
            held.since.as_millis()
        );
    }
    if let Some(expires) = row.expires() {
        let _ = write!(line, ", expires {}", expires.as_millis());
    }
    if let Some(limit) = row.time_limit() {
        let _ = write!(line, ", limit {} ms", limit.as_millis());
    }
    if let Some(trace) = row.traceparent() {
        let _ = write!(line, ", trace {trace}");
    }
    let flags = [(row.suspect, "suspect"), (row.superseded, "superseded")];
    for (_, flag) in flags.iter().filter(|(is_set, _)| *is_set) {
        let _ = write!(line, ", {flag}");
    }
    line + "\n"
}

fn line_of_letter(letter: &DeadLetter) -> String {
    let since = letter.since.as_millis();
    let row = line_of_row(&letter.row);
    format!("{}, dead since {since}: {}\n", row.trim(), letter.cause)
}

fn line_of_rule(rule: &Rule) -> String {
    let mut line = format!("rule for {}", rule.of);
    if let Some(since) = rule.paused_since {
        let _ = write!(line, ", paused since {}", since.as_millis());
    }
    if let Some(rate) = rule.rate {
        let _ = write!(line, ", {} a second", rate.per_second());
        let _ = write!(line, ", {} at once", rate.burst());
    }
    if let Some(calls) = rule.calls {
        let _ = write!(line, ", {calls} calls");
    }
    line + "\n"
}

/// A node that puts rows in, of each state.
struct Writer {
    store: Postgres,
    epochs: Vec<u64>,
}

impl Writer {
    fn row(&mut self, key: Option<&str>, due: StoreTime, payload: &str) -> Row {
        let id = self.store.new_id(key, due);
        let mut row = Row::new(id, due, "mail".into(), payload.as_bytes().into());
        row.key = key.map(Into::into);
        row
    }

    fn make(&mut self, write: Write) {
        let outcomes = self.store.commit(vec![write], &mut AllMayGo).unwrap();
        assert_eq!(outcomes.len(), 1);
    }

    fn arm(&mut self, key: Option<&str>, due: StoreTime, payload: &str) -> DurableId {
        let row = self.row(key, due, payload);
        let id = row.id;
        self.make(Write::Arm(row));
        id
    }

    fn settled(&self, id: DurableId) -> Settled {
        let epoch = self.epochs[usize::from(id.partition())];
        let due = id.first_due();
        Settled { id, due, epoch }
    }
}

/// Puts rows in, and is killed.
fn fill(schema: &Schema) {
    let mut store = schema.builder(&schema.database).node_name("dies");
    store = store.lease(Duration::from_secs(3_600));
    let mut store = store.connect().unwrap();
    let mut leases: Vec<Lease> = store.acquire().unwrap();
    leases.sort_by_key(|lease| lease.partition);
    let epochs = leases.iter().map(|lease| lease.epoch).collect();
    let now = StoreTime::reading(SharedStore::clock(&store).at_least());
    let mut node = Writer { store, epochs };
    let later = |at: u64| StoreTime::from_millis(FAR.as_millis() + at);
    let soon = |at: u64| now.after(Duration::from_millis(at));
    for number in 0..3 {
        let name = |what: &str| format!("{what} {number}");
        node.arm(None, later(number), &name("waits"));
        node.arm(Some(&name("key")), later(number), &name("has a key"));
        let id = node.arm(None, later(number), &name("moved"));
        node.make(Write::Move(Target::Id(id), later(number + 1_000)));
        let mut row = node.row(Some(&name("calendar")), later(number), &name("recurs"));
        row.calendar = Some("0 0 * * * Europe/Berlin".into());
        node.make(Write::Arm(row));
    }
    let claimed: Vec<DurableId> = (0..3)
        .map(|number| node.arm(None, soon(number), &format!("handed out {number}")))
        .collect();
    let superseded = node.arm(Some("taken"), soon(3), "superseded");
    let again = node.arm(None, soon(4), "tried again");
    let causes = [
        Cause::UnknownKind,
        Cause::Undecodable("no number".into()),
        Cause::Failed("no route".into()),
        Cause::Crashed,
    ];
    let buried: Vec<DurableId> = (0..causes.len() as u64)
        .map(|number| node.arm(None, soon(5 + number), &format!("buried {number}")))
        .collect();
    node.store.hand_out(soon(1_000)).unwrap();
    node.arm(Some("taken"), later(0), "has superseded it");
    let of = node.settled(claimed[2]);
    node.make(Write::Begin { of, crashes: 1 });
    let of = node.settled(again);
    node.make(Write::Retry {
        of,
        at: later(0),
        attempts: 2,
        crashes: 1,
    });
    for (id, cause) in buried.into_iter().zip(causes) {
        let of = node.settled(id);
        node.make(Write::Bury {
            of,
            cause,
            since: now,
            attempts: 3,
            crashes: 0,
            next: None,
        });
    }
    assert_ne!(superseded, claimed[0]);
    // From number 5 on.
    for (number, why) in [HeldWhy::Unhandled, HeldWhy::Paused]
        .into_iter()
        .enumerate()
    {
        let id = node.arm(None, later(0), &format!("held {number}"));
        let of = node.settled(id);
        node.make(Write::Hold {
            of,
            why,
            since: now,
        });
    }
    let mut row = node.row(None, later(0), "expires");
    row.set_expires(Some(later(7)));
    row.set_time_limit(Some(Duration::from_millis(250)));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    row.set_traceparent(Some(trace.into()));
    node.make(Write::Arm(row));
    let (kind, keys) = (RuleFor::Kind("paused".into()), RuleFor::Keys("key".into()));
    let count = NonZeroU32::new(4).unwrap();
    let rate = Rate::new(2.5, count);
    node.make(Write::Rule(kind, RuleChange::Pause(now)));
    node.make(Write::Rule(keys.clone(), RuleChange::Rate(rate)));
    node.make(Write::Rule(keys, RuleChange::Calls(Some(count))));
}

/// Writes the golden files of this version's schema: `tests/golden/README.md` says when.
#[test]
#[ignore = "it writes files, once for a version of the schema"]
fn write_the_schema() {
    let database = env::var("WHEELWORK_POSTGRES").expect("scripts/with-postgres sets it");
    let bin = PathBuf::from(env::var("WHEELWORK_POSTGRES_BIN").expect("it sets this, too"));
    let schema = Schema {
        database: database.clone(),
        name: GOLDEN.into(),
    };
    fill(&schema);
    let dump = Command::new(bin.join("pg_dump"))
        .args(["--dbname", &database, "--schema", GOLDEN])
        .args(["--inserts", "--no-owner", "--no-privileges"])
        .output()
        .unwrap();
    assert!(dump.status.success(), "{dump:?}");
    let mut client = Client::connect(&database, NoTls).unwrap();
    let number: i64 = client
        .query_one("SELECT value FROM golden.setting WHERE name = 'step'", &[])
        .unwrap()
        .get(0);
    // What it sets for the whole session concerns psql alone.
    let dump = String::from_utf8(dump.stdout).unwrap();
    let is_kept = |line: &&str| {
        let is_setting =
            line.starts_with("SET ") || line.starts_with("SELECT pg_catalog.set_config");
        !is_setting && !line.starts_with("--") && !line.starts_with('\\') && !line.is_empty()
    };
    let lines: Vec<&str> = dump.lines().filter(is_kept).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let file = format!("{folder}/schema-{number}");
    fs::write(format!("{file}.sql"), lines.join("\n") + "\n").unwrap();
    let over = "UPDATE golden.node SET until = now()";
    client.batch_execute(over).unwrap();
    let mut store = schema.store();
    assert_eq!(store.acquire().unwrap().len(), 256);
    fs::write(format!("{file}.txt"), seen(&mut store)).unwrap();
}
