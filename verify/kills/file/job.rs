//! Job: from the command line to the verdict.

use super::args::Args;
use super::child;
use super::folder::Folder;
use super::limits::Limits;
use super::parent::{Run, moments};
use super::plan::Plan;
use super::report;
use super::store;
use crate::process::{self, Process, again};
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use wheelwork_kit::program::say;
use wheelwork_kit::progress::Bars;
use wheelwork_kit::system;

/// When all is due, and nothing has become of any timer for so long, nothing will.
const PATIENCE: Duration = Duration::from_secs(30);

/// At the end acks may be on their way for so long.
const SETTLED: Duration = Duration::from_secs(10);

/// Runs the job, or is the process of one that is killed.
pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    args.check()?;
    if let Some(life) = args.child {
        return Ok(serve(args, life));
    }
    let _folder = Folder::take(&args.folder)?;
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
    let mut run = Run::new(plan.clone());
    let moments = moments(kills, plan.seed, run.progress.all());
    let mut bars = Bars::new(&[
        ("arm", u64::from(plan.timers)),
        ("cancel", cancels),
        ("fire", fires),
        ("kill", u64::from(kills)),
    ]);
    let show = |run: &Run| {
        let sums = &run.ledger.sums;
        let ends = sums.cancelled + sums.refused;
        bars.show([sums.armed, ends, sums.handled, run.kills()]);
    };
    let start = |life: u32| Process::start(again()?.arg("--child").arg(life.to_string()));
    let ended = run.all(moments, PATIENCE, start, show);
    bars.end();
    ended?;
    let broken = report::report(args, &mut run)?;
    Ok(ExitCode::from(u8::from(!broken.is_empty())))
}

/// Is the process of such a job.
fn serve(args: &Args, life: u32) -> ExitCode {
    let file = Folder::store_in(&args.folder);
    process::serve(|teller| {
        let limits = args.limits.then(|| Limits::new(life));
        let open = |handler| store::open(&file, args.window, limits, handler);
        let orders = io::stdin().lock();
        let life = (&plan(args), life);
        child::run(life, args.threads(), SETTLED, open, orders, teller)
    })
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
