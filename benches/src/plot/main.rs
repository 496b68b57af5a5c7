//! `plot`: the figures of `rivals`, or of `wheels`, as one page, with charts.

mod chart;
#[path = "../command_line.rs"]
mod command_line;
mod report;
mod row;

use clap::Parser;
use command_line::{parse, wrong};
use std::path::PathBuf;
use std::process::ExitCode;

/// Turns the JSON lines of `rivals --json` or `wheels --json` into one HTML page: rates by workload, cost by the number of timers, curves of lateness.
#[derive(Parser)]
#[command(name = "plot", version, max_term_width = 110)]
struct Args {
    /// The file that `rivals --json` or `wheels --json` has written
    #[arg(value_name = "FILE.json")]
    json: PathBuf,

    /// The page to write
    #[arg(value_name = "OUT.html")]
    html: PathBuf,
}

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => wrong::<Args>(&why),
    }
}

fn run(args: &Args) -> Result<(), String> {
    let text = std::fs::read_to_string(&args.json).map_err(|error| format!("{}: {error}", args.json.display()))?;
    let rows = row::read(&text).map_err(|why| format!("{}: {why}", args.json.display()))?;
    let page = report::page(&rows)?;
    std::fs::write(&args.html, page).map_err(|error| format!("{}: {error}", args.html.display()))
}
