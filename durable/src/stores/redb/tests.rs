//! The codec and the index, by themselves.

use super::bytes::seal;
use super::codec::{self, Names, RowView};
use super::due_key::DueKey;
use super::number_map::NumberMap;
use super::number_set::NumberSet;
use super::recent::{Known, RecentIndex};
use super::round_trip::round_trip;
use super::state::{self, StoreState};
use crate::store::row::{Cause, DeadLetter, DurableId, Held, HeldWhy, Position, Row, StoreTime};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn time(millis: u64) -> StoreTime {
    StoreTime::from_millis(millis)
}

fn some_row(rng: &mut fastrand::Rng) -> Row {
    let times = [0, 1, 1_700_000_000_000, StoreTime::MAX.as_millis()];
    let pick = |rng: &mut fastrand::Rng| time(times[rng.usize(0..4)]);
    let number = [0, 1, 1 << 40, u64::MAX][rng.usize(0..4)];
    let (first_due, due) = (pick(rng), pick(rng));
    let payload: Vec<_> = (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect();
    let id = DurableId::new(0, first_due, number);
    let mut row = Row::new(
        id,
        due,
        "kind".repeat(rng.usize(0..60)).into(),
        payload.into(),
    );
    row.key = rng.bool().then(|| "schlüssel".into());
    row.calendar = rng.bool().then(|| "".into());
    row.attempts = [0, 1, 200, u32::MAX][rng.usize(0..4)];
    row.crashes = [0, 1, 200, u32::MAX][rng.usize(0..4)];
    row.suspect = rng.bool();
    row.superseded = rng.bool();
    if rng.bool() {
        row.set_expires(rng.bool().then(|| pick(rng)));
        row.set_time_limit(
            rng.bool()
                .then(|| Duration::from_millis(rng.u64(1..1 << 40))),
        );
        row.set_traceparent(rng.bool().then(|| "00-trace".into()));
        let why = [HeldWhy::Unhandled, HeldWhy::Paused, HeldWhy::Limited][rng.usize(0..3)];
        let since = pick(rng);
        if rng.bool() && row.due == StoreTime::MAX {
            row.set_held(Some(Held { why, since }));
        }
    }
    row
}

/// A row that has nothing that format 3 does not know has the bytes of format 3; and each part that
/// it does not know is told as one of a later program, also where that has not been made yet.
#[test]
fn a_row_has_the_bytes_of_its_format() {
    let mut row = Row::new(
        DurableId::new(0, time(7), 1),
        time(7),
        "k".into(),
        [9][..].into(),
    );
    let mut bytes = Vec::new();
    codec::encode_row(&mut bytes, 1, &RowView::of(&row, 2));
    assert_eq!(
        bytes[..bytes.len() - 4],
        [0, 0, 0, 0, 0, 0, 7, 2, 1, b'k', 9]
    );
    assert_eq!(RowView::of(&row, 2).format(), 3);
    row.set_expires(Some(time(8)));
    bytes.clear();
    codec::encode_row(&mut bytes, 1, &RowView::of(&row, 2));
    let body = [128, 0, 0, 0, 0, 0, 7, 2, 2, 0, 0, 0, 0, 0, 8, 1, b'k', 9];
    assert_eq!(bytes[..bytes.len() - 4], body);
    assert_eq!(RowView::of(&row, 2).format(), 4);
    row.set_expires(None);
    assert_eq!(RowView::of(&row, 2).format(), 3);
    // A flag, a reason to be held, causes, a trace and a time limit that come later.
    let flawed = |body: &[u8], id: Option<u128>| {
        let mut value = body.to_vec();
        seal(id.unwrap_or(1), &mut value, 0);
        match id {
            None => codec::decode_row(1, &value).map(|_| ()),
            Some(id) => codec::decode_dead(id, &value, &mut Names::default()).map(|_| ()),
        }
    };
    let later = Err("a later program has written it");
    assert_eq!(
        flawed(&[128, 0, 0, 0, 0, 0, 7, 2, 16, 1, b'k'], None),
        later
    );
    assert_eq!(flawed(&[128, 0, 0, 0, 0, 0, 7, 2, 1, 4], None), later);
    assert_eq!(flawed(&[0, 0, 0, 0, 0, 0, 6, 0], Some(1)), later);
    assert_eq!(flawed(&[0, 0, 0, 0, 0, 0, 5, 1, b'x'], Some(1)), later);
    let long = [[129, 1].to_vec(), vec![b'x'; 129]].concat();
    for trace in [&long[..], &[2, b'0', b' ']] {
        let body = [&[128, 0, 0, 0, 0, 0, 7, 2, 8], trace, &[1, b'k']].concat();
        assert_eq!(flawed(&body, None), later);
    }
    let limit = [
        128, 0, 0, 0, 0, 0, 7, 2, 4, 255, 255, 255, 255, 255, 255, 255, 1, 1, b'k',
    ];
    assert_eq!(flawed(&limit, None), later);
    // There is one encoding, and a held row does not fall due.
    for body in [
        &[128, 0, 0, 0, 0, 0, 7, 2, 0, 1, b'k'][..],
        &[128, 0, 0, 0, 0, 0, 7, 2, 4, 0, 1, b'k'],
        &[128, 0, 0, 0, 0, 0, 7, 2, 8, 0, 1, b'k'],
        &[128, 0, 0, 0, 0, 0, 7, 2, 1, 1, 0, 0, 0, 0, 0, 1, 1, b'k'],
        &[128, 0, 0, 0, 0, 0, 7, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1, b'k'],
    ] {
        assert!(
            flawed(body, None).is_err_and(|flaw| Err(flaw) != later),
            "{body:?}"
        );
    }
}

/// The limits of what few rows have are those of all stores, so a row of one store fits into
/// another.
#[test]
fn what_few_rows_have_is_bounded() {
    let mut row = Row::new(
        DurableId::new(0, time(7), 1),
        time(7),
        "k".into(),
        [9][..].into(),
    );
    let longest = Duration::from_millis(StoreTime::MAX.as_millis());
    for (limit, kept) in [
        (Duration::MAX, longest),
        (longest, longest),
        (longest - Duration::from_nanos(1), longest),
        (Duration::from_nanos(1_000_001), Duration::from_millis(2)),
        (Duration::ZERO, Duration::from_millis(1)),
    ] {
        row.set_time_limit(Some(limit));
        assert_eq!(row.time_limit(), Some(kept));
    }
    row.set_time_limit(None);
    let long = "x".repeat(128);
    for trace in ["00-ab-cd-01", "0", &long] {
        row.set_traceparent(Some(trace.into()));
        assert_eq!(row.traceparent(), Some(trace));
    }
    let too_long = "x".repeat(129);
    let no_traces = ["", "00\0", "00 01", "00\n", "\u{7f}", "é", &too_long];
    for trace in no_traces {
        row.set_traceparent(Some(trace.into()));
        assert!(row.traceparent().is_none(), "{trace:?}");
    }
    assert!(row.more().is_none());

    // Nor does a file have others.
    let begin = [128, 0, 0, 0, 0, 0, 7, 2];
    let decodes = |more: &[u8]| {
        let mut value = [&begin, more, &[1, b'k', 9]].concat();
        seal(1, &mut value, 0);
        codec::decode_row(1, &value).map(|view| view.row(1, &mut Names::default()))
    };
    row.set_time_limit(Some(longest));
    let limit = [4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
    assert_eq!(decodes(&limit), Ok(row.clone()));
    let too_long_a_limit = [4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    assert!(decodes(&too_long_a_limit).is_err());
    row.set_time_limit(None);
    let trace = |text: &str| {
        let mut more = vec![8];
        // Its length, as one byte or two.
        match text.len() {
            len if len < 128 => more.push(len as u8),
            len => more.extend([len as u8 | 128, 1]),
        }
        more.extend_from_slice(text.as_bytes());
        more
    };
    row.set_traceparent(Some((&*long).into()));
    assert_eq!(decodes(&trace(&long)), Ok(row));
    for text in no_traces {
        assert!(decodes(&trace(text)).is_err(), "{text:?}");
    }
}

/// A program that counts further than this one is no damage, and what it has counted stays.
#[test]
fn counts_saturate() {
    // Attempts and crashes: 2^32 and 2^64 - 1.
    let body = [
        &[72, 0, 0, 0, 0, 0, 7, 2][..],
        &[0x80, 0x80, 0x80, 0x80, 0x10],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[1, b'k'],
    ]
    .concat();
    assert!(round_trip("row", 1, &body));
    let mut value = body;
    seal(1, &mut value, 0);
    let view = codec::decode_row(1, &value).unwrap();
    let row = view.row(1, &mut Names::default());
    assert_eq!((row.attempts, row.crashes), (u32::MAX, u32::MAX));
    let mut again = Vec::new();
    codec::encode_row(&mut again, 1, &view);
    assert_eq!(again, value);
}

#[test]
fn a_row_is_held_and_released() {
    let mut row = Row::new(
        DurableId::new(0, time(7), 1),
        time(9),
        "k".into(),
        [][..].into(),
    );
    row.suspect = true;
    let held = Held {
        why: HeldWhy::Paused,
        since: time(3),
    };
    assert!(row.hold(held) && row.hold(held) && !row.suspect);
    assert_eq!((row.held(), row.wanted()), (Some(held), time(9)));
    // A program that does not know the mark leaves it.
    row.due = time(11);
    assert_eq!((row.held(), row.wanted()), (None, time(11)));
    assert_eq!(RowView::of(&row, 1).format(), 3);
    assert!(row.hold(held));
    row.set_due(time(12));
    assert_eq!((row.held(), row.wanted()), (None, time(12)));
    row.set_due(StoreTime::MAX);
    assert!(!row.hold(held) && row.held().is_none());
    assert_eq!(row.wanted(), StoreTime::MAX);
}

#[test]
fn what_is_encoded_decodes() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut names = Names::default();
    for epoch in [0, 1, 127, 128, u64::MAX].repeat(40) {
        let row = some_row(&mut rng);
        let (number, view) = (row.id.number(), RowView::of(&row, epoch));
        // Behind another one.
        let mut bytes = b"before".to_vec();
        codec::encode_row(&mut bytes, number, &view);
        let bytes = &bytes[6..];
        let decoded = codec::decode_row(number, bytes).unwrap();
        assert_eq!(decoded, view);
        assert_eq!(decoded.row(number, &mut names), row);
        assert!(codec::decode_row(number ^ 1, bytes).is_err(), "another's");

        let cause = [
            Cause::UnknownKind,
            Cause::Crashed,
            Cause::Failed("fällt".into()),
            Cause::Undecodable("".into()),
            Cause::GivenUp("nein".into()),
            Cause::Expired,
        ][rng.usize(0..6)]
        .clone();
        let letter = DeadLetter::new(row, cause, time(epoch));
        let bytes = codec::encode_dead(&letter);
        let id = letter.row.id.to_bits();
        assert_eq!(codec::decode_dead(id, &bytes, &mut names), Ok(letter));

        let numbers: Vec<_> = (0..rng.usize(0..9)).map(|_| rng.u64(..)).collect();
        let mut bytes = Vec::new();
        codec::encode_tombstones(&mut bytes, epoch, &numbers);
        let decoded = codec::decode_tombstones(epoch, &bytes).map(Vec::from_iter);
        assert_eq!(decoded, Ok(numbers));
        assert!(codec::decode_tombstones(epoch ^ 1, &bytes).is_err());
    }
    let state = StoreState {
        epoch: 300,
        claimed_upto: Some(StoreTime::MAX),
        earlier: vec![(1, time(500)), (7, time(20))],
        next_number: u64::MAX,
    };
    assert_eq!(StoreState::decode(&state.encode()), Ok(state));
    assert_eq!(state::decode_version(&state::encode_version(1)), Ok(1));
}

#[test]
fn each_flip_and_each_cut_of_a_value_is_seen() {
    let mut rng = fastrand::Rng::with_seed(2);
    let row = some_row(&mut rng);
    let mut bytes = Vec::new();
    codec::encode_row(&mut bytes, row.id.number(), &RowView::of(&row, 9));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(codec::decode_row(row.id.number(), &flipped).is_err());
    }
    for len in 0..bytes.len() {
        assert!(codec::decode_row(row.id.number(), &bytes[..len]).is_err());
    }
}

#[test]
fn decoding_is_total_and_there_is_one_encoding() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut decoded = 0;
    for _ in 0..40_000 {
        let mut body: Vec<_> = (0..rng.usize(0..40)).map(|_| rng.u8(..)).collect();
        if let (Some(flags), true) = (body.first_mut(), rng.bool()) {
            *flags &= 0x7f;
        }
        for table in ["row", "tombstones", "dead", "state", "version", "due"] {
            decoded += u32::from(round_trip(table, rng.u128(..), &body));
        }
    }
    assert!(decoded > 1_000, "{decoded} are few");
}

#[test]
fn an_epoch_takes_over_the_watermark_of_one_that_ended_badly() {
    let mut state = StoreState::default();
    for (upto, earlier) in [
        (None, vec![]),
        (Some(50), vec![(1, 50)]),
        (Some(20), vec![(1, 50), (2, 20)]),
        (Some(20), vec![(1, 50), (3, 20)]),
        (None, vec![(1, 50), (3, 20)]),
        (Some(60), vec![(5, 60)]),
    ] {
        state.claimed_upto = upto.map(time);
        state.begin_epoch();
        let earlier: Vec<_> = earlier.iter().map(|&(e, upto)| (e, time(upto))).collect();
        assert_eq!((&state.earlier, state.claimed_upto), (&earlier, None));
    }
}

#[test]
fn the_order_of_keys_is_that_of_positions() {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut some = || {
        let due = time(rng.u64(0..3) << 40);
        let id = DurableId::new(0, time(rng.u64(0..3) << 40), rng.u64(0..3) << 60);
        Position { due, id }
    };
    for _ in 0..1_000 {
        let (one, other) = (some(), some());
        let (key, other_key) = (DueKey::at(one), DueKey::at(other));
        assert_eq!(key.cmp(&other_key), one.cmp(&other));
        assert_eq!((key.due(), key.id()), (one.due, one.id));
        assert_eq!(key.is_moved(), one.due != one.id.first_due());
    }
    assert!(DueKey::at(Position::end_of(time(5))) < DueKey::new(time(6), time(0), 0));
    assert_eq!(
        DueKey::at(Position::end_of(time(5))),
        DueKey::end_of(time(5))
    );
}

#[test]
fn the_index_knows_what_is_due_when() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut index = RecentIndex::default();
    let mut model = BTreeMap::new();
    for step in 0..400_000_u64 {
        let number = rng.u64(step / 100..step / 100 + 300);
        // (Some numbers are too large for the short keys.)
        let number = number + u64::from(number.is_multiple_of(7)) * (1 << 60);
        if rng.u8(0..3) == 0 {
            index.remove(number);
            model.remove(&number);
        } else {
            let due = time(rng.u64(0..10) * 30_000);
            let key = DueKey::new(due, time(number % 10 * 30_000), number);
            index.put(key, number.is_multiple_of(2));
            model.insert(number, key);
        }
        if step % 2_000 == 0 {
            let (after, until) = (time(rng.u64(0..200_000)), time(rng.u64(0..300_000)));
            let (after, limit) = (DueKey::end_of(after), rng.usize(0..500));
            let mut keys: Vec<_> = model.values().copied().collect();
            keys.retain(|&key| key > after && key.due() <= until);
            keys.sort_unstable();
            keys.truncate(limit);
            let mut found = Vec::new();
            index.range(after, until, limit, &mut found);
            assert_eq!(found, keys, "step {step}");
            assert_eq!(index.len(), model.len());
        }
    }
    for (&number, key) in &model {
        let known = Known {
            due: key.due(),
            is_moved: key.is_moved(),
            has_key: number.is_multiple_of(2),
        };
        assert_eq!(index.get(number), Some(known));
    }
    assert!(index.keys() < 2 * model.len() + 70_000, "stale keys go");
}

#[test]
fn a_map_by_numbers_is_a_map() {
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut map, mut model) = (NumberMap::default(), BTreeMap::new());
    let first = 1 << 40;
    for step in 0..300_000_u64 {
        // Most come in order, some come back; most go soon, some late or never.
        let newest = first + step / 4;
        let number = match rng.u8(0..10) {
            0 => rng.u64(first..=newest),
            _ => rng.u64(newest.saturating_sub(400)..=newest),
        };
        assert_eq!(map.get(number), model.get(&number).copied());
        if rng.u8(0..10) < 4 {
            assert_eq!(map.insert(number, step), model.insert(number, step));
        } else {
            assert_eq!(map.remove(number), model.remove(&number).is_some());
        }
        assert_eq!(map.len(), model.len());
        if step % 10_000 == 0 {
            map.shrink();
        }
    }
    for number in first..first + 80_000 {
        assert_eq!(map.get(number), model.get(&number).copied());
    }
    assert!(map.sparse() > 100, "{} have no page", map.sparse());
}

#[test]
fn a_set_by_numbers_is_a_set() {
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
    for step in 0..200_000_u64 {
        let base = [0, 1 << 40, u64::MAX - 70_000][(step % 3) as usize];
        let number = base + rng.u64(step / 4..step / 4 + 2_000);
        assert_eq!(set.contains(number), model.contains(&number));
        if rng.u8(0..10) < 6 {
            set.insert(number);
            model.insert(number);
        } else {
            set.remove(number);
            model.remove(&number);
        }
    }
    for number in (0..60_000).chain(u64::MAX - 70_000..=u64::MAX) {
        assert_eq!(set.contains(number), model.contains(&number));
    }
}
