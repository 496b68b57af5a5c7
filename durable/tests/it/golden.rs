//! Promise: a file that any released version has written can be opened for ever.
//!
//! `tests/golden/` has two files of each format: one that was closed, and one whose process was
//! killed. Beside each is a text of what it holds. A file is opened as a copy, has what its text
//! says, has it again when it was closed and opened once more, and can be changed.
//!
//! `formats.rs` has the steps from one format to the next, and the formats of later programs.
//!
//! A new format gets its files once, when it is complete:
//! `WHEELWORK_GOLDEN=5 cargo test -p wheelwork-durable --test it golden::makes -- --ignored`.
//! Tables that come without a new format get them, too: with `WHEELWORK_GOLDEN=4-done` those of the
//! records of runs and the rules.

use crate::durable_model::{Call, Folder, HandedOut, History, contents, done, make, settled, time};
use crate::faulty_disk::{Disk, open};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{env, fs};
use wheelwork_durable::contract::{HeldWhy, Outcome, Position, Store, Target, Write};
use wheelwork_durable::{Cause, DeadLetter, DoneTimer, Redb, Row, Rule, StoreTime};

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

fn rule_line(rule: &Rule) -> String {
    let mut line = format!("rule of={:?}", rule.of);
    if let Some(since) = rule.paused_since {
        write!(line, " since={}", since.as_millis()).unwrap();
    }
    if let Some(rate) = rule.rate {
        write!(line, " rate={}/{}", rate.per_second(), rate.burst()).unwrap();
    }
    if let Some(calls) = rule.calls {
        write!(line, " calls={calls}").unwrap();
    }
    line
}

/// What a store holds, with the lease taken: a line for each row, dead letter, record of a run and
/// rule, sorted.
pub fn text(store: &mut Redb) -> String {
    let (rows, dead) = contents(store).unwrap();
    let rows = rows.iter().map(|row| format!("row {}", row_line(row)));
    let done = done(store);
    let rules = store.rules().unwrap();
    let lines = rows.chain(dead.iter().map(dead_line));
    let lines = lines.chain(done.iter().map(done_line));
    let mut lines: Vec<_> = lines.chain(rules.iter().map(rule_line)).collect();
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
        let text = text_of(&name);
        let (rules, lines): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.starts_with("rule "));
        assert_eq!(
            !rules.is_empty(),
            name.contains("-done"),
            "{name}: {rules:?}"
        );
        for line in lines {
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
            _ => &["done", "ended", "Done", "LeftOut", "began", "took"],
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

/// A store after a history, and its disk. `None`: it does not have what a file should have, rows in
/// both tables, and some that have ended.
fn life(seed: u64) -> Option<(Arc<Mutex<Disk>>, Redb)> {
    let disk = Disk::sound(Vec::new());
    let mut history = History::new(seed);
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
    let upto = ended.iter().map(|row| row.due).max()?;
    if ended.len() < 4 * CAUSES {
        return None;
    }
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
    let (rows, recent) = (store.size().unwrap().rows, store.recent_rows() as u64);
    let is_one = 0 < recent && recent < rows && store.ended_rows().unwrap() > 0;
    is_one.then_some((disk, store))
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
        let seeds = (number * 2 + u64::from(is_closed)..).step_by(2);
        let (disk, store) = seeds.take(100).find_map(life).unwrap();
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
