//! `million`: a million real timers through wheelwork, on the real clock, from many threads, every one accounted for.

mod args;
mod cascade;
mod idle;
mod ledger;
mod phases;
mod progress;
mod report;
mod run;
mod system;

use args::Args;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // One clear line for a wrong argument; clap's own help and version as they are.
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or("wrong arguments");
            return wrong(first.trim_start_matches("error: "));
        }
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    if let Err(why) = args.check() {
        return wrong(&why);
    }
    let result = match () {
        () if args.idle => idle::run(&args),
        () if args.cascade => cascade::run(&args),
        () => run::run(&args),
    };
    match result {
        Ok(broken) if broken.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => wrong(&why),
    }
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("million: {why} (--help lists the options)");
    ExitCode::from(2)
}
