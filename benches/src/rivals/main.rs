//! `rivals`: wheelwork against other timers, in the workloads that matter to it.

mod args;
mod book;
#[path = "../command_line.rs"]
mod command_line;
mod crew;
mod fires;
mod goals;
mod job;
mod line;
mod machine;
mod memory;
mod rest;
mod runner;
mod subjects;
#[path = "../system.rs"]
mod system;
mod table;
mod throughput;
mod workload;

use args::{Args, Child};
use command_line::{parse, wrong};
use indicatif::{ProgressBar, ProgressStyle};
use job::Job;
use line::Line;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use subjects::Name;

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
    println!("{}", machine::describe());
    let groups = args.groups();
    let bar = ProgressBar::new((groups.len() * args.subjects().len() * args.reps()) as u64);
    let style = ProgressStyle::with_template("[{bar:40}] {pos} of {len}, {eta} left: {msg}").expect("the template is right");
    bar.set_style(style.progress_chars("=> "));
    let mut all: Vec<Line> = Vec::new();
    for group in groups {
        let lines = runner::measure(args, group, |what| {
            bar.inc(1);
            if bar.is_hidden() && !what.is_empty() {
                eprintln!("{} of {}: {what}", bar.position(), bar.length().unwrap_or(0));
            }
            bar.set_message(what.to_string());
        });
        bar.suspend(|| print!("{}", table::group(group, &lines)));
        if let Some(json) = &mut json {
            let text: String = lines.iter().map(|line| line.to_json() + "\n").collect();
            json.write_all(text.as_bytes()).map_err(|error| format!("--json: {error}"))?;
        }
        all.extend(lines);
    }
    bar.finish_and_clear();
    for workload in ["w1", "w3"] {
        if let Some(text) = table::growth(workload, &all) {
            print!("{text}");
        }
    }
    print!("{}", goals::distance(&all));
    Ok(())
}
