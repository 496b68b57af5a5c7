//! Documents of the repository, and what stands in them.

#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::path::Path;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository, if it is there.
pub fn read(name: &str) -> Option<String> {
    fs::read_to_string(root().join(name)).ok()
}

/// What stands between backticks, line by line.
pub fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The rows of the tables of a document between two texts: the first cell, and the others.
pub fn rows<'a>(
    document: &'a str,
    from: &str,
    to: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let part = document
        .split_once(from)
        .unwrap_or_else(|| panic!("there is no {from:?}"))
        .1;
    part.split(to)
        .next()
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
}
