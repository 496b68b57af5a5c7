//! Settle: RunSettle, what a handler's answer comes to, for the writer.

use crate::handler::answer::{GiveUp, Later};
use crate::handler::caught::caught;
use crate::handler::delivery::{Delivery, Done, HandlerResult, Settlement, Verdict};
use crate::handler::recurrence::{DueRun, due_run};
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::why::{panic_text, stored_why, with_causes};
use std::any::Any;
use std::error::Error;

/// What becomes of a run of a calendar that is not made.
pub(super) fn left_out(shared: &DurableShared, delivery: &Delivery) -> Option<Verdict> {
    let calendar = delivery.row.calendar.as_deref()?;
    match due_run(calendar, delivery.row.due, shared.now()) {
        Ok(DueRun::Made) => None,
        Ok(DueRun::LeftOut(next)) => Some(Verdict::LeftOut(next)),
        Err(why) => Some(Verdict::Undecodable(stored_why(&why))),
    }
}

/// How late a timer is, in nanoseconds.
pub(super) fn lateness(shared: &DurableShared, delivery: &Delivery) -> u64 {
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
    lateness_ns: Option<u64>,
) {
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
