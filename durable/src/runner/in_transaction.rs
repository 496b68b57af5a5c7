//! In transaction: calls a handler that works in a transaction of the store, which also ends its
//! timer.

use super::admit::has_right;
use super::limit::note_over_time;
use super::settle::{Called, record_of, settle, verdict};
use super::traced::traced;
use crate::handler::delivery::{Delivery, Done, Settlement, Verdict};
use crate::handler::ending::Ending;
use crate::handler::kinds::TransactionHandler;
use crate::handler::recurrence::begun;
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::store::write::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the handler with this timer, and with the acknowledgement that its transaction makes if
/// the answer is `Ok`. In that case the store has the acknowledgement when the handler has
/// returned. After any other answer the transaction was rolled back, and the writer settles the
/// timer, as after other handlers.
pub(super) fn call_in_transaction(
    shared: &DurableShared,
    handler: &TransactionHandler,
    delivery: &Delivery,
) {
    let called = Called::now(shared, delivery);
    let lateness_ns = called.lateness_ns;
    let (row, of) = (&delivery.row, delivery.settled());
    let done = Settlement::new(delivery, Verdict::Done, Some(lateness_ns));
    let retry = || shared.kinds.retry_of(&row.kind);
    let Ending::Acked(next) = done.ending(retry, begun(row.due, lateness_ns)) else {
        // (Its calendar cannot be read, so no transaction can end it. The writer buries it.)
        return settle(shared, delivery, Verdict::Done, Some(called));
    };
    let ack = || {
        let record = record_of(shared, delivery, &Verdict::Done, Some(called));
        Write::ack(of.clone(), next.at, record)
    };
    let has_right = || has_right(shared, delivery);
    let answer = traced(shared, delivery, || {
        catch_unwind(AssertUnwindSafe(|| handler(delivery, &ack, &has_right)))
    });
    note_over_time(shared, delivery);
    match answer {
        Ok(Ok(())) => {
            let done = Done {
                of,
                lateness_ns,
                record: None,
            };
            shared.tell(Told::Acked(done, next.made_up));
            if row.calendar.is_some() {
                // It may have a next run, for which the writer has to look.
                shared.tell(Told::News);
            }
        }
        answer => {
            let verdict = verdict(shared, delivery, answer);
            settle(shared, delivery, verdict, Some(called));
        }
    }
}
