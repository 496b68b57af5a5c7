//! Callgrind: a process for each count, with nothing counted but what is to be.

use crate::count::{COUNTED, Count};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What each of them takes: name, instructions for one operation.
pub(crate) fn measure(counts: &[Count]) -> Result<Vec<(String, f64)>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        // Ordering: Relaxed. Only the number matters.
        let mine = || counts.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(mine).map(|(position, count)| (position, instructions(count.name))).collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut measured: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    measured.sort_by_key(|&(position, _)| position);
    measured.into_iter().zip(counts).map(|((_, instructions), count)| Ok((count.name.to_string(), instructions?))).collect()
}

fn instructions(name: &str) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", &format!("--toggle-collect={COUNTED}")])
        .arg(program)
        .args(["--run", name])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let (out, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let operations: Option<f64> = out.trim().parse().ok();
    match (output.status.success(), collected(&log), operations) {
        (true, Some(instructions), Some(operations)) if instructions > 0.0 => Ok(instructions / operations),
        _ => Err(format!("{name} was not counted: {}", said(&log))),
    }
}

/// Instructions, from what callgrind says at its end.
fn collected(log: &str) -> Option<f64> {
    log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// What is not callgrind's: a panic.
fn said(log: &str) -> String {
    log.lines().filter(|line| !line.starts_with("==") && !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_found_in_the_log() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 6842113\n==7== \n"), Some(6_842_113.0));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
