//! One: calls a handler that takes one timer.

use super::settle::{lateness, settle, verdict};
#[cfg(feature = "postgres")]
use crate::handler::delivery::Done;
use crate::handler::delivery::{Delivery, Verdict};
use crate::handler::kinds::{OneHandler, Said};
use crate::handler::recurrence::begun;
use crate::queue::link::DurableShared;
#[cfg(feature = "postgres")]
use crate::queue::request::Told;
#[cfg(feature = "serde")]
use crate::store::why::stored_why;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the handler with this timer, and tells the writer how that ended.
pub(super) fn call_one(shared: &DurableShared, handler: &OneHandler, delivery: &Delivery) {
    let lateness = lateness(shared, delivery);
    let begun = begun(delivery.row.due, lateness);
    let said = catch_unwind(AssertUnwindSafe(|| handler(delivery, begun)));
    let verdict: Verdict = match said {
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
            return;
        }
        Err(panic) => verdict(shared, delivery, Err(panic)),
    };
    settle(shared, delivery, verdict, Some(lateness));
}
