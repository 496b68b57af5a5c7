//! `instructions`: how many instructions each call and each part takes, by callgrind, held against
//! the numbers of `benches/instructions.txt`.

mod callgrind;
mod calls;
mod count;
mod gate;
mod numbers;
mod parts;
mod setup;
mod wheels;

use clap::Parser;
use count::Count;
use numbers::Numbers;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use wheelwork_bench::program;

/// Counts the instructions of each call and each part, and fails if one takes more than it did.
#[derive(Debug, Parser)]
#[command(version, name = "instructions")]
struct Args {
    /// Write what was counted to benches/instructions.txt
    #[arg(long, conflicts_with = "only")]
    record: bool,

    /// Count these only, by their names in benches/instructions.txt
    #[arg(value_name = "NAME")]
    only: Vec<String>,

    /// Do what is to be counted, under callgrind
    #[arg(long, value_name = "NAME", hide = true)]
    run: Option<String>,
}

fn main() -> ExitCode {
    program::run(|args: &Args| {
        if let Some(name) = &args.run {
            (named(name)?.run)();
            return Ok(ExitCode::SUCCESS);
        }
        let counts = match args.only.as_slice() {
            [] => all(),
            only => only.iter().map(named).collect::<Result<_, _>>()?,
        };
        let is_as_it_was = judge(&counts, args)?;
        Ok(ExitCode::from(u8::from(!is_as_it_was)))
    })
}

fn all() -> Vec<Count> {
    [calls::COUNTS, wheels::COUNTS, parts::COUNTS].concat()
}

fn named(name: &String) -> Result<Count, String> {
    let count = all().into_iter().find(|count| count.name == *name);
    count.ok_or(format!("no count '{name}'"))
}

/// Counts, and records or compares. Whether all is as it was, or better.
fn judge(counts: &[Count], args: &Args) -> Result<bool, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let error = |error| format!("{}: {error}", file.display());
    let counted = Numbers {
        toolchain: numbers::toolchain()?,
        counts: callgrind::measure(counts)?,
    };
    if args.record {
        fs::write(&file, counted.to_string()).map_err(error)?;
        print!("{counted}");
        return Ok(true);
    }
    let mut recorded: Numbers = fs::read_to_string(&file).map_err(error)?.parse()?;
    if !args.only.is_empty() {
        recorded.counts.retain(|(name, _)| args.only.contains(name));
    }
    let lines = gate::compare(&recorded, &counted);
    lines.iter().for_each(|line| println!("{line}"));
    Ok(!lines.iter().any(|line| line.starts_with(gate::FAILED)))
}
