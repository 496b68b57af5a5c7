//! Runs the measurements of a group, each in a process of its own, subjects in turn.

use crate::args::{Args, Group};
use crate::job::Job;
use crate::line::{Figures, Line};
use crate::subjects::Name;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Measures a group. `step` is told what comes next.
pub(crate) fn measure(args: &Args, group: Group, mut step: impl FnMut(&str)) -> Vec<Line> {
    let subjects = args.subjects();
    let mut lines: Vec<Line> = subjects.iter().map(|&subject| blank(subject, group)).collect();
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); subjects.len()];
    for repetition in 0..args.reps() {
        for ((&subject, line), figures) in subjects.iter().zip(&mut lines).zip(&mut figures) {
            // One that has failed once is not given a second chance to take as long.
            if line.skipped.is_some() {
                step("");
                continue;
            }
            let Group { workload, timers, threads } = group;
            step(&format!("{} {}, {timers} timers, {threads} threads", subject.text(), workload.text()));
            let job = Job { workload, timers, threads, seed: args.seed.wrapping_add(repetition as u64), quick: args.quick };
            match run(subject, &job, args.timeout) {
                Ok(measured) => figures.push(measured),
                Err(why) => line.skipped = Some(why),
            }
        }
    }
    for (line, figures) in lines.iter_mut().zip(&figures) {
        line.summarize(figures);
    }
    lines
}

fn blank(subject: Name, group: Group) -> Line {
    Line {
        subject: subject.text(),
        workload: group.workload.text(),
        threads: group.threads,
        timers: group.timers,
        skipped: subject.refuses(group.workload, group.threads).map(ToString::to_string),
        remark: subject.remark(group.workload).map(ToString::to_string),
        ..Line::default()
    }
}

/// One measurement, by this program itself in a new process.
fn run(subject: Name, job: &Job, timeout: Duration) -> Result<Figures, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let child = Command::new(program)
        .args(["measure", "--subject", &subject.text()])
        .args(job.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
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
