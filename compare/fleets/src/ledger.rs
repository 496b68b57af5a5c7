//! The ledger of a process: which timers have fired there, and how late.

use crate::timers::now_ns;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::line::Figures;
use wheelwork_kit::lock::lock;

/// Lateness is told in these.
const LATE_UNIT_NS: u64 = 10_000;

#[derive(Default)]
struct Book {
    seen: Vec<bool>,
    fired: u64,
    again: u64,
    early: u64,
    first_ns: u64,
    last_ns: u64,
    late: HashMap<u64, u64>,
}

/// What handlers write down.
#[derive(Default)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
    /// Whether no handler ever ends: what a worker that is killed had taken.
    pub(crate) hangs: bool,
}

impl Ledger {
    pub(crate) fn new(hangs: bool) -> Self {
        Self {
            hangs,
            ..Self::default()
        }
    }

    /// A timer has fired.
    pub(crate) fn fired(&self, number: u64, due_ms: u64) {
        let (now_ns, due_ns) = (now_ns(), due_ms * 1_000_000);
        let mut book = lock(&self.book);
        let place = number as usize;
        if book.seen.len() <= place {
            book.seen.resize(place + 1, false);
        }
        if book.seen[place] {
            book.again += 1;
            return;
        }
        book.seen[place] = true;
        if book.fired == 0 {
            book.first_ns = now_ns;
        }
        book.fired += 1;
        book.last_ns = now_ns;
        book.early += u64::from(now_ns < due_ns);
        let late = now_ns.saturating_sub(due_ns) / LATE_UNIT_NS;
        *book.late.entry(late).or_default() += 1;
    }

    pub(crate) fn fired_so_far(&self) -> u64 {
        lock(&self.book).fired
    }

    /// What a process tells of it.
    pub(crate) fn to_json(&self) -> Value {
        let book = lock(&self.book);
        json!({
            "late": book.late.iter().collect::<Vec<_>>(),
            "early": book.early,
            "again": book.again,
            "first_ms": book.first_ns as f64 / 1e6,
            "last_ms": book.last_ns as f64 / 1e6,
        })
    }
}

/// What a process has told.
pub(crate) struct Told {
    lateness: Lateness,
    early: f64,
    again: f64,
    pub(crate) last_ms: f64,
    /// Timers in `lateness` that have not fired.
    unfired: u64,
}

impl Told {
    pub(crate) fn from_json(answer: &Value) -> Result<Self, String> {
        let wrong = || "a ledger that cannot be read".to_string();
        let mut lateness = Lateness::ready();
        for pair in answer["late"].as_array().ok_or_else(wrong)? {
            let (late, count) = (pair[0].as_u64(), pair[1].as_u64());
            let (late, count) = late.zip(count).ok_or_else(wrong)?;
            (0..count).for_each(|_| lateness.late(0, late * LATE_UNIT_NS));
        }
        let number = |name: &str| answer[name].as_f64().unwrap_or(0.0);
        Ok(Self {
            lateness,
            early: number("early"),
            again: number("again"),
            last_ms: number("last_ms"),
            unfired: 0,
        })
    }

    /// Timers that have not fired are late by this at least.
    pub(crate) fn add_unfired(&mut self, armed: u64, late: Duration) {
        let unfired = armed.saturating_sub(self.fired());
        (0..unfired).for_each(|_| self.lateness.late(0, late.as_nanos() as u64));
        self.unfired += unfired;
    }

    fn fired(&self) -> u64 {
        self.lateness.count() - self.unfired
    }

    /// Of a number of timers that should have fired.
    pub(crate) fn figures(&self, armed: u64) -> Figures {
        let mut figures = self.lateness.figures();
        figures.extend([
            ("early", self.early),
            ("again", self.again),
            ("lost", armed.saturating_sub(self.fired()) as f64),
        ]);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fired_is_told() {
        let ledger = Ledger::default();
        let now_ms = now_ns() / 1_000_000;
        ledger.fired(3, now_ms - 50);
        ledger.fired(3, now_ms - 50);
        ledger.fired(900, now_ms + 60_000);
        assert_eq!(ledger.fired_so_far(), 2);
        let mut told = Told::from_json(&ledger.to_json()).expect("it is one");
        let figures = told.figures(4).0;
        let [early, again, lost] = ["early", "again", "lost"].map(|name| figures[name]);
        assert_eq!((early, again, lost), (1.0, 1.0, 2.0));
        let max = figures["late_ms_max"];
        assert!((50.0..20_000.0).contains(&max), "{figures:?}");
        told.add_unfired(4, Duration::from_secs(20));
        let figures = told.figures(4).0;
        assert_eq!(figures["lost"], 2.0);
        assert!(figures["late_ms_max"] >= 19_000.0, "{figures:?}");
    }
}
