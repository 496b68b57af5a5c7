//! The command line of `wheels`.

use crate::common::Common;
use crate::job::Job;
use crate::name::Name;
use crate::quantity;
use crate::system;
use crate::workload::Workload;
use clap::{Parser, Subcommand, ValueEnum};

/// The most that a timer and its harness take in any subject: bitwheel's empty slots.
const BYTES_PER_TIMER: u64 = 700;

const TIMERS: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const TIMERS_QUICK: [usize; 2] = [1_000, 10_000];

/// wheelwork's wheel alone, on one thread and without a clock, against other wheels and the schemes of the literature.
///
/// One process for each measurement, subjects in turn, medians. Everything takes about an hour; --quick two minutes, for figures that only show
/// that it works. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(name = "wheels", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) child: Option<Child>,

    /// Subjects to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Vec<Name>,

    /// Workloads to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workloads: Vec<Workload>,

    /// Sizes, 10 to 100,000,000 timers; k and M are understood [default: 10,100,1k,10k,100k,1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = timers)]
    timers: Vec<usize>,

    /// Repetitions of each measurement, 1 to 1,000
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    reps: u16,

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

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        let most = self.groups().iter().map(|group| group.1).max().unwrap_or(0);
        system::check_memory(most, BYTES_PER_TIMER)
    }

    pub(crate) fn subjects(&self) -> Vec<Name> {
        if self.subjects.is_empty() { Name::value_variants().to_vec() } else { self.subjects.clone() }
    }

    pub(crate) fn reps(&self) -> usize {
        usize::from(self.reps)
    }

    /// What is to be measured, in order, each once.
    pub(crate) fn groups(&self) -> Vec<(Workload, usize)> {
        let workloads = if self.workloads.is_empty() { Workload::value_variants() } else { &self.workloads };
        let sizes: &[usize] = match self.timers.as_slice() {
            [] if self.common.quick => &TIMERS_QUICK,
            [] => &TIMERS,
            sizes => sizes,
        };
        let mut groups = Vec::new();
        for group in workloads.iter().flat_map(|&workload| sizes.iter().map(move |&timers| (workload, timers))) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

fn timers(text: &str) -> Result<usize, String> {
    quantity::count(text, 10..=100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(["wheels"].into_iter().chain(text.split_whitespace()))
    }

    #[test]
    fn lists_make_groups() {
        let args = parse("--subjects heap,btree --workloads churn,fire --timers 10,20k,10 --reps 5").expect("it is right");
        assert_eq!((args.subjects(), args.reps()), (vec![Name::Heap, Name::Btree], 5));
        let groups = [(Workload::Churn, 10), (Workload::Churn, 20_000), (Workload::Fire, 10), (Workload::Fire, 20_000)];
        assert_eq!(args.groups(), groups);
    }

    #[test]
    fn a_child_is_told_its_job() {
        let job = Job { workload: Workload::Cancel, timers: 1_000, seed: 7, quick: true };
        let args = parse(&format!("measure --subject btree {}", job.arguments().join(" "))).expect("it is right");
        let Some(Child::Measure { subject, job: read }) = args.child else { panic!("no child") };
        assert_eq!((subject, read), (Name::Btree, job));
    }
}
