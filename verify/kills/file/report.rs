//! Report: the table, the figures, and the verdict.

use super::folder::Folder;
use super::ledger::{Ledger, Offence, Pace};
use super::plan::Plan;
use crate::args::Args;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::report::Report;

/// Returns the promises that were broken.
pub(crate) fn report(
    args: &Args,
    plan: &Plan,
    ledger: &mut Ledger,
    folder: &Folder,
) -> Result<Vec<String>, String> {
    let broken = ledger.verdict();
    let tally = ledger.tally.clone();
    let mut report = Report::default();
    report.section("operations a second, durable when answered");
    report.figure(
        "arms, and cancels meanwhile",
        "arming_per_s",
        per_s(tally.arming),
        "/s",
    );
    report.figure(
        "cancels alone",
        "cancelling_per_s",
        per_s(tally.cancelling),
        "/s",
    );
    report.figure(
        "handled in a second, at most",
        "handled_per_s_max",
        tally.handled_per_s_max as f64,
        "/s",
    );
    let block = plan.block_size();
    report.section(&format!("{block} arms of a thread, from ask to answer"));
    report.lateness("arm", &ledger.arm_answers);
    report.section(&format!("{block} cancels of a thread, from ask to answer"));
    report.lateness("cancel", &ledger.cancel_answers);
    report.section("a commit (upper ends of buckets)");
    let mut commits = Lateness::ready();
    for (us, count) in &ledger.commit_us {
        (0..*count).for_each(|_| commits.late(0, us * 1_000));
    }
    report.lateness("commit", &commits);
    report.count("commits", "commits", tally.commits);
    report.section("disk");
    let operations = tally.armed + tally.cancelled + tally.handled;
    report.count("bytes written", "written_bytes", tally.written_bytes);
    let each = tally.written_bytes as f64 / (operations as f64).max(1.0);
    report.figure(
        "written for an operation",
        "written_bytes_per_op",
        each,
        "B",
    );
    report.count(
        "bytes of the store, at the end",
        "store_bytes",
        folder.bytes(),
    );
    report.section("kills");
    report.count("kills", "kills", tally.kills);
    report.count("timers waiting, at most", "waiting_max", tally.waiting_max);
    for (what, name, times) in [
        ("reopened in", "reopen_ms", &ledger.reopens),
        (
            "  first overdue handled",
            "first_overdue_ms",
            &ledger.first_overdue,
        ),
    ] {
        for (of, suffix, part) in [("median", "p50", 0.5), ("at most", "max", 1.0)] {
            let ms = times.quantile_ns(part) as f64 / 1e6;
            let name = format!("{name}_{suffix}");
            report.figure(&format!("{what}, {of}"), &name, ms, "ms");
        }
    }
    report.section("lateness of what fell due while the store was open");
    report.lateness("lateness", &ledger.lateness);
    report.section("lateness of what fell due before: across a kill");
    report.count("timers", "across_kills", ledger.lateness_across.count());
    report.lateness("lateness_across_kills", &ledger.lateness_across);
    report.section("verdict");
    for (what, name, count) in [
        ("armed", "armed", tally.armed),
        ("handled", "handled", tally.handled),
        (
            "  again, after a kill",
            "handled_again",
            tally.handled_again,
        ),
        ("cancelled", "cancelled", tally.cancelled),
        (
            "  handled before a kill",
            "cancelled_after",
            tally.cancelled_after,
        ),
        ("cancelled too late", "cancelled_late", tally.refused),
        (
            "arms in doubt at a kill",
            "arms_in_doubt",
            tally.arms_in_doubt,
        ),
        ("  that were stored", "in_doubt_stored", tally.in_doubt_done),
        (
            "cancels in doubt at a kill",
            "cancels_in_doubt",
            tally.cancels_in_doubt,
        ),
        ("lost", "lost", ledger.count(Offence::Lost)),
        ("early", "early", ledger.count(Offence::Early)),
        (
            "doubled without a kill",
            "doubled",
            ledger.count(Offence::Doubled),
        ),
        (
            "handled though cancelled",
            "handled_cancelled",
            ledger.count(Offence::HandledCancelled),
        ),
    ] {
        report.count(what, name, count);
    }
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

fn per_s(pace: Pace) -> f64 {
    pace.operations as f64 / (pace.us as f64 / 1e6).max(1e-6)
}
