//! Promise: without its features, wheelwork is the wheel alone, which needs `core` and `alloc`. The
//! library is built as a program for a machine without a system would build it, and a program that
//! has no `std` runs with it.
//!
//! rustc is called by itself: without features there is no dependency that cargo would have to
//! bring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Machines for which the wheel is built where the toolchain has their `alloc`.
const MACHINES: [&str; 6] = [
    "thumbv6m-none-eabi",
    "thumbv7em-none-eabihf",
    "thumbv7m-none-eabi",
    "riscv32imac-unknown-none-elf",
    "aarch64-unknown-none",
    "wasm32-unknown-unknown",
];

/// The compiler beside the cargo that builds this test.
fn rustc() -> Command {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let mut command = Command::new(if rustc.exists() {
        rustc
    } else {
        PathBuf::from("rustc")
    });
    command
        .args([
            "--edition",
            "2024",
            "-C",
            "panic=abort",
            "-C",
            "opt-level=1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("no_std")
        .join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[track_caller]
fn assert_built(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

/// Builds the library without features. Extra arguments go to rustc.
fn build_library(folder: &Path, arguments: &[&str]) -> Output {
    rustc()
        .args(["--crate-type", "lib", "--crate-name", "wheelwork"])
        .args(["-D", "warnings", "src/lib.rs", "--out-dir"])
        .arg(folder)
        .args(arguments)
        .output()
        .expect("rustc is there")
}

/// Builds the program with the library of this folder.
fn build_program(folder: &Path) -> Output {
    rustc()
        .args(["-D", "warnings", "tests/no_std/program.rs", "--extern"])
        .arg(format!("wheelwork={}/libwheelwork.rlib", folder.display()))
        .arg("-o")
        .arg(folder.join("program"))
        .output()
        .expect("rustc is there")
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_without_std_runs_with_the_wheel() {
    let folder = folder("program");
    assert_built(&build_library(&folder, &[]));
    assert_built(&build_program(&folder));
    let run = Command::new(folder.join("program")).status().unwrap();
    assert_eq!(run.code(), Some(0));
}

/// The program's own panic handler is what notices.
#[test]
#[cfg(target_os = "linux")]
fn a_library_that_brings_std_is_seen() {
    let folder = folder("broken");
    let source = folder.join("lib.rs");
    let std = "pub mod wheel { pub use std::collections::BTreeMap as Wheel; }";
    fs::write(&source, std).unwrap();
    let built = rustc()
        .args([
            "--crate-type",
            "lib",
            "--crate-name",
            "wheelwork",
            "--out-dir",
        ])
        .args([&folder, &source])
        .output();
    assert_built(&built.expect("rustc is there"));
    let refused = build_program(&folder);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("duplicate lang item"), "{error}");
}

#[test]
fn the_wheel_is_built_for_machines_without_a_system() {
    for machine in MACHINES {
        let found = rustc()
            .args(["--print", "target-libdir", "--target", machine])
            .output()
            .expect("rustc is there");
        let libraries = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
        if !libraries.exists() {
            println!("left out: the toolchain has nothing for {machine}");
            continue;
        }
        let target = ["--target", machine, "--emit", "metadata"];
        assert_built(&build_library(&folder(machine), &target));
    }
}
