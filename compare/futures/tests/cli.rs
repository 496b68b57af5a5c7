//! `futures`: what it prints, what it writes, how it exits.

use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn futures(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_futures"), words)
}

#[test]
fn timeouts_have_a_row_for_each_kind_and_number_of_threads() {
    let out = futures("--timeouts 100 --reps 1 --threads 1,2").out();
    for kind in ["ready ", "pending "] {
        let rows = out.lines().filter(|line| line.starts_with(kind));
        assert_eq!(rows.count(), 2, "{out}");
    }
}

#[test]
fn resets_print_tables_and_write_lines() {
    let json = Place::new("resets.json");
    let small = "resets --quick --deadlines 1000 --threads 2";
    let out = futures(&format!("{small} --json {}", json.path())).out();
    assert!(
        out.contains("1000 deadlines of 60 s; 2 worker threads"),
        "{out}"
    );
    let lines = json.json_lines();
    let machine = lines[0]["machine"].as_str().expect("it is told");
    assert!(machine.contains("pingora-timeout"), "{machine}");
    assert_eq!(lines[1..].len(), 2 * 5, "workloads, timers");
    for line in &lines[1..] {
        let [reps, n, threads] = ["reps", "n", "threads"].map(|name| line[name].as_u64());
        assert_eq!(
            (reps, n, threads),
            (Some(1), Some(1_000), Some(2)),
            "{line}"
        );
        assert_numbers(
            line,
            &["ns_per_reset", "cpu_us_per_reset", "messages_per_s"],
        );
        assert_numbers(line, &["cpu_percent", "bytes_per_deadline"]);
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--timeouts 0",
        "--threads 257",
        "surplus",
        "resets --timers nobody",
        "resets --threads 0",
        "resets --deadlines 10",
        "resets --messages many",
        "resets --seconds 41",
        "resets --quick --deadlines 1000 --timers none --json /no/such/folder/figures.json",
    ];
    assert_wrong("futures", futures, &wrong);
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(futures, "--help", &["\n  measure"]);
}
