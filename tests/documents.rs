//! Promise: what a document says of files, models, counts and features is so.
//!
//! - A link, and a path between backticks, goes to a file that is there. A script that is named
//!   anywhere is there.
//! - README.md has at most 130 lines. Its lines have at most 100 columns, and so have those of the
//!   other documents for users, tables aside.
//! - What README.md and the guide promise has its tests in SECURITY.md. The guide's table has the
//!   features of `Cargo.toml`; README.md's table has the report's rates.
//! - The table of loom models has each model, and no other; each fault has a model that must fail.
//! - The table of instruction counts has each count, and no other.
//! - The first column of `lessons.rs` names tests that are there.
//! - README.md has the features, and the version of Rust, that `Cargo.toml` has.
//! - The comparison has the best rate of all others in each row, tells where wheelwork is behind,
//!   and has the report's rates in its tables.
//! - ARCHITECTURE.md is a ten minutes' read. The index of decisions has each page.
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

/// What stands between backticks, line by line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether `name` is one of a function or a test: words with low lines between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Links and paths of a document that go nowhere.
fn dead_ends(document: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    const FOLDERS: [&str; 7] = [
        "src/",
        "tests/",
        "benches/",
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
        .filter(|link| !link.contains("://") && !link.starts_with("crate::"))
        .map(|link| link.split('#').next().unwrap_or_default());
    let paths = quoted(document).map(|path| path.split(' ').next().unwrap_or_default());
    let paths = paths.filter(|path| {
        FOLDERS.iter().any(|folder| path.starts_with(folder))
            && !path.contains("..")
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

/// The rows of the tables of a document between two texts: the first cell, and the others.
fn rows<'a>(
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

/// The rows of README.md's comparison with rates of the report: how each begins, and its workload,
/// threads and number of timers.
const COMPARED: [(&str, [&str; 3]); 10] = [
    ("arm; into", ["w1", "2", "1000000"]),
    ("arm; into", ["w1-cold", "2", "1000000"]),
    ("arm, cancel at once", ["w2", "2", "1000000"]),
    ("the same, 1,000", ["w2b", "2", "1000000"]),
    ("cancel a random one", ["w3", "2", "1000000"]),
    ("re-arm random ones", ["w8", "2", "1000000"]),
    ("a million due", ["w5b", "2", "1000000"]),
    ("cancel all", ["w4", "2", "1000000"]),
    ("the same, one thread", ["w4", "1", "1000000"]),
    ("arm 10,000", ["w1", "1", "10000"]),
];

/// Rates of the report that README.md's comparison has otherwise: wheelwork's own in its column, or
/// the best of all others in theirs. And better ones of others that are in no row.
fn not_compared(readme: &str, rates: &[Rate<'_>]) -> Vec<String> {
    let is_told = |cell: &str, mops| numbers(cell).any(|number| number == written(mops));
    let is_row = |begin: &str, own, best| {
        let row = rows(readme, "## Against other timers", "\n## ")
            .find(|(name, _)| name.starts_with(begin))
            .and_then(|(_, cells)| cells.split_once(" | "));
        row.is_some_and(|(ours, rest)| {
            let others = rest.split(" | ").next().unwrap_or_default();
            is_told(ours, own) && is_told(others, best)
        })
    };
    let faults = best_others(rates).into_iter().filter(|&(what, own, best)| {
        let begin = COMPARED.iter().find(|(_, of)| *of == what);
        begin.map_or(best > own, |(begin, _)| !is_row(begin, own, best))
    });
    faults
        .map(|(what, own, best)| {
            format!("{what:?}: {}, {} of another", written(own), written(best))
        })
        .collect()
}

/// The guarantees of README.md, which begin as `1. **Never early.** A timer` does.
fn guarantees(readme: &str) -> Vec<String> {
    let names = readme.lines().filter_map(|line| {
        let (number, rest) = line.split_once(". **")?;
        number.parse::<u32>().ok()?;
        Some(rest.split_once(".**")?.0.to_lowercase())
    });
    names.collect()
}

/// Promises that have no row in the table of SECURITY.md, or one that names no test.
fn untested(promises: impl IntoIterator<Item = String>, security: &str) -> Vec<String> {
    const TESTS: [&str; 3] = ["tests/", "loom-tests/", "src/"];
    let is_tested = |promise: &String| {
        rows(security, "## Promise, test", "\n## ").any(|(name, tests)| {
            name.starts_with(promise)
                && quoted(tests).any(|path| TESTS.iter().any(|folder| path.starts_with(folder)))
        })
    };
    promises
        .into_iter()
        .filter(|promise| !is_tested(promise))
        .collect()
}

/// The numbers of the lines that are longer than `columns`.
fn too_long<'a>(lines: impl Iterator<Item = &'a str>, columns: usize) -> Vec<usize> {
    let lines = lines.enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > columns)
        .map(|(number, _)| number + 1)
        .collect()
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
        rest.split([',', '}'])
            .next()
            .map(|value| value.trim_matches('"'))
    }
    let rate = |line| {
        let what = [
            value(line, "workload")?,
            value(line, "threads")?,
            value(line, "n")?,
        ];
        Some(Rate {
            subject: value(line, "subject")?,
            what,
            mops: value(line, "mops")?.parse().ok()?,
        })
    };
    report.lines().filter_map(rate).collect()
}

/// As the comparison writes it.
fn written(mops: f64) -> String {
    if mops < 100.0 {
        format!("{mops:.1}")
    } else {
        format!("{mops:.0}")
    }
}

/// The best rate of those that are not wheelwork's, each with wheelwork's own.
fn best_others<'a>(rates: &'a [Rate<'a>]) -> Vec<([&'a str; 3], f64, f64)> {
    let ours = rates.iter().filter(|rate| rate.subject == "wheelwork");
    let others = |what| {
        rates
            .iter()
            .filter(move |rate| rate.what == what && !rate.subject.starts_with("wheelwork"))
    };
    ours.map(|own| {
        (
            own.what,
            own.mops,
            others(own.what).map(|rate| rate.mops).fold(0.0, f64::max),
        )
    })
    .collect()
}

/// What a comparison leaves out of the report, though it is better than what it has: its table says
/// the best rate of all others, and the losses are told where others are ahead.
fn left_out(table: &str, losses: &str, report: &str) -> Vec<String> {
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
        table.lines().find(|line| line.starts_with(begin))
    };
    let is_told = |place: Option<&str>, mops| {
        place.is_some_and(|text| numbers(text).any(|number| number == written(mops)))
    };
    let faults =
        best_others(&rates)
            .into_iter()
            .filter(|&([workload, threads, timers], own, best)| {
                let is_row = threads == "2" && timers == "1000000";
                is_row && !is_told(row(workload), best)
                    || best > own && !is_told(Some(losses), best)
            });
    faults
        .map(|(what, _, best)| format!("{what:?}: {} of another", written(best)))
        .collect()
}

/// The cells of a table's row.
fn cells(row: &str) -> Vec<&str> {
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().trim_matches('`')).collect()
}

/// Rates of a million timers that a table (a row for each subject, a column for each workload) has
/// otherwise than the report, and subjects that it leaves out.
fn other_rates(table: &str, threads: &str, rates: &[Rate<'_>]) -> Vec<String> {
    let mut rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(cells);
    let workloads = rows.next().unwrap_or_default();
    // Below the line between head and body.
    let rows: Vec<_> = rows.skip(1).collect();
    let rate = |subject: &str, workload: &str| {
        let what = [workload, threads, "1000000"];
        let rate = rates
            .iter()
            .find(|rate| rate.subject == subject && rate.what == what);
        rate.map_or("-".to_string(), |rate| written(rate.mops))
    };
    let mut faults = Vec::new();
    for row in &rows {
        for (&cell, &workload) in row.iter().zip(&workloads).skip(1) {
            let right = rate(row[0], workload);
            if cell != right {
                faults.push(format!("{} in {workload}: {cell}, not {right}", row[0]));
            }
        }
    }
    let subjects: BTreeSet<_> = rates
        .iter()
        .filter(|rate| rate.what[1] == threads && workloads.contains(&rate.what[0]))
        .map(|rate| rate.subject)
        .collect();
    let missing = subjects
        .into_iter()
        .filter(|subject| !rows.iter().any(|row| row[0] == *subject));
    faults.extend(missing.map(|subject| format!("{subject} is left out")));
    faults
}

/// A part of a document, from its heading to the next one of this kind.
fn titled<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no {heading:?}"));
    let kind = heading.split(' ').next().unwrap_or_default();
    rest.split(&format!("\n{kind} ")).next().unwrap_or_default()
}

/// The numbers of a text, with their points.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'))
        .map(|number| number.trim_end_matches('.'))
}

#[test]
fn the_comparison_leaves_no_better_rate_out() {
    let Some(report) = read("benches/report/rivals.json") else {
        return;
    };
    let comparison = read("docs/comparison.md").unwrap();
    let rates = rates(&report);
    assert!(best_others(&rates).len() > 15, "it has all the rates");
    let faults = left_out(
        titled(&comparison, "## In short"),
        titled(&comparison, "## Where others are ahead"),
        &report,
    );
    assert_eq!(faults, [""; 0]);
    for (threads, heading) in [
        ("1", "### Rates, one thread"),
        ("2", "### Rates, two threads"),
    ] {
        let table = titled(&comparison, heading);
        assert_eq!(other_rates(table, threads, &rates), [""; 0], "{heading}");
    }
}

#[test]
fn the_architecture_is_a_ten_minutes_read() {
    let architecture = read("ARCHITECTURE.md").unwrap();
    assert!(architecture.lines().count() <= 200);
    let long = architecture.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None);
}

#[test]
fn the_index_of_decisions_has_each_page() {
    let index = read("docs/decisions/README.md").unwrap();
    let mut pages = Vec::new();
    walk(&root().join("docs/decisions"), "md", &mut pages);
    pages.retain(|page| !page.ends_with("README.md"));
    assert!(pages.len() > 40, "{} pages are not all", pages.len());
    let rows = index.lines().filter(|line| line.starts_with("| 0"));
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
            ["benches", "loom-tests", "scripts", "fuzz"]
                .iter()
                .any(|out| name.starts_with(out) && !root().join(out).exists())
        };
        let is_there = |name: &str| {
            folder.join(name).exists() || root().join(name).exists() || is_left_out(name)
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
    let unproven = faults(&read("src/sync/fault.rs").unwrap())
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
    let lessons = read("tests/lessons.rs").unwrap();
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
    let features = section(&manifest, "[features]");
    let listed = first_column(
        &read("docs/guide.md").unwrap(),
        "### Cargo features",
        "\n## ",
    );
    assert_eq!(differences(&listed, &features), [""; 0]);
    let needs = readme
        .split_once("## Needs")
        .unwrap()
        .1
        .split("\n## ")
        .next()
        .unwrap();
    let named: BTreeSet<_> = quoted(needs).map(ToString::to_string).collect();
    assert_eq!(differences(&named, &features), [""; 0]);
    if let Some((_, rust)) = manifest.split_once("\nrust-version = \"") {
        let version = rust.split('"').next().unwrap();
        assert!(
            readme.contains(&format!("({version} or later")),
            "it is {version}"
        );
    }
}

#[test]
fn the_readmes_table_has_the_reports_rates() {
    let Some(report) = read("benches/report/rivals.json") else {
        return;
    };
    let rates = rates(&report);
    for (begin, what) in COMPARED {
        assert!(rates.iter().any(|rate| rate.what == what), "{begin}");
    }
    assert_eq!(not_compared(&read("README.md").unwrap(), &rates), [""; 0]);
}

#[test]
fn what_is_promised_is_tested() {
    let security = read("SECURITY.md").unwrap();
    let guarantees = guarantees(&read("README.md").unwrap());
    assert_eq!(guarantees.len(), 6, "{guarantees:?}");
    assert_eq!(untested(guarantees, &security), [""; 0]);
    let guide = read("docs/guide.md").unwrap();
    let promises: Vec<_> = rows(&guide, "## What is promised", "\n### ")
        .map(|(promise, _)| promise.to_string())
        .filter(|promise| promise != "promise")
        .collect();
    assert!(promises.len() >= 10, "{promises:?}");
    assert_eq!(untested(promises, &security), [""; 0]);
}

#[test]
fn documents_are_short() {
    let readme = read("README.md").unwrap();
    assert!(
        readme.lines().count() <= 130,
        "{} lines",
        readme.lines().count()
    );
    assert_eq!(too_long(readme.lines(), 100), [0usize; 0], "README.md");
    let mut documents = Vec::new();
    walk(&root().join("docs"), "md", &mut documents);
    assert!(documents.len() >= 4, "{documents:?}");
    let others = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    documents.extend(others.map(|name| root().join(name)));
    for path in documents {
        let document = fs::read_to_string(&path).unwrap();
        let is_row = |line: &str| line.trim_start().starts_with('|');
        let lines = document
            .lines()
            .map(|line| if is_row(line) { "" } else { line });
        assert_eq!(too_long(lines, 100), [0usize; 0], "{}", path.display());
    }
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let document = "See [a](a.md#part), [b](b.md), [c](https://c.md).\n`tests/a.rs` and `tests/b.rs --help`, `cargo test`, `src/*/x`.";
    assert_eq!(
        dead_ends(document, |path| path.contains('a')),
        ["b.md", "tests/b.rs"]
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
    let table = "## Promise, test\n| promise | test |\n|---|---|\n| never early: so | `tests/a.rs` |\n| | `tests/b.rs` |\n| lock-free | `million` |\n## Next\n| idle | `tests/c.rs` |\n";
    let readme = "1. **Never early.** A.\n2. **Lock-free.** B.\n3. **Idle.** C.\n- **No.** D.\n";
    assert_eq!(untested(guarantees(readme), table), ["lock-free", "idle"]);
    assert_eq!(too_long("four\nfünf!\nacht".lines(), 4), [2]);
    let rate = |subject, workload, mops| Rate {
        subject,
        what: [workload, "2", "1000000"],
        mops,
    };
    let measured = [
        rate("wheelwork", "w2", 68.76),
        rate("pingora", "w2", 15.33),
        rate("wheelwork", "w9", 2.0),
        rate("heap", "w9", 3.0),
    ];
    let readme = "## Against other timers\n| arm, cancel at once | 68.8 | 15.3 (pingora) | 4.5 |\n";
    let better = "[\"w9\", \"2\", \"1000000\"]: 2.0, 3.0 of another";
    assert_eq!(not_compared(readme, &measured), [better]);
    let wrong = "[\"w2\", \"2\", \"1000000\"]: 68.8, 15.3 of another";
    for (right, other) in [("68.8", "69.8"), ("15.3", "15"), ("| arm,", "| are,")] {
        let readme = readme.replace(right, other);
        assert_eq!(not_compared(&readme, &measured), [wrong, better]);
    }
    let manifest = "[features]\n# No.\none = []\n__two = []\n\n[dependencies]\nthree = 1\n";
    assert_eq!(
        section(manifest, "[features]")
            .into_iter()
            .collect::<Vec<_>>(),
        ["one"]
    );
    let line = |subject, threads, timers, mops| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w4\",\"threads\":{threads},\"n\":{timers},\"reps\":4,\"mops\":{mops},\"x\":1}}\n"
        )
    };
    let report = ["wheelwork", "heap", "netty"]
        .into_iter()
        .zip([13.71, 150.4, 9.3])
        .map(|(subject, mops)| line(subject, 2, 1_000_000, mops));
    let report = report.collect::<String>()
        + &line("wheelwork", 1, 10_000, 11.8)
        + &line("delayqueue", 1, 10_000, 17.29);
    let losses = "The heap: 150. At 10,000: 17.3.\n";
    assert_eq!(
        left_out("| cancel all | 13.7 | 9.3; 150 (heap) |\n", losses, &report),
        [""; 0]
    );
    let faults = left_out("| cancel all | 13.7 | 9.3 |\n", "The heap: 150.\n", &report);
    assert_eq!(
        faults,
        [
            "[\"w4\", \"2\", \"1000000\"]: 150 of another",
            "[\"w4\", \"1\", \"10000\"]: 17.3 of another"
        ]
    );
    let faults = left_out(
        "| cancel all | 13.7 | 9.3; 150 (heap) |\n",
        "At 10,000: 17.3.\n",
        &report,
    );
    assert_eq!(
        faults,
        ["[\"w4\", \"2\", \"1000000\"]: 150 of another"],
        "it is a loss, too"
    );
    let document = "# D\n\n## Rates\nA\n### More\n\n## Next\n";
    assert_eq!(titled(document, "## Rates"), "A\n### More\n");
    let table = "| subject | `w2` | `w4` |\n|---|--:|--:|\n| `wheelwork` | - | 13.7 |\n| `heap` | - | 151 |\n";
    assert_eq!(
        other_rates(table, "2", &rates(&report)),
        ["heap in w4: 151, not 150", "netty is left out"]
    );
}
