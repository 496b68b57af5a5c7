//! Rows: a line of the table for each, and an object of `--json`.

use crate::args::Row;
use crate::bounds::Bounds;
use serde_json::{Map, Value, json};
use wheelwork_kit::line::Figures;
use wheelwork_kit::program::name;
use wheelwork_kit::table::{Column, column};

/// A figure in millions, or bytes in MB.
const fn millions(figure: &'static str, title: &'static str, digits: usize) -> Column {
    Column {
        unit: 1e6,
        ..column(figure, title, digits)
    }
}

const COLUMNS: [Column; 15] = [
    column("mops", "Mpairs/s", 2),
    column("cpu_s_per_mop", "CPU us", 3),
    millions("resident_bytes_max", "RSS MB", 1),
    millions("resident_bytes_middle", "middle", 1),
    millions("resident_bytes_last", "last", 1),
    column("bytes_per_timer", "B/timer", 1),
    column("late_ms_p50", "p50 ms", 2),
    column("late_ms_p99", "p99 ms", 2),
    column("late_ms_max", "max ms", 2),
    millions("left_bytes", "left MB", 1),
    millions("in_lanes_max", "M lanes", 2),
    millions("in_wheels_max", "M wheels", 2),
    millions("drained", "M drained", 1),
    millions("eliminated", "M elim.", 1),
    column("compactions", "compacted", 0),
];

/// The titles.
pub(crate) fn head() -> String {
    let mut text = format!("{:<7} {:>7} {:>8}", "cancel", "threads", "window");
    for Column { title, .. } in COLUMNS {
        text += &format!(" {title:>9}");
    }
    text
}

/// The figures of a row.
pub(crate) fn line(row: &Row, figures: &Figures) -> String {
    let cancel = name(&row.cancel);
    let mut text = format!("{cancel:<7} {:>7} {:>8}", row.threads, row.window);
    for column in COLUMNS {
        let figure = figures.0.get(column.figure).copied();
        text += &format!(" {:>9}", column.shown(figure));
    }
    text
}

/// All figures of a row, its bounds, and those that do not hold.
pub(crate) fn json(row: &Row, bounds: &Bounds, figures: &Figures, failed: &[String]) -> Value {
    let mut object = Map::new();
    let mut insert = |name: &str, value: Value| _ = object.insert(name.to_string(), value);
    insert("workload", json!("window"));
    insert("subject", json!("wheelwork"));
    insert("window", json!(row.window));
    insert("threads", json!(row.threads));
    insert("cancel", json!(name(&row.cancel)));
    insert("seconds", json!(row.seconds));
    for (name, figure) in &figures.0 {
        insert(name, json!(figure));
    }
    insert("resident_bytes_bound", json!(bounds.resident_bytes));
    insert("late_ms_p99_bound", json!(bounds.late_ms_p99));
    insert("failed", json!(failed));
    Value::Object(object)
}
