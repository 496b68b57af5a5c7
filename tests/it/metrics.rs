//! Promise: a report tells the recorder what `stats` says, of each service under its own name, and
//! of each fire's lateness once, never less than it was.

use crate::blocked::block_a_worker;
use metrics::{Unit, with_local_recorder};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use wheelwork::metrics::Reporter;
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, ServiceHandle, Stats, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Counters and gauges by what they are, and values of histograms.
type Figures = (BTreeMap<String, f64>, BTreeMap<String, Vec<f64>>);

/// What the recorder was told since the last time.
fn told(snapshotter: &Snapshotter) -> Figures {
    let (mut figures, mut histograms) = Figures::default();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> = key
            .key()
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let series = format!("{:?} {} {}", key.kind(), key.key().name(), labels.join(" "));
        match value {
            DebugValue::Counter(count) => _ = figures.insert(series, count as f64),
            DebugValue::Gauge(value) => _ = figures.insert(series, value.0),
            DebugValue::Histogram(values) => {
                _ = histograms.insert(series, values.into_iter().map(f64::from).collect())
            }
        }
    }
    (figures, histograms)
}

/// What a report should tell, by the names of the documentation.
fn expected(stats: &Stats, service: &str) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (number, shard) in stats.shards.iter().enumerate() {
        let counters = [
            ("timers_armed", shard.timers.armed),
            ("timers_fired", shard.timers.fired),
            ("timers_cancelled", shard.timers.cancelled),
            ("timers_rearmed", shard.timers.rearmed),
            ("timers_handed_back", shard.timers.handed_back),
            ("timers_dropped", shard.timers.dropped),
            ("timers_ended", shard.timers.ended),
            ("timers_runs", shard.timers.runs),
            ("machinery_stalls", shard.machinery.stalls()),
            ("machinery_turns", shard.machinery.turns()),
            ("machinery_held", shard.machinery.held()),
            ("machinery_wakeups", shard.machinery.wakeups()),
            ("machinery_rings", shard.machinery.rings()),
            ("machinery_drained", shard.machinery.drained()),
            ("machinery_eliminated", shard.machinery.eliminated()),
            ("machinery_dispatched", shard.machinery.dispatched()),
            (
                "machinery_cascaded",
                shard.machinery.figure("cascaded").unwrap(),
            ),
            (
                "machinery_compactions",
                shard.machinery.figure("compactions").unwrap(),
            ),
        ];
        let gauges = [
            ("timers_pending", shard.timers.pending),
            ("machinery_lane_depth", shard.machinery.lane_depth()),
            (
                "machinery_lane_waiting",
                shard.machinery.figure("lane_waiting").unwrap(),
            ),
            ("machinery_pool_backlog", shard.machinery.pool_backlog()),
            ("machinery_holes", shard.machinery.figure("holes").unwrap()),
            ("machinery_due", shard.machinery.due()),
        ];
        let counters = counters.map(|(name, value)| {
            (
                format!("Counter wheelwork_{name}_total service={service} shard={number}"),
                value as f64,
            )
        });
        figures.extend(counters);
        figures.extend(gauges.map(|(name, value)| {
            (
                format!("Gauge wheelwork_{name} service={service} shard={number}"),
                value as f64,
            )
        }));
        let level = |level| shard.machinery.figure(&format!("level_{level}")).unwrap();
        let gauge = |level| {
            format!(
                "Gauge wheelwork_machinery_levels service={service} shard={number} level={level}"
            )
        };
        figures.extend((0..7).map(|number| (gauge(number), level(number) as f64)));
    }
    figures.insert(
        format!("Counter wheelwork_panics_total service={service}"),
        stats.panics as f64,
    );
    figures.insert(
        format!("Counter wheelwork_hook_panics_total service={service}"),
        stats.hook_panics as f64,
    );
    figures.insert(
        format!("Counter wheelwork_pool_calls_total service={service}"),
        stats.pool.calls as f64,
    );
    figures.insert(
        format!("Counter wheelwork_pool_announcements_total service={service}"),
        stats.pool.announcements as f64,
    );
    figures.insert(
        format!("Gauge wheelwork_unpinned_shards service={service}"),
        stats.unpinned_shards as f64,
    );
    figures
}

/// A service on a manual clock to which all sorts of things happen: also two that panic, in the
/// task and in the hook.
fn busy(shards: usize) -> (TimerService<u32>, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .shards(shards)
        .on_panic(|_| std::panic::resume_unwind(Box::new("hook")));
    let handler = |batch: &mut Batch<'_, u32>| {
        if batch.any(|payload| payload == 13) {
            std::panic::resume_unwind(Box::new("handler"));
        }
    };
    let service = builder.on_expire(handler).start().unwrap();
    service.every(MS).times(3).start(|| ()).unwrap();
    for shard in 0..shards {
        let ids: Vec<_> = (0..100)
            .map(|payload| {
                service
                    .schedule_on(shard, MS * (payload % 10 + 1), payload)
                    .unwrap()
            })
            .collect();
        assert!(ids.iter().take(7 + shard).all(|&id| service.cancel(id)));
        assert!(ids.iter().skip(90).all(|&id| service.reschedule(id, HOUR)));
        clock.advance(MS * 4);
        assert!(ids.iter().skip(95).all(|&id| service.cancel(id)));
    }
    (service, clock)
}

#[test]
fn a_report_tells_what_stats_says() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    with_local_recorder(&recorder, || {
        let (service, clock) = busy(2);
        let reporter = Reporter::new(&service).service("busy");
        reporter.report();
        let stats = service.stats();
        assert!(
            stats.panics > 0
                && stats.hook_panics > 0
                && stats.timers.runs == 3
                && stats.timers.rearmed == 20
        );
        assert_ne!(stats.shards[0], stats.shards[1]);
        assert_eq!(told(&snapshotter).0, expected(&stats, "busy"));
        clock.advance(MS * 4);
        assert!(service.stats() != stats && !service.stop().is_empty());
        reporter.report();
        assert_eq!(
            told(&snapshotter).0,
            expected(&service.stats(), "busy"),
            "also the last figures of a service that has stopped"
        );
        assert!(matches!(
            reporter.every(MS),
            Err(ScheduleError::Stopped(()))
        ));
    });
}

#[test]
fn what_only_threads_count_is_told_too() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // There is no such core, so its shards run unpinned.
    let service = TimerService::builder()
        .shards(2)
        .pinning(wheelwork::Pinning::Cores(vec![100_000]))
        .start()
        .unwrap();
    let (send, fired) = mpsc::channel();
    service
        .schedule(MS, move || send.send(()).unwrap())
        .unwrap();
    fired.recv_timeout(HANGS).unwrap();
    service.stop();
    with_local_recorder(&recorder, || {
        Reporter::new(&service).service("threads").report()
    });
    let stats = service.stats();
    assert!(stats.unpinned_shards == 2 && stats.sum(|shard| shard.machinery.turns()) > 0);
    assert_eq!(told(&snapshotter).0, expected(&stats, "threads"));
}

#[test]
fn two_services_are_told_apart() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    with_local_recorder(&recorder, || {
        let ((one, _), (other, _)) = (busy(1), busy(2));
        let reporters = [("one", &one), ("other", &other)]
            .map(|(name, service)| Reporter::new(service).service(name));
        reporters.iter().for_each(Reporter::report);
        let (figures, histograms) = told(&snapshotter);
        let mut both = expected(&one.stats(), "one");
        both.extend(expected(&other.stats(), "other"));
        assert_eq!(figures, both);
        let fires = |stats: Stats| stats.lateness.count() as usize;
        let told = histograms
            .iter()
            .map(|(series, values)| (series.as_str(), values.len()));
        let series = [
            "Histogram wheelwork_lateness_seconds service=one",
            "Histogram wheelwork_lateness_seconds service=other",
        ];
        assert!(
            told.eq(series
                .into_iter()
                .zip([fires(one.stats()), fires(other.stats())])),
            "{histograms:?}"
        );
    });
}

/// Latenesses, each of a number of timers, as a blocked worker makes them.
fn fire_late(service: &ServiceHandle, clock: &ManualClock, latenesses: &[(Duration, u64)]) {
    let fired = service.stats().timers.fired;
    let release = block_a_worker(service, clock);
    let latest = latenesses
        .iter()
        .map(|&(lateness, _)| lateness)
        .max()
        .unwrap();
    let mut timers = 1;
    for &(lateness, count) in latenesses {
        (0..count).for_each(|_| _ = service.schedule(latest + MS - lateness, || ()).unwrap());
        timers += count;
    }
    clock.advance(latest + MS);
    release.send(()).unwrap();
    while service.stats().timers.fired < fired + timers {
        thread::sleep(MS);
    }
}

#[test]
fn each_lateness_is_told_once_and_never_as_less() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let reporters = [Reporter::new(&service), Reporter::new(&service)];
    let again = reporters[0].clone();
    let report = |reporter: &Reporter| {
        with_local_recorder(&recorder, || reporter.report());
        let mut values = told(&snapshotter)
            .1
            .remove("Histogram wheelwork_lateness_seconds ")
            .unwrap();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!(report(&again), [0.0; 0]);
    let mut all: Vec<(Duration, u64)> = Vec::new();
    // The last one is beyond the last bucket's start.
    for round in [
        vec![(MS * 10, 70), (MS * 100, 200)],
        vec![(MS * 10, 3)],
        vec![(HOUR, 5), (MS * 100, 2)],
        vec![(HOUR * 2, 1)],
    ] {
        fire_late(&service, &clock, &round);
        let values = report(&reporters[0]);
        // The one that blocked the worker was not late.
        let mut fires = vec![(Duration::ZERO, 1)];
        fires.extend(round);
        fires.sort_unstable();
        let lateness = fires
            .iter()
            .flat_map(|&(lateness, timers)| (0..timers).map(move |_| lateness.as_secs_f64()));
        assert_eq!(
            values.len() as u64,
            fires.iter().map(|&(_, timers)| timers).sum::<u64>()
        );
        for (value, lateness) in values.iter().zip(lateness) {
            let most = if lateness >= HOUR.as_secs_f64() {
                service.stats().lateness.max().as_secs_f64()
            } else {
                lateness * 1.25
            };
            assert!(
                (lateness..=most.max(1.024e-6)).contains(value),
                "{value} for {lateness}"
            );
        }
        assert_eq!(
            (report(&reporters[0]), report(&again)),
            (vec![], vec![]),
            "nothing twice, by no clone"
        );
        all.append(&mut fires);
    }
    assert_eq!(
        report(&reporters[1]).len() as u64,
        all.iter().map(|&(_, timers)| timers).sum::<u64>()
    );
}

#[test]
fn a_periodic_report_comes_at_its_rate_until_it_is_cancelled() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    with_local_recorder(&recorder, || {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .shards(1)
            .start()
            .unwrap();
        let reporter = Reporter::new(&service);
        let id = reporter.every(MS * 10).unwrap();
        for reports in 1..=5 {
            clock.advance(MS * 9);
            assert_eq!(
                told(&snapshotter)
                    .0
                    .get("Counter wheelwork_timers_runs_total shard=0")
                    .copied()
                    .unwrap_or(0.0),
                0.0,
                "not yet"
            );
            clock.advance(MS);
            // Each counts itself.
            assert_eq!(
                told(&snapshotter).0["Counter wheelwork_timers_runs_total shard=0"],
                f64::from(reports)
            );
        }
        assert!(service.cancel(id));
        clock.advance(HOUR);
        assert_eq!(
            told(&snapshotter).0["Counter wheelwork_timers_runs_total shard=0"],
            0.0,
            "no more of them"
        );
        reporter.report();
        let (figures, histograms) = told(&snapshotter);
        assert_eq!(
            (
                figures["Counter wheelwork_timers_runs_total shard=0"],
                figures["Gauge wheelwork_timers_pending shard=0"]
            ),
            (5.0, 0.0)
        );
        // The fifth report was the last to tell of a run: its own is in it, since a run is counted
        // before it begins.
        assert_eq!(
            histograms["Histogram wheelwork_lateness_seconds "],
            [0.0; 0]
        );
    });
}

#[test]
fn every_figure_is_described() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    with_local_recorder(&recorder, || Reporter::new(&busy(1).0).report());
    let figures = snapshotter.snapshot().into_vec();
    assert_eq!(figures.len(), 37);
    for (key, unit, description, _) in figures {
        let (kind, name) = (key.kind(), key.key().name());
        assert!(
            description.is_some_and(|text| text.ends_with('.')),
            "{name}"
        );
        assert_eq!(
            unit,
            Some(if kind == MetricKind::Histogram {
                Unit::Seconds
            } else {
                Unit::Count
            }),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            kind == MetricKind::Counter,
            "{name}"
        );
        assert_eq!(
            name.ends_with("_seconds"),
            kind == MetricKind::Histogram,
            "{name}"
        );
    }
}

#[test]
fn without_a_recorder_nothing_happens() {
    let (service, _) = busy(1);
    let before = service.stats();
    Reporter::new(&service).report();
    assert_eq!(service.stats(), before);
}
