//! Late after a kill or a pause: another node handles within the lease and 1 s.

use super::tale::{A, B, PART, TTL_MS, Tale, moment};
use crate::trouble::Trouble;
use crate::verdict::Offence::SlowTakeOver;
use crate::wire::Kind;

const T: u64 = 7;
const LIMIT_MS: i64 = TTL_MS + 1_000;

/// When the trouble begins.
const FROM: i64 = 50_000;

/// A timer of a node that is killed, or paused past its lease. It is handled `late` ms after that.
fn taken_over(what: Trouble, kind: Kind, due: i64, late: i64) -> Tale {
    let mut tale = Tale::new();
    tale.arm(T, kind, 40_000, due);
    let to = match what {
        Trouble::PauseLong => FROM + TTL_MS + 500,
        _ => FROM + 10,
    };
    tale.trouble(what, Some(A.node), FROM, to);
    tale.handle(T, B, FROM + late);
    tale
}

fn plain(late: i64) -> Tale {
    taken_over(Trouble::Kill, Kind::Plain, FROM, late)
}

#[test]
fn late_after_a_kill_or_a_pause() {
    for what in [Trouble::Kill, Trouble::PauseLong] {
        let tale = taken_over(what, Kind::Plain, FROM, LIMIT_MS);
        tale.breaks_nothing();
        let verdict = tale.judged();
        let counts = [&verdict.take_over, &verdict.paused_over, &verdict.others];
        let counts = counts.map(|lateness| lateness.count());
        let is_kill = u64::from(what == Trouble::Kill);
        assert_eq!(counts, [is_kill, 1 - is_kill, 0]);
        assert_eq!(verdict.measured_alone, 1);
        taken_over(what, Kind::Plain, FROM, LIMIT_MS + 1).breaks(&[(SlowTakeOver, T)]);
        // Slow ones wait for others of their kind.
        taken_over(what, Kind::Slow, FROM, LIMIT_MS + 1).breaks_nothing();
    }
}

#[test]
fn late_after_what_ends_no_lease() {
    for what in [Trouble::PauseShort, Trouble::Add, Trouble::Stop] {
        let tale = taken_over(what, Kind::Plain, FROM, LIMIT_MS + 1);
        tale.breaks_nothing();
        assert_eq!(tale.judged().measured_alone, 0);
    }
}

#[test]
fn late_after_its_deadline() {
    // From its deadline on, if that comes after the kill.
    let due = FROM + 2_000;
    let late = |late| taken_over(Trouble::Kill, Kind::Plain, due, late);
    late(2_000 + LIMIT_MS).breaks_nothing();
    late(2_001 + LIMIT_MS).breaks(&[(SlowTakeOver, T)]);
}

#[test]
fn due_long_before_or_long_after() {
    // From a second before the kill to a lease after it.
    let cases = [
        (FROM - 1_000, LIMIT_MS + 1, true),
        (FROM - 1_001, LIMIT_MS + 1, false),
        (FROM + TTL_MS, TTL_MS + LIMIT_MS + 1, true),
        (FROM + TTL_MS + 1, TTL_MS + LIMIT_MS + 2, false),
    ];
    for (due, late, is_slow) in cases {
        let tale = taken_over(Trouble::Kill, Kind::Plain, due, late);
        let slow: &[_] = if is_slow { &[(SlowTakeOver, T)] } else { &[] };
        tale.breaks(slow);
    }
}

#[test]
fn of_another_partition() {
    let mut tale = plain(LIMIT_MS + 1);
    tale.happened[0].partitions = vec![PART - 1, PART + 1];
    tale.breaks_nothing();
    let verdict = tale.judged();
    assert_eq!((verdict.take_over.count(), verdict.others.count()), (0, 0));
    // Beside a pause that is measured.
    let mut tale = taken_over(Trouble::PauseLong, Kind::Plain, FROM, LIMIT_MS + 1);
    tale.happened[0].partitions = vec![PART - 1, PART + 1];
    tale.breaks_nothing();
    let verdict = tale.judged();
    let counts = (verdict.paused_over.count(), verdict.others.count());
    assert_eq!((counts, verdict.measured_alone), ((0, 1), 1));
    // It is not known what the node had.
    tale.happened[0].partitions.clear();
    assert_eq!(tale.judged().measured_alone, 0);
}

#[test]
fn the_first_call_counts() {
    let mut tale = Tale::new();
    tale.plain(T, 40_000, FROM - 500);
    tale.fail(T, A, FROM - 500);
    tale.trouble(Trouble::Kill, Some(A.node), FROM, FROM + 10);
    tale.fail(T, B, FROM + LIMIT_MS);
    tale.handle(T, B, FROM + LIMIT_MS + 100);
    tale.breaks_nothing();
    assert_eq!(tale.judged().take_over.count(), 1);
    // It was handled before, and not again.
    let mut tale = Tale::new();
    tale.plain(T, 40_000, 50_000);
    tale.handle(T, A, FROM);
    tale.trouble(Trouble::Kill, Some(A.node), FROM, FROM + 10);
    tale.breaks_nothing();
    assert_eq!(tale.judged().take_over.count(), 0);
}

#[test]
fn armed_while_its_node_was_paused() {
    // Its call was asked for before the pause, and reached the server after it.
    let armed = |answered: i64| {
        let mut tale = Tale::new();
        tale.ask(T, Kind::Plain, None, FROM - 1, FROM - 1);
        tale.trouble(Trouble::PauseLong, Some(A.node), FROM, FROM + 5_000);
        tale.handle(T, B, FROM + 5_010);
        tale.armed(T, answered);
        tale
    };
    armed(FROM + 5_009).breaks_nothing();
    armed(FROM + 5_010).breaks_nothing();
    // It was there before the pause.
    armed(FROM).breaks(&[(SlowTakeOver, T)]);
}

#[test]
fn moved_in_the_trouble() {
    let moved = |is_done: bool| {
        let mut tale = plain(LIMIT_MS + 1);
        tale.change(T, FROM, FROM, is_done);
        tale
    };
    moved(false).breaks(&[(SlowTakeOver, T)]);
    // It counts from the answer on.
    moved(true).breaks_nothing();
}

#[test]
fn other_trouble_meanwhile() {
    // Until when each trouble shows, in milliseconds.
    let all = [
        (Trouble::Kill, TTL_MS + 2_000),
        (Trouble::PauseLong, TTL_MS + 2_000),
        (Trouble::PauseShort, TTL_MS + 2_000),
        (Trouble::ServerKilled, TTL_MS + 3_000),
        (Trouble::ServerEnded, TTL_MS + 3_000),
        (Trouble::Promote, TTL_MS + 3_000),
        (Trouble::Add, 2_000),
        (Trouble::Stop, 2_000),
        (Trouble::Stall, 1_000),
    ];
    for (what, shows) in all {
        // It ends at `to`, and shows until the kill, or not quite; or it begins in time, or not.
        let before = FROM - shows;
        let cases = [
            (before - 10, before, false),
            (before - 11, before - 1, true),
            (FROM + LIMIT_MS, FROM + LIMIT_MS + 10, false),
            (FROM + LIMIT_MS + 1, FROM + LIMIT_MS + 10, true),
        ];
        for (from, to, is_slow) in cases {
            let mut tale = plain(LIMIT_MS + 1);
            tale.trouble(what, None, from, to);
            let slow: &[_] = if is_slow { &[(SlowTakeOver, T)] } else { &[] };
            tale.breaks(slow);
        }
    }
    // Until a long pause is over.
    let pause = FROM + TTL_MS + 2_000;
    for (from, is_slow) in [(pause, false), (pause + 1, true)] {
        let mut tale = taken_over(Trouble::PauseLong, Kind::Plain, FROM, LIMIT_MS + 1);
        tale.happened[0].to = moment(pause);
        tale.trouble(Trouble::Stall, None, from, from + 500);
        let slow: &[_] = if is_slow { &[(SlowTakeOver, T)] } else { &[] };
        tale.breaks(slow);
    }
    // A snapshot that is held is no excuse.
    let mut tale = plain(LIMIT_MS + 1);
    tale.trouble(Trouble::Snapshot, None, FROM, FROM + 1_000);
    tale.breaks(&[(SlowTakeOver, T)]);
}
