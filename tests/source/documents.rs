//! Promise: what a document says of files, models, counts and features is so.
//!
//! - A link, and a path between backticks, goes to a file that is there. A script that is named
//!   anywhere is there.
//! - What docs/promises.md promises has its tests there, in both crates. So has each call and each
//!   setting of the guide's tables, and the tests that are named use it. The guide's table has the
//!   features of `Cargo.toml`.
//! - A page of a guide stands in the table of contents and in rustdoc, and its links go to pages
//!   and headings that are there, in the repository and in rustdoc.
//! - The table of loom models has each model, and no other; each fault has a model that must fail.
//! - The table of instruction counts has each count, and no other.
//! - The first column of `lessons.rs` names tests that are there.
//! - README.md has the version of Rust that `Cargo.toml` has. That of durable links to nothing
//!   above its folder.
//! - The index of decisions has each page.
//!
//! In a package that was downloaded only a part of this is there: what is not is not looked at.

use crate::text::{quoted, read, root, rows};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files below a folder, of this extension.
fn walk(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
    {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            walk(&path, extension, files);
        } else if path.extension().is_some_and(|has| has == extension) {
            files.push(path);
        }
    }
}

/// Whether `name` is one of a function or a test: words with low lines between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// The link references that a document defines, as `[label]: target`.
fn references(document: &str) -> impl Iterator<Item = (&str, &str)> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

/// The anchors of a document's headings, as GitHub and rustdoc name them.
fn anchors(document: &str) -> BTreeSet<String> {
    let headings = document
        .lines()
        .filter_map(|line| Some(line.trim_start_matches('#').strip_prefix(' ')?.trim()));
    let is_part = |letter: &char| letter.is_alphanumeric() || "_- ".contains(*letter);
    headings
        .map(|heading| {
            let heading: String = heading.to_lowercase().chars().filter(is_part).collect();
            heading.replace(' ', "-")
        })
        .collect()
}

/// A guide: its pages by name, and the file that tells rustdoc where their links go.
struct Guide<'a> {
    pages: BTreeMap<&'a str, &'a str>,
    of_rustdoc: &'a str,
}

/// Links of a guide's pages that work in the repository or in rustdoc alone, or in none of them.
/// They work in both if they stay in the page, or name a reference that the page defines as a page,
/// and the other file as its module.
fn links_astray(guide: &Guide<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, page) in &guide.pages {
        let own: BTreeMap<_, _> = references(page).collect();
        let links = page.split("](").skip(1);
        let targets = links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
        let inline = targets.filter(|target| match target.strip_prefix('#') {
            Some(anchor) => !anchors(page).contains(anchor),
            None => !target.contains("://"),
        });
        faults.extend(inline.map(|target| format!("{name}: {target}")));
        let labels = page.split("][").skip(1);
        for label in labels.filter_map(|rest| Some(rest.split_once(']')?.0)) {
            let (file, anchor) = label.split_once('#').unwrap_or((label, ""));
            let module = format!("crate::guide::{}", label.replacen(".md", "", 1));
            let is_there = guide
                .pages
                .get(file)
                .is_some_and(|target| anchor.is_empty() || anchors(target).contains(anchor));
            let is_in_rustdoc = references(guide.of_rustdoc).any(|of| of == (label, &*module));
            if own.get(label) != Some(&label) || !is_there || !is_in_rustdoc {
                faults.push(format!("{name}: {label}"));
            }
        }
    }
    faults
}

/// Links and paths of a document that go nowhere.
fn dead_ends(document: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    const FOLDERS: [&str; 11] = [
        "src/",
        "durable/",
        "tests/",
        "benches/",
        "compare/",
        "diesel-tests/",
        "verify/",
        "loom-tests/",
        "examples/",
        "scripts/",
        "docs/",
    ];
    let links = document
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link);
    let links = links
        .chain(references(document).map(|(_, target)| target))
        .filter(|link| !link.contains("://") && !link.starts_with("crate::"))
        .map(|link| link.split('#').next().unwrap_or_default());
    let paths = quoted(document).map(|path| path.split(' ').next().unwrap_or_default());
    let paths = paths.filter(|path| {
        let below = path.trim_start_matches("../");
        FOLDERS.iter().any(|folder| below.starts_with(folder))
            && !below.contains("..")
            && !path.contains('*')
    });
    links
        .chain(paths)
        .filter(|path| !path.is_empty() && !is_there(path))
        .map(ToString::to_string)
        .collect()
}

/// Scripts that a document names and that are not there. `scripts/check loom` is one of them.
fn missing_scripts(document: &str, is_there: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let word = |text: &str| {
        let is_part = |letter: char| letter.is_ascii_lowercase() || "-_./".contains(letter);
        let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
        text[..end].trim_end_matches('.').to_string()
    };
    let calls = document.split("scripts/").skip(1).map(|rest| {
        let name = word(rest);
        // Of `scripts/check NAME` the first part counts.
        let of_it = rest[name.len()..].strip_prefix(' ').map(word);
        match of_it.filter(|of_it| !of_it.is_empty()) {
            Some(of_it) if name == "check" || name == "bench" => {
                format!("scripts/{name}.d/{of_it}")
            }
            _ => format!("scripts/{name}"),
        }
    });
    calls.filter(|path| !is_there(path)).collect()
}

/// The models of a file: its tests, without those that must fail.
fn models(file: &str, source: &str) -> BTreeSet<String> {
    let names = source
        .split("#[test]")
        .skip(1)
        .filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
    names
        .filter(|name| !name.starts_with("broken_"))
        .map(|name| format!("{file}::{name}"))
        .collect()
}

/// The models that a table names.
fn models_named(table: &str) -> BTreeSet<String> {
    let is_model = |name: &&str| {
        name.split_once("::").is_some_and(|(file, model)| {
            is_name(file) && is_name(model) && !model.starts_with("broken_")
        })
    };
    quoted(table)
        .filter(is_model)
        .map(ToString::to_string)
        .collect()
}

/// The values of `Fault`.
fn faults(sync: &str) -> BTreeSet<String> {
    let values = sync
        .split_once("pub enum Fault {")
        .unwrap()
        .1
        .split_once("\n}")
        .unwrap()
        .0;
    values
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .map(ToString::to_string)
        .collect()
}

/// What is in one set alone.
fn differences(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Vec<String> {
    one.symmetric_difference(other).cloned().collect()
}

/// The first column of a table's rows between two texts: what is quoted there.
fn first_column(document: &str, from: &str, to: &str) -> BTreeSet<String> {
    let part = document
        .split_once(from)
        .unwrap_or_else(|| panic!("there is no {from:?}"))
        .1;
    let rows = part
        .split(to)
        .next()
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(quoted).map(ToString::to_string).collect()
}

/// The promises of a document, which begin as `**Never early.** A timer` does.
fn promises(document: &str) -> Vec<String> {
    let (_, part) = document.split_once("## What is promised").unwrap();
    let part = part.split("\n## ").next().unwrap_or_default();
    let names = part
        .lines()
        .filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
    names.map(|(name, _)| name.to_lowercase()).collect()
}

/// Promises that have no row in the table of their tests, or one that names no test.
fn untested(promises: impl IntoIterator<Item = String>, document: &str) -> Vec<String> {
    const TESTS: [&str; 4] = ["tests/", "loom-tests/", "src/", "examples/"];
    let is_tested = |promise: &String| {
        rows(document, "## Tests of the promises", "\n## ").any(|(name, tests)| {
            name.to_lowercase().contains(promise)
                && quoted(tests).any(|path| TESTS.iter().any(|folder| path.starts_with(folder)))
        })
    };
    promises
        .into_iter()
        .filter(|promise| !is_tested(promise))
        .collect()
}

/// Calls of a table whose tests, which its second column names, do not use them.
fn unused(table: &str, title: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (calls, tests) in rows(table, title, "\n## ").filter(|(calls, _)| calls.starts_with('`')) {
        let sources: String = quoted(tests).filter_map(&source).collect();
        let is_used = |call: &&str| {
            let parts = sources.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            parts.into_iter().any(|part| part == *call)
        };
        faults.extend(
            quoted(calls)
                .filter(|call| !is_used(call))
                .map(ToString::to_string),
        );
    }
    faults
}

/// The names of a section of a manifest.
fn section(manifest: &str, title: &str) -> BTreeSet<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != title)
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let names = lines
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .filter(|name| !name.starts_with(['#', '_']));
    names.map(ToString::to_string).collect()
}

/// Those of the other crate, where it is there.
#[test]
fn the_guide_of_durable_has_its_features() {
    let Some(manifest) = read("durable/Cargo.toml") else {
        return;
    };
    let mut features = section(&manifest, "[features]");
    assert!(features.remove("default"));
    let guide = read("durable/docs/guide/features.md").unwrap();
    let listed = first_column(&guide, "# Cargo features", "\n## ");
    assert_eq!(differences(&listed, &features), [""; 0]);
}

/// Its package has nothing of the folders above it.
#[test]
fn the_readme_of_durable_links_to_its_own_files() {
    let Some(readme) = read("durable/README.md") else {
        return;
    };
    let own = root().join("durable");
    let there = |link: &str| !link.starts_with("..") && own.join(link).exists();
    assert_eq!(dead_ends(&readme, there), [""; 0]);
}

#[test]
fn the_index_of_decisions_has_each_page() {
    let index = read("docs/decisions/README.md").unwrap();
    let mut pages = Vec::new();
    walk(&root().join("docs/decisions"), "md", &mut pages);
    pages.retain(|page| !page.ends_with("README.md"));
    assert!(pages.len() > 40, "{} pages are not all", pages.len());
    let rows = index.lines().filter(|line| {
        let number = line.strip_prefix("| ").unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit())
    });
    assert_eq!(rows.count(), pages.len(), "each has a row");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_str().unwrap();
        let lines: Vec<_> = text.lines().collect();
        let title = lines[0].strip_prefix("# ").unwrap();
        let (number, title) = title.split_once(". ").unwrap();
        let room = lines[2].strip_prefix("Room: ").unwrap();
        let row = format!(
            "| {number} | [{title}]({name}) | {} |",
            room.trim_end_matches('.')
        );
        assert!(index.lines().any(|line| line == row), "{row}");
        assert!(name.starts_with(&format!("{number}-")), "{name}");
        let parts: Vec<_> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(
            parts,
            ["Context", "Choice", "Rejected", "Evidence"],
            "{name}"
        );
    }
}

#[test]
fn links_and_paths_go_to_files() {
    let mut documents = Vec::new();
    walk(root(), "md", &mut documents);
    assert!(
        documents.len() > 5,
        "{} documents are not all",
        documents.len()
    );
    for path in documents {
        let folder = path.parent().unwrap();
        // A folder that is not in the package.
        let is_left_out = |name: &str| {
            let name = name.trim_start_matches("../");
            [
                "benches",
                "compare",
                "diesel-tests",
                "durable",
                "fuzz",
                "loom-tests",
                "scripts",
                "verify",
            ]
            .iter()
            .any(|out| name.starts_with(out) && !root().join(out).exists())
        };
        // Paths begin in the folder of the crate. Scripts are those of the repository.
        let durable = root().join("durable");
        let krate = match path.starts_with(&durable) {
            true => &durable,
            false => root(),
        };
        let is_there = |name: &str| {
            let is_script = name.starts_with("scripts/");
            folder.join(name).exists()
                || krate.join(name).exists()
                || is_script && root().join(name).exists()
                || is_left_out(name)
        };
        let document = fs::read_to_string(&path).unwrap();
        assert_eq!(
            dead_ends(&document, is_there),
            [""; 0],
            "{}",
            path.display()
        );
        assert_eq!(
            missing_scripts(&document, is_there),
            BTreeSet::new(),
            "{}",
            path.display()
        );
    }
}

#[test]
fn the_guides_links_work_in_the_repository_and_in_rustdoc() {
    for krate in ["", "durable/"] {
        let Some(library) = read(&format!("{krate}src/lib.rs")) else {
            continue;
        };
        let folder = root().join(format!("{krate}docs/guide"));
        let mut files = Vec::new();
        walk(&folder, "md", &mut files);
        let texts: BTreeMap<_, _> = files
            .iter()
            .map(|file| {
                let name = file.file_name().unwrap().to_str().unwrap();
                (name, fs::read_to_string(file).unwrap())
            })
            .collect();
        let mut pages: BTreeMap<_, _> = texts.iter().map(|(&name, text)| (name, &**text)).collect();
        let of_rustdoc = pages.remove("links.md").unwrap();
        assert!(pages.len() > 5, "{} pages are not all", pages.len());
        for name in pages.keys() {
            assert!(library.contains(&format!("/docs/guide/{name}\"")), "{name}");
            let is_listed = references(pages["README.md"]).any(|(_, target)| target == *name);
            assert!(*name == "README.md" || is_listed, "{name} is not listed");
        }
        assert_eq!(links_astray(&Guide { pages, of_rustdoc }), [""; 0]);
    }
}

#[test]
fn the_table_of_models_has_them_all() {
    let Some(table) = read("loom-tests/README.md") else {
        return;
    };
    let (mut paths, mut all, mut sources) = (Vec::new(), BTreeSet::new(), String::new());
    walk(&root().join("loom-tests/tests"), "rs", &mut paths);
    for path in paths {
        let source = fs::read_to_string(&path).unwrap();
        all.append(&mut models(
            path.file_stem().unwrap().to_str().unwrap(),
            &source,
        ));
        sources.push_str(&source);
    }
    assert!(all.len() > 40, "{} models are not all", all.len());
    assert_eq!(differences(&all, &models_named(&table)), [""; 0]);
    let mut all_faults = faults(&read("src/sync/fault.rs").unwrap());
    all_faults.append(&mut faults(&read("durable/src/sync/fault.rs").unwrap()));
    let unproven = all_faults
        .into_iter()
        .filter(|fault| !sources.contains(&format!("Fault::{fault}")));
    assert_eq!(
        unproven.collect::<Vec<_>>(),
        [""; 0],
        "no model fails with these"
    );
}

#[test]
fn the_table_of_counts_has_them_all() {
    let (Some(readme), Some(counts)) =
        (read("benches/README.md"), read("benches/instructions.txt"))
    else {
        return;
    };
    let counted = counts
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name)
        .filter(|name| is_name(name) && *name != "rustc");
    let listed = first_column(&readme, "# instructions", "\n# parts");
    assert_eq!(
        differences(&listed, &counted.map(ToString::to_string).collect()),
        [""; 0]
    );
}

#[test]
fn lessons_name_their_tests() {
    let lessons = read("tests/it/lessons.rs").unwrap();
    let table: String = lessons
        .lines()
        .filter_map(|line| Some(line.strip_prefix("//! |")?.to_string() + "\n"))
        .collect();
    let named: Vec<_> = quoted(&table).filter(|name| is_name(name)).collect();
    let missing: Vec<_> = named
        .iter()
        .filter(|name| !lessons.contains(&format!("fn {name}()")))
        .collect();
    assert!(named.len() >= 8 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_guide_and_the_readme_have_the_features_and_the_version_of_rust() {
    let (readme, manifest) = (read("README.md").unwrap(), read("Cargo.toml").unwrap());
    let mut features = section(&manifest, "[features]");
    // The table says which these are.
    features.remove("default");
    let listed = first_column(
        &read("docs/guide/features.md").unwrap(),
        "# Cargo features",
        "\n## ",
    );
    assert_eq!(differences(&listed, &features), [""; 0]);
    if let Some((_, rust)) = manifest.split_once("\nrust-version = \"") {
        let version = rust.split('"').next().unwrap();
        assert!(
            readme.contains(&format!("({version} or later")),
            "it is {version}"
        );
    }
}

#[test]
fn what_is_promised_is_tested() {
    for (document, least) in [("docs/promises.md", 10), ("durable/docs/promises.md", 5)] {
        let Some(document) = read(document) else {
            continue;
        };
        let promises = promises(&document);
        assert!(promises.len() >= least, "{promises:?}");
        assert_eq!(untested(promises, &document), [""; 0]);
    }
}

#[test]
fn each_call_and_each_setting_has_its_test() {
    let (guide, document) = (
        read("docs/guide/timers.md").unwrap(),
        read("docs/promises.md").unwrap(),
    );
    for (begin, end, title) in [
        ("| call | what |", "| call of the", "## Tests of the calls"),
        ("| call of the", "\n## ", "## Tests of the settings"),
    ] {
        let told = first_column(&guide, begin, end);
        assert!(told.len() > 10, "{told:?} are not all");
        let tested = first_column(&document, title, "\n## ");
        assert_eq!(differences(&told, &tested), [""; 0], "{title}");
        // In a package that was downloaded the models are not there.
        if read("loom-tests/README.md").is_some() {
            assert_eq!(unused(&document, title, read), [""; 0], "{title}");
        }
    }
}

#[test]
fn each_feature_has_its_test() {
    // The second crate needs nothing of its own for `async`.
    for (krate, untested) in [("", ["", "default"]), ("durable/", ["async", "default"])] {
        let Some(manifest) = read(&format!("{krate}Cargo.toml")) else {
            continue;
        };
        let mut features = section(&manifest, "[features]");
        features.retain(|name| name != "full" && !untested.contains(&&**name));
        let document = read(&format!("{krate}docs/promises.md")).unwrap();
        let tested = first_column(&document, "## Tests of the features", "\n## ");
        assert_eq!(differences(&tested, &features), [""; 0]);
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let document = "See [a](a.md#part), [b](b.md), [c](https://c.md).\n`tests/a.rs` and `tests/b.rs --help`, `cargo test`, `src/*/x`.";
    assert_eq!(
        dead_ends(document, |path| path.contains('a')),
        ["b.md", "tests/b.rs"]
    );
    let document = "`../tests/a.rs`, `../tests/b.rs`, `../b.md`, `a/../src/b.rs`";
    assert_eq!(
        dead_ends(document, |path| path.contains('a')),
        ["../tests/b.rs"]
    );
    let document = "`scripts/old`, `scripts/check`, scripts/bench NAME.\n\
        scripts/check loom --test a\nscripts/bench none";
    let missing = missing_scripts(document, |path| {
        ["scripts/check", "scripts/bench", "scripts/check.d/loom"].contains(&path)
    });
    assert_eq!(
        missing.into_iter().collect::<Vec<_>>(),
        ["scripts/bench.d/none", "scripts/old"]
    );
    let source = "fn help() {}\n#[test]\nfn one() {}\n#[test]\nfn broken_two() {}\n";
    assert_eq!(
        models("lane", source).into_iter().collect::<Vec<_>>(),
        ["lane::one"]
    );
    assert_eq!(
        differences(
            &models("lane", source),
            &models_named("| `lane::two` | `Fault::X` |")
        ),
        ["lane::one", "lane::two"]
    );
    assert_eq!(
        faults("pub enum Fault {\n    /// What.\n    One,\n    Two,\n}\n")
            .into_iter()
            .collect::<Vec<_>>(),
        ["One", "Two"]
    );
    let table = "# t\n| name | what |\n|---|---|\n| `a`, `b` | `c` |\n# next\n| `d` | |\n";
    assert_eq!(
        first_column(table, "# t", "\n# ")
            .into_iter()
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let table = "## Tests of the promises\n| promise | test |\n|---|---|\n| never early: so | `tests/a.rs` |\n| | `tests/b.rs` |\n| lock-free | `million` |\n## Next\n| idle | `tests/c.rs` |\n";
    let promised = ["never early", "lock-free", "idle"].map(ToString::to_string);
    assert_eq!(untested(promised, table), ["lock-free", "idle"]);
    let document = "## What is promised\n**Never early.** A.\nB **No.**\n## Next\n**C.** D";
    assert_eq!(promises(document), ["never early"]);
    let table = "## T\n| call | tests |\n|---|---|\n| `one`, `two` | `a.rs` |\n| `x` | `b.rs` |\n";
    let source = |name: &str| (name == "a.rs").then(|| "one(); two_more(); x()".to_string());
    assert_eq!(unused(table, "## T", source), ["two", "x"]);
    let page = "# One\n[a](#one), [b](#two), [c](c.md), [d][b.md#part], [e][b.md#no], [f][c.md]\n\n\
        [b.md#part]: b.md#part\n[b.md#no]: b.md#no\n[c.md]: c.md\n";
    let guide = Guide {
        pages: BTreeMap::from([("a.md", page), ("b.md", "# B\n## Part\n[g][a.md]\n")]),
        of_rustdoc: "[b.md#part]: crate::guide::b#part\n[b.md#no]: crate::guide::b#no\n\
            [c.md]: crate::guide::c\n",
    };
    assert_eq!(
        links_astray(&guide),
        [
            "a.md: #two",
            "a.md: c.md",
            "a.md: b.md#no",
            "a.md: c.md",
            "b.md: a.md"
        ]
    );
    let manifest = "[features]\n# No.\none = []\n__two = []\n\n[dependencies]\nthree = 1\n";
    assert_eq!(
        section(manifest, "[features]")
            .into_iter()
            .collect::<Vec<_>>(),
        ["one"]
    );
}
