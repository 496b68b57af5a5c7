//! Promise: the rooms are as ARCHITECTURE.md draws them.
//!
//! - Arrows go down only, and rooms of one floor do not know each other.
//! - No two files of a room lean on each other, not by way of others either. The folders of engine
//!   are in an order, too.
//! - The wheel names no atomic and no clock, the lane knows no time, one room of each crate names
//!   atomics.
//! - wheelwork-durable uses what is public, as any program does; and wheelwork knows no store.

use crate::source::{DOORS, File, arrows, code, document, files, has_durable, part, quoted, words};

/// The rooms of each floor.
const FLOORS: [&[&str]; 10] = [
    &["sync", "mem", "prefetch", "entry", "error", "spread"],
    &["time", "counters", "slab_box", "cold_drop"],
    &["repeat", "retry"],
    &["cell", "entry_wheel", "lane", "doorbell", "dispatch"],
    &["shard", "wheel"],
    &["engine"],
    &["service"],
    &["calls", "calendar", "metrics", "trace"],
    &["future"],
    &["testing", "tower", "io", "hyper", "quinn", "backon"],
];

fn floor(room: &str) -> usize {
    FLOORS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| panic!("{room:?} is no room of the plan (one `use crate::room` a line)"))
}

/// The first word of a file that is forbidden there.
fn forbidden(file: &File, is_forbidden: impl Fn(&str) -> bool) -> Option<String> {
    words(&file.code)
        .find(|word| is_forbidden(word))
        .map(|word| format!("{} names {word}", file.path))
}

/// The rooms of each floor, as the code map has them.
fn floors(architecture: &str) -> Vec<Vec<String>> {
    let mut floors: Vec<Vec<String>> = Vec::new();
    for row in part(architecture, "## Code map", "\n## ").lines() {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (Some(Ok(floor)), Some(path)) = (cells.next().map(str::parse::<usize>), cells.next())
        else {
            continue;
        };
        floors.resize_with(floors.len().max(floor + 1), Vec::new);
        floors[floor].extend(quoted(path).into_iter().map(|path| {
            path.trim_start_matches("src/")
                .trim_end_matches(['/'])
                .replace(".rs", "")
        }));
    }
    floors
}

#[test]
fn arrows_go_down() {
    for file in files()
        .iter()
        .filter(|file| !DOORS.contains(&file.room.as_str()) && file.room != "durable")
    {
        let own = floor(&file.room);
        for to in arrows(&file.code).filter(|&to| to != file.room) {
            assert!(floor(to) < own, "{} names crate::{to}", file.path);
        }
        assert!(
            file.room == "sync" || !file.code.contains("super::super"),
            "{}: another way out of the room",
            file.path
        );
    }
}

/// The folders of engine, as its README has them: each names only those before it.
fn folders(readme: &str) -> Vec<String> {
    let rows = part(readme, "## Folders", "\n## ").lines();
    let folders = rows.filter_map(|row| row.strip_prefix("| `")?.split_once("/`"));
    folders.map(|(folder, _)| folder.to_string()).collect()
}

/// Files in folders of engine that name a folder which is not before their own.
fn upward(folders: &[String], files: &[File]) -> Vec<String> {
    let place = |name: &str| folders.iter().position(|folder| folder == name);
    let mut found = Vec::new();
    for file in files {
        let below = file.path.strip_prefix("engine/");
        let Some((folder, _)) = below.and_then(|below| below.split_once('/')) else {
            continue;
        };
        let Some(own) = place(folder) else {
            found.push(format!("{folder} has no place"));
            continue;
        };
        // To the `mod.rs` of a folder `super` is engine; to its other files, the folder.
        let code = if file.path.ends_with("/mod.rs") {
            file.code.replace("super::", "crate::engine::")
        } else {
            file.code.clone()
        };
        for rest in code.split("crate::engine::").skip(1) {
            // All names of a group, or the first one.
            let names = match rest.strip_prefix('{') {
                Some(group) => words(group.split(';').next().unwrap_or(group)).collect(),
                None => words(rest).take(1).collect::<Vec<_>>(),
            };
            let above = names.into_iter().find(|name| place(name) > Some(own));
            found.extend(above.map(|name| format!("{} names {name}", file.path)));
        }
    }
    found
}

#[test]
fn the_folders_of_engine_are_in_an_order() {
    let folders = folders(&document("src/engine/README.md"));
    let files = files();
    for folder in &folders {
        let path = format!("engine/{folder}/");
        assert!(
            files.iter().any(|file| file.path.starts_with(&path)),
            "{folder} is gone"
        );
    }
    assert!(folders.len() > 3, "{folders:?}");
    assert_eq!(upward(&folders, &files), [""; 0]);
}

#[test]
fn a_folder_that_names_a_later_one_is_seen() {
    let folders = folders("## Folders\n| `a/` | `x.rs` |\n| `b/` | |\n## c\n| `d/` | |\n");
    assert_eq!(folders, ["a", "b"]);
    let found = |path: &str, source: &str| upward(&folders, &[File::new(path, source)]).len();
    assert_eq!(found("engine/b/x.rs", "use crate::engine::a::X;\n"), 0);
    assert_eq!(found("engine/a/x.rs", "use crate::engine::b::X;\n"), 1);
    assert_eq!(
        found("engine/a/x.rs", "use crate::engine::{Engine, b};\n"),
        1
    );
    assert_eq!(found("engine/a/x.rs", "use super::b::X;\n"), 0, "its own");
    assert_eq!(found("engine/a/mod.rs", "use super::b::X;\n"), 1);
    assert_eq!(found("engine/c/x.rs", ""), 1, "a folder without a place");
    assert_eq!(found("engine/x.rs", "use super::b::X;\n"), 0, "on top");
}

/// What is wrong with the way in which a crate beside wheelwork uses it: its manifest switches on
/// a feature that is no part of the interface, or a source reaches into wheelwork's.
fn private_uses(manifest: &str, files: &[File]) -> Vec<String> {
    // (A switch may stand in a feature, or at the dependency.)
    let lines = manifest.lines().filter(|line| !line.starts_with('#'));
    let switches = lines.filter(|line| {
        line.contains("wheelwork/__") || line.starts_with("wheelwork =") && line.contains("\"__")
    });
    let mut found: Vec<_> = switches
        .map(|line| format!("the manifest has {line}"))
        .collect();
    for file in files {
        // The path of `../src` is another crate's.
        for word in ["wheelwork::internals", "../src", "../../src"] {
            if file.source.contains(word) {
                found.push(format!("{} names {word}", file.path));
            }
        }
    }
    found
}

#[test]
fn a_store_uses_what_is_public() {
    if has_durable() {
        let mut files = files();
        files.retain(|file| file.path.starts_with("durable/"));
        assert!(files.len() > 50, "{} files are not all", files.len());
        let manifest = document("durable/Cargo.toml");
        assert_eq!(private_uses(&manifest, &files), [""; 0]);
    }
}

#[test]
fn a_private_use_is_seen() {
    let manifest = "wheelwork = { path = \"..\", features = [\"__internals\"] }\n\
        full = [\"wheelwork/__internals\"]\n# wheelwork/__internals\n__faults = []\n";
    let source = "#[path = \"../../src/mem.rs\"]\nmod mem;\n";
    let file = File::new("mem.rs", source).into_durable();
    assert_eq!(private_uses(manifest, &[file]).len(), 4);
    let manifest = "full = [\"wheelwork/serde\"]\nwheelwork = { path = \"..\" }\n";
    let file = File::new("row.rs", "use wheelwork::TimerId;").into_durable();
    assert_eq!(private_uses(manifest, &[file]), [""; 0]);
}

#[test]
fn every_room_of_the_plan_is_there() {
    let files = files();
    for room in FLOORS.iter().copied().flatten() {
        assert!(
            files.iter().any(|file| file.room == *room),
            "{room} is gone"
        );
    }
}

#[test]
fn the_wheel_names_no_atomic_and_no_clock() {
    let is_forbidden = |word: &str| {
        word.starts_with("Atomic")
            || [
                "atomic",
                "sync",
                "time",
                "Instant",
                "Duration",
                "Clock",
                "SystemTime",
                "_rdtsc",
                "thread",
                "Mutex",
                "UnsafeCell",
            ]
            .contains(&word)
    };
    for file in files().iter().filter(|file| file.room == "entry_wheel") {
        assert_eq!(forbidden(file, is_forbidden), None);
    }
}

#[test]
fn the_lane_knows_no_time() {
    let is_forbidden = |word: &str| {
        [
            "time",
            "Instant",
            "Duration",
            "Clock",
            "SystemTime",
            "_rdtsc",
            "tick",
            "deadline",
            "Entry",
        ]
        .contains(&word)
    };
    for file in files().iter().filter(|file| file.room == "lane") {
        assert_eq!(forbidden(file, is_forbidden), None);
    }
}

#[test]
fn one_room_names_atomics_and_parks() {
    for file in files()
        .iter()
        .filter(|file| !file.is_of("sync") && file.room != "internals")
    {
        for path in ["sync::atomic", "thread::park", "hint::spin_loop"] {
            assert!(!file.code.contains(path), "{} names {path}", file.path);
        }
        assert!(!file.code.contains("loom::"), "{} names loom", file.path);
        assert_eq!(
            forbidden(file, |word| [
                "park_timeout",
                "SegQueue",
                "compiler_fence",
                "yield_now"
            ]
            .contains(&word)),
            None
        );
        // Starting, joining and counting threads is the engine's.
        assert!(
            file.room == "engine" || !file.code.contains("std::thread"),
            "{} names std::thread",
            file.path
        );
    }
}

#[test]
fn one_room_reads_the_time() {
    for file in files() {
        let reads = ["Instant::now", "SystemTime::now", "_rdtsc"]
            .into_iter()
            .find(|path| file.code.contains(path));
        assert!(
            // (Random numbers differ by the time, too.)
            reads.is_none() || file.is_of("time") || file.is_of("random"),
            "{} names {reads:?}",
            file.path
        );
    }
}

#[test]
fn the_code_map_has_the_floors() {
    let (mut map, mut plan) = (
        floors(&document("ARCHITECTURE.md")),
        FLOORS.map(<[_]>::to_vec).to_vec(),
    );
    map.iter_mut().for_each(|rooms| rooms.sort_unstable());
    plan.iter_mut().for_each(|rooms| rooms.sort_unstable());
    assert_eq!(map, plan);
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let source = [
        "use crate::wheel::Wheel; // crate::shard",
        "//! crate::service",
        "let x = crate::time::nanos(1);",
        "#[cfg(all(test, not(loom)))]",
        "mod tests {",
        "    use crate::cell::Cell;",
        "}",
        "#[cfg(any(loom, test))]",
        "use crate::lane::Lane;",
        "#[cfg(test)]",
        "mod tests;",
    ];
    let source = source.join("\n") + "\n";
    let code = code(&source);
    assert_eq!(
        arrows(&code).collect::<Vec<_>>(),
        ["wheel", "time", "lane"],
        "test modules are left out, and nothing else"
    );
    assert!(words(&code).any(|word| word == "nanos"));
    assert_eq!(
        arrows("use crate::{cell, lane};").collect::<Vec<_>>(),
        [""],
        "which is no room"
    );
    assert!(floor("sync") < floor("cell") && floor("cell") < floor("shard"));
    let file = File::new("lane/x.rs", "use std::time::Duration;");
    assert_eq!(file.room, "lane");
    assert_eq!(
        forbidden(&file, |word| word == "Duration").as_deref(),
        Some("lane/x.rs names Duration")
    );
    assert_eq!(
        floors("## Code map\n| 1 | `src/a/` | b |\n| 0 | `src/c.rs` | `d` |\n| | `e` | |\n"),
        [["c"], ["a"]]
    );
}
