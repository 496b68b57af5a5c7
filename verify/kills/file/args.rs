//! The command line of a file.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::program::{count, duration};
use wheelwork_kit::system;

const TIMERS_MAX: usize = 200_000_000;

/// A payload in a store: the timer's number and its deadline, before the fill.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 12;

const HOUR: Duration = Duration::from_secs(3_600);

/// A run's memory per timer, nearly all of it in the ledger.
const BYTES_PER_TIMER: u64 = 300;

/// Timers in a file, while the process that arms, cancels and handles them is killed and started
/// again: every one accounted for. Ends with a table and a verdict.
#[derive(clap::Args, Clone, Debug)]
#[command(max_term_width = 110)]
pub(crate) struct Args {
    /// The folder of the store. It must be empty, or an earlier job's own
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// Timers to arm, 1 to 200,000,000; k and M are understood
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = count(1..=TIMERS_MAX))]
    pub(crate) timers: usize,

    /// How often the process is killed, 0 to 10,000
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count(0..=10_000))]
    pub(crate) kills: usize,

    /// Threads that arm and cancel, 1 to 1,024 [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=1024))]
    pub(crate) threads: Option<usize>,

    /// Share of the timers to cancel before they fire, 0 to 100 percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) cancel: u8,

    /// The time over which timers fall due, uniformly, from 0.2 s after they are armed; up to 1h
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration(Duration::ZERO..=HOUR))]
    pub(crate) spread: Duration,

    /// Size of a timer's payload, 12 to 65,536 bytes
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = count(PAYLOAD_BYTES_MIN..=65_536))]
    pub(crate) payload: usize,

    /// Timers that are in memory at the most, 1 to 100,000,000 [default: the library's]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=100_000_000))]
    pub(crate) window: Option<usize>,

    /// Timers are put off and limited, by other limits in each life of the process, and their runs
    /// leave records
    #[arg(long)]
    pub(crate) limits: bool,

    /// Seed of the delays, of what is cancelled, and of the kills
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write the figures as one JSON object to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The process that is killed: it is started by the job itself, for the how manieth time
    #[arg(long, hide = true)]
    pub(crate) child: Option<u32>,
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.timers < self.threads() {
            return Err(format!(
                "--timers {} is less than one for each of {} threads",
                self.timers,
                self.threads()
            ));
        }
        if let Some(file) = self.json.as_ref().filter(|_| self.child.is_none()) {
            // Before the run, not after it.
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(file)
                .map_err(|error| format!("--json {}: {error}", file.display()))?;
        }
        system::check_memory(self.timers, BYTES_PER_TIMER)
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
            .unwrap_or_else(|| system::cores().min(self.timers))
    }
}
