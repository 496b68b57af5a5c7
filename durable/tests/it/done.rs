//! Promise: with `keep_done` a run that is done stays listed for a time, and has exactly one
//! record. Without it nothing of this is done.
//!
//! The stores' part is demanded in `../common/stores/done.rs`. The simulation holds it against what
//! handlers said (`../common/simulation/ledger/writes.rs`).

use crate::durable_model::{Folder, done};
use crate::over_memory::{Over, OverMemory};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, SliceLimit, Store, Write};
use wheelwork_durable::{
    Delivery, DoneCursor, DoneEnding, DonePage, DoneQuery, DoneTimer, Durable, DurableBuilder,
    DurableId, HandlerResult, Later, Memory, OpenError, Redb, RetryPolicy, SpawnedFuture,
    StoreError, StoreTime,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// All pages of a query, each as it comes.
fn pages(timers: &Durable, mut query: DoneQuery, mut each: impl FnMut()) -> Vec<DonePage> {
    let mut pages = Vec::new();
    loop {
        let page = timers.done_page(&query).unwrap();
        let next = page.next;
        pages.push(page);
        each();
        match next {
            Some(next) => query = query.after(next),
            None => return pages,
        }
    }
}

fn runs(timers: &Durable, query: DoneQuery) -> Vec<DoneTimer> {
    let pages = pages(timers, query, || {});
    pages.into_iter().flat_map(|page| page.done).collect()
}

/// All that are kept, the oldest first.
fn all(timers: &Durable) -> Vec<DoneTimer> {
    runs(timers, DoneQuery::new().oldest_first())
}

/// Timers whose handlers fail as often as the payload says, or put themselves off.
fn shaky(store: impl Store, clock: &ManualClock) -> DurableBuilder<impl Store> {
    Durable::builder(store)
        .clock(clock.clone())
        .retry_policy(RetryPolicy::new().attempts(3))
        .on("mail", |mail: &Delivery| {
            let text = mail.payload_text();
            let fails: u32 = text.parse().unwrap_or_default();
            match mail.attempt() <= fails {
                true => Err("no server".into()),
                false => Ok(()),
            }
        })
        .on("later", |later: &Delivery| {
            match later.due() == later.id().first_due().system_time() {
                true => Err(Later::after(HOUR).into()),
                false => Ok(()),
            }
        })
}

fn a_run_that_is_done_has_one_record(store: impl Store) {
    let clock = ManualClock::new();
    let timers = shaky(store, &clock).keep_done(7 * DAY).start().unwrap();
    let begun = StoreTime::reading(clock.system_time());
    let at = |after: Duration| begun.after(after);
    let plain = timers.key("one").schedule("mail", SECOND, "").unwrap();
    clock.advance(2 * SECOND);
    let [done] = &all(&timers)[..] else {
        panic!("one has run")
    };
    assert_eq!((done.id, done.due), (plain, at(SECOND)));
    assert_eq!((&*done.kind, done.key.as_deref()), ("mail", Some("one")));
    assert_eq!(done.began, Some(at(SECOND)));
    assert_eq!((done.ended, done.took), (at(SECOND), Duration::ZERO));
    assert_eq!((done.attempts, done.crashes), (1, 0));
    assert_eq!((&*done.node, done.ending), ("", DoneEnding::Done));
    // It is no timer any more.
    assert_eq!(timers.get(plain).unwrap(), None);

    // A retry leaves none, nor does one that comes later, or dies.
    let again = timers.schedule("mail", SECOND, "1").unwrap();
    let dies = timers.schedule("mail", SECOND, "9").unwrap();
    let later = timers.schedule("later", SECOND, "").unwrap();
    let cancelled = timers.schedule("mail", 2 * DAY, "").unwrap();
    timers.cancel(cancelled).unwrap();
    clock.advance(DAY);
    let rest = &all(&timers)[1..];
    let ids: BTreeSet<_> = rest.iter().map(|done| done.id).collect();
    assert_eq!((rest.len(), ids), (2, BTreeSet::from([again, later])));
    for done in rest {
        let (attempts, due) = match done.id == again {
            true => (2, again.first_due().after(MS)),
            false => (1, later.first_due().after(HOUR)),
        };
        assert_eq!(done.attempts, attempts);
        assert!(done.due >= due, "{done:?} is of the last delivery");
    }
    let letters = timers.dead_letters(None, 9).unwrap();
    assert_eq!(letters[0].row.id, dies);
    timers.revive(dies).unwrap();
    assert_eq!(timers.stats().done, 3);
    timers.stop().unwrap();
}

#[test]
fn a_run_that_is_done_has_one_record_in_memory() {
    a_run_that_is_done_has_one_record(Memory::new());
}

#[test]
fn a_run_that_is_done_has_one_record_in_a_file() {
    let folder = Folder::new("done");
    a_run_that_is_done_has_one_record(Redb::open(folder.file()).unwrap());
}

/// A future that takes two polls.
struct Twice(bool);

impl Future for Twice {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

#[test]
fn a_batch_and_a_future_have_their_records() {
    let clock = ManualClock::new();
    let futures: Arc<Mutex<Vec<SpawnedFuture>>> = Arc::default();
    let spawned = futures.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .keep_done(DAY)
        .on_batch("batch", |timers: &[Delivery]| {
            let fails = |timer: &Delivery| timer.payload() == b"fails";
            let say = |fails| if fails { Err("no".into()) } else { Ok(()) };
            timers.iter().map(|timer| say(fails(timer))).collect()
        })
        .spawner(move |future| spawned.lock().unwrap().push(future))
        .on_async("future", |_| Twice(false))
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    let many = (0..10).map(|number| ("batch", SECOND, if number == 4 { "fails" } else { "" }));
    timers.schedule_many(many).unwrap();
    let id = timers.schedule("future", 5 * SECOND, "").unwrap();
    clock.advance(10 * SECOND);
    let mut futures = std::mem::take(&mut *futures.lock().unwrap());
    let mut context = Context::from_waker(Waker::noop());
    // (Its executor was busy for 5 s. It has begun now, and takes 3 ms.)
    let mut future = futures.remove(0);
    assert!(future.as_mut().poll(&mut context).is_pending());
    clock.advance(3 * MS);
    assert!(future.as_mut().poll(&mut context).is_ready());
    let done = all(&timers);
    assert_eq!(done.len(), 10, "the one that has failed has none");
    let of_future = done.iter().find(|done| done.id == id).unwrap();
    assert_eq!(of_future.took, 3 * MS);
    let late = of_future.began.unwrap().since(of_future.due);
    assert_eq!(late, 5 * SECOND);
    assert_eq!(of_future.ended.since(of_future.due), late + 3 * MS);
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_leaves_a_record_of_each_run() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on("report", |_| Ok(()))
        .keep_done(DAY)
        .start()
        .unwrap();
    let calendar = "cron 0 * * * *"
        .parse::<wheelwork::calendar::Calendar>()
        .unwrap();
    let id = timers
        .key("hourly")
        .schedule_calendar("report", calendar, "")
        .unwrap();
    clock.advance(6 * HOUR);
    let done = all(&timers);
    assert_eq!(done.len(), 6);
    assert!(done.iter().all(|done| done.id == id && done.attempts == 1));
    let dues: BTreeSet<_> = done.iter().map(|done| done.due).collect();
    assert_eq!(dues.len(), 6, "each run has its own deadline");
    assert_eq!(runs(&timers, DoneQuery::new().id(id).limit(2)).len(), 6);
    timers.key("hourly").cancel().unwrap();
}

/// Records go when their time is over, and not before: also after many years that pass at once.
fn records_go_when_their_time_is_over(store: impl Store) {
    let clock = ManualClock::new();
    let timers = shaky(store, &clock).keep_done(7 * DAY).start().unwrap();
    for hour in 1..=4 {
        timers.schedule("mail", hour * HOUR, "").unwrap();
    }
    clock.advance(5 * HOUR);
    let ended: Vec<_> = all(&timers).iter().map(|done| done.ended).collect();
    assert_eq!(ended.len(), 4);
    for number in 0..4 {
        let over = ended[number].after(7 * DAY).system_time();
        let left = over.duration_since(clock.system_time()).unwrap();
        clock.advance(left);
        assert_eq!(all(&timers).len(), 4 - number, "it is kept for its time");
        clock.advance(MS);
        let now: Vec<_> = all(&timers).iter().map(|done| done.ended).collect();
        assert_eq!(now, ended[number + 1..], "and no longer");
    }
    // Many that end at once go in slices.
    timers
        .schedule_many((0..2_000).map(|_| ("later", HOUR, "")))
        .unwrap();
    clock.advance(3 * HOUR);
    assert_eq!(runs(&timers, DoneQuery::new().limit(1_000)).len(), 2_000);
    assert_eq!(timers.stats().done_kept, 2_000);
    clock.advance(10_000 * DAY);
    assert_eq!(all(&timers), []);
    // (It is counted once a second.)
    timers.schedule("later", HOUR, "").unwrap();
    clock.advance(HOUR / 2);
    assert_eq!(timers.stats().done_kept, 0);
}

#[test]
fn records_go_when_their_time_is_over_in_memory() {
    records_go_when_their_time_is_over(Memory::new());
}

#[test]
fn records_go_when_their_time_is_over_in_a_file() {
    let folder = Folder::new("done");
    records_go_when_their_time_is_over(Redb::open(folder.file()).unwrap());
}

#[cfg(feature = "__faults")]
#[test]
fn records_that_go_early_are_noticed() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::DoneForgottenEarly));
    let early = std::panic::catch_unwind(|| records_go_when_their_time_is_over(Memory::new()));
    set_durable_fault(None);
    assert!(early.is_err());
}

/// Pages go on inside a millisecond, in both directions, and miss no record that stays, while
/// others come and go.
fn pages_go_on_inside_a_millisecond(store: impl Store) {
    let clock = ManualClock::new();
    let slice = SliceLimit {
        rows: 64,
        bytes: 1 << 20,
    };
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .slices(slice)
        .on("mail", |_| Ok(()))
        .on("other", |_| Ok(()))
        .keep_done(DAY)
        .start()
        .unwrap();
    let begun = clock.system_time();
    let many = (0..1_000).map(|number| (["mail", "other"][number % 2], HOUR, ""));
    let ids: BTreeSet<DurableId> = timers.schedule_many(many).unwrap().into_iter().collect();
    clock.advance(2 * HOUR);
    let until = clock.system_time();
    for oldest_first in [false, true] {
        let mut query = DoneQuery::new().limit(7).ended(begun..until);
        if oldest_first {
            query = query.oldest_first();
        }
        let pages = pages(&timers, query, || {
            timers.schedule("mail", Duration::ZERO, "").unwrap();
            clock.advance(MS);
        });
        assert!(pages.len() > 140, "{} pages", pages.len());
        let done: Vec<_> = pages.into_iter().flat_map(|page| page.done).collect();
        let places: Vec<_> = done.iter().map(DoneTimer::place).collect();
        assert!(places.is_sorted_by(|one, other| (one < other) == oldest_first));
        let found: BTreeSet<_> = done.iter().map(|done| done.id).collect();
        assert_eq!(found, ids);
    }
    let of = |query: DoneQuery| runs(&timers, query.limit(100));
    let others = of(DoneQuery::new().kind("other"));
    assert_eq!(others.len(), 500);
    assert_eq!(of(DoneQuery::new().ended(..begun + HOUR)), []);
    assert_eq!(of(DoneQuery::new().id(others[9].id)), [others[9].clone()]);
    assert_eq!(of(DoneQuery::new().key_prefix("")), []);
    let page = timers.done_page(&DoneQuery::new().limit(0)).unwrap();
    assert_eq!(page.done.len(), 1, "0 counts as 1");
    let cursor = page.next.unwrap();
    assert_eq!(cursor.to_string().parse::<DoneCursor>(), Ok(cursor));
}

#[test]
fn pages_go_on_inside_a_millisecond_in_memory() {
    pages_go_on_inside_a_millisecond(Memory::new());
}

#[test]
fn pages_go_on_inside_a_millisecond_in_a_file() {
    let folder = Folder::new("done");
    let store = Redb::builder().sweep_at(64, 4_096);
    pages_go_on_inside_a_millisecond(store.open(folder.file()).unwrap());
}

/// A program without it writes nothing of this, and leaves alone what is there; with a time of zero
/// it removes that.
#[test]
fn without_it_a_file_has_no_record() {
    let folder = Folder::new("done");
    let clock = ManualClock::new();
    let live = |keep: Option<Duration>| {
        let store = Redb::open(folder.file()).unwrap();
        let mut builder = shaky(store, &clock);
        if let Some(keep) = keep {
            builder = builder.keep_done(keep);
        }
        let timers = builder.start().unwrap();
        timers.schedule("mail", SECOND, "").unwrap();
        clock.advance(10 * SECOND);
        let (kept, stats) = (all(&timers).len(), timers.stats());
        assert_eq!(stats.done, 1);
        timers.stop().unwrap();
        let report = Redb::check(folder.file()).unwrap();
        assert!(report.is_sound(), "{:?}", report.flaws);
        (kept, report.done)
    };
    assert_eq!(live(None), (0, 0));
    let before = std::fs::read(folder.file()).unwrap();
    let has_table = |image: &[u8]| image.windows(4).any(|name| name == b"done");
    assert!(!has_table(&before), "it has not even a table");
    assert_eq!(live(Some(DAY)), (1, 1));
    assert_eq!(live(None), (1, 1), "they stay");
    clock.advance(100 * DAY);
    assert_eq!(live(None), (1, 1));
    assert_eq!(live(Some(DAY)), (1, 1), "the old one is gone");
    assert_eq!(live(Some(Duration::ZERO)), (0, 0));
}

/// What a store without records is asked for.
struct Plain {
    memory: Memory,
    kept: Arc<AtomicU32>,
}

impl OverMemory for Plain {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let is_kept = |write: &Write| matches!(write, Write::AckKept { .. });
        let kept = writes.iter().filter(|write| is_kept(write)).count();
        self.kept.fetch_add(kept as u32, SeqCst);
        self.memory.commit(writes, gate)
    }
}

#[test]
fn a_store_without_records_is_asked_for_none() {
    let kept = Arc::new(AtomicU32::new(0));
    let store = || {
        Over(Plain {
            memory: Memory::new(),
            kept: kept.clone(),
        })
    };
    let clock = ManualClock::new();
    let refused = shaky(store(), &clock).keep_done(DAY).start();
    assert!(matches!(refused, Err(OpenError::Setting(_))));
    let timers = shaky(store(), &clock).start().unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(HOUR);
    assert_eq!(timers.stats().done, 1);
    assert_eq!(all(&timers), []);
    assert_eq!(kept.load(SeqCst), 0);
}

#[test]
fn copies_have_the_records() {
    let folder = Folder::new("done");
    let clock = ManualClock::new();
    let store = Redb::open(folder.file()).unwrap();
    let timers = shaky(store, &clock).keep_done(DAY).start().unwrap();
    let many = (0..500).map(|number| ("later", HOUR, format!("{number}")));
    timers.schedule_many(many).unwrap();
    clock.advance(3 * HOUR);
    let kept = all(&timers);
    assert_eq!(kept.len(), 500);
    let copy = folder.path().join("copy.redb");
    assert_eq!(timers.backup(&copy).unwrap().done, 500);
    timers.stop().unwrap();
    drop(timers);
    let saved = folder.path().join("saved.redb");
    assert_eq!(Redb::salvage(folder.file(), &saved).unwrap().done, 500);
    Redb::compact(folder.file()).unwrap();
    for path in [folder.file(), copy.clone(), saved] {
        assert_eq!(Redb::check(&path).unwrap().done, 500, "{path:?}");
        assert_eq!(done(&mut Redb::open(path).unwrap()), kept);
    }
    // One byte of a key is damaged. All other pages are sound.
    let mut image = std::fs::read(&copy).unwrap();
    let ended = kept[100].ended.as_millis().to_be_bytes();
    let key = [&ended[2..], &kept[100].id.to_bits().to_be_bytes()[2..]].concat();
    let places = image.windows(key.len());
    let at: Vec<_> = (places.enumerate())
        .filter(|(_, bytes)| **bytes == key)
        .map(|(at, _)| at)
        .collect();
    assert!(!at.is_empty());
    at.iter().for_each(|&at| image[at] ^= 1);
    std::fs::write(&copy, &image).unwrap();
    assert!(!Redb::check(&copy).unwrap().is_sound());
    let saved = folder.path().join("rest.redb");
    let report = Redb::salvage(&copy, &saved).unwrap();
    assert!(report.done > 300 && report.done < 500, "{report:?}");
    assert!(report.lost.iter().any(|line| line.starts_with("done")));
    let rest = done(&mut Redb::open(saved).unwrap());
    assert_eq!(rest.len() as u64, report.done);
    assert!(rest.iter().all(|done| kept.contains(done)));
}
