//! `kills`: durable timers whose processes are killed. A ledger outside of them says what was
//! acknowledged, cancelled and handled, and which promise was broken.
//!
//! There are two stores: a file, which one process has at a time, and a PostgreSQL that the nodes
//! of a fleet share. Each is an adapter: what its processes do, and what is done to them. They have
//! one wire between processes and parent, one ledger and one judge.

#![cfg_attr(
    not(feature = "fleet"),
    allow(
        dead_code,
        reason = "a file has less to tell, and less trouble, than a fleet"
    )
)]

mod clock;
mod file;
#[cfg(feature = "fleet")]
mod fleet;
mod ledger;
mod process;
mod timers;
mod trouble;
mod verdict;
mod wire;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use wheelwork_kit::program;

/// Durable timers whose processes are killed, every one accounted for.
///
/// Exit codes: 0 every promise held, 1 a promise was broken, 2 wrong arguments, or an output that
/// can't be written.
#[derive(Parser, Debug)]
#[command(
    name = "kills",
    version,
    max_term_width = 110,
    arg_required_else_help = false
)]
struct Args {
    #[command(subcommand)]
    store: Store,
}

#[derive(Subcommand, Debug)]
enum Store {
    File(file::Args),
    #[cfg(feature = "fleet")]
    Fleet(fleet::Args),
}

fn main() -> ExitCode {
    program::run(|args: &Args| match &args.store {
        Store::File(args) => file::run(args),
        #[cfg(feature = "fleet")]
        Store::Fleet(args) => fleet::run(args),
    })
}
