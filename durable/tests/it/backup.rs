//! Promise: a backup is what the store held at one instant, and the store goes on beside it.
//!
//! - While a history of calls goes on, the copy has what a reference held when it began, whatever
//!   came afterwards: rows of both tables, moved ones, letters, suspects. What had ended is not in
//!   it.
//! - With threads that change timers all the time, nothing in it is of two instants.
//! - What has the name is whole, and no file is overwritten.

use crate::durable_model::{self, Call, Folder, HandedOut, History, contents, make, row, rules};
use crate::faulty_disk::{Disk, closed_file, expected, open, quiet};
use crate::golden::image;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Store, Target, Write};
use wheelwork_durable::{Durable, DurableError, Memory, Redb, StoreError};

/// What a copy holds, as a program finds it that opens it.
fn opened(folder: &Folder, name: &str) -> Redb {
    let path = folder.path().join(name);
    let report = Redb::check(&path).unwrap();
    assert!(report.is_sound(), "{:?}", report.flaws);
    let mut store = Redb::builder().must_exist(true).open(path).unwrap();
    store.acquire().unwrap();
    store
}

#[test]
fn a_backup_is_the_store_at_one_instant() {
    let mut ended = 0;
    for seed in 0..8 {
        let folder = Folder::new("backup");
        let disk = Disk::sound(Vec::new());
        let mut history = History::new(seed);
        let mut store = open(&disk, true).unwrap();
        let mut taken = Vec::new();
        for number in 0..160 {
            let call = match number {
                0 => Call::Acquire,
                _ => history.next_call(&mut store),
            };
            let mut gate = history.gate.clone();
            let answer = history.expect(&call);
            assert_eq!(make(&mut store, &call, &mut gate).unwrap(), answer);
            if [40, 90, 140].contains(&number) {
                ended += store.ended_rows().unwrap();
                let snapshot = store.snapshot().unwrap().unwrap();
                taken.push((snapshot, history.model.clone()));
            }
        }
        let now = contents(&mut store).unwrap();
        for (number, (snapshot, model)) in taken.into_iter().enumerate() {
            let name = format!("{number}.redb");
            let report = snapshot.copy(&folder.path().join(&name)).unwrap();
            let mut copy = opened(&folder, &name);
            let found = contents(&mut copy).unwrap();
            let place = format!("seed {seed}, copy {number}");
            assert_eq!(found, expected(&model), "{place}");
            assert_eq!(rules(&mut copy).unwrap(), model.rules, "{place}");
            assert_eq!(report.rows, found.0.len() as u64, "{place}");
            assert_eq!(report.dead, found.1.len() as u64, "{place}");
            assert_eq!(
                copy.ended_rows().unwrap(),
                0,
                "{place}: it keeps what has ended"
            );
            for row in &found.0 {
                let Some(key) = &row.key else { continue };
                let by_key = copy.get(&Target::Key(key.clone())).unwrap();
                assert_eq!(by_key.as_ref(), Some(row), "{place}");
            }
            let ids = found.0.iter().map(|row| row.id.number());
            let next = copy.new_id(None, wheelwork_durable::StoreTime::MIN);
            assert!(ids.max().is_none_or(|last| last < next.number()), "{place}");
            // It goes on as a store does.
            history = History::new(seed);
            history.model = model;
            history.expect(&Call::Acquire);
            for _ in 0..30 {
                let call = history.next_call(&mut copy);
                let mut gate = history.gate.clone();
                let answer = history.expect(&call);
                assert_eq!(
                    make(&mut copy, &call, &mut gate).unwrap(),
                    answer,
                    "{place}"
                );
            }
        }
        assert_eq!(
            contents(&mut store).unwrap(),
            now,
            "seed {seed}: the store has changed"
        );
    }
    assert!(ended > 30, "{ended} rows that had ended are few");
}

/// Ends the threads also where the test has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Each thread moves two timers, one after the other, to the same deadline. So at each instant the
/// first of them is where the second is, or one step further.
#[test]
fn nothing_in_a_backup_is_of_two_instants() {
    let folder = Folder::new("backup-churn");
    let store = Redb::builder().sweep_at(50, 200);
    let timers = Durable::builder(store.open(folder.file()).unwrap())
        .start()
        .unwrap();
    let year = Duration::from_secs(366 * 86_400);
    let epoch = SystemTime::now() + year;
    let many = (0..20_000_u64).map(|number| ("kind", year, number.to_string()));
    timers.schedule_many(many).unwrap();
    let ends = AtomicBool::new(false);
    let steps: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (timers, ends) = (&timers, &ends);
                scope.spawn(move || {
                    let mut step = 0;
                    while !ends.load(Relaxed) {
                        for part in ["first", "second"] {
                            let when = epoch + Duration::from_secs(step);
                            let key = format!("{thread}-{part}");
                            let key = timers.key(&key);
                            // Armed anew or moved: the row is in another table then.
                            if step.is_multiple_of(3) || !key.reschedule(when).unwrap() {
                                key.schedule("kind", when, part).unwrap();
                            }
                        }
                        step += 1;
                    }
                    step
                })
            })
            .collect();
        let at_end = Ends(&ends);
        for number in 0..6 {
            thread::sleep(Duration::from_millis(30));
            let name = format!("{number}.redb");
            let report = timers.backup(folder.path().join(&name)).unwrap();
            let mut copy = opened(&folder, &name);
            assert_eq!(copy.size().unwrap().rows, report.rows);
            for thread in 0..3 {
                let mut step = |part: &str| {
                    let key = Target::Key(format!("{thread}-{part}").into());
                    let row = copy.get(&key).unwrap();
                    let due = row.map(|row| {
                        SystemTime::UNIX_EPOCH + Duration::from_millis(row.due.as_millis())
                    });
                    let steps = due.map(|due| due.duration_since(epoch).unwrap_or_default());
                    steps.map_or(0, |steps| steps.as_secs_f64().round() as u64 + 1)
                };
                let (first, second) = (step("first"), step("second"));
                assert!(first == second || first == second + 1, "{first}, {second}");
            }
        }
        drop(at_end);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(steps.iter().all(|&steps| steps > 20), "{steps:?}");
}

#[test]
fn no_file_is_overwritten_and_nothing_is_left() {
    let folder = Folder::new("backup-names");
    let timers = Durable::builder(Redb::open(folder.file()).unwrap())
        .start()
        .unwrap();
    let day = Duration::from_secs(86_400);
    timers.schedule("kind", day, "payload").unwrap();
    let refused = |path: &std::path::Path, why: &str| {
        let error = timers.backup(path).unwrap_err();
        assert!(matches!(error, DurableError::Refused(_)), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    };
    // The store itself, another file, a directory, one that is not there.
    let before = fs::read(folder.file()).unwrap();
    refused(&folder.file(), "it is there already");
    assert!(
        fs::read(folder.file()).unwrap() == before,
        "the store was changed"
    );
    let other = folder.path().join("other");
    fs::write(&other, "notes").unwrap();
    refused(&other, "it is there already");
    assert_eq!(fs::read(&other).unwrap(), b"notes");
    refused(folder.path(), "this is a directory");
    refused(&folder.path().join("none").join("copy"), "does not exist");
    refused("".as_ref(), "this names no file");
    // What a process has left that was killed is replaced.
    let copy = folder.path().join("copy.redb");
    let partial = folder.path().join("copy.redb.partial");
    fs::write(&partial, [7; 100]).unwrap();
    assert_eq!(timers.backup(&copy).unwrap().rows, 1);
    assert!(!partial.exists() && copy.exists());
    fs::remove_file(&copy).unwrap();
    // What another one writes is not.
    let writes = fs::File::create(&partial).unwrap();
    writes.try_lock().unwrap();
    refused(&copy, "it is being written already");
    assert!(partial.exists() && !copy.exists());
    drop(writes);
    let report = timers.backup(&copy).unwrap();
    assert_eq!(report.bytes, fs::metadata(&copy).unwrap().len());
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 3, "the store, the copy, and the notes");
    timers.stop().unwrap();
    assert!(matches!(
        timers.backup(folder.path().join("late")),
        Err(DurableError::Stopped)
    ));
    let memory = Durable::builder(Memory::new()).start().unwrap();
    let error = memory.backup(folder.path().join("memory")).unwrap_err();
    assert!(matches!(error, DurableError::Refused(_)), "{error}");
}

/// The store may be closed, and opened by others, while a copy of it is made. What they write is
/// not taken for what was there.
#[test]
fn a_copy_ends_with_its_store() {
    let folder = Folder::new("backup-closed");
    let mut store = Redb::open(folder.file()).unwrap();
    store.acquire().unwrap();
    let snapshot = store.snapshot().unwrap().unwrap();
    drop(store);
    // (The file is free, although the snapshot is there.)
    let mut store = Redb::open(folder.file()).unwrap();
    store.acquire().unwrap();
    let path = folder.path().join("copy.redb");
    let error = snapshot.copy(&path).unwrap_err();
    assert!(matches!(error, StoreError::Io(_)), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    store.snapshot().unwrap().unwrap().copy(&path).unwrap();
}

/// A row that is damaged is told, and is not copied as if it were not. The store goes on.
#[test]
fn a_damaged_row_ends_the_copy_and_not_the_store() {
    quiet();
    let folder = Folder::new("backup-damaged");
    let payload = [0xa5_u8; 64];
    let mut bytes = image("file-4");
    fs::write(folder.file(), &bytes).unwrap();
    let builder = Redb::builder().sweep_at(1, 1);
    let mut store = builder.open(folder.file()).unwrap();
    store.acquire().unwrap();
    let row = row(&mut store, 50, &payload);
    let arm = vec![Write::Arm(row)];
    store.commit(arm, &mut HandedOut::default()).unwrap();
    while store.upkeep().unwrap() {}
    assert!(store.recent_rows() <= 1);
    let arm = vec![Write::Arm(durable_model::row(&mut store, 51, b"sound"))];
    store.commit(arm, &mut HandedOut::default()).unwrap();
    while store.upkeep().unwrap() {}
    drop(store);
    bytes = fs::read(folder.file()).unwrap();
    let mut found = 0;
    for at in 0..bytes.len() - payload.len() {
        if bytes[at..at + payload.len()] == payload {
            bytes[at] ^= 1;
            found += 1;
        }
    }
    assert!(found > 0);
    fs::write(folder.file(), &bytes).unwrap();
    // An open that compares all checksums would refuse the file.
    let builder = Redb::builder().check_at_open(false);
    let mut store = builder.open(folder.file()).unwrap();
    store.acquire().unwrap();
    let path = folder.path().join("copy.redb");
    let error = store.snapshot().unwrap().unwrap().copy(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert!(
        error.to_string().contains("its checksum is wrong"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let arm = vec![Write::Arm(durable_model::row(&mut store, 52, b"later"))];
    store.commit(arm, &mut HandedOut::default()).unwrap();
}

/// Where redb panics because of damage, the panic ends the copy, and not the store.
#[test]
fn a_damaged_page_ends_the_copy_and_not_the_store() {
    quiet();
    let (image, ..) = closed_file(13);
    let mut rng = fastrand::Rng::with_seed(13);
    let (mut ended, mut went_on) = (0, 0);
    while ended < 8 {
        let mut image = image.clone();
        // One that has entries, or names pages.
        let page = rng.usize(1..image.len() / 4_096);
        if ![1, 2].contains(&image[page * 4_096]) {
            continue;
        }
        image[page * 4_096 + 2..][..300].fill(0xff);
        let folder = Folder::new("backup-page");
        fs::write(folder.file(), &image).unwrap();
        let builder = Redb::builder().cache_bytes(1 << 17).check_at_open(false);
        let Ok(mut store) = builder.open(folder.file()) else {
            continue;
        };
        if store.acquire().is_err() {
            continue;
        }
        let path = folder.path().join("copy.redb");
        let Ok(Some(snapshot)) = store.snapshot() else {
            continue;
        };
        if let Err(error) = snapshot.copy(&path) {
            assert!(
                matches!(error, StoreError::Damaged(_)),
                "page {page}: {error}"
            );
            assert!(!path.exists() && !folder.path().join("copy.redb.partial").exists());
            ended += 1;
            let arm = vec![Write::Arm(row(&mut store, 52, b"later"))];
            went_on += usize::from(store.commit(arm, &mut HandedOut::default()).is_ok());
        } else {
            assert!(Redb::check(&path).unwrap().is_sound(), "page {page}");
        }
    }
    // (A commit may need the page, too.)
    assert!(went_on > ended / 2, "{went_on} of {ended}");
}
