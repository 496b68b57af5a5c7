//! Promise: a report tells the recorder what the stats of durable timers say, and of each lateness
//! and each commit once.

use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::{Delivery, Durable, DurableReporter, DurableStats, Memory, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);

/// Counters and gauges by their names, and how many values each histogram got.
fn told(snapshotter: &Snapshotter) -> (BTreeMap<String, f64>, BTreeMap<String, usize>) {
    let (mut figures, mut histograms) = (BTreeMap::new(), BTreeMap::new());
    for (key, _, help, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().collect();
        assert!(labels.len() == 1 && labels[0].value() == "orders");
        assert!(help.is_some(), "{key:?} has no description");
        let name = key.key().name().to_string();
        let name = name.strip_prefix("wheelwork_durable_").unwrap().to_string();
        match value {
            DebugValue::Counter(count) => _ = figures.insert(name, count as f64),
            DebugValue::Gauge(value) => _ = figures.insert(name, value.0),
            DebugValue::Histogram(values) => _ = histograms.insert(name, values.len()),
        }
    }
    (figures, histograms)
}

fn expected(stats: &DurableStats) -> BTreeMap<String, f64> {
    let counters = [
        ("armed", stats.armed),
        ("cancelled", stats.cancelled),
        ("moved", stats.moved),
        ("done", stats.done),
        ("failed", stats.failed),
        ("died", stats.died),
        ("superseded", stats.superseded),
        ("stale", stats.stale),
        ("commits", stats.commits),
        ("writes", stats.writes),
        ("outages", stats.outages),
        ("snoozed", stats.snoozed),
        ("given_up", stats.given_up),
        ("expired", stats.expired),
        ("over_time", stats.over_time),
    ];
    let counters = counters.map(|(name, count)| (format!("{name}_total"), count as f64));
    let gauges = [
        ("down", u64::from(stats.down)),
        ("rows", stats.rows),
        ("dead", stats.dead),
        ("unhandled", stats.unhandled),
        ("paused", stats.paused),
        ("limited", stats.limited),
        ("done_kept", stats.done_kept),
        ("disk_bytes", stats.disk_bytes.unwrap_or(0)),
        ("window_rows", stats.window_rows),
        ("window_bytes", stats.window_bytes),
    ];
    let gauges = gauges.map(|(name, value)| (name.to_string(), value as f64));
    let times = [("lag_seconds", stats.lag), ("turn_seconds", stats.turn)];
    let times = times.map(|(name, time)| (name.to_string(), time.as_secs_f64()));
    counters.into_iter().chain(gauges).chain(times).collect()
}

#[test]
fn a_report_tells_what_stats_says() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .retry_policy(RetryPolicy::new().attempts(2))
        .on("mail", |mail: &Delivery| match mail.payload() {
            b"bad" => Err("no server".into()),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let reporter = DurableReporter::new(&timers).service("orders");
    let report = || {
        with_local_recorder(&recorder, || reporter.clone().report());
        told(&snapshotter)
    };

    for payload in ["good", "bad", "good"] {
        timers.schedule("mail", SECOND, payload).unwrap();
    }
    let late = timers.schedule("mail", 3_600 * SECOND, "late").unwrap();
    let gone = timers.schedule("mail", 3_600 * SECOND, "gone").unwrap();
    assert!(timers.cancel(gone).unwrap());
    assert!(timers.reschedule(late, 7_200 * SECOND).unwrap());
    clock.advance(60 * SECOND);
    let stats = timers.stats();
    assert_eq!((stats.done, stats.failed, stats.died), (2, 2, 1));
    assert_eq!((stats.cancelled, stats.moved, stats.rows), (1, 1, 1));
    let (figures, histograms) = report();
    assert_eq!(figures, expected(&stats));
    // (Two that were done, and two attempts of the other.)
    let commits = stats.commits as usize;
    let counts = |lateness, commits| {
        let counts = [("lateness_seconds", lateness), ("commit_seconds", commits)];
        BTreeMap::from(counts.map(|(name, count)| (name.to_string(), count)))
    };
    assert_eq!(histograms, counts(4, commits));

    // What came since: nothing, then one commit.
    let none = |histograms: BTreeMap<String, usize>| histograms.values().sum::<usize>() == 0;
    assert!(none(report().1));
    timers.schedule("mail", SECOND, "good").unwrap();
    let (figures, histograms) = report();
    assert_eq!(figures, expected(&timers.stats()));
    assert_eq!(histograms.values().sum::<usize>(), 1);
}

#[test]
fn without_a_recorder_nothing_happens() {
    let timers = Durable::builder(Memory::new())
        .clock(ManualClock::new())
        .start()
        .unwrap();
    let reporter = DurableReporter::new(&timers);
    timers.stop().unwrap();
    reporter.report();
    assert!(format!("{reporter:?}").starts_with("DurableReporter"));
}
