//! `rivals`: wheelwork against other timers, in the workloads that matter to it.

mod args;
mod bar;
mod book;
#[path = "../command_line.rs"]
mod command_line;
mod crew;
mod fires;
mod goals;
mod growth;
mod job;
mod line;
mod machine;
mod memory;
mod quantity;
mod rest;
mod runner;
mod subjects;
#[path = "../system.rs"]
mod system;
mod table;
mod throughput;
mod workload;

use args::{Args, Child, Group};
use bar::Bar;
use command_line::{parse, wrong};
use job::Job;
use line::Line;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
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
    match subject.measure(job) {
        Ok(figures) => {
            println!("{}", figures.to_json());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    let mut json = match &args.json {
        Some(file) => Some(File::create(file).map_err(|error| format!("--json {}: {error}", file.display()))?),
        None => None,
    };
    println!("{}", machine::describe(&RIVALS));
    let groups = args.groups();
    let bar = Bar::new(groups.len() * args.subjects().len() * args.reps());
    let mut all: Vec<Line> = Vec::new();
    for group in groups {
        let lines = measure(args, group, &bar);
        bar.print(&table::group(group, &lines));
        if let Some(json) = &mut json {
            let text: String = lines.iter().map(|line| line.to_json() + "\n").collect();
            json.write_all(text.as_bytes()).map_err(|error| format!("--json: {error}"))?;
        }
        all.extend(lines);
    }
    bar.finish();
    for workload in ["w1", "w3"] {
        if let Some(text) = growth::growth(workload, &all) {
            print!("{text}");
        }
    }
    print!("{}", goals::distance(&all));
    Ok(())
}

/// The measurements of a group.
fn measure(args: &Args, group: Group, bar: &Bar) -> Vec<Line> {
    let Group { workload, timers, threads } = group;
    let mut lines: Vec<Line> = args.subjects().iter().map(|subject| subject.blank(group)).collect();
    let arguments = |line: &Line, repetition| {
        let job = Job { workload, timers, threads, seed: args.seed.wrapping_add(repetition as u64), quick: args.quick };
        ["--subject".to_string(), line.subject.clone()].into_iter().chain(job.arguments()).collect()
    };
    runner::measure(&mut lines, args.reps(), args.timeout, arguments, |what| bar.step(what));
    lines
}
