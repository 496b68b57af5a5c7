//! Deferral: whether the messages of a lane wait there, and for how long.
//!
//! A shard has one `Deferral` for each lane. It counts messages and compares keys, but touches no
//! message. Keys rise with time, and the shard says which key is the present one.
//!
//! Messages should wait if most of them are recalled before they have to be taken. This cannot be
//! known beforehand, so the shard tries it: see `open` and `judge`.

/// At most this number of messages of a lane wait.
const WAITING_MAX: u64 = if cfg!(loom) { 4 } else { 1 << 21 };

/// If more than `SPARSE_MIN` messages wait, and more than one in `DEAD_PART` of them is dead, the
/// oldest quarter is taken. Among these are live messages that hold up the dead ones behind them.
const SPARSE_MIN: u64 = 4096;
const DEAD_PART: u64 = 3;

/// If more than `SCATTERED_MIN` messages wait, and more than one in `SCATTERED_PART` of them is
/// dead behind one that lives, the wait is in vain. Then the cancels come in random order, over
/// more messages than a processor's caches hold. To recall a message costs more than to file it.
const SCATTERED_MIN: u64 = 1 << 17;
const SCATTERED_PART: u64 = 16;

/// The shard judges a lane each time after it has passed over or taken this number of its messages.
const JUDGED: u64 = 1 << 16;

/// A message waits only if its key is at least this far ahead of the present.
const FAR_MIN: u64 = 4;

/// A lane that was opened in vain rests for this many times the patience. Each further time in a
/// row it rests for twice as long. The time is doubled at most `DOUBLINGS_MAX` times.
const REST: u64 = 16;
const DOUBLINGS_MAX: u32 = 6;

/// What a shard tells its lanes of the present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    /// The present key. Messages with this key or a lesser one are due.
    pub(crate) now: u64,
    /// How many messages the shard can take in until the present key is one greater.
    pub(crate) pace: u64,
    /// When no message has come to a deferred track for this long, all messages of the lane that
    /// wait are taken.
    pub(crate) patience: u64,
    /// How many messages of all lanes wait and are dead, as far as the shard knows.
    pub(crate) dead: u64,
}

/// What a drain has seen of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// How many messages were ever taken or passed, and how many were seen.
    pub(super) head: u64,
    pub(super) seen: u64,
    /// How many came for the first time.
    pub(super) came: u64,
    /// How many were passed over, because they were dead.
    pub(super) passed: u64,
    /// How many of those that wait are dead, as far as is known.
    pub(super) dead: u64,
    /// The passing has stopped at a message that lives.
    pub(super) is_held_up: bool,
    /// How many messages of all lanes waited after the last drain.
    pub(super) all: u64,
}

#[derive(Debug, Default)]
pub(super) struct Deferral {
    is_open: bool,
    /// Dead messages that were passed over or dropped, and live messages that were taken, since the
    /// last judgement.
    pub dead: u64,
    pub alive: u64,
    /// The number of a message, and when it was seen.
    mark: (u64, u64),
    /// The longest time for which messages have waited lately.
    wait: u64,
    last_came: u64,
    pub rests_until: u64,
    pub rests: u32,
    /// Messages of this key and later ones wait. `MAX`: none.
    pub(super) from: u64,
}

impl Deferral {
    pub(super) fn new() -> Self {
        Self {
            from: u64::MAX,
            ..Self::default()
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Lets messages wait from now on, unless that was in vain lately.
    pub(super) fn open(&mut self, seen: u64, present: Present) -> bool {
        if self.is_open || present.now < self.rests_until {
            return false;
        }
        *self = Self {
            is_open: true,
            mark: (seen, present.now),
            last_came: present.now,
            from: present.now + FAR_MIN,
            rests_until: self.rests_until,
            rests: self.rests,
            ..Self::default()
        };
        true
    }

    /// No message waits from now on.
    pub(super) fn close(&mut self) {
        (self.is_open, self.from) = (false, u64::MAX);
    }

    /// How far ahead of its key a message has to be taken if this number of messages wait.
    fn margin(waiting: u64, present: Present) -> u64 {
        waiting / present.pace + 1
    }

    /// Decides after a look at the lane. Returns a key and a number: all messages with keys up to
    /// this key have to be taken, and all messages before this number.
    pub(super) fn decide(&mut self, lane: Sight, present: Present) -> (u64, u64) {
        let now = present.now;
        if lane.came > 0 {
            self.last_came = now;
        } else if now.saturating_sub(self.last_came) >= present.patience {
            self.close();
        }
        self.dead += lane.passed;
        self.judge(present);
        let waiting = lane.seen - lane.head;
        let is_scattered = waiting > SCATTERED_MIN && lane.dead > waiting / SCATTERED_PART;
        if self.is_open && lane.is_held_up && is_scattered {
            self.rest(present);
        }
        if !self.is_open {
            return (u64::MAX, lane.seen);
        }
        let (number, since) = self.mark;
        let waits = now.saturating_sub(since);
        self.wait = self.wait.max(waits);
        if number <= lane.head {
            (self.wait, self.mark) = (waits, (lane.seen, now));
        }
        // The messages of all lanes may have to be taken at one time.
        let margin = Self::margin(waiting.max(lane.all), present);
        self.from = now + FAR_MIN + margin + 2 * self.wait;
        let mut end = lane.head.max(lane.seen.saturating_sub(WAITING_MAX));
        if waiting > SPARSE_MIN && lane.dead > waiting / DEAD_PART {
            // Some live messages hold up dead ones behind them.
            end = end.max(lane.head + waiting / 4);
        }
        (now.saturating_add(margin), end)
    }

    /// Notes how many of the messages that waited were taken dead, and how many alive.
    pub(super) fn note(&mut self, dead: u64, alive: u64) {
        (self.dead, self.alive) = (self.dead + dead, self.alive + alive);
    }

    /// Closes the lane if more messages were taken alive than dead: then the wait was in vain.
    fn judge(&mut self, present: Present) {
        if self.dead + self.alive < JUDGED {
            return;
        }
        if self.alive > self.dead && self.is_open {
            self.rest(present);
        } else if self.dead >= self.alive {
            self.rests = 0;
        }
        (self.dead, self.alive) = (0, 0);
    }

    /// Closes the lane, because the wait was in vain. It may be opened again after a rest.
    fn rest(&mut self, present: Present) {
        self.close();
        let rest = (present.patience * REST) << self.rests;
        self.rests_until = present.now.saturating_add(rest);
        self.rests = (self.rests + 1).min(DOUBLINGS_MAX);
    }
}
