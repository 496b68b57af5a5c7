//! Clock: what the database's clock shows, between two readings of it.
//!
//! A reading says: between the sending of a statement and its answer the database's clock showed
//! this. So two bounds for the offset to the node's monotonic clock are known. Readings are
//! intersected. Between them the bounds part, since the clocks run apart.
//!
//! # Ground rules
//!  - Either clock may be slewed from one moment to the next, by [`SLEW`]. From a claim on
//!    ([`due_soon`](DatabaseClock::due_soon)), until the time that it covers has passed, the lower
//!    bound allows for that. So nothing is handed out early. Meanwhile the listener's thread reads
//!    the clock each [`READ_EVERY`], so this costs no more than [`MARGIN`].
//!  - While nothing is claimed the lower bound only plans the next claim. Then both bounds allow
//!    for [`DRIFT`], and for a slew that the last readings have shown.
//!  - The clocks run apart while a reading is on its way, too.

use crate::store::contract::StoreClock;
use crate::store::row::StoreTime;
use crate::time::Clock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// How far two clocks run apart that nothing slews: 500 microseconds in a second.
const DRIFT: f64 = 500e-6;

/// How far they run apart while one is slewed: chrony's `maxslewrate` of 83,333 ppm, and a drift.
const SLEW: f64 = 84e-3;

/// In seconds since 1970: later than any time of a row.
const LATEST: f64 = 3e11;

/// While something is due soon the clock is read so often.
pub(super) const READ_EVERY: Duration = Duration::from_millis(10);

/// In seconds: a reading so old is good enough. [`READ_EVERY`], and the time that a reading takes.
const FRESH: f64 = 12e-3;

/// In seconds: the lower bound is so far below the last reading at least. With less, a timer that
/// is armed by a fresh reading would be found not to be due yet by an older one.
const MARGIN: f64 = SLEW * FRESH;

/// In seconds: slews are measured between readings that are so far apart.
const BASELINE: f64 = 1.0;

/// One statement, one answer.
const READ: &str = "SELECT extract(epoch FROM now())";

/// The database's clock, for any thread.
pub(super) struct DatabaseClock {
    ticking: Clock,
    known: Mutex<Readings>,
    /// The thread that reads has something to do.
    wanted: Notify,
}

struct Readings {
    bounds: ClockBounds,
    /// What is due by then may be handed out, in seconds since the Unix epoch.
    soon_until: f64,
}

/// Bounds for the database's time less the node's, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offset {
    /// When they held, by the node's clock.
    at: f64,
    low: f64,
    high: f64,
}

impl Offset {
    /// The bounds at a later time, whatever is slewed.
    fn surely(self, at: f64) -> Self {
        let apart = (at - self.at).max(0.0) * SLEW;
        Self {
            at: self.at.max(at),
            low: self.low - apart,
            high: self.high + apart,
        }
    }
}

/// What readings have shown, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClockBounds {
    last: Offset,
    /// A reading of a second before, or more.
    base: Offset,
    /// How fast the offset falls at most, and rises, as far as readings have shown.
    fall: f64,
    rise: f64,
}

impl ClockBounds {
    pub(super) const UNKNOWN: Self = {
        let unknown = Offset {
            at: 0.0,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
        Self {
            last: unknown,
            base: unknown,
            fall: DRIFT,
            rise: DRIFT,
        }
    };

    /// With a reading `time` that was sent at `sent` and answered at `answered`.
    pub(super) fn with(self, sent: f64, answered: f64, time: f64) -> Self {
        let at = self.last.at.max(answered);
        let known = self.last.surely(at);
        // (The clocks run apart on the way, too.)
        let read = Offset {
            at: sent,
            low: time - answered,
            high: time - sent,
        }
        .surely(at);
        let both = Offset {
            at,
            low: known.low.max(read.low),
            high: known.high.min(read.high),
        };
        if both.low > both.high {
            // The database's clock was set, or it is another database.
            return Self {
                last: read,
                base: read,
                ..Self::UNKNOWN
            };
        }
        let mut bounds = Self { last: both, ..self };
        if !self.base.low.is_finite() {
            bounds.base = both;
        } else if at - self.base.at >= BASELINE {
            bounds.measure();
        }
        bounds
    }

    /// Notes how fast the offset has changed since the base, if it did.
    fn measure(&mut self) {
        let passed = self.last.at - self.base.at;
        let slowest = (self.last.low - self.base.high) / passed;
        let fastest = (self.last.high - self.base.low) / passed;
        let is_falling = fastest < -DRIFT;
        let is_rising = slowest > DRIFT;
        self.fall = if is_falling { DRIFT - slowest } else { DRIFT };
        self.rise = if is_rising { DRIFT + fastest } else { DRIFT };
        self.base = self.last;
    }

    /// The database's time is this or more, if nothing has begun to be slewed since the last
    /// reading.
    fn likely(&self, at: f64) -> f64 {
        let age = (at - self.last.at).max(0.0);
        at + self.last.low - MARGIN - self.fall * age
    }

    /// It is this or more.
    fn surely(&self, at: f64) -> f64 {
        let age = (at - self.last.at).max(FRESH);
        at + self.last.low - SLEW * age
    }

    /// It is this or more, while what is due by `soon_until` may be handed out.
    pub(super) fn at_least(&self, at: f64, soon_until: f64) -> f64 {
        let (likely, surely) = (self.likely(at), self.surely(at));
        if surely >= soon_until {
            likely
        } else {
            surely.min(likely)
        }
    }

    /// It is this or less, if nothing has begun to be slewed since the last reading.
    pub(super) fn at_most(&self, at: f64) -> f64 {
        let age = (at - self.last.at).max(0.0);
        at + self.last.high + self.rise * age
    }

    /// Whether a claim has not passed surely, at this time.
    fn is_soon(&self, at: f64, soon_until: f64) -> bool {
        self.surely(at) < soon_until
    }
}

impl DatabaseClock {
    pub(super) fn new() -> Self {
        Self {
            ticking: Clock::boot().unwrap_or_else(Clock::monotonic),
            known: Mutex::new(Readings {
                bounds: ClockBounds::UNKNOWN,
                soon_until: 0.0,
            }),
            wanted: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Readings> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the node's clock shows, in seconds.
    pub(super) fn elapsed(&self) -> f64 {
        self.ticking.now_ns() as f64 / 1e9
    }

    /// Notes a reading, in seconds since the Unix epoch.
    pub(super) fn read(&self, sent: f64, answered: f64, time: f64) {
        let mut known = self.known();
        known.bounds = known.bounds.with(sent, answered, time);
    }

    /// Reads it.
    pub(super) async fn read_by(&self, client: &Client) -> Result<(), Error> {
        let sent = self.elapsed();
        let answer = client.simple_query(READ).await?;
        let answered = self.elapsed();
        let time = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        if let Some(time) = time {
            self.read(sent, answered, time);
        }
        Ok(())
    }

    /// What is due by then may be handed out soon. Returns whether the last reading is too old.
    pub(super) fn due_soon(&self, until: StoreTime) -> bool {
        let now = self.elapsed();
        let mut known = self.known();
        let was_soon = known.bounds.is_soon(now, known.soon_until);
        known.soon_until = known.soon_until.max(until.as_millis() as f64 / 1e3);
        let is_old = now - known.bounds.last.at > FRESH;
        drop(known);
        if !was_soon {
            self.wanted.notify_one();
        }
        is_old
    }

    /// When to read it next, while something is due soon. `None`: nothing is.
    pub(super) fn read_in(&self) -> Option<Duration> {
        let now = self.elapsed();
        let known = self.known();
        let age = now - known.bounds.last.at;
        let wait = READ_EVERY.as_secs_f64() - age;
        let is_soon = known.bounds.is_soon(now, known.soon_until);
        is_soon.then(|| Duration::try_from_secs_f64(wait).unwrap_or_default())
    }

    /// Waits until something is due soon.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

/// Seconds since 1970. What is before that is 1970; of what is beyond all times it is a late one.
fn system_time(seconds: f64) -> SystemTime {
    let known = Duration::try_from_secs_f64(seconds.clamp(0.0, LATEST));
    SystemTime::UNIX_EPOCH + known.unwrap_or_default()
}

impl StoreClock for DatabaseClock {
    fn at_least(&self) -> SystemTime {
        let now = self.elapsed();
        let known = self.known();
        system_time(known.bounds.at_least(now, known.soon_until))
    }

    fn at_most(&self) -> SystemTime {
        let now = self.elapsed();
        system_time(self.known().bounds.at_most(now))
    }
}
