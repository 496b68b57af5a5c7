//! The table of growth.

use crate::line::Line;
use std::fmt::Write;

/// What the cost of an operation does as the number of timers grows: a row for each subject, ns at each size.
pub(crate) fn growth(workload: &str, lines: &[Line]) -> Option<String> {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.workload == workload && line.threads == 1).collect();
    let mut sizes: Vec<usize> = lines.iter().map(|line| line.timers).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let mut text = format!("\ngrowth of {workload}: ns/op on one thread, by the number of timers\n  {:<17}", "");
    sizes.iter().for_each(|size| _ = write!(text, " {size:>10}"));
    let mut subjects: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| !line.figures.is_empty()) {
        if !subjects.contains(&line.subject.as_str()) {
            subjects.push(&line.subject);
        }
    }
    for subject in subjects {
        let _ = write!(text, "\n  {subject:<17}");
        for &size in &sizes {
            let line = lines.iter().find(|line| line.subject == subject && line.timers == size);
            let ns = line.and_then(|line| line.median("ns_per_op")).map_or("-".to_string(), |ns| format!("{ns:.1}"));
            let _ = write!(text, " {ns:>10}");
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;

    #[test]
    fn growth_needs_two_sizes() {
        let line = |timers, ns| {
            let mut line = Line { subject: "heap".to_string(), workload: "w3".to_string(), threads: 1, timers, ..Line::default() };
            line.summarize(&[Figures::from([("ns_per_op", ns)])]);
            line
        };
        let lines = [line(1_000, 500.0), line(2_000, 1000.0)];
        assert_eq!(growth("w3", &lines[..1]), None);
        let text = growth("w3", &lines).expect("there are two");
        assert!(text.contains("500.0     1000.0"), "{text}");
    }
}
