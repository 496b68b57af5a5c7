//! Batch: calls a handler that takes several timers.

use super::limit::note_over_time;
use super::settle::{Called, settle, verdict};
use super::traced::traced_batch;
use crate::handler::caught::caught;
use crate::handler::delivery::Delivery;
use crate::handler::kinds::BatchHandler;
use crate::queue::link::DurableShared;
use crate::store::why::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the handler with these timers, and tells the writer how each ended.
pub(super) fn call_batch(shared: &DurableShared, handler: &BatchHandler, timers: &[Delivery]) {
    let called = timers.iter().map(|timer| Called::now(shared, timer));
    let called: Vec<Called> = called.collect();
    let results = traced_batch(timers, || {
        catch_unwind(AssertUnwindSafe(|| handler(timers)))
    });
    timers
        .iter()
        .for_each(|timer| note_over_time(shared, timer));
    let (results, panic) = match results {
        Ok(results) => (results, None),
        Err(panic) => {
            let text = panic_text(&*panic);
            caught(|| drop(panic));
            (Vec::new(), Some(text))
        }
    };
    let mut results = results.into_iter();
    for (delivery, called) in timers.iter().zip(called) {
        let result = results.next().unwrap_or_else(|| {
            let why = panic
                .as_deref()
                .unwrap_or("its handler gave no result for it");
            Err(why.into())
        });
        let verdict = verdict(shared, delivery, Ok(result));
        settle(shared, delivery, verdict, Some(called));
    }
    caught(|| drop(results));
}
