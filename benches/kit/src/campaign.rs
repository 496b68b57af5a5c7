//! Campaign: measurements in groups, each in a process of its own. The subjects of a group take
//! turns; medians of the repetitions count.

use crate::line::{Figures, Line};
use crate::machine::{self, Packages};
use crate::program::{chosen, count, duration, each_once, say, say_text};
use crate::round_trip::{Distance, round_trip_ns};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{panic, thread};

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Runs for each repetition, at the most, where only those count that were near.
const RUNS_FOR_EACH: usize = 4;

/// A run in place of another one begins when the cores are near, unless that takes longer: then no
/// measurement has such runs any more.
const NEAR_AGAIN: Duration = Duration::from_secs(180);
const NEAR_LOOK: Duration = Duration::from_secs(1);

/// What all programs that measure can be told.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Repetitions of each measurement, 1 to 1,000 [default: 3; with --quick 1]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=1_000))]
    reps: Option<usize>,

    /// Few timers and operations, short waits
    #[arg(long)]
    pub quick: bool,

    /// A measurement that takes longer is given up, 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "3min", value_parser = duration(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    timeout: Duration,

    /// Seed of the random times and choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Versions to tell beside those of the crates: of what another program was built from
    #[arg(long, value_name = "NAME VERSION", value_delimiter = ',')]
    versions: Vec<String>,

    /// Write the figures to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// What is told of the place beside the machine.
    #[arg(skip)]
    pub place: Option<String>,

    /// How far the cores are from each other, and what that means for a run.
    #[arg(skip)]
    pub cores: Cores,
}

/// How far the cores are from each other, where that may change. The module
/// [`round_trip`](crate::round_trip) says what that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cores {
    /// It is not looked at.
    #[default]
    Unwatched,
    /// It is told as the figure `round_trip_ns`, and that is all.
    Told,
    /// Repetitions count that were near. Those that were far are told apart, and one during which
    /// it has changed is dropped. A measurement has some more runs in place of these.
    Near,
}

impl Options {
    /// Of each measurement.
    pub fn reps(&self) -> usize {
        self.reps.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// The sizes that were given; or, if none were, the usual ones, or few that are quick.
    pub fn sizes(&self, given: &[usize], usual: &[usize], few: &[usize]) -> Vec<usize> {
        let sizes = match given {
            [] if self.quick => few,
            [] => usual,
            given => given,
        };
        sizes.to_vec()
    }
}

/// What is measured, of which there is a choice.
#[derive(Args, Clone, Debug)]
pub struct Choice<S: Named, W: Named> {
    /// Subjects to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Vec<S>,

    /// Workloads to measure [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workloads: Vec<W>,
}

/// Has a name on the command line.
pub trait Named: ValueEnum + PartialEq + Send + Sync + 'static {}

impl<T: ValueEnum + PartialEq + Send + Sync + 'static> Named for T {}

impl<S: Named, W: Named> Choice<S, W> {
    /// Each once.
    pub fn subjects(&self) -> Vec<S> {
        chosen(&self.subjects)
    }

    /// Each once.
    pub fn workloads(&self) -> Vec<W> {
        chosen(&self.workloads)
    }

    /// What is to be measured, in order, each once: of each workload and each of its sizes the jobs
    /// of all subjects that have one.
    pub fn groups<J: PartialEq>(
        &self,
        sizes: impl Fn(W) -> Vec<usize>,
        job: impl Fn(S, W, usize) -> Option<J>,
    ) -> Vec<Vec<J>> {
        let mut groups = Vec::new();
        for workload in self.workloads() {
            for size in sizes(workload.clone()) {
                let subjects = self.subjects().into_iter();
                let jobs = subjects.filter_map(|subject| job(subject, workload.clone(), size));
                groups.push(jobs.collect());
            }
        }
        each_once(
            groups
                .into_iter()
                .filter(|group: &Vec<J>| !group.is_empty()),
        )
    }

    /// Whether nobody has named a workload.
    pub fn is_of_all_workloads(&self) -> bool {
        self.workloads.is_empty()
    }
}

/// The machine, in lines, and the file of `--json`: for a program whose measurements are no groups.
pub fn begin(json: Option<&Path>, packages: Packages) -> Result<(String, Record), String> {
    let machine = machine::describe(None, packages);
    let record = Record::create(json, &machine)?;
    Ok((machine, record))
}

/// A subject in a workload, and the process that measures it.
pub struct Measurement {
    /// What is known before. If it says why it is skipped, nothing is measured.
    pub line: Line,
    /// The command line, but for `--seed` and `--quick`.
    pub arguments: String,
    /// The program, if it is not this one.
    pub program: Option<PathBuf>,
}

/// Takes all groups through their measurements, and prints a table of each. The versions of
/// `packages` are told. Returns the lines, and where more can be written.
pub fn run<G>(
    options: &Options,
    packages: Packages,
    groups: &[G],
    measurements: impl Fn(&G) -> Vec<Measurement>,
    table: impl Fn(&G, &[Line]) -> String,
) -> Result<(Vec<Line>, Record), String> {
    let place = options.place.as_deref();
    let versions = options
        .versions
        .iter()
        .map(|version| format!(", {version}"));
    let machine = machine::describe(place, packages) + &versions.collect::<String>();
    let mut record = Record::create(options.json.as_deref(), &machine)?;
    say(format_args!("{machine}"));
    let groups: Vec<_> = groups
        .iter()
        .map(|group| (group, measurements(group)))
        .collect();
    let steps: usize = groups.iter().map(|(_, group)| group.len()).sum();
    let bar = ProgressBar::new((steps * options.reps()) as u64);
    let style = ProgressStyle::with_template("[{bar:40}] {pos} of {len}, {eta} left: {msg}")
        .expect("the template is right");
    bar.set_style(style.progress_chars("=> "));
    let mut all = Vec::new();
    let mut runs_for_each = match options.cores {
        Cores::Near => RUNS_FOR_EACH,
        Cores::Told | Cores::Unwatched => 1,
    };
    for (group, measurements) in groups {
        let lines = measure(options, measurements, &mut runs_for_each, &bar);
        bar.suspend(|| say_text(&table(group, &lines)));
        let far: Vec<Line> = lines.iter().filter_map(Line::while_far).collect();
        if !far.is_empty() {
            bar.suspend(|| say_text("\nThe same while the cores were far from each other:"));
            bar.suspend(|| say_text(&table(group, &far)));
        }
        record.add(lines.iter().map(Line::to_json))?;
        all.extend(lines);
    }
    bar.finish_and_clear();
    Ok((all, record))
}

/// What came of the runs of one measurement.
#[derive(Clone, Debug, Default)]
struct Runs {
    near: Vec<Figures>,
    far: Vec<Figures>,
    /// Those in which the distance has changed.
    dropped: usize,
}

impl Runs {
    /// Adds one, with the round trips before and after it where these count.
    fn add(&mut self, mut figures: Figures, round_trips: Option<[f64; 2]>, cores: Cores) {
        let Some([before, after]) = round_trips else {
            return self.near.push(figures);
        };
        figures.extend([("round_trip_ns", f64::midpoint(before, after))]);
        match [before, after].map(Distance::of) {
            _ if cores == Cores::Told => self.near.push(figures),
            [before, after] if before != after => self.dropped += 1,
            [Distance::Near, _] => self.near.push(figures),
            [Distance::Far, _] => self.far.push(figures),
        }
    }

    /// Puts all into the line.
    fn into_line(self, mut line: Line, reps: usize) -> Line {
        let (near, far) = (self.near.len(), self.far.len());
        line.summarize(&self.near);
        line.summarize_far(&self.far);
        if line.skipped.is_none() && near < reps {
            let dropped = self.dropped;
            let why = format!("of {reps} near: {near}; {far} were far, {dropped} changed");
            line.skipped = Some(why);
        }
        line
    }
}

/// Waits until the cores are near. Returns whether they are.
fn near_again() -> bool {
    let start = Instant::now();
    while round_trip_ns().map(Distance::of) == Some(Distance::Far) {
        if start.elapsed() > NEAR_AGAIN {
            return false;
        }
        thread::sleep(NEAR_LOOK);
    }
    true
}

/// The measurements of a group. `runs_for_each` is the most of them for a repetition: 1 from when
/// it was in vain to wait.
fn measure(
    options: &Options,
    group: Vec<Measurement>,
    runs_for_each: &mut usize,
    bar: &ProgressBar,
) -> Vec<Line> {
    let reps = options.reps();
    let mut group: Vec<_> = group
        .into_iter()
        .map(|measurement| (measurement, Runs::default()))
        .collect();
    for round in 0..reps * *runs_for_each {
        for (measurement, runs) in &mut group {
            let line = &measurement.line;
            // One that has failed once is not given a second chance to take as long.
            if line.skipped.is_some() {
                bar.inc(u64::from(round < reps));
                continue;
            }
            let done = runs.near.len();
            if done >= reps || round >= reps * *runs_for_each {
                continue;
            }
            if round >= reps && !near_again() {
                *runs_for_each = 1;
                continue;
            }
            let what = format!(
                "{} {}, {} timers, {} threads",
                line.subject, line.workload, line.timers, line.threads
            );
            if bar.is_hidden() {
                eprintln!(
                    "{} of {}: {what}",
                    bar.position() + 1,
                    bar.length().unwrap_or(0)
                );
            }
            bar.set_message(what);
            let round_trip = || match options.cores {
                Cores::Unwatched => None,
                Cores::Told | Cores::Near => round_trip_ns(),
            };
            let before = round_trip();
            match measurement.run(options, done) {
                Ok(measured) => {
                    let round_trips = before.zip(round_trip()).map(<[f64; 2]>::from);
                    runs.add(measured, round_trips, options.cores);
                }
                Err(why) => measurement.line.skipped = Some(why),
            }
            bar.inc(1);
            let is_one_more =
                runs.near.len() == done && measurement.line.skipped.is_none() && *runs_for_each > 1;
            bar.inc_length(u64::from(is_one_more));
        }
    }
    let lines = group.into_iter();
    lines
        .map(|(measurement, runs)| runs.into_line(measurement.line, reps))
        .collect()
}

impl Measurement {
    /// By this program's own inner command, `measure`: of the line's subject in its workload, with
    /// `more` to know.
    pub fn own(line: Line, more: &str) -> Self {
        let Line {
            subject, workload, ..
        } = &line;
        Self {
            arguments: format!("measure --subject {subject} --workload {workload} {more}"),
            line,
            program: None,
        }
    }

    /// Why it is not measured, if it is not, and what there is to say of how it is.
    pub fn told(mut self, refused: Option<&str>, remark: Option<&str>) -> Self {
        self.line.skipped = refused.map(ToString::to_string);
        self.line.remark = remark.map(ToString::to_string);
        self
    }

    /// Once, in a new process.
    fn run(&self, options: &Options, repetition: usize) -> Result<Figures, String> {
        let mut command = match &self.program {
            Some(program) => Command::new(program),
            None => itself()?,
        };
        let seed = options.seed.wrapping_add(repetition as u64).to_string();
        command
            .args(self.arguments.split(' '))
            .args(["--seed", &seed])
            .args(options.quick.then_some("--quick"));
        figures_of(command, options.timeout)
    }
}

/// The figures that this process prints, which has a line for what went wrong on standard error. It
/// is ended if it takes longer.
pub fn figures_of(mut command: Command, timeout: Duration) -> Result<Figures, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    end_with_us(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| format!("no process: {error}"))?;
    if !ends_in_time(&mut child, timeout) {
        return Err(format!("given up after {timeout:?}"));
    }
    // It has ended, so all is there; and it is little.
    let (mut figures, mut errors) = (String::new(), String::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    _ = out.map(|mut out| out.read_to_string(&mut figures));
    _ = err.map(|mut err| err.read_to_string(&mut errors));
    let last = errors.lines().last().unwrap_or("no figures");
    Figures::from_json(&figures).ok_or_else(|| format!("failed: {last}"))
}

/// Waits until the process has ended, and ends it if it takes too long. Returns whether it did not.
fn ends_in_time(child: &mut Child, timeout: Duration) -> bool {
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

/// One measurement, or what one needs of another process. Its threads end with the process.
pub fn child(measure: impl FnOnce() -> Result<Figures, String>) -> ExitCode {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        // The other threads would wait for this one.
        process::exit(101);
    }));
    answer(measure())
}

/// What the process of a measurement does with its figures.
pub fn answer(figures: Result<Figures, String>) -> ExitCode {
    match figures {
        Ok(figures) => {
            say(format_args!("{}", figures.to_json()));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// This program itself.
pub fn itself() -> Result<Command, String> {
    std::env::current_exe()
        .map(Command::new)
        .map_err(|error| format!("this program cannot be found: {error}"))
}

/// Has the system end the process when the thread that starts it ends, however that ends.
pub fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let ask = || {
            // SAFETY: this call takes numbers, and says what the kernel does with this process.
            if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        };
        // SAFETY: between fork and exec only a system call is made; nothing is allocated or locked.
        unsafe { command.pre_exec(ask) };
    }
}

/// The file of `--json`, if there is one: the machine, then a line for each subject in each group.
pub struct Record(Option<File>);

impl Record {
    /// Makes the file: before the measurements, not after them.
    fn create(json: Option<&Path>, machine: &str) -> Result<Self, String> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("--json {}: {error}", path.display()))
        };
        let mut record = json.map(create).transpose().map(Self)?;
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        record.add([json!({ "machine": machine, "date": date })])?;
        Ok(record)
    }

    /// Adds a line for each.
    pub fn add(&mut self, objects: impl IntoIterator<Item = Value>) -> Result<(), String> {
        let Some(file) = &mut self.0 else {
            return Ok(());
        };
        let lines = objects.into_iter().map(|object| format!("{object}\n"));
        file.write_all(lines.collect::<String>().as_bytes())
            .map_err(|error| format!("--json: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cores: Cores, round_trips: &[Option<[f64; 2]>]) -> Runs {
        let mut runs = Runs::default();
        for &round_trips in round_trips {
            runs.add(Figures::from([("mops", 2.0)]), round_trips, cores);
        }
        runs
    }

    const ALL: [Option<[f64; 2]>; 4] = [
        Some([80.0, 90.0]),
        Some([90.0, 410.0]),
        Some([410.0, 400.0]),
        Some([90.0, 90.0]),
    ];

    #[test]
    fn near_and_far_are_apart_and_what_changed_is_dropped() {
        let runs = runs(Cores::Near, &ALL);
        let line = |reps| {
            runs.clone()
                .into_line(Line::new("heap", "w1", 1, 1_000), reps)
        };
        let two = line(2);
        assert_eq!((two.reps, two.far_reps, two.skipped), (2, 1, None));
        let round_trip = two.figures.get("round_trip_ns").copied();
        assert_eq!(round_trip.map(|all| (all.min, all.max)), Some((85.0, 90.0)));
        let why = "of 3 near: 2; 1 were far, 1 changed";
        assert_eq!(line(3).skipped.as_deref(), Some(why));
    }

    #[test]
    fn where_it_is_only_told_all_count() {
        let runs = runs(Cores::Told, &ALL);
        assert_eq!((runs.near.len(), runs.far.len(), runs.dropped), (4, 0, 0));
    }

    #[test]
    fn where_there_is_one_core_all_count() {
        let runs = runs(Cores::Near, &[None, None]);
        assert_eq!(runs.near, [(); 2].map(|()| Figures::from([("mops", 2.0)])));
    }
}
