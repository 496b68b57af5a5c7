//! Outage: the words by which threads see that a store has failed, that another process has had it,
//! and that it works again.

use loom::thread::spawn;
use std::cell::Cell;
use std::sync::Arc;
use wheelwork_durable::internals::{Claims, Fault, StoreStanding, ticket};
use wheelwork_loom_tests::{Breakable, explore, must_fail};

thread_local! {
    /// The step of the writer, or of RunAdmit, that the running model makes at another place.
    static MOVED: Cell<Option<Moved>> = const { Cell::new(None) };
}

/// Steps whose order the models take from the writer and from RunAdmit, made at another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// FenceRaise comes after ClaimPublish.
    FenceRaisedLate,
    /// FenceLook comes before ClaimLook.
    FenceSeenEarly,
    /// A caller is told of the failure before the word is set.
    ToldEarly,
}

impl Breakable for Moved {
    fn set(fault: Option<Self>) {
        MOVED.set(fault);
    }
}

fn is(moved: Moved) -> bool {
    MOVED.get() == Some(moved)
}

/// What the threads of a service have in common.
struct Words {
    claims: Claims,
    standing: StoreStanding,
}

impl Words {
    /// The store works, and rows of epoch 1 are claimed up to 10.
    fn new() -> Arc<Self> {
        let words = Self {
            claims: Claims::new(),
            standing: StoreStanding::new(),
        };
        words.claims.publish(10);
        Arc::new(words)
    }

    /// TurnFail, and TurnBack after another process has had the store: its epoch is 3 now. A turn
    /// of that epoch claims rows.
    fn comes_back(&self) {
        self.standing.fail();
        self.claims.drop_all();
        if !is(Moved::FenceRaisedLate) {
            self.claims.raise_fence(3);
        }
        self.standing.come_back();
        self.claims.publish(20);
        if is(Moved::FenceRaisedLate) {
            self.claims.raise_fence(3);
        }
    }

    /// RunAdmit, in its order.
    fn admits(&self, due: u64, epoch: u64) -> bool {
        if is(Moved::FenceSeenEarly) {
            return self.claims.allow(epoch) && self.claims.has(due) && self.standing.works();
        }
        self.claims.has(due) && self.claims.allow(epoch) && self.standing.works()
    }
}

/// A row of epoch 1 is due after all that was claimed in that epoch. Its timer has fired early, and
/// a thread is about to look.
fn a_row_of_the_epoch_before() {
    let words = Words::new();
    let writer = words.clone();
    let writer = spawn(move || writer.comes_back());
    let begins = words.admits(15, 1);
    assert!(!begins, "it was claimed for the epoch after its own");
    writer.join().unwrap();
    assert!(words.admits(15, 3));
}

/// A caller is told that the store has failed, and asks. The store may be back by then.
fn a_caller_that_was_told() {
    let standing = Arc::new(StoreStanding::new());
    let (teller, ticket) = ticket();
    let writer = standing.clone();
    let writer = spawn(move || {
        if is(Moved::ToldEarly) {
            teller.tell(7);
            writer.fail();
        } else {
            writer.fail();
            teller.tell(7);
        }
    });
    ticket.wait().unwrap();
    assert!(!standing.works(), "it was told, and sees that it works");
    assert!(standing.is_refused(), "it was told, and is not refused");
    writer.join().unwrap();
}

/// A caller that finds the store away waits, or asks under the lock, while it comes back.
fn a_caller_that_waits() {
    let standing = Arc::new(StoreStanding::new());
    standing.fail();
    let writer = standing.clone();
    let writer = spawn(move || writer.come_back());
    standing.wait();
    assert!(standing.works(), "it has waited for the end");
    writer.join().unwrap();
}

fn a_caller_that_asks() {
    let standing = Arc::new(StoreStanding::new());
    standing.fail();
    let writer = standing.clone();
    let writer = spawn(move || writer.come_back());
    if !standing.is_refused() {
        assert!(standing.works(), "no outage, and it does not work");
    }
    writer.join().unwrap();
    assert!(standing.works() && !standing.is_refused());
}

#[test]
fn no_row_is_handed_out_by_a_claim_of_the_next_epoch() {
    explore(None, a_row_of_the_epoch_before);
}

#[test]
fn a_caller_that_was_told_of_the_failure_sees_it() {
    explore(None, a_caller_that_was_told);
}

#[test]
fn a_caller_that_waits_sees_the_end() {
    explore(None, a_caller_that_waits);
}

#[test]
fn a_caller_that_is_not_refused_sees_the_end() {
    explore(None, a_caller_that_asks);
}

#[test]
fn broken_publication_of_a_claim() {
    let why = "the epoch after its own";
    must_fail(
        Fault::ClaimPublishRelaxed,
        why,
        None,
        a_row_of_the_epoch_before,
    );
}

#[test]
fn broken_order_of_the_fence_and_the_claim() {
    let why = "the epoch after its own";
    for moved in [Moved::FenceRaisedLate, Moved::FenceSeenEarly] {
        must_fail(moved, why, None, a_row_of_the_epoch_before);
    }
}

#[test]
fn broken_order_of_the_failure_and_the_answer() {
    let why = "it was told";
    must_fail(Moved::ToldEarly, why, None, a_caller_that_was_told);
}

#[test]
fn broken_wake_of_those_who_wait() {
    let fault = Fault::StandingToldTooEarly;
    must_fail(fault, "deadlock", None, a_caller_that_waits);
    let why = "no outage, and it does not work";
    must_fail(fault, why, None, a_caller_that_asks);
}
