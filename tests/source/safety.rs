//! Promise: `unsafe` is in the files that docs/unsafe.md lists, in all of them and in no other; and
//! each atomic access has its reason above it.

use crate::source::{DOORS, File, document, files, files_named, has_durable, lines, part, words};
use std::collections::BTreeSet;

/// Files with `unsafe` that docs/unsafe.md does not list, and files that it lists which have none;
/// and files that offer something `unsafe` to users.
fn unsafe_faults(document: &str, files: &[File]) -> Vec<String> {
    let listed = files_named(part(document, "`unsafe` is in", "\n## "));
    let found: BTreeSet<_> = files
        .iter()
        .filter(|file| words(&file.code).any(|word| word == "unsafe"))
        .map(|file| file.path.clone())
        .collect();
    let missing = found
        .difference(&listed)
        .map(|path| format!("{path} has unsafe and is not listed"));
    let empty = listed
        .difference(&found)
        .map(|path| format!("{path} is listed and has no unsafe"));
    let offers = files
        .iter()
        .filter(|file| !DOORS.contains(&&*file.room) && file.code.contains("pub unsafe"));
    missing
        .chain(empty)
        .chain(offers.map(|file| format!("{} has something public that is unsafe", file.path)))
        .collect()
}

/// The lines with an atomic access that has no reason above it.
fn unexplained(source: &str) -> Vec<String> {
    const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
    /// So far above it stands, where a condition or a broken variant comes between.
    const ABOVE: usize = 8;
    let lines: Vec<_> = lines(source).collect();
    let names = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ORDERINGS
            .iter()
            .any(|ordering| code.contains(&format!("Ordering::{ordering}")))
    };
    let is_explained = |at: usize| {
        lines[at.saturating_sub(ABOVE)..at]
            .iter()
            .any(|line| line.trim_start().starts_with("// Ordering: "))
    };
    (0..lines.len())
        .filter(|&at| names(lines[at]) && !is_explained(at))
        .map(|at| lines[at].trim().to_string())
        .collect()
}

#[test]
fn unsafe_is_where_the_document_says() {
    // In a package that was downloaded, docs/unsafe.md names files that are not there.
    if has_durable() {
        assert_eq!(
            unsafe_faults(&document("docs/unsafe.md"), &files()),
            [""; 0]
        );
    }
}

#[test]
fn each_atomic_access_has_its_reason() {
    for file in files().iter().filter(|file| file.room != "internals") {
        // (`sync::ordering` hands on what its caller has explained.)
        let faults = unexplained(&file.source.replace(
            "        Ordering::Relaxed\n    } else {\n        normal\n",
            "",
        ));
        assert_eq!(faults, [""; 0], "{}", file.path);
    }
}

#[test]
fn a_file_with_unsafe_that_is_not_listed_is_seen() {
    let file = |path, source| File::new(path, source);
    let security = "`unsafe` is in `src/a.rs`, `src/b/c.rs`; see `tests/source/rooms.rs`.\n## Next\n`src/d.rs`";
    let (a, c) = (
        file("a.rs", "unsafe impl Send for A {}"),
        file("b/c.rs", "    unsafe { f() }"),
    );
    assert_eq!(unsafe_faults(security, &[a, c]), [""; 0]);
    let (a, c) = (
        file("a.rs", "fn f() {} // unsafe"),
        file("b/c.rs", "unsafe fn f() {}"),
    );
    let d = file("d.rs", "fn f() { unsafe { g() } }");
    assert_eq!(
        unsafe_faults(security, &[a, c, d]),
        [
            "d.rs has unsafe and is not listed",
            "a.rs is listed and has no unsafe"
        ]
    );
    let (a, c) = (
        file("a.rs", "pub(crate) unsafe fn f() {}"),
        file("b/c.rs", "pub unsafe fn f() {}"),
    );
    assert_eq!(
        unsafe_faults(security, &[a, c]),
        ["b/c.rs has something public that is unsafe"]
    );
}

#[test]
fn an_access_without_a_reason_is_seen() {
    let explained = "// Ordering: Relaxed. A counter.\nself.count.load(Ordering::Relaxed);\n";
    assert_eq!(unexplained(explained), [""; 0]);
    assert_eq!(
        unexplained("self.count.load(Ordering::Acquire); // so\n"),
        ["self.count.load(Ordering::Acquire); // so"]
    );
    assert_eq!(
        unexplained(
            "use std::cmp::Ordering::Less;\n#[cfg(test)]\nmod tests {\n    load(Ordering::SeqCst)\n}\n"
        ),
        [""; 0]
    );
}
