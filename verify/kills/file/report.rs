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
    let handled_per_s = pace.handled_per_s_max as f64;
    for (what, name, rate) in [
        (
            "arms, and cancels meanwhile",
            "arming_per_s",
            per_s(pace.arming),
        ),
        ("cancels alone", "cancelling_per_s", per_s(pace.cancelling)),
        (
            "handled in a second, at most",
            "handled_per_s_max",
            handled_per_s,
        ),
    ] {
        report.figure(what, name, rate, "/s");
    }
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
    let operations = (sums.armed + sums.cancelled + handled).max(1);
    let written = pace.commits.written_bytes;
    let each = written as f64 / operations as f64;
    let store = "bytes of the store, at the end";
    report.count("bytes written", "written_bytes", written);
    report.figure(
        "written for an operation",
        "written_bytes_per_op",
        each,
        "B",
    );
    report.count(store, "store_bytes", folder.bytes());
    report.section("kills");
    report.count("kills", "kills", run.kills());
    report.count("timers waiting, at most", "waiting_max", run.waiting_max);
    let (opened, overdue) = (&pace.reopens, &pace.first_overdue);
    for (what, name, times, part) in [
        ("reopened in, median", "reopen_ms_p50", opened, 0.5),
        ("reopened in, at most", "reopen_ms_max", opened, 1.0),
        (
            "  first overdue handled, median",
            "first_overdue_ms_p50",
            overdue,
            0.5,
        ),
        (
            "  first overdue handled, at most",
            "first_overdue_ms_max",
            overdue,
            1.0,
        ),
    ] {
        report.figure(what, name, times.quantile_ns(part) as f64 / 1e6, "ms");
    }
    report.section("lateness of what fell due while the store was open");
    report.lateness("lateness", &pace.lateness);
    report.section("lateness of what fell due before: across a kill");
    report.count("timers", "across_kills", pace.lateness_across.count());
    report.lateness("lateness_across_kills", &pace.lateness_across);
    report.section("verdict");
    let count = |offence| verdict.count(offence);
    let (after_kill, is_cancelled) = (verdict.after_kill, Offence::HandledCancelled);
    for (what, name, count) in [
        ("armed", "armed", sums.armed),
        ("handled", "handled", handled),
        ("  again, after a kill", "handled_again", verdict.again),
        ("cancelled", "cancelled", sums.cancelled),
        ("  handled before a kill", "cancelled_after", after_kill),
        ("cancelled too late", "cancelled_late", sums.refused),
        ("arms in doubt at a kill", "arms_in_doubt", arms_in_doubt),
        ("  that were stored", "in_doubt_stored", in_doubt_done),
        (
            "cancels in doubt at a kill",
            "cancels_in_doubt",
            cancels_in_doubt,
        ),
        ("lost", "lost", count(Offence::Lost)),
        ("early", "early", count(Offence::Early)),
        ("doubled without a kill", "doubled", count(Offence::Doubled)),
        (
            "handled though cancelled",
            "handled_cancelled",
            count(is_cancelled),
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
