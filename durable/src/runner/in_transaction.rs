//! In transaction: calls a handler that works in a transaction of the store, which also ends its
//! timer.

use super::admit::{begins, has_expired, has_right, may_go_on, may_still_begin};
use super::limit::{begin_limit, limit_of, note_over_time};
use super::passes::Passes;
use super::settle::{Called, record_of, settle, verdict};
use super::traced::traced;
use crate::handler::delivery::{Delivery, Done, Settlement, Verdict};
use crate::handler::ending::Ending;
use crate::handler::kinds::{TransactionCall, TransactionHandler};
use crate::handler::recurrence::{NextRun, begun};
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::store::write::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A timer whose handler is called when its transaction has begun.
struct Call<'a> {
    shared: &'a DurableShared,
    delivery: Delivery,
    /// The time limit of its kind.
    time_limit: Option<Duration>,
    passes: &'a mut Passes,
    /// The first call of the handler, and the timer's next run. `None`: it was not called.
    called: Option<(Called, NextRun)>,
}

impl Call<'_> {
    /// The first call of the handler. `None`: no transaction can end the timer, because its
    /// calendar cannot be read. The writer buries it.
    fn first(&mut self) -> Option<(Called, NextRun)> {
        let (shared, row) = (self.shared, &self.delivery.row);
        let called = Called::now(shared, &self.delivery);
        let lateness_ns = called.lateness_ns;
        let done = Settlement::new(&self.delivery, Verdict::Done, Some(lateness_ns));
        let retry = || shared.kinds.retry_of(&row.kind);
        let Ending::Acked(next) = done.ending(retry, begun(row.due, lateness_ns)) else {
            settle(shared, &self.delivery, Verdict::Done, Some(called));
            return None;
        };
        self.passes.begin([&self.delivery]);
        begin_limit(shared, self.time_limit, &mut self.delivery);
        Some((called, next))
    }
}

impl TransactionCall for Call<'_> {
    fn is_wanted(&self) -> bool {
        self.called.is_some() || self.shared.delivers()
    }

    fn give_back(&self) {
        self.shared
            .tell(Told::Back(Box::new(self.delivery.clone())));
    }

    fn begin(&mut self) -> bool {
        let (shared, delivery) = (self.shared, &self.delivery);
        if self.called.is_some() {
            // (The attempt goes on after a conflict, with the time that is left of it.)
            return may_go_on(shared, delivery);
        }
        // (Only now, because a suspect is charged for its call, and not for the wait before it.)
        if may_still_begin(shared, delivery)
            && begins(shared, delivery)
            && !has_expired(shared, delivery)
        {
            self.called = self.first();
        }
        self.called.is_some()
    }

    fn time_left(&self) -> Option<Duration> {
        match self.called {
            Some(_) => self.delivery.time_left(),
            None => limit_of(self.time_limit, &self.delivery),
        }
    }

    fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    fn ack(&self) -> Write {
        let called = self.called.as_ref();
        let record = called.and_then(|(called, _)| {
            record_of(self.shared, &self.delivery, &Verdict::Done, Some(*called))
        });
        let next = called.and_then(|(_, next)| next.at);
        Write::ack(self.delivery.settled(), next, record)
    }

    fn has_right(&self) -> bool {
        has_right(self.shared, &self.delivery)
    }
}

/// Calls the handler with this timer, and with the acknowledgement that its transaction makes if
/// the answer is `Ok`. In that case the store has the acknowledgement when the handler has
/// returned. After any other answer the transaction was rolled back, and the writer settles the
/// timer, as after other handlers.
pub(super) fn call_in_transaction(
    shared: &DurableShared,
    handler: &TransactionHandler,
    time_limit: Option<Duration>,
    delivery: Delivery,
    passes: &mut Passes,
) {
    let mut call = Call {
        shared,
        delivery,
        time_limit,
        passes,
        called: None,
    };
    let of_trace = call.delivery.clone();
    let answer = traced(shared, &of_trace, || {
        catch_unwind(AssertUnwindSafe(|| handler(&mut call)))
    });
    let Call {
        delivery, called, ..
    } = call;
    note_over_time(shared, &delivery);
    match (answer.transpose(), called) {
        // It was not called, and the writer knows.
        (None, _) => {}
        (Some(Ok(Ok(()))), Some((Called { lateness_ns, .. }, next))) => {
            let of = delivery.settled();
            let done = Done {
                of,
                lateness_ns,
                record: None,
            };
            shared.tell(Told::Acked(done, next.made_up));
            if delivery.row.calendar.is_some() {
                // It may have a next run, for which the writer has to look.
                shared.tell(Told::News);
            }
        }
        (Some(answer), called) => {
            let verdict = verdict(shared, &delivery, answer);
            settle(shared, &delivery, verdict, called.map(|(called, _)| called));
        }
    }
}
