//! Throttle: threads that call handlers and threads that are refused, against the writer, which
//! lets timers go on.

use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::spawn;
use std::sync::Arc;
use wheelwork_durable::internals::{Asked, Fault, Pass, Refused, Throttle};
use wheelwork_loom_tests::{explore, must_fail};

fn pass(asked: Asked) -> Option<Pass> {
    match asked {
        Asked::Pass(pass) => Some(pass),
        Asked::Refused(_) | Asked::Free => None,
    }
}

fn refused(asked: Asked) -> Option<Refused> {
    match asked {
        Asked::Refused(refused) => Some(refused),
        Asked::Pass(_) | Asked::Free => None,
    }
}

/// A call ends, while the writer puts a timer in its place that was refused, and then waits until
/// it may go on.
fn a_call_ends_while_a_timer_is_put_in_its_place() {
    let bell = Arc::new(Notify::new());
    let rings = bell.clone();
    let throttle = Throttle::new(1, Box::new(move || rings.notify()));
    let call = pass(throttle.ask(1)).expect("there is room");
    let waits = refused(throttle.ask(2)).expect("there is no room");
    let caller = spawn(move || drop(call));
    // ThrottleHold.
    throttle.set_waiting(true);
    drop(waits);
    while throttle.left() == 0 {
        bell.wait();
    }
    throttle.release(2);
    throttle.set_waiting(false);
    assert!(
        pass(throttle.ask(2)).is_some(),
        "what goes on is let through"
    );
    caller.join().unwrap();
    assert_eq!(throttle.left(), 1, "all was given back");
}

/// A timer was refused, and waits. A call ends, and a newcomer asks.
fn a_newcomer_asks() {
    let throttle = Throttle::new(1, Box::new(|| {}));
    let call = pass(throttle.ask(1)).expect("there is room");
    let waits = refused(throttle.ask(2)).expect("there is no room");
    let caller = spawn(move || drop(call));
    let asked = throttle.clone();
    let newcomer = spawn(move || {
        let passed = pass(asked.ask(3));
        assert!(passed.is_none(), "a newcomer has overtaken");
    });
    throttle.set_waiting(true);
    drop(waits);
    newcomer.join().unwrap();
    caller.join().unwrap();
    throttle.release(2);
    assert!(pass(throttle.ask(2)).is_some());
}

/// Two threads ask for two calls, and a third one holds one of them until it is over.
fn no_more_calls_than_may_be() {
    let throttle = Throttle::new(2, Box::new(|| {}));
    let under_way = Arc::new(AtomicUsize::new(0));
    let call = move |throttle: &Throttle, under_way: &AtomicUsize, id| {
        if let Some(pass) = pass(throttle.ask(id)) {
            // Ordering: Relaxed. A count of the model.
            let others = under_way.fetch_add(1, Ordering::Relaxed);
            assert!(others < 2, "there are more calls than may be");
            under_way.fetch_sub(1, Ordering::Relaxed);
            drop(pass);
        }
    };
    let threads = [1, 2].map(|id| {
        let (throttle, under_way) = (throttle.clone(), under_way.clone());
        spawn(move || call(&throttle, &under_way, id))
    });
    call(&throttle, &under_way, 3);
    let _ = threads.map(|thread| thread.join().unwrap());
    assert_eq!(throttle.left(), 2, "all was given back");
}

#[test]
fn no_end_of_a_call_is_missed() {
    explore(None, a_call_ends_while_a_timer_is_put_in_its_place);
}

#[test]
fn no_newcomer_overtakes() {
    explore(None, a_newcomer_asks);
}

#[test]
fn calls_keep_to_their_number() {
    explore(Some(3), no_more_calls_than_may_be);
}

#[test]
fn broken_wake_of_the_writer() {
    let model = a_call_ends_while_a_timer_is_put_in_its_place;
    must_fail(Fault::ThrottleUntold, "deadlock", None, model);
}

#[test]
fn broken_end_of_a_call() {
    let model = a_call_ends_while_a_timer_is_put_in_its_place;
    must_fail(Fault::ThrottleKept, "deadlock", None, model);
    let why = "a call ends once";
    must_fail(
        Fault::ThrottleGivenTwice,
        why,
        Some(3),
        no_more_calls_than_may_be,
    );
}

#[test]
fn broken_order_of_newcomers() {
    let why = "a newcomer has overtaken";
    must_fail(Fault::ThrottleOvertakes, why, None, a_newcomer_asks);
}
