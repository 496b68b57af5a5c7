//! Rules: the calls for all timers of a kind, or for all whose key begins alike.

use super::client::DurableClient;
use crate::handler::error::DurableError;
use crate::queue::request::Request;
use crate::queue::ticket::Ticket;
use crate::store::rule::{Rule, RuleChange, RuleFor};
use crate::store::write::Write;

/// Calls for all timers of a kind, or for all whose key begins alike. Made by
/// [`DurableClient::kind`] and [`DurableClient::keys_with`].
///
/// They can be [paused](Self::pause), and have a [rate](Self::set_rate) and a [limit of
/// calls](Self::set_calls). All of this is their [`Rule`]. It is stored, so it holds after a
/// restart, for timers that are there and for those that come, and on all nodes of a fleet. A store
/// has at most 1,000 rules.
///
/// # Example
/// ```
/// use std::sync::mpsc::channel;
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let (send, handled) = channel();
/// let timers = Durable::builder(Memory::new())
///     .on("mail", move |mail| Ok(send.send(mail.payload_text().to_string())?))
///     .start()?;
/// assert!(timers.kind("mail").pause()?);
/// for mail in ["first", "second"] {
///     timers.schedule("mail", Duration::ZERO, mail)?;
/// }
/// assert!(handled.recv_timeout(Duration::from_millis(50)).is_err());
/// assert!(timers.kind("mail").rule()?.is_some());
///
/// assert!(timers.kind("mail").resume()?);
/// // (They are handled side by side.)
/// let mut both = [handled.recv()?, handled.recv()?];
/// both.sort();
/// assert_eq!(both, ["first", "second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ruled<'a> {
    pub(super) client: &'a DurableClient,
    pub(super) of: RuleFor,
}

impl Ruled<'_> {
    /// Returns their rule. `None`: they have none. A rule for other timers may hold for some of
    /// them all the same, as that of their kind does for timers with a key.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`]. Cost: all rules are read, of which there are at most 1,000.
    ///
    /// # Example
    /// See [`Ruled`].
    pub fn rule(&self) -> Result<Option<Rule>, DurableError> {
        let rules = self.client.rules()?;
        Ok(rules.into_iter().find(|rule| rule.of == self.of))
    }

    /// Changes a part of the rule. Returns whether that has made a difference.
    pub(super) fn change(&self, change: RuleChange) -> Result<bool, DurableError> {
        let write = Write::Rule(self.of.clone(), change);
        let shared = &self.client.shared;
        shared.ask_and_wait(|teller| Request::one(write, teller))
    }

    /// The same, and returns at once.
    pub(super) fn change_ticket(&self, change: RuleChange) -> Result<Ticket<bool>, DurableError> {
        let write = Write::Rule(self.of.clone(), change);
        let shared = &self.client.shared;
        shared.ask(|teller| Request::one(write, teller))
    }
}

impl DurableClient {
    /// Has the calls for all timers of this kind: those that are there, and those that come. This
    /// program needs no handler of the kind. A name that no rule can have is refused by these
    /// calls, and not here.
    ///
    /// # Example
    /// See [`Ruled`].
    #[must_use]
    pub fn kind(&self, kind: &str) -> Ruled<'_> {
        let of = RuleFor::Kind(self.shared.kinds.name(kind));
        Ruled { client: self, of }
    }

    /// Has the calls for all timers whose key begins with this text. An empty text is refused by
    /// these calls, and not here.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// assert!(timers.keys_with("tenant-7/").pause()?);
    /// assert_eq!(timers.rules()?[0].of.to_string(), "keys with tenant-7/");
    /// assert!(timers.keys_with("").pause().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys_with(&self, prefix: &str) -> Ruled<'_> {
        let of = RuleFor::Keys(prefix.into());
        Ruled { client: self, of }
    }

    /// Returns all rules of the store: those of kinds first, each by its text.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: all rules are read, of which there are at most 1,000.
    ///
    /// # Example
    /// See [`keys_with`](Self::keys_with).
    pub fn rules(&self) -> Result<Vec<Rule>, DurableError> {
        self.shared.ask_and_wait(Request::rules)
    }
}
