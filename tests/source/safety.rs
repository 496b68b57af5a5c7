//! Promise: the lists in ARCHITECTURE.md, durable/ARCHITECTURE.md and docs/unsafe.md are complete.
//!
//! - `unsafe` is in the files that docs/unsafe.md lists, in all of them and in no other.
//! - Locks, and whatever else waits for a thread, are in the files that the two
//!   architectures list.
//! - Who reads all shards, or the cells of all, is listed in ARCHITECTURE.md too.
//! - Each atomic access has its reason above it.

use crate::source::{
    DOORS, File, by_function, document, files, has_durable, is_word, lines, part, quoted, squeezed,
    words,
};
use std::collections::BTreeSet;

/// The rooms that know more than one shard, beside the arena.
const KNOW_SHARDS: [&str; 8] = [
    "engine", "service", "future", "calendar", "metrics", "trace", "testing", "tower",
];

/// A file in which somebody may wait for another thread.
struct Waiting {
    file: &'static str,
    /// The functions that do. None: whatever is in this file.
    functions: &'static [&'static str],
    /// Why no timer waits there on its way.
    why: &'static str,
}

/// All of them, but for the room `sync`, which has what the others use. ARCHITECTURE.md has the
/// same files.
const WAITING: [Waiting; 44] = [
    Waiting {
        file: "counters.rs",
        functions: &["new", "with"],
        why: "sets of counters: a thread's first call to a shard, its end, and who reads them",
    },
    Waiting {
        file: "doorbell/mod.rs",
        functions: &["ring_slowly", "wait", "work_or_park"],
        why: "the shard sleeps with nothing due, and a ringer unparks it without waiting",
    },
    Waiting {
        file: "shard/worker.rs",
        functions: &["run", "sleep"],
        why: "naps of the shard's own thread",
    },
    Waiting {
        file: "dispatch/attendant.rs",
        functions: &["wake", "sleep"],
        why: "a worker waits for batches, and a shard unparks it without waiting",
    },
    Waiting {
        file: "cell/state.rs",
        functions: &["look_at_word"],
        why: "a look at a timer that is being moved just then",
    },
    Waiting {
        file: "dispatch/receiver.rs",
        functions: &["recv", "recv_timeout"],
        why: "the user's end of a channel, for batches",
    },
    Waiting {
        file: "engine/life/in_flight.rs",
        functions: &["wait_for", "wait_for_present"],
        why: "`stop` and `cancel_and_wait`",
    },
    Waiting {
        file: "engine/shared.rs",
        functions: &["wait_for_claims"],
        why: "a further `stop`, for the first one",
    },
    Waiting {
        file: "engine/start/mod.rs",
        functions: &["prepare"],
        why: "makes the lock of the threads",
    },
    Waiting {
        file: "engine/start/pools.rs",
        functions: &["shared"],
        why: "the pool that services share: a service's start",
    },
    Waiting {
        file: "time/counter.rs",
        functions: &["new"],
        why: "the rate of the processor's counter: the first service's start",
    },
    Waiting {
        file: "engine/start/threads.rs",
        functions: &[],
        why: "the threads of a service, for its end",
    },
    Waiting {
        file: "service/stop.rs",
        functions: &[],
        why: "the end of a service",
    },
    Waiting {
        file: "service/stop_async.rs",
        functions: &[],
        why: "the thread of a `stop_async` leaves the outcome to its future",
    },
    Waiting {
        file: "engine/life/wall.rs",
        functions: &["new", "add", "for_each"],
        why: "on a manual clock, the list of timers that go by the time of day",
    },
    Waiting {
        file: "engine/manual.rs",
        functions: &["new", "turn", "has_messages", "next_event_ns"],
        why: "the list of threads, for `stop`; the shards of a manual clock, one turn after the other",
    },
    Waiting {
        file: "engine/notices/watchdog.rs",
        functions: &[],
        why: "a thread of its own",
    },
    Waiting {
        file: "time/manual.rs",
        functions: &[],
        why: "a manual clock's services and wall clock",
    },
    Waiting {
        file: "service/start_once.rs",
        functions: &["new", "start", "set"],
        why: "a service that all share is started once",
    },
    Waiting {
        file: "durable/api/client.rs",
        functions: &["new", "stop_async", "end_stop"],
        why: "a stop, for the writer's thread",
    },
    Waiting {
        file: "durable/handler/places.rs",
        functions: &[],
        why: "the places of a kind with a limit",
    },
    Waiting {
        file: "durable/queue/link.rs",
        functions: &[],
        why: "on a manual clock callers, for the writer's turns",
    },
    Waiting {
        file: "durable/queue/futures.rs",
        functions: &[],
        why: "a stop, for futures of handlers, and threads that poll them, for each other",
    },
    Waiting {
        file: "durable/queue/outage.rs",
        functions: &[],
        why: "callers that are to wait for a store that is away, and any thread for what it is told",
    },
    Waiting {
        file: "durable/api/pausing.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
    },
    Waiting {
        file: "durable/queue/pauses.rs",
        functions: &[],
        why: "threads that hand something out, for the writer while it sets what is paused",
    },
    Waiting {
        file: "durable/queue/throttle.rs",
        functions: &[],
        why: "threads that call handlers, for each other, while they ask what limits let through",
    },
    Waiting {
        file: "durable/queue/ticket.rs",
        functions: &[],
        why: "a caller, for its commit",
    },
    Waiting {
        file: "durable/queue/lanes.rs",
        functions: &["wait"],
        why: "the writer, for requests",
    },
    Waiting {
        file: "durable/stores/memory.rs",
        functions: &[],
        why: "the clones of a store for tests",
    },
    Waiting {
        file: "durable/stores/redb/overlay.rs",
        functions: &[],
        why: "nobody: what an open puts off, on one thread",
    },
    Waiting {
        file: "durable/stores/redb/new_file.rs",
        functions: &["remove_left"],
        why: "nobody: whether another process writes a file shows at once",
    },
    Waiting {
        file: "durable/stores/postgres/session.rs",
        functions: &[],
        why: "the database: the writer's thread",
    },
    Waiting {
        file: "durable/stores/postgres/blocking.rs",
        functions: &[],
        why: "the database: handlers that work in a transaction",
    },
    Waiting {
        file: "durable/stores/postgres/acknowledge.rs",
        functions: &["acknowledge"],
        why: "users' transactions: handlers that work in a transaction",
    },
    Waiting {
        file: "durable/stores/postgres/migrations/schema.rs",
        functions: &["prepare"],
        why: "other nodes that make the tables, and transactions in the way: a program that starts",
    },
    Waiting {
        file: "durable/api/in_transaction.rs",
        functions: &[],
        why: "the list of connections of handlers",
    },
    Waiting {
        file: "durable/stores/postgres/listen.rs",
        functions: &["start"],
        why: "its own thread, for the database",
    },
    Waiting {
        file: "durable/stores/postgres/clock.rs",
        functions: &[],
        why: "a reading of the database's clock, which is noted",
    },
    Waiting {
        file: "durable/api/reporter.rs",
        functions: &["report"],
        why: "reports wait for each other",
    },
    Waiting {
        file: "metrics/mod.rs",
        functions: &["report"],
        why: "reports wait for each other",
    },
    Waiting {
        file: "testing/mod.rs",
        functions: &["block_on"],
        why: "a test waits for its tasks",
    },
    Waiting {
        file: "testing/ready.rs",
        functions: &["changes"],
        why: "the tasks of a test, its timers and its threads",
    },
    Waiting {
        file: "tower/idle.rs",
        functions: &["on", "calls"],
        why: "calls of one connection count themselves",
    },
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
const WHOLE: [Whole; 32] = [
    whole("cell/arena.rs", "claim_all", "stop"),
    number("engine/cells.rs", "indices"),
    whole("engine/life/end.rs", "claim_all", "stop"),
    whole("engine/life/end.rs", "hand_back_all", "stop"),
    // A place for each, which its first timer there fills.
    number("engine/local/mod.rs", "attach"),
    whole("engine/manual.rs", "dispatched", "advance"),
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

/// Files of the source that a part of a document names, by their paths here: of
/// `durable/src/api/client.rs` it is `durable/handle.rs`.
fn files_named(part: &str) -> BTreeSet<String> {
    let path = |path: &str| {
        let of_durable = path.strip_prefix("durable/src/");
        let of_durable = of_durable.map(|path| format!("durable/{path}"));
        of_durable.or_else(|| Some(path.strip_prefix("src/")?.to_string()))
    };
    quoted(part)
        .into_iter()
        .filter_map(path)
        .filter(|path| path.ends_with(".rs"))
        .collect()
}

/// Files with `unsafe` that docs/unsafe.md does not list, and files that it lists which have none;
/// and files that offer something `unsafe` to users.
fn unsafe_faults(document: &str, files: &[File]) -> Vec<String> {
    let listed = files_named(part(document, "`unsafe` is in", "\n## "));
    let found: BTreeSet<_> = files
        .iter()
        .filter(|file| words(&file.code).any(|word| word == "unsafe"))
        .map(|file| file.path.clone())
        .collect();
    let missing = found
        .difference(&listed)
        .map(|path| format!("{path} has unsafe and is not listed"));
    let empty = listed
        .difference(&found)
        .map(|path| format!("{path} is listed and has no unsafe"));
    let offers = files
        .iter()
        .filter(|file| !DOORS.contains(&&*file.room) && file.code.contains("pub unsafe"));
    missing
        .chain(empty)
        .chain(offers.map(|file| format!("{} has something public that is unsafe", file.path)))
        .collect()
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
    BEGINNINGS
        .iter()
        .any(|beginning| word.starts_with(beginning))
        || WORDS.contains(&word)
}

/// Places that may wait and are not listed, and places that are listed and do not. The document has
/// the same files.
fn waiting_faults(architecture: &str, allowed: &[Waiting], files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files
        .iter()
        .filter(|file| !["internals", "sync"].contains(&&*file.room))
        .filter(|file| !file.path.starts_with("durable/sync/"))
    {
        // A policy of calendars is called `Once`, too.
        let waits = |word: &str| waits(word) && !(word == "Once" && file.room == "calendar");
        let texts = by_function(&file.code);
        let found = || {
            texts.iter().filter_map(|(function, text)| {
                Some((&**function, words(text).find(|word| waits(word))?))
            })
        };
        match allowed.iter().find(|allowed| allowed.file == file.path) {
            None => faults.extend(found().map(|(function, word)| {
                format!("{}: {function} names {word}, and is not listed", file.path)
            })),
            Some(Waiting { functions: [], .. }) if found().next().is_some() => {}
            Some(Waiting { functions, .. }) => {
                let others = found()
                    .filter(|(function, _)| !function.is_empty() && !functions.contains(function));
                faults.extend(others.map(|(function, word)| {
                    format!("{}: {function} names {word}, and is not listed", file.path)
                }));
                let idle = functions
                    .iter()
                    .filter(|function| !found().any(|(name, _)| name == **function));
                faults.extend(idle.map(|function| {
                    format!("{}: {function} is listed, and does not wait", file.path)
                }));
                if found().next().is_none() {
                    faults.push(format!("{} is listed, and does not wait", file.path));
                }
            }
        }
    }
    let in_document = files_named(part(
        architecture,
        "These files have a lock of ours",
        "\n## ",
    ));
    let in_test: BTreeSet<_> = allowed
        .iter()
        .map(|allowed| allowed.file.to_string())
        .collect();
    faults.extend(
        in_document
            .symmetric_difference(&in_test)
            .map(|path| format!("{path}: the document and the test differ")),
    );
    faults.extend(
        allowed
            .iter()
            .filter(|allowed| allowed.why.is_empty())
            .map(|allowed| format!("{}: why?", allowed.file)),
    );
    faults
}

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

/// The lines with an atomic access that has no reason above it.
fn unexplained(source: &str) -> Vec<String> {
    const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
    /// So far above it stands, where a condition or a broken variant comes between.
    const ABOVE: usize = 8;
    let lines: Vec<_> = lines(source).collect();
    let names = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ORDERINGS
            .iter()
            .any(|ordering| code.contains(&format!("Ordering::{ordering}")))
    };
    let is_explained = |at: usize| {
        lines[at.saturating_sub(ABOVE)..at]
            .iter()
            .any(|line| line.trim_start().starts_with("// Ordering: "))
    };
    (0..lines.len())
        .filter(|&at| names(lines[at]) && !is_explained(at))
        .map(|at| lines[at].trim().to_string())
        .collect()
}

#[test]
fn unsafe_is_where_the_document_says() {
    // In a package that was downloaded, docs/unsafe.md names files that are not there.
    if has_durable() {
        assert_eq!(
            unsafe_faults(&document("docs/unsafe.md"), &files()),
            [""; 0]
        );
    }
}

#[test]
fn nobody_waits_but_where_the_document_says() {
    let (durable, own): (Vec<_>, Vec<_>) = WAITING
        .into_iter()
        .partition(|waiting| waiting.file.starts_with("durable/"));
    let (files_of_durable, files) = files()
        .into_iter()
        .partition::<Vec<_>, _>(|file| file.path.starts_with("durable/"));
    let architecture = document("ARCHITECTURE.md");
    assert_eq!(waiting_faults(&architecture, &own, &files), [""; 0]);
    if has_durable() {
        let architecture = document("durable/ARCHITECTURE.md");
        let faults = waiting_faults(&architecture, &durable, &files_of_durable);
        assert_eq!(faults, [""; 0]);
    }
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
fn each_atomic_access_has_its_reason() {
    for file in files().iter().filter(|file| file.room != "internals") {
        // (`sync::ordering` hands on what its caller has explained.)
        let faults = unexplained(&file.source.replace(
            "        Ordering::Relaxed\n    } else {\n        normal\n",
            "",
        ));
        assert_eq!(faults, [""; 0], "{}", file.path);
    }
}

#[test]
fn a_file_with_unsafe_that_is_not_listed_is_seen() {
    let file = |path, source| File::new(path, source);
    let security = "`unsafe` is in `src/a.rs`, `src/b/c.rs`; see `tests/source/rooms.rs`.\n## Next\n`src/d.rs`";
    let (a, c) = (
        file("a.rs", "unsafe impl Send for A {}"),
        file("b/c.rs", "    unsafe { f() }"),
    );
    assert_eq!(unsafe_faults(security, &[a, c]), [""; 0]);
    let (a, c) = (
        file("a.rs", "fn f() {} // unsafe"),
        file("b/c.rs", "unsafe fn f() {}"),
    );
    let d = file("d.rs", "fn f() { unsafe { g() } }");
    assert_eq!(
        unsafe_faults(security, &[a, c, d]),
        [
            "d.rs has unsafe and is not listed",
            "a.rs is listed and has no unsafe"
        ]
    );
    let (a, c) = (
        file("a.rs", "pub(crate) unsafe fn f() {}"),
        file("b/c.rs", "pub unsafe fn f() {}"),
    );
    assert_eq!(
        unsafe_faults(security, &[a, c]),
        ["b/c.rs has something public that is unsafe"]
    );
}

#[test]
fn a_lock_that_is_not_listed_is_seen() {
    let allowed = [
        Waiting {
            file: "a.rs",
            functions: &["stop"],
            why: "a stop",
        },
        Waiting {
            file: "b.rs",
            functions: &[],
            why: "whatever",
        },
    ];
    let architecture =
        "These files have a lock of ours: `src/a.rs`, `src/b.rs`.\n\n## Next\n`src/c.rs`";
    let faults = |a: &str, b: &str, c: &str| {
        waiting_faults(
            architecture,
            &allowed,
            &[
                File::new("a.rs", a),
                File::new("b.rs", b),
                File::new("c.rs", c),
            ],
        )
    };
    let stop = "use std::sync::Mutex;\nimpl A {\n    fn stop(&self) {\n        drop(self.threads.lock());\n    }\n}\n";
    assert_eq!(
        faults(stop, "use parking_lot::RwLock;", "enum MissedRuns { Each }"),
        [""; 0]
    );
    let schedule = "impl A {\n    pub fn schedule(\n        &self,\n    ) {\n        drop(self.threads.lock());\n    }\n\n    fn stop(&self) { thread.join() }\n}\n";
    assert_eq!(
        faults(schedule, "static B: OnceLock<u8>;", ""),
        ["a.rs: schedule names lock, and is not listed"]
    );
    assert_eq!(
        faults(stop, "fn f() {}", ""),
        ["b.rs is listed, and does not wait"]
    );
    let idle = "struct A(Mutex<u8>);\nfn stop() {}\n";
    assert_eq!(
        faults(idle, "fn f() { park(None) }", ""),
        ["a.rs: stop is listed, and does not wait"]
    );
    for lock in [
        "Mutex::new(1)",
        "RwLock::new(1)",
        "Condvar::new()",
        "ONCE.call_once(f)",
        "Barrier::new(2)",
        "park(None)",
        "pause()",
    ] {
        let found = faults(
            stop,
            "fn f() { pause() }",
            &format!("fn cancel() {{\n    {lock};\n}}\n"),
        );
        assert!(
            found.len() == 1 && found[0].starts_with("c.rs: cancel names "),
            "{lock}: {found:?}"
        );
    }
    let architecture = architecture.replace("`src/b.rs`", "`src/c.rs`");
    let files = [
        File::new("a.rs", stop),
        File::new("b.rs", "fn f() { pause() }"),
    ];
    let differ = ["b.rs", "c.rs"].map(|path| format!("{path}: the document and the test differ"));
    assert_eq!(waiting_faults(&architecture, &allowed, &files), differ);
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

#[test]
fn an_access_without_a_reason_is_seen() {
    let explained = "// Ordering: Relaxed. A counter.\nself.count.load(Ordering::Relaxed);\n";
    assert_eq!(unexplained(explained), [""; 0]);
    assert_eq!(
        unexplained("self.count.load(Ordering::Acquire); // so\n"),
        ["self.count.load(Ordering::Acquire); // so"]
    );
    assert_eq!(
        unexplained(
            "use std::cmp::Ordering::Less;\n#[cfg(test)]\nmod tests {\n    load(Ordering::SeqCst)\n}\n"
        ),
        [""; 0]
    );
}
