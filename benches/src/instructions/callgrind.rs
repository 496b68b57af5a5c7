//! Callgrind: a process for each count, with nothing counted but what is to be.

use crate::count::{COUNTED, Count};
use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use wheelwork_kit::system;

/// What each of them takes: name, instructions for one operation.
pub(crate) fn measure(counts: &[Count]) -> Result<Vec<(String, f64)>, String> {
    let next = AtomicUsize::new(0);
    // Ordering: Relaxed. Only the number matters.
    let mine = || counts.get(next.fetch_add(1, Ordering::Relaxed));
    let work = || -> Vec<_> {
        let mine = std::iter::from_fn(mine);
        mine.map(|count| (count.name, instructions(count)))
            .collect()
    };
    let measured: HashMap<_, _> = thread::scope(|scope| {
        let threads: Vec<_> = (0..system::cores()).map(|_| scope.spawn(work)).collect();
        let threads = threads.into_iter();
        threads
            .flat_map(|thread| thread.join().expect("it does not panic"))
            .collect()
    });
    let of = |count: &Count| Ok((count.name.to_string(), measured[count.name].clone()?));
    counts.iter().map(of).collect()
}

fn instructions(count: &Count) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(program)
        .args(["--run", count.name])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    match collected(&log) {
        Some(instructions) if output.status.success() && instructions > 0.0 => {
            Ok(instructions / count.operations as f64)
        }
        _ => Err(format!("{} was not counted: {}", count.name, said(&log))),
    }
}

/// Instructions, from what callgrind says at its end.
fn collected(log: &str) -> Option<f64> {
    log.lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// What is not callgrind's: a panic.
fn said(log: &str) -> String {
    log.lines()
        .filter(|line| !line.starts_with("==") && !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_found_in_the_log() {
        let log = "==7== Events    : Ir\n==7== Collected : 6842113\n==7== \n";
        assert_eq!(collected(log), Some(6_842_113.0));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
