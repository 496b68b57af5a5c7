//! `window`.

use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn window(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_window"), words)
}

/// Whether the bounds hold depends on the machine.
#[test]
fn each_way_to_cancel_has_a_row() {
    let place = Place::new("window");
    let words = "--window 10 --threads 2 --cancel same,other,random --seconds 0.3 --json";
    let Said { code, out, err } = window(&format!("{words} {}", place.path()));
    let failures = out
        .lines()
        .filter(|line| line.starts_with("FAILED window 10, "));
    let failures = failures.count();
    assert_eq!(code, Some(i32::from(failures > 0)), "{out}{err}");
    // Two lines of the machine, one of titles.
    assert_eq!(out.lines().count(), 3 + 3 + failures, "{out}");
    assert_eq!(err.lines().count(), 3, "progress: {err}");
    let lines = place.json_lines();
    assert!(lines[0]["machine"].is_string());
    assert_eq!(lines.len(), 1 + 3);
    for line in &lines[1..] {
        let names = [
            "pairs",
            "mops",
            "cpu_s_per_mop",
            "pending",
            "resident_bytes_max",
            "resident_bytes_middle",
            "resident_bytes_last",
            "resident_bytes_bound",
            "left_bytes",
            "late_ms_p50",
            "late_ms_p99",
            "late_ms_p99_bound",
            "late_ms_max",
            "probes",
            "lost",
            "drained",
            "eliminated",
            "compactions",
        ];
        assert_numbers(line, &names);
        assert_eq!((&line["window"], &line["early"]), (&10.into(), &0.0.into()));
        assert!(line["pairs"].as_f64() > Some(0.0), "{line}");
    }
    let failed = lines[1..]
        .iter()
        .map(|line| line["failed"].as_array().map_or(0, Vec::len));
    assert_eq!(failed.sum::<usize>(), failures);
}

#[test]
fn wrong_arguments_are_one_line() {
    let wrong = [
        "--window 0",
        "--window 11M",
        "--window few",
        "--threads 0",
        "--threads 257",
        "--cancel nobody",
        "--seconds 0",
        "--seconds nan",
        "--seconds 3601",
        "--seconds soon",
        "--window 10M --threads 256",
        "--json /nowhere/at/all.json --window 1 --seconds 0.1",
        "--weeks 1",
        "much",
    ];
    assert_wrong("window", window, &wrong);
    assert_help_is_for_users(window, "--help", &["measure"]);
}
