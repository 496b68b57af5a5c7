//! Progress: what a run shows of itself while it works. Bars on a terminal, the picture of `--tui`
//! if it was asked for, nothing elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::ServiceHandle;
use wheelwork_bench::program;

const REFRESH: Duration = Duration::from_millis(50);

/// What shows a run while it is open: the terminal's picture.
pub(crate) trait Picture: Sync {
    fn is_open(&self) -> bool;

    /// Gives the terminal back, and prints what was kept.
    fn close(&self);

    /// Keeps a line until it is closed. Not if it is already.
    fn keep(&self, line: &str) -> bool;

    /// The service that is at work from now on.
    fn look_at(&self, service: Option<ServiceHandle<u32>>);

    fn begin_phase(&self, what: &str, total: u64);

    fn set_done(&self, done: u64);

    fn end_phase(&self);
}

/// The process has one terminal.
static PICTURE: OnceLock<&dyn Picture> = OnceLock::new();

/// Shows the picture from now on, in place of bars.
#[cfg(feature = "tui")]
pub(crate) fn set_picture(picture: &'static dyn Picture) {
    PICTURE.get_or_init(|| picture);
}

/// The picture, as long as it is open.
fn picture() -> Option<&'static dyn Picture> {
    PICTURE.get().copied().filter(|picture| picture.is_open())
}

/// Restores the terminal, and prints what was said meanwhile.
pub(crate) fn close_picture() {
    if let Some(picture) = picture() {
        picture.close();
    }
}

/// Prints a line; while the picture is open, when that closes.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    if picture().is_some_and(|picture| picture.keep(&line.to_string())) {
        return;
    }
    program::say(line);
}

/// The picture shows a service as long as this lives.
pub(crate) struct Shown(());

/// Lets the picture, if there is one, show a service.
pub(crate) fn show(service: ServiceHandle<u32>) -> Shown {
    if let Some(picture) = picture() {
        picture.look_at(Some(service));
    }
    Shown(())
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(picture) = PICTURE.get() {
            picture.look_at(None);
        }
    }
}

/// A bar as all are.
fn bar(what: &str, total: u64, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let template = "{prefix:>8} [{bar:40}] {human_pos} of {human_len}";
    let style = ProgressStyle::with_template(template).expect("the template is right");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(what.to_string());
    bar
}

/// Several bars, one below the other.
pub(crate) struct Bars {
    bars: Vec<ProgressBar>,
    all: MultiProgress,
    shown: Instant,
}

impl Bars {
    /// One for each name, with its total.
    pub(crate) fn new(bars: &[(&str, u64)]) -> Self {
        let all = MultiProgress::new();
        let add =
            |(what, total): &(&str, u64)| all.add(bar(what, *total, ProgressDrawTarget::hidden()));
        Self {
            bars: bars.iter().map(add).collect(),
            shown: Instant::now(),
            all,
        }
    }

    /// Shows how far each is, now and then.
    pub(crate) fn show(&mut self, done: impl IntoIterator<Item = u64>) {
        if self.all.is_hidden() || self.shown.elapsed() < REFRESH {
            return;
        }
        self.shown = Instant::now();
        for (bar, done) in self.bars.iter().zip(done) {
            bar.set_position(done.min(bar.length().unwrap_or(done)));
        }
    }

    pub(crate) fn end(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// What a phase is shown by: the picture, and a bar that takes over when that is closed.
struct Phase {
    picture: Option<&'static dyn Picture>,
    bar: ProgressBar,
}

impl Phase {
    fn begin(what: &str, total: u64) -> Self {
        let picture = picture();
        let target = match picture {
            Some(_) => ProgressDrawTarget::hidden(),
            None => ProgressDrawTarget::stderr(),
        };
        let bar = bar(what, total, target);
        if let Some(picture) = picture {
            picture.begin_phase(what, total);
        }
        Self { picture, bar }
    }

    /// Nobody would see it.
    fn is_hidden(&self) -> bool {
        self.picture.is_none() && self.bar.is_hidden()
    }

    fn set_done(&self, done: u64) {
        match self.picture {
            Some(picture) if picture.is_open() => return picture.set_done(done),
            Some(_) if self.bar.is_hidden() => {
                self.bar.set_draw_target(ProgressDrawTarget::stderr())
            }
            _ => {}
        }
        self.bar.set_position(done);
    }

    fn end(&self) {
        if let Some(picture) = self.picture {
            picture.end_phase();
        }
        self.bar.finish_and_clear();
    }
}

/// Runs `work` and shows how far `done` has come of `total` meanwhile.
pub(crate) fn watch<R>(
    what: &str,
    total: u64,
    done: impl Fn() -> u64 + Sync,
    work: impl FnOnce() -> R,
) -> R {
    let phase = Phase::begin(what, total);
    if phase.is_hidden() {
        return work();
    }
    let result = follow(|| phase.set_done(done().min(total)), work);
    phase.end();
    result
}

/// Runs `work`, and calls `look` now and then meanwhile.
fn follow<R>(look: impl Fn() + Sync, work: impl FnOnce() -> R) -> R {
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !finished.load(Relaxed) {
                look();
                thread::park_timeout(REFRESH);
            }
        });
        // Should it panic, the watcher ends too.
        let result = panic::catch_unwind(AssertUnwindSafe(work));
        finished.store(true, Relaxed);
        watcher.thread().unpark();
        result.unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

/// Runs `work`, which takes so long, and shows how much of it is over, in milliseconds.
pub(crate) fn watch_time<R>(what: &str, time: Duration, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let over = || start.elapsed().as_millis() as u64;
    watch(what, time.as_millis() as u64, over, work)
}

/// Sleeps, and shows how much of it is over.
pub(crate) fn wait(what: &str, time: Duration) {
    watch_time(what, time, || thread::sleep(time));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_is_followed_is_looked_at_and_may_panic() {
        let (send, looked) = mpsc::channel();
        let look = || send.send(()).expect("it is received");
        assert_eq!(follow(look, || looked.recv()), Ok(()));
        let panicked = panic::catch_unwind(|| follow(|| (), || panic::panic_any("on purpose")));
        let panic = panicked.expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    }
}
