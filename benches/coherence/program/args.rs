//! Arguments.

use crate::calls::Call;
use crate::run::Setting;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// Threads that the gate looks at.
const GATED: [usize; 2] = [2, 16];

/// Threads of `--quick`.
const QUICK: [usize; 3] = [1, 2, 16];

/// Threads of the table.
const ALL: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Counts the cache lines that calls fetch from other cores, on 1 to 64 threads, by a model of
/// their caches.
#[derive(Debug, Parser)]
#[command(version, name = "coherence", max_term_width = 100)]
pub(crate) struct Args {
    /// Half a minute: 1, 2 and 16 threads, one seed
    #[arg(long)]
    pub(crate) quick: bool,

    /// Threads that call: some of 1 to 64
    #[arg(long, value_delimiter = ',', value_parser = threads)]
    pub(crate) threads: Vec<usize>,

    /// Shards: some of 1 to 16. If not given: one for four threads
    #[arg(long, value_delimiter = ',', value_parser = shards)]
    pub(crate) shards: Vec<usize>,

    /// Whose timers
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) subjects: Vec<Name>,

    /// What they do
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) workloads: Vec<Call>,

    /// Random orders of each run, 1 to 20. If not given: 3
    #[arg(long, value_parser = seeds)]
    pub(crate) seeds: Option<u64>,

    /// Write the figures into this file, a line for each setting
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Name the lines that more than two cores share, by the code that fetches them
    #[arg(long, conflicts_with_all = ["json", "gate", "record"])]
    pub(crate) lines: bool,

    /// Compare with benches/coherence.txt; exit code 1 if a number has risen
    #[arg(long, conflicts_with_all = ["json", "threads", "shards", "subjects"])]
    pub(crate) gate: bool,

    /// Write what was counted to benches/coherence.txt
    #[arg(long, conflicts_with_all = ["gate", "json", "threads", "shards", "subjects", "workloads"])]
    pub(crate) record: bool,

    /// Have each operation add to one counter that all threads share: the gate must see it
    #[arg(long)]
    pub(crate) planted: bool,

    /// Count here: one setting
    #[arg(long, hide = true)]
    pub(crate) run: bool,

    /// Only what the gate needs
    #[arg(long, hide = true)]
    pub(crate) gated: bool,
}

/// A subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// wheelwork
    Wheelwork,
    /// The same with the handler on an executor's workers, one for each shard
    WheelworkExecutor,
    /// A binary heap in a mutex
    Heap,
    /// tokio's sleeps
    #[cfg(feature = "rivals")]
    Tokio,
    /// The sleeps of tokio's alternative timer, on one runtime with a worker for each thread
    #[cfg(feature = "rivals")]
    TokioAlt,
    /// The same on a runtime for each thread
    #[cfg(feature = "rivals")]
    TokioAltEach,
    /// pingora-timeout's sleeps
    #[cfg(feature = "rivals")]
    Pingora,
}

fn within(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().map_err(|_| "not a whole number".to_string())?;
    let fits = (1..=most).contains(&number);
    fits.then_some(number)
        .ok_or(format!("not between 1 and {most}"))
}

fn threads(text: &str) -> Result<usize, String> {
    within(text, 64)
}

fn shards(text: &str) -> Result<usize, String> {
    within(text, 16)
}

fn seeds(text: &str) -> Result<u64, String> {
    within(text, 20).map(|seeds| seeds as u64)
}

impl Name {
    /// Whether it can be stepped through this.
    fn has(self, call: Call) -> bool {
        match self {
            Self::WheelworkExecutor => call == Call::Fire,
            // Its own thread fires.
            #[cfg(feature = "rivals")]
            Self::Pingora => call != Call::Fire,
            _ => true,
        }
    }
}

impl Args {
    /// What is to be run.
    pub(crate) fn settings(&self) -> Vec<(Name, Setting)> {
        let or_all = |given: &[usize], all: &[usize]| match given {
            [] => all.to_vec(),
            given => given.to_vec(),
        };
        let is_gated = self.is_gated();
        let all: &[usize] = match () {
            () if is_gated => &GATED,
            () if self.quick => &QUICK,
            () => &ALL,
        };
        let subjects = match self.subjects.as_slice() {
            [] if is_gated || self.lines => &[Name::Wheelwork, Name::WheelworkExecutor],
            [] => Name::value_variants(),
            subjects => subjects,
        };
        let calls = match self.workloads.as_slice() {
            [] => Call::value_variants(),
            calls => calls,
        };
        let mut settings = Vec::new();
        for &call in calls {
            for &name in subjects.iter().filter(|name| name.has(call)) {
                for threads in or_all(&self.threads, all) {
                    let own = [threads.div_ceil(4)];
                    for shards in or_all(&self.shards, &own) {
                        let setting = Setting {
                            call,
                            threads,
                            shards,
                            is_planted: self.planted,
                        };
                        settings.push((name, setting));
                    }
                }
            }
        }
        settings
    }

    /// Whether it is about the recorded numbers.
    pub(crate) const fn is_gated(&self) -> bool {
        self.gate || self.record
    }

    /// Random orders of each run.
    pub(crate) fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.quick { 1 } else { 3 })
    }
}
