//! Handled again: only after a failure, or if something has ended the lease before.

use super::tale::{A, B, Lease, TTL_MS, Tale};
use crate::trouble::Trouble;
use crate::verdict::Offence::Doubled;
use crate::wire::Kind;

const T: u64 = 7;

/// A node that has nothing to do with the timer.
const STRANGER: u32 = 3;

/// How long a lease may still have lasted, with a margin.
const LEASE_MS: i64 = TTL_MS + 1_000;

/// A timer that was handled at 10 s.
fn handled() -> Tale {
    let mut tale = Tale::new();
    tale.plain(T, 0, 10_000);
    tale.handle(T, A, 10_000);
    tale
}

/// It was handled by a second node, 4 s after the first one.
fn handled_again() -> Tale {
    let mut tale = handled();
    tale.handle(T, B, 14_000);
    tale
}

#[test]
fn twice_by_one_node() {
    let mut tale = handled();
    tale.handle(T, A, 10_100);
    tale.breaks(&[(Doubled, T)]);
    // No trouble is a reason for that.
    tale.trouble(Trouble::PauseLong, Some(A.node), 10_050, 10_060);
    tale.trouble(Trouble::ServerKilled, None, 10_050, 10_060);
    tale.trouble(Trouble::Stall, None, 10_050, 10_060);
    tale.breaks(&[(Doubled, T)]);
}

#[test]
fn again_after_a_failure() {
    for (ended, is_doubled) in [(10_099, false), (10_100, true)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 10_000);
        let handling = tale.start(T, A, 10_000);
        tale.end(handling, ended, false);
        tale.handle(T, A, 10_100);
        let doubled: &[_] = if is_doubled { &[(Doubled, T)] } else { &[] };
        tale.breaks(doubled);
    }
    // A failure of the second handler does not excuse it.
    let mut tale = handled();
    tale.fail(T, A, 10_100);
    tale.breaks(&[(Doubled, T)]);
}

#[test]
fn again_by_another_node() {
    let tale = handled_again();
    tale.breaks(&[(Doubled, T)]);
    assert_eq!(tale.judged().again, 0);
    // The first handler has failed.
    let mut tale = Tale::new();
    tale.plain(T, 0, 10_000);
    tale.fail(T, A, 10_000);
    tale.handle(T, B, 10_051);
    tale.breaks_nothing();
    assert_eq!(tale.judged().again, 0);
    // The first node has lost the lease, and has taken it again.
    let mut tale = handled();
    tale.handle(T, Lease { fence: 3, ..A }, 14_000);
    tale.breaks(&[(Doubled, T)]);
    tale.trouble(Trouble::ServerKilled, None, 10_000, 12_000);
    tale.breaks_nothing();
    assert_eq!(tale.judged().again, 1);
}

#[test]
fn by_two_nodes_under_one_lease() {
    let mut tale = handled();
    tale.handle(T, Lease { fence: 1, ..B }, 14_000);
    tale.trouble(Trouble::PauseLong, Some(A.node), 10_001, 14_000);
    tale.breaks(&[(Doubled, T)]);
}

#[test]
fn again_in_its_transaction() {
    // Its table says how often it was done.
    let mut tale = Tale::new();
    tale.arm(T, Kind::InTransaction, 0, 10_000);
    tale.handle(T, A, 10_000);
    tale.handle(T, A, 10_100);
    tale.handle(T, B, 14_000);
    tale.done(T, 1);
    tale.breaks_nothing();
}

/// Whether a trouble is a reason for a second node to handle the timer again.
fn is_reason(what: Trouble, node: Option<u32>, from: i64, to: i64) -> bool {
    let mut tale = handled_again();
    tale.trouble(what, node, from, to);
    let verdict = tale.judged();
    let count = (verdict.broken.len(), verdict.again);
    assert!([(0, 1), (1, 0)].contains(&count), "{count:?}");
    verdict.again == 1
}

#[test]
fn after_a_kill() {
    let of = |node, from, to| is_reason(Trouble::Kill, Some(node), from, to);
    // At some moment from the first call to the second one.
    assert!(of(A.node, 9_990, 10_000));
    assert!(!of(A.node, 9_990, 9_999));
    assert!(of(A.node, 14_000, 14_010));
    assert!(!of(A.node, 14_001, 14_010));
    // Another node.
    assert!(!of(B.node, 12_000, 12_010));
    assert!(!of(STRANGER, 12_000, 12_010));
}

#[test]
fn after_a_pause() {
    for what in [Trouble::PauseLong, Trouble::PauseShort] {
        let of = |node, from, to| is_reason(what, Some(node), from, to);
        // From a lease before the first call, with a millisecond to note it.
        assert!(of(A.node, 1_000, 9_999 - LEASE_MS));
        assert!(!of(A.node, 1_000, 9_998 - LEASE_MS));
        assert!(of(A.node, 14_000, 15_000));
        assert!(!of(A.node, 14_001, 15_000));
        assert!(of(B.node, 11_000, 13_000));
        assert!(!of(STRANGER, 11_000, 13_000));
    }
}

#[test]
fn after_a_trouble_of_the_server() {
    let whats = [
        Trouble::ServerKilled,
        Trouble::ServerEnded,
        Trouble::Promote,
    ];
    for what in whats {
        let of = |from, to| is_reason(what, None, from, to);
        assert!(of(1_000, 8_000 - LEASE_MS));
        assert!(!of(1_000, 7_999 - LEASE_MS));
        assert!(of(14_000, 15_000));
        assert!(!of(14_001, 15_000));
    }
}

#[test]
fn after_the_machine_stood_still() {
    let of = |from, to| is_reason(Trouble::Stall, None, from, to);
    assert!(of(1_000, 10_000 - LEASE_MS));
    assert!(!of(1_000, 9_999 - LEASE_MS));
    assert!(of(14_000, 15_000));
    assert!(!of(14_001, 15_000));
}

#[test]
fn after_what_ends_no_lease() {
    for what in [Trouble::Add, Trouble::Stop, Trouble::Snapshot] {
        assert!(!is_reason(what, Some(A.node), 10_500, 11_000), "{what:?}");
    }
}

#[test]
fn a_paused_node_handles_after_another_one() {
    // The node was paused before its first instruction.
    let mut tale = Tale::new();
    tale.plain(T, 0, 10_000);
    tale.trouble(Trouble::PauseLong, Some(A.node), 10_000, 15_000);
    tale.handle(T, B, 13_500);
    tale.handle(T, A, 15_001);
    tale.breaks_nothing();
    assert_eq!(tale.judged().again, 1);
    // That is no reason for the other one to handle it twice.
    tale.handle(T, B, 16_000);
    tale.breaks(&[(Doubled, T)]);
    // It was paused only when the other node had the lease, or long before its handler.
    let long_before = 15_000 - LEASE_MS - 2;
    for (from, to) in [(13_501, 15_000), (10_000, long_before)] {
        let mut tale = Tale::new();
        tale.plain(T, 0, 10_000);
        tale.trouble(Trouble::PauseShort, Some(A.node), from, to);
        tale.handle(T, B, 13_500);
        tale.handle(T, A, 15_000);
        tale.breaks(&[(Doubled, T)]);
    }
}

#[test]
fn a_node_that_was_not_paused_handles_after_another_one() {
    let mut tale = Tale::new();
    tale.plain(T, 0, 10_000);
    tale.handle(T, B, 13_500);
    tale.handle(T, A, 15_001);
    tale.breaks(&[(Doubled, T)]);
}
