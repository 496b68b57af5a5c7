//! Promise: a file goes from its format to the present one in steps, and a later format is refused.
//!
//! - A step that a crash, a full disk or an error interrupts is made by the next open. It changes
//!   no row.
//! - A file of a later format is refused, by the name of the program that has written it, and stays
//!   as it was, byte for byte: also if its process was killed, so that redb would repair it.

use crate::durable_model::{Folder, HandedOut, row, settled, time};
use crate::faulty_disk::{Backend, Disk, Trouble, open, quiet};
use crate::golden::{image, names, text, text_of};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork_durable::contract::{HeldWhy, KindSlice, RuleChange, Store, Write};
use wheelwork_durable::{Cause, Redb, Row, RuleFor, StoreError};

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// With the checksum that each part of `meta` has.
pub fn sealed(part: &[u8]) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[0; 16]);
    sum.update(part);
    [part, &sum.finalize().to_le_bytes()].concat()
}

fn database(disk: &Arc<Mutex<Disk>>) -> Database {
    let backend = Backend(disk.clone());
    Database::builder().create_with_backend(backend).unwrap()
}

/// A part of `meta`, without its checksum.
fn meta(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let database = database(&Disk::sound(image.to_vec()));
    let meta = database.begin_read().unwrap().open_table(META).unwrap();
    let value = meta.get(name).unwrap()?.value().to_vec();
    Some(value[..value.len() - 4].to_vec())
}

/// The file as a later program would have it, closed or not.
fn with_meta(image: Vec<u8>, parts: &[(&str, &[u8])], is_closed: bool) -> Vec<u8> {
    let disk = Disk::sound(image);
    let database = database(&disk);
    let transaction = database.begin_write().unwrap();
    let mut meta = transaction.open_table(META).unwrap();
    for (name, part) in parts {
        meta.insert(*name, &*sealed(part)).unwrap();
    }
    drop(meta);
    transaction.commit().unwrap();
    if is_closed {
        drop(database);
    } else {
        std::mem::forget(database);
    }
    disk.lock().unwrap().live.clone()
}

/// The bytes of each table, but for `meta`.
fn tables(image: &[u8]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let database = database(&Disk::sound(image.to_vec()));
    let read = database.begin_read().unwrap();
    let mut tables = BTreeMap::new();
    for name in ["recent", "tombstones", "by_due", "moved", "keys", "dead"] {
        let mut values = Vec::new();
        macro_rules! values {
            ($key:ty, $value:ty) => {
                for entry in read
                    .open_table(TableDefinition::<$key, $value>::new(name))
                    .unwrap()
                    .iter()
                    .unwrap()
                {
                    let (key, value) = entry.unwrap();
                    values.push(format!("{:?} {:?}", key.value(), value.value()).into_bytes());
                }
            };
        }
        match name {
            "recent" | "tombstones" => values!(u64, &[u8]),
            "by_due" => values!(&[u8; 20], &[u8]),
            "moved" => values!(u64, &[u8; 20]),
            "keys" => values!(&[u8], u128),
            _ => values!(u128, &[u8]),
        }
        tables.insert(name.to_string(), values);
    }
    tables
}

#[test]
fn a_file_of_a_later_format_is_refused_and_stays_as_it_was() {
    for (name, is_closed) in names()
        .iter()
        .flat_map(|name| [(name, true), (name, false)])
    {
        let writer = b"wheelwork-durable 9.1.0";
        let parts = [("version", &[99_u8][..]), ("floor_by", writer)];
        let image = with_meta(image(name), &parts, is_closed);
        for check in [true, false] {
            let folder = Folder::new("later");
            fs::write(folder.file(), &image).unwrap();
            let opened = Redb::builder().check_at_open(check).open(folder.file());
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::Version(_, 99)), "{error}");
            let error = error.to_string();
            assert!(
                error.contains(", written by wheelwork-durable 9.1.0: "),
                "{error}"
            );
            assert!(
                error.contains("version 99") && !error.contains('\n'),
                "{error}"
            );
            let after = fs::read(folder.file()).unwrap();
            assert!(after == image, "{name}, {is_closed}: it was changed");
            // redb by itself would have changed it.
            drop(Database::create(folder.file()).unwrap());
            let after = fs::read(folder.file()).unwrap();
            assert!(after != image, "{name}, {is_closed}: nothing is shown");
        }
    }
}

/// What names the later program may be anything.
#[test]
fn who_has_written_a_later_format_is_told_in_one_line() {
    for (writer, shown) in [
        (None, "a backend: its format"),
        (
            Some(&b"\n\xff"[..]),
            "a backend, written by \u{fffd}\u{fffd}: ",
        ),
        (Some(&[b'x'; 4_000]), "xxx: its format"),
    ] {
        let mut parts = vec![("version", &[5_u8][..])];
        parts.extend(writer.map(|writer| ("floor_by", writer)));
        let image = with_meta(image("file-3"), &parts, true);
        let error = open(&Disk::sound(image), true).unwrap_err().to_string();
        assert!(error.contains(shown) && error.len() < 300, "{error}");
    }
}

/// A later program has had the file, and used nothing that this one does not know.
#[test]
fn a_later_step_is_no_later_format() {
    let parts = [("version", &[4_u8][..]), ("step", &[9])];
    let disk = Disk::sound(with_meta(image("file-3"), &parts, true));
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    assert!(text(&mut store) == text_of("file-3"));
    drop(store);
    let image = disk.lock().unwrap().live.clone();
    assert_eq!(meta(&image, "step"), Some(vec![9]), "it is no step back");
    assert_eq!(meta(&image, "step_by"), None);
}

/// The program before this one opens a file after the steps, until something is written that it
/// does not know: its own entries of `meta` and all rows are as it has left them.
#[test]
fn a_step_changes_no_row_and_leaves_the_floor() {
    for name in ["file-3", "file-3-crashed"] {
        let before = image(name);
        let disk = Disk::sound(before.clone());
        drop(open(&disk, true).unwrap());
        let after = disk.lock().unwrap().live.clone();
        assert!(tables(&after) == tables(&before), "{name}");
        for part in ["version", "state"] {
            assert_eq!(meta(&after, part), meta(&before, part), "{name}, {part}");
        }
        assert_eq!(meta(&before, "step"), None);
        assert_eq!(meta(&after, "step"), Some(vec![4]));
        let program = meta(&after, "step_by").unwrap();
        assert!(program.starts_with(b"wheelwork-durable 0."), "{program:?}");
    }
}

/// A table has its type of key for ever. So none is there before something is written to it.
#[test]
fn a_file_has_the_tables_that_are_written_and_no_others() {
    let images = names().into_iter().map(|name| (image(&name), name));
    for (before, name) in images.chain([(Vec::new(), String::new())]) {
        let disk = Disk::sound(before);
        drop(open(&disk, true).unwrap());
        let database = database(&disk);
        let read = database.begin_read().unwrap();
        let tables = read.list_tables().unwrap();
        let tables: BTreeSet<_> = tables.map(|table| table.name().to_string()).collect();
        let written = [
            "by_due",
            "dead",
            "keys",
            "meta",
            "moved",
            "recent",
            "tombstones",
        ];
        let mut expected: BTreeSet<_> = written.map(String::from).into();
        if name.contains("done") {
            expected.extend(["done", "rules"].map(String::from));
        }
        assert_eq!(tables, expected, "{name}");
    }
}

/// redb's files have a format of their own. The byte of its number is the first of each of the two
/// slots of its header, of which the last commit has written one.
#[test]
fn another_format_of_redb_is_no_damage() {
    const SLOTS: [usize; 2] = [64, 192];
    for name in names() {
        let before = image(&name);
        assert_eq!(SLOTS.map(|slot| before[slot]), [3, 3], "{name}");
        for (slot, format) in SLOTS
            .into_iter()
            .flat_map(|slot| [(slot, 2), (slot, 4), (slot, 5)])
        {
            let folder = Folder::new("redb_format");
            let mut image = before.clone();
            image[slot] = format;
            fs::write(folder.file(), &image).unwrap();
            let error = Redb::open(folder.file()).unwrap_err();
            assert!(
                matches!(error, StoreError::Version(_, version) if version == u64::from(format)),
                "{name}, {slot}: {error:?}"
            );
            let error = error.to_string();
            let told = format!(" (a file of redb's format {format}): its format has version ");
            assert!(error.contains(&told) && !error.contains('\n'), "{error}");
            let after = fs::read(folder.file()).unwrap();
            assert!(after == image, "{name}, {slot}: it was changed");
        }
    }
}

#[test]
fn a_store_keeps_its_identity() {
    let mut known = BTreeSet::new();
    for begin in [Vec::new(), Vec::new(), image("file-3"), image("file-3")] {
        let disk = Disk::sound(begin);
        drop(open(&disk, true).unwrap());
        let image = disk.lock().unwrap().live.clone();
        let identity = meta(&image, "store").unwrap();
        assert_eq!(identity.len(), 16);
        drop(open(&disk, false).unwrap());
        let image = disk.lock().unwrap().live.clone();
        assert_eq!(meta(&image, "store").as_ref(), Some(&identity));
        assert!(known.insert(identity), "two stores have one identity");
    }
}

/// A step that is interrupted at any access to the disk is made by the next open, or was made.
#[test]
fn a_step_survives_every_trouble() {
    quiet();
    for name in ["file-3", "file-3-crashed"] {
        let (before, expected) = (image(name), text_of(name));
        for trouble in [
            Trouble::Crash,
            Trouble::Torn,
            Trouble::Full,
            Trouble::Failing,
        ] {
            let (mut fails_at, mut numbers) = (0, BTreeSet::new());
            loop {
                let place = format!("{name}, {trouble:?}, access {fails_at}");
                let disk = Disk::new(before.clone(), trouble, fails_at);
                let opened = open(&disk, true);
                let mut disk_after = disk.lock().unwrap();
                if !disk_after.has_failed {
                    break;
                }
                let image = disk_after.image();
                drop(disk_after);
                if let Err(error) = opened {
                    assert!(matches!(error, StoreError::Io(_)), "{place}: {error}");
                }
                let step = meta(&image, "step");
                numbers.insert(step.clone());
                assert!([None, Some(vec![4])].contains(&step), "{place}: {step:?}");
                assert_eq!(meta(&image, "store").is_some(), step.is_some(), "{place}");
                let disk = Disk::sound(image);
                let mut store =
                    open(&disk, true).unwrap_or_else(|error| panic!("{place}: {error}"));
                store.acquire().unwrap();
                assert!(text(&mut store) == expected, "{place}: something else");
                drop(store);
                let image = disk.lock().unwrap().live.clone();
                assert_eq!(meta(&image, "step"), Some(vec![4]), "{place}");
                fails_at += 1;
            }
            assert!(fails_at > 5, "{fails_at} accesses make no step");
            assert!(numbers.contains(&None), "{trouble:?}: it was never before");
        }
    }
}

/// A file that a row of a later program was written to without a higher floor, which no program
/// should do: the error names that program.
#[test]
fn what_a_later_program_has_written_names_it() {
    let parts = [
        ("step", &[9_u8][..]),
        ("step_by", b"wheelwork-durable 9.1.0"),
    ];
    let image = with_meta(image("file-3"), &parts, true);
    let disk = Disk::sound(image);
    let database = database(&disk);
    let transaction = database.begin_write().unwrap();
    let recent = TableDefinition::<u64, &[u8]>::new("recent");
    let mut recent = transaction.open_table(recent).unwrap();
    // Flags that come later: 128, and among the others 16.
    let number = recent.last().unwrap().unwrap().0.value();
    let body = [128, 0, 0, 0, 0, 0, 7, 2, 16, 1, b'k'];
    let mut sum = crc32fast::Hasher::new();
    sum.update(&u128::from(number).to_le_bytes());
    sum.update(&body);
    let value = [&body[..], &sum.finalize().to_le_bytes()].concat();
    recent.insert(number, &*value).unwrap();
    drop(recent);
    let tombstones = TableDefinition::<u64, &[u8]>::new("tombstones");
    transaction.delete_table(tombstones).unwrap();
    drop(transaction.open_table(tombstones).unwrap());
    transaction.commit().unwrap();
    drop(database);
    let error = open(&disk, true).unwrap_err();
    assert!(matches!(error, StoreError::Later(_)), "{error}");
    let error = error.to_string();
    assert!(!error.contains("damaged"), "{error}");
    let named = "(taken to format 9 by wheelwork-durable 9.1.0)";
    assert!(
        error.contains(named) && error.contains("a later program"),
        "{error}"
    );
}

/// Until something is written that format 3 does not know, a program of that format can go on.
#[test]
fn the_floor_rises_by_first_use() {
    let floor = |image: &[u8]| meta(image, "version").unwrap()[0];
    type Use = (&'static str, u8, fn(&mut Row));
    let uses: [Use; 7] = [
        ("nothing new", 3, |_| {}),
        ("an expiry", 4, |row| row.set_expires(Some(time(99)))),
        ("a time limit", 4, |row| {
            row.set_time_limit(Some(Duration::from_millis(1)))
        }),
        ("a trace", 4, |row| row.set_traceparent(Some("00".into()))),
        ("no parts", 3, |row| row.set_traceparent(None)),
        ("a calendar", 3, |row| {
            row.calendar = Some("cron 0 9 * * *; zone=UTC; missed=burst 3".into())
        }),
        ("a calendar with an offset", 4, |row| {
            row.calendar = Some("cron 0 9 * * *; zone=UTC; offset=PT1.5S".into())
        }),
    ];
    let arm = |change: fn(&mut Row)| {
        let disk = Disk::sound(image("file-3"));
        let mut store = open(&disk, true).unwrap();
        let epoch = store.acquire().unwrap()[0].epoch;
        let mut row = row(&mut store, 5, b"payload");
        change(&mut row);
        let writes = vec![Write::Arm(row.clone())];
        store.commit(writes, &mut HandedOut::default()).unwrap();
        let image = disk.lock().unwrap().live.clone();
        (disk, store, settled(&row, epoch), image)
    };
    for (what, expected, change) in uses {
        let (.., image) = arm(change);
        assert_eq!(floor(&image), expected, "{what}");
        let by = meta(&image, "floor_by").is_some();
        assert_eq!(by, expected == 4, "{what}");
    }
    for (expected, cause) in [
        (3, None),
        (4, Some(Cause::Expired)),
        (3, Some(Cause::Crashed)),
    ] {
        let (disk, mut store, of, _) = arm(|_| {});
        let write = match cause {
            None => Write::Ack { of, next: None },
            Some(cause) => Write::Bury {
                of,
                cause,
                since: time(7),
                attempts: 1,
                crashes: 0,
                next: None,
            },
        };
        store
            .commit(vec![write], &mut HandedOut::default())
            .unwrap();
        let image = disk.lock().unwrap().live.clone();
        assert_eq!(floor(&image), expected);
    }
    let (disk, mut store, ..) = arm(|_| {});
    let mail = RuleFor::Kind("mail".into());
    for (expected, change) in [
        (3, RuleChange::Resume),
        (4, RuleChange::Pause(time(5))),
        (4, RuleChange::Resume),
    ] {
        let write = vec![Write::Rule(mail.clone(), change)];
        store.commit(write, &mut HandedOut::default()).unwrap();
        let image = disk.lock().unwrap().live.clone();
        assert_eq!(floor(&image), expected, "{change:?}");
    }
    let (disk, mut store, of, _) = arm(|_| {});
    let (why, since) = (HeldWhy::Paused, time(6));
    let hold = vec![Write::Hold { of, why, since }];
    store.commit(hold, &mut HandedOut::default()).unwrap();
    drop(store);
    let image = disk.lock().unwrap().live.clone();
    assert_eq!(floor(&image), 4);
    // It does not fall when nothing of that is left.
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    let all = Write::CancelKind(KindSlice::all("kind"));
    store.commit(vec![all], &mut HandedOut::default()).unwrap();
    drop(store);
    let image = disk.lock().unwrap().live.clone();
    assert_eq!(floor(&image), 4);
}
