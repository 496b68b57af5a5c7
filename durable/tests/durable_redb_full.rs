//! Promise: a full disk ends no store that only frees room, and nothing is written after a sync
//! that has failed.
//!
//! - Sweeps are put off while the disk is full. They are done when it has room again.
//! - Cancels, acks and the cancel of a whole kind work on a full disk. So does an open.
//! - Acks leave no records there, and none are removed, until there is room.
//! - Large timers are tried again and die on a full disk, some in each commit.
//! - Without the reserve the same calls end the store.
//! - A disk that fills up ten times, and is cleared, costs no timer. Where `WHEELWORK_HEAL_FOLDER`
//!   is set, that folder is such a disk: `scripts/check heal`.

#[path = "common/durable_model.rs"]
mod durable_model;

use durable_model::{Folder, HandedOut, contents, done, row};
use redb::StorageBackend;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Error, ErrorKind, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{
    KindSlice, Outcome, Position, Settled, SliceLimit, Store, Target, Write,
};
use wheelwork_durable::{
    Cause, DoneTimer, Durable, DurableError, Redb, RetryPolicy, Row, StoreError, StoreTime,
};

const BLOCK: u64 = 4096;

/// A disk of `blocks_max` blocks. A file has a block once it was written to.
#[derive(Debug, Default)]
struct Disk {
    data: Vec<u8>,
    blocks: BTreeSet<u64>,
    blocks_max: u64,
    held: u64,
    /// The next sync fails: the disk found no room behind the scenes.
    sync_fails: bool,
    accesses: u64,
}

impl Disk {
    fn used(&self) -> u64 {
        self.blocks.len() as u64 + self.held
    }

    fn hold(&mut self, bytes: u64) -> Result<(), Error> {
        let held = bytes.div_ceil(BLOCK);
        if self.blocks.len() as u64 + held > self.blocks_max {
            return Err(ErrorKind::StorageFull.into());
        }
        self.held = held;
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Backend(Arc<Mutex<Disk>>);

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.0.lock().unwrap().data.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let disk = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let data = disk.data.get(at..at + out.len());
        out.copy_from_slice(data.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        disk.accesses += 1;
        let former = disk.data.len() as u64;
        disk.data.resize(usize::try_from(len).unwrap(), 0);
        disk.blocks.retain(|block| block * BLOCK < len);
        if len < former {
            // What is beyond the end goes with what is cut off.
            disk.held = 0;
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        disk.accesses += 1;
        if disk.sync_fails {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        disk.accesses += 1;
        let end = offset + data.len() as u64;
        let new: Vec<_> = (offset / BLOCK..end.div_ceil(BLOCK))
            .filter(|block| !disk.blocks.contains(block))
            .collect();
        if disk.used() + new.len() as u64 > disk.blocks_max {
            return Err(ErrorKind::StorageFull.into());
        }
        disk.blocks.extend(new);
        let at = usize::try_from(offset).unwrap();
        let end = at + data.len();
        let len = disk.data.len().max(end);
        disk.data.resize(len, 0);
        disk.data[at..end].copy_from_slice(data);
        Ok(())
    }
}

fn disk() -> Backend {
    let disk = Disk {
        blocks_max: 1 << 20,
        ..Disk::default()
    };
    Backend(Arc::new(Mutex::new(disk)))
}

fn open(disk: &Backend, has_reserve: bool) -> Result<Redb, StoreError> {
    let builder = Redb::builder().cache_bytes(1 << 20);
    if has_reserve {
        let held = disk.clone();
        let hold = move |bytes| held.0.lock().unwrap().hold(bytes);
        builder.open_backend_with_room(disk.clone(), hold)
    } else {
        builder.open_backend(disk.clone())
    }
}

/// This number of seconds after the store's clock began.
fn at_secs(secs: u64) -> StoreTime {
    StoreTime::from_millis((1_000_000 + secs) * 1_000)
}

/// Has the store's clock show `secs` seconds after its begin.
fn set(store: &mut Redb, secs: u64) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs);
    store.clock(now).unwrap();
}

fn commit(store: &mut Redb, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
    store.commit(writes, &mut HandedOut::default())
}

fn sweep(store: &mut Redb) -> Result<(), StoreError> {
    while store.upkeep()? {}
    Ok(())
}

/// Arms rows of two kinds, due in an hour, in the order of their numbers.
fn arm(store: &mut Redb, rows: u64) -> Vec<Row> {
    let mut armed = Vec::new();
    for number in 0..rows {
        let due = (1_003_600 + number * 7_919 % rows) * 1_000;
        let mut row = row(store, due, &[number as u8; 200]);
        row.kind = ["many", "few"][usize::from(number % 10 == 0)].into();
        armed.push(row);
    }
    for rows in armed.chunks(1_000) {
        commit(store, rows.iter().cloned().map(Write::Arm).collect()).unwrap();
    }
    armed
}

fn cancel(row: &Row) -> Write {
    Write::Cancel(Target::Id(row.id))
}

/// What a full disk sees. `fill` takes all of its room, `make_room` gives it back. Returns the rows
/// that are left.
fn live_on_a_full_disk(
    store: &mut Redb,
    fill: impl Fn(),
    make_room: impl Fn(),
) -> Result<Vec<Row>, StoreError> {
    let epoch = store.acquire()?[0].epoch;
    set(store, 0);
    sweep(store)?;
    let mut rows = arm(store, 20_000);
    sweep(store)?;
    set(store, 40);
    sweep(store)?;
    // Some rows lie by their deadlines, and some where they came in.
    rows.extend(arm(store, 5_000));
    set(store, 41);
    sweep(store)?;
    fill();
    for secs in 42..200 {
        set(store, secs);
        sweep(store)?;
        let row = rows.swap_remove(usize::try_from(secs).unwrap() * 89);
        commit(store, vec![cancel(&row)])?;
        let row = rows.swap_remove(usize::try_from(secs).unwrap() * 97);
        let of = Settled {
            id: row.id,
            due: row.due,
            epoch,
        };
        let kept = Box::new(DoneTimer::new(of.id, of.due, "many".into(), at_secs(secs)));
        let next = None;
        let outcomes = commit(store, vec![Write::AckKept { of, next, kept }])?;
        assert_eq!(outcomes, [Outcome::Settled(true, None)]);
    }
    assert!(store.recent_rows() > 0, "there was room for sweeps");
    let records = done(store).len();
    assert!(records < 158, "a full disk has {records} records");
    let later = at_secs(1_000);
    let forget = |store: &mut Redb| store.done().unwrap().forget(later, 1_000).unwrap();
    assert!(!forget(store).has_more);
    assert_eq!(done(store).len(), records, "none is removed");
    let before = rows.len();
    let (mut after, mut gone) = (Some(Position::MIN), 0);
    while let Some(position) = after {
        let slice = KindSlice {
            kind: "few".into(),
            after: position,
            limit: SliceLimit::rows(1_000),
        };
        let outcomes = commit(store, vec![Write::CancelKind(slice)])?;
        let Outcome::CancelledMany(ids, next) = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        (after, gone) = (*next, gone + ids.len());
    }
    rows.retain(|row| &*row.kind != "few");
    assert_eq!(gone, before - rows.len());
    make_room();
    for secs in 200..400 {
        set(store, secs);
        sweep(store)?;
    }
    assert_eq!(store.recent_rows(), 0, "sweeps are done once there is room");
    let row = rows.swap_remove(0);
    let (id, due) = (row.id, row.due);
    let kept = Box::new(DoneTimer::new(id, due, row.kind, at_secs(2_000)));
    let (of, next) = (Settled { id, due, epoch }, None);
    commit(store, vec![Write::AckKept { of, next, kept }])?;
    assert_eq!(done(store).len(), records + 1, "there is room again");
    forget(store);
    assert_eq!(done(store).len(), 1, "and they are removed");
    rows.sort_by_key(Row::position);
    Ok(rows)
}

fn fill(disk: &Backend) {
    let mut disk = disk.0.lock().unwrap();
    disk.blocks_max = disk.used();
}

fn make_room(disk: &Backend) {
    disk.0.lock().unwrap().blocks_max += 1 << 20;
}

#[test]
fn a_full_disk_puts_off_what_can_wait_and_ends_nothing() {
    let disk = disk();
    let mut store = open(&disk, true).unwrap();
    let rows = live_on_a_full_disk(&mut store, || fill(&disk), || make_room(&disk)).unwrap();
    drop(store);
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    assert_eq!(contents(&mut store).unwrap().0, rows);
}

#[test]
fn without_a_reserve_a_full_disk_ends_the_store() {
    let disk = disk();
    let mut store = open(&disk, false).unwrap();
    let ended = live_on_a_full_disk(&mut store, || fill(&disk), || make_room(&disk));
    let error = ended.unwrap_err();
    assert!(matches!(error, StoreError::Io(_)), "{error}");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    assert_eq!(source.map(Error::kind), Some(ErrorKind::StorageFull));
}

/// When a commit has ended that makes the file shorter, another program may take all that is free.
#[test]
fn a_file_that_becomes_shorter_keeps_its_reserve() {
    let disk = disk();
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    set(&mut store, 0);
    let mut rows = arm(&mut store, 20_000);
    sweep(&mut store).unwrap();
    let few = rows.split_off(19_000);
    commit(&mut store, rows.iter().map(cancel).collect()).unwrap();
    let bytes = || {
        let disk = disk.0.lock().unwrap();
        (disk.data.len() as u64, disk.held * BLOCK)
    };
    let mut shorter = 0;
    for (secs, row) in few.iter().enumerate() {
        set(&mut store, secs as u64);
        sweep(&mut store).unwrap();
        let (former, held) = bytes();
        assert!(held >= former.min(8 << 20));
        commit(&mut store, vec![cancel(row)]).unwrap();
        let (len, held) = bytes();
        assert!(held >= len.min(8 << 20), "{held} bytes beside {len}");
        shorter += usize::from(len < former);
    }
    assert!(shorter > 2, "it became shorter {shorter} times");
}

/// Large rows that are tried again, or die, write themselves anew. `alone`: each in its own commit.
fn settle_large_rows(has_room: bool, alone: bool) -> Result<(), StoreError> {
    let disk = disk();
    let mut store = open(&disk, has_room)?;
    let epoch = store.acquire()?[0].epoch;
    set(&mut store, 0);
    sweep(&mut store)?;
    let mut rows: Vec<_> = (0..60)
        .map(|_| row(&mut store, 1_000, &[7; 300_000]))
        .collect();
    for row in &rows {
        commit(&mut store, vec![Write::Arm(row.clone())])?;
    }
    set(&mut store, 1);
    sweep(&mut store)?;
    let of = |row: &Row| Settled {
        id: row.id,
        due: row.due,
        epoch,
    };
    let retry = |row: &Row, attempts: u32| Write::Retry {
        of: of(row),
        at: row.due,
        attempts,
        crashes: 0,
    };
    // While there is room, none of them waits for another one.
    let all = rows.iter().map(|row| retry(row, 1)).collect();
    let outcomes = commit(&mut store, all)?;
    let is_settled = |outcome: &Outcome| matches!(outcome, Outcome::Settled(true, _));
    assert_eq!(
        outcomes.iter().filter(|of| is_settled(of)).count(),
        rows.len()
    );
    fill(&disk);
    let mut secs = 2;
    let mut settle = |store: &mut Redb, mut writes: Vec<Write>| {
        while !writes.is_empty() {
            let some = if alone { 1 } else { writes.len() };
            let outcomes = commit(store, writes.drain(..some).collect())?;
            let mut is_going_on = false;
            for outcome in outcomes {
                match outcome {
                    Outcome::Blocked(write) => writes.push(*write),
                    outcome => is_going_on |= matches!(outcome, Outcome::Settled(true, _)),
                }
            }
            assert!(is_going_on, "none of {} goes on", writes.len());
            secs += 1;
            set(store, secs);
            sweep(store)?;
        }
        Ok(())
    };
    for attempts in 2..4 {
        let all = rows.iter().map(|row| retry(row, attempts));
        settle(&mut store, all.collect())?;
    }
    let bury = |row: &Row| Write::Bury {
        of: of(row),
        cause: Cause::Crashed,
        since: row.due,
        attempts: 4,
        crashes: 0,
        next: None,
    };
    let dead = rows.split_off(20);
    settle(&mut store, dead.iter().map(bury).collect())?;
    assert_eq!(contents(&mut store)?.1.len(), dead.len());
    // What frees room does so at once.
    let ack = |row: &Row| Write::Ack {
        of: of(row),
        next: None,
    };
    settle(&mut store, rows.iter().map(ack).collect())?;
    let discard = |row: &Row| Write::Discard(row.id);
    commit(&mut store, dead.iter().map(discard).collect())?;
    for _ in 0..3 {
        let row = row(&mut store, 1_000, &[7; 300_000]);
        commit(&mut store, vec![Write::Arm(row)])?;
    }
    drop(store);
    let mut store = open(&disk, has_room)?;
    store.acquire()?;
    assert_eq!(contents(&mut store)?.0.len(), 3);
    Ok(())
}

#[test]
fn large_rows_are_settled_on_a_full_disk() {
    for alone in [true, false] {
        settle_large_rows(true, alone).unwrap();
        let error = settle_large_rows(false, alone).unwrap_err();
        assert!(matches!(error, StoreError::Io(_)), "{error}");
    }
}

/// Its handler has had it, so nobody ends it meanwhile.
#[test]
fn a_row_that_waits_for_room_counts_as_handed_out() {
    let disk = disk();
    let mut store = open(&disk, true).unwrap();
    let epoch = store.acquire().unwrap()[0].epoch;
    set(&mut store, 0);
    sweep(&mut store).unwrap();
    let row = row(&mut store, 1_000, &[7; 1_000_000]);
    commit(&mut store, vec![Write::Arm(row.clone())]).unwrap();
    set(&mut store, 1);
    sweep(&mut store).unwrap();
    fill(&disk);
    let retry = |attempts| Write::Retry {
        of: Settled {
            id: row.id,
            due: row.due,
            epoch,
        },
        at: row.due,
        attempts,
        crashes: 0,
    };
    // This one uses the reserve up.
    let outcomes = commit(&mut store, vec![retry(1)]).unwrap();
    assert!(matches!(outcomes[..], [Outcome::Settled(true, _)]));
    let outcomes = commit(&mut store, vec![retry(2), cancel(&row)]).unwrap();
    assert!(matches!(
        outcomes[..],
        [Outcome::Blocked(_), Outcome::Cancelled(None)]
    ));
    let outcomes = commit(&mut store, vec![cancel(&row)]).unwrap();
    assert_eq!(outcomes, [Outcome::Cancelled(None)]);
    make_room(&disk);
    set(&mut store, 1_000);
    sweep(&mut store).unwrap();
    let outcomes = commit(&mut store, vec![retry(2), cancel(&row)]).unwrap();
    assert!(matches!(
        outcomes[..],
        [Outcome::Settled(true, _), Outcome::Cancelled(Some(_))]
    ));
}

#[test]
fn large_timers_that_fail_end_no_service_on_a_full_disk() {
    let disk = disk();
    let clock = ManualClock::new();
    let timers = Durable::builder(open(&disk, true).unwrap())
        .clock(clock.clone())
        .on("mail", |_| Err("it does not go".into()))
        .retry_policy(RetryPolicy::new().attempts(3))
        .start()
        .unwrap();
    let delay = Duration::from_secs(10);
    for _ in 0..60 {
        timers.schedule("mail", delay, vec![7; 300_000]).unwrap();
    }
    clock.advance(Duration::from_secs(2));
    fill(&disk);
    clock.advance(Duration::from_secs(100));
    assert!(timers.failure().is_none(), "{:?}", timers.failure());
    assert_eq!(timers.stats().dead, 60);
    timers.stop().unwrap();
}

#[test]
fn a_store_is_opened_on_a_full_disk() {
    let disk = disk();
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    set(&mut store, 0);
    let mut rows = arm(&mut store, 1_000);
    sweep(&mut store).unwrap();
    fill(&disk);
    for _ in 0..20 {
        // Its process is killed: nothing is written when it ends.
        std::mem::forget(store);
        store = open(&disk, true).unwrap();
        store.acquire().unwrap();
        let row = rows.pop().unwrap();
        commit(&mut store, vec![cancel(&row)]).unwrap();
    }
    assert_eq!(contents(&mut store).unwrap().0.len(), rows.len());
}

#[test]
fn nothing_is_written_after_a_sync_that_has_failed() {
    let disk = disk();
    let mut store = open(&disk, true).unwrap();
    store.acquire().unwrap();
    set(&mut store, 0);
    let rows = arm(&mut store, 1_000);
    sweep(&mut store).unwrap();
    disk.0.lock().unwrap().sync_fails = true;
    let error = commit(&mut store, vec![cancel(&rows[0])]).unwrap_err();
    let accesses = disk.0.lock().unwrap().accesses;
    disk.0.lock().unwrap().sync_fails = false;
    // A clean stop among them.
    let again = store.release().unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    set(&mut store, 60);
    store.upkeep().unwrap_err();
    drop(store);
    assert_eq!(disk.0.lock().unwrap().accesses, accesses);
}

/// On a real file system, in the folder that `WHEELWORK_SMALL_DISK` names, or in memory where that
/// may be mounted. (`scripts/check writeback` names folders on ext4 and xfs.)
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_puts_off_what_can_wait_and_ends_nothing() {
    if let Some(small) = std::env::var_os("WHEELWORK_SMALL_DISK") {
        return live_in(Path::new(&small));
    }
    let folder = Folder::new("small-disk");
    let run = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        let output = command.args(args).arg(folder.path()).output();
        output.is_ok_and(|output| output.status.success())
    };
    if run("mount", &["-t", "tmpfs", "-o", "size=64m", "tmpfs"]) {
        let result = std::panic::catch_unwind(|| live_in(folder.path()));
        assert!(run("umount", &[]));
        result.unwrap();
    }
}

#[cfg(target_os = "linux")]
fn live_in(folder: &Path) {
    let [path, filler] = ["timers.redb", "filler"].map(|name| folder.join(name));
    let open = || Redb::builder().cache_bytes(1 << 20).open(&path);
    let fill = || {
        let mut filler = fs::File::create(&filler).unwrap();
        let some = vec![1; 1 << 16];
        for size in [1 << 16, 4_096, 1] {
            while filler.write_all(&some[..size]).is_ok() {}
        }
        filler.sync_all().unwrap();
    };
    let mut store = open().unwrap();
    let make_room = || fs::remove_file(&filler).unwrap();
    let rows = live_on_a_full_disk(&mut store, fill, make_room).unwrap();
    drop(store);
    let mut store = open().unwrap();
    store.acquire().unwrap();
    assert_eq!(contents(&mut store).unwrap().0, rows);
}

/// Rounds in which the disk fills up, and is cleared.
const ROUNDS: u64 = 10;

/// Fills a disk with timers until none is taken any more, clears it, and waits until the store is
/// back. `clear` makes room and `fill` takes it away. Nothing that was acknowledged is lost, and
/// nothing fires twice.
fn fill_and_clear(
    store: Redb,
    pass: impl Fn(Duration),
    clock: Option<ManualClock>,
    fill: impl Fn(),
    clear: impl Fn(),
) {
    let fired: Arc<Mutex<BTreeMap<u64, u32>>> = Arc::default();
    let told = fired.clone();
    let mut builder = Durable::builder(store).on("kind", move |timer| {
        let number = timer
            .payload_text()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        *told.lock().unwrap().entry(number).or_default() += 1;
        Ok(())
    });
    if let Some(clock) = clock {
        builder = builder.clock(clock);
    }
    let timers = builder.start().unwrap();
    let (mut acknowledged, mut unsure, mut next) = (Vec::new(), BTreeSet::new(), 0);
    for round in 0..ROUNDS {
        fill();
        let (mut is_full, mut refused, mut staying) = (false, 0, 0);
        while refused < 3 {
            assert!(next < 100_000, "round {round}: the disk is never full");
            next += 1;
            let payload = format!("{next} {}", "x".repeat(20_000));
            // Every second one stays. Else as many might fire as are armed, and a disk that is slow
            // would never be full.
            let (kind, delay) = if next % 2 == 0 {
                ("stays", Duration::from_secs(3_600))
            } else {
                ("kind", Duration::from_millis(500))
            };
            match timers.schedule(kind, delay, payload) {
                Ok(_) if kind == "stays" => staying += 1,
                Ok(_) => acknowledged.push(next),
                Err(DurableError::Store(_)) => {
                    is_full = true;
                    unsure.insert(next);
                }
                Err(DurableError::Unavailable { .. }) => refused += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        assert!(is_full && timers.stats().down, "round {round}");
        clear();
        for _ in 0..2_000 {
            if timers.health().is_ready() && timers.stats().lag.is_zero() {
                break;
            }
            pass(Duration::from_millis(50));
        }
        pass(Duration::from_millis(600));
        let health = timers.health();
        assert!(health.is_ready(), "round {round}: {health:?}");
        let cancelled = timers.cancel_kind("stays").unwrap();
        let perhaps = staying + unsure.iter().filter(|&number| number % 2 == 0).count();
        assert!(
            (staying..=perhaps).contains(&cancelled),
            "round {round}: {cancelled} of {staying}"
        );
    }
    for _ in 0..400 {
        if timers.list(.., 1).unwrap().is_empty() {
            break;
        }
        pass(Duration::from_millis(50));
    }
    let stats = timers.stats();
    assert!(stats.outages >= ROUNDS, "{stats:?}");
    assert_eq!((stats.stale, stats.failed, stats.died), (0, 0, 0));
    assert!(timers.list(.., 1).unwrap().is_empty());
    let fired = fired.lock().unwrap();
    for number in &acknowledged {
        assert_eq!(fired.get(number), Some(&1), "{number} is acknowledged");
    }
    let others: BTreeSet<_> = fired
        .keys()
        .filter(|number| !acknowledged.contains(number))
        .copied()
        .collect();
    assert!(others.is_subset(&unsure), "refused, and fired: {others:?}");
    assert!(fired.values().all(|&times| times == 1), "twice");
    println!("{} timers, {} outages", acknowledged.len(), stats.outages);
    timers.stop().unwrap();
}

#[test]
fn ten_times_full_and_cleared() {
    let (disk, clock) = (disk(), ManualClock::new());
    let backend = disk.clone();
    let store = Redb::builder()
        .cache_bytes(1 << 20)
        .open_backends(move || backend.clone())
        .unwrap();
    let moves = clock.clone();
    let fill = || {
        let mut disk = disk.0.lock().unwrap();
        disk.blocks_max = disk.used() + 100;
    };
    let clear = || disk.0.lock().unwrap().blocks_max = 1 << 20;
    fill_and_clear(store, move |by| moves.advance(by), Some(clock), fill, clear);
}

/// On a file system of some MiB: a file beside the store takes what is left.
#[test]
#[ignore = "scripts/check heal mounts such a file system"]
fn ten_times_full_and_cleared_on_a_disk() {
    let folder = std::env::var_os("WHEELWORK_HEAL_FOLDER").expect("a folder on a small disk");
    let folder = Path::new(&folder);
    let store = Redb::builder()
        .cache_bytes(1 << 20)
        .open(folder.join("timers.redb"))
        .unwrap();
    let ballast = folder.join("ballast");
    let fill = || {
        let mut file = fs::File::create(&ballast).unwrap();
        let mut block = vec![1; 1 << 20];
        while !block.is_empty() {
            match file.write_all(&block).and_then(|()| file.sync_all()) {
                Ok(()) => {}
                Err(_) => block.truncate(block.len() / 2),
            }
        }
    };
    let clear = || fs::remove_file(&ballast).unwrap();
    fill_and_clear(store, std::thread::sleep, None, fill, clear);
}
