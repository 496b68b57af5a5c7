//! Tables for people: calls and subjects as rows, threads as columns.

use crate::figures::{Figures, SHOWN, name};
use std::fmt::Write;

/// Above the tables, in the order of [`SHOWN`].
const TITLES: [&str; 3] = [
    "Lines fetched from another core, an operation",
    "Copies in other cores' caches ended, an operation",
    "Locked instructions on a line that another core had, an operation",
];

/// Above the first figure once more.
const FINE: &str = "Lines fetched, with other cores' accesses in between (for a mutex too many)";

/// All tables.
pub(crate) fn tables(figures: &[Figures]) -> String {
    let titles = TITLES.iter().zip(SHOWN);
    let whole = titles.map(|(title, (_, which))| {
        let of = |figures: &Figures| figures.of(&figures.whole, which);
        table(title, figures, of)
    });
    let fine = |figures: &Figures| figures.of(&figures.fine, SHOWN[0].1);
    let fine = std::iter::once_with(|| table(FINE, figures, fine));
    whole.chain(fine).collect()
}

fn table(title: &str, all: &[Figures], of: impl Fn(&Figures) -> Option<[f64; 3]>) -> String {
    let mut columns: Vec<_> = all.iter().map(column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut text = format!("\n{title}\n  {:<8} {:<18}", "threads", "");
    columns
        .iter()
        .for_each(|(threads, _)| _ = write!(text, " {threads:>8}"));
    let _ = write!(text, "\n  {:<8} {:<18}", "shards", "");
    columns
        .iter()
        .for_each(|(_, shards)| _ = write!(text, " {shards:>8}"));
    let mut rows: Vec<_> = all.iter().map(row).collect();
    rows.dedup();
    let mut spread = 0.0_f64;
    for (call, subject) in rows {
        let _ = write!(text, "\n  {call:<8} {subject:<18}");
        for &at in &columns {
            let is_here = |figures: &&Figures| {
                column(figures) == at && row(figures) == (call.clone(), subject.clone())
            };
            let Some([mean, least, most]) = all.iter().find(is_here).and_then(&of) else {
                text += "        -";
                continue;
            };
            let _ = write!(text, " {mean:>8.3}");
            spread = spread.max(most - least);
        }
    }
    format!("{text}\n  (means of all seeds; the widest spread is {spread:.3})\n")
}

fn column(figures: &Figures) -> (usize, usize) {
    (figures.setting.threads, figures.setting.shards)
}

fn row(figures: &Figures) -> (String, String) {
    (name(&figures.setting.call), name(&figures.name))
}
