//! Promise: rows of a file are swept from `recent`, and loads have them in order before and after.

use crate::durable_model::{Folder, all, commit, open, row, settled, time};
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, Position, SliceLimit, Store, Target, Write};
use wheelwork_durable::{Cause, Redb, Row, StoreTime};

#[test]
fn loads_take_slices_in_order_from_both_tables() {
    let folder = Folder::new("slices");
    let mut store = Redb::builder()
        .sweep_at(1_000, 1_000)
        .open(folder.file())
        .unwrap();
    store.acquire().unwrap();
    let mut expected = Vec::new();
    for round in 0..3 {
        let rows: Vec<_> = (0..1_500)
            .map(|n| row(&mut store, (n * 7_919 + round) % 5_000 * 60, b"x"))
            .collect();
        commit(&mut store, rows.iter().cloned().map(Write::Arm).collect());
        expected.extend(rows);
        if round < 2 {
            while store.upkeep().unwrap() {}
        }
    }
    expected.sort_by_key(Row::position);
    for limit in [1, 7, 1_000, 4_499, 4_500, 4_501] {
        let (mut rows, mut after) = (Vec::new(), Position::MIN);
        loop {
            let slice = store
                .load(0, after, StoreTime::MAX, SliceLimit::rows(limit))
                .unwrap();
            let is_end = slice.len() < limit;
            after = slice.last().map_or(after, Row::position);
            rows.extend(slice);
            if is_end || limit == 1 && rows.len() == 50 {
                break;
            }
        }
        assert_eq!(rows, expected[..rows.len()], "{limit}");
        assert!(rows.len() == 4_500 || limit == 1);
    }
    assert_eq!(
        store
            .load(1, Position::MIN, StoreTime::MAX, SliceLimit::rows(9))
            .unwrap(),
        []
    );
}

/// A step of a sweep follows each commit. However many rows a commit has, steps keep up.
#[test]
fn sweeps_keep_up_with_large_commits() {
    const MANY: usize = 1_000;
    const TOO_MANY: usize = 8_000;
    const AT_ONCE: u64 = 4_000;
    let folder = Folder::new("keep-up");
    let builder = Redb::builder().sweep_at(MANY, TOO_MANY);
    let mut store = builder.open(folder.file()).unwrap();
    store.acquire().unwrap();
    let mut greatest = 0;
    for round in 0..25 {
        let rows = (0..AT_ONCE).map(|n| row(&mut store, (n * 7_919 + round) % 50_000 * 60, b"x"));
        let rows: Vec<_> = rows.map(Write::Arm).collect();
        commit(&mut store, rows);
        store.upkeep().unwrap();
        greatest = greatest.max(store.recent_rows());
    }
    assert!(greatest < 4 * TOO_MANY, "{greatest} rows wait for a sweep");
}

#[test]
fn old_rows_are_swept_by_the_clock() {
    let folder = Folder::new("aged");
    let mut store = open(&folder);
    store.acquire().unwrap();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let set = |store: &mut Redb, secs| {
        store.clock(start + Duration::from_secs(secs)).unwrap();
    };
    set(&mut store, 0);
    let arms = |store: &mut Redb, secs: u64| {
        let rows = [10, 3_600].map(|delay| row(store, (1_000_000 + secs + delay) * 1_000, b""));
        commit(store, rows.map(Write::Arm).to_vec());
    };
    arms(&mut store, 0);
    assert_eq!(store.recent_rows(), 2);
    set(&mut store, 20);
    arms(&mut store, 100);
    assert!(!store.upkeep().unwrap());
    assert_eq!(store.recent_rows(), 4, "nothing is 30 s old");
    set(&mut store, 31);
    while store.upkeep().unwrap() {}
    assert_eq!(
        store.recent_rows(),
        3,
        "the first two are, and one of them is due soon"
    );
    set(&mut store, 70);
    while store.upkeep().unwrap() {}
    assert_eq!(store.recent_rows(), 2, "those that are due soon stay");
    assert_eq!(all(&mut store).len(), 4);
}

#[test]
fn rows_that_end_are_taken_out_in_bulk() {
    let folder = Folder::new("ended");
    let open = || {
        let builder = Redb::builder().sweep_at(40, 1_000);
        let mut store = builder.open(folder.file()).unwrap();
        let epoch = store.acquire().unwrap()[0].epoch;
        (store, epoch)
    };
    let (mut store, epoch) = open();
    let mut rows: Vec<_> = (0..60).map(|n| row(&mut store, n, b"x")).collect();
    commit(&mut store, rows.iter().cloned().map(Write::Arm).collect());
    fastrand::Rng::with_seed(1).shuffle(&mut rows);
    let ended = rows.split_off(20);
    let ack = |row: &Row| Write::Ack {
        of: settled(row, epoch),
        next: None,
    };
    let cancel = |row: &Row| Write::Cancel(Target::Id(row.id));
    commit(&mut store, ended[..20].iter().map(ack).collect());
    // Armed and ended in one commit.
    let brief = row(&mut store, 7, b"y");
    let mut writes: Vec<_> = ended[20..30].iter().map(cancel).collect();
    writes.extend([Write::Arm(brief.clone()), cancel(&brief)]);
    commit(&mut store, writes);
    assert_eq!(store.ended_rows().unwrap(), 31);
    assert_eq!(store.size().unwrap().rows, 30);
    assert!(!store.upkeep().unwrap(), "it does not pay yet");
    commit(&mut store, ended[30..].iter().map(cancel).collect());
    rows.sort_by_key(Row::position);
    drop(store);
    let (mut store, _) = open();
    assert_eq!(all(&mut store), rows);
    assert_eq!(store.ended_rows().unwrap(), 41);
    while store.upkeep().unwrap() {}
    assert_eq!(store.ended_rows().unwrap(), 0);
    assert_eq!(all(&mut store), rows);
    drop(store);
    assert_eq!(all(&mut open().0), rows);
}

#[test]
fn a_row_that_is_revived_outlives_its_tombstone() {
    let folder = Folder::new("revived");
    let mut epoch = 0;
    let mut open = |sweeps: bool| {
        let builder = Redb::builder().sweep_at(0, 0);
        let mut store = builder.open(folder.file()).unwrap();
        epoch = store.acquire().unwrap()[0].epoch;
        while sweeps && store.upkeep().unwrap() {}
        (store, epoch)
    };
    for sweeps in [false, true] {
        let (mut store, epoch) = open(sweeps);
        let mut row = row(&mut store, 50, b"x");
        let bury = Write::Bury {
            of: settled(&row, epoch),
            cause: Cause::Crashed,
            since: time(60),
            attempts: 1,
            crashes: 0,
            next: None,
        };
        commit(&mut store, vec![Write::Arm(row.clone()), bury]);
        drop(store);
        let (mut store, _) = open(sweeps);
        assert_eq!(all(&mut store), []);
        row.due = time(70);
        let outcomes = commit(&mut store, vec![Write::Revive(row.id, row.due)]);
        assert_eq!(outcomes, [Outcome::Revived(Some(row.clone()))]);
        drop(store);
        let (mut store, _) = open(sweeps);
        assert_eq!(all(&mut store), [row.clone()]);
        drop(store);
        let (mut store, epoch) = open(sweeps);
        assert_eq!(all(&mut store), [row.clone()]);
        let ack = Write::Ack {
            of: settled(&row, epoch),
            next: None,
        };
        assert_eq!(
            commit(&mut store, vec![ack]),
            [Outcome::Settled(true, None)]
        );
        drop(store);
        assert_eq!(all(&mut open(sweeps).0), []);
    }
}
