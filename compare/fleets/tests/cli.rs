//! `fleets`: what it prints, what it writes, how it exits. Figures are no matter of this test.
//! Without the variable `WHEELWORK_POSTGRES` nothing is measured:
//! `scripts/check compare` sets it.

use serde_json::Value;
use std::process::{Command, Output};

fn fleets(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleets"));
    let output = command.args(words.split_whitespace()).output();
    output.expect("the binary was built")
}

fn has_server() -> bool {
    std::env::var_os("WHEELWORK_POSTGRES").is_some()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

/// The figures of a workload.
fn figures(workload: &str) -> &'static [&'static str] {
    match workload {
        "arm-bulk" => &["kops", "cpu_us", "server_cpu_us"],
        "arm" => &["kops", "call_us_p50", "call_us_p99", "call_us_max"],
        "fire-ack" => &["kops", "fired_per_s", "acked_ms", "lost", "again"],
        "lateness" => &["late_ms_p50", "late_ms_p99", "late_ms_max", "fired_per_s"],
        "idle" => &[
            "server_cpu_s",
            "transactions_per_s",
            "rows_per_s",
            "load_kops",
        ],
        "killed" => &["recovered_s", "taken", "lost"],
        _ => &[
            "late_ms_p50",
            "late_ms_p99",
            "lost",
            "calls_per_s",
            "failed",
        ],
    }
}

#[test]
fn the_poller_is_measured_in_each_workload() {
    if !has_server() {
        return;
    }
    let json = std::env::temp_dir().join(format!("wheelwork-fleet-{}.json", std::process::id()));
    let words = format!("--quick --subjects poller --json {}", json.display());
    let Output { status, stdout, .. } = fleets(&words);
    let (out, lines) = (text(&stdout), std::fs::read_to_string(&json));
    let _ = std::fs::remove_file(&json);
    assert_eq!(status.code(), Some(0), "{out}");
    let lines = lines.expect("the file was written");
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        line
    });
    let lines: Vec<_> = lines.filter(|line| line["subject"].is_string()).collect();
    assert_eq!(lines.len(), 6, "{out}");
    for line in &lines {
        assert!(line["skipped"].is_null(), "{line}");
        for name in figures(line["workload"].as_str().unwrap_or_default()) {
            assert!(line[*name].is_number(), "{name} in {line}");
        }
        for wrong in ["early", "lost", "again"] {
            let count = line[wrong].as_f64().unwrap_or(0.0);
            assert_eq!(count, 0.0, "{wrong} in {line}");
        }
    }
    assert!(out.contains("  goal fire + ack"), "{out}");
    assert!(out.contains("synchronous_commit on"), "{out}");
}

/// Its lateness is no matter of this test: that clients run, and what is told of them.
#[test]
fn timers_are_measured_beside_clients() {
    if !has_server() {
        return;
    }
    let json = std::env::temp_dir().join(format!("wheelwork-beside-{}.json", std::process::id()));
    let words = format!("--quick --beside-transactions 4 --json {}", json.display());
    let Output { status, stdout, .. } = fleets(&words);
    let (out, lines) = (text(&stdout), std::fs::read_to_string(&json));
    let _ = std::fs::remove_file(&json);
    assert_eq!(status.code(), Some(0), "{out}");
    let lines = lines.expect("the file was written");
    for workload in ["beside-random", "beside-hot"] {
        let line = lines
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|line| line["workload"] == workload)
            .unwrap_or_else(|| panic!("{workload} in {lines}"));
        for name in figures(workload) {
            assert!(line[*name].is_number(), "{name} in {line}");
        }
        assert!(line["calls_per_s"].as_f64() > Some(0.0), "{line}");
        assert_eq!(line["early"], 0.0, "{line}");
        assert!(out.contains(&format!("{workload} 4 clients")), "{out}");
    }
    for title in ["p50 ms", "p99 ms", "calls/s"] {
        assert!(out.contains(title), "{title} in {out}");
    }
}

#[test]
fn who_is_not_there_is_skipped_with_a_reason() {
    if !has_server() {
        return;
    }
    let Output { status, stdout, .. } = fleets("--quick --subjects pg-boss --workloads arm");
    let out = text(&stdout);
    assert_eq!(status.code(), Some(0), "{out}");
    assert!(out.contains("no --node-packages"), "{out}");
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    for words in [
        "--no-such-flag",
        "--subjects nobody",
        "--workloads w1",
        "--callers 0",
        "--timers 10",
        "--rates many",
        "--idle-timers many",
        "--seconds 0",
        "--patience 0s",
        "--beside-transactions 151",
        "--beside-transactions many",
        "--beside-transactions 4 --workloads arm",
        "--beside-transactions 4 --subjects poller",
        "--poll 1ms",
        "--node-packages /no/such/folder",
        "surplus",
    ] {
        let Output { status, stderr, .. } = fleets(words);
        let err = text(&stderr);
        assert_eq!(
            (status.code(), err.lines().count()),
            (Some(2), 1),
            "{words}: {err}"
        );
        assert!(
            err.starts_with("fleets: ") && err.len() > 30,
            "{words}: {err}"
        );
    }
}

#[test]
fn help_has_no_inner_commands() {
    let Output { status, stdout, .. } = fleets("--help");
    let help = text(&stdout);
    assert_eq!(status.code(), Some(0), "{help}");
    for inner in ["\n  measure", "\n  node"] {
        assert!(!help.contains(inner), "{inner} in {help}");
    }
}
