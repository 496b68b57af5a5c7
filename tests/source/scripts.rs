//! Promise: `scripts/check`, `scripts/bench` and `scripts/test` list what there is, and refuse what
//! there is not in one line.
//!
//! The scripts that only start a program of `benches` or `compare` leave its options to the
//! program: their own are not looked at. In a package that was downloaded there are no scripts.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the scripts, if it is there.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    folder.exists().then_some(folder)
}

fn run(script: &Path, args: &[&str]) -> Output {
    Command::new(script)
        .args(args)
        .output()
        .expect("bash is there")
}

/// The names of a kind of script, each with its text.
fn scripts(folder: &Path, kind: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder.join(format!("{kind}.d"))).expect("there is a folder");
    let mut scripts: Vec<_> = entries
        .map(|entry| entry.expect("it can be read").path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, fs::read_to_string(&path).expect("it is text"))
        })
        .collect();
    scripts.sort();
    scripts
}

/// One line on standard error, none on standard output, exit code 2.
fn assert_refuses(script: &Path, args: &[&str]) {
    let output = run(script, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    assert!(
        error.starts_with("scripts/") && output.stdout.is_empty(),
        "{args:?}: {error}"
    );
}

#[test]
fn help_lists_all_names_and_how_long_they_take() {
    let Some(folder) = folder() else { return };
    for (kind, count) in [("check", 19), ("bench", 15)] {
        let output = run(&folder.join(kind), &["--help"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        let scripts = scripts(&folder, kind);
        assert_eq!(scripts.len(), count);
        for (name, _) in scripts {
            let mut lines = text.lines().map(str::trim);
            let what = lines.find(|line| line.starts_with(&format!("{name} ")));
            assert!(what.is_some_and(|what| what.len() > 30), "{name}: {text}");
            let time = lines.next().unwrap_or_default();
            assert!(time.starts_with("Takes "), "{name}: {time}");
        }
    }
}

#[test]
fn help_of_one_has_its_usage() {
    let Some(folder) = folder() else { return };
    for kind in ["check", "bench"] {
        for (name, text) in scripts(&folder, kind) {
            let usage = format!("Usage: scripts/{kind} {name}");
            assert!(text.contains(&usage), "{usage}");
            if text.contains("offer_help") {
                let output = run(&folder.join(kind), &[&name, "--help"]);
                let help = String::from_utf8_lossy(&output.stdout);
                assert_eq!(output.status.code(), Some(0), "{name}: {help}");
                assert!(help.contains(&usage), "{name}: {help}");
            }
        }
    }
}

#[test]
fn what_is_not_there_is_one_line_and_exit_code_2() {
    let Some(folder) = folder() else { return };
    let wrong: [&[&str]; 4] = [&[], &["nobody"], &["../lib.sh"], &["loom race"]];
    for kind in ["check", "bench"] {
        for args in wrong {
            assert_refuses(&folder.join(kind), args);
        }
    }
    let wrong: [&[&str]; 16] = [
        &["compare", "nobody"],
        &["diesel", "nobody"],
        &["files", "surplus"],
        &["fuzz", "nobody"],
        &["fuzz", "--seconds", "0"],
        &["interface", "--soon"],
        &["kills", "nobody"],
        &["kills", "--kills", "0"],
        &["memory", "many"],
        &["mutants", "nobody"],
        &["mutants", "--shard", "3"],
        &["platforms", "nobody"],
        &["race", "nobody"],
        &["release", "--soon"],
        &["simulation", "--seeds", "0"],
        &["versions", "nobody"],
    ];
    for args in wrong {
        assert_refuses(&folder.join("check"), args);
    }
    let wrong: [&[&str]; 4] = [
        &["report"],
        &["report", "--soon"],
        &["report", "one.json", "two.json"],
        &["report", "/no/such/folder/figures.json"],
    ];
    for args in wrong {
        assert_refuses(&folder.join("bench"), args);
    }
    let wrong: [&[&str]; 6] = [
        &["surplus"],
        &["format", "surplus"],
        &["quick", "surplus"],
        &["--soon"],
        &["--list", "format"],
        &["format clippy"],
    ];
    for args in wrong {
        assert_refuses(&folder.join("test"), args);
    }
}

#[test]
fn stages_are_listed_by_short_names() {
    let Some(folder) = folder() else { return };
    let output = run(&folder.join("test"), &["--list"]);
    let list = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{list}");
    let stages: BTreeMap<_, _> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(short, name)| (short, name.trim()))
        .collect();
    assert_eq!((stages.len(), list.lines().count()), (23, 23), "{list}");
    assert_eq!(stages["tests"], "unit, integration and harness tests");
    let is_short = |name: &str| {
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        name.len() <= 16 && name.chars().all(is_part)
    };
    assert!(stages.keys().all(|name| is_short(name)), "{list}");
    let help = run(&folder.join("test"), &["--help"]);
    let help = String::from_utf8_lossy(&help.stdout);
    for usage in ["Usage: scripts/test [", "scripts/test --list", "  quick "] {
        assert!(help.contains(usage), "{usage}: {help}");
    }
}

/// What the workflow runs is there. (It runs on another machine, later.)
#[test]
fn the_workflow_names_stages_that_are_there() {
    let Some(folder) = folder() else { return };
    let workflow = folder.join("../.github/workflows/ci.yml");
    let workflow = fs::read_to_string(workflow).expect("it is there");
    let list = run(&folder.join("test"), &["--list"]);
    let list = String::from_utf8_lossy(&list.stdout).to_string();
    let named: Vec<_> = workflow
        .lines()
        .filter_map(|line| line.split_once("run: scripts/test "))
        .flat_map(|(_, stages)| stages.split(' '))
        .collect();
    let is_stage = |name: &&str| {
        list.lines()
            .any(|line| line.starts_with(&format!("{name} ")))
    };
    assert!(!named.is_empty() && named.iter().all(is_stage), "{named:?}");
}
