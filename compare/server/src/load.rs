//! The load: `wrk` for as fast as it goes, `h2load` for a fixed rate.

use crate::workload::Workload;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use wheelwork_kit::campaign::end_with_us;
use wheelwork_kit::line::Figures;
use wheelwork_kit::program;

/// Connections of `wrk`, each with one request under way.
const ACTIVE: usize = 64;

/// A client of `h2load` sends at a fixed interval, and all of a process send together. So there are
/// some processes, which start a while apart.
const PACED_PROCESSES: usize = 10;
const PACED_CLIENTS: usize = 10;
const APART: Duration = Duration::from_millis(1);

/// Prints what `wrk` does not: p99.9, and which errors there were.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/wrk.lua");

/// The most connections that are active at a time.
pub(crate) const ACTIVE_MAX: usize = if ACTIVE > PACED_PROCESSES * PACED_CLIENTS {
    ACTIVE
} else {
    PACED_PROCESSES * PACED_CLIENTS
};

/// Whether the program that makes the load is there. An error, in one line, if it is not.
pub(crate) fn check(workload: Workload) -> Result<(), String> {
    let (program, package) = if workload == Workload::RequestsPaced {
        ("h2load", "nghttp2-client")
    } else {
        ("wrk", "wrk")
    };
    let version = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.map(|_| ()).map_err(|error| {
        format!(
            "{} needs {program}, of Debian's package {package}: {error}",
            program::name(&workload)
        )
    })
}

/// As many requests as the active connections can have answered. `wrk` knows whole seconds.
pub(crate) fn full(port: u16, time: Duration) -> Result<Figures, String> {
    let seconds = time.as_millis().div_ceil(1_000).max(1);
    let mut command = Command::new("wrk");
    command.args([
        "--threads=1",
        &format!("--connections={ACTIVE}"),
        &format!("--duration={seconds}s"),
        &format!("--script={SCRIPT}"),
    ]);
    command.arg(address(port)).stdout(Stdio::piped());
    let output = start(&mut command)?
        .wait_with_output()
        .map_err(|error| format!("wrk: {error}"))?;
    of_wrk(&String::from_utf8_lossy(&output.stdout))
}

/// Requests a second.
pub(crate) fn paced(port: u16, rate: usize, time: Duration) -> Result<Figures, String> {
    let mut clients = Vec::new();
    for number in 0..PACED_PROCESSES {
        if number > 0 {
            thread::sleep(APART);
        }
        let each = rate as f64 / (PACED_PROCESSES * PACED_CLIENTS) as f64;
        let mut command = Command::new("h2load");
        command.args([
            "--h1",
            "--threads=1",
            &format!("--clients={PACED_CLIENTS}"),
            &format!("--rps={each}"),
        ]);
        command.args([
            &format!("--duration={}ms", time.as_millis()),
            "--log-file=/dev/stderr",
            &address(port),
        ]);
        let client = start(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        // What it prints must be read while it runs.
        clients.push(thread::spawn(|| client.wait_with_output()));
    }
    let mut log = String::new();
    for client in clients {
        let output = client
            .join()
            .map_err(|_| "no output of h2load")?
            .map_err(|error| format!("h2load: {error}"))?;
        log.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    of_h2load(&log, time)
}

fn address(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn start(command: &mut Command) -> Result<Child, String> {
    end_with_us(command.stdin(Stdio::null()));
    command
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))
}

/// The line that the script prints.
fn of_wrk(output: &str) -> Result<Figures, String> {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("figures "))
        .ok_or("no figures of wrk")?;
    let numbers: Vec<f64> = line
        .split(' ')
        .map_while(|word| word.parse().ok())
        .collect();
    let [requests, duration_us, us_p50, us_p99, us_p999, errors] = numbers[..] else {
        return Err(format!("figures of wrk: {line}"));
    };
    if errors > 0.0 || requests == 0.0 {
        return Err(format!("{errors} of {requests} requests failed"));
    }
    let rate = requests / duration_us * 1e6;
    Ok(Figures::from([
        ("requests", requests),
        ("requests_per_s", rate),
        ("us_p50", us_p50),
        ("us_p99", us_p99),
        ("us_p999", us_p999),
    ]))
}

/// The log: a line for each request, with its start, its status and the microseconds that it took.
fn of_h2load(log: &str, time: Duration) -> Result<Figures, String> {
    let mut took_us = Vec::new();
    for line in log.lines() {
        let mut words = line.split('\t').skip(1);
        match (words.next(), words.next().map(str::parse::<u64>)) {
            (Some("200"), Some(Ok(us))) => took_us.push(us),
            _ => return Err(format!("h2load said: {line}")),
        }
    }
    took_us.sort_unstable();
    let requests = took_us.len();
    let at = |part: f64| {
        took_us
            .get((requests as f64 * part) as usize)
            .map(|&us| us as f64)
            .ok_or("no requests of h2load")
    };
    let rate = requests as f64 / time.as_secs_f64();
    Ok(Figures::from([
        ("requests", requests as f64),
        ("requests_per_s", rate),
        ("us_p50", at(0.5)?),
        ("us_p99", at(0.99)?),
        ("us_p999", at(0.999)?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints_is_read() {
        let figures =
            of_wrk("Running 1s test\nfigures 1000 2000000 400 900 1500 0\n").expect("it is right");
        assert_eq!(
            (figures.0["requests_per_s"], figures.0["us_p999"]),
            (500.0, 1500.0)
        );
        for wrong in [
            "",
            "figures 1 2 3\n",
            "figures 1000 2000000 400 900 1500 3\n",
            "figures 0 2000000 0 0 0 0\n",
        ] {
            assert!(of_wrk(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_h2load_logs_is_read() {
        let log: String = (0..1_000)
            .map(|us| format!("1795421287249945\t200\t{us}\n"))
            .collect();
        let figures = of_h2load(&log, Duration::from_secs(2)).expect("it is right");
        assert_eq!(
            (
                figures.0["requests_per_s"],
                figures.0["us_p50"],
                figures.0["us_p999"]
            ),
            (500.0, 500.0, 999.0)
        );
        for wrong in [
            "",
            "1795421287249945\t504\t7\n",
            "1795421287249945\t-1\t7\n",
            "cannot connect\n",
        ] {
            assert!(of_h2load(wrong, Duration::from_secs(2)).is_err(), "{wrong}");
        }
    }
}
