//! `stores`: each workload is measured.

use serde_json::Value;
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn stores(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_stores"), words)
}

/// The output, and the subjects' lines.
fn measure(words: &str, file: &str) -> (String, Vec<Value>, Place) {
    let (json, files) = (Place::new(file), Place::new(&format!("{file}.files")));
    std::fs::create_dir(&files.0).expect("the folder is ours");
    let places = format!("--json {} --dir {}", json.path(), files.path());
    let out = stores(&format!("{words} --quick {places}")).out();
    let left: Vec<_> = std::fs::read_dir(&files.0).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
    let mut lines = json.json_lines();
    let machine = lines[0]["machine"].as_str().unwrap_or_default();
    assert!(machine.contains("files on "), "{machine}");
    lines.retain(|line| line["subject"].is_string());
    (out, lines, json)
}

/// The figures of a workload that the others do not have.
fn figures(workload: &str) -> &'static [&'static str] {
    match workload {
        "fire-ack" => &["kops", "written_bytes", "acked_ms", "late_ms_p99"],
        "lateness" => &["late_ms_p50", "late_ms_p99", "late_ms_max", "armed_per_s"],
        "sweep" => &["with_ms_max", "without_ms_max", "over_ms", "kops"],
        "stored" => &[
            "reopen_ms",
            "killed_ms",
            "rss_mb",
            "used_rss_mb",
            "load_kops",
        ],
        _ => &[
            "kops",
            "call_us_p50",
            "call_us_p99",
            "call_us_max",
            "cpu_us",
        ],
    }
}

/// Nothing is missing in a run.
fn assert_whole(words: &str, file: &str, lines: usize) {
    let (out, measured, json) = measure(words, file);
    assert_eq!(measured.len(), lines, "{out}");
    for line in &measured {
        assert!(line["skipped"].is_null(), "{line}");
        assert_numbers(line, figures(line["workload"].as_str().unwrap_or_default()));
        for wrong in ["early", "lost", "again"] {
            let count = line[wrong].as_f64().unwrap_or(0.0);
            assert_eq!(count, 0.0, "{wrong} in {line}");
        }
    }
    assert!(out.contains("  goal durable arm, 1,024 callers"), "{out}");
    let is_goal = |line: &Value| line["goal"].is_string() && line["verdict"].is_string();
    assert!(json.json_lines().iter().any(is_goal));
}

#[test]
fn calls_and_fires_are_measured() {
    let workloads = "arm,pipelined,arm-cancel,fire-ack,lateness,sweep";
    let words = format!("--subjects wheelwork --workloads {workloads}");
    assert_whole(&words, "calls.json", 6);
}

#[test]
fn restarts_are_measured() {
    let words = "--subjects wheelwork --workloads stored";
    assert_whole(words, "restarts.json", 1);
}

#[test]
fn a_bare_engine_is_measured() {
    let words = "--subjects redb --workloads floor,arm,lateness";
    assert_whole(words, "engine.json", 3);
}

#[cfg(feature = "rivals")]
#[test]
fn each_engine_is_measured() {
    let subjects = "--subjects fjall,sqlite,apalis";
    let workloads = "--workloads floor,arm,arm-cancel,fire-ack,stored";
    let (_, lines, _) = measure(&format!("{subjects} {workloads}"), "all-engines.json");
    assert_eq!(lines.len(), 15);
    for line in &lines {
        let is_queue = line["subject"] == "apalis";
        let workload = line["workload"].as_str().unwrap_or_default();
        let is_skipped = is_queue && matches!(workload, "floor" | "arm-cancel");
        assert_eq!(line["skipped"].is_string(), is_skipped, "{line}");
        if !is_skipped {
            assert_numbers(line, figures(workload));
        }
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--subjects nobody",
        "--workloads w1",
        "--callers 0",
        "--timers 10",
        "--rates many",
        "--stored 1",
        "--seconds 0",
        "--seconds 601",
        "--dir /no/such/folder",
        "--quick --subjects redb --workloads floor --json /no/such/folder/figures.json",
        "surplus",
    ];
    assert_wrong("stores", stores, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(stores, "--help", &["\n  measure", "\n  load"]);
}
