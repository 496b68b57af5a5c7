//! Options that the programs which measure share.

use crate::quantity;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Few timers and operations, short waits
    #[arg(long)]
    pub(crate) quick: bool,

    /// A measurement that takes longer is given up, up to 1h
    #[arg(long, value_name = "DURATION", default_value = "3min", value_parser = quantity::timeout)]
    pub(crate) timeout: Duration,

    /// Seed of the random times and choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write the figures to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
