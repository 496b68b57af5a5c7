//! Future: a handler that is async, from the call of the spawner to the end of its future.

use super::admit::{goes_alone, has_begun, has_expired, may_still_begin};
use super::limit::{Alarm, begin_limit, note_over_time};
use super::passes::Passes;
use super::settle::{Called, settle, verdict};
use super::traced::{DeliverySpan, begin_span, end_span, in_span};
use crate::handler::caught::caught;
use crate::handler::delivery::{Delivery, HandlerResult};
use crate::handler::kinds::{HandlerFuture, KindHandler};
use crate::handler::places::CallPlace;
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::queue::ticket::Ticket;
use crate::store::write::TrialBegun;
use crate::sync::ThreadId;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wheelwork::run_as_task;

/// Gives the place of a kind to the next timer that waits for it.
pub(super) type GivePlace = fn(&Arc<DurableShared>, &Arc<str>, CallPlace);

/// A timer on its way to an async handler, then that handler's future. It settles the timer when
/// the future ends, or is dropped, and gives its place to the next one.
///
/// The handler is called when the executor polls this first: the executor may be busy until then.
pub(super) struct AsyncRun {
    shared: Arc<DurableShared>,
    delivery: Delivery,
    place: CallPlace,
    /// What it has of its limits.
    passes: Passes,
    /// The call of the handler. `None`: it was not called.
    called: Option<Called>,
    future: Option<HandlerFuture>,
    /// The answer to TrialBegin, which it waits for.
    begun: Option<Ticket<TrialBegun>>,
    /// Of an attempt that has begun. It is around each poll.
    span: DeliverySpan,
    /// Of an attempt that has a limit, and has begun.
    alarm: Option<Alarm>,
    /// The thread that has polled this last. `None`: it has not begun, and no stop waits for it.
    polled_by: Option<ThreadId>,
    is_over: bool,
    give_place: GivePlace,
}

impl AsyncRun {
    pub(super) fn new(
        shared: &Arc<DurableShared>,
        delivery: Delivery,
        place: CallPlace,
        give_place: GivePlace,
    ) -> Self {
        Self {
            shared: shared.clone(),
            delivery,
            place,
            passes: Passes::default(),
            called: None,
            future: None,
            begun: None,
            span: Default::default(),
            alarm: None,
            polled_by: None,
            is_over: false,
            give_place,
        }
    }

    /// Calls the handler, unless the timer may not be handed out any more.
    fn begin(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_alone = goes_alone(&self.delivery);
        if self.begun.is_none() {
            if !self.is_admitted() {
                return Poll::Ready(());
            }
            if is_alone {
                self.begun = self.shared.begin_alone(&self.delivery);
            }
        }
        if is_alone {
            let answer = match &mut self.begun {
                Some(begun) => Some(ready!(Pin::new(begun).poll(context))),
                None => None,
            };
            if !has_begun(&self.shared, &self.delivery, answer) {
                self.leave();
                return Poll::Ready(());
            }
        }
        if has_expired(&self.shared, &self.delivery) {
            self.leave();
            return Poll::Ready(());
        }
        self.call();
        Poll::Ready(())
    }

    /// RunAdmit, once more, and what its limits say. If the timer may not begin, it is let go of.
    fn is_admitted(&mut self) -> bool {
        if !may_still_begin(&self.shared, &self.delivery) {
            self.leave();
            return false;
        }
        // From here on a stop waits for this.
        self.polled_by = self.shared.future_begins();
        if self.polled_by.is_none() {
            self.give_back();
            return false;
        }
        let Some(passes) = Passes::ask_for(&self.shared, &self.delivery) else {
            self.leave();
            return false;
        };
        self.passes = passes;
        true
    }

    /// Calls the handler, which makes the future.
    fn call(&mut self) {
        self.passes.begin([&self.delivery]);
        let kind = self.shared.kinds.get(&self.delivery.row.kind);
        let of_kind = kind.and_then(|kind| kind.time_limit);
        begin_limit(&self.shared, of_kind, &mut self.delivery);
        self.alarm = Alarm::set(&self.shared, &self.delivery);
        self.called = Some(Called::now(&self.shared, &self.delivery));
        if let Some(KindHandler::Async(handler)) = kind.and_then(|kind| kind.handler.as_ref()) {
            self.span = begin_span(&self.shared, &self.delivery);
            let made = in_span(&self.shared, &self.delivery, &self.span, || {
                catch_unwind(AssertUnwindSafe(|| handler(self.delivery.clone())))
            });
            match made {
                Ok(future) => self.future = Some(future),
                Err(panic) => self.end(Err(panic)),
            }
        }
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
            .map(|former| self.shared.futures.move_here(former));
        if self.called.is_none() && !self.is_over && self.begin(context).is_pending() {
            return Poll::Pending;
        }
        let delivery = &self.delivery;
        let alarm = self.alarm.as_mut().filter(|_| self.future.is_some());
        if alarm.is_some_and(|alarm| alarm.is_over(&self.shared, delivery, context)) {
            self.end_over_time();
            return Poll::Ready(());
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        let poll = in_span(&self.shared, &self.delivery, &self.span, || {
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)))
        });
        match poll {
            Ok(Poll::Pending) => return Poll::Pending,
            // (It may have taken too long within this poll. Its answer counts.)
            Ok(Poll::Ready(result)) => self.end(Ok(result)),
            Err(panic) => self.end(Err(panic)),
        }
        Poll::Ready(())
    }

    /// LimitEnd: the future is dropped, here in its own poll, and the attempt has failed.
    fn end_over_time(&mut self) {
        let lasts = self.delivery.limit.as_ref().map(|limit| limit.lasts);
        let why = format!("it took longer than {:?}", lasts.unwrap_or_default());
        self.end(Ok(Err(why.into())));
    }

    fn end(&mut self, answer: Result<HandlerResult, Box<dyn Any + Send>>) {
        if self.is_over {
            return;
        }
        note_over_time(&self.shared, &self.delivery);
        let future = self.future.take();
        let dropped = in_span(&self.shared, &self.delivery, &self.span, || {
            catch_unwind(AssertUnwindSafe(|| drop(future)))
        });
        end_span(std::mem::take(&mut self.span));
        let answer = match dropped {
            Ok(()) => answer,
            Err(panic) => {
                caught(|| drop(answer));
                Err(panic)
            }
        };
        let verdict = verdict(&self.shared, &self.delivery, answer);
        settle(&self.shared, &self.delivery, verdict, self.called);
        self.leave();
    }

    /// The writer knows what became of the timer: others may have its place.
    fn leave(&mut self) {
        self.is_over = true;
        if let Some(alarm) = self.alarm.take() {
            alarm.clear(&self.shared, &self.delivery);
        }
        // (The next timer of the kind may need it.)
        self.passes = Passes::default();
        (self.give_place)(&self.shared, &self.delivery.row.kind, self.place);
        self.shared.take_turns();
        if let Some(thread) = self.polled_by.take() {
            self.shared.futures.end(thread);
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
