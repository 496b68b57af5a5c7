//! The source, without comments and test modules, for the tests that read it. What is written in a
//! macro's own words, or hidden behind an alias, they do not see.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Not rooms: the crate's root, and the parts for the benches and the models.
pub const DOORS: [&str; 2] = ["lib", "internals"];

pub struct File {
    /// Below `src`; of a file of wheelwork-durable, with `durable/` before it.
    pub path: String,
    pub room: String,
    pub source: String,
    pub code: String,
}

impl File {
    pub fn new(path: &str, source: &str) -> Self {
        let room = path
            .split('/')
            .next()
            .unwrap()
            .trim_end_matches(".rs")
            .to_string();
        Self {
            path: path.to_string(),
            room,
            source: source.to_string(),
            code: code(source),
        }
    }

    /// Whether it is of this room, or of the part of this name of wheelwork-durable.
    pub fn is_of(&self, room: &str) -> bool {
        let part = self.path.strip_prefix("durable/");
        let part = part.and_then(|path| path.split(['/', '.']).next());
        self.room == room || part == Some(room)
    }

    /// A file of wheelwork-durable, as one of the room `durable`: its crate is this room.
    pub fn into_durable(self) -> Self {
        let name = if self.path == "lib.rs" {
            "mod.rs"
        } else {
            &self.path
        };
        let is_door = DOORS.contains(&&*self.room) && self.room != "lib";
        Self {
            path: format!("durable/{name}"),
            room: if is_door {
                self.room
            } else {
                "durable".to_string()
            },
            source: self.source,
            code: self.code.replace("crate::", "crate::durable::"),
        }
    }
}

/// The files of both crates. Those of wheelwork-durable are one room, `durable`, whose root is its
/// `mod.rs`. In a package that was downloaded they are not there.
pub fn files() -> Vec<File> {
    let mut files = files_of("src");
    assert!(files.len() > 30, "{} files are not the source", files.len());
    if has_durable() {
        let durable = files_of("durable/src");
        assert!(durable.len() > 50, "{} files are not all", durable.len());
        files.extend(durable.into_iter().map(File::into_durable));
    }
    files
}

/// Whether the source of wheelwork-durable is there.
pub fn has_durable() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("durable")
        .exists()
}

fn files_of(folder: &str) -> Vec<File> {
    fn walk(folder: &Path, src: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below: Vec<_> = path
                .strip_prefix(src)
                .unwrap()
                .iter()
                .map(|part| part.to_str().unwrap())
                .collect();
            let name = below.join("/");
            if path.is_dir() {
                walk(&path, src, files);
            } else if name.ends_with(".rs")
                && !name.ends_with("tests.rs")
                && !name.contains("/tests/")
            {
                files.push(File::new(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    walk(&src, &src, &mut files);
    files
}

/// A document at the root of the repository.
pub fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The lines of a source, without its test modules.
pub fn lines(source: &str) -> impl Iterator<Item = &str> {
    let (mut lines, mut inside) = (source.lines().peekable(), false);
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            let begins = line.starts_with("#[cfg(")
                && line.contains("test")
                && lines.peek().is_some_and(|next| next.starts_with("mod "));
            if begins {
                inside = lines
                    .next()
                    .is_some_and(|module| !module.ends_with([';', '}']));
            } else if !inside {
                return Some(line);
            } else if line == "}" {
                inside = false;
            }
        }
    })
}

/// The source without comments and test modules.
pub fn code(source: &str) -> String {
    lines(source)
        .map(|line| line.split("//").next().unwrap_or_default().to_string() + "\n")
        .collect()
}

pub fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// All words of the code: identifiers and keywords.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !is_word(letter))
        .filter(|word| !word.is_empty())
}

/// The functions of a code that `cargo fmt` has been through, each with its lines.
pub fn functions(lines: &[&str]) -> Vec<(String, Range<usize>)> {
    let name = |line: &str| {
        let (before, rest) = line.split_once("fn ")?;
        let is_item = before.split_whitespace().all(|word| {
            word.starts_with("pub")
                || word.ends_with(')')
                || ["const", "async", "unsafe", "default", "extern"].contains(&word)
        });
        let name = rest.split(|letter| !is_word(letter)).next()?;
        (is_item && !name.is_empty()).then(|| name.to_string())
    };
    let end = |from: usize| {
        let indent = &lines[from][..lines[from].len() - lines[from].trim_start().len()];
        let is_last = |line: &str| {
            let rest = line
                .strip_prefix(indent)
                .filter(|rest| !rest.starts_with(' '))
                .map(str::trim_end);
            rest.is_some_and(|rest| {
                rest == "}" || rest.ends_with([';', '}']) && !rest.starts_with('}')
            })
        };
        (from..lines.len())
            .find(|&line| is_last(lines[line]))
            .map_or(lines.len(), |line| line + 1)
    };
    lines
        .iter()
        .enumerate()
        .filter_map(|(from, line)| Some((name(line)?, from..end(from))))
        .collect()
}

/// The code of each function, without what is in functions inside it. Last and without a name: what
/// is in none.
pub fn by_function(code: &str) -> Vec<(String, String)> {
    let lines: Vec<_> = code.lines().collect();
    let functions = functions(&lines);
    let mut texts = vec![String::new(); functions.len() + 1];
    for (number, line) in lines.iter().enumerate() {
        let inside = functions
            .iter()
            .enumerate()
            .filter(|(_, (_, range))| range.contains(&number));
        let innermost = inside
            .min_by_key(|(_, (_, range))| range.len())
            .map_or(functions.len(), |(position, _)| position);
        texts[innermost].push_str(line);
        texts[innermost].push('\n');
    }
    functions
        .into_iter()
        .map(|(name, _)| name)
        .chain([String::new()])
        .zip(texts)
        .collect()
}

/// A code without the white space that two words do not need between them.
pub fn squeezed(code: &str) -> String {
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
pub fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The part of a document from one text up to another.
pub fn part<'a>(document: &'a str, from: &str, to: &str) -> &'a str {
    let start = document
        .find(from)
        .unwrap_or_else(|| panic!("there is no {from:?}"));
    let end = document[start..]
        .find(to)
        .map_or(document.len(), |end| start + end);
    &document[start..end]
}

/// What follows `crate::`, wherever it stands.
pub fn arrows(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::")
        .filter_map(|(at, crate_path)| {
            // Not the end of a macro's `$crate`, nor of some other name.
            let rest = &code[at + crate_path.len()..];
            let end = rest
                .find(|letter: char| !is_word(letter))
                .unwrap_or(rest.len());
            (!code[..at].ends_with('$')).then(|| &rest[..end])
        })
}

/// Files of the source that a part of a document names, by their paths here: of
/// `durable/src/api/client.rs` it is `durable/api/client.rs`.
pub(crate) fn files_named(part: &str) -> BTreeSet<String> {
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
