//! Promise: comments and documents can be read on a screen, and name the steps of protocols as
//! their room does.
//!
//! - No comment and no line of a document is longer than 100 columns, but for rows of tables and
//!   what holds an address.
//! - Each step that a room defines (`- \`StepName\`: ...` in its README, or in a module's header)
//!   stands in that room's code too.
//! - Each step that a comment, the models' table or a fault names is defined by a room.
//! - A thing has one name: no word that the glossary has replaced.

use crate::source::is_word;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;

/// Names of others that look like steps.
const NO_STEPS: [&str; 4] = ["AcqRel", "SeqCst", "McKenney", "VecDeque"];

/// Words that the glossary has other ones for.
const REPLACED: [&str; 12] = [
    "nursery",
    "graves",
    "shelf",
    "shelves",
    "leaf",
    "annihilated",
    "ShardHouse",
    "loom_door",
    "with_delay",
    "schedule_at_time",
    "on_calendar",
    "misfire",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below these folders, and beside them, that end so; by their paths in the repository.
fn texts(folders: &[&str], ends: &[&str]) -> BTreeMap<String, String> {
    fn walk(path: PathBuf, ends: &[&str], texts: &mut BTreeMap<String, String>) {
        let name = path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_string();
        if path.is_dir() {
            let inner = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            // Not what is built, nor what git keeps.
            let is_ours = |path: &PathBuf| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name != "target"
                    && !name.starts_with('.')
                    && name != "artifacts"
                    && name != "corpus"
            };
            inner
                .filter(is_ours)
                .for_each(|path| walk(path, ends, texts));
        } else if ends.iter().any(|end| name.ends_with(end)) {
            texts.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    let mut texts = BTreeMap::new();
    for folder in folders {
        let path = root().join(folder);
        if path.exists() {
            walk(path, ends, &mut texts);
        }
    }
    texts
}

/// What a line says as a comment. `None`: it is code.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = text.strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']))
}

/// Lines that are too long, with their numbers.
fn long(name: &str, text: &str) -> Vec<String> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let said = if name.ends_with(".md") {
            Some(line)
        } else {
            comment(line)
        };
        let Some(said) = said else { continue };
        is_code ^= said.trim_start().starts_with("```");
        let is_table = said.trim_start().starts_with('|');
        let has_address = said.contains("://");
        if line.chars().count() > COLUMNS_MAX && !is_table && !has_address {
            found.push(format!("{name}:{}", number + 1));
        }
    }
    assert!(!is_code, "{name}: a fence of code is left open");
    found
}

/// Whether a word is the name of a step: two capitalized words at least, as `PushPublish`.
fn is_step(word: &str) -> bool {
    let humps = word
        .match_indices(|letter: char| letter.is_ascii_uppercase())
        .map(|(at, _)| at);
    let humps: Vec<_> = humps.collect();
    let is_name = word.chars().all(|letter| letter.is_ascii_alphabetic());
    let is_spaced = humps.windows(2).all(|pair| pair[1] > pair[0] + 1);
    is_name
        && is_spaced
        && humps.len() > 1
        && humps[0] == 0
        && !word.ends_with(|letter: char| letter.is_ascii_uppercase())
}

/// The steps that a text defines: items of a list that begin with one, in backticks.
fn defined(text: &str) -> BTreeSet<String> {
    let items = text.lines().filter_map(|line| {
        let said = comment(line).unwrap_or(line).trim_start();
        let name = said.strip_prefix("- `")?.split_once('`')?.0;
        is_step(name).then(|| name.to_string())
    });
    items.collect()
}

/// The words of a comment that are in no code span and in no link.
fn bare(said: &str) -> Vec<&str> {
    // What follows a link's text is a path.
    let said = said.split("](").enumerate();
    let said = said.map(|(part, text)| match (part, text.split_once(')')) {
        (1.., Some((_, rest))) => rest,
        _ => text,
    });
    let spans = said.flat_map(|text| text.split('`').step_by(2));
    let words = spans.flat_map(|text| text.split(|letter| !is_word(letter)));
    words.filter(|word| is_step(word)).collect()
}

/// The room of a path below `src`; of one below `durable/src`, `durable`.
fn room(path: &str) -> &str {
    let below = path.strip_prefix("src/").unwrap_or(path);
    below
        .split('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs")
}

/// What the comments of a source say, but for examples.
fn said(source: &str) -> Vec<&str> {
    let mut is_example = false;
    let said = source
        .lines()
        .filter_map(|line| line.split_once("//").map(|(_, said)| said));
    said.filter(|said| {
        let is_fence = said
            .trim_start_matches(['/', '!'])
            .trim()
            .starts_with("```");
        is_example ^= is_fence;
        !is_example && !is_fence
    })
    .collect()
}

/// Names of steps, by room.
type Steps<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// Steps by room: those that are defined, and those that comments name bare.
fn steps(texts: &BTreeMap<String, String>) -> (Steps<'_>, Steps<'_>) {
    let (mut all_defined, mut named) = (BTreeMap::new(), BTreeMap::new());
    for (path, text) in texts {
        let own: &mut BTreeSet<_> = all_defined.entry(room(path)).or_default();
        own.extend(defined(text));
        let names: &mut BTreeSet<_> = named.entry(room(path)).or_default();
        if path.ends_with(".rs") {
            let is_own = |said: &&str| !said.trim_start().starts_with("! - `");
            let said = said(text);
            let words = said.into_iter().filter(is_own).flat_map(bare);
            names.extend(
                words
                    .filter(|name| !NO_STEPS.contains(name))
                    .map(str::to_string),
            );
        }
    }
    (all_defined, named)
}

#[test]
fn no_line_is_longer_than_a_screen() {
    let folders = [
        "src",
        "durable",
        "tests",
        "examples",
        "benches",
        "compare",
        "verify",
        "diesel-tests",
        "loom-tests",
        "fuzz",
        "docs",
    ];
    let mut texts = texts(&folders, &[".rs", ".md"]);
    assert!(texts.len() > 100, "{} files are not all", texts.len());
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.ends_with(".md") {
            texts.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    let found: Vec<_> = texts
        .iter()
        .flat_map(|(name, text)| long(name, text))
        .collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn each_step_is_in_the_code_and_each_name_is_a_step() {
    let texts = texts(&["src", "durable/src"], &[".rs", ".md"]);
    let (defined, named) = steps(&texts);
    let all: BTreeSet<_> = defined.values().flatten().collect();
    assert!(all.len() > 60, "{} steps are not all", all.len());
    for (room, own) in &defined {
        let missing: Vec<_> = own.difference(&named[room]).collect();
        assert_eq!(
            missing, [""; 0],
            "steps of {room} that its code does not name"
        );
    }
    // Rooms without a protocol name types of their own; the faults are in `sync`.
    let with_steps = named
        .iter()
        .filter(|(room, _)| **room == "sync" || !defined[**room].is_empty());
    for (room, names) in with_steps {
        let unknown: Vec<_> = names.iter().filter(|name| !all.contains(name)).collect();
        assert_eq!(unknown, [""; 0], "{room} names what no room defines");
    }
}

#[test]
fn the_models_name_the_steps_of_the_rooms() {
    let texts_of_rooms = texts(&["src", "durable/src"], &[".rs", ".md"]);
    let (defined, _) = steps(&texts_of_rooms);
    let all: BTreeSet<_> = defined.values().flatten().map(String::as_str).collect();
    for (path, text) in texts(
        &["loom-tests/README.md", "loom-tests/tests"],
        &[".rs", ".md"],
    ) {
        let said: Vec<_> = if path.ends_with(".md") {
            text.lines().collect()
        } else {
            text.lines().filter_map(comment).collect()
        };
        let names = said.into_iter().flat_map(bare);
        let unknown: Vec<_> = names
            .filter(|name| !all.contains(name) && !NO_STEPS.contains(name))
            .collect();
        assert_eq!(unknown, [""; 0], "{path}");
    }
}

#[test]
fn no_word_is_left_that_was_replaced() {
    let mut found = Vec::new();
    for (path, text) in texts(
        &[
            "src",
            "durable/src",
            "loom-tests/README.md",
            "loom-tests/tests",
        ],
        &[".rs", ".md"],
    ) {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|letter| !is_word(letter));
            if let Some(word) = words.find(|word| REPLACED.contains(word)) {
                found.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn what_is_wrong_is_seen() {
    let line = "x".repeat(101);
    assert_eq!(
        long("a.md", &format!("short\n{line}\n| {line} |\n")),
        ["a.md:2"]
    );
    assert_eq!(
        long("a.rs", &format!("let x = \"{line}\";\n    // {line}\n")),
        ["a.rs:2"]
    );
    for step in ["PushPublish", "RearmLag", "KeepLook"] {
        assert!(is_step(step), "{step}");
    }
    for other in ["Push", "ARMED", "AcqREL", "P3", "pushPublish", "D"] {
        assert!(!is_step(other), "{other}");
    }
    assert_eq!(
        defined(" - `PushPublish`: stores\n//!  - `RingFence`: a fence\n - `Local`: no").len(),
        2
    );
    assert_eq!(
        bare("Pairs with PushPublish, not with `RingFence`."),
        ["PushPublish"]
    );
    let texts = BTreeMap::from([
        (
            "src/a/README.md".to_string(),
            "- `PushPublish`: x\n- `DrainLoad`: y".to_string(),
        ),
        (
            "src/a/mod.rs".to_string(),
            "f(); // PushPublish, RingFence".to_string(),
        ),
    ]);
    let (defined, named) = steps(&texts);
    assert_eq!(
        defined["a"].difference(&named["a"]).collect::<Vec<_>>(),
        ["DrainLoad"]
    );
    assert!(named["a"].contains("RingFence"));
}
