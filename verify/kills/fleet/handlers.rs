//! Handlers of a node: each tells when it starts and how it ends.

use crate::clock::now_ns;
use crate::wire::{Begun, Event, Kind, Teller};
use postgres::{Client, NoTls};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork_durable::{Delivery, DurableBuilder, HandlerResult, Postgres, RetryPolicy};
use wheelwork_kit::mix::mix;

/// The server's clock, in microseconds.
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// What a handler in a transaction does. The table has no unique key, so that two rows can be seen.
const INSERT: &str = "INSERT INTO check_done (number, fence) VALUES ($1, $2)";

/// Attempts of timers that are not to die: more than a run has take-overs.
const ATTEMPTS: u32 = 1_000_000;

/// Attempts of timers that are to die.
const ATTEMPTS_OF_DOOMED: u32 = 3;

/// Of each `SAMPLE` plain timers, one has a handler that asks for the server's clock.
const SAMPLE: u64 = 16;

/// What handlers have in common.
struct Handlers {
    teller: Arc<Teller>,
    /// The number of the next call: unique among all nodes.
    next: AtomicU64,
    database: String,
    client: Mutex<Option<Client>>,
}

/// A handler that runs.
struct Running<'a> {
    handlers: &'a Handlers,
    handling: u64,
    number: u64,
    attempt: u64,
}

impl Handlers {
    fn start(&self, delivery: &Delivery) -> Result<Running<'_>, String> {
        let handling = self.next.fetch_add(1, Relaxed);
        let number = delivery.payload_text().parse();
        let number = number.map_err(|_| "no number in the payload".to_owned())?;
        let due = delivery.due().duration_since(std::time::UNIX_EPOCH);
        self.teller.tell_or_end(&[Event::Start(Begun {
            handling,
            number,
            id: delivery.id().to_bits(),
            fence: delivery.fence(),
            attempt: delivery.attempt(),
            due_ms: due.map_or(0, |due| due.as_millis() as i64),
            done_us: None,
        })]);
        Ok(Running {
            handlers: self,
            handling,
            number,
            attempt: u64::from(delivery.attempt()),
        })
    }

    /// The server's clock. `None`: it does not answer, or another handler asks.
    fn clock(&self) -> Option<i64> {
        let mut free = self.client.try_lock().ok()?;
        let mut client = match free.take() {
            Some(client) => client,
            None => Client::connect(&self.database, NoTls).ok()?,
        };
        let us = client.query_one(CLOCK, &[]).ok()?.get(0);
        *free = Some(client);
        Some(us)
    }
}

impl Running<'_> {
    /// Whether this attempt is to fail: the first, and of some the second one.
    fn fails(&self) -> bool {
        self.attempt <= mix(self.number) % 3
    }

    fn read_clock(&self, us: i64) {
        let handling = self.handling;
        self.handlers
            .teller
            .tell_or_end(&[Event::Clock { handling, us }]);
    }

    fn end(self, is_ok: bool) -> HandlerResult {
        let handling = self.handling;
        self.handlers
            .teller
            .tell_or_end(&[Event::End { handling, is_ok }]);
        if is_ok {
            Ok(())
        } else {
            Err("on purpose".into())
        }
    }
}

/// Sets the handlers of a node, whose calls have numbers from `first` on. It gets no handler of the
/// kind `without`.
pub(crate) fn set(
    builder: DurableBuilder<Postgres>,
    teller: &Arc<Teller>,
    database: &str,
    first: u64,
    without: Option<&str>,
) -> DurableBuilder<Postgres> {
    let handlers = Arc::new(Handlers {
        teller: teller.clone(),
        next: AtomicU64::new(first),
        database: database.to_owned(),
        client: Mutex::new(None),
    });
    let [plain, flaky, batch, slow, inside, doomed] = std::array::from_fn(|_| handlers.clone());
    let again = RetryPolicy::new()
        .first(Duration::from_millis(50))
        .cap(Duration::from_millis(400));
    let builder = builder
        .retry_policy(again.attempts(ATTEMPTS))
        .retry_policy_for(Kind::Doomed.name(), again.attempts(ATTEMPTS_OF_DOOMED))
        .on(Kind::Plain.name(), move |delivery| {
            let running = plain.start(delivery)?;
            if running.number.is_multiple_of(SAMPLE)
                && let Some(us) = plain.clock()
            {
                running.read_clock(us);
            }
            running.end(true)
        })
        .on(Kind::Flaky.name(), move |delivery| {
            let running = flaky.start(delivery)?;
            let (fails, number) = (running.fails(), running.number);
            let ended = running.end(!fails);
            // (A panic is told by the runtime's hook, which would fill the screen.)
            if fails && number.is_multiple_of(7) {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            ended
        })
        .on(Kind::Slow.name(), move |delivery| {
            let running = slow.start(delivery)?;
            thread::sleep(Duration::from_millis(100 + mix(running.number) % 200));
            running.end(true)
        })
        .max_calls(Kind::Slow.name(), NonZeroUsize::MIN.saturating_add(1))
        .on_in_transaction(Kind::InTransaction.name(), move |delivery, transaction| {
            let running = inside.start(delivery)?;
            running.read_clock(transaction.query_one(CLOCK, &[])?.get(0));
            let (number, fence) = (running.number as i64, delivery.fence() as i64);
            transaction.execute(INSERT, &[&number, &fence])?;
            if running.number.is_multiple_of(11) {
                thread::sleep(Duration::from_millis(mix(running.number) % 50));
            }
            let fails = running.number.is_multiple_of(5) && running.fails();
            running.end(!fails)
        })
        .on(Kind::Doomed.name(), move |delivery| {
            doomed.start(delivery)?.end(false)
        });
    if without == Some(Kind::Batch.name()) {
        return builder;
    }
    builder.on_batch(Kind::Batch.name(), move |deliveries| {
        let started: Vec<_> = deliveries.iter().map(|one| batch.start(one)).collect();
        let end = |started: Result<Running<'_>, String>| {
            let running = started?;
            let fails = running.number.is_multiple_of(5) && running.fails();
            running.end(!fails)
        };
        started.into_iter().map(end).collect()
    })
}

/// When `due` is, by the server's clock, in milliseconds.
pub(crate) fn server_ms(offset_ns: i64) -> i64 {
    (now_ns() as i64 + offset_ns) / 1_000_000
}
