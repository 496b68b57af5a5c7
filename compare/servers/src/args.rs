//! The command line of `servers`.

use crate::check::Wanted;
use crate::job::Job;
use crate::limits::Limit;
use crate::name::Name;
use crate::serve::Serve;
use crate::workload::Workload;
use clap::{Parser, Subcommand};
use std::time::Duration;
use wheelwork_kit::campaign::{Choice, Options};
use wheelwork_kit::job;
use wheelwork_kit::program::{chosen, count, duration};

/// A limit that has not cut off a client after that long is not in force.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the limits of an HTTP server cost: of heads, bodies, requests, writes, idle time and age,
/// on wheelwork, on tokio's timers, and without limits.
///
/// First rude clients make sure that each limit is in force. Each measurement then has a process
/// for its server, and one for its clients. Subjects take turns, medians count. Everything takes
/// six minutes; --quick some seconds, for figures that only show that it works. Exit codes: 0 it
/// ran, 2 wrong arguments, or a limit is not in force.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "servers",
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

    /// Connections of paced, 10 to 1,000,000; k and M are understood [default: 10k; with --quick
    /// 100]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(10..=1_000_000))]
    connections: Vec<usize>,

    /// Connections of full, 1 to 10,000 [default: 64; with --quick 8]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=10_000))]
    few: Vec<usize>,

    /// Requests a second of paced, of all connections together, 100 to 1,000,000 [default: 20k;
    /// with --quick 1k]
    #[arg(long, value_name = "COUNT", value_parser = count(100..=1_000_000))]
    rate: Option<usize>,

    /// Worker threads of the server, 1 to 256
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "2", value_parser = count(1..=256))]
    threads: Vec<usize>,

    /// Requests of a hundred that have a body, 0 to 100: every other one comes in two pieces
    #[arg(long, value_name = "PERCENT", default_value = "25", value_parser = count(0..=100))]
    posts: usize,

    /// Connections of a hundred that are rude, 0 to 50: they send half of a head or of a body, call
    /// what never answers, do not read, or say nothing more
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = count(0..=50))]
    rude: usize,

    /// Limit of idle time, 1s to 1h. That of a head is half as long again, that of the age is an
    /// hour, and the others are the same
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    idle: Duration,

    /// Length of a measurement, 1 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// Only make sure that each limit cuts off the clients that it is good for
    Check(Check),
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
    /// The process of a server
    #[command(hide = true)]
    Serve(Serve),
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Check {
    /// Subjects to check [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Vec<Name>,

    /// Limits to check [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    limits: Vec<Limit>,

    /// A client that is still there then was not cut off, 200ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration(Duration::from_millis(200)..=Duration::from_secs(3600)))]
    patience: Duration,

    /// Expect limits of none, too, so that the check fails
    #[arg(long, hide = true)]
    strict: bool,
}

impl Check {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            subjects: chosen(&self.subjects),
            limits: chosen(&self.limits),
            patience: self.patience,
            strict: self.strict,
        }
    }
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        for job in self.groups().iter().flatten() {
            let turn_ms = job.clients() * 1_000 / job.rate;
            if job.workload == Workload::Paced && turn_ms as u64 * 2 > job.idle_ms {
                return Err(format!(
                    "--idle: {} connections at {} requests/s are idle for {turn_ms} ms; the limit \
                     must be twice that at least",
                    job.clients(),
                    job.rate
                ));
            }
        }
        Ok(())
    }

    /// What is made sure of before the measurements.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            subjects: self.choice.subjects(),
            limits: chosen(&[]),
            patience: PATIENCE,
            strict: false,
        }
    }

    /// The most connections of a measurement.
    pub(crate) fn most_connections(&self) -> usize {
        let counts = self.groups().into_iter().flatten().map(|job| job.count);
        counts.max().unwrap_or(0)
    }

    /// What is to be measured, in order, each once: those of a group differ in their subjects.
    pub(crate) fn groups(&self) -> Vec<Vec<Job>> {
        let of_threads = self.threads.iter().map(|&threads| {
            let job = |subject, workload, count| Some(self.job(subject, workload, count, threads));
            self.choice.groups(|workload| self.counts(workload), job)
        });
        wheelwork_kit::program::each_once(of_threads.flatten())
    }

    fn counts(&self, workload: Workload) -> Vec<usize> {
        match workload {
            Workload::Paced => self.options.sizes(&self.connections, &[10_000], &[100]),
            Workload::Full => self.options.sizes(&self.few, &[64], &[8]),
        }
    }

    fn job(&self, subject: Name, workload: Workload, count: usize, threads: usize) -> Job {
        let usual = if self.options.quick { 1_000 } else { 20_000 };
        Job {
            of: job::Job::new(subject, workload, count, self.seconds, &self.options),
            threads,
            rate: self.rate.unwrap_or(usual),
            posts: self.posts,
            rude: self.rude,
            idle_ms: self.idle.as_millis() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        let words = ["servers"].into_iter().chain(text.split_whitespace());
        Args::try_parse_from(words).expect("it is right")
    }

    #[test]
    fn lists_make_groups() {
        let text = "--connections 2k,1k,2k --threads 1,2 --subjects none,tokio,none";
        let groups = args(text).groups().into_iter();
        let groups: Vec<_> = groups
            .map(|jobs| (jobs[0].workload, jobs[0].count, jobs[0].threads, jobs.len()))
            .collect();
        let expected = [
            (Workload::Paced, 2_000, 1, 2),
            (Workload::Paced, 1_000, 1, 2),
            (Workload::Full, 64, 1, 2),
            (Workload::Paced, 2_000, 2, 2),
            (Workload::Paced, 1_000, 2, 2),
            (Workload::Full, 64, 2, 2),
        ];
        assert_eq!(groups, expected);
    }

    #[test]
    fn clients_that_behave_are_not_idle() {
        assert!(args("").check().is_ok());
        assert!(args("--connections 100k").check().is_ok());
        let why = args("--connections 101k")
            .check()
            .expect_err("it takes too long");
        assert!(why.contains("5050 ms"), "{why}");
        assert!(args("--connections 101k --idle 11s").check().is_ok());
        assert!(args("--connections 101k --workloads full").check().is_ok());
    }

    #[test]
    fn a_part_of_the_clients_is_rude() {
        let groups = args("--connections 200 --rude 5").groups();
        let job = &groups[0][0];
        assert_eq!((job.rude_clients(), job.clients()), (10, 190));
    }
}
