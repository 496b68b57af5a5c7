//! Promise: nodes keep to a limit of calls together, no node waits for ever, and no call is lost,
//! in every order of the steps of grants: the model in `common/grants_model/`.
//!
//! - A promise's model is explored whole, within its bounds. The number of its states shows that
//!   nothing was cut off. Who changes the model counts anew.
//! - `spare_*`: a guard is left out, and no promise is broken without it.
//! - `broken_*`: a step is broken, and the checker finds the promise that this breaks.
//! - `limit_*`: what grants do not promise, and how that comes about.

#[path = "../common/grants_model/mod.rs"]
mod model;

use model::{Bounds, CALM, Event, GrantFault, Grants, Left, Promise};
use stateright::{Checker, HasDiscoveries, Model};

/// Two nodes, which always have timers that wait, and two calls.
const TWO: Bounds = Bounds {
    nodes: 2,
    number: 2,
    numbers: &[],
    waiting: [1, 1, 0],
    is_endless: true,
    is_slow: false,
    is_at_once: false,
    left: CALM,
};

/// They have one call.
const ONE: Bounds = Bounds { number: 1, ..TWO };

/// Three nodes have one call, two, or three.
const THREE_OF_ONE: Bounds = Bounds {
    nodes: 3,
    waiting: [1; 3],
    is_at_once: true,
    ..ONE
};

const THREE_OF_TWO: Bounds = Bounds {
    number: 2,
    ..THREE_OF_ONE
};

const THREE_OF_THREE: Bounds = Bounds {
    number: 3,
    ..THREE_OF_ONE
};

/// Leases run out while their nodes go on.
const LAPSES: Bounds = Bounds {
    left: Left { ends: 1, ..CALM },
    ..TWO
};

const LOSSES: Bounds = Bounds {
    left: Left { losses: 1, ..CALM },
    ..TWO
};

const CRASHES: Bounds = Bounds {
    left: Left { crashes: 1, ..CALM },
    ..TWO
};

/// The number of calls becomes lower, or higher.
const CHANGES: Bounds = Bounds {
    numbers: &[1, 2],
    left: Left { changes: 2, ..CALM },
    ..TWO
};

/// All timers of a node are cancelled, and it has nothing more to do.
const CANCELS: Bounds = Bounds {
    left: Left { cancels: 1, ..CALM },
    ..TWO
};

const CANCELS_OF_THREE: Bounds = Bounds {
    left: CANCELS.left,
    ..THREE_OF_TWO
};

/// Timers come to an end.
const ENDS: Bounds = Bounds {
    is_endless: false,
    waiting: [2, 2, 0],
    ..TWO
};

/// They do, a connection is lost, timers are cancelled, and others come.
const ENDS_ROUGHLY: Bounds = Bounds {
    waiting: [1, 1, 0],
    left: Left {
        losses: 1,
        arms: 1,
        cancels: 1,
        ..CALM
    },
    ..ENDS
};

const ENDS_WITH_A_CRASH: Bounds = Bounds {
    waiting: [1, 1, 0],
    left: CRASHES.left,
    ..ENDS
};

/// A node may ask again before it has begun with what it may make.
const SLOW: Bounds = Bounds {
    is_slow: true,
    ..LAPSES
};

/// Explores a model whole: no promise is broken, and these events happen.
fn explore(bounds: Bounds, fault: Option<GrantFault>, events: &[Event], states: usize) {
    explore_for(&Promise::ALL, bounds, fault, events, states);
}

/// Explores a model whole: none of these promises is broken, and these events happen.
fn explore_for(
    promises: &[Promise],
    bounds: Bounds,
    fault: Option<GrantFault>,
    events: &[Event],
    states: usize,
) {
    let checker = Grants { bounds, fault }.checker().spawn_bfs().join();
    assert!(checker.is_done());
    for promise in promises {
        checker.assert_no_discovery(promise.name());
    }
    for event in events {
        checker.assert_any_discovery(event.name());
    }
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores a model until a promise is found broken.
fn find(bounds: Bounds, fault: Option<GrantFault>, promise: Promise) {
    let first = HasDiscoveries::AllOf([promise.name()].into());
    let model = Grants { bounds, fault }.checker().finish_when(first);
    let checker = model.spawn_bfs().join();
    checker.assert_any_discovery(promise.name());
}

/// A broken step breaks a promise.
fn breaks(bounds: Bounds, fault: GrantFault, promise: Promise) {
    find(bounds, Some(fault), promise);
}

#[test]
fn two_nodes_share_two_calls() {
    explore(TWO, None, &[Event::Shared, Event::Rounds], 80_447);
}

#[test]
fn two_nodes_take_turns_with_one_call() {
    explore(ONE, None, &[Event::Rounds], 151_320);
}

#[test]
fn three_nodes_take_turns_with_one_call() {
    explore(THREE_OF_ONE, None, &[Event::Rounds], 19_416);
}

#[test]
fn three_nodes_take_turns_with_two_calls() {
    explore(THREE_OF_TWO, None, &[Event::Shared, Event::Rounds], 179_971);
}

#[test]
fn three_nodes_share_three_calls() {
    explore(
        THREE_OF_THREE,
        None,
        &[Event::Shared, Event::Rounds],
        62_150,
    );
}

#[test]
fn leases_that_run_out() {
    explore(LAPSES, None, &[Event::Outside, Event::Rounds], 1_038_195);
}

#[test]
fn answers_that_are_lost() {
    explore(LOSSES, None, &[Event::Shared, Event::Rounds], 230_358);
}

#[test]
fn processes_that_end() {
    explore(CRASHES, None, &[Event::Shared, Event::Rounds], 292_371);
}

#[test]
fn a_number_that_changes() {
    explore(CHANGES, None, &[Event::Lowered, Event::Rounds], 1_086_665);
}

#[test]
fn nodes_whose_timers_are_cancelled() {
    explore(CANCELS, None, &[Event::Rounds], 213_187);
}

#[test]
fn one_of_three_nodes_whose_timers_are_cancelled() {
    explore(CANCELS_OF_THREE, None, &[Event::Rounds], 253_148);
}

#[test]
fn timers_that_come_to_an_end() {
    explore(ENDS, None, &[Event::Shared, Event::Done], 76_640);
}

#[test]
fn timers_that_come_to_an_end_while_things_happen() {
    explore(ENDS_ROUGHLY, None, &[Event::Shared, Event::Done], 995_995);
}

#[test]
fn timers_that_come_to_an_end_and_a_process_that_does() {
    explore(
        ENDS_WITH_A_CRASH,
        None,
        &[Event::Shared, Event::Done],
        61_752,
    );
}

#[test]
fn broken_begins_that_are_not_said() {
    breaks(SLOW, GrantFault::BeginsUnsaid, Promise::CallsAreKept);
}

#[test]
fn broken_handlers_that_are_not_said() {
    breaks(TWO, GrantFault::RunningUnsaid, Promise::CallsAreKept);
}

#[test]
fn broken_calls_that_are_not_given_back() {
    breaks(ENDS, GrantFault::UnwantedKept, Promise::NothingLeaks);
}

#[test]
fn broken_calls_that_are_forgotten() {
    breaks(
        ENDS_ROUGHLY,
        GrantFault::ForgottenKept,
        Promise::NothingLeaks,
    );
}

#[test]
fn broken_want_that_is_not_taken_back() {
    breaks(ENDS_ROUGHLY, GrantFault::WantKept, Promise::NothingLeaks);
}

#[test]
fn broken_want_that_keeps_calls_from_others() {
    breaks(CANCELS, GrantFault::WantKept, Promise::AllAreUsed);
}

#[test]
fn broken_lock_of_a_rule() {
    breaks(TWO, GrantFault::Unlocked, Promise::CallsAreKept);
}

#[test]
fn broken_look_at_what_others_have() {
    breaks(TWO, GrantFault::OthersUnread, Promise::CallsAreKept);
}

#[test]
fn broken_look_at_what_others_want() {
    breaks(TWO, GrantFault::WantsUnread, Promise::AllGetSome);
}

#[test]
fn broken_look_at_who_has_waited_for_longest() {
    breaks(THREE_OF_ONE, GrantFault::SinceUnread, Promise::AllGetSome);
}

#[test]
fn broken_count_of_the_dead() {
    breaks(
        ENDS_WITH_A_CRASH,
        GrantFault::DeadCounted,
        Promise::NothingLeaks,
    );
}

#[test]
fn broken_end_of_a_lease() {
    breaks(LAPSES, GrantFault::ExpiredEarly, Promise::CallsAreKept);
}

#[test]
fn broken_calls_that_outlast_their_lease() {
    breaks(LAPSES, GrantFault::KeptAfterLease, Promise::CallsAreKept);
}

#[test]
fn broken_begin_without_a_lease() {
    breaks(LAPSES, GrantFault::RightUnread, Promise::CallsAreKept);
}

#[test]
fn broken_number_that_is_not_read() {
    let low = Bounds {
        number: 1,
        waiting: [1, 0, 0],
        ..CHANGES
    };
    breaks(low, GrantFault::RuleUnread, Promise::AllAreUsed);
}

/// A node that has lost an answer uses no more than it said before.
#[test]
fn spare_memory_that_is_lost_with_an_answer() {
    explore(LOSSES, Some(GrantFault::KeptAfterLoss), &[], 198_963);
}

/// They keep to the number all the same.
#[test]
fn nodes_that_are_slow_to_begin() {
    let events = [Event::Shared, Event::Outside];
    explore_for(&[Promise::CallsAreKept], SLOW, None, &events, 1_415_734);
}

/// A node asks again before it has begun with a call that it got. Others may get that then, again
/// and again.
#[test]
fn limit_nodes_that_are_slow_to_begin() {
    let slow = Bounds {
        is_slow: true,
        ..ONE
    };
    find(slow, None, Promise::AllGetSome);
}
