#![doc = include_str!("README.md")]

mod cascade;
mod chunk;
mod levels;
mod marks;
mod parts;
mod place;
mod slot;
mod slot_set;
mod tombstones;

use crate::entry::Entry;
use chunk::{ChunkList, Form};
use levels::Levels;
use parts::WheelParts;
use place::Place;
use slot::{LARGE_SLOT, Slot};

pub(crate) use place::LEVELS;

/// The least and the greatest budget: how many entries one call of `advance`, `settle`, `tidy` or
/// `shrink` moves before it returns that there is more. The budget is the pace, within these
/// bounds. A call may go over it by a small slot.
const BUDGET: std::ops::RangeInclusive<u64> = 1024..=16_384;

/// A cascade begins early enough to move this many entries more than the slot has, because the
/// shard's thread may be late.
const SLACK: u64 = 32_768;

/// If there is memory for the tombstones of this many times as many cells as the wheel has entries,
/// `shrink` gives it back.
const SPARSE: u64 = 4;

/// Inserts pay for compactions: each allows this many moves. That is what it takes to drop a dead
/// entry of a slot of which half is dead. In the long run as many timers are armed as are
/// cancelled. So the number of dead entries does not grow while timers are armed.
const MOVES_EARNED: u64 = 2;

/// Moves that were earned before and not used are forgotten beyond this many budgets.
const BUDGETS_EARNED: u64 = 3;

/// If tombstones have come since the call before, a call of `advance` moves at most this many
/// entries for compactions, beside the moves that were earned. So slots wait in a storm of cancels.
/// The longer they wait, the fewer live entries have to be moved.
const STORM_MOVES: u64 = 2048;

/// If there are more dead entries than this, and more messages than this wait in lanes, a call of
/// `advance` before which tombstones came moves up to `MANY_MOVES` entries beside what inserts have
/// paid for. The dead entries and their tombstones take 20 MB then, and the messages take their
/// memory in the lanes as well.
const DEAD_MANY: u64 = 1 << 20;
const MANY_MOVES: u64 = 32_768;

/// This many entries that were filed at a time are a flood. In the next `FLOOD_CALLS` calls of
/// `advance`, compactions move `STORM_MOVES` entries each, unless a tombstone came before the call.
/// (In a flood threads pause when the shard is behind, so calls with few entries lie between those
/// with many.)
const FLOOD: u64 = 4096;
const FLOOD_CALLS: u32 = 8;

/// A hierarchical timing wheel of entries.
pub(crate) struct EntryWheel {
    levels: Levels,
    /// Entries whose deadline is now or earlier, oldest first.
    due: ChunkList,
    /// Whether some entries in `due` may have tombstones.
    due_has_dead: bool,
    parts: WheelParts,
    /// Entries that may be moved in a tick.
    pace: u64,
    budget: u64,
    /// No tombstone was recorded since `tidy` last looked at the slots.
    is_tidy: bool,
    /// `shrink` has compacted every slot with a hole.
    is_shrunk: bool,
    /// Tombstones that have come since the last `take_tombstones`.
    tombstones: u64,
    /// A tombstone has come since the last `advance`.
    is_storm: bool,
    /// Calls of `advance` that are left of a flood.
    flood_calls: u32,
    /// Messages that wait in lanes.
    waiting: u64,
    /// The holes at the first call of a flood since no slot waited for its compaction. If there are
    /// twice as many, floods and storms take turns: then inserts pay in floods too. 0: there was no
    /// such call.
    flood_holes: u64,
}

impl EntryWheel {
    /// An empty wheel at tick `now`. Large slots are cascaded ahead of time, `pace` entries a tick.
    /// `pace` is at least 1. `u64::MAX` means that they are cascaded in one go.
    pub(crate) fn new(now: u64, pace: u64) -> Self {
        let budget = if pace == u64::MAX {
            pace
        } else {
            pace.clamp(*BUDGET.start(), *BUDGET.end())
        };
        Self {
            levels: Levels::new(now),
            due: ChunkList::EMPTY,
            due_has_dead: false,
            parts: WheelParts::new(),
            pace,
            budget,
            is_tidy: true,
            is_shrunk: false,
            tombstones: 0,
            is_storm: false,
            flood_calls: 0,
            waiting: 0,
            flood_holes: 0,
        }
    }

    /// Accepts a message: inserts an entry, or records a tombstone. O(1): one append, or one store.
    /// A tombstone that makes a small slot mostly dead may compact the slot too.
    pub(crate) fn accept(&mut self, message: Entry) {
        if message.is_tombstone() {
            self.insert_tombstone(message);
        } else if !self.parts.tombstones.is_dead_on_arrival(message) {
            self.insert(message);
        }
    }

    /// Whether `accept` may have to wait for memory that `prefetch` can fetch in time.
    #[inline]
    pub(crate) fn prefetches(&self) -> bool {
        self.parts.tombstones.is_large()
    }

    /// Prefetches what `accept` needs for a message.
    #[inline]
    pub(crate) fn prefetch(&self, message: Entry) {
        self.parts.tombstones.prefetch(message);
    }

    /// Frees the pages of tombstones that were idle since the last call. `trim` gives their memory
    /// back to the system.
    pub(crate) fn sweep(&mut self) {
        self.parts.tombstones.sweep();
    }

    /// Whether an entry that has not come yet is dead. The caller drops a dead entry.
    #[inline]
    pub(crate) fn drop_dead(&mut self, entry: Entry) -> bool {
        self.parts.tombstones.is_dead_on_arrival(entry)
    }

    /// An estimate of the tombstones whose entries have not come yet. It is too low if holes were
    /// counted for which there is no entry, and too high while a large slot with dead entries is
    /// cascaded.
    #[inline]
    pub(crate) fn unmatched(&self) -> u64 {
        let parts = &self.parts;
        let known = parts.holes + parts.leaving;
        parts.tombstones.unmatched().saturating_sub(known)
    }

    /// Tombstones that have come since the last call.
    #[inline]
    pub(crate) fn take_tombstones(&mut self) -> u64 {
        std::mem::take(&mut self.tombstones)
    }

    /// Notes that this many entries have been filed: they pay for compactions, and may be a flood.
    #[inline]
    pub(crate) fn earn(&mut self, entries: u64) {
        let before = self.parts.earned;
        let kept = before.min(self.budget.saturating_mul(BUDGETS_EARNED));
        self.parts.earned = kept + MOVES_EARNED * entries;
        if entries >= FLOOD {
            self.flood_calls = FLOOD_CALLS;
        }
    }

    /// Notes how many messages wait in lanes.
    #[inline]
    pub(crate) fn note_waiting(&mut self, messages: u64) {
        self.waiting = messages;
    }

    // (`never`: `accept` ends in this call. So `accept` saves no registers, for an entry either.)
    #[inline(never)]
    fn insert_tombstone(&mut self, tombstone: Entry) {
        self.tombstones += 1;
        self.is_storm = true;
        // A tombstone that comes at its deadline or later is not needed, because the claim finds
        // that the timer is dead.
        if tombstone.deadline() > self.levels.now {
            self.parts.tombstones.insert(tombstone);
            self.levels
                .count_hole(tombstone.deadline(), &mut self.parts);
            self.is_tidy = false;
        }
    }

    /// Puts an entry into its slot, or into the due list.
    // (`never`: `accept` ends in this call, or does not come here. So it saves no registers.)
    #[inline(never)]
    fn insert(&mut self, entry: Entry) {
        if entry.deadline() > self.levels.now {
            self.levels.insert(entry, &mut self.parts);
        } else {
            self.parts.pool.push(&mut self.due, entry, Form::Wide);
        }
    }

    /// Moves time to `now` and gives `f` the entries that are due, in slices. Stops when about
    /// `limit` entries have been given, or the budget is used up.
    ///
    /// Returns whether there is more to do at `now`. Then time may not have reached `now` yet, and
    /// the next call goes on from there. Ticks are given in order. The entries of one tick are
    /// given in the order in which they came to level 0, unless a large slot was compacted.
    pub(crate) fn advance(&mut self, now: u64, limit: usize, mut f: impl FnMut(&[Entry])) -> bool {
        let budget_end = self.parts.budget_end(self.budget);
        let is_storm = std::mem::take(&mut self.is_storm);
        self.parts.renew_at_once();
        let mut given = 0;
        loop {
            while !self.due.is_empty() {
                if given >= limit {
                    if given == 0 {
                        // There is no room for due entries. Compactions go on meanwhile.
                        self.compact(budget_end);
                    }
                    return true;
                }
                given += self.give_block(&mut f);
            }
            let Some((place, slot)) = self.levels.first() else {
                break;
            };
            if self.levels.start(place) > now {
                break;
            }
            if self.parts.moved >= budget_end {
                return true;
            }
            if place.level > 0 && slot.has_steps_left() {
                self.levels.cascade(place, 0, budget_end, &mut self.parts);
            } else {
                self.enter(place);
            }
        }
        self.levels.now = self.levels.now.max(now);
        while let Some(place) = self
            .levels
            .first_large()
            .filter(|&place| self.cascade_begin(place) <= now)
        {
            if self.parts.moved >= budget_end {
                return true;
            }
            self.levels
                .cascade(place, LARGE_SLOT, budget_end, &mut self.parts);
        }
        let is_flood = self.flood_calls > 0;
        self.flood_calls = self.flood_calls.saturating_sub(1);
        if !self.puts_off() {
            self.flood_holes = 0;
            return false;
        }
        match (is_storm, is_flood) {
            (true, _) => self.compact_in_storm(),
            (false, true) => return self.compact_in_flood(),
            (false, false) => return self.compact(budget_end),
        }
        false
    }

    /// Compacts slots in a storm of cancels: as inserts have paid for, and a little more. If there
    /// are many dead entries, and as many inserts wait in lanes, which pay for nothing there, it is
    /// much more.
    #[cold]
    #[inline(never)]
    fn compact_in_storm(&mut self) {
        let dead = self.parts.holes + self.parts.leaving;
        let free = if dead.min(self.waiting) > DEAD_MANY {
            MANY_MOVES
        } else {
            STORM_MOVES
        };
        self.compact_as_paid(free);
    }

    /// Compacts slots in a flood: a little, so that slots wait, or as inserts have paid for if
    /// there are too many holes. Returns whether there is more to do at once.
    #[cold]
    #[inline(never)]
    fn compact_in_flood(&mut self) -> bool {
        if self.flood_holes == 0 {
            self.flood_holes = self.parts.holes;
        }
        if self.parts.holes > 2 * self.flood_holes {
            self.compact_as_paid(self.budget);
            return self.puts_off();
        }
        self.compact(self.parts.budget_end(STORM_MOVES));
        false
    }

    /// Whether slots wait for a compaction. If `advance` has said that there is no more to do, they
    /// wait for a call before which no tombstone comes.
    #[inline]
    pub(crate) fn puts_off(&self) -> bool {
        self.levels.first_to_be_compacted().is_some()
    }

    /// Compacts the slots that wait for a compaction. Returns whether the budget was used up before
    /// the end.
    fn compact(&mut self, budget_end: u64) -> bool {
        self.levels.compact_marked(budget_end, &mut self.parts);
        self.puts_off()
    }

    /// Compacts slots by the moves that inserts have paid for, and `free` moves more. What is left
    /// waits for the next call.
    #[cold]
    #[inline(never)]
    fn compact_as_paid(&mut self, free: u64) {
        let begin = self.parts.moved;
        self.compact(self.parts.budget_end(free + self.parts.earned));
        let spent = self.parts.moved - begin;
        self.parts.spend(spent.saturating_sub(free));
    }

    /// Gives `f` one block of due entries, without the dead ones. Returns the length of the block,
    /// dead entries included.
    // (`always`: its one caller is a loop, and the compiler makes better code of both together.)
    #[inline(always)]
    fn give_block(&mut self, f: &mut impl FnMut(&[Entry])) -> usize {
        let Some(mut block) = self.parts.pool.pop(&mut self.due) else {
            return 0;
        };
        let taken = block.len();
        if self.due_has_dead {
            self.parts.drop_dead(&mut block);
        }
        if !block.is_empty() {
            f(&block);
        }
        self.parts.pool.done(block);
        self.due_has_dead &= !self.due.is_empty();
        taken
    }

    /// Moves time to the start of a slot and empties it: to the due list, or to lower levels.
    fn enter(&mut self, place: Place) {
        let (mut slot, has_dead) = self.levels.enter(place, &mut self.parts);
        if let Some(ahead) = slot.ahead.take() {
            self.levels.adopt(*ahead, place.level);
        }
        if place.level == 0 {
            self.due_has_dead |= has_dead;
            self.parts.pool.append(&mut self.due, slot.entries);
            return;
        }
        while let Some(block) = self.parts.pop_cascaded(&mut slot.entries) {
            block.iter().for_each(|&entry| self.insert(entry));
            self.parts.pool.done(block);
        }
    }

    /// The tick at which the cascade of a large slot begins, or goes on.
    fn cascade_begin(&self, place: Place) -> u64 {
        let entries = u64::from(self.levels.slot(place).len()) + SLACK;
        self.levels
            .start(place)
            .saturating_sub(entries.div_ceil(self.pace))
            .max(self.levels.now)
    }

    /// The next tick at which `advance` has something to do. Not after the earliest deadline;
    /// `None` if the wheel is empty.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.levels.now);
        }
        let (place, slot) = self.levels.first()?;
        let event = if slot.is_large() {
            self.levels.start(place)
        } else {
            slot.earliest
        };
        let cascade = self
            .levels
            .first_large()
            .map(|place| self.cascade_begin(place));
        Some(cascade.map_or(event, |begin| begin.min(event)))
    }

    /// Compacts the slots that come first, until the first one has no holes. Returns whether the
    /// budget was used up before that. To be called before a long sleep, so that no dead entry ends
    /// it. Stops at a large slot: it has live entries, because otherwise it would be compacted as
    /// mostly dead.
    pub(crate) fn settle(&mut self) -> bool {
        let budget_end = self.parts.budget_end(self.budget);
        while let Some((place, slot)) = self.levels.first() {
            if slot.is_large() || slot.ahead.is_some() || slot.holes == 0 {
                return false;
            }
            if self.parts.moved >= budget_end {
                return true;
            }
            self.levels.compact(place, budget_end, &mut self.parts);
        }
        false
    }

    /// Compacts every slot of which more than an eighth is dead. Returns whether the budget was
    /// used up before the end. To be called in a long quiet, so that dead entries do not keep
    /// memory through it. Looks at the slots only if a tombstone has come since its last look.
    pub(crate) fn tidy(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_tidy, true) {
            self.levels.mark(Slot::is_partly_dead);
        }
        let is_more = self.compact(self.parts.budget_end(self.budget));
        if !self.parts.has_dead() {
            // Without this, a tombstone that named a wrong deadline might stay unmatched for ever.
            self.parts.tombstones.clear();
        }
        is_more
    }

    /// Gives the memory of tombstones back when a storm of cancels is over. That is when there is
    /// memory for the tombstones of at least four times as many cells as the wheel has entries. It
    /// then compacts every slot with a hole. The next call drops all tombstones if it finds no
    /// hole: the entries of those that are left have had time to come. Returns whether the budget
    /// was used up before the end. To be called from time to time.
    pub(crate) fn shrink(&mut self) -> bool {
        let tombstones = &mut self.parts.tombstones;
        let entries = self.due.len() as u64 + self.parts.levels.iter().sum::<u64>();
        if !tombstones.is_large() || tombstones.cells() / SPARSE < entries {
            self.is_shrunk = false;
            return false;
        }
        if self.is_shrunk && !self.parts.has_dead() {
            self.parts.tombstones.clear();
            self.is_shrunk = false;
            return false;
        }
        self.levels.mark(Slot::has_any_holes);
        let is_more = self.compact(self.parts.budget_end(self.budget));
        self.is_shrunk = !is_more;
        is_more
    }

    /// Whether the next `shrink` drops all tombstones, if nothing happens before.
    pub(crate) fn drops_tombstones(&self) -> bool {
        self.is_shrunk && !self.parts.has_dead()
    }

    /// Gives one slab of chunks and one of tombstones back to the system, if they are not needed.
    /// Returns whether there is another. Each takes a system call, which stops other threads for a
    /// moment. So this is not to be called in a burst.
    #[inline]
    pub(crate) fn trim(&mut self) -> bool {
        let is_more = self.parts.tombstones.trim();
        self.parts.pool.trim() || is_more
    }

    /// Slabs of chunks, 256 KiB each.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn slabs(&self) -> usize {
        self.parts.pool.slabs()
    }

    /// Entries in the wheel, live and dead.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> usize {
        self.due.len() as usize + self.levels.len()
    }

    /// Entries in each level, live and dead. An entry that was cascaded ahead of time counts at its
    /// new level.
    #[inline]
    pub(crate) fn levels(&self) -> &[u64; LEVELS] {
        &self.parts.levels
    }

    /// Due entries that `advance` has not given out.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.due.len() as u64
    }

    /// Holes of all slots: dead entries whose tombstones have come since their slots were last
    /// compacted.
    #[inline]
    pub(crate) fn holes(&self) -> u64 {
        self.parts.holes
    }

    /// Compactions that were begun.
    #[inline]
    pub(crate) fn compactions(&self) -> u64 {
        self.parts.compactions
    }

    /// Entries that cascades have moved.
    #[inline]
    pub(crate) fn cascaded(&self) -> u64 {
        self.parts.cascaded
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
