//! Report: the table for people, and the same figures as JSON under stable names.

use crate::ledger::Balance;
use crate::phases::Cost;
use crate::progress;
use hdrhistogram::Histogram;
use serde_json::{Map, json};
use std::path::Path;

/// A figure with its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Count(u64),
    Bytes(f64),
    Seconds(f64),
    Milliseconds(f64),
    Ratio(f64),
    PerSecond(f64),
}

#[derive(Default)]
pub(crate) struct Report {
    figures: Map<String, serde_json::Value>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn section(&mut self, title: &str) {
        progress::say(format_args!("\n{title}"));
    }

    /// One figure, on a line of the table and under `name`.
    pub(crate) fn line(&mut self, what: &str, name: &str, value: Value) {
        let (text, number) = match value {
            Value::Count(count) => (format!("{count}"), json!(count)),
            Value::Bytes(bytes) => (format!("{bytes:.1} B"), json!(rounded(bytes, 10.0))),
            Value::Seconds(seconds) => (format!("{seconds:.3} s"), json!(rounded(seconds, 1e6))),
            Value::Milliseconds(ms) => (format!("{ms:.3} ms"), json!(rounded(ms, 1e6))),
            Value::PerSecond(rate) => (format!("{rate:.1} /s"), json!(rounded(rate, 1e3))),
            Value::Ratio(ratio) => (format!("{ratio:.2} x"), json!(rounded(ratio, 1e3))),
        };
        progress::say(format_args!("  {what:<28} {text:>14}"));
        self.figures.insert(name.to_string(), number);
    }

    pub(crate) fn ratio(&mut self, what: &str, name: &str, ratio: f64) {
        self.line(what, name, Value::Ratio(ratio));
    }

    /// A phase: rate, time of a thread for an operation, CPU of all threads for a million.
    pub(crate) fn cost(&mut self, what: &str, name: &str, cost: &Cost, threads: usize) {
        let (mops, ns, cpu) = (cost.mops(), cost.ns_per_op(threads), cost.cpu_s_per_mop());
        progress::say(format_args!("  {what:<28} {mops:>8.2} M/s {ns:>9.1} ns/op {cpu:>8.3} CPU s/M"));
        self.figures.insert(format!("{name}_mops"), json!(rounded(mops, 1e3)));
        self.figures.insert(format!("{name}_ns"), json!(rounded(ns, 10.0)));
        self.figures.insert(format!("{name}_cpu_s_per_mop"), json!(rounded(cpu, 1e6)));
    }

    /// Percentiles of a histogram of nanoseconds.
    pub(crate) fn lateness(&mut self, name: &str, histogram: &Histogram<u64>) {
        for (what, suffix, quantile) in [("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p99.9", "p999", 0.999), ("max", "max", 1.0)] {
            let us = histogram.value_at_quantile(quantile) as f64 / 1e3;
            progress::say(format_args!("  {what:<28} {us:>11.1} us"));
            self.figures.insert(format!("{name}_us_{suffix}"), json!(rounded(us, 1e3)));
        }
    }

    pub(crate) fn balance(&mut self, balance: &Balance) {
        let Balance { armed, fired, cancelled, handed_back, early, lost, doubled, refused: _ } = *balance;
        progress::say(format_args!("  armed {armed} = fired {fired} + cancelled {cancelled} + handed back {handed_back}"));
        progress::say(format_args!("  early {early}, lost {lost}, doubled {doubled}"));
        let counts = [
            ("armed", armed),
            ("fired", fired),
            ("cancelled", cancelled),
            ("handed_back", handed_back),
            ("early", early),
            ("lost", lost),
            ("doubled", doubled),
        ];
        self.figures.extend(counts.map(|(name, count)| (name.to_string(), json!(count))));
    }

    pub(crate) fn verdict(&mut self, broken: &[String]) {
        self.figures.insert("verdict".to_string(), json!(if broken.is_empty() { "clean" } else { "broken" }));
        match broken {
            [] => progress::say(format_args!("  clean: every promise held")),
            _ => broken.iter().for_each(|what| progress::say(format_args!("  BROKEN: {what}"))),
        }
    }

    /// Writes the figures to a file, if there is one.
    pub(crate) fn finish(self, file: Option<&Path>) -> Result<(), String> {
        let Some(file) = file else { return Ok(()) };
        let text = serde_json::to_string_pretty(&self.figures).expect("numbers and strings") + "\n";
        std::fs::write(file, text).map_err(|error| format!("--json {}: {error}", file.display()))
    }
}

/// Keeps the digits that mean something.
fn rounded(number: f64, precision: f64) -> f64 {
    (number * precision).round() / precision
}
