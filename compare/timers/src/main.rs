//! `timers`: wheelwork against other timers, in the workloads that matter to it.

mod args;
mod compare;
mod external;
mod fires;
mod goals;
mod in_flight;
mod job;
mod ledger;
mod measure;
mod memory;
mod name;
mod paced;
mod producers;
mod rest;
mod subjects;
mod throughput;
mod usage;
mod workload;

use args::{Args, Command, Group};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use wheelwork_kit::campaign::{self, Measurement};
use wheelwork_kit::goals::Claim;
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, say_text};
use wheelwork_kit::table::growth;

/// Whose versions are told.
const RIVALS: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &[
        "tokio",
        "tokio-util",
        "hierarchical_hash_wheel_timer",
        "pingora-timeout",
        "async-io",
    ],
};

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.command {
            Some(Command::Measure(job)) => return Ok(campaign::child(|| measure::measure(job))),
            Some(Command::Verdicts { figures }) => verdicts(figures)?,
            None => run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    let table = |group: &Group, lines: &[Line]| compare::table(group, lines);
    let (lines, mut record) = campaign::run(
        &args.options(),
        RIVALS,
        &args.groups(),
        |group| measurements(args, group),
        table,
    )?;
    let growths = ["w1", "w3"].map(|workload| growth(workload, &lines));
    growths.iter().flatten().for_each(|text| say_text(text));
    let claims = goals::claims(&lines);
    say_text(&goals::distance(&claims));
    record.add(claims.iter().map(Claim::to_json))
}

/// The verdicts of figures that were written before.
fn verdicts(file: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(failed)?;
    let lines: Vec<_> = text.lines().filter_map(Line::from_json).collect();
    if lines.is_empty() {
        return Err(format!("{} has no figures", file.display()));
    }
    let claims = goals::claims(&lines);
    let kept = text.lines().filter(|line| !line.starts_with("{\"goal\""));
    let verdicts = claims.iter().map(|claim| claim.to_json().to_string());
    let anew = kept.map(str::to_string).chain(verdicts);
    let anew = anew.fold(String::new(), |text, line| text + &line + "\n");
    fs::write(file, anew).map_err(failed)?;
    say_text(&goals::distance(&claims));
    Ok(())
}

/// The measurements of a group.
fn measurements(args: &Args, group: &Group) -> Vec<Measurement> {
    let Group {
        workload,
        timers,
        threads,
    } = *group;
    let named = program::name(&workload);
    let measurement = |subject: &str| {
        let line = Line::new(subject, &named, threads, timers);
        Measurement::own(line, &format!("--timers {timers} --threads {threads}"))
    };
    let own = args.subjects().into_iter().map(|subject| {
        let (refused, remark) = (subject.refuses(workload), subject.remark(workload));
        measurement(&program::name(&subject)).told(refused, remark)
    });
    let externals = args.external.iter().map(|external| Measurement {
        program: Some(external.program.clone()),
        ..measurement(&external.name)
    });
    own.chain(externals).collect()
}
