//! `million`: a million real timers through wheelwork, on the real clock, from many threads, every
//! one accounted for.

mod args;
mod cascade;
mod durable;
mod idle;
mod ledger;
mod phases;
mod progress;
mod report;
mod run;
mod short_lived;

use args::Args;
use std::process::ExitCode;
use wheelwork_kit::program;

fn main() -> ExitCode {
    program::run(|args: &Args| {
        args.check()?;
        let result = match () {
            () if args.idle => idle::run(args),
            () if args.cascade => cascade::run(args),
            () if args.short_lived.is_some() => short_lived::run(args),
            () if args.durable_child => return Ok(durable::serve(args)),
            () if args.durable.is_some() => durable::run(args),
            () => run::run(args),
        };
        let is_clean = result?.is_empty();
        Ok(ExitCode::from(u8::from(!is_clean)))
    })
}
