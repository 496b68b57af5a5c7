//! Records: those of runs that are done, held against what was acknowledged, and against their
//! time.

use super::{Ledger, Said};
use std::collections::BTreeMap;
use std::time::Duration;
use wheelwork_durable::contract::{DonePlace, Settled};
use wheelwork_durable::{DoneEnding, DoneTimer, StoreTime};

/// A record stays no longer than this beyond its time, while nothing is wrong.
pub const FORGOTTEN_WITHIN: Duration = Duration::from_secs(70);

/// What is known of the records.
#[derive(Default)]
pub struct Records {
    /// How long they are kept. `None`: there are none.
    pub keep: Option<Duration>,
    /// Those that there ever were, and whether each is there still.
    ever: BTreeMap<DonePlace, (DoneTimer, bool)>,
    /// How many were removed.
    pub forgotten: u64,
}

impl Records {
    /// How many there ever were.
    pub fn count(&self) -> u64 {
        self.ever.len() as u64
    }
}

impl Ledger {
    /// A run was acknowledged, with a record or without one.
    pub fn recorded(&mut self, of: &Settled, said: Option<Said>, kept: Option<&DoneTimer>) {
        let Some(kept) = kept else {
            let leaves_one = self.records.keep.is_some() && said == Some(Said::Done);
            return self.demand(!leaves_one, || format!("{} leaves no record", of.id));
        };
        let row = self.timers[&of.id].row.clone();
        let ending = match said {
            Some(_) => DoneEnding::Done,
            None => DoneEnding::LeftOut,
        };
        let is_right = self.records.keep.is_some()
            && (kept.id, kept.due, kept.ending) == (of.id, of.due, ending)
            && kept.kind == row.kind
            // (It may be charged with the present trial.)
            && (kept.crashes..=kept.crashes + 1).contains(&row.crashes)
            && kept.attempts == row.attempts + u32::from(said.is_some())
            && (row.superseded || kept.key == row.key)
            && kept.began.is_some() == said.is_some();
        self.demand(is_right, || format!("{kept:?} is the record of {row:?}"));
        let former = (self.records.ever).insert(kept.place(), (kept.clone(), true));
        // (A clock that was set back comes to the same run of a calendar again, and the run may end
        // in the same millisecond.)
        let is_new = former.is_none() || row.calendar.is_some();
        self.demand(is_new, || format!("{kept:?} is there twice"));
    }

    /// The store has these records, at this time by its clock.
    pub fn has_records(&mut self, found: &[DoneTimer], now: StoreTime) {
        let found: BTreeMap<_, _> = found.iter().map(|done| (done.place(), done)).collect();
        let mut wrongs = Vec::new();
        for (place, done) in &found {
            // (What was removed, and not synced, is there again after a crash.)
            match self.records.ever.get_mut(place) {
                Some((known, is_there)) if known == *done => *is_there = true,
                known => wrongs.push(format!("{done:?} is a record, and {known:?} was made")),
            }
        }
        let keep = self.records.keep.unwrap_or_default();
        for (place, (done, is_there)) in &mut self.records.ever {
            if *is_there && !found.contains_key(place) {
                *is_there = false;
                self.records.forgotten += 1;
                if done.ended.after(keep) >= now {
                    wrongs.push(format!("{done:?} is gone, and it is {now:?}"));
                }
            }
        }
        wrongs.into_iter().for_each(|wrong| self.wrong(wrong));
    }

    /// Nothing has been wrong for long: what is over is gone.
    pub fn records_are_over(&mut self, now: StoreTime) {
        let keep = self.records.keep.unwrap_or_default() + FORGOTTEN_WITHIN;
        let there = self.records.ever.values().filter(|(_, is_there)| *is_there);
        let mut left = there.filter(|(done, _)| done.ended.after(keep) < now);
        if let Some((done, _)) = left.next() {
            let what = format!("{done:?} is still there, and it is {now:?}");
            self.wrong(what);
        }
    }
}
