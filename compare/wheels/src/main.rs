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
use wheelwork_kit::beside::{self, head};
use wheelwork_kit::campaign::{self, Choice, Measurement, Options};
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, count, each_once, say_text};
use wheelwork_kit::system;
use wheelwork_kit::table::{Column, growth};
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

    #[command(flatten)]
    choice: Choice<Name, Workload>,

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
    let sizes = args.options.sizes(&args.timers, &TIMERS, &TIMERS_QUICK);
    let sizes = sizes.as_slice();
    let most = sizes.iter().max().copied().unwrap_or(0);
    system::check_memory(most, BYTES_PER_TIMER)?;
    let workloads = args.choice.workloads();
    let groups = workloads
        .iter()
        .flat_map(|&workload| sizes.iter().map(move |&timers| (workload, timers)));
    let groups = each_once(groups);
    let measurements = |&(workload, timers): &(Workload, usize)| {
        let subjects = args.choice.subjects().into_iter();
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
    let line = Line::of(&subject, &workload, 1, timers);
    let measurement = Measurement::own(line, &format!("--timers {timers}"));
    measurement.told(subject.refuses(workload, timers), subject.remark(workload))
}

/// A group's table; the last column says how many times as long as wheelwork a subject takes.
fn table(&(workload, timers): &(Workload, usize), lines: &[Line]) -> String {
    let columns = workload.columns();
    let ours = lines.iter().find(|line| line.subject == "wheelwork");
    let ours = ours.and_then(|line| line.median(columns[0].figure));
    let head = head(&workload, &format!("{timers} timers"));
    // More time is no more of what is better: the ratio is told the other way round.
    let first = Column {
        higher_is_better: true,
        ..columns[0]
    };
    let columns = [&[first], &columns[1..]].concat();
    beside::table(&head, &columns, lines, ours, Column::median)
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
