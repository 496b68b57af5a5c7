//! Figures of one measurement, and the JSON line of several.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What one process has measured, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures(pub(crate) BTreeMap<String, f64>);

impl<const N: usize> From<[(&str, f64); N]> for Figures {
    fn from(figures: [(&str, f64); N]) -> Self {
        let mut all = Self::default();
        all.extend(figures);
        all
    }
}

impl<'a> Extend<(&'a str, f64)> for Figures {
    fn extend<I: IntoIterator<Item = (&'a str, f64)>>(&mut self, figures: I) {
        self.0.extend(figures.into_iter().map(|(name, figure)| (name.to_string(), figure)));
    }
}

impl Figures {
    pub(crate) fn to_json(&self) -> String {
        json!(self.0).to_string()
    }

    pub(crate) fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }
}

/// A figure over some repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Of no figures: nothing.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) };
        Some(Self { median, min, max })
    }
}

/// All that is known of a subject in a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) subject: String,
    pub(crate) workload: String,
    pub(crate) threads: usize,
    pub(crate) timers: usize,
    /// Repetitions that gave figures.
    pub(crate) reps: usize,
    pub(crate) figures: BTreeMap<String, Summary>,
    /// Why there are none, or fewer than were asked for.
    pub(crate) skipped: Option<String>,
    pub(crate) remark: Option<String>,
}

impl Line {
    /// Adds the figures of the repetitions.
    pub(crate) fn summarize(&mut self, repetitions: &[Figures]) {
        self.reps = repetitions.len();
        for name in repetitions.iter().flat_map(|figures| figures.0.keys()) {
            // Where a repetition has no such figure it counts for nothing.
            let all = repetitions.iter().filter_map(|figures| figures.0.get(name)).copied().collect();
            self.figures.extend(Summary::of(all).map(|summary| (name.clone(), summary)));
        }
    }

    pub(crate) fn median(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure).map(|summary| summary.median)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("subject".to_string(), json!(self.subject));
        object.insert("workload".to_string(), json!(self.workload));
        object.insert("threads".to_string(), json!(self.threads));
        object.insert("n".to_string(), json!(self.timers));
        object.insert("reps".to_string(), json!(self.reps));
        for (name, summary) in &self.figures {
            object.insert(name.clone(), json!(summary.median));
            object.insert(format!("{name}_min"), json!(summary.min));
            object.insert(format!("{name}_max"), json!(summary.max));
        }
        for (name, text) in [("skipped", &self.skipped), ("remark", &self.remark)] {
            object.extend(text.as_ref().map(|text| (name.to_string(), json!(text))));
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Summary::of(vec![]), None);
        assert_eq!(Summary::of(vec![3.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Summary::of(vec![4.0, 1.0]), Some(Summary { median: 2.5, min: 1.0, max: 4.0 }));
    }

    /// `plot` has a test that reads this line.
    #[test]
    fn a_line_has_medians_least_and_most() {
        let mut line = Line { subject: "heap".to_string(), workload: "w4".to_string(), threads: 2, timers: 1_000, ..Line::default() };
        line.summarize(&[Figures::from([("mops", 2.0)]), Figures::from([("mops", 3.5)])]);
        line.remark = Some("cancel frees nothing".to_string());
        let expected = r#"{"subject":"heap","workload":"w4","threads":2,"n":1000,"reps":2,"mops":2.75,"mops_min":2.0,"mops_max":3.5,"remark":"cancel frees nothing"}"#;
        assert_eq!(line.to_json().to_string(), expected);
    }

    #[test]
    fn a_figure_that_some_repetitions_lack_counts_where_it_is() {
        let mut line = Line::default();
        line.summarize(&[Figures::from([("mops", 2.0)]), Figures::from([("mops", 2.0), ("back_ms", 7.0)])]);
        assert_eq!((line.reps, line.median("back_ms"), line.median("ns_per_op")), (2, Some(7.0), None));
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let figures = Figures::from([("mops", 1.5), ("wakeups", 0.0)]);
        assert_eq!(Figures::from_json(&figures.to_json()), Some(figures));
        assert_eq!(Figures::from_json("no figures"), None);
    }
}
