//! `timers`: what it prints, what it writes, how it exits.

use serde_json::Value;
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn timers(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_timers"), words)
}

/// The output, and the subjects' lines.
fn measure(words: &str, file: &str) -> (String, Vec<Value>, Place) {
    let json = Place::new(file);
    let out = timers(&format!("{words} --quick --json {}", json.path())).out();
    let mut lines = json.json_lines();
    assert!(lines[0]["machine"].is_string(), "{}", lines[0]);
    lines.retain(|line| line["subject"].is_string());
    (out, lines, json)
}

#[test]
fn a_small_run_prints_tables_and_writes_lines() {
    let subjects = "--subjects wheelwork,delayqueue,hhwt,wheelwork-batch";
    let small = format!("--timers 1000 --threads 1 --reps 2 --workloads w2,w4 {subjects}");
    let (out, lines, json) = measure(&small, "timers.json");
    for told in ["distance to goals", "its calls take many timers"] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let is_goal = |line: &Value| line["goal"].is_string() && line["verdict"].is_string();
    assert!(json.json_lines().iter().any(is_goal));
    assert_eq!(lines.len(), 8);
    for line in lines.iter().filter(|line| line["skipped"].is_null()) {
        assert_eq!(line["reps"], 2, "{line}");
        assert_numbers(line, &["mops", "mops_min", "mops_max", "ns_per_op"]);
        assert_numbers(line, &["cpu_s_per_mop", "settle_ms"]);
    }
}

#[test]
fn figures_that_were_written_are_judged_again() {
    let small = "--timers 1000 --threads 1 --workloads w2 --subjects wheelwork,pingora";
    let (_, before, json) = measure(small, "verdicts.json");
    let goals = |lines: &[Value]| lines.iter().filter(|line| line["goal"].is_string()).count();
    let (all, file) = (json.json_lines(), json.path().to_string());
    let out = timers(&format!("verdicts {file}")).out();
    assert!(out.contains("distance to goals"), "{out}");
    // The verdicts stand in place of those that were there.
    assert_eq!(json.json_lines(), all);
    assert!(goals(&all) > 50 && before.len() == 2);
    let wrong = ["verdicts Cargo.toml", "verdicts nowhere.json"];
    assert_wrong("timers", timers, &wrong);
}

#[test]
fn rates_that_programs_have_are_measured() {
    let small = "--timers 1000 --threads 1";
    let subjects = "wheelwork,wheelwork-future,tokio-future,btree,delayqueue";
    let words = format!("{small} --workloads w9,w9-periodic,w10 --subjects {subjects}");
    let (out, lines, _) = measure(&words, "paced.json");
    assert_eq!(lines.len(), 15);
    for told in [
        "w10 1000 timers a second, 1 thread",
        "its owner sleeps",
        "w9 at 1000: cpu_us_per_fire <= 1.5 x wheelwork-inline",
    ] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let others = format!("{small} --workloads w10-fast,w10-slow --subjects heap");
    let (_, more, _) = measure(&others, "others.json");
    let lines = lines.iter().chain(&more);
    for line in lines.filter(|line| line["subject"] != "delayqueue") {
        assert!(line["skipped"].is_null(), "{line}");
        let begins = |name: &str, with| {
            line[name]
                .as_str()
                .is_some_and(|text| text.starts_with(with))
        };
        let is_server = begins("workload", "w10");
        let each = if is_server { "request" } else { "fire" };
        assert_numbers(line, &[&format!("cpu_us_per_{each}"), "cpu_percent"]);
        assert_numbers(line, &["wakeups_per_s", "timers_per_s"]);
        assert_numbers(line, &["late_ms_p50", "late_ms_p99", "late_ms_max"]);
        assert_eq!(line["fires_cpu_percent"].is_number(), is_server, "{line}");
        let is_ours = begins("subject", "wheelwork");
        assert_eq!(line["rings_per_s"].is_number(), is_ours, "{line}");
        assert_eq!(line["early"], 0.0, "{line}");
    }
}

#[test]
fn timers_in_flight_are_measured_beside_a_probe() {
    let words = "--timers 10 --threads 2 --workloads w11,w11-other,w11-random";
    let (out, lines, _) = measure(&format!("{words} --subjects wheelwork,hhwt"), "w11.json");
    for told in [
        "w11-other a window of 10, 2 threads",
        "w11 T=2 at 1000 mops",
    ] {
        assert!(out.contains(told), "{told} in {out}");
    }
    assert_eq!(lines.len(), 6);
    for line in lines {
        assert!(line["skipped"].is_null(), "{line}");
        assert_numbers(&line, &["mops", "cpu_s_per_mop", "settle_ms", "pending"]);
        assert_numbers(
            &line,
            &["resident_bytes_max", "resident_bytes_last", "left_bytes"],
        );
        assert_numbers(
            &line,
            &["late_ms_p50", "late_ms_p99", "late_ms_max", "lost"],
        );
        // hhwt fires one early now and then, on a machine with much else to do.
        let is_ours = line["subject"] == "wheelwork";
        assert!(!is_ours || line["early"] == 0.0, "{line}");
    }
    let alone = "--timers 10 --threads 1 --workloads w11 --subjects delayqueue";
    let (out, lines, _) = measure(alone, "owner.json");
    assert!(out.contains("no probe"), "{out}");
    assert!(lines[0]["late_ms_p99"].is_null(), "{}", lines[0]);
}

#[test]
fn another_program_is_a_rival_too() {
    let program = Place::new("external.sh");
    let expected =
        "measure --subject other --workload w2 --timers 1000 --threads 1 --seed 5 --quick";
    let script = format!("#!/bin/sh\n[ \"$*\" = \"{expected}\" ] && echo '{{\"mops\":0.001}}'\n");
    std::fs::write(&program.0, script).expect("the file is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program.0, executable).expect("the file is ours");
    let small = "--subjects wheelwork --workloads w2 --timers 1000 --threads 1 --seed 5 --quick";
    let out = timers(&format!("{small} --external other={}", program.path())).out();
    let is_other = |line: &str| line.starts_with("  other ") && line.contains("1.00 x");
    assert!(out.lines().any(is_other), "{out}");
}

#[test]
fn what_takes_too_long_is_given_up() {
    let small = "--subjects heap --workloads w7 --timers 1000 --quick --timeout 1s";
    let out = timers(small).out();
    assert!(out.contains("given up after 1s"), "{out}");
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--subjects nobody",
        "--workloads w99",
        "--timers 99",
        "--timers many",
        "--threads 0",
        "--threads 257",
        "--reps 0",
        "--timeout 1ms",
        "--timeout soon",
        "--external netty",
        "--external =netty",
        "--external netty=/no/such/program",
        "--external tokio=/bin/true",
        "--quick --subjects heap --workloads w2 --json /no/such/folder/figures.json",
        "surplus",
    ];
    assert_wrong("timers", timers, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(timers, "--help", &["\n  measure", "library:"]);
}
