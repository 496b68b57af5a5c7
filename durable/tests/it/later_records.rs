//! Promise: a record of a run that a later program has written is listed with what this program
//! knows of it, or is counted; and it stays as it is in every copy. A record that is damaged is
//! counted too. Neither keeps timers from firing.
//!
//! The records are made by this program, and changed in the file afterwards.

use crate::durable_model::Folder;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{DonePlace, DoneRange, SliceLimit, Store};
use wheelwork_durable::{DoneEnding, DoneQuery, DoneTimer, Durable, Redb, StoreError};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

const DONE: TableDefinition<'_, &[u8; 26], &[u8]> = TableDefinition::new("done");

/// A record has bytes that this program does not know, behind all others.
const MORE: u8 = 128;
/// It has an ending.
const ENDING: u8 = 8;
/// Where that is, if it has begun, took no time, and had one attempt.
const ENDING_AT: usize = 9;
/// A flag of a later format.
const LATER: u8 = 64;

/// The bytes of the table, by key.
fn table(path: &Path) -> BTreeMap<[u8; 26], Vec<u8>> {
    let database = Database::create(path).unwrap();
    let table = database.begin_read().unwrap().open_table(DONE).unwrap();
    let entries = table.iter().unwrap().map(|entry| entry.unwrap());
    let entries = entries.map(|(key, value)| (*key.value(), value.value().to_vec()));
    entries.collect()
}

/// With the checksum of a record at this place.
fn sealed(place: DonePlace, body: &[u8]) -> Vec<u8> {
    let times = u128::from(place.ended.as_millis()) << 64 | u128::from(place.due.as_millis());
    let under = place.id.to_bits().rotate_left(16) ^ times;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&under.to_le_bytes());
    sum.update(body);
    [body, &sum.finalize().to_le_bytes()].concat()
}

/// A file with this many records, which are returned in their order.
fn file(folder: &Folder, clock: &ManualClock, records: usize) -> Vec<DoneTimer> {
    let timers = start(folder, clock);
    let many = (0..records).map(|number| ("mail", HOUR, format!("{number}")));
    timers.schedule_many(many).unwrap();
    clock.advance(2 * HOUR);
    timers.stop().unwrap();
    drop(timers);
    let mut store = Redb::open(folder.file()).unwrap();
    let done = store.done().unwrap();
    let done = done.look(&DoneRange::ALL, usize::MAX).unwrap().done;
    assert_eq!(done.len(), records);
    done
}

fn start(folder: &Folder, clock: &ManualClock) -> Durable {
    let slice = SliceLimit {
        rows: 16,
        bytes: 1 << 20,
    };
    Durable::builder(Redb::open(folder.file()).unwrap())
        .clock(clock.clone())
        .slices(slice)
        .on("mail", |_| Ok(()))
        .keep_done(DAY)
        .start()
        .unwrap()
}

/// Changes the bytes of records, which get a checksum that is right.
fn change(path: &Path, records: &[DoneTimer], mut change: impl FnMut(usize, &mut Vec<u8>)) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut table = transaction.open_table(DONE).unwrap();
    let entries = table.iter().unwrap().map(|entry| entry.unwrap());
    let entries = entries.map(|(key, value)| (*key.value(), value.value().to_vec()));
    let entries: Vec<_> = entries.collect();
    assert_eq!(entries.len(), records.len());
    for (number, ((key, value), done)) in entries.into_iter().zip(records).enumerate() {
        let mut body = value[..value.len() - 4].to_vec();
        assert_eq!(sealed(done.place(), &body), value);
        change(number, &mut body);
        table.insert(&key, &*sealed(done.place(), &body)).unwrap();
    }
    drop(table);
    transaction.commit().unwrap();
}

/// All pages of a query: the runs, and how many were left out.
fn listed(timers: &Durable, mut query: DoneQuery) -> (Vec<DoneTimer>, usize) {
    let (mut done, mut unreadable) = (Vec::new(), 0);
    loop {
        let page = timers.done_page(&query).unwrap();
        done.extend(page.done);
        unreadable += page.unreadable;
        match page.next {
            Some(next) => query = query.after(next),
            None => return (done, unreadable),
        }
    }
}

/// A timer is armed, and fires.
fn goes_on(timers: &Durable, clock: &ManualClock) {
    let before = timers.stats().done;
    timers.schedule("mail", HOUR, "").unwrap();
    clock.advance(HOUR);
    assert_eq!(timers.stats().done, before + 1);
}

#[test]
fn records_of_a_later_program_are_listed_and_kept() {
    let (folder, clock) = (Folder::new("later-records"), ManualClock::new());
    let records = file(&folder, &clock, 40);
    change(&folder.file(), &records, |number, body| match number % 4 {
        0 => {}
        1 => {
            body[0] |= MORE;
            body.extend_from_slice(&[3, 7, 8, 9]);
        }
        2 => {
            body[0] |= ENDING;
            body.insert(ENDING_AT, 77);
        }
        _ => body[0] |= LATER,
    });
    let before = table(&folder.file());
    let report = Redb::check(folder.file()).unwrap();
    assert_eq!((report.done, report.flaws.len()), (40, 10));
    let told = |line: &String| line.starts_with("done, ") && line.contains("a later program");
    assert!(report.flaws.iter().all(told), "{:?}", report.flaws);
    let known = records.iter().enumerate().filter(|(at, _)| at % 4 != 3);
    let known: Vec<_> = (known.map(|(at, done)| {
        let mut done = done.clone();
        if at % 4 == 2 {
            done.ending = DoneEnding::Other;
        }
        done
    }))
    .collect();
    let timers = start(&folder, &clock);
    for limit in [1, 3, 100] {
        let query = DoneQuery::new().limit(limit);
        let (found, unreadable) = listed(&timers, query.clone().oldest_first());
        assert_eq!((&found, unreadable), (&known, 10), "pages of {limit}");
        let (mut found, unreadable) = listed(&timers, query);
        found.reverse();
        assert_eq!((&found, unreadable), (&known, 10), "pages of {limit}");
    }
    assert_eq!(timers.stats().done_kept, 40);
    let copy = folder.path().join("copy.redb");
    assert_eq!(timers.backup(&copy).unwrap().done, 40);
    goes_on(&timers, &clock);
    timers.stop().unwrap();
    drop(timers);
    let now = table(&folder.file());
    assert_eq!(now.len(), 41);
    assert!(before.iter().all(|(key, value)| now[key] == *value));
    Redb::compact(folder.file()).unwrap();
    assert!(table(&folder.file()) == now);
    let saved = folder.path().join("saved.redb");
    // (The copy is not sound, because of ten records. So it is read without redb.)
    let report = Redb::salvage(&copy, &saved).unwrap();
    assert_eq!((report.done, report.lost), (40, Vec::<String>::new()));
    for path in [copy, saved] {
        assert!(table(&path) == before, "{path:?}");
    }
}

#[test]
fn a_damaged_record_is_left_out_and_goes_in_its_time() {
    let (folder, clock) = (Folder::new("damaged-records"), ManualClock::new());
    let records = file(&folder, &clock, 40);
    let database = Database::create(folder.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut done = transaction.open_table(DONE).unwrap();
    let entry = done.iter().unwrap().nth(20).unwrap().unwrap();
    let (key, mut value) = (*entry.0.value(), entry.1.value().to_vec());
    drop(entry);
    value[2] ^= 1;
    done.insert(&key, &*value).unwrap();
    drop(done);
    transaction.commit().unwrap();
    drop(database);
    let timers = start(&folder, &clock);
    let (found, unreadable) = listed(&timers, DoneQuery::new().oldest_first().limit(7));
    assert_eq!(unreadable, 1);
    assert_eq!(found[..20], records[..20]);
    assert_eq!(found[20..], records[21..]);
    // A copy would hand the damage on. It is refused, and the timers go on.
    let copy = folder.path().join("copy.redb");
    let refused = timers.backup(&copy).unwrap_err().to_string();
    assert!(refused.contains("its checksum is wrong"), "{refused}");
    goes_on(&timers, &clock);
    clock.advance(2 * DAY);
    assert_eq!(listed(&timers, DoneQuery::new()), (Vec::new(), 0));
    timers.backup(&copy).unwrap();
    timers.stop().unwrap();
    drop(timers);
    assert!(Redb::check(folder.file()).unwrap().is_sound());
}

/// Slices that have no record which can be read, at the front, in the middle, and at the end.
fn slices_that_cannot_be_read_end_no_list() {
    let (folder, clock) = (Folder::new("unread-slices"), ManualClock::new());
    let records = file(&folder, &clock, 200);
    let is_known = |number: usize| number % 80 >= 60 && number < 180;
    change(&folder.file(), &records, |number, body| {
        body[0] |= if is_known(number) { 0 } else { LATER };
    });
    let known = records.iter().enumerate().filter(|(at, _)| is_known(*at));
    let known: Vec<_> = known.map(|(_, done)| done.clone()).collect();
    assert_eq!(known.len(), 40);
    let timers = start(&folder, &clock);
    for limit in [3, 1_000] {
        let query = DoneQuery::new().limit(limit);
        let (found, unreadable) = listed(&timers, query.clone().oldest_first());
        assert_eq!((&found, unreadable), (&known, 160));
        let (mut found, unreadable) = listed(&timers, query.kind("mail"));
        found.reverse();
        assert_eq!((&found, unreadable), (&known, 160));
    }
    timers.stop().unwrap();
}

#[test]
fn records_behind_some_that_cannot_be_read_are_listed() {
    slices_that_cannot_be_read_end_no_list();
}

#[cfg(feature = "__faults")]
#[test]
fn a_list_that_ends_at_what_cannot_be_read_is_noticed() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::UnreadableEndsList));
    let ended = std::panic::catch_unwind(slices_that_cannot_be_read_end_no_list);
    set_durable_fault(None);
    assert!(ended.is_err());
}

/// A copy without such a table would lose what is in it. A file that has one works.
#[test]
fn a_file_with_a_table_of_a_later_program_is_not_copied() {
    let one = |name: &str| -> fn(&redb::WriteTransaction) {
        match name {
            "plan" => |transaction| {
                let plan = TableDefinition::<u64, u64>::new("plan");
                transaction.open_table(plan).unwrap().insert(1, 2).unwrap();
            },
            _ => |transaction| {
                let tags = redb::MultimapTableDefinition::<u64, u64>::new("tags");
                let mut tags = transaction.open_multimap_table(tags).unwrap();
                tags.insert(1, 2).unwrap();
            },
        }
    };
    for name in ["plan", "tags"] {
        let (folder, clock) = (Folder::new("later-table"), ManualClock::new());
        let records = file(&folder, &clock, 3);
        let database = Database::create(folder.file()).unwrap();
        let transaction = database.begin_write().unwrap();
        one(name)(&transaction);
        transaction.commit().unwrap();
        drop(database);
        let timers = start(&folder, &clock);
        goes_on(&timers, &clock);
        timers.stop().unwrap();
        drop(timers);
        let (copy, saved) = (folder.path().join("copy"), folder.path().join("saved"));
        let mut store = Redb::open(folder.file()).unwrap();
        let refused = store.snapshot().unwrap().unwrap().copy(&copy).unwrap_err();
        drop(store);
        let of_sound = Redb::salvage(folder.file(), &saved).unwrap_err();
        for error in [refused, of_sound, Redb::compact(folder.file()).unwrap_err()] {
            assert!(matches!(error, StoreError::Later(_)), "{error}");
            let named = format!("it has a table {name}, which this program does not know");
            assert!(error.to_string().contains(&named), "{error}");
        }
        assert!(!copy.exists() && !saved.exists());
        assert!(Redb::check(folder.file()).unwrap().is_sound());
        // What is saved of a damaged file lacks the table, and the report says so.
        let mut store = Redb::open(folder.file()).unwrap();
        let all = store.done().unwrap().look(&DoneRange::ALL, 9).unwrap().done;
        drop(store);
        assert_eq!(all.len(), records.len() + 1);
        change(&folder.file(), &all, |_, body| body[0] |= LATER);
        let report = Redb::salvage(folder.file(), &saved).unwrap();
        let lost = format!("{name}: this program does not know the table");
        assert_eq!((report.done, report.lost), (4, vec![lost]));
    }
}
