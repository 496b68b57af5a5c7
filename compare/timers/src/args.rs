//! The command line of `timers`.

use crate::external::External;
use crate::job::Job;
use crate::name::Name;
use crate::workload::{WINDOWS, Workload};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use wheelwork_kit::campaign::{Choice, Cores, Options};
use wheelwork_kit::program::{self, count, each_once};
use wheelwork_kit::system;

/// The most that a timer and its harness take in any subject.
const BYTES_PER_TIMER: u64 = 400;

const TIMERS: usize = 1_000_000;
const TIMERS_MANY: usize = 10_000_000;
const TIMERS_QUICK: usize = 50_000;
const RATE_QUICK: usize = 10_000;

/// In most workloads.
const TIMERS_MIN: usize = 100;

/// Timers that each producer of W11 leaves pending, and producers.
const WINDOW_QUICK: usize = 1_000;
const PRODUCERS_MANY: usize = 16;

/// wheelwork against other timers, in the same run: one process for each measurement, subjects in
/// turn, medians.
///
/// Ends with the distance to the goals. Everything takes more than four hours: w9 and w10, with
/// their rates, some 90 minutes of it, 7 s for each measurement; w11 two hours. It takes twice that
/// on a machine whose cores are near each other for half of the time. --quick takes four minutes,
/// for figures that only show that it works. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "timers",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    choice: Choice<Name, Workload>,

    /// One more subject: a program that takes a measurement's arguments and prints its figures as a
    /// JSON object, as scripts/bench netty does
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = External::parse)]
    pub(crate) external: Vec<External>,

    /// Sizes, 100 to 100,000,000 timers, of w9 and w10 in a second, of w11 pending for each thread
    /// and from 1 on; k and M are understood [default: 1M; w6 with 10M too; w9 100 to 100k, w10 1k
    /// to 1M, w10-fast and w10-slow 10k and 100k; w11 1, 1k, 8k, 64k, 1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=100_000_000))]
    timers: Vec<usize>,

    /// Producer threads, 1 to 256 [default: 1, and one for each core; w11 16 too]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=256))]
    threads: Vec<usize>,

    /// Count runs however long a cache line takes between two cores. By default a measurement has
    /// more runs until it has its repetitions while that was at most 200 ns, there and back: four
    /// times as many at the most. Those in which it took longer are told apart, and one during
    /// which it has changed is dropped. With --quick it is not looked at
    #[arg(long)]
    any_distance: bool,

    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
    /// The goals by figures that --json has written: prints the verdicts, and writes them in place
    /// of those in the file
    Verdicts {
        /// The file
        figures: PathBuf,
    },
}

/// Measurements that are compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) workload: Workload,
    pub(crate) timers: usize,
    pub(crate) threads: usize,
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        let groups = self.groups();
        let few = groups
            .iter()
            .find(|group| group.timers < TIMERS_MIN && !group.workload.has_windows());
        if let Some(Group { workload, .. }) = few {
            let name = program::name(workload);
            return Err(format!("{name} takes {TIMERS_MIN} timers at least"));
        }
        let timers = groups.iter().map(|group| {
            let times = if group.workload.has_windows() {
                group.threads
            } else {
                1
            };
            group.timers.saturating_mul(times)
        });
        system::check_memory(timers.max().unwrap_or(0), BYTES_PER_TIMER)
    }

    pub(crate) fn options(&self) -> Options {
        let cores = match (self.options.quick, self.any_distance) {
            (true, _) => Cores::Unwatched,
            (false, true) => Cores::Told,
            (false, false) => Cores::Near,
        };
        let mut options = self.options.clone();
        options.cores = cores;
        options
    }

    pub(crate) fn subjects(&self) -> Vec<Name> {
        let mut subjects = self.choice.subjects();
        // It is another program's, which has its own name.
        subjects.retain(|&subject| subject != Name::Library);
        subjects
    }

    /// What is to be measured, in order, each once.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let workloads = self.choice.workloads().into_iter();
        each_once(workloads.flat_map(|workload| self.groups_of(workload)))
    }

    fn groups_of(&self, workload: Workload) -> Vec<Group> {
        let quick = self.options.quick;
        let sizes = match (self.timers.as_slice(), workload.rates()) {
            _ if workload == Workload::Growth && quick => vec![10_000, TIMERS_QUICK],
            _ if workload == Workload::Growth => vec![10_000, 100_000, TIMERS, TIMERS_MANY],
            ([], Some(_)) if quick => vec![RATE_QUICK],
            ([], Some(rates)) => rates.to_vec(),
            ([], None) if workload.has_windows() && quick => vec![WINDOW_QUICK],
            ([], None) if workload.has_windows() => WINDOWS.to_vec(),
            ([], None) if quick => vec![TIMERS_QUICK],
            ([], None) if workload == Workload::W6 => vec![TIMERS, TIMERS_MANY],
            ([], None) => vec![TIMERS],
            (sizes, _) => sizes.to_vec(),
        };
        let threads = match self.threads.as_slice() {
            _ if !workload.has_threads() => vec![1],
            [] if workload.has_windows() && !quick => vec![1, system::cores(), PRODUCERS_MANY],
            [] if system::cores() == 1 => vec![1],
            [] => vec![1, system::cores()],
            threads => threads.to_vec(),
        };
        let workloads = match workload {
            Workload::Growth => vec![Workload::W1, Workload::W3],
            one => vec![one],
        };
        let mut groups = Vec::new();
        for &workload in &workloads {
            for &timers in &sizes {
                groups.extend(threads.iter().map(|&threads| Group {
                    workload,
                    timers,
                    threads,
                }));
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workload, timers and threads of each group.
    fn groups(text: &str) -> Vec<(Workload, usize, usize)> {
        let words = ["timers"].into_iter().chain(text.split_whitespace());
        let args = Args::try_parse_from(words).expect("it is right");
        let groups = args.groups().into_iter();
        groups
            .map(|group| (group.workload, group.timers, group.threads))
            .collect()
    }

    #[test]
    fn lists_make_groups() {
        let groups = groups("--workloads w2,w3 --timers 10k,20k --threads 1,2");
        assert_eq!(groups.len(), 8);
        assert_eq!(groups[1], (Workload::W2, 10_000, 2));
    }

    #[test]
    fn workloads_have_their_own_rates() {
        let fast = |timers, threads| (Workload::W10Fast, timers, threads);
        assert_eq!(
            groups("--workloads w10-fast --threads 1,2"),
            [
                fast(10_000, 1),
                fast(10_000, 2),
                fast(100_000, 1),
                fast(100_000, 2)
            ]
        );
        assert_eq!(
            groups("--workloads w9 --timers 100 --threads 1,2"),
            [(Workload::W9, 100, 1)],
            "one thread arms"
        );
        let quick = groups("--workloads w9-periodic --quick");
        assert_eq!(quick, [(Workload::W9Periodic, RATE_QUICK, 1)]);
    }

    #[test]
    fn no_group_comes_twice() {
        let groups = groups("--workloads w3,growth --threads 1");
        let of_w3 = groups.iter().filter(|group| group.0 == Workload::W3);
        assert_eq!((groups.len(), of_w3.count()), (8, 4));
    }
}
