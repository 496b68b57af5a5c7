//! Unhandled: kinds without a handler.

use super::builder::DurableBuilder;
use super::client::DurableClient;
use crate::handler::error::DurableError;
use crate::queue::request::Request;
use crate::store::contract::Store;
use crate::store::unhandled::UnhandledKind;
use std::sync::Arc;
use std::time::Duration;

impl<S: Store> DurableBuilder<S> {
    /// Sets a hook that is told that timers of a kind wait, because no handler has the kind, and
    /// how many of them do; in a fleet, in the partitions of this node. It is told when the first
    /// one waits, and then as long as some do, once an hour for each kind (also if none has waited
    /// in between). If timers of more than 1,000 kinds wait, it is told of 1,000 of them alone.
    /// [`unhandled`](DurableClient::unhandled) has all of them.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on("mail", |_| Ok(()))
    ///     .on_unhandled(|kind, rows| eprintln!("{rows} timers of {kind} wait for a handler"))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_unhandled(mut self, hook: impl Fn(&str, u64) + Send + Sync + 'static) -> Self {
        self.hooks.unhandled.hook = Some(Arc::new(hook));
        self
    }

    /// Sets how long a timer waits for a handler of its kind before it becomes a dead letter, with
    /// [`Cause::UnknownKind`](crate::Cause::UnknownKind). A week, unless set. With
    /// [`Duration::MAX`] it waits for ever. A recurring timer leaves a dead letter, and waits for
    /// its next run.
    ///
    /// The time is counted from when the timer was found to have no handler: some minutes before
    /// its deadline, in a fleet shortly before it. It goes on while no program runs. A program
    /// without any handler makes no dead letters.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on("mail", |_| Ok(()))
    ///     .bury_unhandled_after(Duration::MAX)
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bury_unhandled_after(mut self, time: Duration) -> Self {
        self.hooks.unhandled.bury_after = time;
        self
    }
}

impl DurableClient {
    /// Returns the kinds whose timers wait for a handler, by name: how many timers wait, and since
    /// when. A timer waits if it has come due, or is about to, and the program that has it has no
    /// handler of its kind. It is handed out as soon as that has one. In a fleet it goes to a node
    /// that has one, which may take some minutes. (If more than 64 kinds wait in one partition,
    /// other nodes are asked for 64 of them, and the others wait until these are fewer.)
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: all timers that wait are read, in slices. Other calls
    /// have their turn between the slices.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).on("mail", |_| Ok(())).start()?;
    /// timers.schedule("report", Duration::ZERO, "")?;
    /// # while timers.unhandled()?.is_empty() {}
    /// // A moment later:
    /// let waiting = timers.unhandled()?;
    /// assert_eq!((&*waiting[0].kind, waiting[0].rows), ("report", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unhandled(&self) -> Result<Vec<UnhandledKind>, DurableError> {
        self.shared.ask_and_wait(Request::unhandled)
    }
}
