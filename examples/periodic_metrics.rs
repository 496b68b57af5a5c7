//! A line of figures at a fixed rate, and a counter that is read while others write it:
//! `cargo run --example periodic_metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wheelwork::{Missed, ScheduleError, ServiceHandle, TimerId, TimerService};

const PERIOD: Duration = Duration::from_millis(50);

/// Reports what was counted in each period, until it is cancelled. A report that is late leaves out
/// those that it has missed.
fn report(
    timers: &ServiceHandle,
    requests: Arc<AtomicU64>,
) -> Result<(TimerId, Receiver<u64>), ScheduleError<()>> {
    let (send, reports) = channel();
    let mut before = 0;
    let run = move || {
        // Ordering: Relaxed. A count to look at.
        let now = requests.load(Ordering::Relaxed);
        // Nobody has to listen.
        let _ = send.send(now - before);
        before = now;
    };
    Ok((
        timers.every(PERIOD).missed(Missed::Skip).start(run)?,
        reports,
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = TimerService::builder().start()?;
    let requests = Arc::new(AtomicU64::new(0));
    let (reporter, reports) = report(&service, requests.clone())?;
    let work = std::thread::spawn(move || {
        for _ in 0..20 {
            // Ordering: Relaxed. As above.
            requests.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(PERIOD / 5);
        }
    });
    for (number, count) in reports.iter().take(4).enumerate() {
        let stats = service.stats();
        println!(
            "period {number}: {count} requests; timers: {} pending, {} runs so far",
            service.len(),
            stats.timers.runs
        );
    }
    service.cancel(reporter);
    work.join().expect("it does not panic");
    println!(
        "no more reports: {}",
        reports.recv_timeout(2 * PERIOD).is_err()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork::ManualClock;

    #[test]
    fn each_period_has_its_count() {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .start()
            .unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let (reporter, reports) = report(&service, requests.clone()).unwrap();
        for count in 0..100 {
            requests.fetch_add(count, Ordering::Relaxed);
            clock.advance(PERIOD);
        }
        assert!(reports.try_iter().eq(0..100));
        service.cancel(reporter);
        clock.advance(10 * PERIOD);
        assert_eq!(reports.try_iter().count(), 0);
    }
}
