//! Promise: what a document says of files, models, counts and features is so.
//!
//! - A link, and a path between backticks, goes to a file that is there.
//! - The table of loom models has each model, and no other; each fault has a model that must fail.
//! - The table of instruction counts has each count, and no other.
//! - The first column of `lessons.rs` names tests that are there.
//! - README.md has the features, and the version of Rust, that `Cargo.toml` has.
//! - Its comparison has the best rate of all others in each row, and tells where wheelwork is behind.
//!
//! In a package that was downloaded only a part of this is there: what is not is not looked at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository, if it is there.
fn read(name: &str) -> Option<String> {
    fs::read_to_string(root().join(name)).ok()
}

/// Files below a folder, of this extension.
fn walk(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            walk(&path, extension, files);
        } else if path.extension().is_some_and(|has| has == extension) {
            files.push(path);
        }
    }
}

/// What stands between backticks, line by line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether `name` is one of a function or a test: words with low lines between them.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Links and paths of a document that go nowhere.
fn dead_ends(document: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    const FOLDERS: [&str; 6] = ["src/", "tests/", "benches/", "loom-tests/", "examples/", "scripts/"];
    let links = document.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let links =
        links.filter(|link| !link.contains("://") && !link.starts_with("crate::")).map(|link| link.split('#').next().unwrap_or_default());
    let paths = quoted(document).map(|path| path.split(' ').next().unwrap_or_default());
    let paths = paths.filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.contains("..") && !path.contains('*'));
    links.chain(paths).filter(|path| !path.is_empty() && !is_there(path)).map(ToString::to_string).collect()
}

/// The models of a file: its tests, but for those that must fail.
fn models(file: &str, source: &str) -> BTreeSet<String> {
    let names = source.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
    names.filter(|name| !name.starts_with("broken_")).map(|name| format!("{file}::{name}")).collect()
}

/// The models that a table names.
fn models_named(table: &str) -> BTreeSet<String> {
    let is_model =
        |name: &&str| name.split_once("::").is_some_and(|(file, model)| is_name(file) && is_name(model) && !model.starts_with("broken_"));
    quoted(table).filter(is_model).map(ToString::to_string).collect()
}

/// The values of `Fault`.
fn faults(sync: &str) -> BTreeSet<String> {
    let values = sync.split_once("pub enum Fault {").unwrap().1.split_once("\n}").unwrap().0;
    values.lines().filter_map(|line| line.trim().strip_suffix(',')).map(ToString::to_string).collect()
}

/// What is in one set alone.
fn differences(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Vec<String> {
    one.symmetric_difference(other).cloned().collect()
}

/// The first column of a table's rows between two texts: what is quoted there.
fn first_column(document: &str, from: &str, to: &str) -> BTreeSet<String> {
    let part = document.split_once(from).unwrap_or_else(|| panic!("there is no {from:?}")).1;
    let rows = part.split(to).next().unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(quoted).map(ToString::to_string).collect()
}

/// The names of a section of a manifest.
fn section(manifest: &str, title: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != title).skip(1).take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| !name.starts_with(['#', '_']));
    names.map(ToString::to_string).collect()
}

/// A rate of the report: million operations a second.
struct Rate<'a> {
    subject: &'a str,
    /// Workload, threads and number of timers.
    what: [&'a str; 3],
    mops: f64,
}

/// The rates of a report, which has one flat object in each line.
fn rates(report: &str) -> Vec<Rate<'_>> {
    fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}']).next().map(|value| value.trim_matches('"'))
    }
    let rate = |line| {
        let what = [value(line, "workload")?, value(line, "threads")?, value(line, "n")?];
        Some(Rate { subject: value(line, "subject")?, what, mops: value(line, "mops")?.parse().ok()? })
    };
    report.lines().filter_map(rate).collect()
}

/// As the comparison writes it.
fn written(mops: f64) -> String {
    if mops < 100.0 { format!("{mops:.1}") } else { format!("{mops:.0}") }
}

/// The best rate of those that are not wheelwork's, each with wheelwork's own.
fn best_others<'a>(rates: &'a [Rate<'a>]) -> Vec<([&'a str; 3], f64, f64)> {
    let ours = rates.iter().filter(|rate| rate.subject == "wheelwork");
    let others = |what| rates.iter().filter(move |rate| rate.what == what && !rate.subject.starts_with("wheelwork"));
    ours.map(|own| (own.what, own.mops, others(own.what).map(|rate| rate.mops).fold(0.0, f64::max))).collect()
}

/// What a comparison leaves out of the report, though it is better than what it has.
fn left_out(comparison: &str, report: &str) -> Vec<String> {
    const ROWS: [(&str, &str); 8] = [
        ("w1", "| arm; into"),
        ("w1-cold", "| arm; into"),
        ("w2", "| arm, cancel at once"),
        ("w2b", "| the same, 1,000"),
        ("w3", "| cancel a random one"),
        ("w4", "| cancel all"),
        ("w8", "| re-arm random ones"),
        ("w5b", "| a million due"),
    ];
    let rates = rates(report);
    let row = |workload| {
        let (_, begin) = ROWS.iter().find(|(name, _)| *name == workload)?;
        comparison.lines().find(|line| line.starts_with(begin))
    };
    let is_told = |place: Option<&str>, mops| place.is_some_and(|text| numbers(text).any(|number| number == written(mops)));
    let faults = best_others(&rates).into_iter().filter(|&([workload, threads, timers], own, best)| {
        let is_row = threads == "2" && timers == "1000000";
        is_row && !is_told(row(workload), best) || best > own && !is_told(Some(comparison), best)
    });
    faults.map(|(what, _, best)| format!("{what:?}: {} of another", written(best))).collect()
}

/// The numbers of a text, with their points.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.')).map(|number| number.trim_end_matches('.'))
}

#[test]
fn the_comparison_leaves_no_better_rate_out() {
    let Some(report) = read("benches/report/rivals.json") else { return };
    let readme = read("README.md").unwrap();
    let comparison = readme.split_once("## Against other timers").unwrap().1.split("\n## ").next().unwrap();
    assert!(best_others(&rates(&report)).len() > 15, "it has all the rates");
    assert_eq!(left_out(comparison, &report), [""; 0]);
}

#[test]
fn links_and_paths_go_to_files() {
    let mut documents = Vec::new();
    walk(root(), "md", &mut documents);
    assert!(documents.len() > 5, "{} documents are not all", documents.len());
    for path in documents {
        let folder = path.parent().unwrap();
        // A folder that is not in the package.
        let is_left_out =
            |name: &str| ["benches", "loom-tests", "scripts", "fuzz"].iter().any(|out| name.starts_with(out) && !root().join(out).exists());
        let is_there = |name: &str| folder.join(name).exists() || root().join(name).exists() || is_left_out(name);
        assert_eq!(dead_ends(&fs::read_to_string(&path).unwrap(), is_there), [""; 0], "{}", path.display());
    }
}

#[test]
fn the_table_of_models_has_them_all() {
    let Some(table) = read("loom-tests/README.md") else { return };
    let (mut paths, mut all, mut sources) = (Vec::new(), BTreeSet::new(), String::new());
    walk(&root().join("loom-tests/tests"), "rs", &mut paths);
    for path in paths {
        let source = fs::read_to_string(&path).unwrap();
        all.append(&mut models(path.file_stem().unwrap().to_str().unwrap(), &source));
        sources.push_str(&source);
    }
    assert!(all.len() > 40, "{} models are not all", all.len());
    assert_eq!(differences(&all, &models_named(&table)), [""; 0]);
    let unproven = faults(&read("src/sync.rs").unwrap()).into_iter().filter(|fault| !sources.contains(&format!("Fault::{fault}")));
    assert_eq!(unproven.collect::<Vec<_>>(), [""; 0], "no model fails with these");
}

#[test]
fn the_table_of_counts_has_them_all() {
    let (Some(readme), Some(counts)) = (read("benches/README.md"), read("benches/instructions.txt")) else { return };
    let counted =
        counts.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).filter(|name| is_name(name) && *name != "rustc");
    let listed = first_column(&readme, "# instructions", "\n# parts");
    assert_eq!(differences(&listed, &counted.map(ToString::to_string).collect()), [""; 0]);
}

#[test]
fn lessons_name_their_tests() {
    let lessons = read("tests/lessons.rs").unwrap();
    let table: String = lessons.lines().filter_map(|line| Some(line.strip_prefix("//! |")?.to_string() + "\n")).collect();
    let named: Vec<_> = quoted(&table).filter(|name| is_name(name)).collect();
    let missing: Vec<_> = named.iter().filter(|name| !lessons.contains(&format!("fn {name}()"))).collect();
    assert!(named.len() >= 8 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_readme_has_the_features_and_the_version_of_rust() {
    let (readme, manifest) = (read("README.md").unwrap(), read("Cargo.toml").unwrap());
    let listed = first_column(&readme, "### Cargo features", "\n## ");
    assert_eq!(differences(&listed, &section(&manifest, "[features]")), [""; 0]);
    if let Some((_, rust)) = manifest.split_once("\nrust-version = \"") {
        let version = rust.split('"').next().unwrap();
        assert!(readme.contains(&format!("({version} or later")), "it is {version}");
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let document = "See [a](a.md#part), [b](b.md), [c](https://c.md).\n`tests/a.rs` and `tests/b.rs --help`, `cargo test`, `src/*/x`.";
    assert_eq!(dead_ends(document, |path| path.contains('a')), ["b.md", "tests/b.rs"]);
    let source = "fn help() {}\n#[test]\nfn one() {}\n#[test]\nfn broken_two() {}\n";
    assert_eq!(models("lane", source).into_iter().collect::<Vec<_>>(), ["lane::one"]);
    assert_eq!(differences(&models("lane", source), &models_named("| `lane::two` | `Fault::X` |")), ["lane::one", "lane::two"]);
    assert_eq!(faults("pub enum Fault {\n    /// What.\n    One,\n    Two,\n}\n").into_iter().collect::<Vec<_>>(), ["One", "Two"]);
    let table = "# t\n| name | what |\n|---|---|\n| `a`, `b` | `c` |\n# next\n| `d` | |\n";
    assert_eq!(first_column(table, "# t", "\n# ").into_iter().collect::<Vec<_>>(), ["a", "b"]);
    let manifest = "[features]\n# No.\none = []\n__two = []\n\n[dependencies]\nthree = 1\n";
    assert_eq!(section(manifest, "[features]").into_iter().collect::<Vec<_>>(), ["one"]);
    let line = |subject, threads, timers, mops| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w4\",\"threads\":{threads},\"n\":{timers},\"reps\":4,\"mops\":{mops},\"x\":1}}\n"
        )
    };
    let report =
        ["wheelwork", "heap", "netty"].into_iter().zip([13.71, 150.4, 9.3]).map(|(subject, mops)| line(subject, 2, 1_000_000, mops));
    let report = report.collect::<String>() + &line("wheelwork", 1, 10_000, 11.8) + &line("delayqueue", 1, 10_000, 17.29);
    assert_eq!(left_out("At 10,000: 17.3.\n| cancel all | 13.7 | 9.3; 150 (heap) |\n", &report), [""; 0]);
    let faults = left_out("Others: 150.\n| cancel all | 13.7 | 9.3 |\n", &report);
    assert_eq!(faults, ["[\"w4\", \"2\", \"1000000\"]: 150 of another", "[\"w4\", \"1\", \"10000\"]: 17.3 of another"]);
}
