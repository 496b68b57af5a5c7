//! Resets: deadlines that messages move, as fast as it goes and at a fixed rate. Which measurements
//! there are, and their tables.

use crate::deadline::Name;
use clap::ValueEnum;
use std::time::Duration;
use wheelwork_kit::beside;
use wheelwork_kit::campaign::{self, Measurement, Options};
use wheelwork_kit::line::Line;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{chosen, count};
use wheelwork_kit::system;
use wheelwork_kit::table::{Column, column};

/// The most that a deadline takes with any timers.
const BYTES_PER_DEADLINE: u64 = 600;

/// Whose versions are told.
const PACKAGES: Packages = Packages {
    lock: include_str!("../../Cargo.lock"),
    names: &["tokio", "pingora-timeout"],
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Messages as fast as they go
    Resets,
    /// Messages at a fixed rate
    ResetsPaced,
}

const NS: Column = column("ns_per_reset", "ns/reset", 1);
const CPU_OF_RESET: Column = column("cpu_us_per_reset", "CPU us/reset", 3);
const CPU: Column = column("cpu_percent", "CPU %", 1);
const MESSAGES: Column = column("messages_per_s", "messages/s", 0);
const BYTES: Column = column("bytes_per_deadline", "bytes", 0);

impl Workload {
    /// Its figures. Timers are compared by the first one.
    fn columns(self) -> &'static [Column] {
        match self {
            Self::Resets => &[NS, CPU_OF_RESET, BYTES],
            Self::ResetsPaced => &[CPU_OF_RESET, CPU, BYTES, MESSAGES],
        }
    }
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Timers to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    timers: Vec<Name>,

    /// Worker threads of the runtime, 1 to 256 [default: 1,2; with --quick 1]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=256))]
    threads: Vec<usize>,

    /// Deadlines that messages move, 1,000 to 100,000,000; k and M are understood [default: 1M;
    /// with --quick 20k]
    #[arg(long, value_name = "COUNT", value_parser = count(1_000..=100_000_000))]
    deadlines: Option<usize>,

    /// Messages a second of resets-paced, 100 to 1,000,000
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = count(100..=1_000_000))]
    messages: usize,

    /// Length of a measurement, 1 to 40: no deadline passes
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=40))]
    seconds: u64,

    #[command(flatten)]
    options: Options,
}

/// One measurement, which has a process for itself.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) subject: Name,
    #[arg(long)]
    pub(crate) threads: usize,
    #[arg(long)]
    pub(crate) deadlines: usize,
    /// Messages a second
    #[arg(long)]
    pub(crate) rate: usize,
    #[arg(long)]
    pub(crate) seconds: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        if self.quick {
            Duration::from_millis(300)
        } else {
            Duration::from_secs(self.seconds)
        }
    }
}

/// All measurements: those of a group differ in their timers.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let quick = args.options.quick;
    let deadlines = args
        .deadlines
        .unwrap_or(if quick { 20_000 } else { 1_000_000 });
    system::check_memory(deadlines, BYTES_PER_DEADLINE)?;
    let threads = &args.options.sizes(&args.threads, &[1, 2], &[1]);
    let of = |&workload: &Workload| threads.iter().map(move |&threads| (workload, threads));
    let groups: Vec<_> = Workload::value_variants().iter().flat_map(of).collect();
    let (rate, seconds) = (args.messages, args.seconds);
    let measurements = |&(workload, threads): &(Workload, usize)| {
        let timers = chosen(&args.timers).into_iter();
        let measurement = |timers| {
            let line = Line::of(&timers, &workload, threads, deadlines);
            let more = format!(
                "--threads {threads} --deadlines {deadlines} --rate {rate} --seconds {seconds}"
            );
            Measurement::own(line, &more)
        };
        timers.map(measurement).collect()
    };
    campaign::run(&args.options, PACKAGES, &groups, measurements, group_table)?;
    Ok(())
}

/// A group's table; the last column says how many times as much as tokio's the first figure is.
fn group_table(&(workload, threads): &(Workload, usize), lines: &[Line]) -> String {
    let mut columns = workload.columns().to_vec();
    let tokio = lines.iter().find(|line| line.subject == "tokio");
    let tokio = tokio.and_then(|line| line.median(columns[0].figure));
    // More is no better: the ratio is told the other way round.
    columns[0].higher_is_better = true;
    let deadlines = lines.first().map_or(0, |line| line.timers);
    let plural = if threads == 1 { "" } else { "s" };
    let how_much = format!("{deadlines} deadlines of 60 s; {threads} worker thread{plural}");
    let head = beside::head(&workload, &how_much);
    beside::table(&head, &columns, lines, tokio, Column::median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    #[test]
    fn tokios_is_what_others_are_compared_with() {
        let line = |timers, ns| {
            let mut line = Line::new(timers, "resets", 2, 1_000);
            line.summarize(&[Figures::from([("ns_per_reset", ns)])]);
            line
        };
        let lines = [line("tokio", 50.0), line("wheelwork", 25.0)];
        let text = group_table(&(Workload::Resets, 2), &lines);
        assert!(
            text.contains("resets 1000 deadlines of 60 s; 2 worker threads"),
            "{text}"
        );
        assert!(text.contains("1.00 x  50.0 - 50.0"), "{text}");
        assert!(text.contains("0.50 x  25.0 - 25.0"), "{text}");
    }
}
