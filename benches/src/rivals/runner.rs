//! Runs the measurements of a group, each in a process of its own, subjects in turn.

use crate::line::{Figures, Line};
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Measures what the lines name, but for those that say why not. `command` gives the program for one of them and its command line in a repetition; `step` is told
/// what comes next.
pub(crate) fn measure(
    lines: &mut [Line],
    reps: usize,
    timeout: Duration,
    command: impl Fn(&Line, usize) -> Result<Command, String>,
    mut step: impl FnMut(&str),
) {
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); lines.len()];
    for repetition in 0..reps {
        for (line, figures) in lines.iter_mut().zip(&mut figures) {
            // One that has failed once is not given a second chance to take as long.
            if line.skipped.is_some() {
                step("");
                continue;
            }
            step(&format!("{} {}, {} timers, {} threads", line.subject, line.workload, line.timers, line.threads));
            match command(line, repetition).and_then(|command| run(command, timeout)) {
                Ok(measured) => figures.push(measured),
                Err(why) => line.skipped = Some(why),
            }
        }
    }
    for (line, figures) in lines.iter_mut().zip(&figures) {
        line.summarize(figures);
    }
}

/// What the new process does with its figures, which `run` reads.
pub(crate) fn answer(figures: Result<Figures, String>) -> ExitCode {
    match figures {
        Ok(figures) => {
            println!("{}", figures.to_json());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// This program itself, for a measurement.
pub(crate) fn itself() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|error| format!("this program cannot be found: {error}"))
}

/// One measurement, in a new process.
fn run(mut command: Command, timeout: Duration) -> Result<Figures, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("no process: {error}"))?;
    let in_time = wait(&mut child, timeout);
    let (mut figures, mut errors) = (String::new(), String::new());
    // They end with the process.
    child.stdout.take().map(|mut out| out.read_to_string(&mut figures));
    child.stderr.take().map(|mut out| out.read_to_string(&mut errors));
    if !in_time {
        return Err(format!("given up after {timeout:?}"));
    }
    let last = errors.lines().last().unwrap_or("no figures");
    Figures::from_json(&figures).ok_or_else(|| format!("failed: {last}"))
}

/// Waits until the process has ended, and ends it if it takes too long. Returns whether it did not.
fn wait(child: &mut Child, timeout: Duration) -> bool {
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > timeout {
            // It may have ended by now, which is all the same.
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}
