//! Promise: every public item says what it is. Types, traits and free functions show an example, or
//! where there is one. Each example runs.
//!
//! Reads the source; what is hidden from the documentation counts as private.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms and files without public items.
const PRIVATE: [&str; 4] = ["sync", "internals", "internals.rs", "tests.rs"];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if PRIVATE.contains(&name) {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// The kind and name of a public item that begins in this line. Modules have their text in their
/// own files.
fn item(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["const ", "async ", "unsafe "]
        .into_iter()
        .fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
    let is_item = ["fn ", "struct ", "enum ", "trait ", "type "]
        .into_iter()
        .any(|kind| rest.starts_with(kind));
    is_item.then(|| {
        rest.split(['(', '<', '{', ';', ':'])
            .next()
            .unwrap_or(rest)
            .trim()
            .to_string()
    })
}

/// What is wrong with the documentation of the public items of a source.
fn faults(source: &str) -> Vec<String> {
    let lines: Vec<_> = source.lines().collect();
    let mut faults = Vec::new();
    for (number, item) in lines
        .iter()
        .enumerate()
        .filter_map(|(number, line)| Some((number, item(line)?)))
    {
        let above = lines[..number]
            .iter()
            .rev()
            .map(|line| line.trim())
            .take_while(|line| line.starts_with("///") || line.starts_with("#["));
        let above: Vec<_> = above.collect();
        if above.contains(&"#[doc(hidden)]") {
            continue;
        }
        let docs: Vec<_> = above
            .into_iter()
            .rev()
            .filter_map(|line| line.strip_prefix("///"))
            .map(str::trim)
            .collect();
        let example = docs
            .iter()
            .position(|&line| line.starts_with("# Example"))
            .map(|at| &docs[at + 1..]);
        let is_method = lines[number].starts_with(' ');
        match example {
            None if is_method && !docs.is_empty() => {}
            None => faults.push(format!("{item} has no example")),
            Some(text)
                if !text
                    .iter()
                    .any(|line| line.starts_with("```") || line.starts_with("See ")) =>
            {
                faults.push(format!("{item} has an example without code"));
            }
            Some(_)
                if docs
                    .first()
                    .is_none_or(|first| first.is_empty() || first.starts_with('#')) =>
            {
                faults.push(format!("{item} does not say what it is"));
            }
            Some(text)
                if text
                    .iter()
                    .any(|line| line.starts_with("```") && !["```", "```text"].contains(line)) =>
            {
                faults.push(format!("{item}'s example does not run"));
            }
            Some(_) => {}
        }
    }
    faults
}

#[test]
fn every_public_item_has_an_example() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // In a package that was downloaded the second crate is not there.
    for folder in ["src", "durable/src"].map(|folder| root.join(folder)) {
        if folder.exists() {
            sources(&folder, &mut files);
        }
    }
    let (mut found, mut items) = (Vec::new(), 0);
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        items += source.lines().filter_map(item).count();
        found.extend(
            faults(&source)
                .into_iter()
                .map(|fault| format!("{}: {fault}", file.display())),
        );
    }
    assert!(items > 100, "{items} items are not all");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn this_test_sees_what_it_looks_for() {
    assert_eq!(
        faults("/// What.\n///\n/// # Example\n/// ```\n/// f();\n/// ```\npub fn f() {}"),
        [""; 0]
    );
    assert_eq!(
        faults("/// What.\n///\n/// # Example\n/// See [`g`].\n#[must_use]\npub const fn f() {}"),
        [""; 0]
    );
    assert_eq!(
        faults("pub(crate) fn f() {}\n#[doc(hidden)]\npub fn g() {}"),
        [""; 0]
    );
    assert_eq!(faults("    /// What.\n    pub fn f(&self) {}"), [""; 0]);
    assert_eq!(faults("    pub fn f(&self) {}"), ["fn f has no example"]);
    assert_eq!(
        faults("/// What.\npub struct S<T> {}"),
        ["struct S has no example"]
    );
    assert_eq!(
        faults("/// # Example\n/// ```\n/// ```\npub enum E {}"),
        ["enum E does not say what it is"]
    );
    assert_eq!(
        faults("/// What.\n/// # Example\n/// ```ignore\n/// ```\npub trait T: Send {}"),
        ["trait T's example does not run"]
    );
    assert_eq!(
        faults("/// What.\n/// # Example\n/// Soon.\npub type T = u8;"),
        ["type T = u8 has an example without code"]
    );
}
