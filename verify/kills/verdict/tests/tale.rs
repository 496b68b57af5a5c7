//! Tale: what nodes have told, in words, and the promises that it breaks.
//!
//! A tale is sentences with `;` or a line's end between them. Times are milliseconds since the tale
//! began. They may be sums of numbers and of the names in [`NAMES`].
//!
//! | sentence | what was told |
//! |---|---|
//! | `arm 7 at 0 due 400` | an arm, and its answer 2 ms later |
//! | ... `Slow`, `key k`, `order` | of that kind; with that key; in a transaction of its own |
//! | ... `in 400` for `due 400` | due so long after the call |
//! | `rollback 7 at 9`, `doubt`, `absent`, `there`, `found` | what became of an arm |
//! | `cancel 7 at 500`, `cancel k at 500` | a cancel by id or by key, which says `true` 2 ms later |
//! | `move 7 at 500 to 900` | the same of a move |
//! | ... `until 510`, `refused`, `unanswered`, `by B` | when and how a call is answered; who calls |
//! | `A handles 7 at 400` | node A's handler is called, and says `Ok` 1 ms later |
//! | `A fails 7 at 400` | it says `Err`: the timer is due again 50 ms later |
//! | `A starts 7 at 400` | it does not end |
//! | `A seals 7 at 400` | the handler of a file says `Ok`; with `by 1` the deadline in its payload is off |
//! | ... `until 410`, `told 300`, `clock 5` | its end, its deadline, the server's microseconds |
//! | `Kill A from 5 to 9` | trouble of a node, or of none; `of 4,6` for the partitions that it had |
//! | `stored 7`, `done 7 1`, `dead 7`, `left 7` | what the database has at the end |
//! | `altered 7 at 9`, `ahead 100 at 9`, `broken off` | the rest |
//!
//! Nodes have letters: A is node 1, with the lease 1; `A3` is the same node with the lease 3.

use crate::ledger::{Ledger, Moment};
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Facts, Judge, Offence, Verdict};
use crate::wire::{Aim, Ask, Begun, Due, Event, KINDS, Kind};
use clap::ValueEnum;
use std::collections::HashMap;

/// The server's clock when a tale begins.
const SERVER_MS: i64 = 1_700_000_000_000;

/// The clock of all processes when a tale begins.
const BEGUN_MS: i64 = 1_000_000;

/// How long calls and handlers take, and after how long a timer that has failed is due again.
const CALL_MS: i64 = 2;
const HANDLER_MS: i64 = 1;
const RETRY_MS: i64 = 50;

/// How long leases last.
const TTL_MS: i64 = 3_000;

/// The partition of all timers of a tale.
const PART: u16 = 5;

const NAMES: [(&str, i64); 5] = [
    ("TTL", TTL_MS),
    // A lease that may still have lasted, and a second: so late may a take-over be, too.
    ("LEASE", TTL_MS + 1_000),
    // A timer that is later was forgotten.
    ("LATE", 2 * TTL_MS + 14_000),
    // When the trouble of a take-over begins.
    ("FROM", 50_000),
    // A timer of a node. Those of programs in other languages have smaller numbers.
    ("N", 1 << 32),
];

fn moment(ms: i64) -> Moment {
    ((BEGUN_MS + ms) * 1_000_000) as Moment
}

/// A sum.
fn number(text: &str) -> i64 {
    let spaced = text.replace('+', " ").replace('-', " -");
    let term = |term: &str| {
        let named = |sign: i64, name: &str| {
            let named = NAMES.iter().find(|(own, _)| *own == name);
            named.map(|(_, value)| sign * value)
        };
        let value = term.parse().ok().or_else(|| named(1, term));
        let value = value.or_else(|| named(-1, term.strip_prefix('-')?));
        value.unwrap_or_else(|| panic!("no number: {term} in {text}"))
    };
    spaced.split_whitespace().map(term).sum()
}

/// The words of a sentence that are not read yet.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        self.0.remove(0)
    }

    fn number(&mut self) -> u64 {
        number(self.next()) as u64
    }

    /// Whether this word is there.
    fn has(&mut self, word: &str) -> bool {
        let at = self.0.iter().position(|own| *own == word);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The word behind this one.
    fn after(&mut self, word: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|own| *own == word)?;
        self.0.remove(at);
        Some(self.0.remove(at))
    }

    fn time(&mut self, word: &str) -> Option<i64> {
        self.after(word).map(number)
    }

    fn at(&mut self) -> i64 {
        self.time("at").expect("a time")
    }

    /// One of these, by its name.
    fn one<T: Copy + std::fmt::Debug>(&mut self, all: &[T]) -> Option<T> {
        let mut all = all.iter();
        all.find(|one| self.has(&format!("{one:?}"))).copied()
    }
}

/// A node and the lease that it has.
fn lease(text: &str) -> (u32, u64) {
    let (letter, fence) = text.split_at(1);
    let node = u32::from(letter.as_bytes()[0] - b'A') + 1;
    (node, fence.parse().unwrap_or(node.into()))
}

pub(crate) struct Tale {
    pub(crate) ledger: Ledger,
    facts: Facts,
    happened: Vec<Happened>,
    /// When timers are due, as their next handler is told.
    dues: HashMap<u64, i64>,
    /// The number of the last call, or handling.
    last: u64,
}

impl Default for Tale {
    fn default() -> Self {
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
}

impl Tale {
    pub(crate) fn tell_all(&mut self, text: &str) {
        for sentence in text.split([';', '\n']).map(str::trim) {
            if !sentence.is_empty() {
                let mut words = Words(sentence.split_whitespace().collect());
                self.sentence(&mut words);
                assert!(words.0.is_empty(), "{sentence}: what is {:?}?", words.0);
            }
        }
    }

    fn tell(&mut self, node: u32, at: i64, event: Event) {
        self.ledger.note(node, moment(at), event);
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn sentence(&mut self, words: &mut Words<'_>) {
        if let Some(what) = words.one(Trouble::value_variants()) {
            return self.trouble(what, words);
        }
        match words.next() {
            "arm" => self.arm(words),
            "cancel" => self.call(words, false),
            "move" => self.call(words, true),
            "rollback" => self.became(words, |number, _| Event::RolledBack(number)),
            "doubt" => self.became(words, |number, _| Event::Doubt(number)),
            "absent" => self.became(words, |number, _| Event::Absent(number)),
            "there" => self.became(words, |number, id| Event::Armed { number, id }),
            "found" => self.became(words, |number, id| Event::Row { number, id }),
            "altered" => self.became(words, |_, id| Event::Altered(id)),
            "stored" => _ = self.facts.orders.insert(words.number()),
            "done" => _ = self.facts.done.insert(words.number(), words.number()),
            "dead" => _ = self.facts.dead.insert(words.number(), "why".to_owned()),
            "left" => _ = self.facts.left.insert(words.number(), "row".to_owned()),
            "broken" => self.facts.is_cut_off = words.has("off"),
            "ahead" => {
                let by_ns = number(words.next()) * 1_000_000;
                let (_, offset) = self.facts.offsets[0];
                let set = (moment(words.at()), offset + by_ns);
                self.facts.offsets.push(set);
            }
            node => self.handle(lease(node), words),
        }
    }

    fn arm(&mut self, words: &mut Words<'_>) {
        let (number, at) = (words.number(), words.at());
        let due = match words.time("in") {
            Some(after) => Due::After(after),
            None => {
                let due = words.time("due").expect("a deadline");
                self.dues.insert(number, due);
                Due::At(SERVER_MS + due)
            }
        };
        let ask = Ask {
            key: words.after("key").map(str::to_owned),
            due,
            is_outbox: words.has("order"),
            kind: words
                .one(&KINDS.map(|(kind, _)| kind))
                .unwrap_or(Kind::Plain),
        };
        self.tell(1, at, Event::Ask(number, ask));
        let until = words.time("until").unwrap_or(at + CALL_MS);
        if !words.has("unanswered") {
            let id = id(number);
            self.tell(1, until, Event::Armed { number, id });
        }
    }

    fn became(&mut self, words: &mut Words<'_>, event: fn(u64, u128) -> Event) {
        let number = words.number();
        self.tell(1, words.at(), event(number, id(number)));
    }

    fn call(&mut self, words: &mut Words<'_>, is_move: bool) {
        let (call, whom, at) = (self.next(), words.next(), words.at());
        let is_key = whom.starts_with(|first: char| first.is_ascii_lowercase());
        let due = is_move.then(|| words.time("to").expect("a new deadline"));
        let aim = match is_key {
            true => Aim::Key(whom.to_owned()),
            false => Aim::Number(number(whom) as u64),
        };
        let node = words.after("by").map_or(1, |node| lease(node).0);
        let new = due.map(|due| Due::At(SERVER_MS + due));
        self.tell(node, at, Event::Call(call, aim, new));
        let until = words.time("until").unwrap_or(at + CALL_MS);
        let is_done = !words.has("refused");
        if !words.has("unanswered") {
            self.tell(node, until, Event::Answer(call, is_done));
            if let Some(due) = due.filter(|_| is_done && !is_key) {
                self.dues.insert(number(whom) as u64, due);
            }
        }
    }

    fn handle(&mut self, (node, fence): (u32, u64), words: &mut Words<'_>) {
        let (verb, number, at) = (words.next(), words.number(), words.at());
        if let Some(due) = words.time("told") {
            self.dues.insert(number, due);
        }
        let handling = self.next();
        let due = self.dues.get(&number).copied().unwrap_or(0) + words.time("by").unwrap_or(0);
        let begun = Begun {
            handling,
            number,
            id: id(number),
            fence,
            attempt: 1,
            due_ms: SERVER_MS + due,
            done_us: (verb == "seals").then_some((SERVER_MS + at) * 1_000),
        };
        self.tell(node, at, Event::Start(begun));
        if let Some(us) = words.time("clock") {
            let us = SERVER_MS * 1_000 + us;
            self.tell(node, at + 1, Event::Clock { handling, us });
        }
        let until = words.time("until").unwrap_or(at + HANDLER_MS);
        let is_ok = match verb {
            "handles" => true,
            "fails" => false,
            "starts" | "seals" => return,
            _ => panic!("what is '{verb}'?"),
        };
        self.tell(node, until, Event::End { handling, is_ok });
        if !is_ok {
            self.dues.insert(number, at + HANDLER_MS + RETRY_MS);
        }
    }

    fn trouble(&mut self, what: Trouble, words: &mut Words<'_>) {
        let [from, to] = ["from", "to"].map(|word| moment(words.time(word).expect("a time")));
        let partitions = words.after("of");
        let node = (!words.0.is_empty()).then(|| lease(words.next()).0);
        let own = node.map(|_| PART).into_iter().collect();
        let listed = |list: &str| {
            list.split(',')
                .filter_map(|part| part.parse().ok())
                .collect()
        };
        self.happened.push(Happened {
            what,
            node,
            from,
            to,
            partitions: partitions.map_or(own, listed),
        });
    }

    fn judged(&self) -> Verdict {
        let (ledger, facts) = (&self.ledger, &self.facts);
        let judge = Judge::new(ledger, facts, &self.happened, TTL_MS as u64, moment(0));
        let verdict = judge.verdict();
        // (Whose a row with another payload is, nobody knows.)
        let known = |broken: &&(Offence, u64, String)| broken.1 != 0;
        for (_, number, _) in verdict.broken.iter().filter(known) {
            let begin = format!("timer {number}: ");
            assert!(judge.story(*number).starts_with(&begin), "it has a story");
        }
        verdict
    }
}

pub(crate) fn id(number: u64) -> u128 {
    u128::from(PART) << 112 | u128::from(number)
}

/// What the judge has counted, by the names that cases have.
fn count(verdict: &Verdict, name: &str) -> u64 {
    match name {
        "again" => verdict.again,
        "after_pause" => verdict.after_pause,
        "after_kill" => verdict.after_kill,
        "unknown" => verdict.unknown,
        "dead" => verdict.dead,
        "in_transaction" => verdict.in_transaction,
        "alone" => verdict.measured_alone,
        "calm" => verdict.calm.count(),
        "calm_found" => verdict.calm_found.count(),
        "troubled" => verdict.troubled.count(),
        "take_over" => verdict.take_over.count(),
        "paused_over" => verdict.paused_over.count(),
        "others" => verdict.others.count(),
        _ => panic!("nobody counts {name}"),
    }
}

/// Each case is a tale that goes on from `begin`, then `=>` and exactly the promises that it
/// breaks, `Lost 7, Early 8`; behind a bar there may be counts of the judge, `| again 1`. A case
/// that begins with `..` goes on from the case before. Behind `#` there are comments. Returns what
/// was judged last.
#[track_caller]
pub(super) fn cases(begin: &str, cases: &str) -> Verdict {
    let (mut tale, mut verdict) = (String::new(), Verdict::default());
    let mut is_told = true;
    for line in cases.lines().map(str::trim) {
        let line = line.split('#').next().unwrap_or_default();
        let (told, expected) = match line.split_once("=>") {
            Some((told, expected)) => (told, Some(expected)),
            None => (line, None),
        };
        if told.trim().is_empty() && expected.is_none() {
            continue;
        }
        match told.strip_prefix("..") {
            Some(more) => tale += &format!("\n{more}"),
            None if is_told => tale = format!("{begin}\n{told}"),
            None => tale += &format!("\n{told}"),
        }
        is_told = expected.is_some();
        let Some(expected) = expected else { continue };
        let (broken, counts) = expected.split_once('|').unwrap_or((expected, ""));
        let mut own = Tale::default();
        own.tell_all(&tale);
        verdict = own.judged();
        let found = verdict.broken.iter();
        let found: Vec<_> = found.map(|one| format!("{:?} {}", one.0, one.1)).collect();
        assert_eq!(
            found.join(", "),
            broken.trim(),
            "{tale}\n{:?}",
            verdict.broken
        );
        assert_eq!(own.ledger.complaints(), [""; 0], "{tale}");
        for expected in counts.split(',').filter(|one| !one.trim().is_empty()) {
            let (name, expected) = expected.trim().split_once(' ').expect("a name, a count");
            assert_eq!(
                count(&verdict, name),
                number(expected) as u64,
                "{name}: {tale}"
            );
        }
    }
    assert!(is_told, "a case has no end: {tale}");
    verdict
}
