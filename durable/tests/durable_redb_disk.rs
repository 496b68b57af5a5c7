//! Promise: the store in a file is what is on the disk, under its name.
//!
//! - What is read when it is opened comes from the disk, and not from what the system has cached.
//! - A file that was removed, renamed or replaced while it was open ends the store within two
//!   seconds.
//! - A file that must be there is not made.
//! - An empty file, and a link that names no file, become a store in place. Nothing is made beside
//!   it. Of several that make it at once one has it, and the others are told that it is in use.
//! - Errors have one line, whatever a path has.
//!
//! `scripts/check writeback` shows the first one on disks that fail.

#[path = "common/durable_model.rs"]
mod durable_model;

use durable_model::{Folder, HandedOut, contents, row};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Store, Write};
use wheelwork_durable::{Durable, DurableError, Redb, StoreError};

fn arm(store: &mut Redb) -> Result<(), StoreError> {
    let row = row(store, 5, b"x");
    let outcomes = store.commit(vec![Write::Arm(row)], &mut HandedOut::default());
    outcomes.map(drop)
}

/// Has the store's clock show `secs` seconds after its begin.
fn set(store: &mut Redb, secs: u64) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs);
    store.clock(now).unwrap();
}

#[cfg(target_os = "linux")]
mod cached {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// Bytes that the system has fetched from disks for this thread. `None`: it does not say.
    fn fetched_bytes() -> Option<u64> {
        let text = fs::read_to_string("/proc/thread-self/io").ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("read_bytes: "));
        line?.parse().ok()
    }

    /// How many bytes a call has the system fetch from disks.
    fn fetched_by(call: impl FnOnce()) -> u64 {
        let before = fetched_bytes().unwrap_or(0);
        call();
        fetched_bytes().unwrap_or(0) - before
    }

    /// Whether the file system forgets pages, and tells. One in memory does not.
    fn forgets(folder: &Folder) -> bool {
        let path = folder.path().join("plain");
        fs::write(&path, [1; 1 << 16]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        // SAFETY: no memory is involved.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        fetched_by(|| drop(fs::read(&path).unwrap())) >= 1 << 16
    }

    #[test]
    fn what_is_read_at_an_open_comes_from_the_disk() {
        let folder = Folder::new("from-disk");
        if !forgets(&folder) {
            return println!("this file system keeps what it has cached, or does not tell");
        }
        let mut store = Redb::open(folder.file()).unwrap();
        store.acquire().unwrap();
        let rows: Vec<_> = (0..1_000)
            .map(|n| row(&mut store, n, &[7; 1_000]))
            .collect();
        let arms = rows.into_iter().map(Write::Arm).collect();
        store.commit(arms, &mut HandedOut::default()).unwrap();
        drop(store);
        // All of it is cached now.
        fs::read(folder.file()).unwrap();
        let fetched = fetched_by(|| {
            let mut store = Redb::open(folder.file()).unwrap();
            assert_eq!(contents(&mut store).unwrap().0.len(), 1_000);
        });
        assert!(fetched > 1_000_000, "{fetched} bytes are not all");
    }
}

/// What is done to a file under the program.
type Harm = fn(&Path, &Path);

#[cfg(unix)]
#[test]
fn a_file_that_is_gone_ends_the_store_within_a_second() {
    let harms: [(&str, Harm, &str); 4] = [
        (
            "removed",
            |_, file| fs::remove_file(file).unwrap(),
            "was removed or renamed",
        ),
        (
            "renamed",
            |folder, file| fs::rename(file, folder.join("old")).unwrap(),
            "was removed",
        ),
        (
            "replaced",
            |folder, file| {
                fs::copy(file, folder.join("copy")).unwrap();
                fs::rename(folder.join("copy"), file).unwrap();
            },
            "another file has taken the place",
        ),
        // As a volume that is not mounted any more.
        (
            "folder",
            |folder, _| {
                let away = folder.with_extension("away");
                fs::rename(folder, &away).unwrap();
                fs::remove_dir_all(away).unwrap();
            },
            "was removed or renamed",
        ),
    ];
    for (name, harm, why) in harms {
        let folder = Folder::new(&format!("gone-{name}"));
        let mut store = Redb::open(folder.file()).unwrap();
        store.acquire().unwrap();
        set(&mut store, 0);
        arm(&mut store).unwrap();
        harm(folder.path(), &folder.file());
        set(&mut store, 1);
        let error = arm(&mut store).unwrap_err().to_string();
        assert!(
            error.contains(why) && !error.contains('\n'),
            "{name}: {error}"
        );
        // For good, and for a clean stop too.
        assert_eq!(store.release().unwrap_err().to_string(), error, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_clock_that_was_set_back_does_not_end_the_looks() {
    let folder = Folder::new("gone-back");
    let mut store = Redb::open(folder.file()).unwrap();
    store.acquire().unwrap();
    set(&mut store, 500_000);
    arm(&mut store).unwrap();
    fs::remove_file(folder.file()).unwrap();
    set(&mut store, 0);
    arm(&mut store).unwrap_err();
}

#[cfg(unix)]
#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    let (folder, clock) = (Folder::new("gone-durable"), ManualClock::new());
    let store = Redb::open(folder.file()).unwrap();
    let timers = Durable::builder(store).clock(clock.clone());
    let timers = timers.on("kind", |_| Ok(())).start().unwrap();
    let hour = Duration::from_secs(3_600);
    timers.schedule("kind", hour, "").unwrap();
    fs::remove_file(folder.file()).unwrap();
    clock.advance(Duration::from_secs(2));
    let refused = timers.schedule("kind", hour, "");
    assert!(
        matches!(refused, Err(DurableError::Unavailable { .. })),
        "{refused:?}"
    );
    let failure = timers.failure().expect("it has failed").to_string();
    assert!(failure.contains("does not exist"), "{failure}");
    // No new store is made, however long it takes.
    clock.advance(60 * Duration::from_secs(1));
    assert!(timers.stats().down && !folder.file().exists());
    timers.stop().unwrap_err();
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_comes_back_with_its_file_and_with_no_other() {
    let (folder, clock) = (Folder::new("back-durable"), ManualClock::new());
    let (file, away) = (folder.file(), folder.path().join("away.redb"));
    let store = Redb::open(&file).unwrap();
    let timers = Durable::builder(store).clock(clock.clone());
    let timers = timers.on("kind", |_| Ok(())).start().unwrap();
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
    let early = timers.schedule("kind", second, "").unwrap();
    // (As of now. What is acknowledged from here on is not in it.)
    let older = folder.path().join("older.redb");
    fs::copy(&file, &older).unwrap();
    let late = timers.schedule("kind", hour, "").unwrap();
    fs::rename(&file, &away).unwrap();
    clock.advance(5 * second);
    assert!(timers.stats().down);
    // Another store, and an older copy, are left alone.
    drop(Redb::open(&file).unwrap());
    clock.advance(15 * second);
    let failure = timers.failure().expect("it is another store").to_string();
    assert!(failure.contains("another file is there"), "{failure}");
    fs::remove_file(&file).unwrap();
    fs::rename(&older, &file).unwrap();
    clock.advance(15 * second);
    assert!(timers.stats().down, "an older copy");
    fs::remove_file(&file).unwrap();
    fs::rename(&away, &file).unwrap();
    clock.advance(15 * second);
    assert!(timers.health().is_ready(), "{:?}", timers.health());
    assert!(timers.get(late).unwrap().is_some());
    assert!(timers.get(early).unwrap().is_none(), "it has fired");
    assert_eq!((timers.stats().done, timers.stats().stale), (1, 0));
    timers.stop().unwrap();
}

/// An operator who copies a backup over the file, while its store is away. The numbers in it are
/// the same, and so is the inode.
#[cfg(target_os = "linux")]
#[test]
fn a_store_does_not_go_on_with_what_was_copied_into_its_file() {
    let (folder, clock) = (Folder::new("into-durable"), ManualClock::new());
    let (file, away) = (folder.file(), folder.path().join("away.redb"));
    let store = Redb::open(&file).unwrap();
    let timers = Durable::builder(store).clock(clock.clone());
    let timers = timers.on("kind", |_| Ok(())).start().unwrap();
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
    for is_copied in [false, true] {
        timers.schedule("kind", hour, "").unwrap();
        clock.advance(second);
        // (Nothing is written now.)
        let older = fs::read(&file).unwrap();
        timers.schedule("kind", hour, "").unwrap();
        clock.advance(second);
        fs::rename(&file, &away).unwrap();
        clock.advance(5 * second);
        timers.schedule("kind", hour, "").unwrap_err();
        clock.advance(15 * second);
        assert!(timers.stats().down);
        if is_copied {
            fs::write(&away, &older).unwrap();
        }
        fs::rename(&away, &file).unwrap();
        for _ in 0..3 {
            clock.advance(15 * second);
            assert_eq!(timers.health().is_ready(), !is_copied);
        }
    }
    let failure = timers.failure().expect("it is a copy").to_string();
    assert!(failure.contains("was written meanwhile"), "{failure}");
    timers.stop().unwrap_err();
    assert_eq!(Redb::open(&file).unwrap().size().unwrap().rows, 3);
}

#[cfg(unix)]
#[test]
fn the_program_may_change_its_directory() {
    const FOLDER: &str = "WHEELWORK_DISK_FOLDER";
    // This test's program again: the directory is the whole process's.
    if let Some(folder) = std::env::var_os(FOLDER) {
        std::env::set_current_dir(&folder).unwrap();
        let mut store = Redb::open("timers.redb").unwrap();
        store.acquire().unwrap();
        std::env::set_current_dir("/").unwrap();
        set(&mut store, 7);
        arm(&mut store).unwrap();
        assert!(store.size().unwrap().disk_bytes > Some(0));
        return;
    }
    let folder = Folder::new("directory");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_program_may_change_its_directory"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(folder.file().exists());
}

#[test]
fn a_file_that_must_exist_is_not_made() {
    let folder = Folder::new("must-exist");
    let open = || Redb::builder().must_exist(true).open(folder.file());
    let error = open().unwrap_err().to_string();
    assert!(
        error.ends_with("does not exist, and no new store is to be made"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(folder.file(), "").unwrap();
    let error = open().unwrap_err().to_string();
    assert!(
        error.ends_with("is empty, and no new store is to be made"),
        "{error}"
    );
    fs::remove_file(folder.file()).unwrap();
    drop(Redb::open(folder.file()).unwrap());
    open().unwrap();
}

/// What a process leaves that is ended while it makes the file: zeros, or a header without its
/// first bytes.
fn unfinished() -> [Vec<u8>; 3] {
    let mut header = vec![0; 70_000];
    header[9..300].fill(1);
    header[12..16].copy_from_slice(&4_096_u32.to_le_bytes());
    [Vec::new(), vec![0; 70_000], header]
}

#[test]
fn a_file_that_was_not_finished_is_made_in_place() {
    let folder = Folder::new("in-place");
    for begun in unfinished() {
        fs::write(folder.file(), &begun).unwrap();
        let before = number(&folder.file());
        if !begun.is_empty() {
            let error = Redb::builder().must_exist(true).open(folder.file());
            assert!(matches!(error, Err(StoreError::Foreign(_))));
            assert!(fs::read(folder.file()).unwrap() == begun, "it was changed");
        }
        let mut store = Redb::open(folder.file()).unwrap();
        store.acquire().unwrap();
        arm(&mut store).unwrap();
        drop(store);
        assert_eq!(number(&folder.file()), before, "it is another file");
        let mut store = Redb::open(folder.file()).unwrap();
        assert_eq!(contents(&mut store).unwrap().0.len(), 1);
        let beside = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(beside, 1, "something lies beside it");
    }
}

/// Zeros at the beginning alone are no sign.
#[test]
fn another_programs_file_that_begins_with_zeros_is_not_touched() {
    let folder = Folder::new("zeros");
    for text in ["text", &"a longer text ".repeat(20)] {
        for zeros in [9, 12, 16] {
            let other = [&vec![0; zeros], text.as_bytes()].concat();
            fs::write(folder.file(), &other).unwrap();
            let opened = Redb::open(folder.file());
            assert!(matches!(opened, Err(StoreError::Foreign(_))), "{opened:?}");
            assert!(fs::read(folder.file()).unwrap() == other, "it was changed");
        }
    }
}

#[cfg(unix)]
fn number(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
}

/// std does not say which file it is.
#[cfg(not(unix))]
fn number(_: &Path) -> u64 {
    0
}

#[cfg(unix)]
#[test]
fn a_link_that_names_no_file_becomes_a_store() {
    let folder = Folder::new("dangling");
    let target = folder.path().join("target");
    std::os::unix::fs::symlink(&target, folder.file()).unwrap();
    for begun in unfinished() {
        if !begun.is_empty() {
            fs::write(&target, &begun).unwrap();
        }
        drop(Redb::open(folder.file()).unwrap());
        assert!(Redb::builder().must_exist(true).open(&target).is_ok());
        assert!(fs::symlink_metadata(folder.file()).unwrap().is_symlink());
    }
}

/// Where the file has gone, a new store is made: whatever lies beside it has other timers.
#[test]
fn what_lies_beside_a_file_is_not_taken_for_it() {
    let folder = Folder::new("beside");
    let mut store = Redb::open(folder.file()).unwrap();
    store.acquire().unwrap();
    arm(&mut store).unwrap();
    drop(store);
    fs::rename(folder.file(), folder.path().join("timers.redb.new")).unwrap();
    let mut store = Redb::open(folder.file()).unwrap();
    assert_eq!(contents(&mut store).unwrap().0, []);
}

#[test]
fn of_many_that_make_a_file_at_once_one_has_it() {
    let folder = Folder::new("at-once");
    for _ in 0..20 {
        let is_made = AtomicBool::new(false);
        let open = || {
            while !is_made.load(Ordering::SeqCst) {
                match Redb::open(folder.file()) {
                    Ok(store) => {
                        assert!(!is_made.swap(true, Ordering::SeqCst), "two have it");
                        return Some(store);
                    }
                    Err(StoreError::InUse(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            None
        };
        let opened = std::thread::scope(|scope| {
            let threads = [(); 6].map(|()| scope.spawn(open));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(opened.iter().flatten().count(), 1);
        drop(opened);
        drop(Redb::open(folder.file()).unwrap());
        fs::remove_file(folder.file()).unwrap();
    }
}

#[test]
fn errors_have_one_line_whatever_a_path_has() {
    let error = Redb::open("").unwrap_err().to_string();
    assert_eq!(error, "an empty path: this names no file");
    let folder = Folder::new("lines");
    for path in ["a\nb/timers.redb", "a\nb", "file/a\nb/timers.redb"] {
        fs::write(folder.path().join("file"), "text").unwrap();
        let builder = Redb::builder().must_exist(true);
        let error = builder.open(folder.path().join(path)).unwrap_err();
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}
