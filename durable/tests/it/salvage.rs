//! Promise: what is saved of a damaged file is right, and what is not certain does not fire.
//!
//! - Whatever is damaged: each timer of the new file is one that the old file had, as it was. None
//!   is there that had been cancelled, handled or replaced. What may have been is a dead letter.
//! - Timers whose pages are whole are in the new file. What is lost is told.
//! - The new file is sound, and goes on as a store. The old one stays as it was.

use crate::durable_model::{Folder, HandedOut, Rules, contents, rules, time};
use crate::faulty_disk::{closed_file, damage, quiet};
use crate::golden::{image, names, text, text_of};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use wheelwork_durable::contract::{Outcome, Store, Target, Write};
use wheelwork_durable::{Cause, DeadLetter, DurableId, Redb, Row, SalvageReport, StoreError};

/// What a new file holds. It is sound.
struct Saved {
    report: SalvageReport,
    rows: Vec<Row>,
    certain: Vec<DeadLetter>,
    doubtful: Vec<DeadLetter>,
    rules: Rules,
}

fn is_doubtful(letter: &DeadLetter) -> bool {
    matches!(&letter.cause, Cause::Failed(why) if why.starts_with("salvaged from a damaged file"))
}

/// Saves what is left of an image.
fn salvage(image: &[u8]) -> Result<Saved, StoreError> {
    let folder = Folder::new("salvage");
    fs::write(folder.file(), image).unwrap();
    let new = folder.path().join("saved.redb");
    let result = Redb::salvage(folder.file(), &new);
    assert!(
        fs::read(folder.file()).unwrap() == image,
        "the old file was changed"
    );
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{error}");
            return Err(error);
        }
    };
    let checked = Redb::check(&new).unwrap();
    assert!(checked.is_sound(), "{:?}", checked.flaws);
    assert_eq!(report.bytes, checked.bytes);
    let (mut store, rows, dead) = opened(&new);
    for row in &rows {
        let by_id = store.get(&Target::Id(row.id)).unwrap();
        assert_eq!(by_id.as_ref(), Some(row));
        if let Some(key) = &row.key {
            let by_key = store.get(&Target::Key(key.clone())).unwrap();
            assert_eq!(by_key.as_ref(), Some(row));
        }
    }
    let known = rows.iter().chain(dead.iter().map(|dead| &dead.row));
    let next = store.new_id(None, time(1)).number();
    assert!(known.map(|row| row.id.number()).all(|number| number < next));
    // It goes on as a store does.
    let row = Row::new(
        store.new_id(None, time(5)),
        time(5),
        "kind".into(),
        [][..].into(),
    );
    let arm = vec![Write::Arm(row)];
    store.commit(arm, &mut HandedOut::default()).unwrap();
    while store.upkeep().unwrap() {}
    let (doubtful, certain): (Vec<_>, Vec<_>) = dead.into_iter().partition(is_doubtful);
    assert_eq!(report.rows, rows.len() as u64);
    assert_eq!(
        report.dead + report.doubtful,
        (certain.len() + doubtful.len()) as u64
    );
    Ok(Saved {
        rules: rules(&mut store).unwrap(),
        report,
        rows,
        certain,
        doubtful,
    })
}

fn opened(path: &Path) -> (Redb, Vec<Row>, Vec<DeadLetter>) {
    let mut store = Redb::builder().must_exist(true).open(path).unwrap();
    store.acquire().unwrap();
    let (rows, dead) = contents(&mut store).unwrap();
    (store, rows, dead)
}

/// What a file held before it was damaged.
struct Before {
    image: Vec<u8>,
    rows: BTreeMap<DurableId, Row>,
    dead: BTreeMap<DurableId, DeadLetter>,
    rules: Rules,
}

/// The rules that an image has.
fn rules_of(image: &[u8]) -> Rules {
    let folder = Folder::new("salvage-rules");
    fs::write(folder.file(), image).unwrap();
    rules(&mut Redb::open(folder.file()).unwrap()).unwrap()
}

impl Before {
    fn new(seed: u64) -> Self {
        let (image, rows, dead) = closed_file(seed);
        Self {
            rules: rules_of(&image),
            image,
            rows: rows.into_iter().map(|row| (row.id, row)).collect(),
            dead: dead.into_iter().map(|dead| (dead.row.id, dead)).collect(),
        }
    }

    /// Compares what was saved with what was there.
    fn compare(&self, saved: &Saved, place: &str) {
        let has_state = !saved
            .report
            .lost
            .iter()
            .any(|line| line.starts_with("meta"));
        for row in &saved.rows {
            let Some(before) = self.rows.get(&row.id) else {
                panic!("{place}: {row:?} had ended, and is to fire");
            };
            // (Without the state it is not known which rows were handed out.)
            let mut row = row.clone();
            if !has_state {
                row.suspect = before.suspect;
            }
            assert_eq!(row, *before, "{place}");
        }
        for letter in &saved.certain {
            // (What was found beside its place may have been revived or discarded.)
            let is_known = self.dead.get(&letter.row.id) == Some(letter);
            assert!(is_known || saved.report.doubtful > 0, "{place}: {letter:?}");
        }
        let is_told = |what: &str| saved.report.lost.iter().any(|line| line.starts_with(what));
        assert!(
            saved.rules == self.rules || is_told("rules"),
            "{place}: {:?} is not {:?}, and is not told",
            saved.rules,
            self.rules
        );
        let all = self.rows.len() + self.dead.len();
        let found = saved.rows.len() + saved.certain.len();
        assert!(
            found == all || !saved.report.lost.is_empty(),
            "{place}: it is not told"
        );
        for letter in &saved.doubtful {
            let is_certain = saved.rows.iter().any(|row| row.id == letter.row.id);
            assert!(!is_certain, "{place}: it is there twice");
        }
    }
}

#[test]
fn files_of_every_format_are_copied() {
    for name in names() {
        let folder = Folder::new("salvage-golden");
        fs::write(folder.file(), image(&name)).unwrap();
        let new = folder.path().join("saved.redb");
        let report = Redb::salvage(folder.file(), &new).unwrap();
        assert_eq!((report.doubtful, report.lost.len()), (0, 0), "{name}");
        let mut store = Redb::open(&new).unwrap();
        store.acquire().unwrap();
        assert!(
            text(&mut store) == text_of(&name),
            "{name} has something else"
        );
    }
}

#[test]
fn nothing_wrong_is_saved_and_nothing_is_certain_that_had_ended() {
    quiet();
    let many = std::env::var_os("WHEELWORK_EVERY_FAULT").is_some();
    let (mut saved_some, mut doubtful, flips) = (0, 0, if many { 1_000 } else { 20 });
    for seed in [5, 6] {
        let before = Before::new(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..flips {
            let mut image = before.image.clone();
            let mut place = format!("seed {seed}");
            for _ in 0..rng.usize(1..4) {
                place += ", ";
                place += &damage(&mut image, &mut rng);
            }
            match salvage(&image) {
                Ok(saved) => {
                    before.compare(&saved, &place);
                    saved_some += 1;
                    doubtful += saved.report.doubtful;
                }
                Err(error) => panic!("{place}: {error}"),
            }
        }
    }
    assert!(
        saved_some > 0 && doubtful > 1_000,
        "{doubtful} are doubtful"
    );
}

/// Every page is lost in its turn. What other pages have is certain.
#[test]
fn a_page_that_is_lost_takes_nothing_else_with_it() {
    quiet();
    let before = Before::new(8);
    let pages = before.image.len() / 4_096;
    let (mut losses, mut whole) = (Vec::new(), 0);
    for page in (1..pages).filter(|page| page % 3 == 0) {
        let mut image = before.image.clone();
        if image[page * 4_096..][..4_096].iter().all(|&byte| byte == 0) {
            continue;
        }
        image[page * 4_096..][..4_096].fill(0);
        let saved = salvage(&image).unwrap_or_else(|error| panic!("page {page}: {error}"));
        before.compare(&saved, &format!("page {page}"));
        match before.rows.len() - saved.rows.len() {
            0 => whole += 1,
            lost => losses.push(lost),
        }
    }
    losses.sort_unstable();
    assert!(
        losses.len() > 20 && whole > 3,
        "{} lose some, {whole} none",
        losses.len()
    );
    // A page of rows has some 60 of them; a branch takes those below it from what is certain.
    let median = losses[losses.len() / 2];
    assert!(median < 120, "{median} of {}", before.rows.len());
}

/// A disk that has lost a write shows what was there before: a page that was right once, whose rows
/// have checksums that are right. What had ended since does not come back by it.
#[test]
fn a_write_that_was_lost_brings_nothing_back() {
    quiet();
    let (first, rows, dead) = closed_file(12);
    let folder = Folder::new("salvage-lost");
    fs::write(folder.file(), &first).unwrap();
    let (mut images, mut left) = (vec![first], rows);
    for round in 0..3 {
        let mut store = Redb::builder()
            .sweep_at(10, 40)
            .open(folder.file())
            .unwrap();
        store.acquire().unwrap();
        // Each third row goes, so each page has a new version.
        let mut number = 0;
        let (ended, stay): (Vec<_>, Vec<_>) = left.into_iter().partition(|_| {
            number += 1;
            number % 3 == round % 3
        });
        for ended in ended.chunks(200) {
            let cancels = ended.iter().map(|row| Write::Cancel(Target::Id(row.id)));
            let cancels = cancels.collect();
            store.commit(cancels, &mut HandedOut::default()).unwrap();
        }
        while store.upkeep().unwrap() {}
        store.release().unwrap();
        drop(store);
        left = stay;
        images.push(fs::read(folder.file()).unwrap());
    }
    let image = images.pop().unwrap();
    let before = Before {
        rules: rules_of(&image),
        image,
        rows: left.into_iter().map(|row| (row.id, row)).collect(),
        dead: dead.into_iter().map(|dead| (dead.row.id, dead)).collect(),
    };
    let mut rng = fastrand::Rng::with_seed(12);
    let (mut lost, mut damaged) = (0, 0);
    while lost < 60 {
        let old = &images[rng.usize(0..images.len())];
        let at = rng.usize(1..before.image.len().min(old.len()) / 4_096) * 4_096;
        let (old, mut image) = (&old[at..at + 4_096], before.image.clone());
        if image[at..at + 4_096] == *old || old.iter().all(|&byte| byte == 0) {
            continue;
        }
        image[at..at + 4_096].copy_from_slice(old);
        let place = format!("page {}", at / 4_096);
        let saved = salvage(&image).unwrap_or_else(|error| panic!("{place}: {error}"));
        before.compare(&saved, &place);
        damaged += usize::from(!saved.report.lost.is_empty());
        lost += 1;
    }
    assert!(damaged > 5, "{damaged} of {lost} matter");
}

/// Without a header nothing is certain, and all is found.
#[test]
fn without_a_header_all_is_doubtful() {
    quiet();
    let before = Before::new(13);
    let mut image = before.image.clone();
    image[..4_096].fill(0);
    let saved = salvage(&image).unwrap();
    before.compare(&saved, "no header");
    assert_eq!(
        (saved.report.rows, saved.report.dead),
        (0, saved.certain.len() as u64)
    );
    let found: BTreeMap<_, _> = saved
        .doubtful
        .iter()
        .map(|dead| (dead.row.id, dead))
        .collect();
    let live = before.rows.values().filter(|row| !row.superseded);
    let missing: Vec<_> = live.filter(|row| !found.contains_key(&row.id)).collect();
    assert_eq!(missing, [] as [&Row; 0], "they are missing");
    // One of the two last commits: it is not known which is the last.
    let mut image = before.image.clone();
    image[64 + 20] ^= 1;
    image[192 + 20] ^= 1;
    let saved = salvage(&image).unwrap();
    assert_eq!(saved.report.rows, 0);
    before.compare(&saved, "no commits");
}

#[test]
fn a_file_that_is_cut_off_keeps_what_is_there() {
    quiet();
    let before = Before::new(10);
    let mut rows = Vec::new();
    for eighths in 1..8 {
        let cut = &before.image[..before.image.len() * eighths / 8 / 4_096 * 4_096];
        match salvage(cut) {
            Ok(saved) => {
                before.compare(&saved, &format!("{eighths} eighths"));
                rows.push(saved.rows.len() + saved.doubtful.len());
            }
            Err(StoreError::Foreign(_)) => rows.push(0),
            Err(error) => panic!("{eighths} eighths: {error}"),
        }
    }
    assert!(
        rows.iter().any(|&rows| rows > before.rows.len() / 4),
        "{rows:?}"
    );
}

/// A doubtful timer can be revived, and fires then.
#[test]
fn what_is_doubtful_can_be_revived() {
    quiet();
    let folder = Folder::new("salvage-revive");
    let mut image = image("file-4");
    image[..4_096].fill(0);
    fs::write(folder.file(), image).unwrap();
    let new = folder.path().join("saved.redb");
    let report = Redb::salvage(folder.file(), &new).unwrap();
    assert!(report.doubtful > 30 && report.rows == 0, "{report:?}");
    let (mut store, rows, dead) = opened(&new);
    assert!(rows.is_empty());
    for letter in dead {
        let revive = vec![Write::Revive(letter.row.id, time(9))];
        let outcomes = store.commit(revive, &mut HandedOut::default()).unwrap();
        let Outcome::Revived(Some(row)) = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert_eq!(
            (row.due, row.held(), &row.payload),
            (time(9), None, &letter.row.payload)
        );
    }
    drop(store);
    assert!(Redb::check(&new).unwrap().is_sound());
}

#[test]
fn what_cannot_be_salvaged_is_an_error() {
    quiet();
    let folder = Folder::new("salvage-none");
    let new = folder.path().join("saved.redb");
    let salvage = || Redb::salvage(folder.file(), &new);
    assert!(matches!(salvage(), Err(StoreError::Io(_))));
    fs::write(folder.file(), vec![7; 100_000]).unwrap();
    assert!(matches!(salvage(), Err(StoreError::Foreign(_))));
    fs::remove_file(folder.file()).unwrap();
    let store = Redb::open(folder.file()).unwrap();
    assert!(matches!(salvage(), Err(StoreError::InUse(_))));
    drop(store);
    salvage().unwrap();
    let error = salvage().unwrap_err().to_string();
    assert!(error.ends_with("it is there already"), "{error}");
}
