//! The command line of `server`.

use crate::common::Common;
use crate::job::Job;
use crate::load;
use crate::open_files;
use crate::quantity;
use crate::serve::Settings;
use crate::system;
use crate::timers::Name;
use crate::workload::Workload;
use clap::{Parser, Subcommand, ValueEnum};

/// The most that a deadline takes with any timers.
const BYTES_PER_DEADLINE: u64 = 600;

/// What a program feels of its timers: an HTTP server with time-outs under load, and a million
/// deadlines that move at each message.
///
/// By tokio's timers, pingora's, wheelwork's, and without any; all else is the same code. One process
/// for each measurement, timers in turn, medians. Everything takes half an hour; --quick a quarter of a
/// minute, for figures that only show that it works. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(name = "server", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) child: Option<Child>,

    /// What to measure [default: all]
    #[arg(value_name = "WORKLOADS")]
    workloads: Vec<Workload>,

    /// Timers to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    timers: Vec<Name>,

    /// Worker threads of the runtime, 1 to 256 [default: 1,2; with --quick 1]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Vec<u16>,

    /// Idle connections that the server holds, up to 25,000; k and M are understood
    /// [default: 10k; with --quick 500]
    #[arg(long, value_name = "COUNT", value_parser = connections)]
    connections: Option<usize>,

    /// Deadlines that messages move, 1,000 to 100,000,000 [default: 1M; with --quick 20k]
    #[arg(long, value_name = "COUNT", value_parser = deadlines)]
    deadlines: Option<usize>,

    /// Requests a second of requests-paced, 100 to 1,000,000
    #[arg(long, value_name = "COUNT", default_value = "10k", value_parser = rate)]
    requests: usize,

    /// Messages a second of resets-paced, 100 to 1,000,000
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = rate)]
    messages: usize,

    /// Length of a measurement, 1 to 40: nothing is idle for 60 s
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=40))]
    seconds: u64,

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
        #[command(flatten)]
        job: Job,
    },
    /// A server, until standard input ends
    #[command(hide = true)]
    Serve {
        #[command(flatten)]
        settings: Settings,
    },
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd or the machine
    /// lacks something.
    pub(crate) fn check(&self) -> Result<(), String> {
        let jobs: Vec<Job> = self.groups().into_iter().flatten().collect();
        if jobs.is_empty() {
            return Err("wheelwork-ids has no server: nothing to measure".to_string());
        }
        for job in jobs {
            if job.workload.has_server() {
                // The processes that this one starts may have as many.
                open_files::allow(job.connections + load::ACTIVE_MAX)?;
                load::check(job.workload)?;
            } else {
                system::check_memory(job.connections, BYTES_PER_DEADLINE)?;
            }
        }
        Ok(())
    }

    pub(crate) fn reps(&self) -> usize {
        self.reps.map_or(if self.common.quick { 1 } else { 3 }, usize::from)
    }

    /// What is to be measured, in order, each once: those of a group differ in their timers.
    pub(crate) fn groups(&self) -> Vec<Vec<Job>> {
        let workloads = if self.workloads.is_empty() { Workload::value_variants() } else { &self.workloads };
        let threads: &[u16] = match self.threads.as_slice() {
            [] if self.common.quick => &[1],
            [] => &[1, 2],
            threads => threads,
        };
        let mut groups: Vec<Vec<Job>> = Vec::new();
        for (&workload, &threads) in workloads.iter().flat_map(|workload| threads.iter().map(move |threads| (workload, threads))) {
            let group = self.group(workload, threads.into());
            if !group.is_empty() && !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn group(&self, workload: Workload, threads: usize) -> Vec<Job> {
        let quick = self.common.quick;
        let (connections, rate) = if workload.has_server() {
            (self.connections.unwrap_or(if quick { 500 } else { 10_000 }), self.requests)
        } else {
            (self.deadlines.unwrap_or(if quick { 20_000 } else { 1_000_000 }), self.messages)
        };
        let mut jobs: Vec<Job> = Vec::new();
        for &timers in if self.timers.is_empty() { Name::value_variants() } else { &self.timers } {
            let job = Job { workload, timers, threads, connections, rate, seconds: self.seconds, seed: self.common.seed, quick };
            if (timers != Name::WheelworkIds || !workload.has_server()) && !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        jobs
    }
}

fn connections(text: &str) -> Result<usize, String> {
    quantity::count(text, 0..=25_000)
}

fn deadlines(text: &str) -> Result<usize, String> {
    quantity::count(text, 1_000..=100_000_000)
}

fn rate(text: &str) -> Result<usize, String> {
    quantity::count(text, 100..=1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(["server"].into_iter().chain(text.split_whitespace()))
    }

    #[test]
    fn lists_make_groups() {
        let args =
            parse("resets requests --timers tokio,wheelwork-ids,tokio --threads 2,1,2 --deadlines 2k --reps 5").expect("it is right");
        let groups = args.groups();
        let named: Vec<(Workload, usize, usize)> = groups.iter().map(|jobs| (jobs[0].workload, jobs[0].threads, jobs.len())).collect();
        let expected = [(Workload::Resets, 2, 2), (Workload::Resets, 1, 2), (Workload::Requests, 2, 1), (Workload::Requests, 1, 1)];
        assert_eq!((args.reps(), named.as_slice()), (5, &expected[..]));
        assert_eq!((groups[0][0].connections, groups[2][0].connections), (2_000, 10_000));
    }

    #[test]
    fn a_server_with_ids_is_none() {
        let args = parse("requests --timers wheelwork-ids").expect("each is right by itself");
        assert!(args.check().is_err());
    }

    #[test]
    fn a_child_is_told_its_job() {
        let job = parse("resets-paced --quick").expect("it is right").groups().remove(0).remove(1);
        let args = parse(&format!("measure {}", job.arguments(0).join(" "))).expect("it is right");
        let Some(Child::Measure { job: read }) = args.child else { panic!("no child") };
        assert_eq!(read, job);
    }
}
