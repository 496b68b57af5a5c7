//! `window`: whether wheelwork is steady at any rate. Threads arm at full speed and cancel what
//! they armed a window of inserts ago. Memory, the lateness of other timers, and the memory that is
//! left have bounds.

mod args;
mod bounds;
mod measure;
mod rows;

use args::{Args, Command};
use bounds::Bounds;
use std::process::ExitCode;
use wheelwork_kit::campaign;
use wheelwork_kit::line::Figures;
use wheelwork_kit::machine::Packages;
use wheelwork_kit::program::{self, say};

/// Whose versions are told.
const PACKAGES: Packages = Packages {
    lock: include_str!("../../../Cargo.lock"),
    names: &["rayon-core"],
};

fn main() -> ExitCode {
    program::run(|args: &Args| match &args.command {
        Some(Command::Measure(row)) => Ok(campaign::child(|| Ok(measure::measure(row)))),
        None => run(args),
    })
}

/// All rows, each in a process of its own.
fn run(args: &Args) -> Result<ExitCode, String> {
    args.check()?;
    let rows = args.rows();
    let (machine, mut record) = campaign::begin(args.json.as_deref(), PACKAGES)?;
    say(format_args!("{machine}"));
    say(format_args!("{}", rows::head()));
    let mut failures = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        eprintln!("{} of {}: {row}", number + 1, rows.len());
        let bounds = Bounds::of(row);
        // One that has no figures does not end the others.
        let (figures, failed) = match row.measured() {
            Ok(figures) => {
                let failed = bounds.failed(&figures);
                (figures, failed)
            }
            Err(why) => (Figures::default(), vec![why]),
        };
        say(format_args!("{}", rows::line(row, &figures)));
        record.add([rows::json(row, &bounds, &figures, &failed)])?;
        failures.extend(failed.into_iter().map(|why| format!("FAILED {row}: {why}")));
    }
    failures
        .iter()
        .for_each(|failure| say(format_args!("{failure}")));
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}
