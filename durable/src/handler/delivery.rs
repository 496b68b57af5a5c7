//! Delivery: what a handler gets, and what it says.

use super::limit::Limit;
use crate::store::done::DoneTimer;
use crate::store::row::{DurableId, Row, StoreTime};
use crate::store::when::When;
use crate::store::write::Settled;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What a handler says: `Ok`, the timer is done; `Err`, it is to be tried again. The errors
/// [`Later`](crate::Later) and [`GiveUp`](crate::GiveUp) mean something else.
///
/// # Example
/// See [`Delivery`].
pub type HandlerResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A timer that is due, as its handler gets it.
///
/// # Exactly once
/// A timer may be delivered more than once: if the process ends between the handler's work and the
/// store's note of it. A handler whose work must not be done twice passes on [`id`](Self::id) as
/// the key of an idempotent request. A timer with a calendar keeps its id in all its runs: there,
/// make the key of what the run is for, such as the day.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Delivery, Durable, Memory};
///
/// let timers = Durable::builder(Memory::new())
///     .on("order.unpaid", |timer: &Delivery| {
///         println!("{}: attempt {}", timer.payload_text(), timer.attempt());
///         Ok(())
///     })
///     .start()?;
/// timers.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Delivery {
    pub(crate) row: Row,
    pub(crate) fence: u64,
    /// Of a calendar that is behind: the runs in a row before this one that were made up for.
    pub(crate) made_up: u32,
    /// How long the attempt may take that has begun. `None`: as long as it takes, or it has not
    /// begun.
    pub(crate) limit: Option<Arc<Limit>>,
}

/// Two deliveries are one if they are of the same row, under the same fence.
impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        (&self.row, self.fence, self.made_up) == (&other.row, other.fence, other.made_up)
    }
}

impl Eq for Delivery {}

impl Delivery {
    /// The timer's id.
    #[must_use]
    pub fn id(&self) -> DurableId {
        self.row.id
    }

    /// The kind by which this handler was found.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.row.kind
    }

    /// The timer's key, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.row.key.as_deref()
    }

    /// The timer's payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.row.payload
    }

    /// The payload as text. Bytes that are no UTF-8 are shown as `U+FFFD`.
    #[must_use]
    pub fn payload_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.row.payload)
    }

    /// When the timer was due, by the store's clock. A retry's time, if this is one.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.row.due.system_time()
    }

    /// Which attempt this is: 1, and one more after each that failed. [`crashes`](Self::crashes)
    /// counts those that were under way when a process ended.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.row.attempts.saturating_add(1)
    }

    /// How often a process has ended while this timer was on trial: it may have been the cause.
    /// Its policy's `crash_attempts` bound it.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.row.crashes
    }

    /// After when the timer is not handed out any more, if that was set
    /// ([`not_after`](crate::TimerBuilder::not_after)).
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.row.expires().map(StoreTime::system_time)
    }

    /// How much of its [time limit](crate::DurableBuilder::time_limit) this attempt has left, by
    /// the node's monotonic clock. `None`: it has no limit. A handler that blocks looks at it where
    /// it can stop.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Delivery, Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on("clean", |files: &Delivery| {
    ///         for file in files.payload_text().lines() {
    ///             if files.is_over_time() {
    ///                 return Err("there were too many files".into());
    ///             }
    ///             println!("{file}, {:?} left", files.time_left());
    ///         }
    ///         Ok(())
    ///     })
    ///     .time_limit("clean", Duration::from_secs(60))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.limit.as_ref().map(|limit| limit.left())
    }

    /// Whether this attempt has taken longer than its time limit.
    ///
    /// # Example
    /// See [`time_left`](Self::time_left).
    #[must_use]
    pub fn is_over_time(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    /// The trace in which the timer was armed, if it was armed with one
    /// ([`traceparent`](crate::TimerBuilder::traceparent)).
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.row.traceparent()
    }

    /// A number that rises each time a program opens the store (but not when a store comes back by
    /// itself), or where nodes share it, each time another node takes over the timer's partition. A
    /// system that remembers the greatest one that it has seen for this timer, or for its key, and
    /// refuses smaller ones, is safe from handlers of a process that was thought dead. (Each copy
    /// of a file has a fence of its own. So after a restore it may be smaller, and after a salvage
    /// of a file whose `meta` was damaged. A database that loses commits in a failover may give one
    /// fence twice. Then this safety is lost.)
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("id", &self.row.id)
            .field("kind", &self.row.kind)
            .field("key", &self.row.key)
            .field("payload_bytes", &self.row.payload.len())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

/// How a delivery ended.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// The handler said `Ok`.
    Done,
    /// The handler said `Err`, or panicked: what it said.
    Failed(Arc<str>),
    /// The handler said [`Later`](super::answer::Later): when.
    Later(When),
    /// The handler said [`GiveUp`](super::answer::GiveUp): why.
    GivenUp(Arc<str>),
    /// The payload is not what the handler reads.
    Undecodable(Arc<str>),
    /// No handler has the kind.
    UnknownKind,
    /// The process has ended too often while it was handled.
    Crashed,
    /// It is too late to hand it out.
    Expired,
    /// It is too late for this run of its calendar: the next one.
    LeftOut(Option<StoreTime>),
}

/// What the writer needs to know of a delivery that is done: its handler said `Ok`, and it has no
/// next run.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) of: Settled,
    /// How late it was handed over.
    pub(crate) lateness_ns: u64,
    /// The record that is to be kept of it.
    pub(crate) record: Option<Box<DoneTimer>>,
}

/// What the writer needs to know of a delivery that has ended otherwise.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) of: Settled,
    pub(crate) kind: Arc<str>,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) calendar: Option<Arc<str>>,
    /// When it is not handed out any more.
    pub(crate) expires: Option<StoreTime>,
    pub(crate) made_up: u32,
    pub(crate) verdict: Verdict,
    /// How late it was handed over. `None`: to no handler.
    pub(crate) lateness_ns: Option<u64>,
    /// The record that is to be kept of it, if it is done.
    pub(crate) record: Option<Box<DoneTimer>>,
}

impl Delivery {
    /// The row as it was handed out.
    pub(crate) const fn settled(&self) -> Settled {
        Settled {
            id: self.row.id,
            due: self.row.due,
            epoch: self.fence,
        }
    }
}

impl Verdict {
    /// Bytes of what it says.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Failed(why) | Self::GivenUp(why) | Self::Undecodable(why) => why.len(),
            _ => 0,
        }
    }
}

impl Settlement {
    /// What a delivery comes to.
    pub(crate) fn new(delivery: &Delivery, verdict: Verdict, lateness_ns: Option<u64>) -> Self {
        let row = &delivery.row;
        Self {
            of: delivery.settled(),
            kind: row.kind.clone(),
            attempts: row.attempts,
            crashes: row.crashes,
            calendar: row.calendar.clone(),
            expires: row.expires(),
            made_up: delivery.made_up,
            verdict,
            lateness_ns,
            record: None,
        }
    }
}
