//! `endure`, with its two profiles.

use std::process::{Command, Stdio};
use wheelwork_kit::said::{Said, assert_wrong, call};

const ENDURE: &str = env!("CARGO_BIN_EXE_endure");

fn endure(words: &str) -> Said {
    call(ENDURE, words)
}

#[test]
fn a_short_one_accounts_for_every_timer() {
    let words = "soak --minutes 0.05 --tick 100us --timers 2k --rate 20k --threads 3 --shards 2";
    let out = endure(words).out();
    assert!(out.ends_with("every timer was accounted for\n"), "{out}");
    for shown in [
        "too short to say",
        "CPU a step",
        "resident, MB",
        "64 of them periodic",
    ] {
        assert!(out.contains(shown), "{shown} in {out}");
    }
    assert!(out.lines().count() > 10, "{out}");
}

#[test]
fn it_ends_when_nobody_reads_what_it_says() {
    let mut command = Command::new(ENDURE);
    command
        .args(["soak", "--minutes", "5"])
        .stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(2), vec![]));
}

#[test]
fn wrong_arguments_are_one_line() {
    let wrong = [
        "weeks",
        "",
        "soak --minutes 0",
        "soak --minutes nan",
        "soak --minutes 20000",
        "soak --tick 1us",
        "soak --tick soon",
        "soak --timers 10",
        "soak --rate 0",
        "soak --threads 65",
        "soak --shards 0",
        "soak --seed x",
        "soak --weeks 1",
        "soak much",
        "chaos --minutes 0",
        "chaos --minutes 20000",
        "chaos --seed x",
        "chaos --tick 1ms",
        "chaos much",
    ];
    assert_wrong("endure", endure, &wrong);
}

/// It has two threads that may print.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_nobody_takes_ends_chaos_without_a_panic() {
    let args = ["chaos", "--minutes", "0.02"];
    wheelwork_kit::said::assert_ends_without_a_panic(ENDURE, "endure", &args);
}

/// A seed has all that is drawn. What the threads make of it is theirs.
#[test]
fn an_episode_of_chaos_accounts_for_every_timer() {
    let out = endure("chaos --minutes 0.05 --seed 7 --episodes 2").out();
    assert!(out.starts_with("chaos for 0.05 minutes, seed 7\n"), "{out}");
    assert!(out.ends_with("every timer was accounted for\n"), "{out}");
    assert!(out.contains(", 0 faults"), "{out}");
}
