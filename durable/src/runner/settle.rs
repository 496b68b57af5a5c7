//! Settle: RunSettle, what a handler's answer comes to, for the writer.

use crate::handler::answer::{GiveUp, Later};
use crate::handler::caught::caught;
use crate::handler::delivery::{Delivery, Done, HandlerResult, Settlement, Verdict};
use crate::handler::recurrence::{DueRun, due_run};
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::store::done::{DoneEnding, DoneTimer};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::StoreTime;
use crate::store::why::{panic_text, stored_why, with_causes};
use std::any::Any;
use std::error::Error;
use std::time::Duration;

/// What becomes of a run of a calendar that is not made. One whose handler has failed is tried
/// again however late it is: it does not end in silence.
pub(super) fn left_out(shared: &DurableShared, delivery: &Delivery) -> Option<Verdict> {
    let calendar = delivery.row.calendar.as_deref()?;
    match due_run(calendar, delivery.row.due, shared.now()) {
        Ok(DueRun::LeftOut(next)) if delivery.row.attempts == 0 => Some(Verdict::LeftOut(next)),
        Ok(_) => None,
        Err(why) => Some(Verdict::Undecodable(stored_why(&why))),
    }
}

/// The call of a handler, as it begins.
#[derive(Clone, Copy)]
pub(super) struct Called {
    /// How late the timer is, in nanoseconds.
    pub(super) lateness_ns: u64,
    /// When it was, by the node's monotonic clock. Zero if no record is kept.
    since: Duration,
}

impl Called {
    /// The timer's handler is called now.
    pub(super) fn now(shared: &DurableShared, delivery: &Delivery) -> Self {
        let late = shared
            .now()
            .duration_since(delivery.row.due.system_time())
            .unwrap_or_default();
        let since = match shared.keeps_done() {
            Some(_) => shared.elapsed(),
            None => Duration::ZERO,
        };
        Self {
            lateness_ns: u64::try_from(late.as_nanos()).unwrap_or(u64::MAX),
            since,
        }
    }
}

/// The record of a run that is done, if records are kept.
pub(super) fn record_of(
    shared: &DurableShared,
    delivery: &Delivery,
    verdict: &Verdict,
    called: Option<Called>,
) -> Option<Box<DoneTimer>> {
    let node = shared.keeps_done()?;
    let row = &delivery.row;
    let (ending, attempts) = match verdict {
        Verdict::Done => (DoneEnding::Done, delivery.attempt()),
        Verdict::LeftOut(_) => (DoneEnding::LeftOut, row.attempts),
        _ => return None,
    };
    let ended = StoreTime::reading(shared.now());
    let mut record = DoneTimer::new(row.id, row.due, row.kind.clone(), ended);
    record.key.clone_from(&row.key);
    (record.attempts, record.crashes) = (attempts, row.crashes);
    (record.node, record.ending) = (node.clone(), ending);
    let lateness = |called: Called| Duration::from_nanos(called.lateness_ns);
    let began = called.map(|called| row.due.system_time() + lateness(called));
    record.began = began.map(StoreTime::reading);
    if let Some(called) = called {
        let took = shared.elapsed().saturating_sub(called.since);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        record.took = Duration::from_micros(micros);
    }
    Some(Box::new(record))
}

/// What an error and its causes say.
fn said(error: Box<dyn Error + Send + Sync>) -> String {
    let text = caught(|| with_causes(&*error));
    caught(|| drop(error));
    text.unwrap_or_else(|| "its error panicked when it was shown".to_owned())
}

/// What an error comes to that a handler uses as an answer. `Err`: it is another error.
fn answered(error: Box<dyn Error + Send + Sync>) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let error = match error.downcast::<Later>() {
        Ok(later) => return Ok(Verdict::Later(later.when())),
        Err(error) => error,
    };
    let why = said(error.downcast::<GiveUp>()?.into_why());
    Ok(match is_broken(DurableFault::GivenUpRetried) {
        false => Verdict::GivenUp(stored_why(&why)),
        true => Verdict::Failed(stored_why(&why)),
    })
}

/// What a handler's answer comes to. Tells the hook of a failure.
pub(super) fn verdict(
    shared: &DurableShared,
    delivery: &Delivery,
    answer: Result<HandlerResult, Box<dyn Any + Send>>,
) -> Verdict {
    let why = match answer {
        Ok(Ok(())) => return Verdict::Done,
        Ok(Err(error)) => match answered(error) {
            Ok(verdict) => return verdict,
            Err(error) => said(error),
        },
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
pub(super) fn settle(
    shared: &DurableShared,
    delivery: &Delivery,
    verdict: Verdict,
    called: Option<Called>,
) {
    let is_lost = match verdict {
        Verdict::Done => is_broken(DurableFault::AckLost),
        Verdict::Failed(_) => is_broken(DurableFault::RetryLost),
        _ => false,
    };
    if is_lost {
        return;
    }
    let record = record_of(shared, delivery, &verdict, called);
    let lateness_ns = called.map(|called| called.lateness_ns);
    shared.tell(match (&verdict, &delivery.row.calendar, lateness_ns) {
        (Verdict::Done, None, Some(lateness_ns)) => Told::Done(Done {
            of: delivery.settled(),
            lateness_ns,
            record,
        }),
        _ => Told::Settle(Box::new(Settlement {
            record,
            ..Settlement::new(delivery, verdict, lateness_ns)
        })),
    });
}
