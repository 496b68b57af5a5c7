//! Typed: the calls whose payloads are values.

use super::builder::DurableBuilder;
use super::client::DurableClient;
use super::keyed::Keyed;
use crate::handler::codec::Codec;
use crate::handler::delivery::{Delivery, HandlerResult};
use crate::handler::error::DurableError;
use crate::handler::kinds::{KindHandler, Said};
use crate::handler::typed_kind::KindOf;
use crate::store::contract::Store;
use crate::store::row::DurableId;
use crate::store::when::{PayloadBytes, When};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl<S: Store> DurableBuilder<S> {
    /// Sets how payloads of kinds are encoded whose handlers are set by
    /// [`on_typed`](Self::on_typed) after this. [`Codec::Json`] unless set.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Codec, Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .codec(Codec::Postcard)
    ///     .on_typed("order.unpaid", |_, order: u64| Ok(println!("{order}")))
    ///     .start()?;
    /// let id = timers.schedule_typed("order.unpaid", Duration::from_secs(1_800), &100_u64)?;
    /// assert_eq!(timers.get(id)?.expect("is armed").payload.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn codec(mut self, codec: Codec) -> Self {
        self.kinds.codec = codec;
        self
    }

    /// Sets the handler of a kind whose payloads are values of a type. The kind is a
    /// [`Kind`](crate::Kind), which has the type, or a string. A payload that is no such value
    /// becomes a dead letter, [`Cause::Undecodable`](crate::Cause::Undecodable), at once.
    ///
    /// # Example
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Cause, Durable, Memory};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Order {
    ///     number: u64,
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .on_typed("order.unpaid", |_, order: Order| {
    ///         println!("order {} was not paid", order.number);
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// let second = Duration::from_secs(1);
    /// timers.schedule_typed("order.unpaid", second, &Order { number: 4711 })?;
    /// timers.schedule("order.unpaid", second, "no order")?;
    /// clock.advance(second);
    /// assert_eq!(timers.stats().done, 1);
    /// assert!(matches!(timers.dead_letters(None, 10)?[0].cause, Cause::Undecodable(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_typed<T: DeserializeOwned>(
        mut self,
        kind: impl KindOf<T>,
        handler: impl Fn(&Delivery, T) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        let codec = self.kinds.codec;
        let handler = move |delivery: &Delivery| match codec.decode(delivery.payload()) {
            Ok(value) => Said::Result(handler(delivery, value)),
            Err(why) => Said::Undecodable(why),
        };
        let kind = self.kinds.entry(kind.kind_name());
        kind.handler = Some(KindHandler::One(Box::new(handler)));
        kind.codec = Some(codec);
        self
    }
}

impl DurableClient {
    /// Makes a payload of a value, as the handler of this kind reads it: for
    /// [`schedule_many`](Self::schedule_many), [`schedule_ticket`](Self::schedule_ticket), or a
    /// calendar.
    ///
    /// # Errors
    /// [`DurableError::Invalid`].
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let payload = timers.encode("mail", &["ada", "grace"])?;
    /// let ticket = timers.schedule_ticket("mail", Duration::from_secs(60), payload)?;
    /// ticket.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode<T: Serialize + ?Sized>(
        &self,
        kind: impl KindOf<T>,
        value: &T,
    ) -> Result<PayloadBytes, DurableError> {
        self.encode_for(kind.kind_name(), value)
    }

    pub(super) fn encode_for<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        value: &T,
    ) -> Result<PayloadBytes, DurableError> {
        Ok(self.shared.kinds.codec_of(kind).encode(value)?.into())
    }

    /// Arms a timer whose payload is a value, as [`schedule`](Self::schedule) does.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and [`DurableError::Invalid`].
    ///
    /// # Example
    /// See [`on_typed`](DurableBuilder::on_typed).
    pub fn schedule_typed<T: Serialize + ?Sized>(
        &self,
        kind: impl KindOf<T>,
        when: impl Into<When>,
        value: &T,
    ) -> Result<DurableId, DurableError> {
        let kind = kind.kind_name();
        self.schedule(kind, when, self.encode_for(kind, value)?)
    }
}

impl Keyed<'_> {
    /// Arms the timer with this key, as [`schedule`](Self::schedule) does. Its payload is a value.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and [`DurableError::Invalid`].
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let half_an_hour = Duration::from_secs(1_800);
    /// timers.key("order-4711").schedule_typed("order.unpaid", half_an_hour, &4711)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_typed<T: Serialize + ?Sized>(
        &self,
        kind: impl KindOf<T>,
        when: impl Into<When>,
        value: &T,
    ) -> Result<DurableId, DurableError> {
        let kind = kind.kind_name();
        self.schedule(kind, when, self.client.encode_for(kind, value)?)
    }
}
