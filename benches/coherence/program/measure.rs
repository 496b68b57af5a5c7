//! Measure: a process for each setting, as many at a time as there are cores.

use crate::args::{Args, Name};
use crate::figures::{Figures, name, written};
use crate::run::{Setting, run};
use crate::subjects::heap::Heap;
use crate::subjects::wheelwork::{Executed, Wheelwork};
#[cfg(feature = "rivals")]
use crate::subjects::{alt::Alt, pingora::Pingora, tokio::Tokio};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use wheelwork_coherence::{Census, Counts, Mix, named};

/// Counts all settings.
pub(crate) fn all(args: &Args) -> Result<Vec<Figures>, String> {
    let settings = args.settings();
    let next = AtomicUsize::new(0);
    // Ordering: Relaxed. Only the number matters.
    let mine = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < settings.len());
    let work = || -> Vec<_> {
        let mine = std::iter::from_fn(mine);
        mine.map(|at| (at, apart(args, settings[at]))).collect()
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut counted: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let threads = threads.into_iter();
        let counted = threads.flat_map(|thread| thread.join().expect("it does not panic"));
        counted.collect()
    });
    counted.sort_by_key(|(at, _)| *at);
    counted.into_iter().map(|(_, figures)| figures).collect()
}

/// The lines of all settings, one after the other.
pub(crate) fn lines(args: &Args) -> Result<(), String> {
    for (subject, setting) in args.settings() {
        print!("{}", output(args, (subject, setting), &["--lines"])?);
    }
    Ok(())
}

/// Counts a setting in a process of its own.
fn apart(args: &Args, (subject, setting): (Name, Setting)) -> Result<Figures, String> {
    let text = output(args, (subject, setting), &[])?;
    Figures::read(subject, setting, &text)
        .ok_or_else(|| format!("{} was not counted: {text}", title(subject, setting)))
}

fn output(
    args: &Args,
    (subject, setting): (Name, Setting),
    more: &[&str],
) -> Result<String, String> {
    let error = |error: String| format!("{}: {error}", title(subject, setting));
    let program = std::env::current_exe().map_err(|why| error(why.to_string()))?;
    let mut command = Command::new(program);
    command.args(["--run", "--subjects", &name(&subject)]);
    command.args(["--workloads", &name(&setting.call)]);
    command.args(["--threads", &setting.threads.to_string()]);
    command.args(["--shards", &setting.shards.to_string()]);
    command.args(["--seeds", &args.seeds().to_string()]);
    let flags = [("--planted", args.planted), ("--gated", args.is_gated())];
    let flags = flags.iter().filter(|(_, is_set)| *is_set);
    command.args(flags.map(|(flag, _)| flag)).args(more);
    let output = command.output().map_err(|why| error(why.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', " ");
        return Err(error(said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn title(subject: Name, setting: Setting) -> String {
    let Setting {
        threads, shards, ..
    } = setting;
    format!(
        "{} {}, {threads} threads, {shards} shards",
        name(&subject),
        name(&setting.call)
    )
}

/// Counts one setting in this process, and prints what [`Figures::read`] reads, or the lines.
pub(crate) fn here(args: &Args) -> Result<(), String> {
    let [(subject, setting)] = args.settings()[..] else {
        return Err("not one setting".to_string());
    };
    let mut census = Census::default();
    let mixes: &[Mix] = match () {
        () if args.gated || args.lines => &[Mix::Whole],
        () => &[Mix::Whole, Mix::Fine],
    };
    let seeds = if args.lines { 1 } else { args.seeds() };
    let counts = counts(
        subject,
        setting,
        (mixes, seeds),
        args.lines.then_some(&mut census),
    );
    if args.lines {
        println!("{}", title(subject, setting));
        print!("{}", named(&census, setting.operations())?);
    } else {
        print!("{}", written(&counts));
    }
    Ok(())
}

fn counts(
    subject: Name,
    setting: Setting,
    orders: (&[Mix], u64),
    census: Option<&mut Census>,
) -> Vec<(Mix, Counts)> {
    match subject {
        Name::Wheelwork => run::<Wheelwork>(setting, orders, census),
        Name::WheelworkExecutor => run::<Executed>(setting, orders, census),
        Name::Heap => run::<Heap>(setting, orders, census),
        #[cfg(feature = "rivals")]
        Name::Tokio => run::<Tokio>(setting, orders, census),
        #[cfg(feature = "rivals")]
        Name::TokioAlt => run::<Alt<false>>(setting, orders, census),
        #[cfg(feature = "rivals")]
        Name::TokioAltEach => run::<Alt<true>>(setting, orders, census),
        #[cfg(feature = "rivals")]
        Name::Pingora => run::<Pingora>(setting, orders, census),
    }
}
