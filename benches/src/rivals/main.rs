//! `rivals`: wheelwork against other timers, in the workloads that matter to it.

mod args;
mod bar;
mod book;
#[path = "../command_line.rs"]
mod command_line;
mod common;
mod crew;
mod external;
mod fires;
mod goals;
mod growth;
mod job;
mod line;
mod machine;
mod memory;
mod paced;
mod quantity;
mod record;
mod rest;
mod runner;
mod subjects;
#[path = "../system.rs"]
mod system;
mod table;
mod throughput;
mod usage;
mod workload;

use args::{Args, Child, Group};
use bar::Bar;
use command_line::{parse, wrong};
use goals::Claim;
use job::Job;
use line::Line;
use record::Record;
use std::process::{Command, ExitCode};
use subjects::Name;

/// Whose versions are told.
const RIVALS: [&str; 5] = ["tokio", "tokio-util", "hierarchical_hash_wheel_timer", "pingora-timeout", "async-io"];

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Some(Child::Measure { subject, job }) = &args.child {
        return child(*subject, job);
    }
    match args.check().and_then(|()| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => wrong::<Args>(&why),
    }
}

/// One measurement. Its threads end with the process.
fn child(subject: Name, job: &Job) -> ExitCode {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        // The other threads would wait for this one.
        std::process::exit(101);
    }));
    runner::answer(subject.measure(job))
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    let machine = machine::describe(&RIVALS);
    let mut record = Record::create(args.common.json.as_deref(), &machine)?;
    println!("{machine}");
    let groups = args.groups();
    let bar = Bar::new(groups.len() * (args.subjects().len() + args.external.len()) * args.reps());
    let mut all: Vec<Line> = Vec::new();
    for group in groups {
        let lines = measure(args, group, &bar);
        bar.print(&table::group(group, &lines));
        record.add(lines.iter().map(Line::to_json))?;
        all.extend(lines);
    }
    bar.finish();
    for workload in ["w1", "w3"] {
        if let Some(text) = growth::growth(workload, &all) {
            print!("{text}");
        }
    }
    let claims = goals::claims(&all);
    print!("{}", goals::distance(&claims));
    record.add(claims.iter().map(Claim::to_json))
}

/// The measurements of a group.
fn measure(args: &Args, group: Group, bar: &Bar) -> Vec<Line> {
    let Group { workload, timers, threads } = group;
    let own = args.subjects();
    let own = own.iter().map(|subject| subject.blank(group));
    let mut lines: Vec<Line> = own.chain(args.external.iter().map(|external| external.blank(group))).collect();
    let command = |line: &Line, repetition| {
        let job = Job { workload, timers, threads, seed: args.common.seed.wrapping_add(repetition as u64), quick: args.common.quick };
        let external = args.external.iter().find(|external| external.name == line.subject);
        let mut command = external.map_or_else(runner::itself, |external| Ok(Command::new(&external.program)))?;
        command.args(["measure", "--subject", &line.subject]).args(job.arguments());
        Ok(command)
    };
    runner::measure(&mut lines, args.reps(), args.common.timeout, command, |what| bar.step(what));
    lines
}
