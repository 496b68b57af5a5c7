//! What any program has to put around an engine: callers queue, one thread commits all that has
//! queued, another one polls for what is due each millisecond, and acknowledges it by that writer.
//!
//! A ticket is a number: that of the change among all that were queued. Changes are committed in
//! their order, so a ticket is resolved when that number of them is durable.
//!
//! The poller scans from where it has been before, not from the beginning, where an engine may have
//! to step over what was deleted. Whoever commits a row with an earlier deadline tells it.

use super::engine::{Change, Engine, Key, Reader};
use super::subject::Subject;
use crate::ledger::Ledger;
use crate::random::{Payload, now_ms};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wheelwork_kit::lock::lock;

/// The most changes of a commit, and rows of a scan.
pub(crate) const MOST: usize = 16_384;

const POLL: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Queue {
    changes: Vec<Change>,
    /// Changes that were queued so far.
    queued: u64,
    is_writer_idle: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Changes that are durable.
    durable: AtomicU64,
    /// Why there will be no more.
    failed: Mutex<Option<String>>,
    done: Condvar,
    acked: AtomicU64,
    /// The earliest deadline that was committed since the poller has looked.
    earliest: AtomicU64,
    stop_polling: AtomicBool,
}

/// An engine with a writer and a poller.
pub(crate) struct Grouped<E> {
    shared: Arc<Shared>,
    writer: JoinHandle<Result<E, String>>,
    poller: Option<JoinHandle<Result<(), String>>>,
    /// What the numbers of keys of this run are added to: no earlier run had them.
    numbers: u64,
    own_acks: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    server: Option<u32>,
}

/// Waits, whoever has panicked meanwhile.
fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Queues a change that is made of its number.
    fn push(&self, change: impl FnOnce(u64) -> Change) -> u64 {
        let mut queue = lock(&self.queue);
        queue.queued += 1;
        let ticket = queue.queued;
        queue.changes.push(change(ticket));
        self.wake(queue);
        ticket
    }

    /// Queues deletes. Returns the last one's ticket.
    fn push_deletes(&self, rows: &[(Key, Payload)]) -> u64 {
        let mut queue = lock(&self.queue);
        queue.queued += rows.len() as u64;
        let ticket = queue.queued;
        let deletes = rows.iter().map(|(key, _)| Change::Delete(*key));
        queue.changes.extend(deletes);
        self.wake(queue);
        ticket
    }

    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        if std::mem::take(&mut queue.is_writer_idle) {
            drop(queue);
            self.work.notify_one();
        }
    }

    fn wait_for(&self, ticket: u64) -> Result<(), String> {
        // Ordering: Acquire. Pairs with the writer's Release; what was committed is durable.
        if self.durable.load(Ordering::Acquire) >= ticket {
            return Ok(());
        }
        let mut failed = lock(&self.failed);
        loop {
            // Ordering: Acquire. As above.
            if self.durable.load(Ordering::Acquire) >= ticket {
                return Ok(());
            }
            if let Some(why) = failed.as_ref() {
                return Err(why.clone());
            }
            failed = wait(&self.done, failed);
        }
    }

    /// The writer's thread.
    fn write<E: Engine>(&self, mut engine: E) -> Result<E, String> {
        let mut changes = Vec::new();
        loop {
            let mut queue = lock(&self.queue);
            while queue.changes.is_empty() {
                if queue.stop {
                    return Ok(engine);
                }
                queue.is_writer_idle = true;
                queue = wait(&self.work, queue);
            }
            std::mem::swap(&mut changes, &mut queue.changes);
            drop(queue);
            for part in changes.chunks(MOST) {
                if let Err(why) = engine.commit(part) {
                    *lock(&self.failed) = Some(why.clone());
                    self.done.notify_all();
                    return Err(why);
                }
                let armed = part.iter().filter_map(|change| match change {
                    Change::Arm(key, _) => Some(key.due),
                    Change::Delete(_) => None,
                });
                if let Some(earliest) = armed.min() {
                    // Ordering: AcqRel. Pairs with the poller's swap: who sees it sees the commit.
                    self.earliest.fetch_min(earliest, Ordering::AcqRel);
                }
                // With the lock, so that nobody falls asleep between a look and this.
                let failed = lock(&self.failed);
                // Ordering: Release. Pairs with Acquire in `wait_for`.
                self.durable.fetch_add(part.len() as u64, Ordering::Release);
                drop(failed);
                self.done.notify_all();
            }
            changes.clear();
        }
    }

    /// The poller's thread.
    fn poll(&self, mut reader: impl Reader, ledger: &Ledger) -> Result<(), String> {
        let (mut rows, mut from) = (Vec::new(), 0);
        // Ordering: Relaxed. A flag that nothing hangs on.
        while !self.stop_polling.load(Ordering::Relaxed) {
            let now = now_ms();
            // Ordering: AcqRel. Pairs with the writer's minimum.
            let earliest = self.earliest.swap(u64::MAX, Ordering::AcqRel);
            let start = earliest.min(from);
            rows.clear();
            if start <= now {
                reader.due(start..=now, MOST, &mut rows)?;
            }
            let Some((last, _)) = rows.last() else {
                from = from.max(now);
                thread::sleep(POLL);
                continue;
            };
            let is_all = rows.len() < MOST;
            from = if is_all { now } else { last.due };
            for (key, _) in &rows {
                ledger.fired(key.due);
            }
            let ticket = self.push_deletes(&rows);
            self.wait_for(ticket)?;
            // Ordering: Relaxed. A count to look at.
            self.acked.fetch_add(rows.len() as u64, Ordering::Relaxed);
            if is_all {
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

impl<E: Engine> Subject for Grouped<E> {
    type Id = Key;
    type Armed = (Key, u64);
    type Cancelled = u64;

    fn open(folder: &Path, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let engine = E::open(folder, ledger)?;
        let (reader, own_acks, server) = (engine.reader()?, engine.own_acks(), engine.server());
        let shared = Arc::new(Shared::default());
        let named = |name: &str| thread::Builder::new().name(name.to_string());
        let no_thread = |error| format!("no thread: {error}");
        let of_writer = shared.clone();
        let writer = named("writer").spawn(move || of_writer.write(engine));
        let writer = writer.map_err(no_thread)?;
        let poller = reader.map(|reader| {
            let (shared, ledger) = (shared.clone(), ledger.clone());
            let poller = named("poller").spawn(move || shared.poll(reader, &ledger));
            poller.map_err(no_thread)
        });
        Ok(Self {
            shared,
            writer,
            poller: poller.transpose()?,
            numbers: now_ms() << 22,
            own_acks,
            server,
        })
    }

    fn arm(&self, due: u64, payload: &Payload) -> Result<(Key, u64), String> {
        let key = |ticket| Key {
            due,
            number: self.numbers + ticket,
        };
        let ticket = self
            .shared
            .push(|ticket| Change::Arm(key(ticket), *payload));
        Ok((key(ticket), ticket))
    }

    fn armed(&self, (key, ticket): (Key, u64)) -> Result<Key, String> {
        self.shared.wait_for(ticket).map(|()| key)
    }

    fn cancel(&self, key: Key) -> Result<u64, String> {
        Ok(self.shared.push(|_| Change::Delete(key)))
    }

    fn cancelled(&self, ticket: u64) -> Result<(), String> {
        self.shared.wait_for(ticket)
    }

    fn acked(&self) -> u64 {
        match &self.own_acks {
            Some(own) => own(),
            // Ordering: Relaxed. A count to look at.
            None => self.shared.acked.load(Ordering::Relaxed),
        }
    }

    fn server(&self) -> Option<u32> {
        self.server
    }

    fn close(self) -> Result<(), String> {
        let panicked = |_| "a thread has panicked".to_string();
        // Ordering: Relaxed. A flag that nothing hangs on.
        self.shared.stop_polling.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller {
            poller.join().map_err(panicked)??;
        }
        let mut queue = lock(&self.shared.queue);
        queue.stop = true;
        drop(queue);
        self.shared.work.notify_one();
        self.writer.join().map_err(panicked)??.close()
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::{Row, Span};
    use super::*;
    use std::collections::BTreeMap;

    type Rows = Arc<Mutex<BTreeMap<u128, Payload>>>;

    /// A map, and the sizes of the commits.
    struct Map(Rows, Arc<Mutex<Vec<usize>>>);

    impl Engine for Map {
        type Reader = Rows;

        fn open(_: &Path, _: &Arc<Ledger>) -> Result<Self, String> {
            Ok(Self(Rows::default(), Arc::default()))
        }

        fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
            lock(&self.1).push(changes.len());
            let mut rows = lock(&self.0);
            for change in changes {
                match *change {
                    Change::Arm(key, _) if key.due == u64::MAX => return Err("full".to_string()),
                    Change::Arm(key, payload) => _ = rows.insert(key.bits(), payload),
                    Change::Delete(key) => _ = rows.remove(&key.bits()),
                }
            }
            Ok(())
        }

        fn reader(&self) -> Result<Option<Rows>, String> {
            Ok(Some(self.0.clone()))
        }

        fn close(self) -> Result<(), String> {
            let left = lock(&self.0).len();
            Err(format!("{left} left"))
        }
    }

    impl Reader for Rows {
        fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String> {
            let map = lock(self);
            let found = map.range(Key::span(&span)).take(limit);
            rows.extend(found.map(|(&bits, &payload)| (Key::from_bits(bits), payload)));
            Ok(())
        }
    }

    fn open() -> (Grouped<Map>, Arc<Ledger>) {
        let ledger = Arc::<Ledger>::default();
        let subject = Grouped::open(Path::new(""), &ledger).expect("it opens");
        (subject, ledger)
    }

    #[test]
    fn what_is_due_fires_once_whenever_it_was_armed() {
        let (subject, ledger) = open();
        // Each one earlier than what the poller has seen.
        for due in (0..100).rev() {
            let ticket = subject.arm(due, &[0; 64]).expect("it is queued");
            subject.armed(ticket).expect("it is committed");
        }
        while subject.acked() < 100 {
            thread::yield_now();
        }
        assert_eq!(ledger.fired_so_far(), 100);
        assert_eq!(subject.close(), Err("0 left".to_string()));
    }

    #[test]
    fn what_is_cancelled_is_gone_and_the_rest_stays() {
        let (subject, ledger) = open();
        let far = now_ms() + 3_600_000;
        let tickets: Vec<_> = (0..10)
            .map(|more| subject.arm(far + more, &[0; 64]).expect("it is queued"))
            .collect();
        for ticket in tickets.into_iter().take(4) {
            let id = subject.armed(ticket).expect("it is committed");
            let ticket = subject.cancel(id).expect("it is queued");
            subject.cancelled(ticket).expect("it is committed");
        }
        assert_eq!(subject.close(), Err("6 left".to_string()));
        assert_eq!(ledger.fired_so_far(), 0);
    }

    #[test]
    fn a_commit_that_fails_is_told_to_all_who_wait() {
        let (subject, _) = open();
        let tickets = [0, 1].map(|_| subject.arm(u64::MAX, &[0; 64]).expect("it is queued"));
        for ticket in tickets {
            assert_eq!(subject.armed(ticket), Err("full".to_string()));
        }
        assert_eq!(subject.close(), Err("full".to_string()));
    }
}
