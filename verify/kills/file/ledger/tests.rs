//! Promise: each broken promise is found, and what is only in doubt is none.

use super::*;
use crate::wire::Handled;

const AT_US: u64 = 1_000_000_000;
/// After all deadlines of timers that fire.
const LATER_US: u64 = AT_US + 1_000_000;

/// A ledger in its first life, with one block of armed timers for each number. None are
/// cancelled, or all.
fn armed(cancel_percent: u8) -> Ledger {
    let plan = Plan::new(100, 1, cancel_percent, 1_000, 64);
    let mut ledger = Ledger::new(plan);
    ledger.begin_life();
    let records = [Record::Ready {
        at_us: AT_US,
        open_us: 5,
    }];
    let arms = (0..100).flat_map(|block| {
        let us = 1;
        let ids = vec![Id::from(block)];
        let at_us = AT_US;
        [
            Record::Asked { block, at_us },
            Record::Armed { block, us, ids },
        ]
    });
    note(&mut ledger, records.into_iter().chain(arms));
    ledger
}

fn note(ledger: &mut Ledger, records: impl IntoIterator<Item = Record>) {
    for record in records {
        let text = format!("{record:?}");
        assert_eq!(ledger.note(record, LATER_US), Ok(()), "{text}");
    }
}

fn handled(ledger: &Ledger, number: u32) -> Record {
    let due_us = ledger.due_us(number);
    Record::Handled {
        at_us: due_us + 7,
        timers: vec![Handled { number, due_us }],
    }
}

fn handle_all(ledger: &mut Ledger) {
    for number in 0..100 {
        let record = handled(ledger, number);
        note(ledger, [record]);
    }
}

fn cancel(number: u32, answer: bool) -> [Record; 2] {
    let (us, answers) = (1, vec![(number, answer)]);
    [
        Record::CancelAsked(vec![number]),
        Record::Cancelled { us, answers },
    ]
}

fn next_life(ledger: &mut Ledger) {
    ledger.end_life(LATER_US, true);
    ledger.begin_life();
}

/// It is the one that is found, of timer 17, and named.
fn assert_only(mut ledger: Ledger, offence: Offence) {
    note(&mut ledger, [Record::Done { rows: 0, dead: 0 }]);
    let broken = ledger.verdict();
    assert_eq!((broken.len(), ledger.count(offence)), (1, 1), "{broken:?}");
    let named = format!("1 {}: timer 17", offence.what());
    assert!(broken[0].starts_with(&named), "{broken:?}");
}

#[test]
fn all_handled_or_cancelled_is_clean() {
    let mut ledger = armed(0);
    assert!(!ledger.is_complete());
    handle_all(&mut ledger);
    assert!(ledger.is_complete() && ledger.verdict().is_empty());
    assert_eq!((ledger.tally.handled, ledger.lateness.count()), (100, 100));
    let mut ledger = armed(100);
    (0..100).for_each(|number| note(&mut ledger, cancel(number, true)));
    assert!(ledger.is_complete() && ledger.verdict().is_empty());
}

#[test]
fn lost() {
    let mut ledger = armed(0);
    (0..100).filter(|&number| number != 17).for_each(|number| {
        let record = handled(&ledger, number);
        note(&mut ledger, [record]);
    });
    assert!(!ledger.is_complete());
    assert_only(ledger, Offence::Lost);
}

#[test]
fn doubled_in_one_life_but_not_across_a_kill() {
    let mut ledger = armed(0);
    handle_all(&mut ledger);
    next_life(&mut ledger);
    handle_all(&mut ledger);
    assert_eq!(ledger.tally.handled_again, 100);
    assert_eq!(
        ledger.lateness.count() + ledger.lateness_across.count(),
        100
    );
    assert!(ledger.verdict().is_empty());
    let record = handled(&ledger, 17);
    note(&mut ledger, [record]);
    assert_only(ledger, Offence::Doubled);
}

#[test]
fn early_and_altered() {
    for (offence, late_us, at_us) in [(Offence::Early, 0, 1), (Offence::Altered, 1, 0)] {
        let mut ledger = armed(0);
        handle_all(&mut ledger);
        next_life(&mut ledger);
        let due_us = ledger.due_us(17) + late_us;
        let timers = vec![Handled { number: 17, due_us }];
        let at_us = due_us - at_us;
        note(&mut ledger, [Record::Handled { at_us, timers }]);
        assert_only(ledger, offence);
    }
}

#[test]
fn what_was_cancelled_is_not_handled_but_in_an_earlier_life() {
    let all_but_17 = |ledger: &mut Ledger| {
        for number in (0..100).filter(|&number| number != 17) {
            note(ledger, cancel(number, true));
        }
    };
    // Before and after, in one life.
    for is_first in [true, false] {
        let mut ledger = armed(100);
        all_but_17(&mut ledger);
        let record = handled(&ledger, 17);
        if is_first {
            note(&mut ledger, [record]);
            note(&mut ledger, cancel(17, true));
        } else {
            note(&mut ledger, cancel(17, true));
            note(&mut ledger, [record]);
        }
        assert_only(ledger, Offence::HandledCancelled);
    }
    // In an earlier life: its ack may have been cut off. In a later one not.
    let mut ledger = armed(100);
    all_but_17(&mut ledger);
    let record = handled(&ledger, 17);
    note(&mut ledger, [record.clone()]);
    next_life(&mut ledger);
    note(&mut ledger, cancel(17, true));
    assert_eq!(ledger.tally.cancelled_after, 1);
    assert!(ledger.verdict().is_empty());
    next_life(&mut ledger);
    note(&mut ledger, [record]);
    assert_only(ledger, Offence::HandledCancelled);
}

#[test]
fn a_cancel_without_an_answer_may_have_been_done() {
    let mut ledger = armed(100);
    for number in (0..100).filter(|&number| number != 17) {
        note(&mut ledger, cancel(number, true));
    }
    note(&mut ledger, [Record::CancelAsked(vec![17])]);
    next_life(&mut ledger);
    assert_eq!(ledger.tally.cancels_in_doubt, 1);
    // It is asked again.
    let orders = ledger.orders();
    assert!(orders.ends_with(&{
        let mut end = Order::Cancel(vec![(17, 17)]).frame();
        end.extend(Order::Begin.frame());
        end
    }));
    note(&mut ledger, cancel(17, false));
    assert!(ledger.is_complete() && ledger.verdict().is_empty());
    // Twice it cannot be done.
    note(&mut ledger, cancel(17, true));
    note(&mut ledger, cancel(17, true));
    assert_only(ledger, Offence::CancelledTwice);
}

#[test]
fn a_cancel_is_refused_only_when_it_is_late() {
    let mut ledger = armed(100);
    let is_far = |number: &u32| ledger.due_us(*number) > LATER_US + AHEAD_US;
    assert!(is_far(&17));
    for number in (0..100).filter(|&number| number != 17) {
        note(&mut ledger, cancel(number, true));
    }
    note(&mut ledger, cancel(17, false));
    assert!(!ledger.is_complete(), "it is to be handled now");
    let record = handled(&ledger, 17);
    note(&mut ledger, [record]);
    assert!(ledger.is_complete());
    assert_only(ledger, Offence::Refused);
}

/// In doubt: number 16, which has a key, and 17, which has none.
fn in_doubt() -> Ledger {
    let mut ledger = Ledger::new(Plan::new(100, 1, 0, 1_000, 64));
    ledger.begin_life();
    let at_us = AT_US;
    let asked = [16, 17].map(|block| Record::Asked { block, at_us });
    note(&mut ledger, asked);
    next_life(&mut ledger);
    assert_eq!((ledger.tally.arms_in_doubt, ledger.progress()), (2, 2));
    assert!(
        ledger
            .orders()
            .starts_with(&Order::Resolve(vec![16]).frame())
    );
    ledger
}

#[test]
fn an_arm_without_an_answer_may_have_been_done() {
    let resolved = |id| Record::Resolved { number: 16, id };
    // Both, and handled.
    let mut ledger = in_doubt();
    note(&mut ledger, [resolved(Some(5))]);
    for number in [16, 17] {
        let record = handled(&ledger, number);
        note(&mut ledger, [record]);
    }
    assert_eq!((ledger.tally.in_doubt_done, ledger.progress()), (2, 4));
    assert_eq!(ledger.verdict(), ["98 of 100 blocks were never armed"]);
    // None.
    let mut ledger = in_doubt();
    note(&mut ledger, [resolved(None)]);
    assert_eq!((ledger.tally.in_doubt_done, ledger.progress()), (0, 4));
    assert_eq!(ledger.verdict(), ["98 of 100 blocks were never armed"]);
    // What was found is to be handled; what was not found is not.
    for (id, offence) in [(Some(5), Offence::Lost), (None, Offence::HandledAbsent)] {
        let mut ledger = in_doubt();
        note(&mut ledger, [resolved(id)]);
        if id.is_none() {
            let record = handled(&ledger, 16);
            note(&mut ledger, [record]);
        }
        note(&mut ledger, [Record::Done { rows: 0, dead: 0 }]);
        let broken = ledger.verdict();
        assert_eq!((broken.len(), ledger.count(offence)), (2, 1), "{broken:?}");
    }
}

#[test]
fn what_is_left_at_the_end() {
    let left = |number| Record::Left { number, id: 9 };
    // In doubt, and not due long ago: it is cancelled then.
    let mut ledger = in_doubt();
    note(&mut ledger, [left(17)]);
    note(&mut ledger, cancel(17, true));
    assert_eq!((ledger.verdict().len(), ledger.tally.in_doubt_done), (1, 1));
    // Due long ago.
    let mut ledger = in_doubt();
    let later_us = LATER_US + OVERDUE_US;
    assert_eq!(ledger.note(left(17), later_us), Ok(()));
    assert_eq!(ledger.count(Offence::Lost), 1);
    // Never asked for, cancelled, or no timer of the job's.
    let mut ledger = in_doubt();
    note(&mut ledger, [left(50), left(1_000)]);
    assert_eq!(ledger.count(Offence::Invented), 2);
    let mut ledger = armed(100);
    note(&mut ledger, cancel(17, true));
    note(&mut ledger, [left(17)]);
    assert_eq!(ledger.count(Offence::LeftCancelled), 1);
    let record = Record::Done { rows: 1, dead: 2 };
    note(&mut ledger, [record]);
    let broken = ledger.verdict();
    let what = "1 rows and 2 dead letters are left in the store";
    assert!(ledger.is_done() && broken.last().is_some_and(|last| last == what));
}

#[test]
fn a_child_that_tells_of_what_it_was_not_asked_is_none_of_ours() {
    let (at_us, us) = (AT_US, 1);
    for record in [
        Record::Asked { block: 17, at_us },
        Record::Asked { block: 100, at_us },
        Record::Armed {
            block: 17,
            us,
            ids: vec![1],
        },
        Record::CancelAsked(vec![100]),
        Record::Cancelled {
            us,
            answers: vec![(17, true)],
        },
        Record::Resolved {
            number: 17,
            id: None,
        },
    ] {
        let text = format!("{record:?}");
        assert!(armed(0).note(record, LATER_US).is_err(), "{text}");
    }
    let mut ledger = in_doubt();
    let record = handled(&ledger, 50);
    note(&mut ledger, [record]);
    assert_eq!(ledger.count(Offence::Invented), 1);
}

#[test]
fn paces_are_of_the_phase_in_which_the_child_was() {
    let mut ledger = armed(100);
    note(&mut ledger, cancel(1, true));
    let at_us = AT_US + 100;
    note(&mut ledger, [Record::ArmingEnded { at_us }]);
    note(&mut ledger, cancel(2, true));
    let histogram = vec![(100, 2)];
    let commits = Commits {
        commits: 2,
        histogram,
        written_bytes: 7,
    };
    // The last one counts.
    note(
        &mut ledger,
        [
            Record::Commits(Commits::default()),
            Record::Commits(commits),
        ],
    );
    next_life(&mut ledger);
    let Tally {
        arming, cancelling, ..
    } = ledger.tally;
    assert_eq!((arming.operations, arming.us), (101, 100));
    assert_eq!(
        (cancelling.operations, cancelling.us),
        (1, LATER_US - at_us)
    );
    assert_eq!((ledger.tally.commits, ledger.tally.written_bytes), (2, 7));
    assert_eq!(ledger.commit_us.get(&100), Some(&2));
}
