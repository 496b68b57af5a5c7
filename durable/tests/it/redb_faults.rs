//! Promise: nothing that the store in a file has acknowledged is lost, whatever the disk does.
//!
//! - A history of some 1,000 writes is cut off at an access to the disk: by a crash that drops or
//!   tears what was not synced, by a full disk, by an error. Opened again, the store has what was
//!   acknowledged, and of the call that failed all or nothing.
//! - So it is if the same process opens the store again. Its epoch goes on, so nothing is a
//!   suspect. Here each access to the disk fails: in the first run the first one of each call, in
//!   the second run the second one, and so on. So a store fails up to 160 times in its life.
//! - Damage is reported. It is never a wrong row, never a panic, and hides no row.
//!
//! The other tests take a sample of the places. With `WHEELWORK_EVERY_FAULT=1` each access fails in
//! a history of its own, and there are 20,000 flips: some minutes.

use crate::durable_model::{Call, HandedOut, History, Model, contents, done, make, rules, time};
use crate::faulty_disk::{
    Backend, CALLS, Disk, Trouble, closed_file, damage, expected, open, quiet,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::{env, panic};
use wheelwork_durable::contract::{Lease, Position, Store, Target, Write};
use wheelwork_durable::{DeadLetter, DurableId, Redb, Row, StoreError, StoreTime};

/// Accesses to the disk that fail in a test, if it takes a sample.
const SAMPLE: u64 = 24;

fn is_thorough() -> bool {
    env::var_os("WHEELWORK_EVERY_FAULT").is_some()
}

/// Runs a history, on a disk that fails at one access. Returns the accesses.
fn run(seed: u64, trouble: Trouble, fails_at: u64) -> u64 {
    let place = format!("seed {seed}, {trouble:?}, access {fails_at}");
    let disk = Disk::new(Vec::new(), trouble, fails_at);
    let mut history = History::new(seed);
    let mut acknowledged = history.model.clone();
    let opened = open(&disk, true);
    if let Ok(mut store) = opened {
        for number in 0..CALLS {
            let call = match number {
                0 => Call::Acquire,
                _ => history.next_call(&mut store),
            };
            let mut gate = history.gate.clone();
            let answer = history.expect(&call);
            match make(&mut store, &call, &mut gate) {
                Ok(got) => assert_eq!(got, answer, "{place}"),
                Err(error) => {
                    assert!(matches!(error, StoreError::Io(_)), "{place}: {error}");
                    let again = store.commit(Vec::new(), &mut gate).unwrap_err();
                    assert_eq!(again.to_string(), error.to_string(), "{place}");
                    break;
                }
            }
            acknowledged = history.model.clone();
        }
    }
    let mut disk = Arc::try_unwrap(disk)
        .unwrap_or_else(|_| panic!("{place}: the file is still open"))
        .into_inner()
        .unwrap();
    assert!(disk.has_failed || fails_at >= disk.accesses, "{place}");
    let mut store =
        open(&Disk::sound(disk.image()), true).unwrap_or_else(|error| panic!("{place}: {error}"));
    store.acquire().unwrap();
    let found = contents(&mut store).unwrap();
    let candidates =
        [&acknowledged, &history.model].map(|model| (expected(model), &model.rules, model.done()));
    let all = (found, &rules(&mut store).unwrap(), done(&mut store));
    assert!(
        candidates.contains(&all),
        "{place}: {all:#?}\nis none of {candidates:#?}"
    );
    let (found, ..) = all;
    assert_eq!(store.size().unwrap().rows, found.0.len() as u64, "{place}");
    let next = store.new_id(None, time(0)).number();
    let known = found.0.iter().chain(found.1.iter().map(|dead| &dead.row));
    assert!(known.map(|row| row.id.number()).all(|number| number < next));
    for row in &found.0 {
        let Some(key) = &row.key else { continue };
        let by_key = store.get(&Target::Key(key.clone())).unwrap();
        assert_eq!(by_key.as_ref(), Some(row), "{place}");
    }
    disk.accesses
}

/// While a file is made, its process is killed (what it wrote is there), or the computer crashes.
/// The next start makes it.
#[test]
fn a_file_that_was_not_finished_is_made_anew() {
    for trouble in [Trouble::Crash, Trouble::Torn] {
        let mut fails_at = 0;
        loop {
            let disk = Disk::new(Vec::new(), trouble, fails_at);
            let opened = open(&disk, true);
            let place = format!("{trouble:?}, access {fails_at}");
            if !disk.lock().unwrap().has_failed {
                break;
            }
            drop(opened);
            let mut disk = disk.lock().unwrap();
            for image in [disk.live.clone(), disk.image()] {
                let mut store = open(&Disk::sound(image), true)
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(store.acquire().unwrap()[0].epoch, 1, "{place}");
                assert_eq!(contents(&mut store).unwrap(), (Vec::new(), Vec::new()));
            }
            fails_at += 1;
        }
        assert!(fails_at > 5, "{fails_at} accesses make no file");
    }
}

/// A store whose first page was lost is damaged: nobody makes a new one over it.
#[test]
fn a_store_without_its_first_page_is_not_made_anew() {
    quiet();
    let (mut image, ..) = closed_file(1);
    image[..4_096].fill(0);
    let disk = Disk::sound(image.clone());
    assert!(matches!(open(&disk, true), Err(StoreError::Foreign(_))));
    assert!(disk.lock().unwrap().live == image, "it was changed");
    // Nor is a file of zeros that is larger than any that was not finished.
    let disk = Disk::sound(vec![0; (1 << 20) + 1]);
    assert!(matches!(open(&disk, true), Err(StoreError::Foreign(_))));
}

/// Opens a store again, on a disk that may go on failing for a while.
fn come_back(store: &mut Redb, fails: u64, place: &str) -> Lease {
    for _ in 0..=fails {
        match store.reopen() {
            Ok(leases) => return leases[0],
            Err(StoreError::Io(_)) => {}
            Err(error) => panic!("{place}: {error}"),
        }
    }
    panic!("{place}: it does not come back");
}

/// Which accesses to the disk fail.
#[derive(Clone, Copy, Debug)]
enum Fails {
    None,
    /// Some, one after the other, from this one on.
    At(u64, u64),
    /// Of each call the one with this number, and some of those after it.
    OfEachCall(u64),
}

/// Runs a history on a disk of which some accesses fail. The same process opens the store again,
/// and goes on. Returns the accesses, and how often the epoch went on.
fn run_on(seed: u64, trouble: Trouble, fails: Fails) -> (u64, u64) {
    let place = format!("seed {seed}, {trouble:?}, {fails:?}");
    let (fails_at, most) = match fails {
        Fails::At(fails_at, most) => (fails_at, most),
        _ => (u64::MAX, 5),
    };
    let disk = Disk::new(Vec::new(), trouble, fails_at);
    disk.lock().unwrap().fails = most;
    let backends = disk.clone();
    let builder = Redb::builder().cache_bytes(1 << 17).sweep_at(10, 40);
    let Ok(mut store) = builder.open_backends(move || Backend(backends.clone())) else {
        // (It fails while the file is made: `a_file_that_was_not_finished_is_made_anew`.)
        return (disk.lock().unwrap().accesses, 0);
    };
    assert!(store.can_reopen());
    let mut history = History::new(seed);
    let mut goes_on = 0;
    for number in 0..CALLS {
        let call = match number {
            0 => Call::Acquire,
            _ => history.next_call(&mut store),
        };
        let mut gate = history.gate.clone();
        let before = (history.model.clone(), history.gate.clone());
        let answer = history.expect(&call);
        if let Fails::OfEachCall(nth) = fails {
            let mut disk = disk.lock().unwrap();
            disk.fails_at = disk.accesses + nth;
            disk.fails = [1, 1, 2, most][number % 4];
        }
        let made = make(&mut store, &call, &mut gate);
        if let (Fails::OfEachCall(_), Ok(_)) = (fails, &made) {
            disk.lock().unwrap().fails_at = u64::MAX;
        }
        let error = match made {
            Ok(got) => {
                assert_eq!(got, answer, "{place}");
                continue;
            }
            Err(error) => error,
        };
        assert!(matches!(error, StoreError::Io(_)), "{place}: {error}");
        let lease = come_back(&mut store, most, &place);
        if let Fails::OfEachCall(_) = fails {
            disk.lock().unwrap().fails_at = u64::MAX;
        }
        if matches!(call, Call::Acquire) {
            history.model.epoch = lease.epoch;
            continue;
        }
        assert_eq!(
            lease.epoch, history.model.epoch,
            "{place}: the epoch goes on"
        );
        goes_on += 1;
        let found = (contents(&mut store).unwrap(), rules(&mut store).unwrap());
        let all = StoreTime::MAX;
        let records = done(&mut store);
        let is_in = |model: &Model| {
            let rows = model.load(Position::MIN, all, usize::MAX);
            let contents = ((rows, model.dead()), model.rules.clone());
            contents == found && model.done() == records
        };
        if let Call::HandOut(upto) = call {
            // (Whether the watermark was stored is not to be seen. The writer stores it again.)
            store.hand_out(upto).unwrap();
        }
        if !is_in(&history.model) {
            (history.model, history.gate) = before;
            assert!(is_in(&history.model), "{place}: {found:#?} is none of both");
        }
    }
    drop(store);
    // Then the computer crashes.
    let (image, accesses) = {
        let disk = disk.lock().unwrap();
        (disk.synced.clone(), disk.accesses)
    };
    let mut store =
        open(&Disk::sound(image), true).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(
        store.acquire().unwrap()[0].epoch > history.model.epoch,
        "{place}"
    );
    let found = contents(&mut store).unwrap();
    assert_eq!(found, expected(&history.model), "{place}");
    assert_eq!(rules(&mut store).unwrap(), history.model.rules, "{place}");
    assert_eq!(done(&mut store), history.model.done(), "{place}");
    (accesses, goes_on)
}

/// At every access: the disk fails, works again, and the store goes on.
fn comes_back_at_each_access(trouble: Trouble, seed: u64) {
    quiet();
    let (accesses, _) = run_on(seed, trouble, Fails::None);
    assert!(accesses > 500, "{accesses} are not all");
    let mut came_back = 0;
    for nth in 0.. {
        let (_, times) = run_on(seed, trouble, Fails::OfEachCall(nth));
        came_back += times;
        if times == 0 && nth > 0 {
            println!("{came_back} times, at {nth} accesses of a call at most");
            break;
        }
    }
    assert!(
        came_back > accesses / 2,
        "it has come back {came_back} times"
    );
    if is_thorough() {
        for fails_at in 0..accesses {
            let fails = [1, 1, 2, 5][fails_at as usize % 4];
            run_on(seed, trouble, Fails::At(fails_at, fails));
        }
    }
}

#[test]
fn a_store_comes_back_when_the_disk_has_room_again() {
    comes_back_at_each_access(Trouble::Full, 7);
}

#[test]
fn a_store_comes_back_after_an_error_of_the_disk() {
    comes_back_at_each_access(Trouble::Failing, 8);
}

/// Nobody goes on with a file that lacks what was acknowledged.
#[test]
fn a_store_does_not_come_back_to_an_older_copy_or_to_another_store() {
    quiet();
    // What lies at the path. (The store goes on with what it has open.)
    let there = Arc::new(Mutex::new(Disk::sound(Vec::new())));
    let path = there.clone();
    let builder = Redb::builder();
    let mut store = builder
        .open_backends(move || Backend(path.lock().unwrap().clone()))
        .unwrap();
    let image = || there.lock().unwrap().lock().unwrap().live.clone();
    let put = |image: Vec<u8>| *there.lock().unwrap() = Disk::sound(image);
    let before_the_lease = image();
    let epoch = store.acquire().unwrap()[0].epoch;
    let row = |store: &mut Redb, due| {
        let id = store.new_id(None, time(due));
        Row::new(id, time(due), "kind".into(), [][..].into())
    };
    let first = row(&mut store, 5);
    store
        .commit(vec![Write::Arm(first.clone())], &mut HandedOut::default())
        .unwrap();
    store.hand_out(time(3)).unwrap();
    let before_the_watermark = image();
    store.hand_out(time(10)).unwrap();
    let good = image();
    // Another store, of the same epoch.
    let other_disk = Disk::sound(Vec::new());
    let mut other = open(&other_disk, true).unwrap();
    assert_eq!(other.acquire().unwrap()[0].epoch, epoch);
    other.hand_out(time(10)).unwrap();
    drop(other);
    let other = other_disk.lock().unwrap().live.clone();
    for wrong in [before_the_lease, before_the_watermark, other] {
        put(wrong);
        let error = store.reopen().unwrap_err().to_string();
        assert!(error.contains("older copy"), "{error}");
        assert!(store.get(&Target::Id(first.id)).is_err());
    }
    put(good);
    assert_eq!(store.reopen().unwrap()[0].epoch, epoch);
    assert_eq!(
        store.get(&Target::Id(first.id)).unwrap(),
        Some(first.clone())
    );
    // Another process has had the file meanwhile: this is a new life.
    let taken = Disk::sound(image());
    let mut taker = open(&taken, true).unwrap();
    assert_eq!(taker.acquire().unwrap()[0].epoch, epoch + 1);
    let second = row(&mut taker, 6);
    taker
        .commit(vec![Write::Arm(second.clone())], &mut HandedOut::default())
        .unwrap();
    drop(taker);
    put(taken.lock().unwrap().live.clone());
    assert_eq!(store.reopen().unwrap()[0].epoch, epoch + 2);
    let (found, _) = contents(&mut store).unwrap();
    assert_eq!(
        found
            .iter()
            .map(|row| (row.id, row.suspect))
            .collect::<Vec<_>>(),
        [(first.id, true), (second.id, false),]
    );
    assert!(row(&mut store, 7).id.number() > second.id.number());
}

fn at_many_places(trouble: Trouble, seed: u64) {
    quiet();
    let accesses = run(seed, trouble, u64::MAX);
    assert!(accesses > 500, "{accesses} are not all");
    if is_thorough() {
        for fails_at in 0..accesses {
            run(seed, trouble, fails_at);
        }
        return;
    }
    // The first ones, when the file is made, and some others.
    let mut rng = fastrand::Rng::with_seed(seed);
    for number in 0..SAMPLE {
        let few = if number < SAMPLE / 4 { 40 } else { accesses };
        run(seed, trouble, rng.u64(0..few));
    }
}

#[test]
fn a_crash_loses_nothing_acknowledged() {
    at_many_places(Trouble::Crash, 1);
}

#[test]
fn torn_writes_lose_nothing_acknowledged() {
    at_many_places(Trouble::Torn, 2);
}

#[test]
fn a_full_disk_loses_nothing_acknowledged() {
    at_many_places(Trouble::Full, 3);
}

#[test]
fn an_error_of_the_disk_loses_nothing_acknowledged() {
    at_many_places(Trouble::Failing, 4);
}

/// All that a store has, by each of its calls.
type Everything = (Vec<Row>, Vec<DeadLetter>, Vec<Option<Row>>);

fn everything(store: &mut Redb, rows: &[Row]) -> Result<Everything, StoreError> {
    store.acquire()?;
    let (found, dead) = contents(store)?;
    let mut by_name = Vec::new();
    for row in rows {
        by_name.push(store.get(&Target::Id(row.id))?);
        if let Some(key) = &row.key {
            by_name.push(store.get(&Target::Key(key.clone()))?);
        }
    }
    // What is written afterwards goes well, too.
    let id = store.new_id(None, time(5));
    let row = Row::new(id, time(5), "kind".into(), [][..].into());
    store.commit(vec![Write::Arm(row)], &mut HandedOut::default())?;
    while store.upkeep()? {}
    Ok((found, dead, by_name))
}

#[test]
fn damage_is_reported_and_is_never_a_wrong_row() {
    quiet();
    let (image, rows, dead) = closed_file(5);
    let by_id: BTreeMap<DurableId, &Row> = rows.iter().map(|row| (row.id, row)).collect();
    let sound = open(&Disk::sound(image.clone()), true).map(|mut store| {
        let (found, found_dead, by_name) = everything(&mut store, &rows).unwrap();
        assert_eq!((&found, &found_dead), (&rows, &dead));
        by_name
    });
    let by_name = sound.unwrap();
    assert!(by_name.iter().all(Option::is_some) && rows.len() > 3_000);
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut reported, flips) = (0, if is_thorough() { 20_000 } else { 150 });
    for number in 0..flips {
        let mut image = image.clone();
        let place = damage(&mut image, &mut rng);
        let is_checked = number % 3 != 0;
        let result = open(&Disk::sound(image), is_checked)
            .and_then(|mut store| everything(&mut store, &rows));
        match result {
            Err(StoreError::Damaged(_) | StoreError::Foreign(_) | StoreError::Version(..)) => {
                reported += 1;
            }
            Err(other) => panic!("{place}: {other:?}"),
            Ok(all) if is_checked => {
                let is_all = all.0 == rows && all.1 == dead && all.2 == by_name;
                assert!(is_all, "{place}: something is missing, or wrong");
            }
            // Unchecked, damage may hide rows. It makes up none.
            Ok((found, ..)) => {
                let is_one = |row: &Row| by_id.get(&row.id) == Some(&row);
                assert!(found.iter().all(is_one), "{place}: a wrong row");
                assert!(found.windows(2).all(|two| two[0].id != two[1].id));
            }
        }
    }
    assert!(reported > flips / 3, "{reported} of {flips} are few");
}
