//! `kills`: timers that are kept on disk, while the process that arms them is killed and started
//! again.
//!
//! The parent starts this program anew as its child, which opens the store, arms, cancels and
//! handles, and writes a record of each step to a pipe. The parent keeps the ledger, kills the
//! child, and judges at the end.

mod args;
mod child;
mod clock;
#[cfg(test)]
mod fake;
mod folder;
mod ledger;
mod parent;
mod plan;
mod process;
mod report;
mod store;
mod wire;

use args::Args;
use folder::Folder;
use ledger::Ledger;
use plan::Plan;
use process::Process;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;
use wheelwork_kit::program::{self, say};
use wheelwork_kit::progress::Bars;
use wheelwork_kit::system;

/// When all is due, and nothing has become of any timer for so long, nothing will.
const PATIENCE: Duration = Duration::from_secs(30);

/// At the end acks may be on their way for so long.
const SETTLED: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    program::run(|args: &Args| {
        args.check()?;
        if args.child {
            return Ok(serve(args));
        }
        let is_clean = run(args)?.is_empty();
        Ok(ExitCode::from(u8::from(!is_clean)))
    })
}

/// Runs the job. Returns the promises that were broken, or what is wrong with the arguments.
fn run(args: &Args) -> Result<Vec<String>, String> {
    let folder = Folder::take(&args.folder)?;
    let (plan, kills) = (plan(args), args.kills as u32);
    let (cancels, fires) = plan.fates();
    say(format_args!(
        "{} durable timers, {} threads, {} bytes each, spread {:?}, cancel {} %, {kills} kills, seed {}, {} cores",
        plan.timers,
        args.threads(),
        plan.payload_bytes,
        args.spread,
        args.cancel,
        plan.seed,
        system::cores()
    ));
    let mut ledger = Ledger::new(plan.clone());
    let moments = parent::moments(kills, plan.seed, ledger.steps());
    let timers = u64::from(plan.timers);
    let mut bars = Bars::new(&[
        ("arm", timers),
        ("cancel", cancels),
        ("fire", fires),
        ("kill", u64::from(kills)),
    ]);
    let show = |ledger: &Ledger| {
        let tally = &ledger.tally;
        let ends = tally.cancelled + tally.refused;
        bars.show([tally.armed, ends, tally.handled, tally.kills]);
    };
    let ended = parent::run(&mut ledger, moments, PATIENCE, Process::start, show);
    bars.end();
    ended?;
    report::report(args, &plan, &mut ledger, &folder)
}

/// Is the child of such a job.
fn serve(args: &Args) -> ExitCode {
    let records = io::stdout().as_fd().try_clone_to_owned();
    let Ok(records) = records else {
        return ExitCode::from(2);
    };
    let file = Folder::store_in(&args.folder);
    let served = child::run(
        &plan(args),
        args.threads(),
        SETTLED,
        |handler| store::open(&file, args.window, handler),
        io::stdin().lock(),
        // Without a buffer: what is written survives this process.
        Box::new(File::from(records)),
    );
    // The parent was told why.
    ExitCode::from(u8::from(served.is_err()))
}

fn plan(args: &Args) -> Plan {
    Plan::new(
        args.timers as u32,
        args.seed,
        args.cancel,
        args.spread.as_micros() as u64,
        args.payload,
    )
}
