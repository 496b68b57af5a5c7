//! Progress bars on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const REFRESH: Duration = Duration::from_millis(50);

/// Runs `work` and shows how far `done` has come of `total` meanwhile.
pub(crate) fn watch<R>(what: &str, total: u64, done: impl Fn() -> u64 + Sync, work: impl FnOnce() -> R) -> R {
    let bar = ProgressBar::new(total);
    if bar.is_hidden() {
        return work();
    }
    let style = ProgressStyle::with_template("{prefix:>8} [{bar:40}] {human_pos} of {human_len}").expect("the template is right");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(what.to_string());
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !finished.load(Relaxed) {
                bar.set_position(done().min(total));
                thread::park_timeout(REFRESH);
            }
            bar.set_position(done().min(total));
        });
        let result = work();
        finished.store(true, Relaxed);
        watcher.thread().unpark();
        bar.finish_and_clear();
        result
    })
}

/// Sleeps, and shows how much of it is over, in milliseconds.
pub(crate) fn wait(what: &str, time: Duration) {
    let start = Instant::now();
    watch(what, time.as_millis() as u64, || start.elapsed().as_millis() as u64, || thread::sleep(time));
}
