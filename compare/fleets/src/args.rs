//! The command line of `fleets`.

use crate::job::Job;
use crate::name::Name;
use crate::workload::Workload;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::campaign::{Choice, Options};
use wheelwork_kit::job;
use wheelwork_kit::program::{count, duration};

/// Durable timers on a PostgreSQL that processes share: wheelwork, job queues, a scheduler and a
/// plain poller, in the same run, one database for each measurement, subjects in turn, medians.
///
/// Ends with a verdict on each goal. Everything takes about an hour a repetition. --quick takes two
/// minutes, for figures that only show that it works. The server is the one that the variable
/// WHEELWORK_POSTGRES tells, as scripts/with-postgres sets it: databases are made there, and
/// dropped. Exit codes: 0 it ran, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "fleets",
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

    /// Callers of arm, 1 to 150 [default: 64]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=150))]
    callers: Vec<usize>,

    /// Timers of fire-ack, 100 to 10,000,000; k and M are understood [default: 100k]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(100..=10_000_000))]
    timers: Vec<usize>,

    /// Timers a second of lateness, 100 to 1,000,000 [default: 1k,20k]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(100..=1_000_000))]
    rates: Vec<usize>,

    /// Timers of idle, an hour away, 0 to 100,000,000 [default: 1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(0..=100_000_000))]
    idle_timers: Vec<usize>,

    /// Clients of beside-random and beside-hot, 0 to 150 [default: 48]; without --workloads nothing
    /// else is measured
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(0..=150))]
    beside_transactions: Vec<usize>,

    /// Length of a measurement, 1 to 600; idle takes six times as long
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// How long the timers of a killed worker are waited for, 1s to 1h
    /// [default: 5min; with --quick 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    patience: Option<Duration>,

    /// Poll interval of subjects that poll, in place of their own, 10ms to 1h
    #[arg(long, value_name = "DURATION", value_parser = duration(Duration::from_millis(10)..=Duration::from_secs(3600)))]
    poll: Option<Duration>,

    /// Where the packages for Node.js are installed, as scripts/bench fleets does
    #[arg(long, value_name = "FOLDER")]
    node_packages: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(Job),
    /// A process that keeps timers, for a measurement
    #[command(hide = true)]
    Node(Node),
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Node {
    #[arg(long)]
    pub(crate) subject: Name,
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_beside = |workload: &Workload| workload.is_beside();
        let has_clients = !self.beside_transactions.is_empty();
        if has_clients && !self.chosen_workloads().iter().any(is_beside) {
            return Err(
                "--beside-transactions: --workloads has no beside-random or beside-hot".into(),
            );
        }
        let is_ours = self.choice.subjects().contains(&Name::Wheelwork);
        if has_clients && !is_ours {
            return Err("--beside-transactions: of all subjects wheelwork alone has it".into());
        }
        let Some(folder) = &self.node_packages else {
            return Ok(());
        };
        let shown = folder.display();
        if !folder.join("node_modules").is_dir() {
            return Err(format!("--node-packages {shown}: no packages there"));
        }
        // The command line of a measurement is split at spaces.
        if folder.to_str().is_none_or(|folder| folder.contains(' ')) {
            return Err(format!(
                "--node-packages {shown}: a path without spaces is needed"
            ));
        }
        Ok(())
    }

    /// What is to be measured, in order, each once, in this database: those of a group differ in
    /// their subjects.
    pub(crate) fn groups(&self, database: &str) -> Vec<Vec<Job>> {
        let chosen = self.chosen_workloads();
        let counts = |workload| match chosen.contains(&workload) {
            true => self.counts(workload),
            false => Vec::new(),
        };
        self.choice.groups(counts, |subject, workload, count| {
            self.job(subject, workload, count, database)
        })
    }

    fn chosen_workloads(&self) -> Vec<Workload> {
        let mut workloads = self.choice.workloads();
        if self.choice.is_of_all_workloads() && !self.beside_transactions.is_empty() {
            workloads.retain(|workload| workload.is_beside());
        }
        workloads
    }

    fn counts(&self, workload: Workload) -> Vec<usize> {
        let (given, usual, few): (&[usize], &[usize], usize) = match workload {
            Workload::ArmBulk => (&[], &[1], 1),
            Workload::Arm => (&self.callers, &[64], 64),
            Workload::FireAck => (&self.timers, &[100_000], 2_000),
            Workload::Lateness => (&self.rates, &[1_000, 20_000], 1_000),
            Workload::Idle => (&self.idle_timers, &[1_000_000], 5_000),
            Workload::Killed => (&[], &[100], 100),
            Workload::BesideRandom | Workload::BesideHot => (&self.beside_transactions, &[48], 8),
        };
        self.options.sizes(given, usual, &[few])
    }

    /// Beside clients wheelwork alone is measured.
    fn job(&self, subject: Name, workload: Workload, count: usize, database: &str) -> Option<Job> {
        let usual = Duration::from_secs(if self.options.quick { 5 } else { 300 });
        let is_measured = subject == Name::Wheelwork || !workload.is_beside();
        is_measured.then(|| Job {
            of: job::Job::new(subject, workload, count, self.seconds, &self.options),
            patience_ms: self.patience.unwrap_or(usual).as_millis() as u64,
            poll_ms: self.poll.map_or(0, |poll| poll.as_millis() as u64),
            database: database.to_string(),
            node_packages: self.node_packages.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Vec<(Workload, usize, usize)> {
        let words = ["fleets"].into_iter().chain(text.split_whitespace());
        let args = Args::try_parse_from(words).expect("it is right");
        let groups = args.groups("fleet").into_iter();
        groups
            .map(|jobs| (jobs[0].workload, jobs[0].count, jobs.len()))
            .collect()
    }

    #[test]
    fn lists_make_groups() {
        let text = "--workloads lateness,killed --rates 2k,1k,2k --subjects poller,bullmq,poller";
        let expected = [
            (Workload::Lateness, 2_000, 2),
            (Workload::Lateness, 1_000, 2),
            (Workload::Killed, 100, 2),
        ];
        assert_eq!(groups(text), expected);
    }

    #[test]
    fn clients_choose_their_workloads() {
        let expected = [
            (Workload::BesideRandom, 0, 1),
            (Workload::BesideRandom, 48, 1),
            (Workload::BesideHot, 0, 1),
            (Workload::BesideHot, 48, 1),
        ];
        assert_eq!(groups("--beside-transactions 0,48"), expected);
        let text = "--workloads arm,beside-hot --beside-transactions 4 --subjects wheelwork";
        let expected = [(Workload::Arm, 64, 1), (Workload::BesideHot, 4, 1)];
        assert_eq!(groups(text), expected);
        assert_eq!(groups("--workloads beside-hot --subjects poller"), []);
    }

    #[test]
    fn quick_is_small_where_no_size_is_given() {
        let text = "--workloads idle,fire-ack --quick --timers 300 --subjects poller";
        let expected = [(Workload::Idle, 5_000, 1), (Workload::FireAck, 300, 1)];
        assert_eq!(groups(text), expected);
    }
}
