//! One: calls a handler that takes one timer.

use super::limit::note_over_time;
use super::settle::{Called, settle, verdict};
use super::traced::traced;
use crate::handler::delivery::{Delivery, Verdict};
use crate::handler::kinds::{OneHandler, Said};
use crate::queue::link::DurableShared;
#[cfg(feature = "serde")]
use crate::store::why::stored_why;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the handler with this timer, and tells the writer how that ended.
pub(super) fn call_one(shared: &DurableShared, handler: &OneHandler, delivery: &Delivery) {
    let called = Called::now(shared, delivery);
    let said = traced(shared, delivery, || {
        catch_unwind(AssertUnwindSafe(|| handler(delivery)))
    });
    note_over_time(shared, delivery);
    let verdict: Verdict = match said {
        Ok(Said::Result(result)) => verdict(shared, delivery, Ok(result)),
        #[cfg(feature = "serde")]
        Ok(Said::Undecodable(why)) => Verdict::Undecodable(stored_why(&why)),
        Err(panic) => verdict(shared, delivery, Err(panic)),
    };
    settle(shared, delivery, verdict, Some(called));
}
