//! Runner: hands due timers to their handlers, and tells the writer how that ended.
//!
//! It runs where the window's service dispatches. Any number of threads may be in it.

use super::admit::{admit, begins, goes_alone, has_expired, still_tried};
use super::batch::call_batch;
use super::future::AsyncRun;
#[cfg(feature = "postgres")]
use super::in_transaction::call_in_transaction;
use super::limit::begin_limit;
use super::one::call_one;
use super::passes::Passes;
use super::settle::settle;
use crate::handler::caught::caught;
use crate::handler::delivery::{Delivery, Verdict};
use crate::handler::kinds::{BATCH_MAX, Kind, KindHandler};
use crate::handler::places::CallPlace;
use crate::queue::fired::Fired;
use crate::queue::link::DurableShared;
use crate::sync::per_thread;
use std::cell::RefCell;
use std::iter;
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::Batch;
use wheelwork::is_relief_thread;

/// Runs what has come due: the handler of the window's service.
pub(crate) fn run(shared: &Arc<DurableShared>, batch: &mut Batch<'_, Fired>) {
    // Timers of one kind that has a handler for batches.
    let mut together: Vec<Delivery> = Vec::new();
    while let Some(fired) = batch.next() {
        match fired {
            Fired::Row(delivery) => {
                let is_other = together
                    .first()
                    .is_some_and(|first| first.row.kind != delivery.row.kind);
                if is_other && !shared.is_manual() {
                    // This timer must not wait for the handler of the others, so it is armed anew.
                    // (If the service has stopped, the timer stays stored.)
                    let _ = batch
                        .service()
                        .schedule(Duration::ZERO, Fired::Row(delivery));
                    hand_over(shared, batch, std::mem::take(&mut together));
                    continue;
                }
                let Some(delivery) = admit(shared, delivery) else {
                    continue;
                };
                if is_other || together.len() == BATCH_MAX {
                    hand_over(shared, batch, std::mem::take(&mut together));
                }
                match shared.kinds.get(&delivery.row.kind) {
                    Some(kind) if matches!(kind.handler, Some(KindHandler::Batch(_))) => {
                        together.push(delivery);
                    }
                    _ => hand_over(shared, batch, vec![delivery]),
                }
            }
            Fired::Turn => {}
            // (The request for help must not wait for that handler either.)
            Fired::Help if !together.is_empty() => {
                let _ = batch.service().schedule(Duration::ZERO, Fired::Help);
            }
            Fired::Help => {
                shared.kinds.note_help(false);
                if is_relief_thread() {
                    // The pool's threads are blocked: they are asked again later.
                    ask_for_help(shared, batch, HELP_AGAIN);
                } else {
                    help_waiting(shared, batch);
                }
            }
            // (It wakes a task. The future ends in its own poll.)
            Fired::Limit(teller) => teller.tell(Ok(())),
            Fired::Hook(hook) => {
                caught(hook);
            }
        }
    }
    hand_over(shared, batch, together);
    if !is_relief_thread() {
        help_waiting(shared, batch);
    }
    shared.take_turns();
}

/// The most rounds of calls for timers that wait, before other work of the pool has its turn.
const HELPED: usize = 64;

/// How long it takes until the pool is asked for help once more, if none of its threads has heard
/// the request.
const HELP_AGAIN: Duration = Duration::from_secs(1);

/// PlaceHelp: calls handlers for timers that wait for a place, of each kind in turn. Timers that
/// still wait after `HELPED` rounds are left to the next thread.
fn help_waiting(shared: &Arc<DurableShared>, batch: &Batch<'_, Fired>) {
    for _ in 0..HELPED {
        let mut has_helped = false;
        for kind in shared.kinds.waited_for() {
            if let Some((place, timers)) = kind.places.take_waiting(most(kind)) {
                // (The call may block this thread.)
                ask_for_help(shared, batch, Duration::ZERO);
                run_in_place(shared, kind, place, timers);
                has_helped = true;
            }
        }
        if !has_helped {
            return;
        }
    }
    ask_for_help(shared, batch, Duration::ZERO);
}

/// PlaceAsk: if timers wait, asks a thread of the pool to look for them, unless such a request is
/// on its way already.
fn ask_for_help(shared: &DurableShared, batch: &Batch<'_, Fired>, wait: Duration) {
    let some_wait = shared.kinds.waited_for().next().is_some();
    if some_wait && !shared.kinds.note_help(true) {
        // (A service that has stopped needs no help.)
        let _ = batch.service().schedule(wait, Fired::Help);
    }
}

/// Hands timers of one kind to their handler: now, or when the kind has a free place.
fn hand_over(shared: &Arc<DurableShared>, batch: &Batch<'_, Fired>, timers: Vec<Delivery>) {
    let Some(first) = timers.first() else {
        return;
    };
    let Some(kind) = shared
        .kinds
        .get(&first.row.kind)
        .filter(|kind| kind.handler.is_some())
    else {
        for delivery in &timers {
            settle(shared, delivery, Verdict::UnknownKind, None);
        }
        return;
    };
    let blocks = !matches!(kind.handler, Some(KindHandler::Async(_)));
    let relieves = blocks && is_relief_thread();
    match kind.places.take(timers, relieves) {
        Some((place, timers)) => run_in_place(shared, kind, place, timers),
        // A thread of the pool may have become free meanwhile.
        None if relieves => ask_for_help(shared, batch, Duration::ZERO),
        None => {}
    }
}

/// Runs the handler for these timers, and then for those that wait for a place.
fn run_in_place(
    shared: &Arc<DurableShared>,
    kind: &Kind,
    place: CallPlace,
    mut timers: Vec<Delivery>,
) {
    while !timers.is_empty() {
        let alone = take_alone(&mut timers).into_iter().map(|timer| vec![timer]);
        let calls = iter::once(timers).chain(alone);
        for timers in calls.filter(|timers| !timers.is_empty()) {
            // (What may not be handed out any more goes back to the writer.)
            if call(shared, kind, place, timers).is_break() {
                // The future keeps the place.
                return;
            }
        }
        timers = kind.places.give(place, most(kind));
    }
}

/// Takes the suspects that go alone out of a batch. TrialBegin waits for a commit, and the others
/// would have to be looked at again after that.
fn take_alone(timers: &mut Vec<Delivery>) -> Vec<Delivery> {
    match timers.len() {
        0 | 1 => Vec::new(),
        _ => timers.extract_if(.., |timer| goes_alone(timer)).collect(),
    }
}

/// How many timers a call of the kind's handler may have.
const fn most(kind: &Kind) -> usize {
    match kind.handler {
        Some(KindHandler::Batch(_)) => BATCH_MAX,
        _ => 1,
    }
}

/// Whether an attempt begins in its handler, which waits for a transaction first.
#[cfg(feature = "postgres")]
const fn begins_itself(kind: &Kind) -> bool {
    matches!(kind.handler, Some(KindHandler::InTransaction(_)))
}

#[cfg(not(feature = "postgres"))]
const fn begins_itself(_: &Kind) -> bool {
    false
}

/// Calls the handler. `Break`: it has made a future, which gives the place back.
fn call(
    shared: &Arc<DurableShared>,
    kind: &Kind,
    place: CallPlace,
    timers: Vec<Delivery>,
) -> ControlFlow<()> {
    let mut timers = still_tried(shared, timers);
    let mut passes = Passes::default();
    if !matches!(kind.handler, Some(KindHandler::Async(_))) {
        passes = Passes::ask(shared, &mut timers);
        if !begins_itself(kind) {
            // (A trial may have waited for its commit.)
            timers.retain(|delivery| begins(shared, delivery) && !has_expired(shared, delivery));
            passes.begin(&timers);
            timers
                .iter_mut()
                .for_each(|delivery| begin_limit(shared, kind.time_limit, delivery));
        }
    }
    match &kind.handler {
        None => {}
        Some(KindHandler::One(handler)) => {
            timers
                .iter()
                .for_each(|delivery| call_one(shared, handler, delivery));
        }
        #[cfg(feature = "postgres")]
        Some(KindHandler::InTransaction(handler)) => {
            for delivery in timers {
                call_in_transaction(shared, handler, kind.time_limit, delivery, &mut passes);
            }
        }
        Some(KindHandler::Batch(handler)) if !timers.is_empty() => {
            call_batch(shared, handler, &timers);
        }
        Some(KindHandler::Batch(_)) => {}
        Some(KindHandler::Async(_)) => {
            let Some(spawn) = &shared.hooks.spawner else {
                return ControlFlow::Continue(());
            };
            // (One at a time: only handlers of batches get several.)
            if let Some(delivery) = timers.into_iter().next() {
                let run = AsyncRun::new(shared, delivery, place, give_place);
                // A spawner that panics has dropped the run, which settles it.
                caught(|| spawn(Box::pin(run)));
                return ControlFlow::Break(());
            }
        }
    }
    drop(passes);
    ControlFlow::Continue(())
}

/// Places that have become free, each with its service and the name of its kind.
type FreePlaces = Vec<(Arc<DurableShared>, Arc<str>, CallPlace)>;

per_thread! {
    /// The places that this thread has still to give away. `None`: it is not in `give_place`. This
    /// has no destructor, because the destructors of other thread-locals may drop a future too.
    static PLACES: RefCell<ManuallyDrop<Option<FreePlaces>>> = const {
        RefCell::new(ManuallyDrop::new(None))
    };
}

/// Gives the place of a future that has ended to the next timer of its kind. The spawner may run
/// that timer's future at once, or drop it, so that this future ends within this call. Then its
/// place is noted, and the outermost call gives it away. So the stack does not grow with the number
/// of timers that wait.
fn give_place(shared: &Arc<DurableShared>, kind: &Arc<str>, place: CallPlace) {
    let is_outermost = PLACES.with(|places| {
        let mut places = places.borrow_mut();
        let is_outermost = places.is_none();
        let places = places.get_or_insert_default();
        places.push((shared.clone(), kind.clone(), place));
        is_outermost
    });
    if !is_outermost {
        return;
    }
    let next_place =
        |places: &RefCell<ManuallyDrop<Option<_>>>| places.borrow_mut().as_mut().and_then(Vec::pop);
    while let Some((shared, kind, place)) = PLACES.with(next_place) {
        if let Some(kind) = shared.kinds.get(&kind) {
            let timers = kind.places.give(place, most(kind));
            run_in_place(&shared, kind, place, timers);
        }
    }
    PLACES.with(|places| places.borrow_mut().take());
}
