//! Admit: RunAdmit, whether a timer may be handed out now; and TrialBegin, for one that goes alone.

use super::settle::{left_out, settle};
use crate::handler::delivery::{Delivery, Verdict};
use crate::handler::error::DurableError;
use crate::queue::link::DurableShared;
use crate::queue::request::Told;
use crate::queue::ticket::Ticket;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::write::TrialBegun;

/// RunAdmit: the timer, if it may be handed out now.
pub(super) fn admit(shared: &DurableShared, delivery: Box<Delivery>) -> Option<Delivery> {
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
    // (While the service stops nothing is handed out. It stays stored. What is paused goes back to
    // the writer, which holds it. The order is that of
    // `queue/claims.rs`: the claim first, then the epoch.)
    is_due
        && is_claimed
        && has_right(shared, delivery)
        && shared.delivers()
        && !shared.pauses.has(&delivery.row)
}

/// RunAdmit, once more: whether a timer may still be handed out that has waited for a place, or for
/// its executor. The clock may have been set back meanwhile, and the lease may be lost. If not, it
/// goes back to the writer.
pub(super) fn may_still_begin(shared: &DurableShared, delivery: &Delivery) -> bool {
    let may_begin = may_begin(shared, delivery) || is_broken(DurableFault::WaitedUnchecked);
    if !may_begin {
        shared.tell(Told::Back(Box::new(delivery.clone())));
    }
    may_begin
}

/// Whether this node may hand the timer out: it has the lease under which it was loaded.
pub(super) fn has_right(shared: &DurableShared, delivery: &Delivery) -> bool {
    shared.has_right(delivery.row.id.partition(), delivery.fence)
        || is_broken(DurableFault::LeaseIgnored)
}

/// RunAdmit, last of all: whether it is too late to hand the timer out. Then it is settled.
pub(super) fn has_expired(shared: &DurableShared, delivery: &Delivery) -> bool {
    let is_over = is_over(shared, delivery);
    if is_over {
        settle(shared, delivery, Verdict::Expired, None);
    }
    is_over
}

/// Whether it is too late to hand the timer out.
fn is_over(shared: &DurableShared, delivery: &Delivery) -> bool {
    let Some(expires) = delivery.row.expires() else {
        return false;
    };
    // (The store's clock may show a little more than this node knows.)
    expires.system_time() < shared.now_at_most() && !is_broken(DurableFault::ExpiryIgnored)
}

/// RunAdmit, for an attempt that has begun: whether the handler may be called again. (A stop waits
/// for the attempt, and an outage ends it only if the lease ends.)
#[cfg(feature = "postgres")]
pub(super) fn may_go_on(shared: &DurableShared, delivery: &Delivery) -> bool {
    has_right(shared, delivery) && !shared.pauses.has(&delivery.row) && !is_over(shared, delivery)
}

/// Settles timers that have expired, timers during which the process has ended too often, and runs
/// of calendars that are not made. Returns the others.
pub(super) fn still_tried(shared: &DurableShared, timers: Vec<Delivery>) -> Vec<Delivery> {
    timers
        .into_iter()
        .filter(|delivery| {
            if !may_still_begin(shared, delivery) || has_expired(shared, delivery) {
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
pub(super) fn goes_alone(delivery: &Delivery) -> bool {
    delivery.row.crashes > 0 && !is_broken(DurableFault::TrialUnstored)
}

/// TrialBegin: whether the timer may begin. For one that goes alone, the store has that then.
pub(super) fn begins(shared: &DurableShared, delivery: &Delivery) -> bool {
    if !goes_alone(delivery) {
        return true;
    }
    let answer = shared.begin_alone(delivery).map(Ticket::wait);
    has_begun(shared, delivery, answer)
}

/// Whether a timer that goes alone may be handled, with this answer of the writer. If not, it goes
/// back. (The commit may have taken long.)
pub(super) fn has_begun(
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
