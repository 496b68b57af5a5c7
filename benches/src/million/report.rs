//! Report: the table for people, and the same figures as JSON under stable names.

use crate::ledger::Balance;
use crate::phases::Cost;
use serde_json::{Map, Value, json};
use std::path::Path;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::program::say;

#[derive(Default)]
pub(crate) struct Report {
    figures: Map<String, Value>,
}

impl Report {
    pub(crate) fn section(&mut self, title: &str) {
        say(format_args!("\n{title}"));
    }

    fn insert(&mut self, name: &str, number: Value) {
        self.figures.insert(name.to_string(), number);
    }

    /// One count, on a line of the table and under `name`.
    pub(crate) fn count(&mut self, what: &str, name: &str, count: u64) {
        say(format_args!("  {what:<28} {count:>14}"));
        self.insert(name, json!(count));
    }

    /// One figure, in seconds, milliseconds, bytes, times a second, or times as much (`x`).
    pub(crate) fn figure(&mut self, what: &str, name: &str, number: f64, unit: &str) {
        let (digits, precision) = match unit {
            "B" => (1, 10.0),
            "s" | "ms" => (3, 1e6),
            "/s" => (1, 1e3),
            _ => (2, 1e3),
        };
        let text = format!("{number:.digits$} {unit}");
        say(format_args!("  {what:<28} {text:>14}"));
        self.insert(name, rounded(number, precision));
    }

    /// A phase: rate, time of a thread for an operation, CPU of all threads for a million.
    pub(crate) fn cost(&mut self, what: &str, name: &str, cost: &Cost, threads: usize) {
        let (mops, ns, cpu) = (cost.mops(), cost.ns_per_op(threads), cost.cpu_s_per_mop());
        say(format_args!(
            "  {what:<28} {mops:>8.2} M/s {ns:>9.1} ns/op {cpu:>8.3} CPU s/M"
        ));
        self.insert(&format!("{name}_mops"), rounded(mops, 1e3));
        self.insert(&format!("{name}_ns"), rounded(ns, 10.0));
        self.insert(&format!("{name}_cpu_s_per_mop"), rounded(cpu, 1e6));
    }

    pub(crate) fn lateness(&mut self, name: &str, lateness: &Lateness) {
        for (what, suffix, part) in [
            ("p50", "p50", 0.5),
            ("p99", "p99", 0.99),
            ("p99.9", "p999", 0.999),
            ("max", "max", 1.0),
        ] {
            let us = lateness.quantile_ns(part) as f64 / 1e3;
            say(format_args!("  {what:<28} {us:>11.1} us"));
            self.insert(&format!("{name}_us_{suffix}"), rounded(us, 1e3));
        }
    }

    pub(crate) fn balance(&mut self, balance: &Balance) {
        let counts = balance.counts();
        let [armed, fired, cancelled, handed_back, early, lost, doubled] = counts.map(|(_, n)| n);
        say(format_args!(
            "  armed {armed} = fired {fired} + cancelled {cancelled} + handed back {handed_back}"
        ));
        say(format_args!(
            "  early {early}, lost {lost}, doubled {doubled}"
        ));
        for (name, count) in counts {
            self.insert(name, json!(count));
        }
    }

    pub(crate) fn verdict(&mut self, broken: &[String]) {
        let verdict = if broken.is_empty() { "clean" } else { "broken" };
        self.insert("verdict", json!(verdict));
        if broken.is_empty() {
            say(format_args!("  clean: every promise held"));
        }
        broken
            .iter()
            .for_each(|what| say(format_args!("  BROKEN: {what}")));
    }

    /// Writes the figures to a file, if there is one.
    pub(crate) fn finish(self, file: Option<&Path>) -> Result<(), String> {
        let Some(file) = file else { return Ok(()) };
        let text = serde_json::to_string_pretty(&self.figures).expect("numbers and strings") + "\n";
        std::fs::write(file, text).map_err(|error| format!("--json {}: {error}", file.display()))
    }
}

/// Keeps the digits that mean something.
fn rounded(number: f64, precision: f64) -> Value {
    json!((number * precision).round() / precision)
}
