//! `fleetcheck`: nodes that share a private PostgreSQL, in trouble. They are killed, stopped and
//! started; so is the server. A ledger outside of them says what was acknowledged, cancelled and
//! handled, and which promise was broken.
//!
//! `scripts/check fleet` runs it.

mod clock;
mod handlers;
mod ledger;
mod node;
mod nodes;
mod parent;
mod report;
mod server;
mod trouble;
mod verdict;
mod wire;
mod work;

use clap::{Parser, Subcommand};
use node::NodeArgs;
use std::process::ExitCode;
use wheelwork_kit::program;

/// Nodes that share a PostgreSQL, in trouble: every timer is accounted for
#[derive(Parser, Debug)]
#[command(name = "fleetcheck")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
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
    /// Only these troubles
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<trouble::Trouble>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Is a node of such a run
    #[command(hide = true)]
    Node(NodeArgs),
}

fn main() -> ExitCode {
    program::run(|options: &Options| match &options.command {
        Some(Command::Node(node)) => Ok(node::serve(node)),
        None => parent::run(options),
    })
}
