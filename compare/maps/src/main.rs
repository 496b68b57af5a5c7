//! `maps`: maps whose values expire, each at a time of its own. wheelwork's `DelayMap` and caches.

mod clock;
mod job;
mod measure;
mod name;
mod phase;
mod subjects;
mod workload;

use clap::{Parser, Subcommand};
use job::Job;
use name::Name;
use std::process::ExitCode;
use wheelwork_kit::beside;
use wheelwork_kit::campaign::{self, Choice, Measurement, Options};
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, count, each_once};
use wheelwork_kit::system;
use wheelwork_kit::table::Column;
use workload::Workload;

/// The most that an entry and the choices of the harness take in any subject.
const BYTES_PER_ENTRY: u64 = 800;

const ENTRIES: [usize; 2] = [100_000, 1_000_000];
const ENTRIES_QUICK: [usize; 1] = [10_000];

/// Whose versions are told.
const PACKAGES: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &["moka", "quick_cache"],
};

/// wheelwork's `DelayMap` against caches: one process for each measurement, subjects in turn,
/// medians.
///
/// Everything takes a quarter of an hour; --quick half a minute, for figures that only show that it
/// works. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "maps",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    choice: Choice<Name, Workload>,

    /// Threads that use the map, 1 to 64 [default: 1,2]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=64))]
    threads: Vec<usize>,

    /// Sizes, 1,000 to 10,000,000 entries; k and M are understood [default: 100k,1M; with --quick
    /// 10k]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1_000..=10_000_000))]
    entries: Vec<usize>,

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

/// A workload, its threads, and its entries.
type Group = (Workload, usize, usize);

/// All measurements: those of a group differ in their subjects.
fn run(args: &Args) -> Result<(), String> {
    let options = &args.options;
    let threads = options.sizes(&args.threads, &[1, 2], &[1, 2]);
    let entries = options.sizes(&args.entries, &ENTRIES, &ENTRIES_QUICK);
    let most = entries.iter().max().copied().unwrap_or(0);
    system::check_memory(most, BYTES_PER_ENTRY)?;
    let mut groups = Vec::new();
    for workload in args.choice.workloads() {
        for &entries in &entries {
            for &threads in workload.threads(&threads) {
                groups.push((workload, threads, entries));
            }
        }
    }
    let measurements = |&(workload, threads, entries): &Group| {
        let subjects = args.choice.subjects().into_iter();
        let measurement = |subject: Name| {
            let line = Line::of(&subject, &workload, threads, entries);
            let more = format!("--threads {threads} --entries {entries}");
            let measurement = Measurement::own(line, &more);
            measurement.told(subject.refuses(workload, threads), subject.remark(workload))
        };
        subjects.map(measurement).collect()
    };
    let groups = each_once(groups);
    campaign::run(options, PACKAGES, &groups, measurements, table)?;
    Ok(())
}

/// A group's table; the last column says how many times better than moka's `Cache` a subject is.
fn table(&(workload, threads, entries): &Group, lines: &[Line]) -> String {
    let columns = workload.columns();
    let moka = lines.iter().find(|line| line.subject == "moka");
    let moka = moka.and_then(|line| line.median(columns[0].figure));
    let plural = if threads == 1 { "" } else { "s" };
    let how_much = format!("{entries} entries, {threads} thread{plural}");
    let head = beside::head(&workload, &how_much);
    beside::table(&head, &columns, lines, moka, Column::median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    #[test]
    fn mokas_is_what_others_are_compared_with() {
        let line = |subject, mops, bytes| {
            let mut line = Line::new(subject, "", 1, 1_000);
            line.summarize(&[Figures::from([("mops", mops), ("bytes_per_entry", bytes)])]);
            line
        };
        let lines = [line("moka", 2.0, 200.0), line("wheelwork", 5.0, 100.0)];
        for (workload, told) in [
            (Workload::Get, "2.50 x  5.00 - 5.00"),
            (Workload::Memory, "2.00 x  100.0 - 100.0"),
        ] {
            let text = table(&(workload, 1, 1_000), &lines);
            assert!(text.contains("1000 entries, 1 thread\n"), "{text}");
            assert!(text.contains(told), "{told} in {text}");
        }
    }
}
