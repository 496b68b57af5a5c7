//! `wheels`: what it prints, what it writes, how it exits.

use serde_json::Value;
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn wheels(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_wheels"), words)
}

/// The output, and the subjects' lines.
fn measure(words: &str, file: &str) -> (String, Vec<Value>) {
    let json = Place::new(file);
    let out = wheels(&format!("{words} --quick --json {}", json.path())).out();
    let mut lines = json.json_lines();
    assert!(lines[0]["machine"].is_string(), "{}", lines[0]);
    lines.retain(|line| line["subject"].is_string());
    (out, lines)
}

#[test]
fn tables_are_printed_and_lines_written() {
    let small = "--timers 10,20 --workloads cancel,fire --reps 1";
    let (out, lines) = measure(small, "wheels.json");
    for told in ["growth of fire", "ticks early"] {
        assert!(out.contains(told), "{told} in {out}");
    }
    assert_eq!(lines.len(), 13 * 2 * 2, "subjects, workloads, sizes");
    for line in &lines {
        assert_eq!(line["reps"], 1, "{line}");
        assert_numbers(line, &["ns_per_op", "ns_per_op_min", "ns_per_op_max"]);
        assert_numbers(
            line,
            &["call_ns_p50", "call_ns_p999", "clock_ns", "cpu_share"],
        );
    }
}

#[test]
fn what_would_take_for_ever_is_not_measured_and_says_so() {
    let subjects = "--subjects ordered-list,unordered-list,bitwheel";
    let out = wheels(&format!("{subjects} --workloads fire --timers 2M --quick")).out();
    for limit in ["10,000", "100,000", "1,000,000"] {
        let told = format!("not above {limit} timers");
        assert!(out.contains(&told), "{told} in {out}");
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--subjects nobody",
        "--workloads w1",
        "--timers 5",
        "--seed -1",
        "--subjects heap --timers 10 --json /no/such/folder/figures.json",
    ];
    assert_wrong("wheels", wheels, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(wheels, "--help", &["\n  measure", "--subject <SUBJECT>"]);
}
