//! `instructions`: how many instructions the main calls and parts take, by callgrind, held against
//! the numbers of `benches/instructions.txt`, or those of a setting of the compiler.

mod callgrind;
mod calls;
mod count;
mod parts;
mod setup;
mod wheels;

use clap::{Parser, ValueEnum};
use count::Count;
use std::path::Path;
use std::process::ExitCode;
use wheelwork_kit::program;
use wheelwork_recorded::{Margin, Numbers, Record, toolchain};

const RECORD: Record = Record {
    header: "# Instructions for one operation, by callgrind. Written by scripts/bench instructions --record.\n",
    unit: "instructions",
    digits: 2,
    command: "scripts/bench instructions --record",
    margin: Margin {
        percent: 3.0,
        rest: 0.0,
    },
    other: Margin {
        percent: 25.0,
        rest: 0.0,
    },
};

/// A setting of the compiler that this program was built with. Programs that use wheelwork choose
/// it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Setting {
    /// codegen-units = 1
    OneUnit,
    /// opt-level = "s"
    Small,
}

impl Setting {
    /// Where its numbers lie, in `benches/`.
    fn file(self) -> &'static str {
        match self {
            Self::OneUnit => "instructions-one-unit.txt",
            Self::Small => "instructions-small.txt",
        }
    }

    fn record(self) -> Record {
        let (header, command) = match self {
            Self::OneUnit => (
                "# As instructions.txt, with codegen-units = 1. Written by scripts/bench instructions --setting one-unit --record.\n",
                "scripts/bench instructions --setting one-unit --record",
            ),
            Self::Small => (
                "# As instructions.txt, with opt-level = \"s\". Written by scripts/bench instructions --setting small --record.\n",
                "scripts/bench instructions --setting small --record",
            ),
        };
        Record {
            header,
            command,
            ..RECORD
        }
    }
}

/// Counts the instructions of the main calls and parts, and fails if one takes more than it did.
#[derive(Debug, Parser)]
#[command(version, name = "instructions")]
struct Args {
    /// Write what was counted to benches/instructions.txt
    #[arg(long, conflicts_with = "only")]
    record: bool,

    /// Count as a program that is built so, against the numbers of that setting. (This is the
    /// script's, which builds it so.)
    #[arg(long)]
    setting: Option<Setting>,

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
    let (name, record) = match args.setting {
        None => ("instructions.txt", RECORD),
        Some(setting) => (setting.file(), setting.record()),
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let counted = Numbers {
        toolchain: toolchain()?,
        numbers: callgrind::measure(counts)?,
    };
    let only = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    record.judge(&file, &counted, args.record, only)
}
