//! Promise: a file that any released version has written can be opened for ever.
//!
//! `tests/golden/` has two files of each format: one that was closed, and one whose process was
//! killed. Beside each is a text of what it holds. A file is opened as a copy, has what its text
//! says, has it again when it was closed and opened once more, and can be changed.
//!
//! - A file is taken from its format to the present one in steps. A step that a crash, a full disk
//!   or an error interrupts is made by the next open. It changes no row.
//! - A file of a later format is refused, by the name of the program that has written it, and stays
//!   as it was, byte for byte: also if its process was killed, so that redb would repair it.
//!
//! A new format gets its files once, when it is complete:
//! `WHEELWORK_GOLDEN=5 cargo test -p wheelwork-durable --test it golden::makes -- --ignored`.
//! A table that comes without a new format gets them, too: with `WHEELWORK_GOLDEN=4-done` those of
//! the records of runs.

use crate::durable_model::{Call, Folder, HandedOut, History, contents, done, make, row, time};
use crate::redb_faults::{Backend, Disk, Trouble, open, quiet};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs};
use wheelwork_durable::contract::{
    HeldWhy, KindSlice, Outcome, Position, RuleChange, Settled, Store, Target, Write,
};
use wheelwork_durable::{Cause, DeadLetter, DoneTimer, Redb, Row, RuleFor, StoreError, StoreTime};

/// Calls of the history that makes a file.
const CALLS: usize = 220;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A payload in a text: its length, and a checksum (FNV-1a).
fn payload(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}:{sum:016x}", bytes.len())
}

/// A row in a text: what it has, and nothing of what it has not. So a part that later versions add
/// changes no line of an earlier format.
fn row_line(row: &Row) -> String {
    let mut line = format!("{} due={} kind={:?}", row.id, row.due.as_millis(), row.kind);
    if let Some(key) = &row.key {
        write!(line, " key={key:?}").unwrap();
    }
    if let Some(calendar) = &row.calendar {
        write!(line, " calendar={calendar:?}").unwrap();
    }
    for (name, count) in [("attempts", row.attempts), ("crashes", row.crashes)] {
        if count > 0 {
            write!(line, " {name}={count}").unwrap();
        }
    }
    if let Some(held) = row.held() {
        let (why, since) = (held.why, held.since.as_millis());
        write!(line, " held={why:?} held_since={since}").unwrap();
    }
    if let Some(expires) = row.expires() {
        write!(line, " expires={}", expires.as_millis()).unwrap();
    }
    if let Some(limit) = row.time_limit() {
        write!(line, " limit={}", limit.as_millis()).unwrap();
    }
    if let Some(trace) = row.traceparent() {
        write!(line, " trace={trace:?}").unwrap();
    }
    for (name, is_so) in [("suspect", row.suspect), ("superseded", row.superseded)] {
        if is_so {
            write!(line, " {name}").unwrap();
        }
    }
    write!(line, " payload={}", payload(&row.payload)).unwrap();
    line
}

fn dead_line(letter: &DeadLetter) -> String {
    let DeadLetter {
        row, cause, since, ..
    } = letter;
    let since = since.as_millis();
    format!("dead {} since={since} cause={cause:?}", row_line(row))
}

fn done_line(done: &DoneTimer) -> String {
    let (due, ended) = (done.due.as_millis(), done.ended.as_millis());
    let mut line = format!(
        "done {} due={due} ended={ended} kind={:?}",
        done.id, done.kind
    );
    if let Some(key) = &done.key {
        write!(line, " key={key:?}").unwrap();
    }
    if let Some(began) = done.began {
        write!(line, " began={}", began.as_millis()).unwrap();
    }
    let (took, attempts) = (done.took.as_micros(), done.attempts);
    write!(line, " took={took} attempts={attempts}").unwrap();
    if done.crashes > 0 {
        write!(line, " crashes={}", done.crashes).unwrap();
    }
    if !done.node.is_empty() {
        write!(line, " node={:?}", done.node).unwrap();
    }
    write!(line, " ending={:?}", done.ending).unwrap();
    line
}

/// What a store holds, with the lease taken: a line for each row, dead letter and record of a run,
/// sorted.
pub fn text(store: &mut Redb) -> String {
    let (rows, dead) = contents(store).unwrap();
    let rows = rows.iter().map(|row| format!("row {}", row_line(row)));
    let done = done(store);
    let lines = rows.chain(dead.iter().map(dead_line));
    let mut lines: Vec<_> = lines.chain(done.iter().map(done_line)).collect();
    lines.sort();
    lines.join("\n") + "\n"
}

/// The names of the files, without ending.
pub fn names() -> Vec<String> {
    let paths = fs::read_dir(folder()).unwrap();
    let paths = paths.map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "redb"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    assert!(names.len() >= 2, "{names:?} are not all");
    names
}

pub fn image(name: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{name}.redb"))).unwrap()
}

pub fn text_of(name: &str) -> String {
    fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap()
}

#[test]
fn every_format_opens_and_has_what_it_had() {
    for name in names() {
        let (folder, expected) = (Folder::new("golden"), text_of(&name));
        fs::write(folder.file(), image(&name)).unwrap();
        let open = || {
            let mut store = Redb::builder()
                .must_exist(true)
                .open(folder.file())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let epoch = store.acquire().unwrap()[0].epoch;
            assert!(text(&mut store) == expected, "{name} has something else");
            (store, epoch)
        };
        let (mut store, epoch) = open();
        assert!(epoch > 1, "{name}: the epoch begins anew");
        store.release().unwrap();
        drop(store);
        let (mut store, next) = open();
        assert_eq!(next, epoch + 1, "{name}");
        while store.upkeep().unwrap() {}
        assert!(text(&mut store) == expected, "{name} was swept badly");
    }
}

/// Each row is found by its id and its key, moved, and ended; each dead letter is revived.
#[test]
fn every_format_can_be_changed() {
    for name in names() {
        let mut store = open(&Disk::sound(image(&name)), true).unwrap();
        store.acquire().unwrap();
        let (rows, dead) = contents(&mut store).unwrap();
        let mut gate = HandedOut::default();
        for row in &rows {
            let target = Target::Id(row.id);
            assert_eq!(store.get(&target).unwrap().as_ref(), Some(row), "{name}");
            if let Some(key) = &row.key {
                let by_key = store.get(&Target::Key(key.clone())).unwrap();
                assert_eq!(by_key.as_ref(), Some(row), "{name}");
            }
            let due = StoreTime::from_millis(row.due.as_millis() + 7);
            let writes = vec![Write::Move(target.clone(), due)];
            let outcomes = store.commit(writes, &mut gate).unwrap();
            let expected = (!row.superseded).then(|| {
                let mut moved = row.clone();
                moved.due = due;
                moved.set_held(None);
                moved
            });
            assert_eq!(outcomes, [Outcome::Moved(expected)], "{name}");
            let outcomes = store.commit(vec![Write::Cancel(target)], &mut gate);
            let cancelled = Outcome::Cancelled(Some(row.id));
            assert_eq!(outcomes.unwrap(), [cancelled], "{name}");
        }
        for letter in &dead {
            let writes = vec![Write::Revive(letter.row.id, time(9))];
            let outcomes = store.commit(writes, &mut gate).unwrap();
            assert!(outcomes[0].clone() != Outcome::Revived(None), "{name}");
        }
        let size = store.size().unwrap();
        assert_eq!((size.rows, size.dead), (dead.len() as u64, 0), "{name}");
        let known = rows.iter().chain(dead.iter().map(|letter| &letter.row));
        let next = store.new_id(None, time(1)).number();
        assert!(known.map(|row| row.id.number()).all(|number| number < next));
    }
}

/// A file that has no row of some shape would show nothing about it.
#[test]
fn the_files_have_rows_of_all_shapes() {
    let mut counts = BTreeMap::new();
    for name in names() {
        let format = name.trim_end_matches("-crashed").to_string();
        for line in text_of(&name).lines() {
            let words = line
                .split(' ')
                .map(|word| word.split_once('=').unwrap_or((word, "")));
            for (word, value) in words {
                let is_named = word == "cause" || word == "ending";
                let shape = if is_named { value } else { word };
                let shape = shape.split('(').next().unwrap().to_string();
                *counts.entry((format.clone(), shape)).or_insert(0) += 1;
            }
            let is_moved = !line.contains(&format!("{:012x}", due_of(line)));
            if is_moved {
                *counts.entry((format.clone(), "moved".into())).or_insert(0) += 1;
            }
        }
    }
    let formats: Vec<_> = names()
        .into_iter()
        .filter(|name| !name.ends_with("-crashed"))
        .collect();
    for format in formats {
        // What format 4 has added.
        let later: &[&str] = match &*format {
            "file-3" => &[],
            _ => &["held", "expires", "limit", "trace", "GivenUp", "Expired"],
        };
        let records: &[&str] = match &*format {
            "file-3" | "file-4" => &[],
            _ => &["done", "ended", "Done", "began", "took"],
        };
        let shapes = [
            "row",
            "dead",
            "key",
            "calendar",
            "attempts",
            "crashes",
            "suspect",
            "superseded",
            "moved",
            "UnknownKind",
            "Undecodable",
            "Failed",
            "Crashed",
        ];
        for &shape in shapes.iter().chain(later).chain(records) {
            let count = counts.get(&(format.clone(), shape.into()));
            assert!(
                count.is_some_and(|&count| count >= 3),
                "{format} has {count:?} {shape}"
            );
        }
    }
}

fn due_of(line: &str) -> u64 {
    let (_, rest) = line.split_once(" due=").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// How many causes a dead letter may have.
const CAUSES: usize = 6;

fn settled(row: &Row, epoch: u64) -> Settled {
    Settled {
        id: row.id,
        due: row.due,
        epoch,
    }
}

/// Makes a row a dead letter, of the cause with this number.
fn bury(store: &mut Redb, row: &Row, epoch: u64, cause: usize) -> Write {
    let causes = [
        Cause::UnknownKind,
        Cause::Undecodable("no JSON".into()),
        Cause::Failed("no answer".into()),
        Cause::Crashed,
        Cause::GivenUp("no such order".into()),
        Cause::Expired,
    ];
    let next = row.calendar.is_some().then(|| time(5_000));
    Write::Bury {
        of: settled(row, epoch),
        cause: causes[cause % CAUSES].clone(),
        since: time(4_000),
        attempts: row.attempts + 1,
        crashes: row.crashes,
        next: next.map(|next| (next, store.new_id(None, next))),
    }
}

/// Makes the files of the format that this program writes. `WHEELWORK_GOLDEN` has its number, and
/// what is new.
#[test]
#[ignore = "makes files of a format, once"]
fn makes_the_files_of_this_format() {
    let what = env::var("WHEELWORK_GOLDEN").unwrap();
    let number: u64 = what.split('-').next().unwrap().parse().unwrap();
    fs::create_dir_all(folder()).unwrap();
    for (name, is_closed) in [("", true), ("-crashed", false)] {
        let disk = Disk::sound(Vec::new());
        let mut history = History::new(number * 2 + u64::from(is_closed));
        let mut store = open(&disk, true).unwrap();
        for call in 0..CALLS {
            // Several lives, and the last one leaves rows in flight.
            let call = match call % 55 {
                0 => Call::Acquire,
                _ => history.next_call(&mut store),
            };
            let mut gate = history.gate.clone();
            let answer = make(&mut store, &call, &mut gate).unwrap();
            assert_eq!(answer, history.expect(&call));
        }
        let rows = history
            .model
            .load(Position::MIN, StoreTime::MAX, usize::MAX);
        let mut ended: Vec<_> = rows
            .iter()
            .filter(|row| !row.superseded && row.held().is_none())
            .collect();
        ended.truncate(4 * CAUSES);
        let upto = ended.iter().map(|row| row.due).max().unwrap();
        let held = ended.split_off(3 * CAUSES);
        let epoch = history.model.epoch;
        let writes = ended.iter().enumerate();
        let writes = writes.map(|(at, row)| bury(&mut store, row, epoch, at));
        let mut writes: Vec<_> = writes.collect();
        writes.extend(held.iter().map(|row| Write::Hold {
            of: settled(row, epoch),
            why: HeldWhy::Unhandled,
            since: time(4_000),
        }));
        for call in [Call::HandOut(upto), Call::Commit(writes)] {
            let mut gate = history.gate.clone();
            let answer = make(&mut store, &call, &mut gate).unwrap();
            assert_eq!(answer, history.expect(&call));
        }
        // Rows in both tables, and some that have ended.
        let (rows, recent) = (store.size().unwrap().rows, store.recent_rows() as u64);
        assert!(0 < recent && recent < rows && store.ended_rows().unwrap() > 0);
        if is_closed {
            drop(store);
        } else {
            std::mem::forget(store);
        }
        let image = disk.lock().unwrap().live.clone();
        let mut copy = open(&Disk::sound(image.clone()), true).unwrap();
        copy.acquire().unwrap();
        let path = folder().join(format!("file-{what}{name}.redb"));
        assert!(!path.exists(), "the files of this format are there");
        fs::write(path.with_extension("txt"), text(&mut copy)).unwrap();
        fs::write(path, image).unwrap();
    }
}

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
            expected.insert("done".into());
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
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    let error = error.to_string();
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
    let uses: [Use; 5] = [
        ("nothing new", 3, |_| {}),
        ("an expiry", 4, |row| row.set_expires(Some(time(99)))),
        ("a time limit", 4, |row| {
            row.set_time_limit(Some(Duration::from_millis(1)))
        }),
        ("a trace", 4, |row| row.set_traceparent(Some("00".into()))),
        ("no parts", 3, |row| row.set_traceparent(None)),
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
