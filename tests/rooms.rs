//! Promise: the rooms are as ARCHITECTURE.md draws them. Arrows go down only, rooms of one floor do not know each other, the wheel names no atomic and
//! no clock, the lane knows no time, and one file names atomics and parks threads.
//!
//! Reads the source, without comments and test modules.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of each floor. `time` and `count` stand on the rest of the ground floor.
const FLOORS: [&[&str]; 6] = [
    &["sync", "mem", "entry", "error"],
    &["time", "count"],
    &["cell", "wheel", "lane", "doorbell", "dispatch"],
    &["shard"],
    &["service"],
    &["future", "calendar", "metrics", "trace"],
];

/// Not rooms: the front door, and the doors for the benches and the loom models.
const DOORS: [&str; 3] = ["lib", "door", "loom_door"];

struct File {
    path: PathBuf,
    room: String,
    code: String,
}

fn files() -> Vec<File> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    let file = |path: PathBuf| {
        let path = path.strip_prefix(&src).unwrap().to_path_buf();
        let room = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_string();
        let code = code(&fs::read_to_string(src.join(&path)).unwrap());
        File { path, room, code }
    };
    let tests = |path: &PathBuf| path.file_name().is_some_and(|name| name == "tests.rs");
    let files: Vec<_> = paths.into_iter().filter(|path| !tests(path)).map(file).collect();
    assert!(files.len() > 30, "{} files are not the source", files.len());
    files
}

/// The source without comments, and without the test module at its end.
fn code(source: &str) -> String {
    let before_tests = source.lines().take_while(|line| !(line.starts_with("#[cfg(") && line.contains("test")));
    let code_of = |line: &str| line.split("//").next().unwrap_or_default().to_string() + "\n";
    before_tests.map(code_of).collect()
}

/// All words of the code: identifiers and keywords.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

/// What follows `crate::`, wherever it stands.
fn arrows(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::").filter_map(|(at, crate_path)| {
        // Not the end of a macro's `$crate`, nor of some other name.
        let rest = &code[at + crate_path.len()..];
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        (!code[..at].ends_with('$')).then(|| &rest[..end])
    })
}

fn floor(room: &str) -> usize {
    FLOORS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| panic!("{room:?} is no room of the plan (one `use crate::room` a line)"))
}

/// The first word of a file that is forbidden there.
fn forbidden(file: &File, is_forbidden: impl Fn(&str) -> bool) -> Option<String> {
    words(&file.code).find(|word| is_forbidden(word)).map(|word| format!("{} names {word}", file.path.display()))
}

#[test]
fn arrows_go_down() {
    for file in files().iter().filter(|file| !DOORS.contains(&file.room.as_str())) {
        let own = floor(&file.room);
        for to in arrows(&file.code).filter(|&to| to != file.room) {
            assert!(floor(to) < own, "{} names crate::{to}", file.path.display());
        }
        assert!(file.room == "sync" || !file.code.contains("super::super"), "{}: another way out of the room", file.path.display());
    }
}

#[test]
fn every_room_of_the_plan_is_there() {
    let files = files();
    for room in FLOORS.iter().copied().flatten() {
        assert!(files.iter().any(|file| file.room == *room), "{room} is gone");
    }
}

#[test]
fn the_wheel_names_no_atomic_and_no_clock() {
    let is_forbidden = |word: &str| {
        word.starts_with("Atomic")
            || ["atomic", "sync", "time", "Instant", "Duration", "Clock", "SystemTime", "quanta", "thread", "Mutex", "UnsafeCell"]
                .contains(&word)
    };
    for file in files().iter().filter(|file| file.room == "wheel") {
        assert_eq!(forbidden(file, is_forbidden), None);
    }
}

#[test]
fn the_lane_knows_no_time() {
    let is_forbidden =
        |word: &str| ["time", "Instant", "Duration", "Clock", "SystemTime", "quanta", "tick", "deadline", "Entry"].contains(&word);
    for file in files().iter().filter(|file| file.room == "lane") {
        assert_eq!(forbidden(file, is_forbidden), None);
    }
}

#[test]
fn one_file_names_atomics_and_parks() {
    for file in files().iter().filter(|file| file.room != "sync" && file.room != "loom_door") {
        for path in ["sync::atomic", "thread::park", "hint::spin_loop"] {
            assert!(!file.code.contains(path), "{} names {path}", file.path.display());
        }
        assert!(!file.code.contains("loom::"), "{} names loom", file.path.display());
        assert_eq!(forbidden(file, |word| ["park_timeout", "SegQueue", "compiler_fence", "yield_now"].contains(&word)), None);
        // Starting, joining and counting threads is the service's.
        assert!(file.room == "service" || !file.code.contains("std::thread"), "{} names std::thread", file.path.display());
    }
}

#[test]
fn one_room_reads_the_time() {
    for file in files() {
        let reads = ["Instant::now", "SystemTime::now", "quanta::"].into_iter().find(|path| file.code.contains(path));
        assert!(reads.is_none() || file.room == "time", "{} names {reads:?}", file.path.display());
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let source = "use crate::wheel::Wheel; // crate::shard\n//! crate::service\nlet x = crate::time::nanos(1);\n#[cfg(all(test, not(loom)))]\nmod tests { use crate::cell::Cell; }";
    let code = code(source);
    assert_eq!(arrows(&code).collect::<Vec<_>>(), ["wheel", "time"]);
    assert!(words(&code).any(|word| word == "nanos"));
    assert_eq!(arrows("use crate::{cell, lane};").collect::<Vec<_>>(), [""], "which is no room");
    assert!(floor("sync") < floor("wheel") && floor("wheel") < floor("shard"));
    let file = File { path: "lane/x.rs".into(), room: "lane".into(), code: "use std::time::Duration;".into() };
    assert_eq!(forbidden(&file, |word| word == "Duration").as_deref(), Some("lane/x.rs names Duration"));
}
