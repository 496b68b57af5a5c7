//! `servers`: what the limits of an HTTP server cost, on timers of wheelwork, on timers of tokio,
//! and without limits.

mod args;
mod check;
mod client;
mod costs;
mod job;
mod limits;
mod load;
mod measure;
mod name;
mod requests;
mod response;
mod routes;
mod rude;
mod serve;
mod server;
mod subjects;
mod workload;

use args::{Args, Command};
use check::Wanted;
use job::Job;
use std::process::ExitCode;
use wheelwork_kit::campaign;
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, say};
use wheelwork_kit::system;

/// Whose versions are told.
const PACKAGES: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &[
        "tokio",
        "hyper",
        "axum",
        "tower",
        "tower-http",
        "tokio-io-timeout",
    ],
};

/// Files of a process beside its connections.
const OTHER_FILES: usize = 100;

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.command {
            Some(Command::Check(of)) => check(&of.wanted())?,
            Some(Command::Measure(job)) => return Ok(campaign::child(|| measure::measure(job))),
            Some(Command::Serve(of)) => return Ok(serve::serve(of)),
            None => run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Makes sure of what is wanted, and tells it.
fn check(wanted: &Wanted) -> Result<(), String> {
    check::check(wanted)?;
    let subjects = wanted.subjects.iter();
    let subjects = subjects.filter(|subject| subject.has_limits());
    let names: Vec<_> = subjects.map(program::name).collect();
    if !names.is_empty() {
        let limits: Vec<_> = wanted.limits.iter().map(program::name).collect();
        let (limits, names) = (limits.join(", "), names.join(", "));
        say(format_args!("in force with {names}: {limits}"));
    }
    Ok(())
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    // The processes of measurements and servers have it from this one.
    system::allow_open_files(args.most_connections() + OTHER_FILES)?;
    check(&args.wanted())?;
    let groups = args.groups();
    let (lines, mut record) = campaign::run(
        &args.options,
        PACKAGES,
        &groups,
        |jobs: &Vec<Job>| jobs.iter().map(Job::measurement).collect(),
        |jobs: &Vec<Job>, lines: &[Line]| costs::group_table(jobs, lines),
    )?;
    let mut rest = &lines[..];
    for group in &groups {
        let (of_group, others) = rest.split_at(group.len());
        record.add(costs::to_json(of_group))?;
        rest = others;
    }
    Ok(())
}
