//! The command line of a fleet.

use crate::trouble::Trouble;
use std::path::PathBuf;
use std::time::Duration;

/// Minutes from which on there are deploys.
const DEPLOY_MINUTES: u32 = 5;

/// Nodes that share a PostgreSQL, in trouble: every timer is accounted for
#[derive(clap::Args, Debug)]
#[command(max_term_width = 110)]
pub(crate) struct Args {
    /// How long there is trouble
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    pub(crate) minutes: u32,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Nodes at the beginning
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) nodes: u32,
    /// How long leases last, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) ttl: u32,
    /// Arms a second, of each node
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) rate: u32,
    /// With a synchronous standby, which is promoted; runs of 10 minutes have one in any case
    #[arg(long)]
    pub(crate) standby: bool,
    /// This program of an earlier version is half of the nodes, and the first one
    #[arg(long)]
    pub(crate) old: Option<PathBuf>,
    /// Only these troubles
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Trouble>,

    /// The node of this number, which the run itself starts
    #[arg(long, hide = true)]
    pub(crate) node: Option<u32>,
    /// From the machine's monotonic clock to the server's, in nanoseconds
    #[arg(long, hide = true, allow_hyphen_values = true, default_value_t = 0)]
    pub(crate) offset_ns: i64,
    /// It arms nothing
    #[arg(long, hide = true)]
    pub(crate) quiet: bool,
    /// It has no handler of this kind
    #[arg(long, hide = true)]
    pub(crate) without: Option<String>,
    /// How long timers wait for a handler before they are dead letters, in seconds
    #[arg(long, hide = true, default_value_t = 2)]
    pub(crate) bury_after: u64,
}

impl Args {
    /// How long leases last.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_secs(self.ttl.into())
    }

    /// Whether a program without a kind is deployed. Its timers may wait for a minute then.
    pub(crate) fn has_deploys(&self) -> bool {
        match self.only.is_empty() {
            true => self.minutes >= DEPLOY_MINUTES,
            false => self.only.contains(&Trouble::Deploy),
        }
    }
}
