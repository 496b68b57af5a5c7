//! `server`: what a program feels of its timers. An HTTP server with time-outs under load, and a
//! million deadlines that move at each message; by tokio's timers, pingora's, wheelwork's, and without
//! any. All else is the same code.

mod args;
mod backend;
#[path = "../rivals/bar.rs"]
mod bar;
#[path = "../command_line.rs"]
mod command_line;
#[path = "../rivals/common.rs"]
mod common;
mod idlers;
mod job;
#[path = "../rivals/line.rs"]
mod line;
mod load;
#[path = "../rivals/machine.rs"]
mod machine;
mod open_files;
mod parent;
#[path = "../rivals/quantity.rs"]
mod quantity;
#[path = "../rivals/record.rs"]
mod record;
mod requests;
mod resets;
#[path = "../rivals/runner.rs"]
mod runner;
mod serve;
#[path = "../system.rs"]
mod system;
mod table;
mod timers;
mod workload;

use args::{Args, Child};
use bar::Bar;
use command_line::{parse, wrong};
use job::Job;
use line::{Figures, Line};
use record::Record;
use std::process::ExitCode;
use workload::Workload;

/// Whose versions are told.
const RIVALS: [&str; 3] = ["hyper", "tokio", "pingora-timeout"];

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match &args.child {
        Some(Child::Measure { job }) => return runner::answer(measure(job)),
        Some(Child::Serve { settings }) => {
            return match serve::serve(settings) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => wrong::<Args>(&why),
            };
        }
        None => {}
    }
    match args.check().and_then(|()| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => wrong::<Args>(&why),
    }
}

/// One measurement.
fn measure(job: &Job) -> Result<Figures, String> {
    match job.workload {
        Workload::Requests | Workload::RequestsPaced => requests::measure(job),
        Workload::Resets | Workload::ResetsPaced => resets::measure(job),
    }
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    let machine = machine::describe(&RIVALS);
    let mut record = Record::create(args.common.json.as_deref(), &machine)?;
    println!("{machine}");
    let groups: Vec<Vec<Job>> = args.groups();
    let bar = Bar::new(groups.iter().map(Vec::len).sum::<usize>() * args.reps());
    for jobs in &groups {
        let mut lines: Vec<Line> = jobs.iter().map(Job::blank).collect();
        let command = |line: &Line, repetition| {
            let job = jobs.iter().find(|job| job.timers.text() == line.subject).ok_or("no such timers")?;
            let mut command = runner::itself()?;
            command.arg("measure").args(job.arguments(repetition));
            parent::end_with_us(&mut command);
            Ok(command)
        };
        runner::measure(&mut lines, args.reps(), args.common.timeout, command, |what| bar.step(what));
        bar.print(&table::group(&jobs[0], &lines));
        record.add(lines.iter().map(Line::to_json))?;
    }
    bar.finish();
    Ok(())
}
