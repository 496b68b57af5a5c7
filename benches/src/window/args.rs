//! The command line of `window`.

use crate::bounds::{BYTES_BESIDE, BYTES_PER_TIMER};
use clap::{Parser, Subcommand};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::campaign;
use wheelwork_kit::in_flight::{CancelledBy, Plan};
use wheelwork_kit::line::Figures;
use wheelwork_kit::program::{count, name};
use wheelwork_kit::system;

const WINDOWS: [usize; 5] = [1, 1_000, 8_000, 64_000, 1_000_000];

/// The handles of a timer: in a ring or a list.
const HANDLE_BYTES: u64 = 16;

/// A row that takes this much longer than its time is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Threads arm timers of 30 s at full speed and cancel what they armed a window of inserts ago,
/// with a probe beside them: a 5 ms timer each millisecond. A row for each window, number of
/// threads and way to cancel, each in a process of its own.
///
/// Each bound that does not hold gets a line at the end. The bounds are:
///
/// resident memory is at most 45 bytes a pending timer + 24 MB, beyond what the process had before
/// the service started, its threads and the memory of its ids among it;
///
/// it is flat: in the last third of the time at most 5 % + 4 MB more than in the middle third;
///
/// 99 % of the probe's timers are at most 3 ms late, or 10 ms with more producers than cores
/// (threads that cancel count too), and none is lost;
///
/// a second after the end at most 24 MB are left, while the service and all threads live.
///
/// How late timers are depends on what else the machine does. Everything takes 16 minutes. Exit
/// codes: 0 all bounds hold, 1 one does not, 2 wrong arguments.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "window",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Timers that each thread leaves pending, 1 to 10,000,000; k and M are understood
    /// [default: 1,1000,8000,64000,1M]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=10_000_000))]
    window: Vec<usize>,

    /// Threads that arm, 1 to 256 [default: 1, one for each core, 16]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = count(1..=256))]
    threads: Vec<usize>,

    /// Which thread cancels [default: same,other]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    cancel: Vec<CancelledBy>,

    /// Seconds for each row, from 0.1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    seconds: f64,

    /// Write the figures to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// One row; prints its figures
    #[command(hide = true)]
    Measure(Row),
}

/// What is measured in one process.
#[derive(clap::Args, Clone, Copy, PartialEq, Debug)]
pub(crate) struct Row {
    #[arg(long)]
    pub(crate) window: usize,
    #[arg(long)]
    pub(crate) threads: usize,
    #[arg(long)]
    pub(crate) cancel: CancelledBy,
    #[arg(long)]
    pub(crate) seconds: f64,
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.1..=3_600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("not between 0.1 and 3,600".to_string())
    }
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if there is not enough memory.
    pub(crate) fn check(&self) -> Result<(), String> {
        let pending = self.rows().iter().map(|row| row.plan().pending()).max();
        // The bound, and as much again for what holds it but does not last.
        let bytes_each = 2 * BYTES_PER_TIMER + HANDLE_BYTES;
        system::check_memory(pending.unwrap_or(0), bytes_each)
    }

    /// What is to be measured, in order, each once.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let cores = system::cores();
        let windows = or(&self.window, &WINDOWS);
        let threads = or(&self.threads, &[1, cores, 16]);
        let cancels = or(&self.cancel, &[CancelledBy::Same, CancelledBy::Other]);
        let mut rows = Vec::new();
        for &cancel in &cancels {
            for &threads in &threads {
                rows.extend(windows.iter().map(|&window| Row {
                    window,
                    threads,
                    cancel,
                    seconds: self.seconds,
                }));
            }
        }
        rows
    }
}

/// What was given, or else the default; each once, in order.
fn or<T: Copy + Ord>(given: &[T], default: &[T]) -> Vec<T> {
    let chosen = if given.is_empty() { default } else { given };
    let mut chosen = chosen.to_vec();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

impl Row {
    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan {
            window: self.window,
            threads: self.threads,
            cancelled_by: self.cancel,
            time: Duration::from_secs_f64(self.seconds),
            has_probe: true,
            seed: 1,
            resident_bytes_max: u64::MAX,
        };
        // Half of what is free; what is within its bound is no reason to stop.
        let bound = plan.pending() as u64 * (BYTES_PER_TIMER + HANDLE_BYTES) + 2 * BYTES_BESIDE;
        let free = system::available_bytes().unwrap_or(u64::MAX);
        plan.resident_bytes_max = bound.max(free / 2);
        plan
    }

    /// The figures, of a new process.
    pub(crate) fn measured(&self) -> Result<Figures, String> {
        let Self {
            window,
            threads,
            cancel,
            seconds,
        } = self;
        let cancel = name(cancel);
        let arguments = format!(
            "measure --window {window} --threads {threads} --cancel {cancel} --seconds {seconds}"
        );
        let mut command = campaign::itself()?;
        command.args(arguments.split(' '));
        let patience = Duration::from_secs_f64(*seconds) + PATIENCE;
        campaign::figures_of(command, patience)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        let cancel = name(&self.cancel);
        write!(
            f,
            "window {}, {} {threads}, {cancel}",
            self.window, self.threads
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        let words = ["window"].into_iter().chain(text.split_whitespace());
        Args::try_parse_from(words).expect("it is right").rows()
    }

    #[test]
    fn what_is_not_given_is_measured_in_all_ways() {
        let threads = or(&[1, system::cores(), 16], &[]).len();
        assert_eq!(rows("").len(), 5 * threads * 2);
        let rows = rows("--window 64k --threads 2 --cancel random --seconds 0.5");
        let row = Row {
            window: 64_000,
            threads: 2,
            cancel: CancelledBy::Random,
            seconds: 0.5,
        };
        assert_eq!(rows, [row]);
        assert_eq!(row.to_string(), "window 64000, 2 threads, random");
    }

    #[test]
    fn rows_come_in_order_and_once() {
        let windows = rows("--window 1k,1,1000 --threads 1 --cancel same");
        let windows: Vec<_> = windows.iter().map(|row| row.window).collect();
        assert_eq!(windows, [1, 1_000]);
    }
}
