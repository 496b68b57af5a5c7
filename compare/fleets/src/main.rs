//! `fleets`: durable timers that several processes share, on PostgreSQL: wheelwork's, job queues, a
//! scheduler and a plain poller, in the same run. One job queue is on Redis.

mod args;
mod arms;
mod beside;
mod database;
mod fires;
mod goals;
mod idle;
mod job;
mod killed;
mod ledger;
mod measure;
mod name;
mod node;
mod process;
mod redis;
mod serve;
mod store;
mod subjects;
mod timers;
mod workload;

use args::{Args, Command};
use database::Server;
use job::Job;
use std::process::ExitCode;
use wheelwork_kit::campaign;
use wheelwork_kit::goals::Claim;
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, say_text};

/// Whose versions are told; the script tells those of packages for Node.js.
const RIVALS: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &["postgres", "apalis-postgres", "tokio-cron-scheduler"],
};

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.command {
            Some(Command::Measure(job)) => return Ok(campaign::child(|| measure::measure(job))),
            Some(Command::Node(node)) => return Ok(serve::serve(node.subject)),
            None => run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    let server = Server::of_environment()?;
    let mut options = args.options.clone();
    options.place = Some(server.describe()?);
    let database = format!("wheelwork_fleet_{}", std::process::id());
    // Also of measurements that are given up.
    let _clears = server.clears(&database);
    let (lines, mut record) = campaign::run(
        &options,
        RIVALS,
        &args.groups(&database),
        |jobs: &Vec<Job>| jobs.iter().map(Job::measurement).collect(),
        |jobs: &Vec<Job>, lines: &[Line]| jobs[0].table(lines),
    )?;
    let claims = goals::claims(&lines);
    say_text(&goals::verdicts(&claims));
    record.add(claims.iter().map(Claim::to_json))
}
