//! `server`: what a program feels of its timers. An HTTP server with time-outs under load, and a
//! million deadlines that move at each message; by tokio's timers, pingora's, wheelwork's, and
//! without any. All else is the same code.

mod args;
mod backend;
mod idlers;
mod job;
mod load;
mod open_files;
mod requests;
mod resets;
mod serve;
mod table;
mod timers;
mod workload;

use args::{Args, Child};
use job::Job;
use std::process::ExitCode;
use wheelwork_kit::campaign;
use wheelwork_kit::line::Figures;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program;

/// Whose versions are told.
const RIVALS: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &["hyper", "tokio", "pingora-timeout"],
};

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.child {
            Some(Child::Measure(job)) => return Ok(campaign::answer(measure(job))),
            Some(Child::Serve(settings)) => serve::serve(settings)?,
            None => run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// One measurement.
fn measure(job: &Job) -> Result<Figures, String> {
    if job.workload.has_server() {
        requests::measure(job)
    } else {
        resets::measure(job)
    }
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    let measurements = |jobs: &Vec<Job>| jobs.iter().map(Job::measurement).collect();
    let table = |jobs: &Vec<Job>, lines: &[_]| table::group(&jobs[0], lines);
    campaign::run(&args.options, RIVALS, &args.groups(), measurements, table)?;
    Ok(())
}
