//! `million`.

use serde_json::Value;
use wheelwork_kit::said::{Place, Said, assert_ends_without_a_panic, assert_wrong, call};

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
        "--durable somewhere --kills 3",
        "--kills 3",
        "surplus",
        "--tui",
    ];
    assert_wrong("million", million, &wrong);
}

/// As `million | head -1` does, and a full disk.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_nobody_takes_ends_it_without_a_panic() {
    let args = ["--timers", "1000"];
    assert_ends_without_a_panic(env!("CARGO_BIN_EXE_million"), "million", &args);
}
