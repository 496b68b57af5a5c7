//! Promise: no two files of a room lean on each other, directly or by way of others.
//!
//! A file leans on another one that it names: by `super::`, `crate::room::`, or, in a `mod.rs`, by
//! the child's own name. What a `mod.rs` hands on (`pub use`) is looked up where it is made.

use crate::source::{File, code, is_word};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below the folder that is looked at: of `lane/mod.rs` it is `lane`.
fn module(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_string).collect()
}

/// The statements of a code that begin with `use`, each with whether it is handed on; and the rest.
fn split_uses(code: &str) -> (Vec<(bool, String)>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::new());
    let mut statement: Option<(bool, String)> = None;
    for line in code.lines() {
        let text = line.trim();
        let begins = text
            .strip_prefix("use ")
            .map(|path| (false, path))
            .or_else(|| {
                let after = text.strip_prefix("pub")?;
                let after = after.strip_prefix('(').map_or(after, |rest| {
                    rest.split_once(')').map_or(rest, |(_, rest)| rest)
                });
                Some((true, after.trim().strip_prefix("use ")?))
            });
        if statement.is_none()
            && let Some((is_public, path)) = begins
        {
            statement = Some((is_public, path.to_string()));
        } else if let Some((_, path)) = &mut statement {
            path.push_str(text);
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
        if let Some((is_public, path)) = statement.take_if(|(_, path)| path.ends_with(';')) {
            uses.push((is_public, path.trim_end_matches(';').to_string()));
        }
    }
    (uses, rest)
}

/// All paths of a `use`, without its groups.
fn flat(path: &str) -> Vec<String> {
    let Some(open) = path.find('{') else {
        return vec![path.split(" as ").next().unwrap_or(path).trim().to_string()];
    };
    let (before, group) = (&path[..open], &path[open + 1..path.rfind('}').unwrap()]);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    let parts = parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .flat_map(|part| flat(&format!("{before}{part}")))
        .map(|path| path.trim_end_matches("::self").to_string())
        .collect()
}

/// Paths in a code that is no `use`: `super::a::b`, `crate::a`, and `child::a`. To whom an item is
/// visible (`pub(in crate::a)`) is no path.
fn inline(rest: &str) -> Vec<String> {
    let mut parts = rest.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_string();
    let rest = parts.fold(first, |code, part| {
        code + part.split_once(')').map_or(part, |(_, item)| item)
    });
    let is_path = |letter: char| is_word(letter) || letter == ':';
    rest.split(|letter| !is_path(letter))
        .map(|path| path.trim_matches(':'))
        .filter(|path| path.contains("::"))
        .map(str::to_string)
        .collect()
}

/// The files of a tree, by their modules, with what each leans on.
struct Tree {
    files: BTreeMap<Vec<String>, String>,
    /// What a module hands on: its name there, and the path.
    handed_on: BTreeMap<Vec<String>, Vec<(String, String)>>,
    paths: BTreeMap<Vec<String>, Vec<String>>,
}

impl Tree {
    fn new(files: &[File]) -> Self {
        let mut tree = Self {
            files: BTreeMap::new(),
            handed_on: BTreeMap::new(),
            paths: BTreeMap::new(),
        };
        for file in files {
            let module = module(&file.path);
            let (uses, rest) = split_uses(&file.code);
            let all = uses.iter().flat_map(|(is_public, path)| {
                flat(path).into_iter().map(move |path| (*is_public, path))
            });
            for (is_public, path) in all {
                if is_public && file.path.ends_with("mod.rs") {
                    let name = path.rsplit("::").next().unwrap_or(&path).to_string();
                    tree.handed_on
                        .entry(module.clone())
                        .or_default()
                        .push((name, path));
                } else {
                    tree.paths.entry(module.clone()).or_default().push(path);
                }
            }
            tree.paths
                .entry(module.clone())
                .or_default()
                .extend(inline(&rest));
            tree.files.insert(module, file.path.clone());
        }
        tree
    }

    /// The module that a path leads to from another one. `None`: out of the tree.
    fn target(&self, from: &[String], path: &str, depth: usize) -> Option<Vec<String>> {
        let mut at = from.to_vec();
        let mut names = path.split("::").peekable();
        match names.peek().copied()? {
            "crate" => {
                names.next();
                at.clear();
            }
            "self" => _ = names.next(),
            "super" => {
                while names.next_if(|&name| name == "super").is_some() {
                    at.pop();
                }
            }
            name => {
                let child = [from, &[name.to_string()]].concat();
                if !self.files.contains_key(&child) {
                    return None;
                }
            }
        }
        for name in names {
            let child = [&at[..], &[name.to_string()]].concat();
            if self.files.contains_key(&child) {
                at = child;
                continue;
            }
            let handed_on = self.handed_on.get(&at).into_iter().flatten();
            let mut found = handed_on.filter(|(own, _)| own == name);
            if let Some((_, path)) = found.next()
                && depth < 4
            {
                return self.target(&at.clone(), path, depth + 1).or(Some(at));
            }
            break;
        }
        self.files.contains_key(&at).then_some(at)
    }

    /// The files that each file leans on, within its room.
    fn links(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let links = self.paths.iter().map(|(module, paths)| {
            let targets = paths.iter().filter_map(|path| self.target(module, path, 0));
            let own_room = targets.filter(|target| target != module && target[0] == module[0]);
            let names = own_room.map(|target| &*self.files[&target]);
            (&*self.files[module], names.collect())
        });
        links.collect()
    }
}

/// The circles: each as the files on it, once.
fn circles(files: &[File]) -> Vec<String> {
    fn walk<'a>(
        links: &BTreeMap<&'a str, BTreeSet<&'a str>>,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
        circles: &mut Vec<String>,
    ) {
        let last = way[way.len() - 1];
        for &next in links.get(last).into_iter().flatten() {
            if let Some(start) = way.iter().position(|&file| file == next) {
                circles.push(way[start..].join(" -> "));
            } else if !done.contains(next) {
                way.push(next);
                walk(links, way, done, circles);
                way.pop();
            }
        }
        done.insert(last);
    }
    let tree = Tree::new(files);
    let links = tree.links();
    let (mut done, mut circles) = (BTreeSet::new(), Vec::new());
    for &file in links.keys() {
        if !done.contains(file) {
            walk(&links, &mut vec![file], &mut done, &mut circles);
        }
    }
    circles
}

/// The files below a folder, but those of tests.
fn below(folder: &str) -> Vec<File> {
    fn walk(folder: &Path, top: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(top)
                .unwrap()
                .to_str()
                .unwrap()
                .replace('\\', "/");
            if path.is_dir() {
                walk(&path, top, files);
            } else if name.ends_with(".rs") && !name.contains("tests") {
                files.push(File::new(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    if top.exists() {
        walk(&top, &top, &mut files);
    }
    files
}

#[test]
fn no_files_of_a_room_lean_on_each_other() {
    let files = below("src");
    assert!(files.len() > 60, "{} files are not the source", files.len());
    assert_eq!(circles(&files), [""; 0]);
    let durable = below("durable/src").into_iter().map(File::into_durable);
    assert_eq!(circles(&durable.collect::<Vec<_>>()), [""; 0]);
}

/// The harnesses are built from this repository alone: a package of the crate does not have them.
#[test]
fn nor_do_those_of_a_harness() {
    for sources in [
        "benches/src",
        "benches/kit/src",
        "verify/endure",
        "verify/kills",
    ] {
        assert_eq!(circles(&below(sources)), [""; 0]);
    }
    for program in [
        "timers", "wheels", "futures", "maps", "servers", "stores", "fleets",
    ] {
        assert_eq!(circles(&below(&format!("compare/{program}/src"))), [""; 0]);
    }
}

#[test]
fn a_circle_is_seen() {
    let file = |path: &str, source: &str| File::new(path, source);
    let top = "mod a;\nmod b;\npub(crate) use a::A;\npub(crate) trait T {}\n";
    let found =
        |a: &str, b: &str| circles(&[file("r/mod.rs", top), file("r/a.rs", a), file("r/b.rs", b)]);
    assert_eq!(found("use super::T;", "use super::{A, T};"), [""; 0]);
    assert_eq!(
        found("use super::b::B;", "use super::{A, T};"),
        ["r/a.rs -> r/b.rs"]
    );
    assert_eq!(
        found("fn f() { crate::r::b::g() }", "use super::a::f;"),
        ["r/a.rs -> r/b.rs"]
    );
    assert_eq!(found("// super::b", "use super::a::f;"), [""; 0]);
    let leaning = "mod a;\nuse a::A;\npub struct S(A);\n";
    let circle = circles(&[file("r/mod.rs", leaning), file("r/a.rs", "use super::S;")]);
    assert_eq!(circle, ["r/a.rs -> r/mod.rs"]);
    let visible = file("r/a.rs", "pub(in crate::r) struct A;\n");
    assert_eq!(circles(&[file("r/mod.rs", leaning), visible]), [""; 0]);
    assert_eq!(
        flat("super::{a::{B, C}, d::self, E as F}"),
        ["super::a::B", "super::a::C", "super::d", "super::E"]
    );
    assert_eq!(code("use a::B; // c\n"), "use a::B; \n");
}
