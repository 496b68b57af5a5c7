//! `futures`: what timers cost that are futures, under tokio's scheduler. A timeout around a
//! future, and a deadline that moves at each message.

mod deadline;
mod resets;
mod tasks;
mod timeouts;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use wheelwork_kit::{campaign, program};

/// What a timeout around a ready future and around a pending one costs, by wheelwork and by tokio.
#[derive(Parser)]
#[command(
    name = "futures",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    timeouts: timeouts::Timeouts,
}

#[derive(Subcommand)]
enum Command {
    /// A million deadlines of 60 s, which messages move: by tokio's timers, pingora's, wheelwork's,
    /// and without any
    ///
    /// One process for each measurement, timers in turn, medians. Everything takes ten minutes;
    /// --quick some seconds, for figures that only show that it works.
    Resets(resets::Args),
    /// One measurement; prints its figures
    #[command(hide = true)]
    Measure(resets::Job),
}

fn main() -> ExitCode {
    program::run(|args: &Args| {
        match &args.command {
            Some(Command::Resets(args)) => resets::run(args)?,
            Some(Command::Measure(job)) => return Ok(campaign::answer(tasks::measure(job))),
            None => timeouts::run(&args.timeouts),
        }
        Ok(ExitCode::SUCCESS)
    })
}
