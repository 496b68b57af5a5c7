//! Promise: the folders of the source are as ARCHITECTURE.md draws them.
//!
//! Arrows go down only, and folders of one floor do not know each other. Each folder says in its
//! README what its files are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rooms of each floor: folders of `src/`, and files that stand for themselves.
const FLOORS: [&[&str]; 6] = [
    &["random", "sync", "time"],
    &["store"],
    &["handler", "stores"],
    &["queue"],
    &["writer", "runner"],
    &["api"],
];

/// Not rooms: the crate's root, and the doors for models and fuzzing.
const DOORS: [&str; 2] = ["lib", "internals"];

struct File {
    /// Below `src/`.
    path: String,
    /// Without comments.
    code: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        let code = source.lines().map(|line| line.split("//").next().unwrap());
        Self {
            path: path.to_string(),
            code: code.collect::<Vec<_>>().join("\n"),
        }
    }

    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.trim_end_matches(".rs")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files of the source, but those of its own tests.
fn files() -> Vec<File> {
    fn walk(folder: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root().join("src")).unwrap();
            let name = below.to_str().unwrap().replace('\\', "/");
            if path.is_dir() {
                walk(&path, files);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                files.push(File::new(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join("src"), &mut files);
    assert!(files.len() > 70, "{} files are not all", files.len());
    files
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// What follows `crate::`, wherever it stands: the name of a room, or nothing if a group follows.
fn arrows(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// Arrows that do not go down.
fn upward(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !DOORS.contains(&file.room())) {
        let Some(own) = floor(file.room()) else {
            found.push(format!("{} has no floor", file.path));
            continue;
        };
        for to in arrows(&file.code).filter(|&to| to != file.room()) {
            // (A name without a floor: a group of rooms, or an item of the crate's root.)
            if floor(to).is_none_or(|to| to >= own) {
                found.push(format!("{} names crate::{to}", file.path));
            }
        }
        if file.code.contains("super::super") {
            found.push(format!("{} has another way out of its folder", file.path));
        }
    }
    found
}

/// The rooms of each floor, as a table of a document has them.
fn floors(document: &str) -> Vec<Vec<String>> {
    let (_, table) = document.split_once("## Floors").expect("the floors");
    let table = table.split("\n## ").next().unwrap();
    let mut floors: Vec<Vec<String>> = Vec::new();
    for row in table.lines() {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (Some(Ok(floor)), Some(rooms)) = (cells.next().map(str::parse::<usize>), cells.next())
        else {
            continue;
        };
        floors.resize_with(floors.len().max(floor + 1), Vec::new);
        let rooms = rooms.split('`').skip(1).step_by(2);
        floors[floor].extend(rooms.map(|path| {
            let name = path.trim_start_matches("src/").trim_end_matches('/');
            name.trim_end_matches(".rs").to_string()
        }));
    }
    floors
}

#[test]
fn arrows_go_down() {
    assert_eq!(upward(&files()), [""; 0]);
}

#[test]
fn every_room_of_the_plan_is_there() {
    let files = files();
    let rooms: BTreeSet<_> = files.iter().map(File::room).collect();
    let plan: BTreeSet<_> = FLOORS.iter().copied().flatten().chain(&DOORS).collect();
    assert_eq!(rooms.iter().collect::<BTreeSet<_>>(), plan);
}

#[test]
fn the_floors_are_those_of_the_document() {
    let mut drawn = floors(&read("ARCHITECTURE.md"));
    let mut plan = FLOORS.map(<[_]>::to_vec).to_vec();
    drawn.iter_mut().for_each(|rooms| rooms.sort_unstable());
    plan.iter_mut().for_each(|rooms| rooms.sort_unstable());
    assert_eq!(drawn, plan);
}

/// Files of a folder that its README does not name.
fn unnamed<'a>(readme: &str, files: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_named = |file: &&str| readme.contains(&format!("`{file}`"));
    files.filter(|file| !is_named(file)).collect()
}

#[test]
fn each_folder_says_what_its_files_are() {
    let files = files();
    for room in FLOORS.iter().copied().flatten() {
        let below = format!("{room}/");
        let own = files
            .iter()
            .filter_map(|file| file.path.strip_prefix(&below))
            .filter(|path| !path.contains('/') && *path != "mod.rs")
            .collect::<Vec<_>>();
        // (`sync` says it in its head.)
        if !own.is_empty() && *room != "sync" {
            let readme = read(&format!("src/{room}/README.md"));
            assert_eq!(unnamed(&readme, own.into_iter()), [""; 0], "{room}");
        }
    }
}

/// The README of a store has the files of its own folders too, by their paths.
#[test]
fn each_store_says_what_its_files_are() {
    let files = files();
    for store in ["stores/redb", "stores/postgres"] {
        let below = format!("{store}/");
        let own = files
            .iter()
            .filter_map(|file| file.path.strip_prefix(&below))
            .filter(|path| !path.ends_with("mod.rs"))
            .collect::<Vec<_>>();
        assert!(own.len() > 20, "{} files of {store}", own.len());
        let readme = read(&format!("src/{store}/README.md"));
        assert_eq!(unnamed(&readme, own.into_iter()), [""; 0], "{store}");
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let found = |path: &str, source: &str| upward(&[File::new(path, source)]).len();
    assert_eq!(found("queue/x.rs", "use crate::store::row::Row;"), 0);
    assert_eq!(found("queue/x.rs", "use crate::queue::link::X;"), 0);
    assert_eq!(found("store/x.rs", "use crate::queue::link::X;"), 1);
    assert_eq!(found("writer/x.rs", "use crate::runner::run;"), 1);
    assert_eq!(found("writer/x.rs", "// crate::runner::run"), 0);
    assert_eq!(found("writer/x.rs", "use crate::{api, queue};"), 1);
    assert_eq!(found("writer/x.rs", "use crate::Durable;"), 1);
    assert_eq!(found("stores/redb/x.rs", "use super::super::memory;"), 1);
    assert_eq!(found("other/x.rs", ""), 1, "a folder without a floor");
    assert_eq!(found("internals.rs", "use crate::api::client;"), 0);
    let table =
        "## Floors\n| 1 | `src/a/` | b |\n| 0 | `src/c.rs`, `src/d/` | |\n## e\n| 2 | `f` |";
    assert_eq!(floors(table), [vec!["c", "d"], vec!["a"]]);
    assert_eq!(
        unnamed("| `a.rs` |", ["a.rs", "b.rs"].into_iter()),
        ["b.rs"]
    );
}
