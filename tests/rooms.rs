//! Promise: the rooms are as ARCHITECTURE.md and SECURITY.md draw them.
//!
//! - Arrows go down only, and rooms of one floor do not know each other.
//! - The wheel names no atomic and no clock, the lane knows no time, one file names atomics.
//! - `unsafe` is in the files that SECURITY.md lists, in all of them and in no other.
//! - Locks, and whatever else waits for a thread, are in the files that ARCHITECTURE.md lists.
//! - Who reads all shards, or the cells of all, is listed in ARCHITECTURE.md too.
//! - Each atomic access has its reason above it.
//!
//! Reads the source, without comments and test modules, and the lists of the documents. What is
//! written in a macro's own words, or hidden behind an alias, it does not see.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The rooms of each floor.
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

/// A file in which somebody may wait for another thread.
struct Waiting {
    file: &'static str,
    /// The functions that do. None: whatever is in this file.
    functions: &'static [&'static str],
    /// Why no timer waits there on its way.
    why: &'static str,
}

/// All of them. ARCHITECTURE.md has the same files.
const WAITING: [Waiting; 15] = [
    Waiting { file: "sync.rs", functions: &[], why: "what the others use, and a `Once` that chooses the fences as a service starts" },
    Waiting {
        file: "count.rs",
        functions: &["new", "with"],
        why: "sets of counters: a thread's first call to a shard, its end, and who reads them",
    },
    Waiting {
        file: "doorbell/mod.rs",
        functions: &["ring_slowly", "wait", "work_or_park"],
        why: "the shard sleeps with nothing due, and a ringer unparks it without waiting",
    },
    Waiting { file: "shard/worker.rs", functions: &["run", "sleep"], why: "naps of the shard's own thread" },
    Waiting {
        file: "dispatch/attendant.rs",
        functions: &["wake", "sleep"],
        why: "a worker waits for batches, and a shard unparks it without waiting",
    },
    Waiting { file: "cell/state.rs", functions: &["look"], why: "a look at a timer that is being moved just then" },
    Waiting { file: "service/running.rs", functions: &["wait_for", "wait_for_present"], why: "`stop` and `cancel_and_wait`" },
    Waiting { file: "service/core.rs", functions: &["wait_for_claims"], why: "a further `stop`, for the first one" },
    Waiting { file: "service/start.rs", functions: &[], why: "makes the locks of a service" },
    Waiting { file: "service/stop.rs", functions: &[], why: "the end of a service" },
    Waiting {
        file: "service/mod.rs",
        functions: &["turn", "next_event_ns"],
        why: "the list of threads, for `stop`; the shards of a manual clock, one turn after the other",
    },
    Waiting { file: "service/watchdog.rs", functions: &[], why: "a thread of its own" },
    Waiting { file: "time/manual.rs", functions: &[], why: "a manual clock's services and wall clock" },
    Waiting { file: "future/timers.rs", functions: &["global"], why: "the service that all share is started once" },
    Waiting { file: "metrics/mod.rs", functions: &["report"], why: "reports wait for each other" },
];

/// A function that reads all shards or the cells of all, or counts the shards.
struct Whole {
    file: &'static str,
    function: &'static str,
    /// The call that does so by it, as ARCHITECTURE.md names it. None: no shard is read.
    call: Option<&'static str>,
}

const fn whole(file: &'static str, function: &'static str, call: &'static str) -> Whole {
    Whole { file, function, call: Some(call) }
}

/// One that asks for the number of shards alone, or lends to those that are listed.
const fn number(file: &'static str, function: &'static str) -> Whole {
    Whole { file, function, call: None }
}

/// All of them.
const WHOLE: [Whole; 27] = [
    whole("cell/arena.rs", "claim_all", "stop"),
    whole("metrics/mod.rs", "report", "report"),
    number("service/arming.rs", "schedule_on"),
    whole("service/cells.rs", "claim_all", "stop"),
    whole("service/cells.rs", "hand_back_all", "stop"),
    number("service/cells.rs", "indices"),
    whole("service/core.rs", "new", "start"),
    number("service/core.rs", "next_home"),
    number("service/core.rs", "shards"),
    whole("service/ending.rs", "cancel_all", "cancel_all"),
    whole("service/inner.rs", "stats", "stats"),
    // A place for each, which its first timer there fills.
    number("service/local.rs", "attach"),
    whole("service/look.rs", "pending", "pending"),
    whole("service/mod.rs", "dispatched", "advance"),
    // `Debug`.
    number("service/mod.rs", "fmt"),
    whole("service/mod.rs", "is_empty", "is_empty"),
    whole("service/mod.rs", "len", "len"),
    whole("service/mod.rs", "next_event_ns", "advance"),
    number("service/mod.rs", "shards"),
    whole("service/mod.rs", "stats", "stats"),
    whole("service/mod.rs", "turn", "advance"),
    whole("service/start.rs", "start", "start"),
    // Of a snapshot.
    whole("service/stats.rs", "sum", "stats"),
    whole("service/stop.rs", "drain", "stop_with"),
    whole("service/stop.rs", "end_threads", "stop"),
    whole("service/stop.rs", "claim_all", "stop_with"),
    whole("service/stop.rs", "stop_with", "stop_with"),
];

/// Not a call: the thread that the builder's `on_stall` asks for.
const WATCHDOG: Whole = whole("service/watchdog.rs", "run", "on_stall");

struct File {
    /// Below `src`.
    path: String,
    room: String,
    source: String,
    code: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        let room = path.split('/').next().unwrap().trim_end_matches(".rs").to_string();
        Self { path: path.to_string(), room, source: source.to_string(), code: code(source) }
    }
}

fn files() -> Vec<File> {
    fn walk(folder: &Path, src: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below: Vec<_> = path.strip_prefix(src).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
            let name = below.join("/");
            if path.is_dir() {
                walk(&path, src, files);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && !name.contains("/tests/") {
                files.push(File::new(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &src, &mut files);
    assert!(files.len() > 30, "{} files are not the source", files.len());
    files
}

/// A document at the root of the repository.
fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The lines of a source, without its test modules.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    let (mut lines, mut inside) = (source.lines().peekable(), false);
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            let begins = line.starts_with("#[cfg(") && line.contains("test") && lines.peek().is_some_and(|next| next.starts_with("mod "));
            if begins {
                inside = lines.next().is_some_and(|module| !module.ends_with([';', '}']));
            } else if !inside {
                return Some(line);
            } else if line == "}" {
                inside = false;
            }
        }
    })
}

/// The source without comments and test modules.
fn code(source: &str) -> String {
    lines(source).map(|line| line.split("//").next().unwrap_or_default().to_string() + "\n").collect()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// All words of the code: identifiers and keywords.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !is_word(letter)).filter(|word| !word.is_empty())
}

/// What follows `crate::`, wherever it stands.
fn arrows(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::").filter_map(|(at, crate_path)| {
        // Not the end of a macro's `$crate`, nor of some other name.
        let rest = &code[at + crate_path.len()..];
        let end = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
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
    words(&file.code).find(|word| is_forbidden(word)).map(|word| format!("{} names {word}", file.path))
}

/// The functions of a code that `cargo fmt` has been through, each with its lines.
fn functions(lines: &[&str]) -> Vec<(String, Range<usize>)> {
    let name = |line: &str| {
        let (before, rest) = line.split_once("fn ")?;
        let is_item = before.split_whitespace().all(|word| {
            word.starts_with("pub") || word.ends_with(')') || ["const", "async", "unsafe", "default", "extern"].contains(&word)
        });
        let name = rest.split(|letter| !is_word(letter)).next()?;
        (is_item && !name.is_empty()).then(|| name.to_string())
    };
    let end = |from: usize| {
        let indent = &lines[from][..lines[from].len() - lines[from].trim_start().len()];
        let is_last = |line: &str| {
            let rest = line.strip_prefix(indent).filter(|rest| !rest.starts_with(' ')).map(str::trim_end);
            rest.is_some_and(|rest| rest == "}" || rest.ends_with([';', '}']) && !rest.starts_with('}'))
        };
        (from..lines.len()).find(|&line| is_last(lines[line])).map_or(lines.len(), |line| line + 1)
    };
    lines.iter().enumerate().filter_map(|(from, line)| Some((name(line)?, from..end(from)))).collect()
}

/// The code of each function, without what is in functions inside it. Last and without a name: what
/// is in none.
fn by_function(code: &str) -> Vec<(String, String)> {
    let lines: Vec<_> = code.lines().collect();
    let functions = functions(&lines);
    let mut texts = vec![String::new(); functions.len() + 1];
    for (number, line) in lines.iter().enumerate() {
        let inside = functions.iter().enumerate().filter(|(_, (_, range))| range.contains(&number));
        let innermost = inside.min_by_key(|(_, (_, range))| range.len()).map_or(functions.len(), |(position, _)| position);
        texts[innermost].push_str(line);
        texts[innermost].push('\n');
    }
    functions.into_iter().map(|(name, _)| name).chain([String::new()]).zip(texts).collect()
}

/// A code without the white space that two words do not need between them.
fn squeezed(code: &str) -> String {
    let mut squeezed = String::new();
    for word in code.split_whitespace() {
        if squeezed.ends_with(is_word) && word.starts_with(is_word) {
            squeezed.push(' ');
        }
        squeezed.push_str(word);
    }
    squeezed
}

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The part of a document from one text up to another.
fn part<'a>(document: &'a str, from: &str, to: &str) -> &'a str {
    let start = document.find(from).unwrap_or_else(|| panic!("there is no {from:?}"));
    let end = document[start..].find(to).map_or(document.len(), |end| start + end);
    &document[start..end]
}

/// Files of `src` that a part of a document names.
fn files_named(part: &str) -> BTreeSet<&str> {
    quoted(part).into_iter().filter_map(|path| path.strip_prefix("src/")).filter(|path| path.ends_with(".rs")).collect()
}

/// Files with `unsafe` that SECURITY.md does not list, and files that it lists which have none; and
/// files that offer something `unsafe` to users.
fn unsafe_faults(security: &str, files: &[File]) -> Vec<String> {
    let listed = files_named(part(security, "`unsafe` is in", "\n## "));
    let found: BTreeSet<_> = files.iter().filter(|file| words(&file.code).any(|word| word == "unsafe")).map(|file| &*file.path).collect();
    let missing = found.difference(&listed).map(|path| format!("{path} has unsafe and is not listed"));
    let empty = listed.difference(&found).map(|path| format!("{path} is listed and has no unsafe"));
    let offers = files.iter().filter(|file| !DOORS.contains(&&*file.room) && file.code.contains("pub unsafe"));
    missing.chain(empty).chain(offers.map(|file| format!("{} has something public that is unsafe", file.path))).collect()
}

/// Whether a word is that of a lock, or of waiting for a thread.
fn waits(word: &str) -> bool {
    const BEGINNINGS: [&str; 6] = ["Mutex", "RwLock", "Condvar", "Lazy", "park", "Park"];
    const WORDS: [&str; 21] = [
        "Once",
        "OnceLock",
        "OnceCell",
        "call_once",
        "call_once_force",
        "get_or_init",
        "Barrier",
        "WaitGroup",
        "ReentrantLock",
        "ShardedLock",
        "Semaphore",
        "CountLock",
        "lock",
        "try_lock",
        "unpark",
        "pause",
        "yield_now",
        "join",
        "recv",
        "recv_timeout",
        "block_on",
    ];
    BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)) || WORDS.contains(&word)
}

/// Places that may wait and are not listed, and places that are listed and do not. The document has
/// the same files.
fn waiting_faults(architecture: &str, allowed: &[Waiting], files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.room != "loom_door") {
        // A policy of calendars is called `Once`, too.
        let waits = |word: &str| waits(word) && !(word == "Once" && file.room == "calendar");
        let texts = by_function(&file.code);
        let found = || texts.iter().filter_map(|(function, text)| Some((&**function, words(text).find(|word| waits(word))?)));
        match allowed.iter().find(|allowed| allowed.file == file.path) {
            None => faults.extend(found().map(|(function, word)| format!("{}: {function} names {word}, and is not listed", file.path))),
            Some(Waiting { functions: [], .. }) if found().next().is_some() => {}
            Some(Waiting { functions, .. }) => {
                let others = found().filter(|(function, _)| !function.is_empty() && !functions.contains(function));
                faults.extend(others.map(|(function, word)| format!("{}: {function} names {word}, and is not listed", file.path)));
                let idle = functions.iter().filter(|function| !found().any(|(name, _)| name == **function));
                faults.extend(idle.map(|function| format!("{}: {function} is listed, and does not wait", file.path)));
                if found().next().is_none() {
                    faults.push(format!("{} is listed, and does not wait", file.path));
                }
            }
        }
    }
    let in_document = files_named(part(architecture, "nobody takes a lock on the way of a timer", "\n**Architecture Invariant:**"));
    let in_test: BTreeSet<_> = allowed.iter().map(|allowed| allowed.file).collect();
    faults.extend(in_document.symmetric_difference(&in_test).map(|path| format!("{path}: the document and the test differ")));
    faults.extend(allowed.iter().filter(|allowed| allowed.why.is_empty()).map(|allowed| format!("{}: why?", allowed.file)));
    faults
}

/// How a function reads all shards, or counts them, if it does.
fn reads_all(text: &str) -> Option<&'static str> {
    const CALLS: [&str; 6] = ["shards()", "indices()", "claim_all(", ".stats()", "self.len()", "..shards"];
    const SETS: [&str; 5] = ["shards", "doors", "counters", "stalls", "backlogs"];
    const WALKS: [&str; 9] = [".iter", ".into_iter", ".enumerate", ".drain", ".len()", ".first", ".last", ".chunks", ".as_"];
    let text = squeezed(text);
    let is_walked = |set: &&&str| {
        text.match_indices(**set).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + set.len()..]);
            let statement = before.rsplit([';', '{', '}']).next().unwrap_or_default();
            let is_loop = after.starts_with('{') && statement.contains(" in");
            !before.ends_with(is_word) && (is_loop || WALKS.iter().any(|walk| after.starts_with(walk)))
        })
    };
    let is_called = |call: &&&str| text.match_indices(**call).any(|(at, _)| !call.starts_with(is_word) || !text[..at].ends_with(is_word));
    CALLS.iter().find(is_called).or_else(|| SETS.iter().find(is_walked)).copied()
}

/// Functions that read all shards and are not listed, and such as are listed and do not. The document
/// names the same calls.
fn whole_faults<'a>(architecture: &str, allowed: impl Iterator<Item = &'a Whole> + Clone, files: &[File]) -> Vec<String> {
    // Other rooms know one shard, and no cells of others.
    let knows_shards = |file: &&File| file.room == "cell" || FLOORS[4..].iter().any(|rooms| rooms.contains(&&*file.room));
    let texts = files.iter().filter(knows_shards).flat_map(|file| {
        let all = by_function(&file.code).into_iter();
        all.filter_map(|(function, text)| Some((&*file.path, function, reads_all(&text)?))).collect::<Vec<_>>()
    });
    let found: Vec<_> = texts.collect();
    let is = |(path, function, _): &(&str, String, &str), allowed: &Whole| *path == allowed.file && function == allowed.function;
    let unlisted = found.iter().filter(|found| !allowed.clone().any(|allowed| is(found, allowed)));
    let mut faults: Vec<_> = unlisted.map(|(path, function, how)| format!("{path}: {function} has {how}, and is not listed")).collect();
    let idle = allowed.clone().filter(|allowed| !found.iter().any(|found| is(found, allowed)));
    faults.extend(idle.map(|Whole { file, function, .. }| format!("{file}: {function} is listed, and does not")));
    let paragraph = part(architecture, "no call reads all shards", "\n\n");
    let in_test: BTreeSet<_> = allowed.filter_map(|allowed| allowed.call).collect();
    faults.extend(quoted(paragraph).symmetric_difference(&in_test).map(|call| format!("{call}: the document and the test differ")));
    faults
}

/// The lines with an atomic access that has no reason above it.
fn unexplained(source: &str) -> Vec<String> {
    const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
    /// So far above it stands, where a condition or a broken variant comes between.
    const ABOVE: usize = 8;
    let lines: Vec<_> = lines(source).collect();
    let names = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ORDERINGS.iter().any(|ordering| code.contains(&format!("Ordering::{ordering}")))
    };
    let is_explained = |at: usize| lines[at.saturating_sub(ABOVE)..at].iter().any(|line| line.trim_start().starts_with("// Ordering: "));
    (0..lines.len()).filter(|&at| names(lines[at]) && !is_explained(at)).map(|at| lines[at].trim().to_string()).collect()
}

/// The rooms of each floor, as the code map has them.
fn floors(architecture: &str) -> Vec<Vec<String>> {
    let mut floors: Vec<Vec<String>> = Vec::new();
    for row in part(architecture, "## Code map", "**Architecture Invariant:**").lines() {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (Some(Ok(floor)), Some(path)) = (cells.next().map(str::parse::<usize>), cells.next()) else { continue };
        floors.resize_with(floors.len().max(floor + 1), Vec::new);
        floors[floor]
            .extend(quoted(path).into_iter().map(|path| path.trim_start_matches("src/").trim_end_matches(['/']).replace(".rs", "")));
    }
    floors
}

#[test]
fn arrows_go_down() {
    for file in files().iter().filter(|file| !DOORS.contains(&file.room.as_str())) {
        let own = floor(&file.room);
        for to in arrows(&file.code).filter(|&to| to != file.room) {
            assert!(floor(to) < own, "{} names crate::{to}", file.path);
        }
        assert!(file.room == "sync" || !file.code.contains("super::super"), "{}: another way out of the room", file.path);
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
            assert!(!file.code.contains(path), "{} names {path}", file.path);
        }
        assert!(!file.code.contains("loom::"), "{} names loom", file.path);
        assert_eq!(forbidden(file, |word| ["park_timeout", "SegQueue", "compiler_fence", "yield_now"].contains(&word)), None);
        // Starting, joining and counting threads is the service's.
        assert!(file.room == "service" || !file.code.contains("std::thread"), "{} names std::thread", file.path);
    }
}

#[test]
fn one_room_reads_the_time() {
    for file in files() {
        let reads = ["Instant::now", "SystemTime::now", "quanta::"].into_iter().find(|path| file.code.contains(path));
        assert!(reads.is_none() || file.room == "time", "{} names {reads:?}", file.path);
    }
}

#[test]
fn the_code_map_has_the_floors() {
    let (mut map, mut plan) = (floors(&document("ARCHITECTURE.md")), FLOORS.map(<[_]>::to_vec).to_vec());
    map.iter_mut().for_each(|rooms| rooms.sort_unstable());
    plan.iter_mut().for_each(|rooms| rooms.sort_unstable());
    assert_eq!(map, plan);
}

#[test]
fn unsafe_is_where_the_document_says() {
    assert_eq!(unsafe_faults(&document("SECURITY.md"), &files()), [""; 0]);
}

#[test]
fn nobody_waits_but_where_the_document_says() {
    assert_eq!(waiting_faults(&document("ARCHITECTURE.md"), &WAITING, &files()), [""; 0]);
}

#[test]
fn no_call_reads_all_shards_but_those_that_the_document_names() {
    assert_eq!(whole_faults(&document("ARCHITECTURE.md"), WHOLE.iter().chain([&WATCHDOG]), &files()), [""; 0]);
}

#[test]
fn each_atomic_access_has_its_reason() {
    for file in files().iter().filter(|file| file.room != "loom_door") {
        // (`sync::ordering` hands on what its caller has explained.)
        let faults = unexplained(&file.source.replace("{ Ordering::Relaxed } else { normal }", ""));
        assert_eq!(faults, [""; 0], "{}", file.path);
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let source = "use crate::wheel::Wheel; // crate::shard\n//! crate::service\nlet x = crate::time::nanos(1);\n#[cfg(all(test, not(loom)))]\nmod tests {\n    use crate::cell::Cell;\n}\n#[cfg(any(loom, test))]\nuse crate::lane::Lane;\n#[cfg(test)]\nmod tests;\n";
    let code = code(source);
    assert_eq!(arrows(&code).collect::<Vec<_>>(), ["wheel", "time", "lane"], "test modules are left out, and nothing else");
    assert!(words(&code).any(|word| word == "nanos"));
    assert_eq!(arrows("use crate::{cell, lane};").collect::<Vec<_>>(), [""], "which is no room");
    assert!(floor("sync") < floor("wheel") && floor("wheel") < floor("shard"));
    let file = File::new("lane/x.rs", "use std::time::Duration;");
    assert_eq!(file.room, "lane");
    assert_eq!(forbidden(&file, |word| word == "Duration").as_deref(), Some("lane/x.rs names Duration"));
    assert_eq!(floors("## Code map\n| 1 | `src/a/` | b |\n| 0 | `src/c.rs` | `d` |\n| | `e` | |\n"), [["c"], ["a"]]);
}

#[test]
fn a_file_with_unsafe_that_is_not_listed_is_seen() {
    let file = |path, source| File::new(path, source);
    let security = "`unsafe` is in `src/a.rs`, `src/b/c.rs`; see `tests/rooms.rs`.\n## Next\n`src/d.rs`";
    let (a, c) = (file("a.rs", "unsafe impl Send for A {}"), file("b/c.rs", "    unsafe { f() }"));
    assert_eq!(unsafe_faults(security, &[a, c]), [""; 0]);
    let (a, c) = (file("a.rs", "fn f() {} // unsafe"), file("b/c.rs", "unsafe fn f() {}"));
    let d = file("d.rs", "fn f() { unsafe { g() } }");
    assert_eq!(unsafe_faults(security, &[a, c, d]), ["d.rs has unsafe and is not listed", "a.rs is listed and has no unsafe"]);
    let (a, c) = (file("a.rs", "pub(crate) unsafe fn f() {}"), file("b/c.rs", "pub unsafe fn f() {}"));
    assert_eq!(unsafe_faults(security, &[a, c]), ["b/c.rs has something public that is unsafe"]);
}

#[test]
fn a_lock_that_is_not_listed_is_seen() {
    let allowed =
        [Waiting { file: "a.rs", functions: &["stop"], why: "a stop" }, Waiting { file: "b.rs", functions: &[], why: "whatever" }];
    let architecture =
        "and nobody takes a lock on the way of a timer but in `src/a.rs`, `src/b.rs`.\n\n**Architecture Invariant:** `src/c.rs`";
    let faults = |a: &str, b: &str, c: &str| {
        waiting_faults(architecture, &allowed, &[File::new("a.rs", a), File::new("b.rs", b), File::new("c.rs", c)])
    };
    let stop = "use std::sync::Mutex;\nimpl A {\n    fn stop(&self) {\n        drop(self.threads.lock());\n    }\n}\n";
    assert_eq!(faults(stop, "use parking_lot::RwLock;", "enum Misfire { Each }"), [""; 0]);
    let schedule = "impl A {\n    pub fn schedule(\n        &self,\n    ) {\n        drop(self.threads.lock());\n    }\n\n    fn stop(&self) { thread.join() }\n}\n";
    assert_eq!(faults(schedule, "static B: OnceLock<u8>;", ""), ["a.rs: schedule names lock, and is not listed"]);
    assert_eq!(faults(stop, "fn f() {}", ""), ["b.rs is listed, and does not wait"]);
    let idle = "struct A(Mutex<u8>);\nfn stop() {}\n";
    assert_eq!(faults(idle, "fn f() { park(None) }", ""), ["a.rs: stop is listed, and does not wait"]);
    for lock in ["Mutex::new(1)", "RwLock::new(1)", "Condvar::new()", "ONCE.call_once(f)", "Barrier::new(2)", "park(None)", "pause()"] {
        let found = faults(stop, "fn f() { pause() }", &format!("fn cancel() {{\n    {lock};\n}}\n"));
        assert!(found.len() == 1 && found[0].starts_with("c.rs: cancel names "), "{lock}: {found:?}");
    }
    let architecture = architecture.replace("`src/b.rs`", "`src/c.rs`");
    let files = [File::new("a.rs", stop), File::new("b.rs", "fn f() { pause() }")];
    let differ = ["b.rs", "c.rs"].map(|path| format!("{path}: the document and the test differ"));
    assert_eq!(waiting_faults(&architecture, &allowed, &files), differ);
}

#[test]
fn a_call_that_reads_all_shards_and_is_not_listed_is_seen() {
    let allowed = [whole("service/a.rs", "stats", "stats"), number("service/a.rs", "next")];
    let architecture = "no call reads all shards, but for `stats`.\n\nAnd `more`.";
    let faults = |architecture: &str, schedule: &str| {
        let own = "    fn stats(&self) {\n        (0..self.core.shards()).map(f)\n    }\n\n    fn next(&self) { at % self.doors.len() }\n";
        let source = format!("impl A {{\n{own}\n    fn schedule(&self) {{\n        {schedule}\n    }}\n}}\n");
        whole_faults(architecture, allowed.iter(), &[File::new("service/a.rs", &source)])
    };
    for one in ["self.doors[shard].bell.ring(0)", "self.counters.get(shard)", "(0..doors).count()", "for cell in cells {}"] {
        assert_eq!(faults(architecture, one), [""; 0], "{one}");
    }
    for all in [
        "for shard in 0..core.shards() {}",
        "self.doors.iter().for_each(f)",
        "self.doors\n            .iter()\n            .any(f)",
        "for door in &self.doors {}",
        "for door in &mut *doors {}",
        "let shards = self.shards.lock().unwrap(); shards.iter_mut().for_each(f)",
        "(0..self.inner.counters.len()).any(f)",
        "cells.indices().count()",
        "self.stats().fired",
        "for shard in 0..shards {}",
    ] {
        let found = faults(architecture, all);
        assert!(found.len() == 1 && found[0].starts_with("service/a.rs: schedule has "), "{all}: {found:?}");
    }
    assert_eq!(faults("no call reads all shards, but for `stats` and `len`.", ""), ["len: the document and the test differ"]);
    let idle = whole_faults(architecture, allowed.iter(), &[File::new("service/a.rs", "fn stats() { self.stats() }")]);
    assert_eq!(idle, ["service/a.rs: next is listed, and does not"]);
}

#[test]
fn an_access_without_a_reason_is_seen() {
    let explained = "// Ordering: Relaxed. A counter.\nself.count.load(Ordering::Relaxed);\n";
    assert_eq!(unexplained(explained), [""; 0]);
    assert_eq!(unexplained("self.count.load(Ordering::Acquire); // so\n"), ["self.count.load(Ordering::Acquire); // so"]);
    assert_eq!(unexplained("use std::cmp::Ordering::Less;\n#[cfg(test)]\nmod tests {\n    load(Ordering::SeqCst)\n}\n"), [""; 0]);
}
