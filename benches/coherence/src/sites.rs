//! Sites: instructions of this program by function, file and line, by `addr2line`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The function, without its arguments and the arguments of its types.
    pub(crate) function: String,
    /// File and line, from the folder of sources on.
    pub(crate) line: String,
}

/// The places of these sites: of the code that was inlined there the innermost that is not
/// std's.
pub(crate) fn places(sites: &BTreeSet<u64>) -> Result<BTreeMap<u64, Place>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let base = base(&program.display().to_string())?;
    // The site is the instruction after the call.
    let asked = sites.iter().map(|site| site - base - 1);
    let asked: String = asked.map(|address| format!("{address:x}\n")).collect();
    let mut child = Command::new("addr2line")
        .args([
            "--functions",
            "--inlines",
            "--demangle",
            "--addresses",
            "--exe",
        ])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("addr2line: {error}"))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    // What could not be written is missing below.
    let _ = writer.join();
    let text = String::from_utf8_lossy(&output.stdout);
    let places: Vec<_> = answers(&text).map(|frames| place(&frames)).collect();
    if places.len() != sites.len() {
        return Err(format!(
            "addr2line knows {} of {} sites",
            places.len(),
            sites.len()
        ));
    }
    Ok(sites.iter().copied().zip(places).collect())
}

/// Where the program begins in memory.
fn base(program: &str) -> Result<u64, String> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let line = maps.lines().find(|line| line.ends_with(program));
    let start = line.and_then(|line| line.split('-').next());
    let start = start.and_then(|start| u64::from_str_radix(start, 16).ok());
    start.ok_or_else(|| format!("{program} is not in /proc/self/maps"))
}

/// For each address the functions and lines that it belongs to, innermost first.
fn answers(text: &str) -> impl Iterator<Item = Vec<Place>> {
    let answers = text.split("0x").skip(1);
    answers.map(|answer| {
        let lines: Vec<_> = answer.lines().skip(1).collect();
        let pairs = lines.chunks_exact(2);
        pairs.map(|pair| Place::of(pair[0], pair[1])).collect()
    })
}

fn place(frames: &[Place]) -> Place {
    let own = frames.iter().find(|frame| !frame.is_std());
    let place = own.or(frames.first()).cloned();
    place.unwrap_or_else(|| Place::of("??", "??"))
}

impl Place {
    fn of(function: &str, line: &str) -> Self {
        let line = line.split(" (").next().unwrap_or_default();
        // A crate's folder is below that of its registry.
        let of_registry = |rest: &str| rest.find('/').map(|end| end + 1);
        let start = match line.split_once("/registry/src/") {
            Some((_, rest)) => Some(line.len() - rest.len() + of_registry(rest).unwrap_or(0)),
            None => ["/library/", "/benches/", "/src/"]
                .iter()
                .filter_map(|folder| Some(line.find(folder)? + 1))
                .min(),
        };
        Self {
            function: without_arguments(function),
            line: line[start.unwrap_or(0)..].to_string(),
        }
    }

    /// The file without the line.
    pub(crate) fn file(&self) -> &str {
        self.line.split(':').next().unwrap_or_default()
    }

    fn is_std(&self) -> bool {
        self.line.starts_with("library/") || self.line.starts_with("??")
    }
}

/// A name without what stands between angle brackets, and without a hash at its end.
fn without_arguments(function: &str) -> String {
    let (mut depth, mut name) = (0_usize, String::new());
    for letter in function.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    let parts = name.split("::").filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.filter(|part| !is_hash(part)).collect();
    parts[parts.len().saturating_sub(3)..].join("::")
}

fn is_hash(part: &str) -> bool {
    part.len() == 17
        && part.starts_with('h')
        && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_that_is_not_stds_is_shown() {
        let text = "\
0x0000000000017e5b
core::sync::atomic::AtomicU64::load::h0123456789abcdef
/rustc/59/library/core/src/sync/atomic.rs:2900
<crossbeam_epoch::epoch::AtomicEpoch>::load
/root/.cargo/registry/src/index-19/crossbeam-epoch-0.9.21/src/epoch.rs:110 (discriminator 2)
wheelwork::engine::Cells<T>::look_up
/a/wheelwork/src/engine/cells.rs:7
0x0000000000000001
??
??:0
";
        let answers: Vec<_> = answers(text).map(|frames| place(&frames)).collect();
        let shown = [
            ("load", "crossbeam-epoch-0.9.21/src/epoch.rs:110"),
            ("??", "??:0"),
        ];
        for (place, (function, line)) in answers.iter().zip(shown) {
            assert_eq!(
                (place.function.as_str(), place.line.as_str()),
                (function, line)
            );
        }
        assert_eq!(answers.len(), 2);
        assert_eq!(answers[0].file(), "crossbeam-epoch-0.9.21/src/epoch.rs");
        let own = Place::of("a::b<c::d>::e", "/a/wheelwork/src/engine/cells.rs:7");
        assert_eq!(
            (own.function.as_str(), own.line.as_str()),
            ("a::b::e", "src/engine/cells.rs:7")
        );
    }
}
