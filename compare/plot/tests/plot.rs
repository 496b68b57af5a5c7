//! `plot`, and the report that lies in the repository: its pictures are those of its figures.

use std::path::{Path, PathBuf};
use std::process::Command;

fn report() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report")
}

/// Plots the report's figures into a new folder.
fn plotted() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wheelwork-plot-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("the folder is ours");
    let output = Command::new(env!("CARGO_BIN_EXE_plot"))
        .args([report().join("timers.json"), folder.join("page.html")])
        .arg("--pictures")
        .arg(&folder)
        .output()
        .expect("the binary was built");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    folder
}

#[test]
fn the_reports_pictures_are_those_of_its_figures() {
    let folder = plotted();
    let pictures = [
        (
            "w2b.svg",
            "w2b-arm-cancel-1000-inserts-later-1000000-timers-2-producers.svg",
        ),
        (
            "growth.svg",
            "w3-cost-by-the-number-of-timers-one-thread.svg",
        ),
    ];
    for (name, file) in pictures {
        let read = |path: PathBuf| std::fs::read_to_string(path).expect("it is there");
        assert!(
            read(report().join(name)) == read(folder.join(file)),
            "{name} is not what plot makes of the figures: compare/README.md says how to make it"
        );
    }
    let page = std::fs::read_to_string(folder.join("page.html")).expect("it was written");
    assert!(page.matches("<svg").count() > 30, "a chart for each group");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
