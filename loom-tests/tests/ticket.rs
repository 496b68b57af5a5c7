//! Ticket: the answer of the writer of durable timers, against a thread that waits for it, and
//! against a task.

use loom::sync::Notify;
use loom::thread::spawn;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use wheelwork_durable::internals::{Fault, ticket};
use wheelwork_loom_tests::{explore, must_fail};

/// A task that waits until it is woken.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// TicketTell against TicketWait.
fn told_to_a_thread() {
    let (teller, ticket) = ticket();
    let writer = spawn(move || teller.tell(7));
    assert_eq!(ticket.wait().ok(), Some(7));
    writer.join().unwrap();
}

/// TicketTell against TicketPoll, by two tasks one after the other.
fn told_to_a_task() {
    let (teller, mut ticket) = ticket();
    let writer = spawn(move || teller.tell(7));
    let first = Waker::from(Arc::new(Task(Notify::new())));
    let mut answer = Pin::new(&mut ticket).poll(&mut Context::from_waker(&first));
    let task = Arc::new(Task(Notify::new()));
    let second = Waker::from(task.clone());
    while answer.is_pending() {
        answer = Pin::new(&mut ticket).poll(&mut Context::from_waker(&second));
        if answer.is_pending() {
            task.0.wait();
        }
    }
    assert!(matches!(answer, Poll::Ready(Ok(7))));
    writer.join().unwrap();
}

/// A teller that is dropped against TicketWait.
fn dropped() {
    let (teller, ticket) = ticket();
    let writer = spawn(move || drop(teller));
    assert!(ticket.wait().is_err());
    writer.join().unwrap();
}

/// A ticket that is dropped against TicketTell.
fn forgotten() {
    let (teller, ticket) = ticket();
    let writer = spawn(move || teller.tell(7));
    drop(ticket);
    writer.join().unwrap();
}

#[test]
fn an_answer_comes_to_a_thread() {
    explore(None, told_to_a_thread);
}

#[test]
fn an_answer_comes_to_a_task() {
    explore(None, told_to_a_task);
}

#[test]
fn nobody_waits_for_a_teller_that_is_gone() {
    explore(None, dropped);
}

#[test]
fn a_ticket_may_go_before_its_answer() {
    explore(None, forgotten);
}

#[test]
fn broken_answer_to_a_thread() {
    must_fail(
        Fault::TicketToldTooEarly,
        "deadlock",
        None,
        told_to_a_thread,
    );
}

#[test]
fn broken_answer_to_a_task() {
    must_fail(Fault::TicketToldTooEarly, "deadlock", None, told_to_a_task);
}
