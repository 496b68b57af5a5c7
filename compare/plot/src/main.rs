//! `plot`: the figures of `timers`, `wheels`, `stores` or `coherence` as one page, with charts.

mod bars;
#[path = "../../../benches/kit/src/command_line.rs"]
mod command_line;
mod curves;
mod page;
mod report;
mod row;
mod scale;
mod subject;
mod svg;
mod threads;

use clap::Parser;
use command_line::{parse, wrong};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Turns the JSON lines of `timers --json`, `wheels --json`, `stores --json` or `coherence --json`
/// into one HTML page: rates by workload, cost by the number of timers or threads, curves of
/// lateness.
#[derive(Parser)]
#[command(name = "plot", version, max_term_width = 110)]
struct Args {
    /// The file that `timers`, `wheels`, `stores` or `coherence` has written by `--json`
    #[arg(value_name = "FILE.json")]
    json: PathBuf,

    /// The page to write
    #[arg(value_name = "OUT.html")]
    html: PathBuf,

    /// Write each chart into this folder too, as a picture by itself
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
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
    let text = std::fs::read_to_string(&args.json)
        .map_err(|error| format!("{}: {error}", args.json.display()))?;
    let figures = row::read(&text).map_err(|why| format!("{}: {why}", args.json.display()))?;
    let mut charts = report::charts(&figures.rows);
    charts.extend(threads::charts(&figures.rows));
    if let Some(folder) = &args.pictures {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("--pictures {}: {error}", folder.display()))?;
        charts
            .iter()
            .try_for_each(|chart| write(&folder.join(chart.file()), &chart.svg))?;
    }
    write(&args.html, &page::page(&figures, &charts))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
