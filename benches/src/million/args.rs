//! The command line of `million`.

use clap::Parser;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::program::{count, duration};
use wheelwork_kit::system;

/// Ledger indices are `u32`, and the library holds at most 2^30 timers.
const TIMERS_MAX: usize = 200_000_000;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A run's memory per timer: cell, wheel entry, lane, and its line in the ledger.
const BYTES_PER_TIMER: u64 = 100;

/// A million timers, end to end: armed from many threads, churned, cancelled, fired through rayon,
/// and every one accounted for.
///
/// Phases: pairs (arm and cancel at once), burst (all due at one instant), arm, churn (cancel one,
/// arm one), re-arm (later, anywhere), cancel, fire, stop. Ends with a table and a verdict. Exit
/// codes: 0 every promise held, 1 a promise was broken, 2 wrong arguments, or an output that can't
/// be written.
#[derive(Parser, Clone, Debug)]
#[command(name = "million", version, max_term_width = 110)]
pub(crate) struct Args {
    /// Timers to arm, 1 to 200,000,000; k and M are understood
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = count(1..=TIMERS_MAX))]
    pub(crate) timers: usize,

    /// Threads that arm and cancel, 1 to 1,024 [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=1024))]
    pub(crate) threads: Option<usize>,

    /// Shards of the service, 1 to 4,096 [default: the library's]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=4096))]
    pub(crate) shards: Option<usize>,

    /// Resolution of the service, 1us to 1day
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration(Duration::from_micros(1)..=DAY))]
    pub(crate) tick: Duration,

    /// Share of the timers to cancel before they fire, 0 to 100 percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) cancel: u8,

    /// The time over which timers fall due, uniformly: it begins 1 s + 1 us for each timer after
    /// they are armed; up to 1h
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration(Duration::ZERO..=DAY / 24))]
    pub(crate) spread: Duration,

    /// Seed of the random delays and choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Run handlers on the shard threads instead of a rayon pool
    #[arg(long)]
    pub(crate) inline: bool,

    /// Let the handler panic for one in COUNT timers that fire; 0: for none
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) panic_every: u32,

    /// Measure an idle service instead: rings, wake-ups and CPU; takes 45 seconds
    #[arg(long)]
    pub(crate) idle: bool,

    /// Measure instead how late a timer of one tick is while all others are cascaded from one slot;
    /// takes 4 s and 3 us for each timer, or more
    #[arg(long, conflicts_with = "idle")]
    pub(crate) cascade: bool,

    /// Measure instead what threads cost that arm 100 timers each and end, `--threads` of them at a
    /// time: 1 to 1,000,000 such threads
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["idle", "cascade", "timers", "cancel"], value_parser = count(1..=1_000_000))]
    pub(crate) short_lived: Option<usize>,

    /// Timers on disk are another program's: `check` says whose
    #[arg(long, hide = true, num_args = 0.., allow_hyphen_values = true)]
    durable: Option<Vec<String>>,

    /// Write the figures as one JSON object to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    /// What clap cannot check by itself: a message, in one line, if a value is absurd.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.durable.is_some() {
            let now = "scripts/check kills --timers COUNT --kills COUNT";
            return Err(format!("--durable is a program of its own: {now}"));
        }
        if self.timers < self.threads() {
            return Err(format!(
                "--timers {} is less than one for each of {} threads",
                self.timers,
                self.threads()
            ));
        }
        if let Some(file) = &self.json {
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
