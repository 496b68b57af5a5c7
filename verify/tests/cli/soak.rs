//! `soak`.

use std::process::{Command, Stdio};
use wheelwork_kit::said::{Said, assert_help_is_for_users, assert_wrong, call};

fn soak(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_soak"), words)
}

#[test]
fn a_short_one_accounts_for_every_timer() {
    let words = "--minutes 0.05 --tick 100us --timers 2k --rate 20k --threads 3 --shards 2";
    let out = soak(words).out();
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(["--minutes", "5"]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(2), vec![]));
}

#[test]
fn wrong_arguments_are_one_line() {
    let wrong = [
        "--minutes 0",
        "--minutes nan",
        "--minutes 20000",
        "--tick 1us",
        "--tick soon",
        "--timers 10",
        "--rate 0",
        "--threads 65",
        "--shards 0",
        "--seed x",
        "--weeks 1",
        "much",
    ];
    assert_wrong("soak", soak, &wrong);
    assert_help_is_for_users(soak, "--help", &[]);
}
