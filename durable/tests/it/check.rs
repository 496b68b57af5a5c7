//! Promise: `Redb::check` finds what is wrong with a file that is closed, and changes nothing of
//! it.
//!
//! - A file of each format is sound, whether it was closed or its process was killed.
//! - Where something is damaged, it says so, or the damage is in a place that nothing uses: then
//!   the file opens, and has all that it had.
//! - Each rule that the tables keep has a file here that breaks it.

use crate::durable_model::{Folder, HandedOut, contents};
use crate::faulty_disk::{closed_file, damage, quiet};
use crate::formats::sealed;
use crate::golden::{image, names, text_of};
use redb::{Database, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use std::fs;
use wheelwork_durable::contract::{RuleChange, Store, Write};
use wheelwork_durable::{CheckReport, Redb, Row, RuleFor, StoreError, StoreTime};

/// Checks an image. It stays as it was, byte for byte.
fn check(image: &[u8]) -> Result<CheckReport, StoreError> {
    let folder = Folder::new("check");
    fs::write(folder.file(), image).unwrap();
    let report = Redb::check(folder.file());
    let after = fs::read(folder.file()).unwrap();
    assert!(after == image, "the file was changed");
    report
}

#[test]
fn files_of_every_format_are_sound() {
    for name in names() {
        let image = image(&name);
        let report = check(&image).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.flaws);
        let text = text_of(&name);
        let count = |what: &str| text.lines().filter(|line| line.starts_with(what)).count() as u64;
        assert_eq!(report.rows, count("row "), "{name}");
        assert_eq!(report.dead, count("dead "), "{name}");
        assert_eq!(report.bytes, image.len() as u64, "{name}");
        let number = name.trim_start_matches("file-").split('-').next().unwrap();
        assert_eq!(report.format, number.parse::<u64>().unwrap(), "{name}");
        assert_eq!(report.program.is_some(), report.format > 3, "{name}");
    }
}

#[test]
fn damage_is_found() {
    quiet();
    let (image, rows, dead) = closed_file(9);
    let sound = check(&image).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.flaws);
    assert_eq!(
        (sound.rows, sound.dead),
        (rows.len() as u64, dead.len() as u64)
    );
    let mut rng = fastrand::Rng::with_seed(10);
    let (mut found, mut looked_further, flips) = (0, 0, 150);
    for _ in 0..flips {
        let mut image = image.clone();
        let place = damage(&mut image, &mut rng);
        match check(&image) {
            Ok(report) if report.is_sound() => {
                assert_eq!(
                    (report.rows, report.dead),
                    (sound.rows, sound.dead),
                    "{place}"
                );
                let folder = Folder::new("check-sound");
                fs::write(folder.file(), image).unwrap();
                let mut store = Redb::open(folder.file()).unwrap();
                store.acquire().unwrap();
                let all = contents(&mut store).unwrap();
                assert!(
                    all == (rows.clone(), dead.clone()),
                    "{place}: something is missing"
                );
            }
            Ok(report) => {
                found += 1;
                looked_further += usize::from(report.rows > 0);
            }
            // The header has another number, or another file's.
            Err(StoreError::Foreign(_) | StoreError::Version(..)) => found += 1,
            Err(error) => panic!("{place}: {error}"),
        }
    }
    assert!(found > flips / 3, "{found} of {flips} are few");
    assert!(looked_further > found / 2, "{looked_further} of {found}");
}

/// A file that is cut off is not taken for a whole one.
#[test]
fn a_file_that_is_cut_off_is_found() {
    quiet();
    let (image, ..) = closed_file(11);
    for part in 0..8 {
        let cut = &image[..image.len() * part / 8];
        match check(cut) {
            Ok(report) => assert!(!report.is_sound(), "{part} eighths"),
            Err(StoreError::Foreign(_)) => {}
            Err(StoreError::Io(_)) if cut.is_empty() => {}
            Err(error) => panic!("{part} eighths: {error}"),
        }
    }
}

const RECENT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("recent");
const TOMBSTONES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tombstones");
const BY_DUE: TableDefinition<'_, &[u8; 20], &[u8]> = TableDefinition::new("by_due");
const MOVED: TableDefinition<'_, u64, &[u8; 20]> = TableDefinition::new("moved");
const KEYS: TableDefinition<'_, &[u8], u128> = TableDefinition::new("keys");
const DEAD: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("dead");
const RULES_TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("rules");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// Breaks a rule.
type Break = fn(&WriteTransaction);

/// A number of `recent` whose row is there, and its value. (Rows of `closed_file` that came last.)
fn last_recent(transaction: &WriteTransaction) -> (u64, Vec<u8>) {
    let recent = transaction.open_table(RECENT).unwrap();
    let (number, value) = recent.last().unwrap().unwrap();
    (number.value(), value.value().to_vec())
}

/// The first entry of `by_due` that was moved, or was not.
fn first_by_due(transaction: &WriteTransaction, is_moved: bool) -> ([u8; 20], Vec<u8>) {
    let by_due = transaction.open_table(BY_DUE).unwrap();
    let mut entries = by_due.iter().unwrap().map(Result::unwrap);
    let (key, value) = entries
        .find(|(key, _)| (key.value()[..6] != key.value()[6..12]) == is_moved)
        .unwrap();
    (*key.value(), value.value().to_vec())
}

fn number_of(key: &[u8; 20]) -> u64 {
    u64::from_be_bytes(*key.last_chunk().unwrap())
}

/// What each rule's break is told as.
const RULES: &[(&str, Break)] = &[
    ("meta has no state", |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        meta.remove("state").unwrap();
    }),
    ("the store has no identity", |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        meta.remove("store").unwrap();
    }),
    ("the file's floor does not allow it", |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("version", &*sealed(&[3])).unwrap();
    }),
    ("the number was never given", |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        // Epoch 9, next number 1, no watermarks.
        meta.insert("state", &*sealed(&[9, 1, 0, 0])).unwrap();
    }),
    ("there is no table moved", |transaction| {
        transaction.delete_table(MOVED).unwrap();
    }),
    ("its checksum is wrong", |transaction| {
        let (number, mut value) = last_recent(transaction);
        value[9] ^= 1;
        let mut recent = transaction.open_table(RECENT).unwrap();
        recent.insert(number, &*value).unwrap();
    }),
    ("tombstones, 0: its checksum is wrong", |transaction| {
        let mut tombstones = transaction.open_table(TOMBSTONES).unwrap();
        tombstones.insert(0, &[1; 12][..]).unwrap();
    }),
    ("it is not where it belongs", |transaction| {
        let (mut key, value) = first_by_due(transaction, false);
        let mut by_due = transaction.open_table(BY_DUE).unwrap();
        by_due.remove(&key).unwrap();
        (key[5], key[11]) = (key[5] ^ 1, key[11] ^ 1);
        by_due.insert(&key, &*value).unwrap();
    }),
    ("it is in recent as well", |transaction| {
        let (key, value) = first_by_due(transaction, false);
        let mut recent = transaction.open_table(RECENT).unwrap();
        recent.insert(number_of(&key), &*value).unwrap();
        let table = transaction.open_table(TOMBSTONES).unwrap();
        assert!(table.is_empty().unwrap());
    }),
    ("it does not name the row", |transaction| {
        let (key, _) = first_by_due(transaction, true);
        let mut moved = transaction.open_table(MOVED).unwrap();
        moved.remove(number_of(&key)).unwrap();
    }),
    ("moved: 1 of its entries name no row", |transaction| {
        let mut moved = transaction.open_table(MOVED).unwrap();
        moved.insert(7, &[7; 20]).unwrap();
    }),
    ("it is there twice", |transaction| {
        let (key, value) = first_by_due(transaction, true);
        let mut unmoved = key;
        unmoved.copy_within(6..12, 0);
        let mut by_due = transaction.open_table(BY_DUE).unwrap();
        by_due.insert(&unmoved, &*value).unwrap();
    }),
    ("the row's key is not there", |transaction| {
        let mut keys = transaction.open_table(KEYS).unwrap();
        assert!(keys.pop_first().unwrap().is_some());
    }),
    ("keys: 1 of its entries name no row", |transaction| {
        let mut keys = transaction.open_table(KEYS).unwrap();
        keys.insert(&b"nobody"[..], 7).unwrap();
    }),
    ("it is another timer's", |transaction| {
        let mut dead = transaction.open_table(DEAD).unwrap();
        let (id, mut value) = {
            let (id, value) = dead.pop_first().unwrap().unwrap();
            (id.value(), value.value().to_vec())
        };
        // Sealed for another id.
        let id = id ^ (1 << 64);
        value.truncate(value.len() - 4);
        let mut sum = crc32fast::Hasher::new();
        sum.update(&id.to_le_bytes());
        sum.update(&value);
        value.extend(sum.finalize().to_le_bytes());
        dead.insert(id, &*value).unwrap();
    }),
    ("rules, 0: it is another rule's", |transaction| {
        let mut rules = transaction.open_table(RULES_TABLE).unwrap();
        let value = rules.remove("=mail").unwrap().unwrap().value().to_vec();
        rules.insert("=other", &*value).unwrap();
    }),
    ("rules, 0: its checksum is wrong", |transaction| {
        let mut rules = transaction.open_table(RULES_TABLE).unwrap();
        rules.insert("=other", &b"no rule"[..]).unwrap();
    }),
];

/// A file with rows in both tables, moved ones among them, with keys, parts of format 4 and dead
/// letters, and without tombstones.
fn file_to_break() -> Vec<u8> {
    let folder = Folder::new("check-break");
    fs::write(folder.file(), image("file-4")).unwrap();
    let mut store = Redb::builder().sweep_at(2, 4).open(folder.file()).unwrap();
    store.acquire().unwrap();
    while store.upkeep().unwrap() {}
    let due = StoreTime::from_millis(77);
    let mut row = Row::new(
        store.new_id(None, due),
        due,
        "kind".into(),
        [7; 9][..].into(),
    );
    row.key = Some("\u{1}".into());
    let mail = RuleFor::Kind("mail".into());
    let pause = Write::Rule(mail, RuleChange::Pause(due));
    store
        .commit(vec![Write::Arm(row), pause], &mut HandedOut::default())
        .unwrap();
    drop(store);
    fs::read(folder.file()).unwrap()
}

#[test]
fn each_rule_that_is_broken_is_told() {
    let image = file_to_break();
    let sound = check(&image).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.flaws);
    for (expected, breaks) in RULES {
        let folder = Folder::new("check-rule");
        fs::write(folder.file(), &image).unwrap();
        let database = Database::open(folder.file()).unwrap();
        let transaction = database.begin_write().unwrap();
        breaks(&transaction);
        transaction.commit().unwrap();
        drop(database);
        let report = Redb::check(folder.file()).unwrap();
        let is_told = report.flaws.iter().any(|flaw| flaw.contains(expected));
        assert!(is_told, "{expected:?} is not in {:?}", report.flaws);
        assert!(report.flaws.iter().all(|flaw| flaw.lines().count() == 1));
    }
}

#[test]
fn what_is_no_closed_store_is_an_error() {
    let folder = Folder::new("check-none");
    assert!(matches!(Redb::check(folder.file()), Err(StoreError::Io(_))));
    assert!(!folder.file().exists(), "a check has made a file");
    assert!(matches!(Redb::check(folder.path()), Err(StoreError::Io(_))));
    fs::write(folder.file(), [7; 9_000]).unwrap();
    assert!(matches!(
        Redb::check(folder.file()),
        Err(StoreError::Foreign(_))
    ));
    fs::remove_file(folder.file()).unwrap();
    let store = Redb::open(folder.file()).unwrap();
    assert!(matches!(
        Redb::check(folder.file()),
        Err(StoreError::InUse(_))
    ));
    drop(store);
    assert!(Redb::check(folder.file()).unwrap().is_sound());
    // Of a file with many flaws not all are kept.
    let database = Database::open(folder.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut dead = transaction.open_table(DEAD).unwrap();
    for id in 0..1_500 {
        dead.insert(id, &[][..]).unwrap();
    }
    drop(dead);
    transaction.commit().unwrap();
    drop(database);
    let report = Redb::check(folder.file()).unwrap();
    assert_eq!((report.flaws.len(), report.dead), (1_001, 1_500));
    assert_eq!(report.flaws[1_000], "and 500 more");
}
