//! `million`.

use serde_json::Value;
use std::process::{Command, Stdio};
use wheelwork_kit::said::{Place, Said, assert_help_is_for_users, assert_wrong, call};

fn million(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_million"), words)
}

/// The figures of a clean run.
fn run(words: &str, armed: u64) -> Value {
    let json = Place::new(&format!("million-{armed}.json"));
    let out = million(&format!("{words} --json {}", json.path())).out();
    assert!(out.contains("clean: every promise held"), "{out}");
    let figures: Value = serde_json::from_str(&json.text()).expect("it is JSON");
    let of = |name: &str| {
        let count = figures[name].as_u64();
        count.unwrap_or_else(|| panic!("{name} is not a count in {figures}"))
    };
    assert_eq!(of("armed"), armed);
    assert_eq!(of("fired") + of("cancelled") + of("handed_back"), armed);
    assert_eq!((of("early"), of("lost"), of("doubled")), (0, 0, 0));
    figures
}

fn assert_positive(figures: &Value, names: &[&str]) {
    for name in names {
        let figure = figures[*name].as_f64();
        let is_positive = figure.is_some_and(|figure| figure > 0.0);
        assert!(is_positive, "{name} in {figures}");
    }
}

#[test]
fn threads_that_live_shortly_lose_no_timer() {
    let figures = run("--short-lived 200 --threads 3 --spread 100ms", 20_000);
    assert_positive(&figures, &["thread_us", "bare_thread_us"]);
}

#[test]
fn a_small_run_is_clean_and_writes_its_figures() {
    let small = "--timers 20000 --threads 3 --shards 2 --spread 100ms --seed 7";
    // 20,000 armed, 10,000 more by the churn, 20,000 in the burst.
    let figures = run(small, 50_000);
    let costs = [
        "arm_mops",
        "arm_cpu_s_per_mop",
        "cancel_mops",
        "cancel_cpu_s_per_mop",
        "churn_mops",
        "pair_1_ns",
        "bytes_per_timer",
    ];
    wheelwork_kit::said::assert_numbers(&figures, &costs);
    let lateness = [
        "lateness_us_p50",
        "lateness_us_p99",
        "lateness_us_p999",
        "lateness_us_max",
        "burst_last_ms",
    ];
    assert_positive(&figures, &lateness);
}

#[test]
fn inline_and_without_cancels() {
    run(
        "--timers 3k --inline --cancel 0 --spread 50ms --tick 100us",
        7_500,
    );
}

#[test]
fn panics_in_handlers_are_counted_and_lose_nothing() {
    let small = "--timers 5000 --cancel 50 --spread 50ms --panic-every 10";
    let figures = run(small, 12_500);
    let panics = figures["panics"].as_u64();
    assert!(panics.is_some_and(|panics| panics > 500), "{figures}");
}

/// How late is no matter of this test: machines stall.
#[test]
fn a_cascade_is_measured() {
    let json = Place::new("cascade.json");
    let said = million(&format!("--cascade --timers 20000 --json {}", json.path()));
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.err);
    let figures: Value = serde_json::from_str(&json.text()).expect("it is JSON");
    let most = [
        "alone_us_max",
        "spread_steps_us_max",
        "one_tick_steps_us_max",
    ];
    assert_positive(&figures, &most);
    assert!(figures["verdict"].is_string(), "{figures}");
}

/// A small main job on disk: three times its process is killed, and started again.
#[test]
fn durable_timers_survive_kills() {
    let (folder, json) = (Place::new("durable"), Place::new("durable.json"));
    let small = "--timers 20000 --kills 3 --spread 300ms --threads 3 --window 500";
    let words = format!("--durable {} {small} --json {}", folder.path(), json.path());
    for seed in [1, 2] {
        let out = million(&format!("{words} --seed {seed}")).out();
        assert!(out.contains("clean: every promise held"), "{out}");
        let figures: Value = serde_json::from_str(&json.text()).expect("it is JSON");
        let of = |name: &str| figures[name].as_u64().unwrap_or(u64::MAX);
        assert_eq!((of("kills"), of("lost"), of("early")), (3, 0, 0));
        assert_eq!((of("doubled"), of("handled_cancelled")), (0, 0));
        let names = [
            "commit_us_p99",
            "written_bytes",
            "reopen_ms_p50",
            "across_kills",
        ];
        wheelwork_kit::said::assert_numbers(&figures, &names);
        let names = ["armed", "handled", "cancelled", "commits", "arming_per_s"];
        assert_positive(&figures, &names);
    }
}

/// What is not the job's own is not touched.
#[test]
fn a_folder_of_others_is_refused() {
    let folder = Place::new("durable-others");
    std::fs::create_dir(folder.path()).expect("it is new");
    let photo = format!("{}/photo.jpg", folder.path());
    std::fs::write(&photo, "mine").expect("it is a folder");
    let words = format!("--timers 1000 --durable {}", folder.path());
    assert_wrong("million", million, &[&words, "--durable /dev/null/folder"]);
    assert_eq!(
        std::fs::read_to_string(&photo).ok().as_deref(),
        Some("mine")
    );
    assert_help_is_for_users(million, "--help", &["durable-child"]);
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "--timers 0",
        "--timers many",
        "--timers 99999999999999999999",
        "--timers 200000001",
        "--threads 0",
        "--threads 100000",
        "--timers 2 --threads 3",
        "--shards 0",
        "--shards 5000",
        "--tick 0s",
        "--tick 2days",
        "--tick soon",
        "--cancel 101",
        "--spread 2h",
        "--json",
        "--timers 10 --spread 0s --json /no/such/folder/figures.json",
        "--cascade --idle",
        "--cascade --tick 1s",
        "--durable",
        "--kills 3",
        "--window 100",
        "--durable somewhere --kills many",
        "--durable somewhere --payload 11",
        "--durable somewhere --window 0",
        "--durable somewhere --idle",
        "--durable somewhere --shards 2",
        "surplus",
        "--tui",
    ];
    assert_wrong("million", million, &wrong);
}

/// As `million | head -1` does, and a full disk. (`chaos` has two threads that may print.)
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_nobody_takes_ends_it_without_a_panic() {
    let run = |program: &str, args: [&str; 2], stdout: Stdio| {
        let mut command = Command::new(program);
        command.args(args).stdout(stdout);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    for (program, name, args) in [
        (
            env!("CARGO_BIN_EXE_million"),
            "million",
            ["--timers", "1000"],
        ),
        (env!("CARGO_BIN_EXE_chaos"), "chaos", ["--minutes", "0.02"]),
    ] {
        let closed = run(program, args, Stdio::piped());
        assert_eq!(closed, (Some(2), String::new()), "{name}");
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (code, text) = run(program, args, full.unwrap().into());
        let start = format!("{name}: standard output: ");
        let is_told = text.starts_with(&start) && text.lines().count() == 1;
        assert!(code == Some(2) && is_told, "{name}: {code:?} {text}");
    }
}
