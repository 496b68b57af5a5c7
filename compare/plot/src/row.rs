//! Rows: the JSON lines that `timers`, `wheels`, `stores` and `coherence` write.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A median with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) subject: String,
    pub(crate) workload: String,
    pub(crate) threads: u64,
    pub(crate) timers: u64,
    pub(crate) figures: BTreeMap<String, Figure>,
    /// How it was done, where that is not as others do it.
    pub(crate) remark: Option<String>,
}

/// All that a run has written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Where it ran.
    pub(crate) machine: String,
    pub(crate) date: Option<String>,
    /// Names with their versions.
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
    /// What should hold, and whether it does.
    pub(crate) goals: Vec<(String, String)>,
}

/// Reads all lines. Those without figures are left out: their subjects were skipped.
pub(crate) fn read(text: &str) -> Result<Figures, String> {
    let mut figures = Figures::default();
    for (number, line) in text.lines().enumerate() {
        figures.add(line).ok_or_else(|| {
            format!(
                "line {} is none that timers, wheels, stores or coherence has written",
                number + 1
            )
        })?;
    }
    figures.rows.retain(|row| !row.figures.is_empty());
    if figures.rows.is_empty() {
        Err("there are no figures in it".to_string())
    } else {
        Ok(figures)
    }
}

impl Figures {
    /// `None`: it is no line of theirs.
    fn add(&mut self, line: &str) -> Option<()> {
        let object: Map<String, Value> = serde_json::from_str(line).ok()?;
        let text = |name: &str| {
            object
                .get(name)
                .and_then(Value::as_str)
                .map(ToString::to_string)
        };
        if let Some(machine) = text("machine") {
            // The second line: wheelwork 0.1.0; tokio 1.2.3, another 4.5.
            let (machine, versions) = machine.split_once('\n').unwrap_or((&machine, ""));
            self.machine = machine.to_string();
            self.versions = versions
                .split([';', ','])
                .filter_map(|version| version.trim().rsplit_once(' '))
                .map(|(name, version)| (name.to_string(), version.to_string()))
                .collect();
            self.date = text("date");
        } else if let Some(goal) = text("goal") {
            self.goals.push((goal, text("verdict")?));
        } else {
            self.rows.push(row(&object)?);
        }
        Some(())
    }
}

fn row(object: &Map<String, Value>) -> Option<Row> {
    let text = |name: &str| {
        object
            .get(name)
            .and_then(Value::as_str)
            .map(ToString::to_string)
    };
    let count = |name: &str| object.get(name).and_then(Value::as_u64);
    let number = |name: &str| object.get(name).and_then(Value::as_f64);
    let figures = object.keys().filter_map(|name| {
        let (median, min, max) = (
            number(name)?,
            number(&format!("{name}_min"))?,
            number(&format!("{name}_max"))?,
        );
        Some((name.clone(), Figure { median, min, max }))
    });
    Some(Row {
        subject: text("subject")?,
        workload: text("workload")?,
        threads: count("threads")?,
        timers: count("n")?,
        figures: figures.collect(),
        remark: text("remark"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `timers` has a test that writes this line.
    const LINE: &str = r#"{"subject":"heap","workload":"w4","threads":2,"n":1000,"reps":2,"mops":2.75,"mops_min":2.0,"mops_max":3.5,"remark":"cancel frees nothing"}"#;

    #[test]
    fn a_line_is_read() {
        let figures = BTreeMap::from([(
            "mops".to_string(),
            Figure {
                median: 2.75,
                min: 2.0,
                max: 3.5,
            },
        )]);
        let row = Row {
            subject: "heap".to_string(),
            workload: "w4".to_string(),
            threads: 2,
            timers: 1_000,
            figures,
            remark: Some("cancel frees nothing".to_string()),
        };
        let machine =
            r#"{"machine":"one core, a load\nours 0.1; theirs 1.2, other 3","date":"today"}"#;
        let goal = r#"{"goal":"all","verdict":"holds: 7"}"#;
        let goals = vec![("all".to_string(), "holds: 7".to_string())];
        let figures = Figures {
            machine: "one core, a load".to_string(),
            date: Some("today".to_string()),
            versions: [("ours", "0.1"), ("theirs", "1.2"), ("other", "3")]
                .map(|(name, version)| (name.to_string(), version.to_string()))
                .to_vec(),
            rows: vec![row],
            goals,
        };
        assert_eq!(read(&format!("{machine}\n{LINE}\n{goal}")), Ok(figures));
    }

    #[test]
    fn what_was_skipped_is_left_out() {
        let skipped =
            r#"{"subject":"heap","workload":"w4","threads":2,"n":1000,"reps":0,"skipped":"why"}"#;
        assert_eq!(
            read(&format!("{skipped}\n{LINE}\n")).map(|figures| figures.rows.len()),
            Ok(1)
        );
        assert!(read(skipped).is_err());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = read(&format!("{LINE}\nno line")).expect_err("the second is wrong");
        assert!(error.contains("line 2"), "{error}");
    }
}
