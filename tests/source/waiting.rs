//! Promise: locks, and whatever else waits for a thread, are in the files that ARCHITECTURE.md and
//! durable/ARCHITECTURE.md list, in the functions that are listed here.

use crate::source::{File, by_function, document, files, files_named, has_durable, part, words};
use std::collections::BTreeSet;

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
const WAITING: [Waiting; 53] = [
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
        functions: &["look"],
        why: "a look at a timer that is being moved just then",
    },
    Waiting {
        file: "cell/pausing.rs",
        functions: &["halt", "resume", "set_left"],
        why: "a pause, a resume, or a move of a paused timer, for another one of the same timer",
    },
    Waiting {
        file: "service/group.rs",
        functions: &[],
        why: "calls on one group, for each other",
    },
    Waiting {
        file: "service/pausing.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
    },
    Waiting {
        file: "future/sleep.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
    },
    Waiting {
        file: "future/interval.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
    },
    Waiting {
        file: "future/waiting.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
    },
    Waiting {
        file: "future/queue/mod.rs",
        functions: &["poll_expired"],
        why: "nobody: it pauses a timer, and no thread",
    },
    Waiting {
        file: "future/queue/pausing.rs",
        functions: &["pause"],
        why: "nobody: it pauses timers, and no thread",
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
        functions: &["remove", "take_name"],
        why: "nobody: whether another process writes a file shows at once",
    },
    Waiting {
        file: "durable/stores/postgres/session.rs",
        functions: &[],
        why: "the database: the writer's thread",
    },
    Waiting {
        file: "durable/stores/postgres/addresses.rs",
        functions: &[],
        why: "the address that let in last, which is noted: threads that connect",
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
        // (Its paths begin in its own folder.)
        let architecture = document("durable/ARCHITECTURE.md").replace("`src/", "`durable/src/");
        let faults = waiting_faults(&architecture, &durable, &files_of_durable);
        assert_eq!(faults, [""; 0]);
    }
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
