//! `instructions`: how many instructions each call and each part takes, by callgrind, held against the numbers of `benches/instructions.txt`.

mod callgrind;
mod calls;
#[path = "../command_line.rs"]
mod command_line;
mod count;
mod gate;
mod numbers;
mod parts;
mod toolchain;
mod wheels;

use clap::Parser;
use command_line::{parse, wrong};
use count::Count;
use numbers::Numbers;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use toolchain::Toolchain;

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
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let named = |name: &String| count::all().find(|count| count.name == *name).ok_or(format!("no count '{name}'"));
    let result = match &args.run {
        Some(name) => named(name).map(|count| {
            println!("{}", (count.run)());
            true
        }),
        None if args.only.is_empty() => judge(count::all().collect(), &args),
        None => args.only.iter().map(named).collect::<Result<_, _>>().and_then(|counts| judge(counts, &args)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => wrong::<Args>(&why),
    }
}

/// Counts, and records or compares. Whether all is as it was, or better.
fn judge(counts: Vec<Count>, args: &Args) -> Result<bool, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let toolchain = Toolchain::installed()?;
    let counted = callgrind::measure(&counts)?;
    if args.record {
        let text = Numbers { toolchain, counts: counted }.to_string();
        fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        print!("{text}");
        return Ok(true);
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut recorded: Numbers = text.parse()?;
    recorded.counts.retain(|(name, _)| args.only.is_empty() || args.only.contains(name));
    let verdict = gate::compare(&recorded, &Numbers { toolchain, counts: counted });
    verdict.lines.iter().for_each(|line| println!("{line}"));
    Ok(verdict.passed)
}
