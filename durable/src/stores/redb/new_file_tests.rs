//! New files whose disk is full, and whose process is killed.

use super::copy::FileSnapshot;
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use super::disk::may_have_acl;
use super::file::FileId;
use super::new_file::{NewFile, Speed, partial_of};
use super::rights::Rights;
use super::{Redb, room};
use crate::store::contract::{Gate, Store, StoreError};
use crate::store::row::{DurableId, Position, Row, StoreTime};
use crate::store::write::{SliceLimit, Target, Write};
use redb::StorageBackend;
use redb::backends::FileBackend;
use std::error::Error as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Nothing was handed out.
struct Open;

impl Gate for Open {
    fn let_go(&mut self, _: DurableId) -> bool {
        true
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("wheelwork-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().to_string();
        let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file on a disk whose room has a limit in bytes, and what was there at each sync.
#[derive(Debug)]
struct Limited {
    inner: FileBackend,
    bytes_max: u64,
    path: PathBuf,
    images: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Limited {
    fn new(path: &Path, bytes_max: u64) -> Self {
        let path = partial_of(path);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path);
        Self {
            inner: FileBackend::new(file.unwrap()).unwrap(),
            bytes_max,
            path,
            images: Arc::default(),
        }
    }

    fn id(&self) -> FileId {
        FileId::of(&fs::metadata(&self.path).unwrap())
    }

    fn fits(&self, end: u64) -> io::Result<()> {
        match end <= self.bytes_max {
            true => Ok(()),
            false => Err(ErrorKind::StorageFull.into()),
        }
    }
}

impl StorageBackend for Limited {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fits(len)?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.images.lock().unwrap().push(fs::read(&self.path)?);
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fits(offset + data.len() as u64)?;
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}

/// A store with some megabytes of rows, of which a half have ended, and those that are there.
fn store(path: &Path) -> (Redb, Vec<Row>) {
    let mut store = Redb::open(path).unwrap();
    store.acquire().unwrap();
    let row = |store: &mut Redb, number: u64| {
        let due = StoreTime::from_millis(number * 7_919 % 100_000);
        let mut row = Row::new(
            store.new_id(None, due),
            due,
            "kind".into(),
            [number as u8; 1_000][..].into(),
        );
        row.key = (number.is_multiple_of(5)).then(|| format!("{number}").into());
        row
    };
    let rows: Vec<_> = (0..6_000).map(|number| row(&mut store, number)).collect();
    let arms = rows.iter().cloned().map(Write::Arm).collect();
    store.commit(arms, &mut Open).unwrap();
    let (ended, mut rows): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|row| row.id.number().is_multiple_of(2));
    let cancels = ended.iter().map(|row| Write::Cancel(Target::Id(row.id)));
    store.commit(cancels.collect(), &mut Open).unwrap();
    rows.sort_by_key(|row| (row.due, row.id));
    (store, rows)
}

fn rows_of(store: &mut Redb) -> Vec<Row> {
    let all = SliceLimit::rows(usize::MAX);
    store.load(0, Position::MIN, StoreTime::MAX, all).unwrap()
}

/// Copies a store to a file on such a disk.
fn copy_to(store: &Redb, path: &Path, limited: Limited) -> Result<(), StoreError> {
    let id = limited.id();
    let mut new = NewFile::over(limited, id, path.into(), "copy".into(), Speed::Half)?;
    let database = &store.file.as_ref().unwrap().database;
    FileSnapshot::of(&store.what, database, Rights::PRIVATE)
        .unwrap()
        .fill(&mut new)?;
    new.end()?;
    Ok(())
}

#[test]
fn a_full_disk_ends_the_copy_and_not_the_store() {
    let folder = Folder::new("new-full");
    let path = folder.0.join("timers.redb");
    let (mut store, rows) = store(&path);
    let copy = folder.0.join("copy.redb");
    let mut is_whole = Vec::new();
    for mebibytes in [0, 1, 2, 3, 16] {
        match copy_to(&store, &copy, Limited::new(&copy, mebibytes << 20)) {
            Ok(()) => is_whole.push(true),
            Err(error) => {
                assert!(matches!(error, StoreError::Io(_)), "{error}");
                let source = error.source().and_then(|source| source.downcast_ref());
                assert!(source.is_some_and(room::is_full), "{error}");
                assert!(error.to_string().starts_with("copy: "), "{error}");
                assert!(!copy.exists());
                // (A file that could not even be begun stays for the next backup.)
                let _ = fs::remove_file(partial_of(&copy));
                is_whole.push(false);
            }
        }
        assert!(rows_of(&mut store) == rows, "the store has changed");
        store.hand_out(StoreTime::from_millis(mebibytes)).unwrap();
    }
    assert_eq!(is_whole, [false, false, false, false, true]);
    assert_eq!(folder.names(), ["copy.redb", "timers.redb"]);
}

/// What is there of a copy whose process was killed is no store, until all of it is there.
#[test]
fn a_copy_that_was_killed_is_no_store() {
    let folder = Folder::new("new-killed");
    let path = folder.0.join("timers.redb");
    let (store, rows) = store(&path);
    let copy = folder.0.join("copy.redb");
    let limited = Limited::new(&copy, u64::MAX);
    let images = limited.images.clone();
    copy_to(&store, &copy, limited).unwrap();
    let (images, mut wholes) = (images.lock().unwrap().clone(), 0);
    assert!(images.len() > 8, "{} syncs are few", images.len());
    for image in images {
        fs::write(partial_of(&copy), image).unwrap();
        let opened = Redb::builder().must_exist(true).open(partial_of(&copy));
        let is_whole = opened.is_ok_and(|mut store| {
            store.acquire().unwrap();
            let found = rows_of(&mut store);
            // (Before the first table it is any new file.)
            assert!(found.is_empty() || found == rows, "a part is taken for all");
            !found.is_empty()
        });
        assert!(is_whole || wholes == 0, "it was whole, and is so no more");
        wholes += usize::from(is_whole);
        // It is in nobody's way.
        fs::remove_file(&copy).unwrap();
        let new = NewFile::begin(&copy, Rights::PRIVATE, Speed::Full).unwrap();
        assert!(new.end().is_ok());
    }
    assert!(wholes < 6, "{wholes} images are stores");
}

#[test]
fn a_store_is_compacted_on_a_disk_that_is_full() {
    let folder = Folder::new("new-compact");
    let path = folder.0.join("timers.redb");
    let (mut store, mut rows) = store(&path);
    let cancels = rows
        .drain(200..)
        .map(|row| Write::Cancel(Target::Id(row.id)));
    store.commit(cancels.collect(), &mut Open).unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let before = fs::metadata(&path).unwrap().len();
    let limited = Limited::new(&path, 1 << 18);
    let id = limited.id();
    let new = NewFile::over(limited, id, path.clone(), "copy".into(), Speed::Full);
    store.compact_to(new).unwrap();
    assert!(rows_of(&mut store).iter().map(|row| row.id).eq(ids));
    drop(store);
    let _ = fs::remove_file(partial_of(&path));
    let in_place = fs::metadata(&path).unwrap().len();
    assert!(in_place <= before, "{in_place} of {before}");
    // With room for both: what has ended goes, too.
    let (was, after) = Redb::compact(&path).unwrap();
    assert_eq!(was, in_place);
    assert!(after < before / 8, "{after} of {before}");
    let mut store = Redb::open(&path).unwrap();
    store.acquire().unwrap();
    assert!(rows_of(&mut store) == rows);
    assert_eq!(folder.names(), ["timers.redb"]);
}

/// The old file is locked until the new one has its name, and it keeps its rights.
#[test]
#[cfg(unix)]
fn a_file_that_is_compacted_stays_who_it_was() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = Folder::new("new-rights");
    let path = folder.0.join("timers.redb");
    let (store, rows) = store(&path);
    assert!(matches!(Redb::compact(&path), Err(StoreError::InUse(_))));
    drop(store);
    let link = folder.0.join("link.redb");
    symlink("timers.redb", &link).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap();
    Redb::compact(&link).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!((before.mode(), before.uid()), (after.mode(), after.uid()));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let report = Redb::check(&link).unwrap();
    assert!(report.is_sound() && report.rows == rows.len() as u64);
    // What another process writes there is not touched.
    let writes = File::create(partial_of(&path)).unwrap();
    writes.try_lock().unwrap();
    assert!(matches!(Redb::compact(&path), Err(StoreError::Io(_))));
    assert_eq!(
        folder.names(),
        ["link.redb", "timers.redb", "timers.redb.partial"]
    );
}

/// A copy of a file that others may not read is not for others either.
#[test]
#[cfg(unix)]
fn copies_are_as_private_as_their_file() {
    use crate::store::contract::Snapshot;
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("new-private");
    let path = folder.0.join("timers.redb");
    let (mut store, _) = store(&path);
    let mode = |name: &str| {
        let there = fs::metadata(folder.0.join(name)).unwrap();
        there.permissions().mode() & 0o777
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let snapshot: Box<dyn Snapshot> = store.snapshot().unwrap().unwrap();
    snapshot.copy(&folder.0.join("backup.redb")).unwrap();
    drop(store);
    Redb::salvage(&path, folder.0.join("sound.redb")).unwrap();
    // Both copies of the header say what cannot be.
    let mut bytes = fs::read(&path).unwrap();
    bytes[64..320].fill(0xff);
    fs::write(&path, bytes).unwrap();
    Redb::salvage(&path, folder.0.join("salvaged.redb")).unwrap();
    for name in ["backup.redb", "sound.redb", "salvaged.redb"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

/// Another process has removed the file before redb has locked it, and has put its own there.
#[test]
fn a_file_that_another_process_has_put_there_is_not_written() {
    let folder = Folder::new("new-between");
    let copy = folder.0.join("copy.redb");
    let partial = partial_of(&copy);
    let limited = Limited::new(&copy, u64::MAX);
    let id = limited.id();
    fs::rename(&partial, folder.0.join("removed")).unwrap();
    fs::write(&partial, "half of it").unwrap();
    let new = NewFile::over(limited, id, copy, "copy".into(), Speed::Full);
    let error = new.err().unwrap();
    assert!(error.to_string().contains("being written"), "{error}");
    assert_eq!(fs::read(&partial).unwrap(), b"half of it");
}

/// The group of a new file is not always that of the file that it is made of.
#[test]
#[cfg(unix)]
fn another_group_gets_no_rights() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("new-group");
    let path = folder.0.join("file");
    let file = File::create(&path).unwrap();
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    // (The members of the former group are others now. What it had not, they do not get.)
    for (own, kept) in [(0o664, 0o604), (0o604, 0o600), (0o647, 0o604)] {
        set(own);
        let rights = Rights::of(&file).unwrap();
        rights.keep_from_others(&file).unwrap();
        assert_eq!(mode(), own);
        rights.of_another_group().keep_from_others(&file).unwrap();
        assert_eq!(mode(), kept, "{own:o}");
    }
}

/// A file with this ACL: one user may read it, and the file's group may not. Its mode says that the
/// group may. `false`: its file system has no ACLs.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn let_one_user_read(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    const NOBODY: u32 = u32::MAX;
    // The owner, a user, the group, the mask, others: tag, rights, number.
    let entries = [
        (0x01, 6, NOBODY),
        (0x02, 4, 12_345),
        (0x04, 0, NOBODY),
        (0x10, 4, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, number) in entries {
        acl.extend(u16::to_le_bytes(tag));
        acl.extend(u16::to_le_bytes(rights));
        acl.extend(u32::to_le_bytes(number));
    }
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = c"system.posix_acl_access";
    // SAFETY: both texts end with a zero, and the call reads as many bytes as `acl` has.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            acl.as_ptr().cast(),
            acl.len(),
            0,
        )
    };
    let error = io::Error::last_os_error();
    let is_known = error.raw_os_error() != Some(libc::EOPNOTSUPP);
    assert!(set == 0 || !is_known, "{error}");
    set == 0
}

/// The copy would be for a group that may not read the file.
#[test]
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn a_copy_of_a_file_with_an_acl_is_for_its_owner() {
    use crate::store::contract::Snapshot;
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("new-acl");
    let path = folder.0.join("timers.redb");
    let (mut store, _) = store(&path);
    let mode = |name: &str| {
        let there = fs::metadata(folder.0.join(name)).unwrap();
        there.permissions().mode() & 0o777
    };
    if !let_one_user_read(&path) {
        println!("left out: there are no ACLs in {}", folder.0.display());
        return;
    }
    assert_eq!(mode("timers.redb"), 0o640, "it is the mask");
    let snapshot: Box<dyn Snapshot> = store.snapshot().unwrap().unwrap();
    snapshot.copy(&folder.0.join("backup.redb")).unwrap();
    drop(store);
    Redb::salvage(&path, folder.0.join("sound.redb")).unwrap();
    for name in ["backup.redb", "sound.redb"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    // A file that is compacted keeps its ACL.
    let before = File::open(&path).unwrap();
    Redb::compact(&path).unwrap();
    let after = File::open(&path).unwrap();
    assert_eq!(mode("timers.redb"), 0o640);
    let id = |file: &File| FileId::of(&file.metadata().unwrap());
    assert!(id(&before) != id(&after), "it is another file");
    assert!(may_have_acl(&after));
}

/// Another process has taken what this one writes for something that is left of a third one.
#[test]
fn a_file_of_another_process_does_not_get_the_name() {
    let folder = Folder::new("new-others");
    let copy = folder.0.join("copy.redb");
    let partial = partial_of(&copy);
    let ends: [fn(NewFile); 2] = [
        |new| drop(new),
        |new| {
            let error = new.end().unwrap_err();
            assert!(error.to_string().contains("being written"), "{error}");
        },
    ];
    for end in ends {
        let new = NewFile::begin(&copy, Rights::PRIVATE, Speed::Full).unwrap();
        // (It stays while the other one has no number yet that is free.)
        fs::rename(&partial, folder.0.join("removed")).unwrap();
        fs::write(&partial, "half of it").unwrap();
        end(new);
        assert!(!copy.exists());
        assert_eq!(fs::read(&partial).unwrap(), b"half of it");
        fs::remove_file(&partial).unwrap();
    }
}
