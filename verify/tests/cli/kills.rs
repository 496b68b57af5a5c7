//! `kills`.

use serde_json::Value;
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

fn file(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_kills"), &format!("file {words}"))
}

fn assert_positive(figures: &Value, names: &[&str]) {
    for name in names {
        let figure = figures[*name].as_f64();
        let is_positive = figure.is_some_and(|figure| figure > 0.0);
        assert!(is_positive, "{name} in {figures}");
    }
}

/// A small job: three times its process is killed, and started again.
#[test]
fn durable_timers_survive_kills() {
    let (folder, json) = (Place::new("durable"), Place::new("durable.json"));
    let small = "--timers 20000 --kills 3 --spread 300ms --threads 3 --window 500";
    let words = format!("{} {small} --json {}", folder.path(), json.path());
    for more in ["--seed 1", "--seed 2", "--seed 3 --limits"] {
        let out = file(&format!("{words} {more}")).out();
        assert!(out.contains("clean: every promise held"), "{out}");
        let figures: Value = serde_json::from_str(&json.text()).expect("it is JSON");
        let of = |name: &str| figures[name].as_u64().unwrap_or(u64::MAX);
        assert_eq!((of("kills"), of("lost"), of("early")), (3, 0, 0));
        assert_eq!((of("doubled"), of("handled_cancelled")), (0, 0));
        assert_numbers(&figures, &["handled_again", "cancels_in_doubt"]);
        assert_positive(&figures, &["armed", "handled", "cancelled"]);
    }
}

/// What is not the job's own is not touched.
#[test]
fn a_folder_of_others_is_refused() {
    let folder = Place::new("durable-others");
    std::fs::create_dir(folder.path()).expect("it is new");
    let photo = format!("{}/photo.jpg", folder.path());
    std::fs::write(&photo, "mine").expect("it is a folder");
    let words = format!("--timers 1000 {}", folder.path());
    assert_wrong("kills", file, &[&words, "/dev/null/folder"]);
    assert_eq!(
        std::fs::read_to_string(&photo).ok().as_deref(),
        Some("mine")
    );
    assert_help_is_for_users(file, "--help", &["--child"]);
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "",
        "somewhere --timers 0",
        "somewhere --timers 2 --threads 3",
        "somewhere --kills many",
        "somewhere --payload 11",
        "somewhere --window 0",
        "somewhere --cancel 101",
        "somewhere --spread 2h",
        "somewhere --shards 2",
        "somewhere --json /no/such/folder/figures.json",
        "somewhere else",
    ];
    assert_wrong("kills", file, &wrong);
}
