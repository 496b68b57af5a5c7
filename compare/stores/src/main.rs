//! `stores`: timers that survive their process, by wheelwork, by bare engines, by Redis and by a
//! job queue, in the same run.

mod args;
mod callers;
mod disk;
mod fires;
mod goals;
mod job;
mod ledger;
mod measure;
mod name;
mod random;
mod stored;
mod subjects;
mod sweep;
mod workload;

use args::{Args, Command};
use job::Job;
use std::process::ExitCode;
use wheelwork_kit::campaign;
use wheelwork_kit::goals::Claim;
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, say_text};

/// Whose versions are told.
const RIVALS: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &[
        "redb",
        "fjall",
        "rusqlite",
        "libsqlite3-sys",
        "redis",
        "apalis-sqlite",
    ],
};

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.command {
            Some(Command::Measure(job)) => return Ok(campaign::child(|| measure::measure(job))),
            Some(Command::Load(load)) => return Ok(campaign::child(|| stored::load(load))),
            None => run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    // Also of those that are given up.
    let folder = disk::Folder::new(&args.dir)?;
    let mut options = args.options.clone();
    options.place = Some(format!("files on {}", disk::file_system(&args.dir)?));
    let (lines, mut record) = campaign::run(
        &options,
        RIVALS,
        &args.groups(folder.path()),
        |jobs: &Vec<Job>| jobs.iter().map(Job::measurement).collect(),
        |jobs: &Vec<Job>, lines: &[Line]| jobs[0].table(lines),
    )?;
    let claims = goals::claims(&lines);
    say_text(&goals::verdicts(&claims));
    record.add(claims.iter().map(Claim::to_json))
}
