//! Promise: a program that uses wheelwork without features builds these crates, and no other.
//!
//! What a program waits for when it is built is mostly its number of crates. A crate more is a
//! decision: `docs/decisions/089-what-a-program-builds.md` and 093. How long a build takes:
//! `scripts/bench build`. With all features it builds no store.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// On Linux.
const CRATES: [&str; 8] = [
    "crossbeam-channel",
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-queue",
    "crossbeam-utils",
    "libc",
    "rayon-core",
    "wheelwork",
];

/// The crates that a program with these features builds. `None`: a package that was downloaded has
/// no lock file, and its crates may not be there.
fn crates(features: &[&str]) -> Option<BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("Cargo.lock").exists() {
        return None;
    }
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "wheelwork", "--locked", "--offline"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}"])
        .args(features)
        .current_dir(root)
        .output()
        .expect("cargo is there");
    let text = String::from_utf8_lossy(&tree.stdout);
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    let crates: BTreeSet<String> = text.lines().map(name).collect();
    let error = String::from_utf8_lossy(&tree.stderr);
    assert!(crates.contains("wheelwork"), "{error}");
    Some(crates)
}

#[test]
fn a_program_without_features_builds_these_crates() {
    let crates = crates(&[]);
    assert!(crates.is_none_or(|crates| crates == CRATES.map(str::to_string).into()));
}

/// The wheel alone.
#[test]
fn a_program_without_default_features_builds_no_other_crate() {
    let crates = crates(&["--no-default-features"]);
    assert!(crates.is_none_or(|crates| crates == ["wheelwork".to_string()].into()));
}

/// Patterns are read and searched by wheelwork itself; the time zones are jiff's.
#[test]
fn calendars_bring_jiff_alone() {
    let Some(mut crates) = crates(&["--features", "calendar"]) else {
        return;
    };
    crates.retain(|name| !CRATES.contains(&name.as_str()));
    let expected = ["jiff", "jiff-core"].map(str::to_string);
    assert_eq!(crates, expected.into());
}

/// Of a framework only what its traits need is built: no cryptography, no parts of a runtime.
#[test]
fn frameworks_bring_their_traits_alone() {
    for feature in ["backon", "hyper", "quinn"] {
        let Some(crates) = crates(&["--features", feature]) else {
            return;
        };
        assert!(crates.contains(feature), "{crates:?}");
        for heavy in ["ring", "rustls", "h2", "mio", "tokio-macros"] {
            assert!(!crates.contains(heavy), "{feature} brings {heavy}");
        }
    }
}

/// Streams have the traits, and no runtime.
#[test]
fn streams_bring_traits_alone() {
    let async_brings = ["futures-core", "pin-project-lite"];
    for (feature, brings) in [
        ("tokio", ["atomic-waker", "tokio"]),
        ("futures-io", ["atomic-waker", "futures-io"]),
    ] {
        let Some(mut crates) = crates(&["--features", feature]) else {
            return;
        };
        crates.retain(|name| !CRATES.contains(&name.as_str()));
        let expected = async_brings.into_iter().chain(brings);
        assert_eq!(crates, expected.map(str::to_string).collect());
    }
}

/// Stores are in wheelwork-durable, which is built on what is public here.
#[test]
fn with_all_features_there_is_no_store() {
    let Some(crates) = crates(&["--features", "full"]) else {
        return;
    };
    assert!(crates.contains("jiff"), "{crates:?}");
    for store in ["redb", "postgres", "tokio-postgres", "wheelwork-durable"] {
        assert!(!crates.contains(store), "{store}");
    }
}
