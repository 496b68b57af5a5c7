//! The command line of `million`: what it prints, what it writes, how it exits.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn million(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_million")).args(args).output().expect("the binary was built")
}

fn run(args: &[&str], file: &str) -> Value {
    let json = std::env::temp_dir().join(format!("wheelwork-{}-{file}.json", std::process::id()));
    let args = [args, &["--json", json.to_str().expect("a plain path")]].concat();
    let output = million(&args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("clean: every promise held"), "{text}");
    assert!(!text.contains('\u{1b}'), "no terminal codes in a pipe: {text}");
    let figures = std::fs::read_to_string(&json).expect("the file was written");
    std::fs::remove_file(&json).expect("the file is ours");
    serde_json::from_str(&figures).expect("it is JSON")
}

fn assert_clean(figures: &Value, armed: u64) {
    let of = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("{name} is not a count in {figures}"));
    assert_eq!(of("armed"), armed);
    assert_eq!(of("armed"), of("fired") + of("cancelled") + of("handed_back"));
    assert_eq!((of("early"), of("lost"), of("doubled")), (0, 0, 0));
}

#[test]
fn a_small_run_is_clean_and_writes_its_figures() {
    let figures = run(&["--timers", "20000", "--threads", "3", "--shards", "2", "--spread", "100ms", "--seed", "7"], "small");
    // 20,000 armed, 10,000 more by the churn, 20,000 in the burst.
    assert_clean(&figures, 50_000);
    for name in ["arm_mops", "arm_cpu_s_per_mop", "cancel_mops", "cancel_cpu_s_per_mop", "churn_mops", "pair_1_ns", "bytes_per_timer"] {
        assert!(figures[name].is_number(), "{name} in {figures}");
    }
    for name in ["lateness_us_p50", "lateness_us_p99", "lateness_us_p999", "lateness_us_max", "burst_last_ms"] {
        assert!(figures[name].as_f64().is_some_and(|lateness| lateness > 0.0), "{name} in {figures}");
    }
}

#[test]
fn inline_and_without_cancels() {
    let figures = run(&["--timers", "3000", "--inline", "--cancel", "0", "--spread", "50ms", "--tick", "100us"], "inline");
    assert_clean(&figures, 7_500);
}

#[test]
fn panics_in_handlers_are_counted_and_lose_nothing() {
    let figures = run(&["--timers", "5000", "--cancel", "50", "--spread", "50ms", "--panic-every", "10"], "panics");
    assert_clean(&figures, 12_500);
    assert!(figures["panics"].as_u64().is_some_and(|panics| panics > 500), "{figures}");
}

/// How late is no matter of this test: machines stall.
#[test]
fn a_cascade_is_measured() {
    let json = std::env::temp_dir().join(format!("wheelwork-{}-cascade.json", std::process::id()));
    let output = million(&["--cascade", "--timers", "20000", "--json", json.to_str().expect("a plain path")]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(&json).expect("the file was written")).expect("it is JSON");
    std::fs::remove_file(&json).expect("the file is ours");
    for name in ["alone", "spread_steps", "spread_whole", "one_tick_steps", "one_tick_whole"] {
        let max = figures[format!("{name}_us_max")].as_f64();
        assert!(max.is_some_and(|max| max > 0.0), "{name} in {figures}");
    }
    assert!(figures["verdict"].is_string(), "{figures}");
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong: &[&[&str]] = &[
        &["--no-such-flag"],
        &["--timers", "0"],
        &["--timers", "many"],
        &["--timers", "99999999999999999999"],
        &["--timers", "200000001"],
        &["--threads", "0"],
        &["--threads", "100000"],
        &["--timers", "2", "--threads", "3"],
        &["--shards", "0"],
        &["--shards", "5000"],
        &["--tick", "0s"],
        &["--tick", "2days"],
        &["--tick", "soon"],
        &["--cancel", "101"],
        &["--spread", "2h"],
        &["--json"],
        &["--timers", "10", "--spread", "0s", "--json", "/no/such/folder/figures.json"],
        &["--cascade", "--idle"],
        &["--cascade", "--tick", "1s"],
        &["surplus"],
        &["--tui"],
    ];
    for args in wrong {
        let output = million(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.starts_with("million: ") && error.len() > 30, "{args:?}: {error}");
    }
}

/// The picture would be of no use in a pipe; and who did not build it in is told how to.
#[test]
fn no_picture_without_a_terminal() {
    let output = million(&["--tui", "--timers", "1000"]);
    let why = if cfg!(feature = "tui") { "needs a terminal" } else { "cargo run --release --features tui -- --tui" };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && output.stdout.is_empty() && error.contains(why), "{error}");
}

#[test]
fn help_names_every_option() {
    let output = million(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for option in [
        "--timers",
        "--threads",
        "--shards",
        "--tick",
        "--cancel",
        "--spread",
        "--seed",
        "--inline",
        "--json",
        "--idle",
        "--cascade",
        "--panic-every",
        "--tui",
    ] {
        assert!(text.contains(option), "{option} in {text}");
    }
}

/// As `million | head -1` does, and a full disk.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_nobody_takes_ends_it_without_a_panic() {
    let run = |stdout: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_million"));
        let mut child = command.args(["--timers", "1000"]).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(Stdio::piped()), (Some(2), String::new()));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (code, text) = run(full.into());
    assert!(code == Some(2) && text.starts_with("million: standard output: ") && text.lines().count() == 1, "{code:?} {text}");
}
