//! Figures of one measurement, and the JSON line of several.

use crate::program::name;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What one process has measured, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub BTreeMap<String, f64>);

impl<const N: usize> From<[(&str, f64); N]> for Figures {
    fn from(figures: [(&str, f64); N]) -> Self {
        let mut all = Self::default();
        all.extend(figures);
        all
    }
}

impl<'a> Extend<(&'a str, f64)> for Figures {
    fn extend<I: IntoIterator<Item = (&'a str, f64)>>(&mut self, figures: I) {
        let figures = figures.into_iter();
        self.0
            .extend(figures.map(|(name, figure)| (name.to_string(), figure)));
    }
}

impl Figures {
    /// As one line.
    pub fn to_json(&self) -> String {
        json!(self.0).to_string()
    }

    /// Of such a line.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }
}

/// A figure over some repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Of an even number of figures: between the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Summary {
    /// Of no figures: nothing.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[middle]
        } else {
            f64::midpoint(figures[middle - 1], figures[middle])
        };
        Some(Self { median, min, max })
    }
}

/// All that is known of a subject in a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Who.
    pub subject: String,
    /// In what.
    pub workload: String,
    /// Producers, or workers.
    pub threads: usize,
    /// Or connections, or deadlines.
    pub timers: usize,
    /// Repetitions that gave figures.
    pub reps: usize,
    /// The figures of each of them, in order: the first of all subjects were measured one after the
    /// other, and so on, except for those that were done anew.
    pub repetitions: Vec<Figures>,
    /// By name.
    pub figures: BTreeMap<String, Summary>,
    /// The same of the repetitions that are told apart, because the cores were far from each other.
    pub far_reps: usize,
    /// By name.
    pub far: BTreeMap<String, Summary>,
    /// Why there are none, or fewer than were asked for.
    pub skipped: Option<String>,
    /// What there is to say of how it was done.
    pub remark: Option<String>,
}

impl Line {
    /// Nothing was measured yet.
    pub fn new(subject: &str, workload: &str, threads: usize, timers: usize) -> Self {
        Self {
            subject: subject.to_string(),
            workload: workload.to_string(),
            threads,
            timers,
            ..Self::default()
        }
    }

    /// The same of what has names on the command line.
    pub fn of(
        subject: &impl ValueEnum,
        workload: &impl ValueEnum,
        threads: usize,
        timers: usize,
    ) -> Self {
        Self::new(&name(subject), &name(workload), threads, timers)
    }

    /// Adds the figures of the repetitions.
    pub fn summarize(&mut self, repetitions: &[Figures]) {
        self.reps = repetitions.len();
        self.repetitions = repetitions.to_vec();
        self.figures = summaries(repetitions);
    }

    /// Adds those of the repetitions while the cores were far from each other.
    pub fn summarize_far(&mut self, repetitions: &[Figures]) {
        self.far_reps = repetitions.len();
        self.far = summaries(repetitions);
    }

    /// What was measured while the cores were far from each other, as a line of its own.
    pub fn while_far(&self) -> Option<Self> {
        (self.far_reps > 0).then(|| Self {
            reps: self.far_reps,
            figures: self.far.clone(),
            repetitions: Vec::new(),
            far_reps: 0,
            far: BTreeMap::new(),
            skipped: None,
            ..self.clone()
        })
    }

    /// A figure's, if it was measured.
    pub fn median(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure).map(|summary| summary.median)
    }

    /// By how much a figure is more than another subject's, of each repetition of both.
    pub fn beyond(&self, other: &Self, figure: &str) -> Option<Summary> {
        let pairs = self.repetitions.iter().zip(&other.repetitions);
        let more = pairs.filter_map(|(own, other)| Some(own.0.get(figure)? - other.0.get(figure)?));
        Summary::of(more.collect())
    }

    /// The subject, the workload and the figures of such a line of `--json`. Not what was measured
    /// while the cores were far from each other, nor single repetitions. `None` if it is another
    /// line.
    pub fn from_json(text: &str) -> Option<Self> {
        let object: Map<String, Value> = serde_json::from_str(text).ok()?;
        let number = |name: &str| object.get(name)?.as_u64().map(|number| number as usize);
        let word = |name: &str| object.get(name)?.as_str();
        let mut line = Self::new(
            word("subject")?,
            word("workload")?,
            number("threads")?,
            number("n")?,
        );
        line.reps = number("reps")?;
        for (name, median) in &object {
            let figure = |name: &str| object.get(name)?.as_f64();
            // A figure has these two beside it.
            let [min, max] = ["min", "max"].map(|end| figure(&format!("{name}_{end}")));
            if let (Some(median), Some((min, max))) = (median.as_f64(), min.zip(max))
                && !name.starts_with("far_")
            {
                let summary = Summary { median, min, max };
                line.figures.insert(name.clone(), summary);
            }
        }
        Some(line)
    }

    /// The line of `--json`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut insert = |name: &str, value: Value| _ = object.insert(name.to_string(), value);
        insert("subject", json!(self.subject));
        insert("workload", json!(self.workload));
        insert("threads", json!(self.threads));
        insert("n", json!(self.timers));
        insert("reps", json!(self.reps));
        let mut insert_all = |figures: &BTreeMap<String, Summary>, before: &str| {
            for (name, summary) in figures {
                insert(&format!("{before}{name}"), json!(summary.median));
                insert(&format!("{before}{name}_min"), json!(summary.min));
                insert(&format!("{before}{name}_max"), json!(summary.max));
            }
        };
        insert_all(&self.figures, "");
        insert_all(&self.far, "far_");
        if self.far_reps > 0 {
            insert("far_reps", json!(self.far_reps));
        }
        for (name, text) in [("skipped", &self.skipped), ("remark", &self.remark)] {
            if let Some(text) = text {
                insert(name, json!(text));
            }
        }
        Value::Object(object)
    }
}

/// Of all figures of some repetitions.
fn summaries(repetitions: &[Figures]) -> BTreeMap<String, Summary> {
    let mut summaries = BTreeMap::new();
    for name in repetitions.iter().flat_map(|figures| figures.0.keys()) {
        // Where a repetition has no such figure it counts for nothing.
        let all = repetitions
            .iter()
            .filter_map(|figures| figures.0.get(name).copied());
        let summary = Summary::of(all.collect());
        summaries.extend(summary.map(|summary| (name.clone(), summary)));
    }
    summaries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |figures: &[f64]| {
            Summary::of(figures.to_vec()).map(|Summary { median, min, max }| (min, median, max))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((1.0, 2.5, 4.0)));
    }

    /// `plot` has a test that reads this line.
    #[test]
    fn a_line_has_medians_least_and_most() {
        let mut line = Line::new("heap", "w4", 2, 1_000);
        let mops = |mops| Figures::from([("mops", mops)]);
        line.summarize(&[mops(2.0), mops(3.5)]);
        line.remark = Some("cancel frees nothing".to_string());
        let expected = r#"{"subject":"heap","workload":"w4","threads":2,"n":1000,"reps":2,"mops":2.75,"mops_min":2.0,"mops_max":3.5,"remark":"cancel frees nothing"}"#;
        assert_eq!(line.to_json().to_string(), expected);
    }

    #[test]
    fn what_was_measured_while_far_is_told_apart() {
        let mut line = Line::new("heap", "w4", 2, 1_000);
        let mops = |mops| Figures::from([("mops", mops)]);
        assert_eq!(line.while_far(), None);
        line.summarize(&[mops(2.0)]);
        line.summarize_far(&[mops(0.5)]);
        let expected = r#"{"subject":"heap","workload":"w4","threads":2,"n":1000,"reps":1,"mops":2.0,"mops_min":2.0,"mops_max":2.0,"far_mops":0.5,"far_mops_min":0.5,"far_mops_max":0.5,"far_reps":1}"#;
        assert_eq!(line.to_json().to_string(), expected);
        let read = Line::from_json(expected).expect("a line of figures");
        assert_eq!((read.reps, &read.figures), (1, &line.figures));
        assert_eq!((&*read.subject, &*read.workload), ("heap", "w4"));
        assert_eq!((read.threads, read.timers), (2, 1_000));
        assert_eq!(Line::from_json(r#"{"goal":"w4","verdict":"holds"}"#), None);
        let far = line.while_far().expect("it was");
        assert_eq!((far.reps, far.median("mops")), (1, Some(0.5)));
    }

    #[test]
    fn a_figure_that_some_repetitions_lack_counts_where_it_is() {
        let mut line = Line::default();
        let both = Figures::from([("mops", 2.0), ("back_ms", 7.0)]);
        line.summarize(&[Figures::from([("mops", 2.0)]), both]);
        let medians = ["back_ms", "ns_per_op"].map(|figure| line.median(figure));
        assert_eq!((line.reps, medians), (2, [Some(7.0), None]));
    }

    #[test]
    fn differences_are_those_of_pairs() {
        let line = |mops: &[f64]| {
            let mut line = Line::default();
            let all = mops.iter().map(|&mops| Figures::from([("mops", mops)]));
            line.summarize(&all.collect::<Vec<_>>());
            line
        };
        let beyond = line(&[3.0, 9.0, 5.0]).beyond(&line(&[1.0, 8.0, 2.0]), "mops");
        let expected = Summary {
            median: 2.0,
            min: 1.0,
            max: 3.0,
        };
        assert_eq!(beyond, Some(expected));
        // The second repetition of the other one has failed.
        let beyond = line(&[3.0, 9.0]).beyond(&line(&[1.0]), "mops");
        assert_eq!(beyond.map(|beyond| beyond.max), Some(2.0));
        assert_eq!(line(&[3.0]).beyond(&line(&[]), "mops"), None);
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let figures = Figures::from([("mops", 1.5), ("wakeups", 0.0)]);
        assert_eq!(Figures::from_json(&figures.to_json()), Some(figures));
        assert_eq!(Figures::from_json("no figures"), None);
    }
}
