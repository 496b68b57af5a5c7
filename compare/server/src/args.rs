//! The command line of `server`.

use crate::job::Job;
use crate::load;
use crate::open_files;
use crate::serve::Settings;
use crate::timers::Name;
use crate::workload::Workload;
use clap::{Parser, Subcommand};
use wheelwork_kit::campaign::Options;
use wheelwork_kit::program::{chosen, count};
use wheelwork_kit::system;

/// The most that a deadline takes with any timers.
const BYTES_PER_DEADLINE: u64 = 600;

/// What a program feels of its timers: an HTTP server with time-outs under load, and a million
/// deadlines that move at each message.
///
/// By tokio's timers, pingora's, wheelwork's, and without any; all else is the same code. One
/// process for each measurement, timers in turn, medians. Everything takes half an hour; --quick a
/// quarter of a minute, for figures that only show that it works. Exit codes: 0 it ran, 2 wrong
/// arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "server",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
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
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=256))]
    threads: Vec<usize>,

    /// Idle connections that the server holds, up to 25,000; k and M are understood
    /// [default: 10k; with --quick 500]
    #[arg(long, value_name = "COUNT", value_parser = count(0..=25_000))]
    connections: Option<usize>,

    /// Deadlines that messages move, 1,000 to 100,000,000 [default: 1M; with --quick 20k]
    #[arg(long, value_name = "COUNT", value_parser = count(1_000..=100_000_000))]
    deadlines: Option<usize>,

    /// Requests a second of requests-paced, 100 to 1,000,000
    #[arg(long, value_name = "COUNT", default_value = "10k", value_parser = count(100..=1_000_000))]
    requests: usize,

    /// Messages a second of resets-paced, 100 to 1,000,000
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = count(100..=1_000_000))]
    messages: usize,

    /// Length of a measurement, 1 to 40: nothing is idle for 60 s
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=40))]
    seconds: u64,

    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Child {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
    /// A server, until standard input ends
    #[command(hide = true)]
    Serve(Settings),
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd or the
    /// machine lacks something.
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

    /// What is to be measured, in order, each once: those of a group differ in their timers.
    pub(crate) fn groups(&self) -> Vec<Vec<Job>> {
        let threads: &[usize] = match self.threads.as_slice() {
            [] if self.options.quick => &[1],
            [] => &[1, 2],
            threads => threads,
        };
        let mut groups: Vec<Vec<Job>> = Vec::new();
        for workload in chosen(&self.workloads) {
            for &threads in threads {
                let group = self.group(workload, threads);
                if !group.is_empty() && !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        groups
    }

    fn group(&self, workload: Workload, threads: usize) -> Vec<Job> {
        let quick = self.options.quick;
        let (connections, rate) = if workload.has_server() {
            let usual = if quick { 500 } else { 10_000 };
            (self.connections.unwrap_or(usual), self.requests)
        } else {
            let usual = if quick { 20_000 } else { 1_000_000 };
            (self.deadlines.unwrap_or(usual), self.messages)
        };
        let timers = chosen(&self.timers).into_iter();
        timers
            .filter(|timers| *timers != Name::WheelworkIds || !workload.has_server())
            .map(|timers| Job {
                workload,
                timers,
                threads,
                connections,
                rate,
                seconds: self.seconds,
                seed: self.options.seed,
                quick,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_make_groups() {
        let text = "server resets requests --timers tokio,wheelwork-ids,tokio --threads 2,1,2 --deadlines 2k";
        let args = Args::try_parse_from(text.split(' ')).expect("it is right");
        let groups = args.groups();
        let named: Vec<(Workload, usize, usize, usize)> = groups
            .iter()
            .map(|jobs| {
                (
                    jobs[0].workload,
                    jobs[0].threads,
                    jobs[0].connections,
                    jobs.len(),
                )
            })
            .collect();
        let expected = [
            (Workload::Resets, 2, 2_000, 2),
            (Workload::Resets, 1, 2_000, 2),
            (Workload::Requests, 2, 10_000, 1),
            (Workload::Requests, 1, 10_000, 1),
        ];
        assert_eq!(named, expected);
    }
}
