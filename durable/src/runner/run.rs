//! Runner: hands due timers to their handlers, and tells the writer how that ended.
//!
//! It runs where the window's service dispatches. Any number of threads may be in it.

use crate::handler::caught::caught;
use crate::handler::delivery::{Delivery, Done, HandlerResult, Settlement, Verdict};
use crate::handler::error::DurableError;
use crate::handler::kinds::{BATCH_MAX, HandlerFuture, Kind, KindHandler, Said};
use crate::handler::places::CallPlace;
use crate::handler::recurrence::{DueRun, begun, due_run};
use crate::queue::fired::Fired;
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::queue::ticket::Ticket;
use crate::store::contract::TrialBegun;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::why::{panic_text, stored_why, with_causes};
use crate::sync::{ThreadId, per_thread};
use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wheelwork::Batch;
use wheelwork::is_relief_thread;
use wheelwork::run_as_task;

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
                    // It must not wait for the others' handler. (A service that has stopped leaves
                    // it stored.)
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
            // (It must not wait for the handler of those either.)
            Fired::Help if !together.is_empty() => {
                let _ = batch.service().schedule(Duration::ZERO, Fired::Help);
            }
            Fired::Help => {
                shared.kinds.note_help(false);
                if is_relief_thread() {
                    // The pool's threads are blocked.
                    ask_for_help(shared, batch, HELP_AGAIN);
                } else {
                    help_waiting(shared, batch);
                }
            }
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

/// When a thread of the pool is asked for help once more, if none has heard it.
const HELP_AGAIN: Duration = Duration::from_secs(1);

/// PlaceHelp: calls handlers for timers that wait for their kinds, of each kind in turn. Whatever
/// still waits is left to the next thread.
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

/// PlaceAsk: if timers wait, has a thread of the pool look for them, unless one is on its way.
fn ask_for_help(shared: &DurableShared, batch: &Batch<'_, Fired>, wait: Duration) {
    let some_wait = shared.kinds.waited_for().next().is_some();
    if some_wait && !shared.kinds.note_help(true) {
        // (A service that has stopped needs none.)
        let _ = batch.service().schedule(wait, Fired::Help);
    }
}

/// RunAdmit: the timer, if it may be handed out now.
fn admit(shared: &DurableShared, delivery: Box<Delivery>) -> Option<Delivery> {
    if may_begin(shared, &delivery) {
        return Some(*delivery);
    }
    shared.tell(Told::Back(delivery));
    None
}

/// RunAdmit: whether the timer may be handed out now.
fn may_begin(shared: &DurableShared, delivery: &Delivery) -> bool {
    let due = delivery.row.due;
    let is_due = due.system_time() <= shared.now() || is_broken(DurableFault::ClockIgnored);
    let is_claimed = shared.is_claimed(due) || is_broken(DurableFault::WatermarkIgnored);
    // (While the service stops nothing is handed out. It stays stored.)
    is_due && is_claimed && has_right(shared, delivery) && shared.delivers()
}

/// RunAdmit, once more: whether a timer may still be handed out that has waited for a place, or for
/// its executor. The clock may have been set back meanwhile, and the lease may be lost. If not, it
/// goes back to the writer.
fn may_still_begin(shared: &DurableShared, delivery: &Delivery) -> bool {
    let may_begin = may_begin(shared, delivery) || is_broken(DurableFault::WaitedUnchecked);
    if !may_begin {
        shared.tell(Told::Back(Box::new(delivery.clone())));
    }
    may_begin
}

/// Whether this node may hand the timer out: it has the lease under which it was loaded.
fn has_right(shared: &DurableShared, delivery: &Delivery) -> bool {
    shared.has_right(delivery.row.id.partition(), delivery.fence)
        || is_broken(DurableFault::LeaseIgnored)
}

/// Hands timers of one kind to their handler: now, or when it has a free place.
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

/// Runs the handler for these timers, and for those that wait for its place.
fn run_in_place(
    shared: &Arc<DurableShared>,
    kind: &Kind,
    place: CallPlace,
    mut timers: Vec<Delivery>,
) {
    while !timers.is_empty() {
        if shared.delivers() && call(shared, kind, place, timers).is_break() {
            // The future keeps the place.
            return;
        }
        timers = kind.places.give(place, most(kind));
    }
}

/// How many timers a call of the kind's handler may have.
const fn most(kind: &Kind) -> usize {
    match kind.handler {
        Some(KindHandler::Batch(_)) => BATCH_MAX,
        _ => 1,
    }
}

/// Calls the handler. `Break`: it has made a future, which gives the place back.
fn call(
    shared: &Arc<DurableShared>,
    kind: &Kind,
    place: CallPlace,
    timers: Vec<Delivery>,
) -> ControlFlow<()> {
    let mut timers = still_tried(shared, timers);
    if !matches!(kind.handler, Some(KindHandler::Async(_))) {
        timers.retain(|delivery| begins(shared, delivery));
    }
    match &kind.handler {
        None => {}
        Some(KindHandler::One(handler)) => {
            for delivery in &timers {
                let lateness = lateness(shared, delivery);
                let begun = begun(delivery.row.due, lateness);
                let said = catch_unwind(AssertUnwindSafe(|| handler(delivery, begun)));
                let verdict = match said {
                    Ok(Said::Result(result)) => verdict(shared, delivery, Ok(result)),
                    #[cfg(feature = "serde")]
                    Ok(Said::Undecodable(why)) => Verdict::Undecodable(stored_why(&why)),
                    #[cfg(feature = "postgres")]
                    Ok(Said::Acked(next)) => {
                        let of = delivery.settled();
                        let done = Done {
                            of,
                            lateness_ns: lateness,
                        };
                        shared.tell(Told::Acked(done, next.made_up));
                        if delivery.row.calendar.is_some() {
                            // It may have a next run.
                            shared.tell(Told::News);
                        }
                        continue;
                    }
                    Err(panic) => verdict(shared, delivery, Err(panic)),
                };
                settle(shared, delivery, verdict, Some(lateness));
            }
        }
        Some(KindHandler::Batch(handler)) if !timers.is_empty() => {
            let lateness: Vec<u64> = timers.iter().map(|timer| lateness(shared, timer)).collect();
            let results = catch_unwind(AssertUnwindSafe(|| handler(&timers)));
            let (results, panic) = match results {
                Ok(results) => (results, None),
                Err(panic) => {
                    let text = panic_text(&*panic);
                    caught(|| drop(panic));
                    (Vec::new(), Some(text))
                }
            };
            let mut results = results.into_iter();
            for (delivery, lateness) in timers.iter().zip(lateness) {
                let result = results.next().unwrap_or_else(|| {
                    let why = panic
                        .as_deref()
                        .unwrap_or("its handler gave no result for it");
                    Err(why.into())
                });
                let verdict = verdict(shared, delivery, Ok(result));
                settle(shared, delivery, verdict, Some(lateness));
            }
            caught(|| drop(results));
        }
        Some(KindHandler::Batch(_)) => {}
        Some(KindHandler::Async(_)) => {
            let Some(spawn) = &shared.hooks.spawner else {
                return ControlFlow::Continue(());
            };
            // (One at a time: only handlers of batches get several.)
            if let Some(delivery) = timers.into_iter().next() {
                let run = AsyncRun {
                    shared: shared.clone(),
                    delivery,
                    place,
                    lateness: None,
                    future: None,
                    begun: None,
                    polled_by: None,
                    is_over: false,
                };
                // A spawner that panics has dropped the run, which settles it.
                caught(|| spawn(Box::pin(run)));
                return ControlFlow::Break(());
            }
        }
    }
    ControlFlow::Continue(())
}

/// Settles timers during which the process has ended too often, and runs of calendars that are not
/// made. Returns the others.
fn still_tried(shared: &DurableShared, timers: Vec<Delivery>) -> Vec<Delivery> {
    timers
        .into_iter()
        .filter(|delivery| {
            if !may_still_begin(shared, delivery) {
                return false;
            }
            if let Some(verdict) = left_out(shared, delivery) {
                settle(shared, delivery, verdict, None);
                return false;
            }
            let crashes = delivery.row.crashes;
            let policy = shared.kinds.retry_of(&delivery.row.kind);
            if policy.has_crashed_out(crashes) {
                settle(shared, delivery, Verdict::Crashed, None);
                return false;
            }
            true
        })
        .collect()
}

/// Whether a timer goes alone on trial.
fn goes_alone(delivery: &Delivery) -> bool {
    delivery.row.crashes > 0 && !is_broken(DurableFault::TrialUnstored)
}

/// TrialBegin: whether the timer may begin. For one that goes alone, the store has that then.
fn begins(shared: &DurableShared, delivery: &Delivery) -> bool {
    if !goes_alone(delivery) {
        return true;
    }
    let answer = shared.begin_alone(delivery).map(Ticket::wait);
    has_begun(shared, delivery, answer)
}

/// Whether a timer that goes alone may be handled, with this answer of the writer. If not, it goes
/// back. (The commit may have taken long.)
fn has_begun(
    shared: &DurableShared,
    delivery: &Delivery,
    answer: Option<Result<TrialBegun, DurableError>>,
) -> bool {
    match answer {
        Some(Ok(TrialBegun::Noted)) => may_still_begin(shared, delivery),
        Some(Ok(TrialBegun::Superseded)) => false,
        _ => {
            shared.tell(Told::Back(Box::new(delivery.clone())));
            false
        }
    }
}

/// What becomes of a run of a calendar that is not made.
fn left_out(shared: &DurableShared, delivery: &Delivery) -> Option<Verdict> {
    let calendar = delivery.row.calendar.as_deref()?;
    match due_run(calendar, delivery.row.due, shared.now()) {
        Ok(DueRun::Made) => None,
        Ok(DueRun::LeftOut(next)) => Some(Verdict::LeftOut(next)),
        Err(why) => Some(Verdict::Undecodable(stored_why(&why))),
    }
}

/// How late a timer is, in nanoseconds.
fn lateness(shared: &DurableShared, delivery: &Delivery) -> u64 {
    let late = shared
        .now()
        .duration_since(delivery.row.due.system_time())
        .unwrap_or_default();
    u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)
}

/// What an error and its causes say.
fn said(error: Box<dyn Error + Send + Sync>) -> String {
    let text = caught(|| with_causes(&*error));
    caught(|| drop(error));
    text.unwrap_or_else(|| "its error panicked when it was shown".to_owned())
}

/// What a handler's answer comes to. Tells the hook of a failure.
fn verdict(
    shared: &DurableShared,
    delivery: &Delivery,
    answer: Result<HandlerResult, Box<dyn Any + Send>>,
) -> Verdict {
    let why = match answer {
        Ok(Ok(())) => return Verdict::Done,
        Ok(Err(error)) => said(error),
        Err(panic) => {
            let text = panic_text(&*panic);
            caught(|| drop(panic));
            text
        }
    };
    #[cfg(feature = "tracing")]
    crate::queue::events::failed(delivery, &why);
    if let Some(hook) = &shared.hooks.failed {
        caught(|| hook(delivery, &why));
    }
    Verdict::Failed(stored_why(&why))
}

/// RunSettle: tells the writer how a delivery ended.
fn settle(shared: &DurableShared, delivery: &Delivery, verdict: Verdict, lateness_ns: Option<u64>) {
    let is_lost = match verdict {
        Verdict::Done => is_broken(DurableFault::AckLost),
        Verdict::Failed(_) => is_broken(DurableFault::RetryLost),
        _ => false,
    };
    if is_lost {
        return;
    }
    shared.tell(match (&verdict, &delivery.row.calendar, lateness_ns) {
        (Verdict::Done, None, Some(lateness_ns)) => Told::Done(Done {
            of: delivery.settled(),
            lateness_ns,
        }),
        _ => Told::Settle(Box::new(Settlement::new(delivery, verdict, lateness_ns))),
    });
}

/// Places of kinds that are free: those of a service, by the kind's name.
type FreePlaces = Vec<(Arc<DurableShared>, Arc<str>, CallPlace)>;

per_thread! {
    /// What this thread has still to give to others. `None`: it gives nothing. Without a
    /// destructor: the destructors of other thread-locals may drop a future too.
    static PLACES: RefCell<ManuallyDrop<Option<FreePlaces>>> = const {
        RefCell::new(ManuallyDrop::new(None))
    };
}

/// A future has ended: its place goes to the next timer of its kind. The spawner may run that
/// timer's future at once, or drop it, so that it ends within this call. Then its place is noted,
/// and given by the outermost call: however many wait, the stack stays as it is.
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

/// A timer on its way to an async handler, then that handler's future. It settles the timer when
/// the future ends, or is dropped, and gives its place to the next one.
///
/// The handler is called when the executor polls this first: the executor may be busy until then.
struct AsyncRun {
    shared: Arc<DurableShared>,
    delivery: Delivery,
    place: CallPlace,
    /// How late the handler was called. `None`: it was not.
    lateness: Option<u64>,
    future: Option<HandlerFuture>,
    /// The answer to TrialBegin, which it waits for.
    begun: Option<Ticket<TrialBegun>>,
    /// The thread that has polled this last. `None`: it has not begun, and no stop waits for it.
    polled_by: Option<ThreadId>,
    is_over: bool,
}

impl AsyncRun {
    /// Calls the handler, unless the timer may not be handed out any more.
    fn begin(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_asked = self.begun.is_some();
        if !is_asked {
            // RunAdmit, once more. From `future_begins` on a stop waits for this.
            if !may_still_begin(&self.shared, &self.delivery) {
                self.leave();
                return Poll::Ready(());
            }
            self.polled_by = self.shared.future_begins();
            if self.polled_by.is_none() {
                self.give_back();
                return Poll::Ready(());
            }
        }
        if goes_alone(&self.delivery) {
            if !is_asked {
                self.begun = self.shared.begin_alone(&self.delivery);
            }
            let answer = match self
                .begun
                .as_mut()
                .map(|begun| Pin::new(begun).poll(context))
            {
                Some(Poll::Pending) => return Poll::Pending,
                Some(Poll::Ready(answer)) => Some(answer),
                None => None,
            };
            if !has_begun(&self.shared, &self.delivery, answer) {
                self.leave();
                return Poll::Ready(());
            }
        }
        self.lateness = Some(lateness(&self.shared, &self.delivery));
        let kind = self.shared.kinds.get(&self.delivery.row.kind);
        if let Some(KindHandler::Async(handler)) = kind.and_then(|kind| kind.handler.as_ref()) {
            let made = catch_unwind(AssertUnwindSafe(|| handler(self.delivery.clone())));
            match made {
                Ok(future) => self.future = Some(future),
                Err(panic) => self.end(Err(panic)),
            }
        }
        Poll::Ready(())
    }

    /// The service stops: the timer stays stored, and is not handed out.
    fn give_back(&mut self) {
        let back = Box::new(self.delivery.clone());
        self.shared.tell(Told::Back(back));
        self.leave();
    }

    fn poll_handler(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.polled_by = self
            .polled_by
            .map(|former| self.shared.future_moves(former));
        if self.lateness.is_none() && !self.is_over && self.begin(context).is_pending() {
            return Poll::Pending;
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        let poll = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match poll {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => self.end(Ok(result)),
            Err(panic) => self.end(Err(panic)),
        }
        Poll::Ready(())
    }

    fn end(&mut self, answer: Result<HandlerResult, Box<dyn Any + Send>>) {
        if self.is_over {
            return;
        }
        let future = self.future.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
        let answer = match dropped {
            Ok(()) => answer,
            Err(panic) => {
                caught(|| drop(answer));
                Err(panic)
            }
        };
        let verdict = verdict(&self.shared, &self.delivery, answer);
        settle(&self.shared, &self.delivery, verdict, self.lateness);
        self.leave();
    }

    /// The writer knows what became of the timer: others may have its place.
    fn leave(&mut self) {
        self.is_over = true;
        give_place(&self.shared, &self.delivery.row.kind, self.place);
        self.shared.take_turns();
        if let Some(thread) = self.polled_by.take() {
            self.shared.future_ends(thread);
        }
    }
}

impl Future for AsyncRun {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // (A future that stops the service, or drops it, must not wait for itself.)
        run_as_task(|| self.poll_handler(context))
    }
}

impl Drop for AsyncRun {
    fn drop(&mut self) {
        run_as_task(|| {
            // What has not begun when the service stops stays stored, as what waits for a place.
            let has_begun = self.polled_by.is_some() || self.shared.delivers();
            match has_begun || self.is_over {
                true => self.end(Ok(Err("its future was dropped before it ended".into()))),
                false => self.give_back(),
            }
        });
    }
}
