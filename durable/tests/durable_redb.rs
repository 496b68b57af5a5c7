//! Promise: the store in a file does what the trait says, and has it all when it is opened again.
//!
//! - Each write, and its outcome, is that of a plain reference; so are loads, in any order of
//!   calls, with sweeps between them.
//! - What an epoch that did not end well may have handed out is suspect, and nothing else is.
//! - What cannot be opened says why, in one line with the path, and has the system's error as its
//!   source.

#[path = "common/durable_model.rs"]
mod durable_model;

use durable_model::{
    Call, Folder, HandedOut, History, all, commit, contents, make, open, row, rules, settled, time,
};
use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};
use wheelwork_durable::contract::{
    Outcome, Position, Settled, SliceLimit, Store, Target, TrialBegun, Write,
};
use wheelwork_durable::{
    Cause, DurableError, DurableId, OpenError, Redb, Row, StoreError, StoreTime,
};

#[test]
fn smoke() {
    let folder = Folder::new("smoke");
    let mut store = open(&folder);
    assert_eq!(store.acquire().unwrap()[0].epoch, 1);
    let rows = [30, 10, 20].map(|due| row(&mut store, due, b"hello"));
    let arms = rows.clone().map(Write::Arm).to_vec();
    assert_eq!(commit(&mut store, arms), vec![Outcome::Armed(None); 3]);
    let [c, a, b] = rows;
    assert_eq!(all(&mut store), [a.clone(), b.clone(), c.clone()]);
    let two = store
        .load(0, a.position(), time(20), SliceLimit::rows(10))
        .unwrap();
    assert_eq!(two, std::slice::from_ref(&b));
    assert_eq!(store.get(&Target::Id(b.id)).unwrap(), Some(b.clone()));
    let cancel = Write::Cancel(Target::Id(b.id));
    let outcomes = commit(&mut store, vec![cancel.clone(), cancel]);
    assert_eq!(
        outcomes,
        [Outcome::Cancelled(Some(b.id)), Outcome::Cancelled(None)]
    );
    drop(store);
    let mut store = open(&folder);
    assert_eq!(store.acquire().unwrap()[0].epoch, 2);
    assert_eq!(all(&mut store), [a, c]);
    let size = store.size().unwrap();
    assert_eq!((size.rows, size.dead), (2, 0));
    assert!(size.disk_bytes > Some(0));
}

#[test]
fn a_random_history_is_that_of_the_reference() {
    for seed in 0..4 {
        let folder = Folder::new(&format!("history-{seed}"));
        let open = || {
            let builder = Redb::builder().sweep_at(20, 60).cache_bytes(1 << 16);
            builder.open(folder.file()).unwrap()
        };
        let mut history = History::new(seed);
        let mut store = open();
        history.expect(&Call::Acquire);
        store.acquire().unwrap();
        for step in 0..300 {
            if history.rng.u8(0..40) == 0 {
                if history.rng.bool() {
                    history.expect(&Call::Release);
                    store.release().unwrap();
                }
                drop(store);
                store = open();
                history.expect(&Call::Acquire);
                store.acquire().unwrap();
            }
            let call = history.next_call(&mut store);
            let mut gate = history.gate.clone();
            let expected = history.expect(&call);
            let answer = make(&mut store, &call, &mut gate).unwrap();
            assert_eq!(answer, expected, "seed {seed}, step {step}: {call:?}");
            if let Some(id) = history.model.ids().pop() {
                let found = store.get(&Target::Id(id)).unwrap();
                assert_eq!(found, history.model.row(id));
            }
        }
        let rows = history
            .model
            .load(Position::MIN, StoreTime::MAX, usize::MAX);
        assert_eq!(rules(&mut store).unwrap(), history.model.rules);
        assert_eq!(
            contents(&mut store).unwrap(),
            (rows, history.model.dead()),
            "seed {seed}"
        );
    }
}

#[test]
fn a_row_is_found_wherever_it_is() {
    let folder = Folder::new("found");
    let mut store = Redb::builder().sweep_at(0, 0).open(folder.file()).unwrap();
    store.acquire().unwrap();
    let mut rows: Vec<_> = (0..10)
        .map(|n| row(&mut store, 100 - n, &[n as u8]))
        .collect();
    commit(&mut store, rows.iter().cloned().map(Write::Arm).collect());
    let sweep = |store: &mut Redb| while store.upkeep().unwrap() {};
    sweep(&mut store);
    // Moved after the sweep, and swept again: found by way of `moved`.
    rows[3].due = time(500);
    rows[4].due = time(1);
    let to = |row: &Row| Write::Move(Target::Id(row.id), row.due);
    let moves = vec![to(&rows[3]), to(&rows[4])];
    let outcomes = commit(&mut store, moves);
    let moved = [3, 4].map(|at: usize| Outcome::Moved(Some(rows[at].clone())));
    assert_eq!(outcomes, moved);
    sweep(&mut store);
    for round in 0..2 {
        for row in &rows {
            let found = store.get(&Target::Id(row.id)).unwrap();
            assert_eq!(found.as_ref(), Some(row), "round {round}");
            // The number alone is not the name.
            let other = DurableId::new(0, time(77), row.id.number());
            assert_eq!(store.get(&Target::Id(other)).unwrap(), None);
            let other = DurableId::new(1, row.id.first_due(), row.id.number());
            assert_eq!(store.get(&Target::Id(other)).unwrap(), None);
        }
        let mut sorted = rows.clone();
        sorted.sort_by_key(Row::position);
        assert_eq!(all(&mut store), sorted);
        drop(store);
        store = open(&folder);
        store.acquire().unwrap();
    }
    let gone = commit(&mut store, vec![Write::Cancel(Target::Id(rows[3].id))]);
    assert_eq!(gone, [Outcome::Cancelled(Some(rows[3].id))]);
    assert_eq!(store.get(&Target::Id(rows[3].id)).unwrap(), None);
}

#[test]
fn a_key_is_that_of_one_row() {
    let folder = Folder::new("key");
    let mut store = open(&folder);
    store.acquire().unwrap();
    let keyed = |store: &mut Redb, due| {
        let mut row = row(store, due, b"");
        row.key = Some("order-4711".into());
        row
    };
    let by_key = Target::Key("order-4711".into());
    let (first, second) = (keyed(&mut store, 10), keyed(&mut store, 20));
    let third = keyed(&mut store, 30);
    let arms = vec![Write::Arm(first.clone()), Write::Arm(second.clone())];
    let outcomes = commit(&mut store, arms);
    assert_eq!(
        outcomes,
        [Outcome::Armed(None), Outcome::Armed(Some(first.id))]
    );
    assert_eq!(store.get(&by_key).unwrap(), Some(second.clone()));
    // The second one was handed out: it stays, and is marked.
    let mut gate = HandedOut([second.id].into());
    let outcomes = store.commit(vec![Write::Arm(third.clone())], &mut gate);
    assert_eq!(outcomes.unwrap(), [Outcome::Armed(None)]);
    let mut marked = second.clone();
    (marked.key, marked.superseded) = (None, true);
    assert_eq!(all(&mut store), [marked, third.clone()]);
    let of = Settled {
        id: second.id,
        due: second.due,
        epoch: 1,
    };
    // However it ends, it goes.
    let retry = Write::Retry {
        of,
        at: time(99),
        attempts: 1,
        crashes: 0,
    };
    assert_eq!(
        commit(&mut store, vec![retry]),
        [Outcome::Settled(true, None)]
    );
    let outcomes = commit(&mut store, vec![Write::Cancel(by_key.clone())]);
    assert_eq!(outcomes, [Outcome::Cancelled(Some(third.id))]);
    assert_eq!(store.get(&by_key).unwrap(), None);
    assert_eq!(all(&mut store), []);
}

#[test]
fn what_was_handed_out_stays_and_is_settled_under_its_epoch() {
    let folder = Folder::new("settled");
    let mut store = open(&folder);
    store.acquire().unwrap();
    let mut daily = row(&mut store, 10, b"daily");
    daily.calendar = Some("@daily".into());
    daily.kind = "daily".into();
    let once = row(&mut store, 11, b"once");
    let arms = vec![Write::Arm(daily.clone()), Write::Arm(once.clone())];
    commit(&mut store, arms);
    store.hand_out(time(20)).unwrap();
    let mut gate = HandedOut([daily.id, once.id].into());
    let writes = vec![
        Write::Cancel(Target::Id(once.id)),
        Write::Move(Target::Id(once.id), time(50)),
    ];
    assert_eq!(
        store.commit(writes, &mut gate).unwrap(),
        [Outcome::Cancelled(None), Outcome::Moved(None)]
    );
    let settled = |row: &Row, due, epoch| Settled {
        id: row.id,
        due: time(due),
        epoch,
    };
    let copy = store.new_id(None, time(10));
    let bury = Write::Bury {
        of: settled(&daily, 10, 1),
        cause: Cause::Failed("it fell".into()),
        since: time(21),
        attempts: 3,
        crashes: 2,
        next: Some((time(86_400_000), copy)),
    };
    let ack = |epoch, due| Write::Ack {
        of: settled(&once, due, epoch),
        next: None,
    };
    let outcomes = commit(&mut store, vec![ack(0, 11), ack(1, 12), bury]);
    daily.due = time(86_400_000);
    assert_eq!(
        outcomes,
        [
            Outcome::Settled(false, None),
            Outcome::Settled(false, None),
            Outcome::Settled(true, Some(daily.clone())),
        ]
    );
    let outcomes = commit(&mut store, vec![ack(1, 11), ack(1, 11)]);
    assert_eq!(
        outcomes,
        [Outcome::Settled(true, None), Outcome::Settled(false, None)]
    );
    let (rows, dead) = contents(&mut store).unwrap();
    assert_eq!(rows, [daily.clone()]);
    assert_eq!((dead.len(), dead[0].row.id), (1, copy));
    assert_eq!(dead[0].cause, Cause::Failed("it fell".into()));
    assert_eq!((dead[0].row.attempts, dead[0].row.crashes), (3, 2));
    assert_eq!(dead[0].since, time(21));
    assert_eq!(dead[0].row.calendar, None);
    let revive = Write::Revive(copy, time(5));
    let outcomes = commit(&mut store, vec![revive.clone(), revive]);
    let mut alive = dead[0].row.clone();
    (alive.due, alive.attempts, alive.crashes) = (time(5), 0, 0);
    assert_eq!(
        outcomes,
        [
            Outcome::Revived(Some(alive.clone())),
            Outcome::Revived(None)
        ]
    );
    assert_eq!(contents(&mut store).unwrap(), (vec![alive, daily], vec![]));
}

#[test]
fn what_an_epoch_that_ended_badly_may_have_handed_out_is_suspect() {
    let folder = Folder::new("suspect");
    let mut store = open(&folder);
    store.acquire().unwrap();
    let rows = [10, 20, 30].map(|due| row(&mut store, due, b""));
    commit(&mut store, rows.clone().map(Write::Arm).to_vec());
    store.hand_out(time(20)).unwrap();
    let suspects = |store: &mut Redb| -> Vec<_> {
        let rows = all(store);
        let suspects = rows.iter().map(|row| {
            assert_eq!(store.get(&Target::Id(row.id)).unwrap().as_ref(), Some(row));
            u8::from(row.suspect)
        });
        suspects.collect()
    };
    let reopened = |store: Redb| {
        drop(store);
        let mut store = open(&folder);
        store.acquire().unwrap();
        store
    };
    assert_eq!(suspects(&mut store), [0, 0, 0], "in the same epoch");
    store = reopened(store);
    // Armed, or moved there, in this epoch: it was not handed out.
    let late = row(&mut store, 15, b"");
    let to = Write::Move(Target::Id(rows[2].id), time(12));
    commit(&mut store, vec![Write::Arm(late.clone()), to]);
    for _ in 0..3 {
        assert_eq!(
            suspects(&mut store),
            [1, 0, 0, 1],
            "however often it crashes"
        );
        store = reopened(store);
    }
    // The clock was set back: the watermark is lower now, and counts.
    store.hand_out(time(12)).unwrap();
    store = reopened(store);
    assert_eq!(suspects(&mut store), [1, 1, 0, 1]);
    store.hand_out(time(100)).unwrap();
    store.release().unwrap();
    store = reopened(store);
    assert_eq!(suspects(&mut store), [1, 1, 0, 1], "it was released");
    // A suspect that is moved stays one, and one that begins.
    let epoch = store.acquire().unwrap()[0].epoch;
    let to = Write::Move(Target::Id(rows[0].id), time(40));
    let begin = Write::Begin {
        of: settled(&rows[1], epoch),
        crashes: 2,
    };
    let outcomes = commit(&mut store, vec![to, begin]);
    assert_eq!(outcomes[1], Outcome::Begun(TrialBegun::Noted));
    store = reopened(store);
    assert_eq!(suspects(&mut store), [1, 0, 1, 1]);
    let row = store.get(&Target::Id(rows[1].id)).unwrap().unwrap();
    assert_eq!((row.attempts, row.crashes), (0, 2));
}

/// redb refuses values of 3 GiB, and ends then. A row and a dead letter have more than a payload.
#[test]
fn redb_can_keep_the_largest_payload() {
    let folder = Folder::new("largest");
    let largest = open(&folder).payload_max();
    assert!(largest <= (3 << 30) - (1 << 20), "{largest} bytes");
}

#[test]
fn ids_are_new_after_a_restart() {
    let folder = Folder::new("ids");
    let mut last = 0;
    for _ in 0..3 {
        let mut store = open(&folder);
        store.acquire().unwrap();
        for _ in 0..3 {
            let row = row(&mut store, 5, b"");
            assert!(row.id.number() > last);
            last = row.id.number();
            commit(&mut store, vec![Write::Arm(row.clone())]);
            commit(&mut store, vec![Write::Cancel(Target::Id(row.id))]);
        }
    }
}

/// Runs this test's program again as another process, in the part `job` of [`child`].
#[cfg(target_os = "linux")]
fn command(job: &str, path: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env("WHEELWORK_JOB", job)
        .env("WHEELWORK_PATH", path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    command
}

/// From now on no file of this process becomes longer.
#[cfg(target_os = "linux")]
fn limit_files(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: no memory is involved but `limit`, which lives as long as the call.
    let is_set = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(is_set, 0);
}

/// Arms timers until the disk refuses. Prints the ids of those that were acknowledged.
#[cfg(target_os = "linux")]
fn fill(path: &std::path::Path) {
    let mut store = Redb::open(path).unwrap();
    store.acquire().unwrap();
    loop {
        let rows: Vec<_> = (0..50).map(|_| row(&mut store, 9, &[7; 2_000])).collect();
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        let arms = rows.into_iter().map(Write::Arm).collect();
        if let Err(error) = store.commit(arms, &mut HandedOut::default()) {
            println!("error {error}");
            assert!(matches!(error, StoreError::Io(_)), "{error}");
            return;
        }
        ids.iter().for_each(|id| println!("id {id}"));
    }
}

/// No test of its own: what [`command`] runs.
#[cfg(target_os = "linux")]
#[test]
fn child() {
    let (Ok(job), Ok(path)) = (
        std::env::var("WHEELWORK_JOB"),
        std::env::var("WHEELWORK_PATH"),
    ) else {
        return;
    };
    let path = std::path::Path::new(&path);
    match &*job {
        "hold" => {
            let _store = Redb::open(path).unwrap();
            println!("open");
            let _ = std::io::read_to_string(std::io::stdin());
        }
        "refuse" => println!("error {}", Redb::open(path).unwrap_err()),
        "far limit" => {
            limit_files(1 << 40);
            let mut store = Redb::open(path).unwrap();
            store.acquire().unwrap();
            while store.upkeep().unwrap() {}
            println!("open");
        }
        "limit" => {
            limit_files(6 << 20);
            // SAFETY: it sets a signal to be ignored, and names no handler.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            fill(path);
        }
        "fill" => fill(path),
        other => panic!("{other}"),
    }
}

/// tmpfs counts the reserve beyond the end of a file, and ends a process whose limit it passes.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_the_length_of_files_ends_nobody() {
    let in_memory = std::path::Path::new("/dev/shm");
    let folder = Folder::new("far-limit");
    let name = format!("wheelwork-{}.redb", std::process::id());
    for path in [folder.file(), in_memory.join(name)] {
        if path.parent().is_some_and(std::path::Path::is_dir) {
            let output = command("far limit", &path).output().unwrap();
            let _ = std::fs::remove_file(&path);
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("open"));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn another_process_keeps_it_until_it_is_killed() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("killed");
    let mut holder = command("hold", &folder.file()).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("open")));
    assert!(matches!(refused(&folder.file()), StoreError::InUse(_)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    open(&folder);
}

/// What was acknowledged before a disk was full is there.
#[cfg(target_os = "linux")]
fn full(job: &str, folder: &std::path::Path) {
    let path = folder.join("timers.redb");
    let output = command(job, &path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let ids: Vec<DurableId> = text
        .lines()
        .filter_map(|line| line.rsplit_once("id ")?.1.parse().ok())
        .collect();
    let error = text.lines().find(|line| line.starts_with("error "));
    assert!(error.unwrap().contains("timers.redb: "), "{text}");
    assert!(ids.len() >= 100, "{} timers fill it", ids.len());
    // Room is made elsewhere, which a copy stands for.
    let copy = folder.parent().unwrap().join("copy.redb");
    fs::copy(&path, &copy).unwrap();
    let mut store = Redb::open(&copy).unwrap();
    store.acquire().unwrap();
    for id in &ids {
        assert!(store.get(&Target::Id(*id)).unwrap().is_some(), "{id}");
    }
    let found = all(&mut store).len();
    assert!(found == ids.len() || found == ids.len() + 50, "all or none");
    drop(store);
    fs::remove_file(copy).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let folder = Folder::new("full");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    full("limit", &inner);
    fs::remove_file(inner.join("timers.redb")).unwrap();
    // A disk of its own, where one may be mounted.
    let run = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        let output = command.args(args).arg(&inner).output();
        output.is_ok_and(|output| output.status.success())
    };
    if run("mount", &["-t", "tmpfs", "-o", "size=6m", "tmpfs"]) {
        let result = std::panic::catch_unwind(|| full("fill", &inner));
        assert!(run("umount", &[]));
        result.unwrap();
    }
}

#[cfg(unix)]
#[test]
fn what_may_not_be_opened_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("rights");
    drop(open(&folder));
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o400)).unwrap();
    // To root it may be opened all the same: then by nobody.
    #[cfg(target_os = "linux")]
    if Redb::open(folder.file()).is_ok() {
        use std::os::unix::process::CommandExt;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let output = command("refuse", &folder.file()).uid(65_534).output();
        // Nobody may not be allowed to run this program.
        if let Ok(output) = output {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("timers.redb: Permission denied"), "{text}");
        }
        return;
    }
    let error = refused(&folder.file());
    assert!(error.to_string().contains("Permission denied"), "{error}");
}

/// The error of opening this, in one line.
fn refused(path: &std::path::Path) -> StoreError {
    let error = Redb::open(path).unwrap_err();
    let line = error.to_string();
    assert!(
        !line.contains('\n') && line.contains(path.to_str().unwrap()),
        "{line}"
    );
    error
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = Folder::new("refused");
    let error = refused(folder.path());
    assert!(matches!(&error, StoreError::Io(why) if why.ends_with("this is a directory")));

    let error = refused(&folder.path().join("no/timers.redb"));
    assert!(matches!(&error, StoreError::Io(why) if why.ends_with("/no does not exist")));

    let text = folder.path().join("text");
    fs::write(
        &text,
        "this is a text, and no store of timers at all\n".repeat(200),
    )
    .unwrap();
    assert!(matches!(refused(&text), StoreError::Foreign(_)));
    fs::write(&text, "short").unwrap();
    assert!(matches!(refused(&text), StoreError::Foreign(_)));
    let error = refused(&text.join("timers.redb"));
    assert!(matches!(error, StoreError::Io(_)), "{error}");

    // Another program's tables.
    let other = folder.path().join("other");
    let table = redb::TableDefinition::<u64, u64>::new("theirs");
    let database = redb::Database::create(&other).unwrap();
    let transaction = database.begin_write().unwrap();
    drop(transaction.open_table(table).unwrap());
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(refused(&other), StoreError::Foreign(_)));

    // Open already.
    let store = open(&folder);
    assert!(matches!(refused(&folder.file()), StoreError::InUse(_)));
    drop(store);

    // Another version of the format: 9, with its checksum.
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let database = redb::Database::open(folder.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut table = transaction.open_table(meta).unwrap();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[0; 16]);
    sum.update(&[9]);
    let value = [&[9][..], &sum.finalize().to_le_bytes()].concat();
    table.insert("version", &*value).unwrap();
    drop(table);
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(refused(&folder.file()), StoreError::Version(_, 9)));
    assert!(refused(&folder.file()).to_string().contains("version 9"));

    // An empty file becomes a store.
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    Redb::open(&empty).unwrap();
    Redb::open(&empty).unwrap();
}

#[test]
fn an_error_has_the_systems_error_behind_it() {
    let folder = Folder::new("behind");
    let text = folder.path().join("text");
    fs::write(&text, "no directory").unwrap();
    let error = refused(&text.join("timers.redb"));
    let chain = [
        OpenError::Store(error.clone())
            .source()
            .map(ToString::to_string),
        DurableError::Store(error.clone())
            .source()
            .map(ToString::to_string),
        error.source().map(ToString::to_string),
    ];
    let kind = |source: &(dyn Error + 'static)| source.downcast_ref().map(io::Error::kind);
    assert_eq!(
        error.source().and_then(kind),
        Some(ErrorKind::NotADirectory)
    );
    // Each error's own line has what the store says, which does not come again behind it.
    assert_eq!(chain[0], chain[2]);
    assert_eq!(chain[1], chain[2]);
    let said = chain[2].as_deref().unwrap();
    assert_eq!(error.to_string().matches(said).count(), 1, "{error}");
}
