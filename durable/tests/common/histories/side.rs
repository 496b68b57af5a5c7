//! One of the stores of a history, and what it returns as all stores agree on it: by the order in
//! which ids were given.

use crate::stores::{Opened, Place, with};
use std::collections::BTreeMap;
use wheelwork_durable::contract::{Outcome, Position};
use wheelwork_durable::{DeadLetter, DoneTimer, DurableId, Row, StoreTime};

/// A store, and the ids that it gave, by their numbers in the history.
pub(super) struct Side {
    pub(super) place: Box<dyn Place>,
    pub(super) open: Option<Opened>,
    pub(super) ids: Vec<DurableId>,
    pub(super) numbers: BTreeMap<DurableId, usize>,
}

impl Side {
    pub(super) fn new(place: Box<dyn Place>) -> Self {
        Self {
            open: Some(Opened::new(&*place)),
            place,
            ids: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    pub(super) fn open(&mut self) -> &mut Opened {
        self.open.as_mut().unwrap()
    }

    pub(super) fn new_id(&mut self, key: Option<&str>, due: StoreTime) {
        let id = self.open().store.new_id(key, due);
        assert_eq!(id.first_due(), due);
        let former = self.numbers.insert(id, self.ids.len());
        assert_eq!(former, None, "{id:?} twice");
        self.ids.push(id);
    }

    pub(super) fn position(&self, place: After) -> Position {
        match place {
            None => Position::MIN,
            Some((due, None)) => Position::end_of(due),
            Some((due, Some(number))) => Position {
                due,
                id: self.id(number),
            },
        }
    }

    /// This store's id of a number.
    pub(super) fn id(&self, number: usize) -> DurableId {
        self.ids[number]
    }

    /// The number of an id, as an id that all stores agree on.
    pub(super) fn common_id(&self, id: DurableId) -> DurableId {
        DurableId::from_bits(self.numbers[&id] as u128)
    }

    pub(super) fn common(&self, row: Row) -> Row {
        with(&row, |row| row.id = self.common_id(row.id))
    }

    pub(super) fn common_outcome(&self, outcome: Outcome) -> Outcome {
        let id = |id: Option<DurableId>| id.map(|id| self.common_id(id));
        let row = |row: Option<Row>| row.map(|row| self.common(row));
        match outcome {
            Outcome::Armed(gone) => Outcome::Armed(id(gone)),
            Outcome::Replaced(is_made, gone) => Outcome::Replaced(is_made, id(gone)),
            Outcome::Amended(is_made, left) => Outcome::Amended(is_made, row(left)),
            Outcome::Cancelled(gone) => Outcome::Cancelled(id(gone)),
            Outcome::Moved(moved) => Outcome::Moved(row(moved)),
            Outcome::CancelledMany(gone, last) => {
                let mut gone: Vec<_> = gone.into_iter().map(|id| self.common_id(id)).collect();
                gone.sort_unstable();
                // (A slice of no rows ends where it began, which may be at no row.)
                let last = last.map(|last| match self.numbers.get(&last.id) {
                    Some(_) => Position {
                        id: self.common_id(last.id),
                        ..last
                    },
                    None => last,
                });
                Outcome::CancelledMany(gone, last)
            }
            Outcome::Settled(is_done, left) => Outcome::Settled(is_done, row(left)),
            Outcome::Revived(revived) => Outcome::Revived(row(revived)),
            other => other,
        }
    }
}

/// After which row a slice begins: none, the last one of a deadline, or the one of this number.
pub(super) type After = Option<(StoreTime, Option<usize>)>;

pub(super) fn common_records(side: &Side, records: Vec<DoneTimer>) -> Vec<DoneTimer> {
    let common = |mut done: DoneTimer| {
        done.id = side.common_id(done.id);
        done
    };
    records.into_iter().map(common).collect()
}

pub(super) fn common_letters(side: &Side, letters: Vec<DeadLetter>) -> Vec<DeadLetter> {
    letters
        .into_iter()
        .map(|letter| DeadLetter::new(side.common(letter.row), letter.cause, letter.since))
        .collect()
}
