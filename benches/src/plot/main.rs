//! `plot`: the figures of `rivals` as one page, with charts.

mod chart;
mod report;
mod row;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Turns the JSON lines of `rivals --json` into one HTML page: rates by workload, cost by the number of timers, curves of lateness.
#[derive(Parser)]
#[command(name = "plot", version, max_term_width = 110)]
struct Args {
    /// The file that `rivals --json` has written
    #[arg(value_name = "FILE.json")]
    json: PathBuf,

    /// The page to write
    #[arg(value_name = "OUT.html")]
    html: PathBuf,
}

fn main() -> ExitCode {
    // One clear line for a wrong argument; clap's own help and version as they are.
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            // What is missing comes on lines of its own.
            let line: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            return wrong(line.join(" ").trim_start_matches("error: "));
        }
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => wrong(&why),
    }
}

fn run(args: &Args) -> Result<(), String> {
    let text = std::fs::read_to_string(&args.json).map_err(|error| format!("{}: {error}", args.json.display()))?;
    let rows = row::read(&text).map_err(|why| format!("{}: {why}", args.json.display()))?;
    let page = report::page(&rows)?;
    std::fs::write(&args.html, page).map_err(|error| format!("{}: {error}", args.html.display()))
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("plot: {why} (--help says more)");
    ExitCode::from(2)
}
