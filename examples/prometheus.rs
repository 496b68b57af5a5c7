//! The figures of a service for Prometheus to scrape:
//! `cargo run --example prometheus --features metrics`.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use wheelwork::metrics::Reporter;
use wheelwork::{ServiceHandle, TimerService};

/// The ends of the buckets for lateness, in seconds.
const LATENESS: [f64; 5] = [0.001, 0.002, 0.005, 0.02, 0.1];

/// Serves the figures at an address, which it returns. They are read when somebody asks.
fn expose(timers: &ServiceHandle) -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let name = Matcher::Full("wheelwork_lateness_seconds".to_string());
    let exporter = PrometheusBuilder::new()
        .set_buckets_for_metric(name, &LATENESS)?
        .install_recorder()?;
    let reporter = Reporter::new(timers).service("requests");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let page = || {
                reporter.report();
                exporter.render()
            };
            if let Err(error) = answer(&stream, page) {
                eprintln!("a scrape failed: {error}");
            }
        }
    });
    Ok(address)
}

/// Answers one request, whatever it asks for.
fn answer(mut stream: &TcpStream, page: impl FnOnce() -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    for line in BufReader::new(stream.take(8_192)).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let page = page();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
    write!(
        stream,
        "{head}\r\nContent-Length: {}\r\n\r\n{page}",
        page.len()
    )
}

/// Asks as Prometheus does.
fn scrape(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, page) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("no end of the head"))?;
    let is_whole = head.starts_with("HTTP/1.1 200 ")
        && head.ends_with(&format!("Content-Length: {}", page.len()));
    is_whole
        .then(|| page.to_string())
        .ok_or_else(|| io::Error::other(head.to_string()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = TimerService::builder().start()?;
    let address = expose(&service)?;
    let ids: Vec<_> = (0..1_000)
        .map(|number| service.schedule(Duration::from_millis(number % 50), || ()))
        .collect::<Result<_, _>>()?;
    ids.iter().step_by(2).for_each(|&id| _ = service.cancel(id));
    std::thread::sleep(Duration::from_millis(60));
    println!("http://{address}/metrics says:");
    let page = scrape(address)?;
    page.lines()
        .filter(|line| {
            line.starts_with("wheelwork_timers") || line.starts_with("wheelwork_lateness")
        })
        .for_each(|line| println!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use wheelwork::ManualClock;

    const MS: Duration = Duration::from_millis(1);

    /// Each sample of a page by its name and labels; every line must be one, or a comment of a
    /// known form.
    fn samples(page: &str) -> HashMap<String, f64> {
        let lines = page
            .lines()
            .filter(|line| !(line.is_empty() || line.starts_with("# HELP wheelwork_")));
        lines
            .filter(|line| !line.starts_with("# TYPE wheelwork_"))
            .map(sample)
            .collect()
    }

    fn sample(line: &str) -> (String, f64) {
        let (series, value) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("{line:?} has no value"));
        let (name, labels) = series
            .strip_suffix('}')
            .and_then(|series| series.split_once('{'))
            .expect("labels in braces");
        assert!(
            name.starts_with("wheelwork_")
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter == '_'),
            "{line:?}"
        );
        assert!(
            labels.split(',').all(|label| label
                .split_once("=\"")
                .is_some_and(|(_, value)| value.ends_with('"'))),
            "{line:?}"
        );
        (series.to_string(), value.parse().unwrap())
    }

    #[test]
    fn a_scrape_tells_what_has_happened() {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .shards(1)
            .start()
            .unwrap();
        let address = expose(&service).unwrap();
        let ids: Vec<_> = (1..=10)
            .map(|ticks| service.schedule(MS * ticks, || ()).unwrap())
            .collect();
        assert!(ids.iter().rev().take(3).all(|&id| service.cancel(id)));
        for (advance, fired) in [(MS * 4, 4.0), (Duration::ZERO, 4.0), (MS * 2, 6.0)] {
            clock.advance(advance);
            let samples = samples(&scrape(address).unwrap());
            let of_shard = |name: &str| {
                samples[&format!("wheelwork_timers_{name}{{service=\"requests\",shard=\"0\"}}")]
            };
            assert_eq!(
                ["armed_total", "cancelled_total", "fired_total", "pending"].map(of_shard),
                [10.0, 3.0, fired, 7.0 - fired]
            );
            let lateness = |series: &str| samples[&format!("wheelwork_lateness_seconds_{series}")];
            assert_eq!(
                lateness("count{service=\"requests\"}"),
                fired,
                "each once, however often they are told"
            );
            assert_eq!(
                lateness("bucket{service=\"requests\",le=\"0.001\"}"),
                fired,
                "a manual clock is never late"
            );
        }
    }
}
