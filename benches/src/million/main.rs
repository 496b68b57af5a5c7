//! `million`: a million real timers through wheelwork, on the real clock, from many threads, every
//! one accounted for.

mod args;
mod cascade;
mod figures;
mod idle;
mod ledger;
mod phases;
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
            () => run::run(args),
        };
        let is_clean = result?.is_empty();
        Ok(ExitCode::from(u8::from(!is_clean)))
    })
}
