//! The command lines of `rivals` and `plot`: what they print, what they write, how they exit. Figures are no matter of these tests.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn rivals(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rivals")).args(args).output().expect("the binary was built")
}

fn plot(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plot")).args(args).output().expect("the binary was built")
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wheelwork-{}-{name}", std::process::id()))
}

#[test]
fn a_small_run_prints_tables_and_writes_lines_that_can_be_plotted() {
    let (json, html) = (file("rivals.json"), file("rivals.html"));
    let (json_text, html_text) = (json.to_str().expect("a plain path"), html.to_str().expect("a plain path"));
    let small = ["--timers", "1000", "--threads", "1", "--reps", "2", "--quick", "--subjects", "wheelwork,delayqueue,hhwt,wheelwork-batch"];
    let output = rivals(&[&small[..], &["--workloads", "w2,w4", "--json", json_text]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("distance to goals") && text.contains("its calls take many timers"), "{text}");
    assert!(!text.contains('\u{1b}'), "no terminal codes in a pipe: {text}");

    let lines = std::fs::read_to_string(&json).expect("the file was written");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert!(lines[0]["machine"].as_str().is_some_and(|machine| machine.contains("cores")), "{}", lines[0]);
    assert!(lines.iter().any(|line| line["goal"].is_string() && line["verdict"].is_string()));
    assert_eq!(lines.iter().filter(|line| line["subject"].is_string()).count(), 8);
    for line in lines.iter().filter(|line| line["subject"].is_string() && line["skipped"].is_null()) {
        assert_eq!(line["reps"], 2, "{line}");
        for name in ["mops", "mops_min", "mops_max", "ns_per_op", "cpu_s_per_mop", "settle_ms"] {
            assert!(line[name].is_number(), "{name} in {line}");
        }
    }

    let pictures = file("pictures");
    let output = plot(&[json_text, html_text, "--pictures", pictures.to_str().expect("a plain path")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert_eq!(page.matches("<svg").count(), 2, "{page}");
    let pictures_text = |name: &str| std::fs::read_to_string(pictures.join(name)).expect("the picture was written");
    assert!(pictures_text("w4-cancel-all-in-random-order-1000-timers-1-producer.svg").starts_with("<svg"));
    std::fs::remove_dir_all(&pictures).expect("the folder is ours");
    std::fs::remove_file(&json).expect("the file is ours");
    std::fs::remove_file(&html).expect("the file is ours");
}

#[test]
fn rates_that_programs_have_are_measured() {
    let json = file("paced.json");
    let measure = |subjects, workloads| {
        let json = json.to_str().expect("a plain path");
        let small = ["--quick", "--timers", "1000", "--threads", "1", "--json", json];
        let output = rivals(&[&small[..], &["--subjects", subjects, "--workloads", workloads]].concat());
        let text = String::from_utf8_lossy(&output.stdout).to_string();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}{error}");
        let lines = std::fs::read_to_string(json).expect("the file was written");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        let lines: Vec<Value> = lines.filter(|line: &Value| line["subject"].is_string()).collect();
        (text, lines)
    };
    let subjects = "wheelwork,wheelwork-future,tokio-future,btree,delayqueue";
    let (text, lines) = measure(subjects, "w9,w9-periodic,w10");
    assert_eq!(lines.len(), 15);
    assert!(text.contains("w10 1000 timers a second, 1 thread") && text.contains("its owner sleeps"), "{text}");
    assert!(text.contains("w9 at 1000: cpu_us_per_fire <= 1.5 x wheelwork-inline"), "{text}");
    let (_, more) = measure("heap", "w10-fast,w10-slow");
    for line in lines.iter().chain(&more).filter(|line| line["subject"] != "delayqueue") {
        assert!(line["skipped"].is_null(), "{line}");
        let is_server = line["workload"].as_str().is_some_and(|workload| workload.starts_with("w10"));
        let cpu = if is_server { "cpu_us_per_request" } else { "cpu_us_per_fire" };
        assert_eq!(line["fires_cpu_percent"].is_number(), is_server, "{line}");
        for name in [cpu, "cpu_percent", "wakeups_per_s", "timers_per_s", "late_ms_p50", "late_ms_p99", "late_ms_max"] {
            assert!(line[name].is_number(), "{name} in {line}");
        }
        let is_ours = line["subject"].as_str().is_some_and(|subject| subject.starts_with("wheelwork"));
        assert_eq!(line["rings_per_s"].is_number(), is_ours, "{line}");
        assert_eq!(line["early"], 0.0, "{line}");
    }
    std::fs::remove_file(&json).expect("the file is ours");
}

#[test]
fn another_program_is_a_rival_too() {
    let program = file("external.sh");
    std::fs::write(&program, "#!/bin/sh\n[ \"$*\" = \"measure --subject other --workload w2 --timers 1000 --threads 1 --seed 5 --quick\" ] && echo '{\"mops\":0.001}'\n")
        .expect("the file is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("the file is ours");
    let external = format!("other={}", program.display());
    let output = rivals(&[
        "--subjects",
        "wheelwork",
        "--external",
        &external,
        "--workloads",
        "w2",
        "--timers",
        "1000",
        "--threads",
        "1",
        "--seed",
        "5",
        "--quick",
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line.starts_with("  other ") && line.contains("1.00 x")), "{text}");
    std::fs::remove_file(&program).expect("the file is ours");
}

#[test]
fn what_takes_too_long_is_given_up() {
    let output = rivals(&["--subjects", "heap", "--workloads", "w7", "--timers", "1000", "--quick", "--timeout", "1s"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("given up after 1s"), "{text}");
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong: &[&[&str]] = &[
        &["--no-such-flag"],
        &["--subjects", "nobody"],
        &["--workloads", "w99"],
        &["--timers", "5"],
        &["--timers", "many"],
        &["--threads", "0"],
        &["--reps", "0"],
        &["--timeout", "1ms"],
        &["--quick", "--subjects", "heap", "--workloads", "w2", "--json", "/no/such/folder/figures.json"],
        &["surplus"],
    ];
    for args in wrong {
        let output = rivals(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.starts_with("rivals: ") && error.len() > 30, "{args:?}: {error}");
    }
    for args in [&[][..], &["/no/such/file", "/tmp/page.html"], &["--no-such-flag"]] {
        let output = plot(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("plot: ") && error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn help_names_every_option_and_no_inner_one() {
    let output = rivals(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for option in
        ["--subjects", "--external", "--workloads", "--timers", "--threads", "--reps", "--quick", "--timeout", "--seed", "--json", "growth"]
    {
        assert!(text.contains(option), "{option} in {text}");
    }
    assert!(!text.contains("measure --"), "{text}");
}
