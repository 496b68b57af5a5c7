//! Window: the rows that are due within the next minutes, as timers of a service.
//!
//! The writer owns it. It knows of each row that is loaded its timer. Whether the row was handed
//! out is decided by the cell of that timer: whoever ends the timer has the row.
//!
//! # Ground rules
//!  - Each row of the store at or before the position `loaded` of its partition is here, from the
//!    commit that put it there to the one that deletes it or moves it beyond `loaded`. Rows after
//!    `loaded` are not here, except those that are being handled. Suspects may be missing while too
//!    many of them wait: their range is kept, and read again.
//!  - A timer that `let_go` has ended is armed anew if the row stays.

use super::suspects::Suspects;
use crate::handler::delivery::Delivery;
use crate::queue::fired::Fired;
use crate::queue::link::DurableShared;
use crate::store::contract::Gate;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, Partition, Position, StoreTime};
use crate::store::write::{Settled, SliceLimit};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wheelwork::ServiceHandle;
use wheelwork::TimerId;

/// How much a window may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Rows that are due within this time are loaded.
    pub(crate) ahead: Duration,
    /// The most rows.
    pub(crate) rows: usize,
    /// The most bytes of payloads, keys, kinds, calendars and traces.
    pub(crate) bytes: usize,
    /// What a turn takes at once of what is there: rows that are loaded, and changes of calls for
    /// many timers; the bytes of a commit.
    pub(crate) slice: SliceLimit,
}

/// A row that is loaded, or being handled.
struct Loaded {
    /// `None`: a suspect that waits.
    timer: Option<TimerId>,
    position: Position,
    /// The epoch under which it was loaded.
    fence: u64,
    bytes: usize,
    /// Somebody wanted to end the row, and its timer had fired.
    was_wanted: bool,
}

/// A number of rows, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    rows: usize,
    bytes: usize,
}

impl Amount {
    fn and(self, rows: usize, bytes: usize) -> Self {
        Self {
            rows: self.rows + rows,
            bytes: self.bytes + bytes,
        }
    }

    fn is_within(self, most: Self) -> bool {
        self.rows <= most.rows && self.bytes <= most.bytes
    }
}

/// The rows that are loaded.
pub(super) struct Window {
    service: ServiceHandle<Fired>,
    shared: Arc<DurableShared>,
    bounds: Bounds,
    entries: IdMap<DurableId, Loaded>,
    bytes: usize,
    /// How many entries with timers are due in each second of 1,024 ms, and their bytes.
    seconds: BTreeMap<u64, Amount>,
    /// How many entries are of each partition.
    counts: Vec<usize>,
    /// Rows that are given back, a slice at a time.
    leaving: Vec<Position>,
    /// Rows that came since the last slice.
    came: usize,
    /// Bytes of the first row that was given back, while no row has left since.
    turned_away: usize,
    /// Rows that fire later than at their deadlines, when they come into the window.
    delays: IdMap<DurableId, Instant>,
    /// Rows that may have ended the process. Those that wait have no timer, and no bound applies to
    /// them but their own.
    pub(super) suspects: Suspects,
}

/// A debug build checks all counts of a window with up to this number of rows, at each turn.
const CHECKED_ROWS: usize = 256;

/// Rows of a slice that is given back, at least: a millisecond or two.
const SLICE: usize = 2_048;

/// The second of 1,024 ms in which a time is.
const fn second(time: StoreTime) -> u64 {
    time.as_millis() >> 10
}

/// When a second of 1,024 ms begins.
const fn begin(second: u64) -> StoreTime {
    StoreTime::from_millis(second << 10)
}

/// No timer is armed farther ahead. One that is due later is armed again then.
const AHEAD_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What the node's clocks showed at one time.
#[derive(Clone, Copy)]
pub(super) struct ClockReading {
    pub(super) system: SystemTime,
    pub(super) monotonic: Instant,
}

impl ClockReading {
    /// When a row is due, by the monotonic clock.
    fn deadline(self, due: StoreTime) -> Instant {
        let wait = due.system_time().duration_since(self.system);
        let wait = wait.unwrap_or_default().min(AHEAD_MAX);
        self.monotonic.checked_add(wait).unwrap_or(self.monotonic)
    }
}

impl Window {
    pub(super) fn new(
        service: ServiceHandle<Fired>,
        shared: Arc<DurableShared>,
        bounds: Bounds,
    ) -> Self {
        Self {
            service,
            shared,
            bounds,
            entries: IdMap::default(),
            bytes: 0,
            seconds: BTreeMap::new(),
            counts: Vec::new(),
            leaving: Vec::new(),
            came: 0,
            turned_away: 0,
            delays: IdMap::default(),
            suspects: Suspects::new(bounds.bytes / 4),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn service(&self) -> &ServiceHandle<Fired> {
        &self.service
    }

    /// Whether what is counted is what is here. (Of a large window it is not looked at.)
    pub(super) fn is_counted_right(&self) -> bool {
        if self.entries.len() > CHECKED_ROWS {
            return true;
        }
        let (mut bytes, mut seconds, mut waiting) = (0, BTreeMap::<_, Amount>::new(), 0);
        let mut counts = vec![0; self.counts.len()];
        for (id, entry) in &self.entries {
            counts[usize::from(id.partition())] += 1;
            if entry.timer.is_some() {
                bytes += entry.bytes;
                let due = seconds.entry(second(entry.position.due)).or_default();
                *due = due.and(1, entry.bytes);
            } else {
                waiting += 1;
            }
        }
        bytes == self.bytes
            && seconds == self.seconds
            && counts == self.counts
            && waiting == self.suspects.len()
            && self.suspects.is_counted_right()
    }

    /// How many rows have timers, or are being handled.
    fn timers(&self) -> usize {
        self.entries.len() - self.suspects.len()
    }

    /// How many more rows may be loaded. The window is filled anew when half of it is free.
    pub(super) fn room(&self) -> usize {
        // (If the next row does not fit into what is kept, it would come and be given back again.)
        let kept = self.bounds.bytes / 4 * 3;
        let is_next_too_large = self.turned_away > 0
            && self.timers() > 0
            && self.bytes.saturating_add(self.turned_away) > kept;
        let is_full = is_next_too_large
            || self.timers() > self.bounds.rows / 2
            || self.bytes > self.bounds.bytes / 2;
        if is_full {
            0
        } else {
            self.bounds.rows - self.timers()
        }
    }

    /// Whether the window exceeds a bound by more than a quarter, and gives no rows back yet. It
    /// has to, then.
    pub(super) fn is_too_full(&self) -> bool {
        if !self.leaving.is_empty() {
            return false;
        }
        let over = |is: usize, max: usize| is > max.saturating_add(max / 4);
        over(self.timers(), self.bounds.rows) || over(self.bytes, self.bounds.bytes)
    }

    /// Whether no more bytes should be loaded.
    pub(super) const fn is_too_large(&self) -> bool {
        self.bytes >= self.bounds.bytes
    }

    /// Ends the timer of a row, which leaves the window. If it has fired and waits for a call, it
    /// waits no more. `false`: it was handed out.
    pub(super) fn end(&mut self, id: DurableId) -> bool {
        let Some(entry) = self.entries.get(&id) else {
            return true;
        };
        let is_ended = is_broken(DurableFault::GateNotAsked)
            || entry.timer.is_none_or(|timer| self.service.cancel(timer))
            || self.shared.kinds.withdraw(id)
            || is_broken(DurableFault::GateUnheard);
        if is_ended {
            self.remove(id);
        }
        is_ended
    }

    /// Lets go of all rows that are not being handled.
    pub(super) fn empty(&mut self) {
        let ids: Vec<DurableId> = self.entries.keys().copied().collect();
        for id in ids {
            self.end(id);
        }
    }

    /// The same, and forgets which rows were to be read again or given back: all are read again.
    pub(super) fn forget(&mut self) {
        self.empty();
        self.leaving.clear();
        self.suspects.read_again(None);
    }

    /// Lets go of the rows of these partitions that are not being handled.
    pub(super) fn empty_partitions(&mut self, partitions: &[Partition]) {
        let partitions: BTreeSet<Partition> = partitions.iter().copied().collect();
        if !partitions.iter().any(|&partition| self.has_of(partition)) {
            return;
        }
        let ids = self.entries.keys().copied();
        let ids: Vec<DurableId> = ids
            .filter(|id| partitions.contains(&id.partition()))
            .collect();
        for id in ids {
            self.end(id);
        }
    }

    /// Whether rows of this partition are loaded, or being handled.
    pub(super) fn has_of(&self, partition: Partition) -> bool {
        self.counts
            .get(usize::from(partition))
            .is_some_and(|&count| count > 0)
    }

    /// How many entries are of this partition.
    fn count_of(&mut self, partition: Partition) -> &mut usize {
        let at = usize::from(partition);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }

    /// At or before the deadlines of all entries, if there are any.
    pub(super) fn oldest(&self) -> Option<StoreTime> {
        let (&second, _) = self.seconds.first_key_value()?;
        Some(begin(second))
    }

    /// The bytes of a row that is loaded, or being handled. Otherwise none.
    pub(super) fn bytes_of(&self, id: DurableId) -> usize {
        self.entries.get(&id).map_or(0, |entry| entry.bytes)
    }

    /// Whether this row is loaded, or being handled.
    pub(super) fn has(&self, id: DurableId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Whether this row has a timer here, for this deadline.
    pub(super) fn is_armed(&self, at: Position) -> bool {
        let entry = self.entries.get(&at.id);
        entry.is_some_and(|entry| entry.timer.is_some() && entry.position == at)
    }

    /// Whether the timer of this row has fired here: its handler has it, or it waits for one.
    pub(super) fn is_begun(&self, id: DurableId) -> bool {
        let timer = self.entries.get(&id).and_then(|entry| entry.timer);
        timer.is_some_and(|timer| !self.service.is_pending(timer))
    }

    /// Takes a row in, and arms its timer. If it is here already, it is armed anew.
    pub(super) fn insert(&mut self, delivery: Box<Delivery>, clocks: ClockReading) {
        let row = &delivery.row;
        let (id, position, fence, bytes) = (row.id, row.position(), delivery.fence, row.bytes());
        self.remove(id);
        // (Not a delay: the commit has taken some of it.)
        let mut deadline = clocks.deadline(row.due);
        if !self.delays.is_empty() {
            let until = self.delays.remove(&id);
            deadline = until.map_or(deadline, |until| until.max(deadline));
        }
        // A service that has stopped hands nothing out: the row stays stored.
        let Ok(timer) = self.service.schedule_at(deadline, Fired::Row(delivery)) else {
            return;
        };
        debug_assert!(!self.has(id), "a row has one entry");
        self.came += 1;
        self.bytes += bytes;
        let due = self.seconds.entry(second(position.due)).or_default();
        *due = due.and(1, bytes);
        *self.count_of(id.partition()) += 1;
        self.entries.insert(
            id,
            Loaded {
                timer: Some(timer),
                position,
                fence,
                bytes,
                was_wanted: false,
            },
        );
    }

    /// A row that comes into the window in this turn fires then, if its deadline is earlier.
    pub(super) fn delay(&mut self, id: DurableId, until: Instant) {
        self.delays.insert(id, until);
    }

    /// Rows that come into the window from now on fire at their deadlines.
    pub(super) fn end_delays(&mut self) {
        self.delays.clear();
    }

    /// Takes a suspect in, which waits. If it is here already, it begins to wait. `false`: too many
    /// wait, and it is read again later.
    pub(super) fn hold(&mut self, delivery: Delivery, now: Instant) -> bool {
        let row = &delivery.row;
        let (id, position, fence, bytes) = (row.id, row.position(), delivery.fence, row.bytes());
        self.remove(id);
        if !self.suspects.hold(delivery, now) {
            return false;
        }
        *self.count_of(id.partition()) += 1;
        let entry = Loaded {
            timer: None,
            position,
            fence,
            bytes,
            was_wanted: false,
        };
        self.entries.insert(id, entry);
        true
    }

    /// Arms the timer of a suspect that has waited. `noted`: in the store, with its group.
    pub(super) fn begin_trial(&mut self, delivery: Delivery, noted: bool, clocks: ClockReading) {
        let (of, crashes) = (delivery.settled(), delivery.row.crashes);
        self.insert(Box::new(delivery), clocks);
        let noted = noted.then(|| of.clone());
        self.suspects
            .begin_trial(of.id, crashes, noted, clocks.monotonic);
    }

    /// Forgets a row that was handled, or has come back. One that was loaded under another epoch
    /// since then stays. Returns whether somebody wanted to end it when its timer had fired.
    pub(super) fn remove_delivered(&mut self, of: &Settled, was_called: bool) -> bool {
        let is_same = self
            .entries
            .get(&of.id)
            .is_some_and(|entry| entry.fence == of.epoch);
        if is_same && was_called {
            self.suspects.end_trial(of.id, true);
        }
        is_same && self.remove(of.id)
    }

    /// Forgets a row that was handled, or is gone. Returns whether somebody wanted to end it when
    /// its timer had fired.
    pub(super) fn remove(&mut self, id: DurableId) -> bool {
        let Some(entry) = self.entries.remove(&id) else {
            return false;
        };
        self.turned_away = 0;
        *self.count_of(id.partition()) -= 1;
        if entry.timer.is_none() {
            self.suspects.let_go(entry.position, entry.bytes);
            return false;
        }
        self.suspects.end_trial(id, false);
        self.bytes -= entry.bytes;
        let second = second(entry.position.due);
        if let Some(due) = self.seconds.get_mut(&second) {
            due.rows -= 1;
            due.bytes -= entry.bytes;
            if due.rows == 0 {
                self.seconds.remove(&second);
            }
        }
        entry.was_wanted
    }

    /// The deadline of the oldest entry, or up to a second after it. `None`: that is not over yet.
    pub(super) fn oldest_overdue(&self, now: StoreTime) -> Option<StoreTime> {
        let first = self.seconds.first_key_value().map(|(&second, _)| second);
        let waiting = self.suspects.first_after(None).map(second);
        let first = first.into_iter().chain(waiting).min()?;
        Some(begin(first + 1)).filter(|&end| end < now)
    }

    /// At or before the deadlines of all entries that are due after `claimed`.
    pub(super) fn oldest_after(&self, claimed: StoreTime) -> Option<StoreTime> {
        let of_timers = self.seconds.range(second(claimed)..).next();
        let of_timers = of_timers.map(|(&second, _)| begin(second).max(claimed));
        let waiting = self.suspects.first_after(Some(claimed));
        of_timers.into_iter().chain(waiting).min()
    }

    /// Arms all timers anew: the system's clock was set.
    pub(super) fn refile(&self, clocks: ClockReading) {
        for entry in self.entries.values() {
            if let Some(timer) = entry.timer {
                let deadline = clocks.deadline(entry.position.due);
                self.service.reschedule_at(timer, deadline);
            }
        }
    }

    /// Decides to give back what is due last, until three quarters of the window are full. Returns
    /// the position up to which rows are still loaded. [`give_back`](Self::give_back) does it.
    pub(super) fn shrink(&mut self) -> Option<Position> {
        let most = Amount {
            rows: self.bounds.rows / 4 * 3,
            bytes: self.bounds.bytes / 4 * 3,
        };
        let entries = self.entries.values();
        let timers = entries.filter(|entry| entry.timer.is_some());
        let rows = timers.map(|entry| (entry.position, entry.bytes));
        first_rows(&self.seconds, rows, most, &mut self.leaving)
    }

    /// Gives rows back, a slice of those that are leaving; but not rows that are loaded again by
    /// now. Twice as many as came since the last slice, if that is more: else the window would grow
    /// while it gives rows back. Returns whether all are gone.
    pub(super) fn give_back(&mut self, is_loaded: impl Fn(Position) -> bool) -> bool {
        let slice = SLICE.max(2 * std::mem::take(&mut self.came));
        let from = self.leaving.len().saturating_sub(slice);
        let mut first = None;
        for position in self.leaving.split_off(from) {
            let entry = self.entries.get(&position.id);
            let here = entry.filter(|entry| entry.position == position);
            if let Some(bytes) = here.map(|entry| entry.bytes)
                && !is_loaded(position)
            {
                // (A row that is being handled stays.)
                self.end(position.id);
                first = first.or(Some(bytes));
            }
        }
        self.turned_away = first.unwrap_or(self.turned_away);
        self.leaving.is_empty()
    }
}

/// The last of the first rows that fit into `most`; the first row always fits. The others leave:
/// those that are due last come last. `seconds` counts the rows. It says in which second the bound
/// is reached, so only the rows of that one are put in order.
fn first_rows(
    seconds: &BTreeMap<u64, Amount>,
    rows: impl Iterator<Item = (Position, usize)>,
    most: Amount,
    leaving: &mut Vec<Position>,
) -> Option<Position> {
    let mut sum = Amount::default();
    let parted = seconds.iter().find(|(_, due)| {
        let with_it = sum.and(due.rows, due.bytes);
        let is_whole = with_it.is_within(most);
        if is_whole {
            sum = with_it;
        }
        !is_whole
    });
    let (parted, due) = parted.map_or((u64::MAX, Amount::default()), |(&parted, &due)| {
        (parted, due)
    });
    let (mut last, mut of_parted) = (None, Vec::with_capacity(due.rows));
    for (position, bytes) in rows {
        match second(position.due).cmp(&parted) {
            Ordering::Less => last = last.max(Some(position)),
            Ordering::Equal => of_parted.push((position, bytes)),
            Ordering::Greater => leaving.push(position),
        }
    }
    let room = most.rows - sum.rows;
    if sum.bytes + due.bytes > most.bytes || room == 0 {
        of_parted.sort_unstable();
    } else if room < of_parted.len() {
        // Those that stay, and those that leave: more order is not needed.
        of_parted.select_nth_unstable(room - 1);
    }
    let later = leaving.len();
    for (position, bytes) in of_parted {
        sum = sum.and(1, bytes);
        // The first one is kept, however large it is.
        if last.is_none() || sum.is_within(most) {
            last = last.max(Some(position));
        } else {
            leaving.push(position);
        }
    }
    leaving.rotate_left(later);
    last
}

impl Gate for Window {
    /// GateLetGo: the cell of the row's timer decides.
    fn let_go(&mut self, id: DurableId) -> bool {
        debug_assert!(
            self.shared.rights.is_none(),
            "a store that nodes share decides by itself who may end a row"
        );
        let is_ended = self.end(id);
        if !is_ended && let Some(entry) = self.entries.get_mut(&id) {
            entry.was_wanted = true;
        }
        is_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as the bounds allow, in the order of their positions; one at least.
    #[test]
    fn the_first_rows_stay() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let within_ms = *rng.choice(&[1, 1_500, 60_000]).unwrap();
            let large = *rng.choice(&[1, 50, 4_000]).unwrap();
            let rows: Vec<_> = (0..rng.usize(..60))
                .map(|number| {
                    let due = StoreTime::from_millis(5_000_000 + rng.u64(..within_ms));
                    let id = DurableId::from_bits(number as u128);
                    (Position { due, id }, rng.usize(..large))
                })
                .collect();
            let most = Amount {
                rows: rng.usize(..70),
                bytes: rng.usize(..large * 40),
            };
            let mut seconds = BTreeMap::<_, Amount>::new();
            for &(position, bytes) in &rows {
                let due = seconds.entry(second(position.due)).or_default();
                *due = due.and(1, bytes);
            }
            let mut leaving = Vec::new();
            let last = first_rows(&seconds, rows.iter().copied(), most, &mut leaving);
            leaving.sort_unstable();

            let mut sorted = rows;
            sorted.sort_unstable();
            let mut sum = Amount::default();
            let fit = sorted.iter().take_while(|(_, bytes)| {
                sum = sum.and(1, *bytes);
                sum.is_within(most)
            });
            let keep = fit.count().max(1).min(sorted.len());
            let positions: Vec<_> = sorted.iter().map(|(position, _)| *position).collect();
            assert_eq!(last, positions[..keep].last().copied());
            assert_eq!(leaving, positions[keep..]);
        }
    }
}
