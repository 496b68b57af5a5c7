//! Report: the table, the figures, and the verdict.

use super::args::Args;
use super::folder::Folder;
use super::pace::Work;
use super::parent::Run;
use super::plan::Plan;
use crate::verdict::Offence;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::report::Report;

/// Returns the promises that were broken.
pub(crate) fn report(
    args: &Args,
    plan: &Plan,
    run: &mut Run,
    folder: &Folder,
) -> Result<Vec<String>, String> {
    let (verdict, broken) = run.verdict();
    let (sums, pace) = (&run.ledger.sums, &run.pace);
    let calls = run.ledger.timers.iter().flat_map(|(_, timer)| &timer.calls);
    let cancels_in_doubt = calls.filter(|call| call.answer.is_none()).count() as u64;
    let [arms_in_doubt, in_doubt_done] = run.progress.in_doubt(&run.ledger);
    let was_handled = run.ledger.timers.iter();
    let handled = was_handled
        .filter(|(_, timer)| !timer.starts.is_empty())
        .count() as u64;
    let mut report = Report::default();
    report.section("operations a second, durable when answered");
    report.figure(
        "arms, and cancels meanwhile",
        "arming_per_s",
        per_s(pace.arming),
        "/s",
    );
    report.figure(
        "cancels alone",
        "cancelling_per_s",
        per_s(pace.cancelling),
        "/s",
    );
    report.figure(
        "handled in a second, at most",
        "handled_per_s_max",
        pace.handled_per_s_max as f64,
        "/s",
    );
    let block = plan.block_size();
    report.section(&format!("{block} arms of a thread, from ask to answer"));
    report.lateness("arm", &pace.arm_answers);
    report.section(&format!("{block} cancels of a thread, from ask to answer"));
    report.lateness("cancel", &pace.cancel_answers);
    report.section("a commit (upper ends of buckets)");
    let mut commits = Lateness::ready();
    for (us, count) in &pace.commit_us {
        (0..*count).for_each(|_| commits.late(0, us * 1_000));
    }
    report.lateness("commit", &commits);
    report.count("commits", "commits", pace.commits.commits);
    report.section("disk");
    let operations = sums.armed + sums.cancelled + handled;
    let written_bytes = pace.commits.written_bytes;
    report.count("bytes written", "written_bytes", written_bytes);
    let each = written_bytes as f64 / (operations as f64).max(1.0);
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
    report.count("kills", "kills", run.kills());
    report.count("timers waiting, at most", "waiting_max", run.waiting_max);
    for (what, name, times) in [
        ("reopened in", "reopen_ms", &pace.reopens),
        (
            "  first overdue handled",
            "first_overdue_ms",
            &pace.first_overdue,
        ),
    ] {
        for (of, suffix, part) in [("median", "p50", 0.5), ("at most", "max", 1.0)] {
            let ms = times.quantile_ns(part) as f64 / 1e6;
            let name = format!("{name}_{suffix}");
            report.figure(&format!("{what}, {of}"), &name, ms, "ms");
        }
    }
    report.section("lateness of what fell due while the store was open");
    report.lateness("lateness", &pace.lateness);
    report.section("lateness of what fell due before: across a kill");
    report.count("timers", "across_kills", pace.lateness_across.count());
    report.lateness("lateness_across_kills", &pace.lateness_across);
    report.section("verdict");
    for (what, name, count) in [
        ("armed", "armed", sums.armed),
        ("handled", "handled", handled),
        ("  again, after a kill", "handled_again", verdict.again),
        ("cancelled", "cancelled", sums.cancelled),
        (
            "  handled before a kill",
            "cancelled_after",
            verdict.after_kill,
        ),
        ("cancelled too late", "cancelled_late", sums.refused),
        ("arms in doubt at a kill", "arms_in_doubt", arms_in_doubt),
        ("  that were stored", "in_doubt_stored", in_doubt_done),
        (
            "cancels in doubt at a kill",
            "cancels_in_doubt",
            cancels_in_doubt,
        ),
        ("lost", "lost", verdict.count(Offence::Lost)),
        ("early", "early", verdict.count(Offence::Early)),
        (
            "doubled without a kill",
            "doubled",
            verdict.count(Offence::Doubled),
        ),
        (
            "handled though cancelled",
            "handled_cancelled",
            verdict.count(Offence::HandledCancelled),
        ),
    ] {
        report.count(what, name, count);
    }
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

fn per_s(work: Work) -> f64 {
    work.operations as f64 / (work.ns as f64 / 1e9).max(1e-6)
}
