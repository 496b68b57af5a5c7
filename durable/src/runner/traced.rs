//! Traced: what is around the call of a handler: the trace in which its timer was armed, and with
//! the feature `tracing` a span.
//!
//! Ground rule: hooks and subscribers are user code. Whatever of them panics, the handler is
//! called, and its timer is settled.

use crate::handler::caught::caught;
use crate::handler::delivery::Delivery;
use crate::queue::link::DurableShared;

/// The span of a delivery.
#[cfg(feature = "tracing")]
pub(super) type DeliverySpan = Option<tracing::Span>;

/// There are no spans.
#[cfg(not(feature = "tracing"))]
#[derive(Default)]
pub(super) struct DeliverySpan;

/// The span of an attempt that begins.
#[cfg(feature = "tracing")]
fn span_of(delivery: &Delivery) -> DeliverySpan {
    caught(|| {
        tracing::info_span!(
            target: "wheelwork", "timer", kind = delivery.kind(), id = %delivery.id(),
            attempt = delivery.attempt(), traceparent = delivery.traceparent()
        )
    })
}

#[cfg(not(feature = "tracing"))]
const fn span_of(_: &Delivery) -> DeliverySpan {
    DeliverySpan
}

/// The span of an attempt whose call begins, made in the timer's trace.
pub(super) fn begin_span(shared: &DurableShared, delivery: &Delivery) -> DeliverySpan {
    in_trace(shared, delivery, || span_of(delivery))
}

/// Does this in the trace in which the timer was armed.
fn in_trace<R>(shared: &DurableShared, delivery: &Delivery, work: impl FnOnce() -> R) -> R {
    let hook = shared.hooks.restore_trace.as_ref();
    let trace = hook.zip(delivery.traceparent());
    let restored = trace.and_then(|(hook, trace)| caught(|| hook(trace)));
    let value = work();
    caught(|| drop(restored));
    value
}

/// Does this, which does not panic, in the trace of the timer and in its span.
pub(super) fn in_span<R>(
    shared: &DurableShared,
    delivery: &Delivery,
    span: &DeliverySpan,
    work: impl FnOnce() -> R,
) -> R {
    in_trace(shared, delivery, || entered(span, work))
}

/// Does this, which does not panic, in a span.
#[cfg(feature = "tracing")]
fn entered<R>(span: &DeliverySpan, work: impl FnOnce() -> R) -> R {
    let entered = span.as_ref().and_then(|span| caught(|| span.enter()));
    let value = work();
    caught(|| drop(entered));
    value
}

#[cfg(not(feature = "tracing"))]
fn entered<R>(_: &DeliverySpan, work: impl FnOnce() -> R) -> R {
    work()
}

/// The attempt has ended, and its span too.
#[cfg(feature = "tracing")]
pub(super) fn end_span(span: DeliverySpan) {
    caught(|| drop(span));
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn end_span(_: DeliverySpan) {}

/// Calls a handler of one timer, which does not panic.
pub(super) fn traced<R>(
    shared: &DurableShared,
    delivery: &Delivery,
    call: impl FnOnce() -> R,
) -> R {
    in_trace(shared, delivery, || {
        let span = span_of(delivery);
        let value = entered(&span, call);
        end_span(span);
        value
    })
}

/// Calls a handler of several timers, which does not panic. Each has a trace of its own, so none is
/// restored.
pub(super) fn traced_batch<R>(timers: &[Delivery], call: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tracing")]
    let span = caught(|| {
        let kind = timers.first().map(Delivery::kind);
        tracing::info_span!(target: "wheelwork", "timers", kind, count = timers.len())
    });
    #[cfg(not(feature = "tracing"))]
    let (span, _) = (DeliverySpan, timers);
    let value = entered(&span, call);
    end_span(span);
    value
}
