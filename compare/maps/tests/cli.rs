//! `maps`: what it prints, what it writes, how it exits.

use serde_json::Value;
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn maps(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_maps"), words)
}

#[test]
fn tables_are_printed_and_lines_written() {
    let json = Place::new("maps.json");
    let out = maps(&format!("--quick --entries 1000 --json {}", json.path())).out();
    for told in ["1000 entries, 2 threads", "run_pending_tasks each 10 ms"] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let mut lines = json.json_lines();
    let machine = lines[0]["machine"].as_str().expect("it is told");
    assert!(machine.contains("quick_cache"), "{machine}");
    lines.retain(|line| line["subject"].is_string());
    assert_eq!(lines.len(), 6 * (5 * 2 + 1), "subjects, workloads, threads");
    // A machine that does much else may take too long to insert what is to expire.
    let is_slow = |line: &Value| {
        let why = line["skipped"].as_str().unwrap_or_default();
        why.contains("were not there in")
    };
    lines.retain(|line| line["reps"] == 1 || is_slow(line));
    let [alone, together] = [4 + 3 + 3 + 4 + 2 + 4, 6 + 5 + 5 + 6 + 4];
    assert_eq!(lines.len(), alone + together, "those that can do it");
    lines.retain(|line| !is_slow(line));
    for line in &lines {
        match line["workload"].as_str() {
            Some("expire") => {
                assert_numbers(
                    line,
                    &["late_ms_p50", "late_ms_p99", "late_ms_max", "cpu_s"],
                );
                assert_eq!(line["early"], 0.0, "{line}");
            }
            Some("memory") => assert_numbers(line, &["bytes_per_entry"]),
            _ => assert_numbers(line, &["mops", "cpu_s_per_mop", "settle_ms"]),
        }
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--subjects nobody",
        "--workloads w1",
        "--threads 0",
        "--entries 999",
        "--subjects moka --workloads get --quick --json /no/such/folder/figures.json",
    ];
    assert_wrong("maps", maps, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(maps, "--help", &["\n  measure", "--subject <SUBJECT>"]);
}
