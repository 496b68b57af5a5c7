//! Json: a line for each setting, as `scripts/bench plot` reads them.

use crate::figures::{Figures, SHOWN, name};

/// What begins the name of each workload, so that it is no other bench's.
const WORKLOAD: &str = "coherence-";

/// A line, with its end.
pub(crate) fn line(figures: &Figures) -> String {
    let setting = figures.setting;
    let mut text = format!(
        "{{\"subject\":\"{}\",\"workload\":\"{WORKLOAD}{}\",\"threads\":{},\"n\":{},\"reps\":{}",
        name(&figures.name),
        name(&setting.call),
        setting.threads,
        setting.shards,
        figures.whole.len()
    );
    for (mix, counts) in [("", &figures.whole), ("fine_", &figures.fine)] {
        for (shown, which) in SHOWN {
            if let Some([mean, least, most]) = figures.of(counts, which) {
                text += &format!(",\"{mix}{shown}\":{mean:.5}");
                text += &format!(",\"{mix}{shown}_min\":{least:.5}");
                text += &format!(",\"{mix}{shown}_max\":{most:.5}");
            }
        }
    }
    text + "}\n"
}
