//! The progress of many measurements: a bar on a terminal, lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("[{bar:40}] {pos} of {len}, {eta} left: {msg}").expect("the template is right");
        bar.set_style(style.progress_chars("=> "));
        Self(bar)
    }

    /// One more step begins; of what needs no work nothing is said.
    pub(crate) fn step(&self, what: &str) {
        self.0.inc(1);
        if self.0.is_hidden() && !what.is_empty() {
            eprintln!("{} of {}: {what}", self.0.position(), self.0.length().unwrap_or(0));
        }
        self.0.set_message(what.to_string());
    }

    /// Prints above the bar.
    pub(crate) fn print(&self, text: &str) {
        self.0.suspend(|| print!("{text}"));
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
