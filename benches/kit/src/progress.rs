//! Progress: what a run shows of itself while it works. Bars on a terminal, nothing elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const REFRESH: Duration = Duration::from_millis(50);

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
pub struct Bars {
    bars: Vec<ProgressBar>,
    all: MultiProgress,
    shown: Instant,
}

impl Bars {
    /// One for each name, with its total.
    pub fn new(bars: &[(&str, u64)]) -> Self {
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
    pub fn show(&mut self, done: impl IntoIterator<Item = u64>) {
        if self.all.is_hidden() || self.shown.elapsed() < REFRESH {
            return;
        }
        self.shown = Instant::now();
        for (bar, done) in self.bars.iter().zip(done) {
            bar.set_position(done.min(bar.length().unwrap_or(done)));
        }
    }

    /// Clears them.
    pub fn end(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// Runs `work` and shows how far `done` has come of `total` meanwhile.
pub fn watch<R>(
    what: &str,
    total: u64,
    done: impl Fn() -> u64 + Sync,
    work: impl FnOnce() -> R,
) -> R {
    let bar = bar(what, total, ProgressDrawTarget::stderr());
    // Nobody would see it.
    if bar.is_hidden() {
        return work();
    }
    let result = follow(|| bar.set_position(done().min(total)), work);
    bar.finish_and_clear();
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
pub fn watch_time<R>(what: &str, time: Duration, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let over = || start.elapsed().as_millis() as u64;
    watch(what, time.as_millis() as u64, over, work)
}

/// Sleeps, and shows how much of it is over.
pub fn wait(what: &str, time: Duration) {
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
