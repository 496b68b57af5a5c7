//! Subjects: each is drawn in one way in all charts, and has a line in the page's glossary.

/// How a subject is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) color: &'static str,
    /// Of its curves: lengths of dashes and gaps; none if it is empty.
    pub(crate) dashes: &'static str,
}

/// Name, color, dashes. Greens are wheelwork's.
const LOOKS: [(&str, &str, &str); 30] = [
    ("wheelwork", "#116329", ""),
    ("wheelwork-batch", "#2f9e44", "6 3"),
    ("wheelwork-inline", "#5a8a00", "2 3"),
    ("wheelwork-cores", "#00796b", "9 3"),
    ("wheelwork-fine", "#22998f", "4 2"),
    ("wheelwork-spin", "#7a9400", "9 3 2 3"),
    ("wheelwork-future", "#4f8a5b", "4 4"),
    ("wheelwork-executor", "#3f7d20", "6 3"),
    ("tokio", "#1f5fbf", ""),
    ("tokio-future", "#5b8def", "6 3"),
    ("delayqueue", "#d96c00", ""),
    ("mutex-delayqueue", "#9c4a00", "6 3"),
    ("hhwt", "#c62828", ""),
    ("pingora", "#7b3fb3", ""),
    ("async-io", "#0b8fae", ""),
    ("heap", "#6b7280", ""),
    ("btree", "#8d6e63", ""),
    ("netty", "#d6246f", ""),
    ("nexus-timer", "#3949ab", ""),
    ("bitwheel", "#a67c00", ""),
    ("unordered-list", "#78909c", "6 3"),
    ("ordered-list", "#455a64", "6 3"),
    ("one-wheel", "#e0528d", "6 3"),
    ("hashed-wheel", "#5d4037", "6 3"),
    ("linked-wheel", "#000000", "6 3"),
    ("redb", "#b34700", ""),
    ("fjall", "#1565c0", ""),
    ("sqlite", "#00838f", ""),
    ("redis", "#b71c1c", ""),
    ("apalis", "#6a1b9a", ""),
];

/// Of a program that `timers --external` was given.
const OTHER: (&str, &str, &str) = ("", "#94348c", "3 3");

pub(crate) fn look(name: &str) -> Look {
    let known = LOOKS.iter().find(|(of, ..)| *of == name);
    let &(_, color, dashes) = known.unwrap_or(&OTHER);
    Look { color, dashes }
}

/// Its place in the glossary. What is not known is last.
pub(crate) fn place(name: &str) -> usize {
    let known = LOOKS.iter().position(|(of, ..)| *of == name);
    known.unwrap_or(LOOKS.len())
}

pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("wheelwork")
}

/// What it is, in a line. `compare/README.md` says how it is used.
pub(crate) fn what(name: &str) -> &'static str {
    match name {
        "wheelwork" => "as it comes",
        "wheelwork-batch" => "its calls that take many timers",
        "wheelwork-inline" => "tasks run on the shard's thread",
        "wheelwork-cores" => "tasks run on the shard's thread; a shard for each core",
        "wheelwork-fine" => "tasks run on the shard's thread; a tick of 50 us",
        "wheelwork-spin" => "a tick of 10 us; spins in place of sleeping up to 100 us",
        "wheelwork-executor" => "tasks run on the workers of an executor",
        "wheelwork-future" => "its futures under tokio",
        "tokio" => "tokio's Sleep",
        "tokio-future" => "tokio's timeout and interval, in tasks",
        "delayqueue" => "tokio-util's DelayQueue, with one owner",
        "mutex-delayqueue" => "tokio-util's DelayQueue in a mutex, with a thread that polls it",
        "hhwt" => "the crate hierarchical_hash_wheel_timer",
        "pingora" => "the crate pingora-timeout: its sleep",
        "async-io" => "the crate async-io: its Timer",
        "heap" => "std's binary heap; what is cancelled stays in it until it is due",
        "btree" => "std's B-tree",
        "netty" => "Netty's HashedWheelTimer, with a tick of 1 ms",
        "nexus-timer" => "the crate nexus-timer: its Wheel",
        "bitwheel" => "the crate bitwheel: its BitWheel, which fires early",
        "unordered-list" => "scheme: each tick looks at all timers",
        "ordered-list" => "scheme: each insert goes along the list",
        "one-wheel" => "scheme: 4,096 slots, and a list of what is due later",
        "hashed-wheel" => "scheme: 4,096 slots for all rounds",
        "linked-wheel" => "scheme: four levels of 256 slots, linked lists",
        "redb" => "redb alone: one table, by deadline and id",
        "fjall" => "fjall alone: one keyspace, by deadline and id",
        "sqlite" => "SQLite alone: one table, by deadline and id",
        "redis" => "Redis: a sorted set, a hash, a log that is synced",
        "apalis" => "the job queue apalis, on SQLite",
        _ => "an external program",
    }
}

/// Whose versions say what was measured; none for what the harness makes of the standard library.
pub(crate) fn packages(name: &str) -> &'static [&'static str] {
    match name {
        name if is_ours(name) => &["wheelwork"],
        "tokio" | "tokio-future" => &["tokio"],
        "delayqueue" | "mutex-delayqueue" => &["tokio-util", "tokio"],
        "hhwt" => &["hierarchical_hash_wheel_timer"],
        "pingora" => &["pingora-timeout"],
        "async-io" => &["async-io"],
        "netty" => &["netty", "jvm"],
        "nexus-timer" => &["nexus-timer"],
        "bitwheel" => &["bitwheel"],
        "redb" => &["redb"],
        "fjall" => &["fjall"],
        "sqlite" => &["rusqlite", "libsqlite3-sys"],
        "redis" => &["redis", "redis-server"],
        "apalis" => &["apalis-sqlite"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::GROUND;
    use std::collections::BTreeSet;

    /// As the Web Content Accessibility Guidelines define it.
    fn luminance(color: &str) -> f64 {
        let part = |from: usize| {
            let byte = u8::from_str_radix(&color[from..from + 2], 16).expect("it is a color");
            let part = f64::from(byte) / 255.0;
            if part <= 0.03928 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn each_has_a_color_of_its_own_that_stands_out_of_the_ground() {
        let all = || LOOKS.iter().chain([&OTHER]);
        let colors: BTreeSet<_> = all().map(|(_, color, _)| color).collect();
        assert_eq!(colors.len(), all().count());
        for (name, color, _) in all() {
            let contrast = (luminance(GROUND) + 0.05) / (luminance(color) + 0.05);
            assert!(contrast >= 3.0, "{name}: {contrast}");
        }
    }

    #[test]
    fn each_is_explained() {
        for (name, ..) in LOOKS {
            assert_ne!(what(name), what(""), "{name}");
        }
        assert_eq!((look("other").color, packages("other").len()), (OTHER.1, 0));
    }
}
