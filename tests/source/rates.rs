//! The rates of the report, and which of the others is the best.

use crate::report::{Line, called, value, written};

/// Those whose threads each have timers of their own.
pub(crate) const OWNED: fn(&str) -> bool = |subject| {
    let owned = [
        "asio",
        "delayqueue",
        "dpdk",
        "heap-each",
        "tokio-alt",
        "tokio-each",
    ];
    owned.contains(&subject)
};

/// A rate of the report: million operations a second.
#[derive(Clone, Copy)]
pub(crate) struct Rate<'a> {
    pub(crate) subject: &'a str,
    /// Workload, threads and number of timers.
    pub(crate) what: [&'a str; 3],
    pub(crate) mops: f64,
}

pub(crate) fn rates<'a>(lines: &[Line<'a>]) -> Vec<Rate<'a>> {
    let rate = |line: &Line<'a>| {
        let mops = value(line.text, "mops")?.parse().ok()?;
        Some(Rate {
            subject: line.subject,
            what: line.what,
            mops,
        })
    };
    lines.iter().filter_map(rate).collect()
}

/// The rates of those that are not wheelwork's.
pub(crate) fn others<'r, 'a>(
    rates: &'r [Rate<'a>],
    what: [&'r str; 3],
) -> impl Iterator<Item = &'r Rate<'a>> {
    rates
        .iter()
        .filter(move |rate| rate.what == what && !rate.subject.starts_with("wheelwork"))
}

/// Of the others that count in a row, those that have not had all their runs while the cores were
/// near, as a table says behind who is the best: one of these might have been.
pub(crate) fn without(
    lines: &[Line<'_>],
    what: [&str; 3],
    counts: impl Fn(&str) -> bool,
) -> String {
    let others = lines.iter().filter(|line| {
        line.what == what && !line.subject.starts_with("wheelwork") && counts(line.subject)
    });
    let lacks_runs = |line: &&Line<'_>| {
        value(line.text, "skipped")
            .is_some_and(|why| why.starts_with("of ") && why.contains("near"))
    };
    let missing: Vec<_> = others
        .filter(lacks_runs)
        .map(|line| called(line.subject))
        .collect();
    if missing.is_empty() {
        String::new()
    } else {
        format!(" (not all runs of {})", missing.join(", "))
    }
}

/// The best rate of those others that count in a row, and who has it: all that have the same figure
/// in the table. (Whether each thread has some is in the table's head.)
pub(crate) struct Best {
    pub(crate) mops: f64,
    pub(crate) which: String,
}

impl Best {
    pub(crate) fn find(
        rates: &[Rate<'_>],
        what: [&str; 3],
        counts: impl Fn(&str) -> bool,
        lines: &[Line<'_>],
    ) -> Option<Self> {
        let those = || others(rates, what).filter(|rate| counts(rate.subject));
        let mops = those().map(|rate| rate.mops).max_by(f64::total_cmp)?;
        let which: Vec<_> = those()
            .filter(|rate| written(rate.mops) == written(mops))
            .map(|rate| called(rate.subject).trim_end_matches(" in each thread"))
            .collect();
        let which = which.join(", ") + &without(lines, what, &counts);
        Some(Self { mops, which })
    }
}

/// How many times as fast one is as another.
pub(crate) fn ratio(own: f64, other: f64) -> String {
    let ratio = own / other;
    if ratio < 0.995 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.1}")
    }
}
