//! Command line: what the programs have in common. A wrong argument is one clear line and exit
//! code 2.

use clap::Parser;
use std::process::ExitCode;

/// The arguments; or, if they are wrong or ask for help, the exit code after that was said.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if !error.use_stderr() {
            // Help and version as they are.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        // What is missing comes on lines of its own.
        let text = error.to_string();
        let lines = text.lines().take_while(|line| !line.is_empty());
        let line: Vec<&str> = lines.map(str::trim).collect();
        wrong::<A>(line.join(" ").trim_start_matches("error: "))
    })
}

/// Says what is wrong.
pub fn wrong<A: Parser>(why: &str) -> ExitCode {
    let command = A::command();
    eprintln!("{}: {why} (--help lists the options)", command.get_name());
    ExitCode::from(2)
}
