//! `wheels`: wheelwork's wheel alone, on one thread and without a clock, against other wheels and
//! the schemes of the literature.

mod job;
mod measure;
mod name;
mod rounds;
mod subjects;
mod watch;
mod workload;

use clap::{Parser, Subcommand};
use job::Job;
use name::Name;
use std::process::ExitCode;
use wheelwork_kit::campaign::{self, Measurement, Options};
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, chosen, count, say_text};
use wheelwork_kit::system;
use wheelwork_kit::table::{self, growth, times};
use workload::Workload;

/// The most that a timer and its harness take in any subject: bitwheel's empty slots.
const BYTES_PER_TIMER: u64 = 700;

const TIMERS: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const TIMERS_QUICK: [usize; 2] = [1_000, 10_000];

/// Whose versions are told.
const RIVALS: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &[
        "nexus-timer",
        "bitwheel",
        "hierarchical_hash_wheel_timer",
        "tokio",
        "tokio-util",
    ],
};

/// wheelwork's wheel alone, on one thread and without a clock, against other wheels and the schemes
/// of the literature: one process for each measurement, subjects in turn, medians.
///
/// Everything takes about an hour; --quick a minute, for figures that only show that it works. Exit
/// codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "wheels",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Subjects to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Vec<Name>,

    /// Workloads to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workloads: Vec<Workload>,

    /// Sizes, 10 to 100,000,000 timers; k and M are understood [default: 10,100,1k,10k,100k,1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(10..=100_000_000))]
    timers: Vec<usize>,

    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
}

fn main() -> ExitCode {
    program::run(|args: &Args| {
        if let Some(Command::Measure(job)) = &args.command {
            return Ok(campaign::child(|| measure::measure(job)));
        }
        run(args)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// All measurements.
fn run(args: &Args) -> Result<(), String> {
    let sizes: &[usize] = match args.timers.as_slice() {
        [] if args.options.quick => &TIMERS_QUICK,
        [] => &TIMERS,
        sizes => sizes,
    };
    let most = sizes.iter().max().copied().unwrap_or(0);
    system::check_memory(most, BYTES_PER_TIMER)?;
    let workloads = chosen(&args.workloads);
    let mut groups = Vec::new();
    for &workload in &workloads {
        for &timers in sizes {
            if !groups.contains(&(workload, timers)) {
                groups.push((workload, timers));
            }
        }
    }
    let measurements = |&(workload, timers): &(Workload, usize)| {
        let subjects = chosen(&args.subjects).into_iter();
        subjects
            .map(|subject| measurement(subject, workload, timers))
            .collect()
    };
    let (lines, _) = campaign::run(&args.options, RIVALS, &groups, measurements, table)?;
    let growths = workloads
        .iter()
        .filter_map(|workload| growth(&program::name(workload), &lines));
    growths.for_each(|text| say_text(&text));
    Ok(())
}

fn measurement(subject: Name, workload: Workload, timers: usize) -> Measurement {
    let (name, work) = (program::name(&subject), program::name(&workload));
    let mut line = Line::new(&name, &work, 1, timers);
    line.skipped = subject.refuses(workload, timers).map(ToString::to_string);
    line.remark = subject.remark(workload).map(ToString::to_string);
    Measurement {
        line,
        arguments: format!("measure --subject {name} --workload {work} --timers {timers}"),
        program: None,
    }
}

/// A group's table; the last column says how many times as long as wheelwork a subject takes.
fn table(&(workload, timers): &(Workload, usize), lines: &[Line]) -> String {
    let columns = workload.columns();
    let ns = |line: &Line| line.median(columns[0].figure);
    let ours = lines
        .iter()
        .find(|line| line.subject == "wheelwork")
        .and_then(ns);
    let (name, about) = (program::name(&workload), program::about(&workload));
    let mut titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    titles.push("ratio");
    let head = format!("{name} {timers} timers\n  {about}");
    table::table(&head, &titles, &columns[0], lines, |line| {
        let ratio = ns(line).zip(ours).map(|(own, ours)| own / ours);
        let cells = columns.iter().map(|column| column.median(line));
        cells.chain([times(ratio)]).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    #[test]
    fn ratios_are_by_our_own() {
        let line = |name: Name, ns| {
            let mut line = measurement(name, Workload::Cancel, 100_000).line;
            line.summarize(&[Figures::from([("ns_per_op", ns), ("call_ns_p50", 7.0)])]);
            line
        };
        let skipped = measurement(Name::OrderedList, Workload::Cancel, 100_000).line;
        let lines = [
            line(Name::Wheelwork, 20.0),
            line(Name::Btree, 50.0),
            skipped,
        ];
        let text = table(&(Workload::Cancel, 100_000), &lines);
        for told in [
            "1.00 x  20.0 - 20.0",
            "2.50 x  50.0 - 50.0",
            "not above 10,000 timers",
        ] {
            assert!(text.contains(told), "{told} in {text}");
        }
    }
}
