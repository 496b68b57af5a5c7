//! A store with many timers: what they take of memory and disk, and how long it takes after a
//! restart until the first overdue timer has fired.
//!
//! Another process loads them, so that this one's memory is that of a program that has opened the
//! store. Deadlines rise as the timers are armed: random ones would take some engines for hours.
//! A thousand more are due a second and a half after that: nobody is there then. The files are in
//! the system's page cache.

use crate::disk;
use crate::fires::{arm_all, wait_until_fired};
use crate::job::Job;
use crate::ledger::Ledger;
use crate::name::Name;
use crate::random::{Timers, now_ms, now_ns};
use crate::subjects::{Subject, Work, with};
use clap::Args;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::campaign::{end_with_us, itself};
use wheelwork_kit::line::Figures;
use wheelwork_kit::program::say;

/// Timers in memory, at the most.
const WINDOW_ROWS: usize = 100_000;

/// Timers that come due while nobody is there.
const OVERDUE: usize = 1_000;
const OVERDUE_AFTER_MS: u64 = 1_500;

/// Stored ones are due uniformly over 100 minutes, an hour from now.
const FROM_MS: u64 = 3_600_000;
const SPREAD_MS: u64 = 6_000_000;

/// Arms after the restart, before memory is looked at again.
const MORE: usize = 100_000;

const REST: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(300);

/// What another process does before a measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    #[arg(long)]
    subject: Name,
    /// Where the store is
    #[arg(long)]
    folder: PathBuf,
    /// Timers that are far away
    #[arg(long)]
    count: usize,
    #[arg(long)]
    seed: u64,
    /// Wait, with the store open, until somebody ends this process
    #[arg(long)]
    linger: bool,
}

/// Loads, and tells how fast.
pub(crate) fn load(load: &Load) -> Result<Figures, String> {
    with(load.subject, load)
}

impl Work for Load {
    fn by<S: Subject>(&self) -> Result<Figures, String> {
        let ledger = Arc::<Ledger>::default();
        let subject = S::open_window(&self.folder, &ledger, WINDOW_ROWS)?;
        let mut timers = Timers::within(self.seed, 0, OVERDUE_AFTER_MS / 10);
        let start = Instant::now();
        let (first_ms, mut number) = (now_ms() + FROM_MS, 0);
        arm_all(&subject, self.count, || {
            number += 1;
            let due = first_ms + number * SPREAD_MS / self.count as u64;
            (due, timers.payload())
        })?;
        let elapsed = start.elapsed();
        let due_ms = now_ms() + OVERDUE_AFTER_MS;
        arm_all(&subject, OVERDUE, || {
            (due_ms + timers.due(), timers.payload())
        })?;
        let kops = self.count as f64 / 1e3 / elapsed.as_secs_f64();
        let mut figures = Figures::from([("load_kops", kops)]);
        if self.linger {
            say(format_args!("{}", figures.to_json()));
            loop {
                thread::park();
            }
        }
        subject.close()?;
        // Closing took its time.
        figures.extend([("fired_while_closing", ledger.fired_so_far() as f64)]);
        Ok(figures)
    }
}

/// Starts a process that loads, and reads its figures. With `kill` it is killed then, else it
/// closes its store first.
fn by_another(job: &Job, folder: &Path, count: usize, kill: bool) -> Result<Figures, String> {
    let mut command = itself()?;
    let subject = wheelwork_kit::program::name(&job.subject);
    command
        .args(["load", "--subject", &subject, "--folder"])
        .arg(folder)
        .args(["--count", &count.to_string()])
        .args(["--seed", &job.seed.to_string()])
        .args(kill.then_some("--linger"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    end_with_us(&mut command);
    let child = command.spawn();
    let mut child = child.map_err(|error| format!("no process: {error}"))?;
    let figures = read_line(&mut child);
    if kill {
        // It is ours, and it waits to be killed.
        let _ = child.kill();
    }
    let ended = child.wait();
    ended.map_err(|error| format!("the process that loads: {error}"))?;
    let figures = Figures::from_json(&figures);
    // What it has armed last is overdue now.
    thread::sleep(Duration::from_millis(OVERDUE_AFTER_MS * 6 / 5));
    figures.ok_or_else(|| "the process that loads has failed".to_string())
}

fn read_line(child: &mut Child) -> String {
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An error leaves it empty, which is none of the figures.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    line
}

/// A store that was opened, and when its first timer fired.
struct Opened<S> {
    subject: S,
    open_ms: f64,
    first_ms: f64,
    all_ms: f64,
}

/// Opens it, and waits until this number of overdue timers has fired.
fn open<S: Subject>(folder: &Path, overdue: u64) -> Result<Opened<S>, String> {
    let ledger = Arc::<Ledger>::default();
    let start_ns = now_ns();
    let since = |time_ns: u64| time_ns.saturating_sub(start_ns) as f64 / 1e6;
    let subject = S::open_window(folder, &ledger, WINDOW_ROWS)?;
    let open_ms = since(now_ns());
    wait_until_fired(&ledger, overdue, PATIENCE);
    let lateness = ledger.lateness();
    if lateness.count() < overdue {
        let fired = lateness.count();
        return Err(format!("{fired} of {overdue} overdue timers have fired"));
    }
    Ok(Opened {
        subject,
        open_ms,
        first_ms: since(lateness.first_ns),
        all_ms: since(lateness.last_ns),
    })
}

pub(crate) fn measure<S: Subject>(job: &Job, folder: &Path) -> Result<Figures, String> {
    let count = job.timers();
    let mut figures = by_another(job, folder, count, false)?;
    let file_bytes = disk::file_bytes(folder) as f64 / count as f64;
    let fired = figures.0.remove("fired_while_closing").unwrap_or(0.0) as u64;
    let opened = open::<S>(folder, (OVERDUE as u64).saturating_sub(fired))?;
    figures.extend([
        ("file_bytes", file_bytes),
        ("reopen_ms", opened.first_ms),
        ("reopen_all_ms", opened.all_ms),
        ("open_ms", opened.open_ms),
    ]);
    let subject = opened.subject;
    let mb = || disk::resident_bytes(subject.server()) as f64 / 1e6;
    let (rest, more) = match job.quick {
        true => (REST / 20, MORE / 100),
        false => (REST, MORE / job.subject.part(job.workload)),
    };
    thread::sleep(rest);
    figures.extend([("rss_mb", mb())]);
    figures.extend(subject.in_memory().map(|rows| ("in_memory", rows as f64)));
    let mut timers = Timers::far(job.seed.wrapping_add(1));
    arm_all(&subject, more, || (timers.due(), timers.payload()))?;
    figures.extend([("used_rss_mb", mb())]);
    subject.close()?;
    by_another(job, folder, OVERDUE, true)?;
    let opened = open::<S>(folder, OVERDUE as u64)?;
    figures.extend([
        ("killed_ms", opened.first_ms),
        ("killed_all_ms", opened.all_ms),
    ]);
    opened.subject.close()?;
    Ok(figures)
}
