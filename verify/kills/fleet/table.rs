//! Table: what a run has shown, at its end.

use super::args::Args;
use crate::ledger::Ledger;
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Offence, Verdict};
use clap::ValueEnum;
use std::path::Path;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::program::say;

fn row(what: &str, value: impl std::fmt::Display) {
    say(format_args!("  {what:<44} {value:>12}"));
}

fn lateness(what: &str, lateness: &Lateness) {
    let ms = |part: f64| lateness.quantile_ns(part) as f64 / 1e6;
    say(format_args!(
        "  {what:<26} {:>9} {:>10.1} {:>10.1} {:>10.1}",
        lateness.count(),
        ms(0.5),
        ms(0.99),
        ms(1.0)
    ));
}

pub(crate) fn table(
    ledger: &Ledger,
    verdict: &Verdict,
    happened: &[Happened],
    with_other_clock: u32,
    complaints: &[String],
) {
    let sums = &ledger.sums;
    say(format_args!("\ntimers"));
    row("armed", sums.armed);
    row("  in transactions that were rolled back", sums.rolled_back);
    row("  calls that failed: armed or not", sums.in_doubt);
    row("cancelled", sums.cancelled);
    row("moved", sums.moved);
    row("handled", sums.handled);
    row("  that failed, on purpose", sums.failed);
    row("  once, in a transaction", verdict.in_transaction);
    row("  again, after a trouble", verdict.again);
    row(
        "  after a pause, though cancelled meanwhile",
        verdict.after_pause,
    );
    row("dead letters, on purpose", verdict.dead);
    row("may have been replaced by their keys", verdict.unknown);
    row(
        "answers refused: a lease was lost",
        ledger.stale.values().sum::<u64>(),
    );
    say(format_args!("\ntrouble"));
    for what in Trouble::value_variants() {
        let count = happened
            .iter()
            .filter(|trouble| trouble.what == *what)
            .count();
        row(what.name(), count);
    }
    row("nodes whose clock was off", with_other_clock);
    row("kills and pauses that were alone", verdict.measured_alone);
    say(format_args!(
        "\nms late                       timers        p50        p99        max"
    ));
    lateness("in calm", &verdict.calm);
    lateness("in calm, by others", &verdict.calm_found);
    lateness("in trouble", &verdict.troubled);
    lateness("after their node's kill", &verdict.take_over);
    lateness("after its pause", &verdict.paused_over);
    lateness("of others in that pause", &verdict.others);
    say(format_args!("\nverdict"));
    for &offence in Offence::value_variants() {
        row(&offence.name(), verdict.count(offence));
    }
    row("other complaints", complaints.len());
}

pub(crate) fn say_broken(told: &str, options: &Args, folder: &Path) {
    eprintln!("\n{told}");
    eprintln!("== kept: {}", folder.display());
    let standby = if options.standby { " --standby" } else { "" };
    eprintln!(
        "== broken; to repeat it: scripts/check fleet --minutes {} --seed {} --nodes {} --ttl {} \
         --rate {}{standby}",
        options.minutes, options.seed, options.nodes, options.ttl, options.rate
    );
}
