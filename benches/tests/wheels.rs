//! The command line of `wheels`: what it prints, what it writes, how it exits. Figures are no matter of these tests.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn wheels(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wheels")).args(args).output().expect("the binary was built")
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wheelwork-{}-{name}", std::process::id()))
}

#[test]
fn a_small_run_prints_tables_and_writes_lines_that_can_be_plotted() {
    let (json, html) = (file("wheels.json"), file("wheels.html"));
    let (json_text, html_text) = (json.to_str().expect("a plain path"), html.to_str().expect("a plain path"));
    let output = wheels(&["--timers", "10,20", "--workloads", "cancel,fire", "--reps", "1", "--quick", "--json", json_text]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("growth of fire") && text.contains("ticks early"), "{text}");
    assert!(!text.contains('\u{1b}'), "no terminal codes in a pipe: {text}");

    let lines = std::fs::read_to_string(&json).expect("the file was written");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert!(lines[0]["machine"].is_string(), "{}", lines[0]);
    let lines = &lines[1..];
    assert_eq!(lines.len(), 12 * 2 * 2);
    for line in lines {
        assert_eq!(line["reps"], 1, "{line}");
        for name in ["ns_per_op", "ns_per_op_min", "ns_per_op_max", "call_ns_p50", "call_ns_p999", "clock_ns", "cpu_share"] {
            assert!(line[name].is_number(), "{name} in {line}");
        }
    }

    let plot = Command::new(env!("CARGO_BIN_EXE_plot")).args([json_text, html_text]).output().expect("the binary was built");
    assert_eq!(plot.status.code(), Some(0), "{}", String::from_utf8_lossy(&plot.stderr));
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert_eq!(page.matches("<svg").count(), 2, "{page}");
    std::fs::remove_file(&json).expect("the file is ours");
    std::fs::remove_file(&html).expect("the file is ours");
}

#[test]
fn what_would_take_for_ever_is_not_measured_and_says_so() {
    let output = wheels(&["--subjects", "ordered-list,unordered-list,bitwheel", "--workloads", "fire", "--timers", "2M", "--quick"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for limit in ["not above 10,000 timers", "not above 100,000 timers", "not above 1,000,000 timers"] {
        assert!(text.contains(limit), "{limit} in {text}");
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong: &[&[&str]] = &[
        &["--no-such-flag"],
        &["--subjects", "nobody"],
        &["--workloads", "w1"],
        &["--timers", "5"],
        &["--timers", "many"],
        &["--reps", "0"],
        &["--timeout", "1ms"],
        &["--seed", "-1"],
        &["--subjects", "heap", "--workloads", "insert", "--timers", "10", "--json", "/no/such/folder/figures.json"],
        &["surplus"],
    ];
    for args in wrong {
        let output = wheels(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.starts_with("wheels: ") && error.len() > 30, "{args:?}: {error}");
    }
}

#[test]
fn help_names_every_option_and_no_inner_one() {
    let output = wheels(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for option in ["--subjects", "--workloads", "--timers", "--reps", "--quick", "--timeout", "--seed", "--json", "linked-wheel"] {
        assert!(text.contains(option), "{option} in {text}");
    }
    assert!(!text.contains("measure --"), "{text}");
}
