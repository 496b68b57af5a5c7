//! Tale: a ledger that is told event by event, with the moments in milliseconds since the tale
//! began.

use crate::ledger::{Ledger, Moment};
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Facts, Judge, Offence, Verdict};
use crate::wire::{Aim, Due, Event, Kind};
use std::collections::HashMap;

/// How long leases last.
pub(super) const TTL_MS: i64 = 3_000;

/// The server's clock when a tale begins.
const SERVER_MS: i64 = 1_700_000_000_000;

/// The clock of all processes when a tale begins.
const BEGUN_MS: i64 = 1_000_000;

/// How long calls take.
pub(super) const CALL_MS: i64 = 2;

/// How long handlers take.
pub(super) const HANDLER_MS: i64 = 1;

/// After how long a timer whose handler has failed is due again.
pub(super) const RETRY_MS: i64 = 50;

/// The partition of all timers of a tale.
pub(super) const PART: u16 = 5;

/// A lease of a partition: whose, and its number.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub(super) node: u32,
    pub(super) fence: u64,
}

/// The first node, and the second one that takes over from it.
pub(super) const A: Lease = Lease { node: 1, fence: 1 };
pub(super) const B: Lease = Lease { node: 2, fence: 2 };

pub(super) fn moment(ms: i64) -> Moment {
    ((BEGUN_MS + ms) * 1_000_000) as Moment
}

pub(super) fn due_at(ms: i64) -> Due {
    Due::At(SERVER_MS + ms)
}

pub(super) fn id(number: u64) -> u128 {
    u128::from(PART) << 112 | u128::from(number)
}

pub(super) struct Tale {
    pub(super) ledger: Ledger,
    pub(super) facts: Facts,
    pub(super) happened: Vec<Happened>,
    /// When timers are due, as their next handler is told.
    dues: HashMap<u64, i64>,
    /// The number of the last call, or handling.
    last: u64,
}

impl Tale {
    pub(super) fn new() -> Self {
        let offset = (SERVER_MS - BEGUN_MS) * 1_000_000;
        let facts = Facts {
            offsets: vec![(moment(0), offset)],
            ..Facts::default()
        };
        Self {
            ledger: Ledger::default(),
            facts,
            happened: Vec::new(),
            dues: HashMap::new(),
            last: 0,
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A node tells an event.
    pub(super) fn tell(&mut self, node: u32, at: i64, event: &Event) {
        self.ledger.note(node, moment(at), event.clone());
    }

    // Arms.

    pub(super) fn ask(&mut self, number: u64, kind: Kind, key: Option<&str>, at: i64, due: i64) {
        self.ask_as(number, kind, key, at, due, false);
    }

    pub(super) fn ask_as(
        &mut self,
        number: u64,
        kind: Kind,
        key: Option<&str>,
        at: i64,
        due: i64,
        is_outbox: bool,
    ) {
        self.dues.insert(number, due);
        let ask = Event::Ask {
            number,
            kind,
            key: key.map(str::to_owned),
            due: due_at(due),
            is_outbox,
        };
        self.tell(A.node, at, &ask);
    }

    pub(super) fn armed(&mut self, number: u64, at: i64) {
        let id = id(number);
        self.tell(A.node, at, &Event::Armed { number, id });
    }

    /// A timer is armed, due at `due`.
    pub(super) fn arm(&mut self, number: u64, kind: Kind, at: i64, due: i64) {
        self.ask(number, kind, None, at, due);
        self.armed(number, at + CALL_MS);
    }

    pub(super) fn plain(&mut self, number: u64, at: i64, due: i64) {
        self.arm(number, Kind::Plain, at, due);
    }

    pub(super) fn plain_key(&mut self, number: u64, key: &str, at: i64, due: i64) {
        self.ask(number, Kind::Plain, Some(key), at, due);
        self.armed(number, at + CALL_MS);
    }

    /// A timer is armed in a transaction, of which nobody knows yet what became.
    pub(super) fn ask_order(&mut self, number: u64, at: i64, due: i64) {
        self.ask_as(number, Kind::Plain, None, at, due, true);
    }

    /// Its transaction has committed.
    pub(super) fn order_is_stored(&mut self, number: u64) {
        self.facts.orders.insert(number);
    }

    pub(super) fn rolled_back(&mut self, number: u64, at: i64) {
        self.tell(A.node, at, &Event::RolledBack(number));
    }

    // Calls.

    /// A call without an answer: to cancel, or to move to `due`.
    pub(super) fn ask_call(&mut self, aim: Aim, at: i64, due: Option<i64>) -> u64 {
        let call = self.next();
        let event = match due.map(due_at) {
            None => Event::AskCancel { call, aim },
            Some(due) => Event::AskMove { call, aim, due },
        };
        self.tell(A.node, at, &event);
        call
    }

    /// The same as `cancel`, of a node.
    pub(super) fn cancel_as(&mut self, lease: Lease, number: u64, at: i64, is_done: bool) {
        let (call, aim) = (self.next(), Aim::Number(number));
        self.tell(lease.node, at, &Event::AskCancel { call, aim });
        self.answer(call, at + CALL_MS, is_done);
    }

    pub(super) fn answer(&mut self, call: u64, at: i64, is_done: bool) {
        self.tell(A.node, at, &Event::Answer { call, is_done });
    }

    pub(super) fn cancel(&mut self, number: u64, at: i64, is_done: bool) {
        let call = self.ask_call(Aim::Number(number), at, None);
        self.answer(call, at + CALL_MS, is_done);
    }

    pub(super) fn cancel_key(&mut self, key: &str, at: i64, is_done: bool) {
        let call = self.ask_call(Aim::Key(key.to_owned()), at, None);
        self.answer(call, at + CALL_MS, is_done);
    }

    /// A timer is moved to `due`, or that is refused.
    pub(super) fn change(&mut self, number: u64, at: i64, due: i64, is_done: bool) {
        let call = self.ask_call(Aim::Number(number), at, Some(due));
        self.answer(call, at + CALL_MS, is_done);
        if is_done {
            self.due(number, due);
        }
    }

    pub(super) fn change_key(&mut self, key: &str, at: i64, due: i64, is_done: bool) {
        let call = self.ask_call(Aim::Key(key.to_owned()), at, Some(due));
        self.answer(call, at + CALL_MS, is_done);
    }

    // Handlers.

    /// From now on handlers are told that a timer is due at `due`.
    pub(super) fn due(&mut self, number: u64, due: i64) {
        self.dues.insert(number, due);
    }

    /// A handler is called.
    pub(super) fn start(&mut self, number: u64, lease: Lease, at: i64) -> u64 {
        let handling = self.next();
        let due_ms = SERVER_MS + self.dues.get(&number).copied().unwrap_or(0);
        let start = Event::Start {
            handling,
            number,
            id: id(number),
            fence: lease.fence,
            attempt: 1,
            due_ms,
        };
        self.tell(lease.node, at, &start);
        handling
    }

    /// A handler has read the server's clock.
    pub(super) fn clock(&mut self, handling: u64, at: i64, us: i64) {
        let us = SERVER_MS * 1_000 + us;
        self.tell(A.node, at, &Event::Clock { handling, us });
    }

    pub(super) fn end(&mut self, handling: u64, at: i64, is_ok: bool) {
        self.tell(A.node, at, &Event::End { handling, is_ok });
    }

    /// A handler that reads the clock is called, and says `Ok`. Its payload's deadline is off by
    /// `by`.
    pub(super) fn handled(&mut self, number: u64, lease: Lease, at: i64, by: i64) {
        let due_ms = SERVER_MS + self.dues.get(&number).copied().unwrap_or(0) + by;
        let event = Event::Handled {
            number,
            id: id(number),
            fence: lease.fence,
            due_ms,
            us: (SERVER_MS + at) * 1_000,
        };
        self.tell(lease.node, at, &event);
    }

    /// A handler is called, and says `Ok`.
    pub(super) fn handle(&mut self, number: u64, lease: Lease, at: i64) {
        let handling = self.start(number, lease, at);
        self.end(handling, at + HANDLER_MS, true);
    }

    /// A handler is called, and says `Err`: the timer is due again a little later.
    pub(super) fn fail(&mut self, number: u64, lease: Lease, at: i64) {
        let handling = self.start(number, lease, at);
        self.end(handling, at + HANDLER_MS, false);
        self.due(number, at + HANDLER_MS + RETRY_MS);
    }

    /// Handlers in transactions have committed so often.
    pub(super) fn done(&mut self, number: u64, times: u64) {
        self.facts.done.insert(number, times);
    }

    // What else there is.

    /// A trouble; of a node, it had all timers of the tale.
    pub(super) fn trouble(&mut self, what: Trouble, node: Option<u32>, from: i64, to: i64) {
        self.happened.push(Happened {
            what,
            node,
            from: moment(from),
            to: moment(to),
            partitions: node.map(|_| PART).into_iter().collect(),
        });
    }

    pub(super) fn is_dead(&mut self, number: u64) {
        self.facts.dead.insert(number, "attempts 3".to_owned());
    }

    pub(super) fn is_left(&mut self, number: u64) {
        self.facts.left.insert(number, "due 1".to_owned());
    }

    // The verdict.

    pub(super) fn judged(&self) -> Verdict {
        let ttl_ms = TTL_MS as u64;
        let (ledger, facts) = (&self.ledger, &self.facts);
        let judge = Judge::new(ledger, facts, &self.happened, ttl_ms, moment(0));
        let verdict = judge.verdict();
        // (Whose a row with another payload is, nobody knows.)
        let known = |broken: &&(Offence, u64, String)| broken.1 != 0;
        for (_, number, _) in verdict.broken.iter().filter(known) {
            let begin = format!("timer {number}: ");
            assert!(judge.story(*number).starts_with(&begin), "it has a story");
        }
        verdict
    }

    /// Exactly these promises are broken, of these timers.
    #[track_caller]
    pub(super) fn breaks(&self, expected: &[(Offence, u64)]) {
        let broken = self.judged().broken;
        let found: Vec<_> = broken.iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(found, expected, "{broken:?}");
        assert_eq!(self.ledger.complaints(), [""; 0]);
    }

    #[track_caller]
    pub(super) fn breaks_nothing(&self) {
        self.breaks(&[]);
    }
}
