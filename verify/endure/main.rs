//! `endure`: services under load, and every timer accounted for. Two profiles: `chaos` has many
//! short lives full of trouble, `soak` one long life.

mod chaos;
mod ledger;
mod periodic;
mod soak;
mod wait;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;
use wheelwork_kit::program::{self, say};

/// Timer services under load, each timer accounted for.
///
/// Exit codes: 0 every timer was accounted for, 1 one was not, 2 wrong arguments, or nobody reads
/// the output.
#[derive(Parser)]
#[command(
    name = "endure",
    version,
    max_term_width = 110,
    arg_required_else_help = false
)]
struct Args {
    #[command(subcommand)]
    profile: Profile,
}

#[derive(Subcommand)]
enum Profile {
    Chaos(chaos::Args),
    Soak(soak::Args),
}

/// Reads a time in minutes, a week at the most.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if !(0.01..=10_080.0).contains(&minutes) {
        return Err("at least 0.01, at most 10,080".to_string());
    }
    Ok(Duration::from_secs_f64(60.0 * minutes))
}

fn main() -> ExitCode {
    program::run(|args: &Args| {
        let wrong = match &args.profile {
            Profile::Chaos(args) => chaos::run(args)?,
            Profile::Soak(args) => soak::run(args)?,
        };
        wrong.iter().for_each(|what| eprintln!("FAULT: {what}"));
        if wrong.is_empty() {
            say(format_args!("every timer was accounted for"));
        }
        Ok(ExitCode::from(u8::from(!wrong.is_empty())))
    })
}
