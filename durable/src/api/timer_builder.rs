//! Timer builder: arms a timer that has more than a kind, a time and a payload.

use super::client::DurableClient;
use crate::handler::error::DurableError;
#[cfg(feature = "serde")]
use crate::handler::typed_kind::KindOf;
use crate::queue::link::DurableShared;
use crate::queue::request::{NewTimer, Request};
use crate::queue::ticket::Ticket;
use crate::store::row::{DurableId, RowMore, limit_ms};
use crate::store::trace::is_traceparent;
use crate::store::when::{PayloadBytes, When};
use std::sync::Arc;
use std::time::Duration;

/// A timer that is about to be armed, with settings that few timers have. Made by
/// [`DurableClient::timer`]. It ends in [`schedule`](Self::schedule) or
/// [`schedule_ticket`](Self::schedule_ticket).
///
/// These settings are stored with the timer. They stay when it is moved and when it is tried again,
/// and a dead letter keeps them.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// let minute = Duration::from_secs(60);
/// let id = timers
///     .timer("reminder", 30 * minute, "the train leaves at nine")
///     .key("train-4711")
///     .not_after(60 * minute)
///     .time_limit(minute)
///     .schedule()?;
/// let row = timers.get(id)?.expect("is armed");
/// assert_eq!(row.expires(), Some(row.due.after(30 * minute)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "the timer is armed by `schedule`"]
pub struct TimerBuilder<'a> {
    client: &'a DurableClient,
    kind: Arc<str>,
    key: Option<&'a str>,
    when: When,
    payload: PayloadBytes,
    not_after: Option<When>,
    more: RowMore,
}

impl<'a> TimerBuilder<'a> {
    /// Gives the timer a key. It replaces the timer that has it, as
    /// [`Keyed::schedule`](crate::Keyed::schedule) does.
    pub const fn key(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }

    /// The timer is not handed out after this time, as far as the node knows the store's time. If
    /// it could not be handed out before, because no program ran, or because all places of its kind
    /// were taken, it becomes a dead letter, [`Cause::Expired`](crate::Cause::Expired), when it is
    /// found to be due. An attempt that has begun goes on.
    ///
    /// A timer whose handler fails becomes a dead letter at once if its next attempt would come
    /// after this time. The cause is that failure. One that is put off beyond it
    /// ([`Later`](crate::Later)) has expired.
    ///
    /// A delay is added to the time of the call. The time is stored in milliseconds, rounded up.
    pub fn not_after(mut self, time: impl Into<When>) -> Self {
        self.not_after = Some(time.into());
        self
    }

    /// Sets how long one attempt of this timer may take, in place of the limit of its kind.
    /// [`DurableBuilder::time_limit`](crate::DurableBuilder::time_limit) says what happens when the
    /// limit is over. The limit is stored in milliseconds, rounded up, and is at least one.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.more.limit_ms = Some(limit_ms(limit));
        self
    }

    /// The trace in which the timer is armed, as the header `traceparent` of W3C's Trace Context
    /// has it. The handler gets it from [`Delivery::traceparent`](crate::Delivery::traceparent). A
    /// text that is no such header is left out, as that standard has it.
    pub fn traceparent(mut self, trace: &str) -> Self {
        self.more.trace = is_traceparent(trace).then(|| trace.into());
        self
    }

    /// Arms the timer. It is durable when this returns.
    ///
    /// # Errors
    /// As [`DurableClient::schedule`]. [`DurableError::Invalid`] if the timer would expire before
    /// it is due. Where nodes share the store, [`DurableError::Refused`] if the timer has an expiry
    /// or a time limit, while a node lives whose version knows neither; or if it is the first such
    /// timer of the schema, and something holds the table `node`, as `pg_dump` does until it ends.
    ///
    /// Cost: that of `schedule`, and an allocation.
    pub fn schedule(self) -> Result<DurableId, DurableError> {
        let (client, timer) = self.arming()?;
        client
            .shared
            .ask_and_wait(|teller| Request::arm(timer, teller))
    }

    /// As [`schedule`](Self::schedule), and returns at once. The timer is durable when the ticket
    /// is ready.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn schedule_ticket(self) -> Result<Ticket<DurableId>, DurableError> {
        let (client, timer) = self.arming()?;
        client.shared.ask(|teller| Request::arm(timer, teller))
    }

    /// The timer as the writer gets it.
    fn arming(mut self) -> Result<(&'a DurableClient, NewTimer), DurableError> {
        let client = self.client;
        let mut timer = client.new_timer(&self.kind, self.key, self.when, self.payload, None)?;
        if let Some(not_after) = self.not_after {
            // Both count from one reading of the clock. Two might lie in two milliseconds.
            let now = client.shared.now_at_most();
            timer.due = DurableShared::due_from(|| now, self.when);
            self.more.expires = Some(DurableShared::due_from(|| now, not_after));
        }
        if let Some(expires) = self.more.expires
            && expires < timer.due
        {
            let early = timer.due.since(expires);
            let why = format!("the timer would expire {early:?} before it is due");
            return Err(DurableError::Invalid(why));
        }
        if self.more != RowMore::default() {
            let more = timer.more.get_or_insert_default();
            let of_call = more.trace.take();
            **more = self.more;
            more.trace = more.trace.take().or(of_call);
        }
        Ok((client, timer))
    }
}

impl DurableClient {
    /// A timer with more settings: a key, an expiry, a time limit, a trace. It is armed by
    /// [`TimerBuilder::schedule`].
    ///
    /// # Example
    /// See [`TimerBuilder`].
    pub fn timer(
        &self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> TimerBuilder<'_> {
        TimerBuilder {
            client: self,
            kind: self.shared.kinds.name(kind),
            key: None,
            when: when.into(),
            payload: payload.into(),
            not_after: None,
            more: RowMore::default(),
        }
    }

    /// As [`timer`](Self::timer), with a value as payload.
    ///
    /// # Errors
    /// [`DurableError::Invalid`]: the value cannot be encoded.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Kind, Memory};
    ///
    /// const UNPAID: Kind<u64> = Kind::new("order.unpaid");
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let hour = Duration::from_secs(3_600);
    /// let unpaid = timers.timer_typed(UNPAID, hour, &4711)?;
    /// let id = unpaid.not_after(24 * hour).schedule()?;
    /// assert_eq!(&*timers.get(id)?.expect("is armed").payload, b"4711");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "serde")]
    pub fn timer_typed<T: serde::Serialize + ?Sized>(
        &self,
        kind: impl KindOf<T>,
        when: impl Into<When>,
        value: &T,
    ) -> Result<TimerBuilder<'_>, DurableError> {
        let kind = kind.kind_name();
        let payload = self.encode_for(kind, value)?;
        Ok(self.timer(kind, when, payload))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::client::Durable;
    use crate::stores::memory::Memory;
    use std::time::Duration;

    /// Of two readings of the clock some would lie in two milliseconds.
    #[test]
    fn a_timer_expires_so_long_after_it_is_due() {
        let timers = Durable::builder(Memory::new()).start().unwrap();
        let hour = Duration::from_secs(3_600);
        for _ in 0..200_000 {
            let timer = timers.timer("mail", hour, "late").not_after(2 * hour);
            let (_, timer) = timer.arming().unwrap();
            let expires = timer.more.unwrap().expires;
            assert_eq!(expires, Some(timer.due.after(hour)));
        }
    }
}
