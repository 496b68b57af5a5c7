//! What a call costs by the number of threads, as curves: the cache lines that `coherence` counts.

use crate::curves::{Curve, curves};
use crate::report::Chart;
use crate::row::Row;

/// The workloads of `coherence`.
const CALLS: [(&str, &str); 7] = [
    ("coherence-arm", "Arm"),
    ("coherence-cancel", "Cancel"),
    ("coherence-pair", "Arm and cancel at once"),
    ("coherence-window", "Arm, cancel 1,000 arms later"),
    ("coherence-churn", "Cancel a random one, arm another"),
    ("coherence-rearm", "Re-arm a random one"),
    ("coherence-fire", "Arm and fire"),
];

/// A chart for each call that was counted on two numbers of threads or more.
pub(crate) fn charts(rows: &[Row]) -> Vec<Chart> {
    let charts = CALLS.iter();
    charts
        .filter_map(|(workload, title)| chart(rows, workload, title))
        .collect()
}

fn chart(rows: &[Row], workload: &str, title: &str) -> Option<Chart> {
    let of = || rows.iter().filter(|row| row.workload == workload);
    let mut threads: Vec<_> = of().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let &[least, .., most] = threads.as_slice() else {
        return None;
    };
    let from_least = |threads: u64| (threads as f64 / least as f64).log2();
    let place = |threads: u64| from_least(threads) / from_least(most);
    let mut all: Vec<Curve> = Vec::new();
    for row in of() {
        let Some(transfers) = row.figures.get("transfers") else {
            continue;
        };
        let point = (place(row.threads), transfers.median);
        match all.iter_mut().find(|curve| curve.name == row.subject) {
            // Of several numbers of shards the first is drawn.
            Some(curve) if curve.points.iter().any(|known| known.0 == point.0) => {}
            Some(curve) => curve.points.push(point),
            None => all.push(Curve {
                name: row.subject.clone(),
                points: vec![point],
            }),
        }
    }
    all.iter_mut()
        .for_each(|curve| curve.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    let places: Vec<_> = threads
        .iter()
        .map(|&threads| (place(threads), threads.to_string()))
        .collect();
    let section = "Cache lines fetched from other cores, by the number of threads".to_string();
    let title = format!("{title}: cache lines from other cores, by threads");
    let unit = "lines an operation, less is better";
    Some(Chart {
        svg: curves(&title, unit, &places, &all)?,
        section,
        title,
        remarks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::read;

    #[test]
    fn a_call_on_several_threads_is_a_chart() {
        let line = |threads: u64, lines: f64| {
            format!(
                "{{\"subject\":\"heap\",\"workload\":\"coherence-pair\",\"threads\":{threads},\
                 \"n\":1,\"reps\":1,\"transfers\":{lines},\"transfers_min\":{lines},\
                 \"transfers_max\":{lines}}}\n"
            )
        };
        let rows = |text: &str| read(text).expect("it is right").rows;
        assert!(charts(&rows(&line(2, 0.7))).is_empty());
        let all = charts(&rows(&(line(2, 0.7) + &line(16, 1.2))));
        assert_eq!(all.len(), 1);
        assert!(all[0].svg.contains(">heap<"), "{}", all[0].svg);
        let file = "arm-and-cancel-at-once-cache-lines-from-other-cores-by-threads.svg";
        assert_eq!(all[0].file(), file);
    }
}
