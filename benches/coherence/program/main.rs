//! `coherence`: the cache lines that calls fetch from other cores, by the number of threads.
//!
//! The program runs itself for each setting, so that a run finds nothing of another one in memory,
//! and counts there. Here are the tables, the JSON and the gate.

mod args;
mod calls;
#[path = "../../kit/src/command_line.rs"]
mod command_line;
mod figures;
mod json;
mod measure;
mod run;
mod subjects;
mod table;

use args::Args;
use command_line::{parse, wrong};
use figures::Figures;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use wheelwork_coherence::Allocator;
use wheelwork_recorded::{Margin, Numbers, Record, toolchain};

const RECORD: Record = Record {
    header: "\
# For one operation, by call and threads: cache lines fetched from another core, copies in other
# cores' caches ended, locked instructions on a line that another core had.
# Written by scripts/bench coherence --record.
",
    unit: "an operation",
    digits: 4,
    command: "scripts/bench coherence --record",
    margin: Margin {
        percent: 3.0,
        rest: 0.005,
    },
    // A counter that all threads share is beyond it: half a line on two threads.
    other: Margin {
        percent: 25.0,
        rest: 0.05,
    },
};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args) {
        Ok(is_as_it_was) => ExitCode::from(u8::from(!is_as_it_was)),
        Err(why) => wrong::<Args>(&why),
    }
}

/// Whether all is as it was recorded, or better.
fn run(args: &Args) -> Result<bool, String> {
    if args.run {
        measure::here(args)?;
        return Ok(true);
    }
    if args.lines {
        measure::lines(args)?;
        return Ok(true);
    }
    let figures = measure::all(args)?;
    if args.record || args.gate {
        return judge(args, &figures);
    }
    print!("{}", table::tables(&figures));
    if let Some(file) = &args.json {
        let text: String = figures.iter().map(json::line).collect();
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(true)
}

/// Records, or compares with what is recorded.
fn judge(args: &Args, figures: &[Figures]) -> Result<bool, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../coherence.txt");
    let counted = Numbers {
        toolchain: toolchain()?,
        numbers: figures.iter().flat_map(Figures::gated).collect(),
    };
    let only = |name: &str| args.workloads.is_empty() || counted.get(name).is_some();
    RECORD.judge(&file, &counted, args.record, only)
}
