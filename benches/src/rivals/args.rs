//! The command line of `rivals`.

use crate::common::Common;
use crate::external::External;
use crate::job::Job;
use crate::quantity;
use crate::subjects::Name;
use crate::system;
use crate::workload::Workload;
use clap::{Parser, Subcommand, ValueEnum};

/// The most that a timer and its harness take in any subject.
const BYTES_PER_TIMER: u64 = 400;

const TIMERS: usize = 1_000_000;
const TIMERS_MANY: usize = 10_000_000;
const TIMERS_QUICK: usize = 50_000;
const RATE_QUICK: usize = 10_000;

/// wheelwork against other timers, in the same run: one process for each measurement, subjects in turn, medians.
///
/// Ends with the distance to the goals. Everything takes more than two hours: w9 and w10, with
/// their rates, some 90 minutes of it, 7 s for each measurement. --quick takes four minutes, for
/// figures that only show that it works. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(name = "rivals", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) child: Option<Child>,

    /// Subjects to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) subjects: Vec<Name>,

    /// One more subject: a program that takes a measurement's arguments and prints its figures as a JSON object, as scripts/rivals-netty does
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = External::parse)]
    pub(crate) external: Vec<External>,

    /// Workloads to measure [default: all]; growth: w1 and w3 at 10 k to 10 M timers on one thread
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workloads: Vec<Choice>,

    /// Sizes, 100 to 100,000,000 timers, of w9 and w10 in a second; k and M are understood [default:
    /// 1M; w6 with 10M too; w9 100 to 100k, w10 1k to 1M, w10-fast and w10-slow 10k and 100k]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = timers)]
    timers: Vec<usize>,

    /// Producer threads, 1 to 256 [default: 1, and one for each core]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Vec<u16>,

    /// Repetitions of each measurement, 1 to 1,000 [default: 3; with --quick 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    reps: Option<u16>,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Child {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure {
        #[arg(long)]
        subject: Name,
        #[command(flatten)]
        job: Job,
    },
}

/// What `--workloads` takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    One(Workload),
    Growth,
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        use Workload::*;
        &[
            Self::One(W1),
            Self::One(W1Cold),
            Self::One(W2),
            Self::One(W2b),
            Self::One(W3),
            Self::One(W4),
            Self::One(W5),
            Self::One(W5b),
            Self::One(W6),
            Self::One(W7),
            Self::One(W8),
            Self::One(W9),
            Self::One(W9Periodic),
            Self::One(W10),
            Self::One(W10Fast),
            Self::One(W10Slow),
            Self::Growth,
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::One(workload) => workload.to_possible_value(),
            Self::Growth => Some(clap::builder::PossibleValue::new("growth").help("W1 and W3 at 10 k to 10 M timers on one thread")),
        }
    }
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
        let most = self.groups().iter().map(|group| group.timers).max().unwrap_or(0);
        system::check_memory(most, BYTES_PER_TIMER)
    }

    pub(crate) fn subjects(&self) -> Vec<Name> {
        if self.subjects.is_empty() { Name::value_variants().to_vec() } else { self.subjects.clone() }
    }

    pub(crate) fn reps(&self) -> usize {
        self.reps.map_or(if self.common.quick { 1 } else { 3 }, usize::from)
    }

    fn threads(&self) -> Vec<usize> {
        if !self.threads.is_empty() {
            return self.threads.iter().copied().map(usize::from).collect();
        }
        let mut threads = vec![1, system::cores()];
        threads.dedup();
        threads
    }

    /// What is to be measured, in order, each once.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let choices = if self.workloads.is_empty() { Choice::value_variants() } else { &self.workloads };
        let mut groups = Vec::new();
        for &choice in choices {
            let more = match choice {
                Choice::One(workload) => self.groups_of(workload),
                Choice::Growth => self.growth(),
            };
            for group in more {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        groups
    }

    fn groups_of(&self, workload: Workload) -> Vec<Group> {
        let mut sizes = self.timers.clone();
        if sizes.is_empty() {
            if let Some(rates) = workload.rates() {
                sizes.extend(if self.common.quick { &[RATE_QUICK] } else { rates });
            } else {
                sizes.push(if self.common.quick { TIMERS_QUICK } else { TIMERS });
            }
            if workload == Workload::W6 && !self.common.quick {
                sizes.push(TIMERS_MANY);
            }
        }
        let threads = if workload.has_threads() { self.threads() } else { vec![1] };
        sizes.iter().flat_map(|&timers| threads.iter().map(move |&threads| Group { workload, timers, threads })).collect()
    }

    fn growth(&self) -> Vec<Group> {
        let sizes: &[usize] = if self.common.quick { &[10_000, TIMERS_QUICK] } else { &[10_000, 100_000, TIMERS, TIMERS_MANY] };
        let workloads = [Workload::W1, Workload::W3];
        workloads.iter().flat_map(|&workload| sizes.iter().map(move |&timers| Group { workload, timers, threads: 1 })).collect()
    }
}

fn timers(text: &str) -> Result<usize, String> {
    quantity::count(text, 100..=100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(["rivals"].into_iter().chain(text.split_whitespace()))
    }

    #[test]
    fn lists_make_groups() {
        let args = parse("--subjects heap,btree --workloads w2,w3 --timers 10k,20k --threads 1,2 --reps 5").expect("it is right");
        assert_eq!(args.subjects(), [Name::Heap, Name::Btree]);
        assert_eq!((args.reps(), args.groups().len()), (5, 8));
        assert_eq!(args.groups()[1], Group { workload: Workload::W2, timers: 10_000, threads: 2 });
    }

    #[test]
    fn workloads_have_their_own_rates() {
        let rates = |text| {
            let groups = parse(text).expect("it is right").groups();
            groups.iter().map(|group| (group.timers, group.threads)).collect::<Vec<_>>()
        };
        assert_eq!(rates("--workloads w10-fast --threads 1,2"), [(10_000, 1), (10_000, 2), (100_000, 1), (100_000, 2)]);
        assert_eq!(rates("--workloads w9 --timers 100 --threads 1,2"), [(100, 1)], "one thread arms");
        assert_eq!(rates("--workloads w9-periodic --quick"), [(RATE_QUICK, 1)]);
    }

    #[test]
    fn no_group_comes_twice() {
        let args = parse("--workloads w3,growth --threads 1").expect("it is right");
        let groups = args.groups();
        assert_eq!(groups.len(), 8);
        assert_eq!(groups.iter().filter(|group| group.workload == Workload::W3 && group.timers == 1_000_000).count(), 1);
    }

    #[test]
    fn wrong_arguments() {
        for wrong in [
            "--subjects nobody",
            "--workloads w99",
            "--timers 99",
            "--threads 0",
            "--threads 257",
            "--reps 0",
            "--timeout 0s",
            "--timeout soon",
            "--external netty",
            "--external =netty",
            "--external netty=/no/such/program",
            "--external tokio=/bin/true",
            "surplus",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_child_is_told_its_job() {
        let job = Job { workload: Workload::W2b, timers: 1_000, threads: 2, seed: 7, quick: true };
        let args = parse(&format!("measure --subject btree {}", job.arguments().join(" "))).expect("it is right");
        let Some(Child::Measure { subject, job: read }) = args.child else { panic!("no child") };
        assert_eq!((subject, read), (Name::Btree, job));
    }
}
