//! `million`: a million real timers through wheelwork, on the real clock, from many threads, every one accounted for.

mod args;
mod cascade;
mod command_line;
mod idle;
mod ledger;
mod phases;
mod progress;
mod report;
mod run;
mod system;
#[cfg_attr(not(feature = "tui"), path = "no_tui.rs")]
mod tui;

use args::Args;
use command_line::{parse, wrong};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Err(why) = args.check() {
        return wrong::<Args>(&why);
    }
    if args.tui
        && let Err(why) = progress::open_picture(&args)
    {
        return wrong::<Args>(&why);
    }
    let result = match () {
        () if args.idle => idle::run(&args),
        () if args.cascade => cascade::run(&args),
        () => run::run(&args),
    };
    progress::close_picture();
    match result {
        Ok(broken) if broken.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => wrong::<Args>(&why),
    }
}
