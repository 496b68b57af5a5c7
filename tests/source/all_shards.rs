//! Promise: the calls that read all shards, or the cells of all, are those that ARCHITECTURE.md
//! lists.

use crate::source::{File, by_function, document, files, is_word, part, quoted, squeezed};
use std::collections::BTreeSet;

/// The rooms that know more than one shard, beside the arena.
const KNOW_SHARDS: [&str; 12] = [
    "engine", "service", "future", "calendar", "metrics", "trace", "testing", "tower", "hyper",
    "quinn", "backon", "io",
];

/// A function that reads all shards or the cells of all, or counts the shards.
struct Whole {
    file: &'static str,
    function: &'static str,
    /// The call that does so by it, as ARCHITECTURE.md names it. None: no shard is read.
    call: Option<&'static str>,
}

const fn whole(file: &'static str, function: &'static str, call: &'static str) -> Whole {
    Whole {
        file,
        function,
        call: Some(call),
    }
}

/// One that asks for the number of shards alone, or lends to those that are listed.
const fn number(file: &'static str, function: &'static str) -> Whole {
    Whole {
        file,
        function,
        call: None,
    }
}

/// All of them.
const WHOLE: [Whole; 31] = [
    whole("cell/arena.rs", "claim_all", "stop"),
    number("engine/cells.rs", "indices"),
    whole("engine/life/end.rs", "claim_all", "stop"),
    whole("engine/life/end.rs", "hand_back_all", "stop"),
    // A place for each, which its first timer there fills.
    number("engine/local/mod.rs", "attach"),
    whole("engine/manual.rs", "has_messages", "advance"),
    whole("engine/manual.rs", "next_event_ns", "advance"),
    whole("engine/manual.rs", "turn", "advance"),
    whole("engine/shared.rs", "new", "start"),
    number("engine/shared.rs", "next_home"),
    number("engine/shared.rs", "shards"),
    // Beside the settings, of which it has the number.
    number("engine/start/mod.rs", "engine"),
    number("engine/start/mod.rs", "counts"),
    // Of the shards, for the event of the start.
    number("engine/mod.rs", "tell_start"),
    whole("engine/start/threads.rs", "spawn", "start"),
    whole("engine/figures/read_stats.rs", "stats", "stats"),
    // Of a snapshot.
    whole("engine/figures/stats.rs", "sum", "stats"),
    whole("metrics/mod.rs", "report", "report"),
    whole("service/cancel.rs", "cancel_all", "cancel_all"),
    // `Debug`.
    number("service/handle.rs", "fmt"),
    whole("service/inspect.rs", "is_empty", "is_empty"),
    whole("service/inspect.rs", "len", "len"),
    whole("service/inspect.rs", "pending", "pending"),
    number("service/inspect.rs", "shards"),
    whole("service/inspect.rs", "stats", "stats"),
    number("service/schedule.rs", "schedule_on"),
    whole("service/stop.rs", "claim_all", "stop_with"),
    whole("service/stop.rs", "drain", "stop_with"),
    whole("service/stop.rs", "end_periodic", "stop_with"),
    whole("service/stop.rs", "end_stop", "stop_with"),
    whole("service/stop.rs", "end_threads", "stop"),
];

/// Not a call: the thread that the builder's `on_stall` asks for.
const WATCHDOG: Whole = whole("engine/notices/watchdog.rs", "run", "on_stall");

/// How a function reads all shards, or counts them, if it does.
fn reads_all(text: &str) -> Option<&'static str> {
    const CALLS: [&str; 6] = [
        "shards()",
        "indices()",
        "claim_all(",
        ".stats()",
        "self.len()",
        "..shards",
    ];
    const SETS: [&str; 5] = ["shards", "ports", "counters", "stalls", "backlogs"];
    const WALKS: [&str; 9] = [
        ".iter",
        ".into_iter",
        ".enumerate",
        ".drain",
        ".len()",
        ".first",
        ".last",
        ".chunks",
        ".as_",
    ];
    let text = squeezed(text);
    let is_walked = |set: &&&str| {
        text.match_indices(**set).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + set.len()..]);
            let statement = before.rsplit([';', '{', '}']).next().unwrap_or_default();
            let is_loop = after.starts_with('{') && statement.contains(" in");
            !before.ends_with(is_word)
                && (is_loop || WALKS.iter().any(|walk| after.starts_with(walk)))
        })
    };
    let is_called = |call: &&&str| {
        text.match_indices(**call)
            .any(|(at, _)| !call.starts_with(is_word) || !text[..at].ends_with(is_word))
    };
    CALLS
        .iter()
        .find(is_called)
        .or_else(|| SETS.iter().find(is_walked))
        .copied()
}

/// Functions that read all shards and are not listed, and such as are listed and do not. The
/// document names the same calls.
fn whole_faults<'a>(
    architecture: &str,
    allowed: impl Iterator<Item = &'a Whole> + Clone,
    files: &[File],
) -> Vec<String> {
    // Other rooms know one shard, and no cells of others.
    let knows_shards = |file: &&File| file.room == "cell" || KNOW_SHARDS.contains(&&*file.room);
    let texts = files.iter().filter(knows_shards).flat_map(|file| {
        let all = by_function(&file.code).into_iter();
        all.filter_map(|(function, text)| Some((&*file.path, function, reads_all(&text)?)))
            .collect::<Vec<_>>()
    });
    let found: Vec<_> = texts.collect();
    let is = |(path, function, _): &(&str, String, &str), allowed: &Whole| {
        *path == allowed.file && function == allowed.function
    };
    let unlisted = found
        .iter()
        .filter(|found| !allowed.clone().any(|allowed| is(found, allowed)));
    let mut faults: Vec<_> = unlisted
        .map(|(path, function, how)| format!("{path}: {function} has {how}, and is not listed"))
        .collect();
    let idle = allowed
        .clone()
        .filter(|allowed| !found.iter().any(|found| is(found, allowed)));
    faults.extend(
        idle.map(|Whole { file, function, .. }| {
            format!("{file}: {function} is listed, and does not")
        }),
    );
    let paragraph = part(architecture, "no call reads all shards", "\n\n");
    let in_test: BTreeSet<_> = allowed.filter_map(|allowed| allowed.call).collect();
    faults.extend(
        quoted(paragraph)
            .symmetric_difference(&in_test)
            .map(|call| format!("{call}: the document and the test differ")),
    );
    faults
}

#[test]
fn no_call_reads_all_shards_but_those_that_the_document_names() {
    assert_eq!(
        whole_faults(
            &document("ARCHITECTURE.md"),
            WHOLE.iter().chain([&WATCHDOG]),
            &files()
        ),
        [""; 0]
    );
}

#[test]
fn a_call_that_reads_all_shards_and_is_not_listed_is_seen() {
    let allowed = [
        whole("service/a.rs", "stats", "stats"),
        number("service/a.rs", "next"),
    ];
    let architecture = "no call reads all shards, but for `stats`.\n\nAnd `more`.";
    let faults = |architecture: &str, schedule: &str| {
        let own = "    fn stats(&self) {\n        (0..self.shared.shards()).map(f)\n    }\n\n    fn next(&self) { at % self.ports.len() }\n";
        let source = format!(
            "impl A {{\n{own}\n    fn schedule(&self) {{\n        {schedule}\n    }}\n}}\n"
        );
        whole_faults(
            architecture,
            allowed.iter(),
            &[File::new("service/a.rs", &source)],
        )
    };
    for one in [
        "self.ports[shard].bell.ring(0)",
        "self.counters.get(shard)",
        "(0..ports).count()",
        "for cell in cells {}",
    ] {
        assert_eq!(faults(architecture, one), [""; 0], "{one}");
    }
    for all in [
        "for shard in 0..shared.shards() {}",
        "self.ports.iter().for_each(f)",
        "self.ports\n            .iter()\n            .any(f)",
        "for port in &self.ports {}",
        "for port in &mut *ports {}",
        "let shards = self.shards.lock().unwrap(); shards.iter_mut().for_each(f)",
        "(0..self.engine.counters.len()).any(f)",
        "cells.indices().count()",
        "self.stats().fired",
        "for shard in 0..shards {}",
    ] {
        let found = faults(architecture, all);
        assert!(
            found.len() == 1 && found[0].starts_with("service/a.rs: schedule has "),
            "{all}: {found:?}"
        );
    }
    assert_eq!(
        faults("no call reads all shards, but for `stats` and `len`.", ""),
        ["len: the document and the test differ"]
    );
    let idle = whole_faults(
        architecture,
        allowed.iter(),
        &[File::new("service/a.rs", "fn stats() { self.stats() }")],
    );
    assert_eq!(idle, ["service/a.rs: next is listed, and does not"]);
}
