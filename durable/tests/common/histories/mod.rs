//! Random histories of two stores: what one does, the other one does.
//!
//! A history is written to both stores call by call, as a writer makes its calls, with crashes and
//! restarts between. Ids are those of each store; they are compared by the order in which they were
//! given (`side.rs`).

mod side;

use self::side::{After, Side, common_letters, common_records};
use super::stores::{HandedOut, Opened, Place, at, with, with_parts};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::num::NonZeroU32;
use wheelwork_durable::contract::{
    Amendment, DonePlace, DoneRange, HeldWhy, KindSlice, Outcome, Replacement, RuleChange, Settled,
    SliceLimit, Target, Write,
};
use wheelwork_durable::{Cause, DoneTimer, DurableId, Rate, Row, RuleFor, StoreTime};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const KINDS: [&str; 3] = ["order", "order.unpaid", "mail"];
/// Few deadlines: many rows have the same one.
const DUES: u64 = 40;

/// A target or a write, with numbers in place of ids.
#[derive(Clone, Debug)]
enum Name {
    Number(usize),
    Key(&'static str),
}

#[derive(Clone, Copy, Debug)]
struct Delivery {
    number: usize,
    due: StoreTime,
    /// How much the epoch is off.
    epochs_off: u64,
}

#[derive(Clone, Debug)]
enum Change {
    /// A row with this number; all but its id is said here.
    Arm(usize, Row),
    /// The same, if its key has the row of this number, or none.
    Replace(usize, Row, Option<usize>),
    /// What the row has then, and its deadline.
    Amend(Delivery, Row, StoreTime),
    Cancel(Name),
    Move(Name, StoreTime),
    CancelKind(&'static str, After, SliceLimit),
    Begin(Delivery, u32),
    Ack(Delivery, Option<StoreTime>),
    /// With a record, which says when it has ended.
    AckKept(Delivery, Option<StoreTime>, StoreTime),
    Retry(Delivery, StoreTime, u32),
    Hold(Delivery, HeldWhy),
    Bury(Delivery, Cause, u32, Option<(StoreTime, usize)>),
    Revive(usize, StoreTime),
    Discard(usize),
    Rule(RuleFor, RuleChange),
}

impl Change {
    fn of(&self, side: &Side) -> Write {
        let epoch = side.open.as_ref().unwrap().epoch;
        let target = |name: &Name| match *name {
            Name::Number(number) => Target::Id(side.id(number)),
            Name::Key(key) => Target::Key(key.into()),
        };
        let settled = |delivery: &Delivery| Settled {
            id: side.id(delivery.number),
            due: delivery.due,
            epoch: epoch - delivery.epochs_off.min(epoch),
        };
        match self {
            Self::Arm(number, row) => Write::Arm(with(row, |row| {
                row.id = side.id(*number);
            })),
            Self::Replace(number, row, former) => Write::Replace(Box::new(Replacement {
                row: with(row, |row| {
                    row.id = side.id(*number);
                }),
                former: former.map(|number| side.id(number)),
            })),
            Self::Amend(of, row, due) => Write::Amend(Box::new(Amendment {
                id: side.id(of.number),
                calendar: row.calendar.clone().unwrap_or_default(),
                payload: row.payload.clone(),
                trace: row.traceparent().map(Into::into),
                former_due: of.due,
                due: *due,
            })),
            Self::Cancel(name) => Write::Cancel(target(name)),
            Self::Move(name, due) => Write::Move(target(name), *due),
            Self::CancelKind(kind, after, limit) => Write::CancelKind(KindSlice {
                kind: (*kind).into(),
                after: side.position(*after),
                limit: *limit,
            }),
            Self::Begin(delivery, crashes) => Write::Begin {
                of: settled(delivery),
                crashes: *crashes,
            },
            Self::Ack(delivery, next) => Write::Ack {
                of: settled(delivery),
                next: *next,
            },
            Self::AckKept(delivery, next, ended) => {
                let of = settled(delivery);
                let mut kept = DoneTimer::new(of.id, of.due, "kind".into(), *ended);
                kept.key = next.map(|next| format!("until {next:?}").into());
                Write::AckKept {
                    of,
                    next: *next,
                    kept: Box::new(kept),
                }
            }
            Self::Retry(delivery, at, attempts) => Write::Retry {
                of: settled(delivery),
                at: *at,
                attempts: *attempts,
                crashes: *attempts / 2,
            },
            Self::Hold(delivery, why) => Write::Hold {
                of: settled(delivery),
                why: *why,
                since: at(6),
            },
            Self::Bury(delivery, cause, attempts, next) => Write::Bury {
                of: settled(delivery),
                cause: cause.clone(),
                since: at(5),
                attempts: *attempts,
                crashes: *attempts / 2,
                next: next.map(|(due, copy)| (due, side.id(copy))),
            },
            Self::Revive(number, due) => Write::Revive(side.id(*number), *due),
            Self::Discard(number) => Write::Discard(side.id(*number)),
            Self::Rule(of, change) => Write::Rule(of.clone(), *change),
        }
    }
}

struct History {
    rng: Rng,
    sides: [Side; 2],
    /// Rows that are armed or loaded under this epoch.
    known: BTreeSet<usize>,
    /// Rows that are handed out, with their deadlines.
    in_flight: BTreeMap<usize, StoreTime>,
    story: String,
}

/// Writes one history to two stores. `Err`: where they differ, and how it came to that.
pub fn hold_against(
    seed: u64,
    first: Box<dyn Place>,
    second: Box<dyn Place>,
) -> Result<(), String> {
    let mut history = History {
        rng: Rng::with_seed(seed),
        sides: [Side::new(first), Side::new(second)],
        known: BTreeSet::new(),
        in_flight: BTreeMap::new(),
        story: String::new(),
    };
    let outcome = (0..200)
        .try_for_each(|_| history.step())
        .and_then(|()| history.reopen(false))
        .and_then(|()| history.look_at_all());
    let story = history.story;
    outcome.map_err(|why| format!("{story}{why}\nseed {seed}"))
}

impl History {
    /// Does something with both stores, and compares what they say.
    fn both<T: Debug + PartialEq>(
        &mut self,
        what: impl Debug,
        call: impl Fn(&mut Side) -> T,
    ) -> Result<T, String> {
        writeln!(self.story, "{what:?}").unwrap();
        let [first, second] = self.sides.each_mut().map(call);
        if first == second {
            Ok(first)
        } else {
            let [first, second] = [first, second].map(|said| format!("{said:?}"));
            let mut letters = first.bytes().zip(second.bytes());
            let at = letters.position(|(first, second)| first != second);
            let from = at.unwrap_or_default().saturating_sub(400);
            let [first, second] = [first, second].map(|said| {
                let bytes = said.as_bytes().iter().skip(from).take(1_000);
                String::from_utf8_lossy(&bytes.copied().collect::<Vec<_>>()).into_owned()
            });
            Err(format!("first:  .. {first}\nsecond: .. {second}"))
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.u8(..100) {
            0..60 => self.commit(),
            60..75 => self.load(),
            75..87 => self.hand_out(),
            87..91 => self.look(),
            91..94 => {
                for side in &mut self.sides {
                    side.open().store.upkeep().unwrap();
                }
                Ok(())
            }
            94..96 => self.reopen(false),
            96..98 => self.open_again(),
            _ => self.reopen(true),
        }
    }

    fn due(&mut self) -> StoreTime {
        at(self.rng.u64(..DUES))
    }

    fn new_number(&mut self, key: Option<&str>, due: StoreTime) -> usize {
        for side in &mut self.sides {
            side.new_id(key, due);
        }
        self.sides[0].ids.len() - 1
    }

    /// A number that was given, the later the likelier.
    fn number(&mut self) -> Option<usize> {
        let count = self.sides[0].ids.len();
        let back = self.rng.usize(..30).min(self.rng.usize(..30));
        count.checked_sub(back + 1)
    }

    fn name(&mut self) -> Option<Name> {
        if self.rng.u8(..3) == 0 {
            return self.rng.choice(KEYS).map(Name::Key);
        }
        self.number().map(Name::Number)
    }

    /// A delivery: mostly one that is in flight. Rarely it is one of another epoch, or of another
    /// deadline.
    fn delivery(&mut self) -> Option<Delivery> {
        let in_flight = self
            .rng
            .choice(&self.in_flight)
            .map(|(&number, &due)| (number, due));
        let (number, mut due) = match in_flight {
            Some(delivery) if self.rng.u8(..10) > 0 => delivery,
            _ => (self.number()?, self.due()),
        };
        let epochs_off = u64::from(self.rng.u8(..20) == 0);
        if self.rng.u8(..20) == 0 {
            due = self.due();
        }
        Some(Delivery {
            number,
            due,
            epochs_off,
        })
    }

    fn arm(&mut self) -> Change {
        let key = (self.rng.u8(..3) == 0).then(|| self.rng.choice(KEYS).unwrap());
        let (number, row) = self.new_row(key);
        Change::Arm(number, row)
    }

    /// Mostly in place of the row that has the key.
    fn replace(&mut self) -> Option<Change> {
        let key = self.rng.choice(KEYS).unwrap();
        let side = &mut self.sides[0];
        let holder = side.open().store.get(&Target::Key(key.into())).unwrap();
        let mut former = holder.map(|row| side.numbers[&row.id]);
        if self.rng.u8(..6) == 0 {
            former = self.number().filter(|number| number % 2 == 0);
        }
        let has_key = self.rng.u8(..12) > 0;
        let (number, row) = self.new_row(Some(key).filter(|_| has_key));
        Some(Change::Replace(number, row, former))
    }

    /// Mostly a row that has a key, half of the time without another deadline.
    fn amend(&mut self) -> Option<Change> {
        let number = self.number()?;
        let target = match self.rng.u8(..4) {
            0 => Target::Id(self.sides[0].id(number)),
            _ => Target::Key(self.rng.choice(KEYS).unwrap().into()),
        };
        let side = &mut self.sides[0];
        let row = side.open().store.get(&target).unwrap()?;
        let mut of = Delivery {
            number: side.numbers[&row.id],
            due: row.shown().due,
            epochs_off: 0,
        };
        if self.rng.u8(..6) == 0 {
            of.due = self.due();
        }
        let due = if self.rng.bool() { of.due } else { self.due() };
        let (_, row) = self.new_row(None);
        Some(Change::Amend(of, row, due))
    }

    fn new_row(&mut self, key: Option<&'static str>) -> (usize, Row) {
        let due = self.due();
        let number = self.new_number(key, due);
        let kind = self.rng.choice(KINDS).unwrap();
        let length = [0, 1, 16, 64, 5_000][self.rng.usize(..5)];
        let payload = (0..length).map(|_| self.rng.u8(..)).collect();
        let mut row = Row::new(DurableId::from_bits(0), due, kind.into(), payload);
        row.key = key.map(Into::into);
        (row.attempts, row.crashes) = (self.rng.u32(..4) / 2, self.rng.u32(..4) / 2);
        row.calendar = (self.rng.u8(..4) == 0).then(|| "* * * * *".into());
        if self.rng.u8(..4) == 0 {
            row = with_parts(&row, self.rng.u8(..8));
        }
        (number, row)
    }

    fn change(&mut self) -> Option<Change> {
        let due = self.due();
        Some(match self.rng.u8(..104) {
            0..40 => self.arm(),
            40..43 => self.replace()?,
            43..45 => self.amend()?,

            45..60 => Change::Cancel(self.name()?),
            60..68 => Change::Move(self.name()?, due),
            68..69 => {
                let limit = self.limit();
                Change::CancelKind(self.rng.choice(KINDS).unwrap(), self.after(), limit)
            }
            69..80 => {
                let next = (self.rng.u8(..4) == 0).then_some(due);
                match self.rng.bool() {
                    true => Change::Ack(self.delivery()?, next),
                    false => Change::AckKept(self.delivery()?, next, at(self.rng.u64(..DUES))),
                }
            }
            80..83 => Change::Begin(self.delivery()?, self.rng.u32(..4)),
            83..86 => Change::Retry(self.delivery()?, due, self.rng.u32(..9)),
            86..89 => {
                let why = [HeldWhy::Unhandled, HeldWhy::Paused];
                let why = self.rng.choice(why).unwrap();
                let mut delivery = self.delivery()?;
                // Often one that is held.
                let row = self.sides[0].id(delivery.number);
                let row = self.sides[0].open().store.get(&Target::Id(row)).unwrap();
                if let Some(row) = row.filter(|row| row.held().is_some()) {
                    delivery.due = row.due;
                }
                Change::Hold(delivery, why)
            }
            89..94 => {
                let causes = [
                    Cause::UnknownKind,
                    Cause::Undecodable("why".into()),
                    Cause::Failed("so".into()),
                    Cause::Crashed,
                    Cause::GivenUp("no".into()),
                    Cause::Expired,
                ];
                let cause = self.rng.choice(causes).unwrap();
                let next = (self.rng.bool()).then(|| (due, self.new_number(None, due)));
                Change::Bury(self.delivery()?, cause, self.rng.u32(..9), next)
            }
            94..98 => Change::Revive(self.number()?, due),
            100.. => Change::Rule(self.rule_for(), self.rule_change(due)),
            _ => Change::Discard(self.number()?),
        })
    }

    fn rule_for(&mut self) -> RuleFor {
        let text = self.rng.choice(["order", "a", "clé", ""]).unwrap().into();
        match self.rng.bool() {
            true => RuleFor::Kind(text),
            false => RuleFor::Keys(text),
        }
    }

    fn rule_change(&mut self, now: StoreTime) -> RuleChange {
        let is_some = self.rng.bool();
        let count = NonZeroU32::new(self.rng.u32(1..4)).unwrap();
        match self.rng.u8(..6) {
            0..2 => RuleChange::Pause(now),
            2..4 => RuleChange::Resume,
            4 => RuleChange::Rate(Rate::new(0.1, count).filter(|_| is_some)),
            _ => RuleChange::Calls(Some(count).filter(|_| is_some)),
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        let count = self.rng.usize(1..=8);
        let changes: Vec<_> = (0..count).filter_map(|_| self.change()).collect();
        let held: Vec<_> = self.in_flight.keys().copied().collect();
        let (outcomes, _asked) = self.both(("commit", &changes, &held), |side| {
            let writes = changes.iter().map(|change| change.of(side)).collect();
            let mut gate = HandedOut {
                rows: held.iter().map(|&number| side.id(number)).collect(),
                ..HandedOut::default()
            };
            let outcomes = side.open().store.commit(writes, &mut gate).unwrap();
            let outcomes: Vec<_> = outcomes
                .into_iter()
                .map(|outcome| side.common_outcome(outcome))
                .collect();
            let asked: BTreeSet<_> = gate.asked.iter().map(|&id| side.common_id(id)).collect();
            (outcomes, asked)
        })?;
        assert_eq!(outcomes.len(), changes.len());
        for (change, outcome) in changes.iter().zip(outcomes) {
            match (change, outcome) {
                (Change::Arm(number, _), _)
                | (Change::Replace(number, ..), Outcome::Replaced(true, _)) => {
                    self.known.insert(*number);
                }

                (Change::Revive(number, _), Outcome::Revived(Some(_))) => {
                    self.known.insert(*number);
                }
                (
                    Change::Ack(of, _)
                    | Change::AckKept(of, ..)
                    | Change::Retry(of, ..)
                    | Change::Hold(of, _)
                    | Change::Bury(of, ..),
                    Outcome::Settled(true, _),
                ) => _ = self.in_flight.remove(&of.number),
                _ => {}
            }
        }
        Ok(())
    }

    fn load_from(
        &mut self,
        after: After,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, String> {
        self.both(("load", after, until, limit), |side| {
            let after = side.position(after);
            let rows = side.open().store.load(0, after, until, limit).unwrap();
            rows.into_iter().map(|row| side.common(row)).collect()
        })
    }

    fn after(&mut self) -> After {
        let due = self.due();
        match self.rng.u8(..4) {
            0 | 1 => None,
            2 => Some((due, None)),
            _ => self.number().map(|number| (due, Some(number))),
        }
    }

    fn limit(&mut self) -> SliceLimit {
        let all = self.rng.u8(..4) == 0;
        let bytes = [usize::MAX, self.rng.usize(..200)][self.rng.usize(..2)];
        SliceLimit {
            rows: if all {
                usize::MAX
            } else {
                self.rng.usize(..12)
            },
            bytes,
        }
    }

    fn load(&mut self) -> Result<(), String> {
        let after = self.after();
        let until = if self.rng.bool() {
            StoreTime::MAX
        } else {
            self.due()
        };
        let limit = self.limit();
        let rows = self.load_from(after, until, limit)?;
        self.known.extend(rows.iter().map(number_of));
        Ok(())
    }

    fn hand_out(&mut self) -> Result<(), String> {
        let upto = at(self.rng.u64(..DUES).min(self.rng.u64(..DUES)));
        self.both(("hand out", upto), |side| {
            side.open().store.hand_out(upto).unwrap()
        })?;
        for &number in &self.known {
            let target = Target::Id(self.sides[0].id(number));
            let row = self.sides[0].open().store.get(&target).unwrap();
            let Some(row) = row.filter(|row| row.due <= upto && !row.superseded) else {
                continue;
            };
            if self.rng.u8(..3) > 0 {
                self.in_flight.entry(number).or_insert(row.due);
            }
        }
        writeln!(self.story, "in flight: {:?}", self.in_flight).unwrap();
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        if let Some(name) = self.name() {
            self.both(("get", &name), |side| {
                let target = match name {
                    Name::Number(number) => Target::Id(side.id(number)),
                    Name::Key(key) => Target::Key(key.into()),
                };
                let row = side.open().store.get(&target).unwrap();
                row.map(|row| side.common(row))
            })?;
        }
        self.both("size", |side| {
            let size = side.open().store.size().unwrap();
            (size.rows, size.dead)
        })?;
        let (after, limit) = (self.number(), self.rng.usize(..5));
        // The order of dead letters is that of their ids, which begin with a deadline.
        self.both(("dead", after, limit), |side| {
            let after = after.map(|number| side.id(number));
            let letters = side
                .open()
                .store
                .dead(after, SliceLimit::rows(limit))
                .unwrap();
            common_letters(side, letters)
        })?;
        self.both("rules", |side| side.open().store.rules().unwrap())?;
        let (after, limit) = (at(self.rng.u64(..DUES)), self.rng.usize(..5));
        for newest_first in [false, true] {
            let range = DoneRange {
                above: DonePlace::begin_of(after),
                newest_first,
                ..DoneRange::ALL
            };
            self.both(("done", range, limit), |side| {
                let found = side.open().store.done().unwrap().look(&range, limit);
                common_records(side, found.unwrap().done)
            })?;
        }
        Ok(())
    }

    /// The store is opened again in its process: all goes on.
    fn open_again(&mut self) -> Result<(), String> {
        self.both("open again", |side| {
            let open = side.open();
            if !open.store.can_reopen() {
                return;
            }
            let leases = open.store.reopen().unwrap();
            assert_eq!(leases[0].epoch, open.epoch, "the epoch goes on");
        })
        .map(drop)
    }

    fn reopen(&mut self, cleanly: bool) -> Result<(), String> {
        if cleanly {
            // What is handed out is settled before a release.
            let acks = self.in_flight.iter().map(|(&number, &due)| {
                let delivery = Delivery {
                    number,
                    due,
                    epochs_off: 0,
                };
                Change::Ack(delivery, None)
            });
            let acks: Vec<_> = acks.collect();
            self.both(("settle", &acks), |side| {
                let writes = acks.iter().map(|change| change.of(side)).collect();
                let mut gate = HandedOut::default();
                let outcomes = side.open().store.commit(writes, &mut gate).unwrap();
                outcomes
                    .into_iter()
                    .map(|outcome| side.common_outcome(outcome))
                    .collect::<Vec<_>>()
            })?;
        }
        self.known.clear();
        self.in_flight.clear();
        self.both(("reopen", cleanly), |side| {
            if cleanly {
                side.open().store.release().unwrap();
            }
            side.open = None;
            side.open = Some(Opened::new(&*side.place));
        })
    }

    fn look_at_all(&mut self) -> Result<(), String> {
        let rows = self.load_from(None, StoreTime::MAX, SliceLimit::rows(usize::MAX))?;
        self.both("size", |side| {
            let size = side.open().store.size().unwrap();
            (size.rows, size.dead)
        })
        .map(|(count, _)| assert_eq!(count, rows.len() as u64))?;
        for key in KEYS {
            self.both(("get", key), |side| {
                let row = side.open().store.get(&Target::Key(key.into())).unwrap();
                row.map(|row| side.common(row))
            })?;
        }
        self.both("dead", |side| {
            let letters = side
                .open()
                .store
                .dead(None, SliceLimit::rows(usize::MAX))
                .unwrap();
            common_letters(side, letters)
        })?;
        self.both("done", |side| {
            let done = side.open().store.done().unwrap();
            let count = done.count().unwrap();
            let found = done.look(&DoneRange::ALL, usize::MAX).unwrap();
            (count, common_records(side, found.done))
        })?;
        Ok(())
    }
}

fn number_of(row: &Row) -> usize {
    row.id.to_bits() as usize
}
