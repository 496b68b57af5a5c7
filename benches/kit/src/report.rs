//! Report: the table for people, and the same figures as JSON under stable names.

use crate::lateness::Lateness;
use crate::program::say;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What a run has measured, as far as it is known.
#[derive(Default)]
pub struct Report {
    figures: Map<String, Value>,
}

impl Report {
    /// What follows is about this.
    pub fn section(&mut self, title: &str) {
        say(format_args!("\n{title}"));
    }

    /// A figure of the JSON alone.
    pub fn insert(&mut self, name: &str, number: Value) {
        self.figures.insert(name.to_string(), number);
    }

    /// One count, on a line of the table and under `name`.
    pub fn count(&mut self, what: &str, name: &str, count: u64) {
        say(format_args!("  {what:<28} {count:>14}"));
        self.insert(name, json!(count));
    }

    /// One figure, in seconds, milliseconds, bytes, times a second, or times as much (`x`).
    pub fn figure(&mut self, what: &str, name: &str, number: f64, unit: &str) {
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

    /// Quantiles, in microseconds.
    pub fn lateness(&mut self, name: &str, lateness: &Lateness) {
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

    /// Which promises were broken.
    pub fn verdict(&mut self, broken: &[String]) {
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
    pub fn finish(self, file: Option<&Path>) -> Result<(), String> {
        let Some(file) = file else { return Ok(()) };
        let text = serde_json::to_string_pretty(&self.figures).expect("numbers and strings") + "\n";
        std::fs::write(file, text).map_err(|error| format!("--json {}: {error}", file.display()))
    }
}

/// Keeps the digits that mean something.
pub fn rounded(number: f64, precision: f64) -> Value {
    json!((number * precision).round() / precision)
}
