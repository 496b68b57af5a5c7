//! A plain poller, as many programs have one: a table with an index by deadline. Each second a
//! transaction takes the timers that are due, a thousand at most, by `FOR UPDATE SKIP LOCKED`,
//! handles them, and deletes them. After a full thousand it looks again at once.

use super::subject::{Opening, Subject};
use crate::ledger::Ledger;
use crate::timers::{Timer, now_ms};
use postgres::{Client, NoTls};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_secs(1);
const LIMIT: i64 = 1_000;

/// It also looks whether it is to end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const TABLE: &str = "CREATE TABLE IF NOT EXISTS timer (id bigserial PRIMARY KEY, \
                     due bigint NOT NULL, number bigint NOT NULL, body text NOT NULL); \
                     CREATE INDEX IF NOT EXISTS timer_due ON timer (due)";
const INSERT: &str = "INSERT INTO timer (due, number, body) \
                      SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])";
const TAKE: &str = "SELECT id, due, number FROM timer WHERE due <= $1 ORDER BY due \
                    LIMIT $2 FOR UPDATE SKIP LOCKED";
const DELETE: &str = "DELETE FROM timer WHERE id = ANY($1)";

pub(crate) struct Poller {
    url: String,
    poll: Duration,
    client: Client,
    ledger: Arc<Ledger>,
    worker: Option<Worker>,
}

struct Worker {
    ends: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<(), String>>,
}

pub(crate) struct Caller {
    client: Client,
    insert: postgres::Statement,
}

fn failed(error: impl Display) -> String {
    format!("poller: {error}")
}

fn connect(url: &str) -> Result<Client, String> {
    Client::connect(url, NoTls).map_err(failed)
}

/// One look. Returns whether it has found all that it may take.
fn poll(client: &mut Client, ledger: &Ledger) -> Result<bool, postgres::Error> {
    let mut transaction = client.transaction()?;
    let rows = transaction.query(TAKE, &[&(now_ms() as i64), &LIMIT])?;
    let mut ids = Vec::with_capacity(rows.len());
    for row in &rows {
        let [id, due, number] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
        ledger.fired(number as u64, due as u64);
        ids.push(id);
    }
    if ledger.hangs && !ids.is_empty() {
        loop {
            thread::park();
        }
    }
    if !ids.is_empty() {
        transaction.execute(DELETE, &[&ids])?;
    }
    transaction.commit()?;
    Ok(ids.len() as i64 == LIMIT)
}

impl Subject for Poller {
    type Caller = Caller;

    const BATCH: usize = 5_000;
    const BATCHES: usize = 4;

    fn open(opening: &Opening, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let mut client = connect(&opening.url)?;
        client.batch_execute(TABLE).map_err(failed)?;
        Ok(Self {
            url: opening.url.clone(),
            poll: opening.poll.unwrap_or(POLL),
            client,
            ledger: ledger.clone(),
            worker: None,
        })
    }

    fn caller(&self) -> Result<Caller, String> {
        let mut client = connect(&self.url)?;
        let insert = client.prepare(INSERT).map_err(failed)?;
        Ok(Caller { client, insert })
    }

    fn arm(caller: &mut Caller, timers: &[Timer]) -> Result<(), String> {
        let dues: Vec<i64> = timers.iter().map(|timer| timer.due_ms as i64).collect();
        let numbers: Vec<i64> = timers.iter().map(|timer| timer.number as i64).collect();
        let bodies: Vec<&str> = timers.iter().map(|timer| timer.body.as_str()).collect();
        let inserted = caller
            .client
            .execute(&caller.insert, &[&dues, &numbers, &bodies]);
        inserted.map(drop).map_err(failed)
    }

    fn work(&mut self) -> Result<(), String> {
        let mut client = connect(&self.url)?;
        let (ledger, interval) = (self.ledger.clone(), self.poll);
        let ends = Arc::<AtomicBool>::default();
        let is_over = ends.clone();
        let thread = thread::spawn(move || {
            // Ordering: Relaxed. Seen by the next look.
            while !is_over.load(Relaxed) {
                let start = Instant::now();
                while poll(&mut client, &ledger).map_err(failed)? {}
                while start.elapsed() < interval && !is_over.load(Relaxed) {
                    thread::sleep(LOOK_AGAIN.min(interval));
                }
            }
            Ok(())
        });
        self.worker = Some(Worker { ends, thread });
        Ok(())
    }

    fn left(&mut self) -> Result<bool, String> {
        let left = "SELECT EXISTS (SELECT FROM timer)";
        let row = self.client.query_one(left, &[]).map_err(failed)?;
        Ok(row.get(0))
    }

    fn close(self) -> Result<(), String> {
        let Some(worker) = self.worker else {
            return Ok(());
        };
        // Ordering: Relaxed. The join below waits for who sees it.
        worker.ends.store(true, Relaxed);
        worker.thread.join().expect("it does not panic")
    }
}
