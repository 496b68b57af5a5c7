//! The command line of `stores`.

use crate::job::Job;
use crate::name::Name;
use crate::stored::Load;
use crate::workload::Workload;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use wheelwork_kit::campaign::{Choice, Options};
use wheelwork_kit::job;
use wheelwork_kit::program::count;

/// Callers of the workload `arm-cancel`.
const CALLERS: usize = 1_024;

/// Timers under way of the workload `pipelined`.
const UNDER_WAY: usize = 65_536;

/// Durable timers: wheelwork, bare engines, Redis and a job queue, in the same run, one process for
/// each measurement, subjects in turn, medians.
///
/// Ends with a verdict on each goal. Everything takes about an hour a repetition. --quick takes
/// half a minute, for figures that only show that it works. Files are made in a folder of their own
/// in --dir, and deleted: 10 M timers take up to 4 GB. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "stores",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true,
    mut_arg("timeout", |timeout| timeout.default_value("20min"))
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    choice: Choice<Name, Workload>,

    /// Callers of arm, 1 to 100,000 [default: 1,64,1024]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=100_000))]
    callers: Vec<usize>,

    /// Timers of fire-ack and sweep, 1,000 to 100,000,000; k and M are understood [default: 1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1_000..=100_000_000))]
    timers: Vec<usize>,

    /// Timers a second of lateness, 100 to 1,000,000 [default: 1k,20k,50k]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(100..=1_000_000))]
    rates: Vec<usize>,

    /// Timers of stored, 1,000 to 100,000,000 [default: 1M,10M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1_000..=100_000_000))]
    stored: Vec<usize>,

    /// Length of a measurement, 1 to 600; some take twice as long
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// Where the files are: a disk, not memory, if the figures are to mean something
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
    /// Puts timers into a store, for a measurement
    #[command(hide = true)]
    Load(Load),
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        let dir = self.dir.display();
        if !self.dir.is_dir() {
            return Err(format!("--dir {dir}: no such folder"));
        }
        // The command line of a measurement is split at spaces.
        if self.dir.to_str().is_none_or(|dir| dir.contains(' ')) {
            return Err(format!("--dir {dir}: a path without spaces is needed"));
        }
        Ok(())
    }

    /// What is to be measured, in order, each once, with files in this folder: those of a group
    /// differ in their subjects.
    pub(crate) fn groups(&self, folder: &Path) -> Vec<Vec<Job>> {
        let job = |subject, workload, count| {
            let of = job::Job::new(subject, workload, count, self.seconds, &self.options);
            let dir = folder.to_path_buf();
            Some(Job { of, dir })
        };
        self.choice.groups(|workload| self.counts(workload), job)
    }

    fn counts(&self, workload: Workload) -> Vec<usize> {
        let (given, usual, few): (&[usize], &[usize], usize) = match workload {
            Workload::Floor => (&[], &[1], 1),
            Workload::Arm => (&self.callers, &[1, 64, CALLERS], 64),
            Workload::Pipelined => (&[], &[UNDER_WAY], 1_024),
            Workload::ArmCancel => (&[], &[CALLERS], 64),
            Workload::FireAck | Workload::Sweep => (&self.timers, &[1_000_000], 2_000),
            Workload::Lateness => (&self.rates, &[1_000, 20_000, 50_000], 1_000),
            Workload::Stored => (&self.stored, &[1_000_000, 10_000_000], 5_000),
        };
        self.options.sizes(given, usual, &[few])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Vec<(Workload, usize, usize)> {
        let words = ["stores"].into_iter().chain(text.split_whitespace());
        let args = Args::try_parse_from(words).expect("it is right");
        let groups = args.groups(Path::new("/tmp")).into_iter();
        groups
            .map(|jobs| (jobs[0].workload, jobs[0].count, jobs.len()))
            .collect()
    }

    #[test]
    fn lists_make_groups() {
        let text = "--workloads lateness,floor --rates 2k,1k,2k --subjects redb,wheelwork,redb";
        let expected = [
            (Workload::Lateness, 2_000, 2),
            (Workload::Lateness, 1_000, 2),
            (Workload::Floor, 1, 2),
        ];
        assert_eq!(groups(text), expected);
    }

    #[test]
    fn quick_is_small_where_no_size_is_given() {
        let text = "--workloads stored,arm --quick --callers 8 --subjects redb";
        let expected = [(Workload::Stored, 5_000, 1), (Workload::Arm, 8, 1)];
        assert_eq!(groups(text), expected);
    }

    #[test]
    fn a_measurement_may_take_long() {
        let args = Args::try_parse_from(["stores"]).expect("it is right");
        assert!(format!("{:?}", args.options).contains("1200s"));
    }
}
