//! `servers`: what it prints, what it writes, how it exits.

use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn servers(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_servers"), words)
}

const LIMITS: [&str; 7] = ["header", "body", "request", "write", "idle", "age", "grace"];

#[test]
fn limits_that_are_there_are_in_force() {
    let out = servers("check --patience 10min").out();
    let limits = LIMITS.join(", ");
    let expected = format!("in force with tokio, tower-http, wheelwork: {limits}\n");
    assert_eq!(out, expected);
}

/// The limits of a server that has none: the check says so of each.
#[test]
fn limits_that_are_missing_are_noticed() {
    for limit in LIMITS {
        let none = "check --subjects none --strict --patience 200ms";
        let said = servers(&format!("{none} --limits {limit}"));
        let expected = format!("none: the limit {limit}: a client is not cut off");
        assert_eq!(said.code, Some(2), "{}", said.out);
        assert!(said.err.contains(&expected), "{}", said.err);
    }
}

#[test]
fn costs_are_printed_and_written() {
    let json = Place::new("servers.json");
    let small = "--quick --connections 20 --few 2 --rate 200 --idle 10min";
    let out = servers(&format!("{small} --json {}", json.path())).out();
    assert!(
        out.contains("paced 20 connections, 200 requests/s; 2 worker threads"),
        "{out}"
    );
    let lines = json.json_lines();
    let machine = lines[0]["machine"].as_str().expect("it is told");
    assert!(machine.contains("tokio-io-timeout"), "{machine}");
    let (subjects, costs) = lines[1..].split_at(2 * 4);
    for line in subjects {
        assert_eq!(line["reps"].as_u64(), Some(1), "{line}");
        assert_numbers(
            line,
            &[
                "cpu_s_per_million_requests",
                "cpu_percent",
                "requests_per_s",
            ],
        );
        assert_numbers(line, &["response_us_p50", "response_us_p99"]);
        assert_numbers(line, &["resident_bytes", "bytes_per_connection"]);
        assert_eq!(
            line["armed_per_s"].is_number(),
            line["subject"] == "wheelwork"
        );
        // The limits are minutes, and no client is as slow as that.
        assert_eq!(line["failed"].as_f64(), Some(0.0), "{line}");
    }
    assert_eq!(costs.len(), 2 * 3, "workloads, subjects but the floor");
    for line in costs {
        assert_numbers(line, &["beyond_none_cpu_s_per_million_requests", "n"]);
    }
}

#[test]
fn rude_clients_are_told_apart() {
    let json = Place::new("rude.json");
    let small = "--quick --connections 20 --rude 50 --rate 100 --idle 10min --workloads paced";
    let subjects = "--subjects none,wheelwork";
    servers(&format!("{small} {subjects} --json {}", json.path())).out();
    let lines = json.json_lines();
    for line in &lines[1..3] {
        assert_numbers(line, &["cut_off_per_s"]);
        assert_eq!(line["failed"].as_f64(), Some(0.0), "{line}");
    }
    assert_eq!(
        lines[1]["cut_off_per_s"].as_f64(),
        Some(0.0),
        "it has no limits"
    );
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "surplus",
        "--subjects nobody",
        "--workloads nothing",
        "--connections 9",
        "--few 0",
        "--rate fast",
        "--threads 0",
        "--posts 101",
        "--rude 51",
        "--idle 10ms",
        "--seconds 0",
        // Each connection would be idle for ten seconds.
        "--connections 10k --rate 1k",
        "check --subjects nobody",
        "check --limits luck",
        "check --patience 1ms",
        "--quick --subjects none --json /no/such/folder/figures.json",
    ];
    assert_wrong("servers", servers, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(servers, "--help", &["\n  measure", "\n  serve"]);
    assert_help_is_for_users(servers, "check --help", &["strict"]);
}
