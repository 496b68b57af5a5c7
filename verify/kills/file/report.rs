//! Report: what became of the timers, and the verdict.

use super::args::Args;
use super::parent::Run;
use crate::verdict::Offence;
use wheelwork_kit::report::Report;

/// Returns the promises that were broken.
pub(crate) fn report(args: &Args, run: &mut Run) -> Result<Vec<String>, String> {
    let (verdict, broken) = run.verdict();
    let sums = &run.ledger.sums;
    let timers = || run.ledger.timers.iter().map(|(_, timer)| timer);
    let handled = timers().filter(|timer| !timer.starts.is_empty()).count() as u64;
    let calls = timers().flat_map(|timer| &timer.calls);
    let cancels_in_doubt = calls.filter(|call| call.answer.is_none()).count() as u64;
    let [arms_in_doubt, in_doubt_done] = run.progress.in_doubt(&run.ledger);
    let count = |offence| verdict.count(offence);
    let (after_kill, is_cancelled) = (verdict.after_kill, Offence::HandledCancelled);
    let mut report = Report::default();
    report.section("verdict");
    for (what, name, count) in [
        ("kills", "kills", run.kills()),
        ("timers waiting, at most", "waiting_max", run.waiting_max),
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
