//! `wheels`: wheelwork's wheel alone, on one thread and without a clock, against other wheels and the schemes of the literature.

mod args;
#[path = "../rivals/bar.rs"]
mod bar;
#[path = "../command_line.rs"]
mod command_line;
#[path = "../rivals/common.rs"]
mod common;
#[path = "../rivals/growth.rs"]
mod growth;
mod job;
#[path = "../rivals/line.rs"]
mod line;
#[path = "../rivals/machine.rs"]
mod machine;
mod measure;
mod name;
#[path = "../rivals/quantity.rs"]
mod quantity;
#[path = "../rivals/record.rs"]
mod record;
#[path = "../rivals/runner.rs"]
mod runner;
mod subjects;
#[path = "../system.rs"]
mod system;
mod table;
mod watch;
mod workload;

use args::{Args, Child};
use bar::Bar;
use clap::ValueEnum;
use command_line::{parse, wrong};
use job::Job;
use line::Line;
use record::Record;
use std::process::ExitCode;
use workload::Workload;

/// Whose versions are told.
const RIVALS: [&str; 5] = ["nexus-timer", "bitwheel", "hierarchical_hash_wheel_timer", "tokio", "tokio-util"];

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Some(Child::Measure { subject, job }) = &args.child {
        return runner::answer(subject.measure(job));
    }
    match args.check().and_then(|()| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => wrong::<Args>(&why),
    }
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    let machine = machine::describe(&RIVALS);
    let mut record = Record::create(args.common.json.as_deref(), &machine)?;
    println!("{machine}");
    let groups = args.groups();
    let bar = Bar::new(groups.len() * args.subjects().len() * args.reps());
    let mut all: Vec<Line> = Vec::new();
    for (workload, timers) in groups {
        let lines = measure(args, workload, timers, &bar);
        bar.print(&table::group(workload, timers, &lines));
        record.add(lines.iter().map(Line::to_json))?;
        all.extend(lines);
    }
    bar.finish();
    let tables = Workload::value_variants().iter().filter_map(|workload| growth::growth(&workload.text(), &all));
    tables.for_each(|text| print!("{text}"));
    Ok(())
}

/// The measurements of one workload and size.
fn measure(args: &Args, workload: Workload, timers: usize, bar: &Bar) -> Vec<Line> {
    let mut lines: Vec<Line> = args.subjects().iter().map(|subject| subject.blank(workload, timers)).collect();
    let command = |line: &Line, repetition| {
        let job = Job { workload, timers, seed: args.common.seed.wrapping_add(repetition as u64), quick: args.common.quick };
        let mut command = runner::itself()?;
        command.args(["measure", "--subject", &line.subject]).args(job.arguments());
        Ok(command)
    };
    runner::measure(&mut lines, args.reps(), args.common.timeout, command, |what| bar.step(what));
    lines
}
