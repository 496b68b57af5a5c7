//! Promise: a program that uses wheelwork without features builds these crates, and no other.
//!
//! What a program waits for when it is built is mostly its number of crates. A crate more is a
//! decision: `docs/decisions/089-what-a-program-builds.md` and 093. How long a build takes:
//! `scripts/bench build`.

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

#[test]
fn a_program_without_features_builds_these_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A package that was downloaded has no lock file, and its crates may not be there.
    if !root.join("Cargo.lock").exists() {
        return;
    }
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "wheelwork", "--locked", "--offline"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(root)
        .output()
        .expect("cargo is there");
    let text = String::from_utf8_lossy(&tree.stdout);
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    let crates: BTreeSet<String> = text.lines().map(name).collect();
    let error = String::from_utf8_lossy(&tree.stderr);
    assert_eq!(crates, CRATES.map(str::to_string).into(), "{error}");
}
