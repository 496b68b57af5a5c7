//! The counters of a service by the facade of the crate `metrics`, for Prometheus, StatsD and
//! others: [`Reporter`].
//!
//! A report reads the service's [`Stats`](crate::Stats) and hands the figures to the recorder that
//! the program has installed. Without a recorder the figures go nowhere, and the lateness that this
//! report would have handed over is not reported later. Between two reports the feature costs
//! nothing: the calls of a service and its shards are the same as without it.
//!
//! A name is `wheelwork_` and the path of a field or call, with `_` for `.`; counters end in
//! `_total`:
//!
//! | figures | names | kind | labels |
//! |---|---|---|---|
//! | [`TimerCounts`] | `wheelwork_timers_armed_total`, ... | counters | `shard` |
//! | its `pending` | `wheelwork_timers_pending` | gauge | `shard` |
//! | lateness | `wheelwork_lateness_seconds` | histogram | |
//! | panics | `wheelwork_panics_total`, `wheelwork_hook_panics_total` | counters | |
//! | [`PoolCounts`] | `wheelwork_pool_calls_total`, ... | counters | |
//! | `unpinned_shards` | `wheelwork_unpinned_shards` | gauge | |
//! | [`Machinery`] | `wheelwork_machinery_wakeups_total`, ... | counters | `shard` |
//! | its state now | `wheelwork_machinery_lane_depth`, ... | gauges | `shard` |
//! | its `level_0`, ... | `wheelwork_machinery_levels` | gauge | `shard`, `level` |
//!
//! The state now is `lane_depth`, `lane_waiting`, `pool_backlog`, `holes` and `due`. Each series
//! has the label `service` too, if [`Reporter::service`] was called. What tells of the wheel's
//! layout ([`Machinery::figures`]) may be named otherwise in another version.
//!
//! The histogram has each timer that fired and each run of a periodic timer once, except timers
//! that [`FireAll`](crate::StopPolicy::FireAll) fired.
//!
//! A library on top of a service reports its own histograms by [`HistogramReport`].
//!
//! [`TimerCounts`]: crate::TimerCounts
//! [`PoolCounts`]: crate::PoolCounts
//! [`Machinery`]: crate::Machinery
//! [`Machinery::figures`]: crate::Machinery::figures

mod names;

use crate::engine::figures::lateness::LatenessHistogram;
use crate::engine::figures::stats::ShardStats;
use crate::engine::id::TimerId;
use crate::engine::task::Task;
use crate::error::ScheduleError;
use crate::service::ServiceHandle;
use crate::sync::Mutex;
use metrics::{Histogram, Key, Label, Level, Metadata, Recorder, SharedString, Unit};
use names::{
    COUNTERS, Figure, GAUGES, LATENESS, LATENESS_HELP, LEVEL, LEVEL_HELP, SHARD_COUNTERS,
    SHARD_GAUGES,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Reports the counters of a service to the recorder that the program has installed.
///
/// Clones report together: a lateness that one has reported no other reports again. A reporter does
/// not keep the service running. After the service has stopped it reports the last figures; so the
/// last report can come after `stop`.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::TimerService;
/// use wheelwork::metrics::Reporter;
///
/// let service = TimerService::builder().start()?;
/// let reporter = Reporter::new(&service).service("timeouts");
/// // Just before each scrape:
/// reporter.report();
/// // Or at a fixed rate:
/// reporter.every(Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reporter<T: Send + 'static = Task> {
    timers: ServiceHandle<T>,
    labels: Vec<Label>,
    reported: Arc<Mutex<Reported>>,
}

/// What the recorder has got so far.
#[derive(Debug, Default)]
struct Reported {
    names: bool,
    lateness: HistogramReport,
}

impl<T: Send + 'static> Clone for Reporter<T> {
    fn clone(&self) -> Self {
        Self {
            timers: self.timers.clone(),
            labels: self.labels.clone(),
            reported: self.reported.clone(),
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Reporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("timers", &self.timers)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Reporter<T> {
    /// A reporter of a service. One is enough. Two that are not clones of each other would each
    /// report every lateness.
    #[must_use]
    pub fn new(timers: &ServiceHandle<T>) -> Self {
        Self {
            timers: timers.clone(),
            labels: Vec::new(),
            reported: Arc::default(),
        }
    }

    /// Gives all figures the label `service` with this name. Services of one program need different
    /// names: otherwise they overwrite each other's figures.
    #[must_use]
    pub fn service(mut self, name: impl Into<SharedString>) -> Self {
        self.labels = vec![Label::new("service", name)];
        self
    }

    /// Reports now, to the recorder of the calling thread, or else to the global one.
    ///
    /// Counters are set to the figures of [`stats`](ServiceHandle::stats). The histogram gets what
    /// came since the last report: for each lateness the end of its bucket, which is at most a
    /// quarter above the lateness that was measured (or 1 us; beyond 18 min it is the greatest
    /// lateness), and never below. (What is measured may be up to 2 us above the truth.) The first
    /// report also hands over the descriptions, so install the recorder before it. What was
    /// reported to no recorder, or to another one, is not reported again.
    ///
    /// Cost: `stats`, and a look-up for each figure, since a recorder may be installed at any time.
    /// With `metrics-exporter-prometheus` that is some 4 us a shard. Further, one call for each
    /// bucket of lateness that has changed. A recorder that keeps each value of a histogram needs
    /// some 45 ns and 16 bytes for each timer that fired since the last report;
    /// `metrics-exporter-prometheus` does so until it is scraped. Where that is too much, leave
    /// `wheelwork_lateness_seconds` out, for example with a `FilterLayer` of `metrics-util`. Two
    /// reports wait for each other.
    ///
    /// # Panics
    /// If the recorder panics.
    pub fn report(&self) {
        // Locked before the stats are read: so the figures of two reports do not go back.
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = self.timers.stats();
        metrics::with_recorder(|recorder| {
            if !std::mem::replace(&mut reported.names, true) {
                describe(recorder);
            }
            report(recorder, &self.labels, &stats, &COUNTERS, &GAUGES);
            for (number, shard) in stats.shards.iter().enumerate() {
                self.report_shard(recorder, number, shard);
            }
            let lateness = recorder.register_histogram(&key(LATENESS, &self.labels), &METADATA);
            reported.lateness.report(&lateness, &stats.lateness);
        });
    }

    /// Reports at a fixed rate from now on, with a periodic timer of the service itself. It ends
    /// when it is cancelled, or when the service stops.
    ///
    /// Each report is itself a run that the service counts, and wakes its shard; so the service is
    /// not quite idle. It reports to the global recorder; on a manual clock, to the recorder of the
    /// thread that moves the clock.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) and [`Full`](ScheduleError::Full), as for
    /// [`schedule`](ServiceHandle::schedule).
    pub fn every(&self, period: Duration) -> Result<TimerId, ScheduleError<()>> {
        let reporter = self.clone();
        self.timers.every(period).start(move || reporter.report())
    }

    fn report_shard(&self, recorder: &dyn Recorder, number: usize, shard: &ShardStats) {
        let mut labels = self.labels.clone();
        labels.push(Label::new("shard", number.to_string()));
        report(recorder, &labels, shard, &SHARD_COUNTERS, &SHARD_GAUGES);
        for (level, &entries) in shard.machinery.levels().iter().enumerate() {
            let mut labels = labels.clone();
            labels.push(Label::new("level", level.to_string()));
            recorder
                .register_gauge(&key(LEVEL, &labels), &METADATA)
                .set(entries as f64);
        }
    }
}

/// What a histogram of a recorder has got of a [`LatenessHistogram`] so far. It hands over what has
/// come since: a recorder adds up, a snapshot has all since the beginning.
///
/// For what is built on top of a service and measures with a
/// [`LatenessRecorder`](crate::LatenessRecorder).
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::LatenessRecorder;
/// use wheelwork::metrics::HistogramReport;
///
/// let commits = LatenessRecorder::new();
/// commits.record(Duration::from_millis(3), 1);
/// let mut reported = HistogramReport::new();
/// // At each report:
/// reported.report(&metrics::histogram!("commit_seconds"), &commits.snapshot());
/// ```
#[derive(Debug, Default)]
pub struct HistogramReport {
    /// The number of values in each bucket, by the bucket's start.
    reported: BTreeMap<Duration, u64>,
}

impl HistogramReport {
    /// Nothing was reported yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            reported: BTreeMap::new(),
        }
    }

    /// Hands the histogram of a recorder what has come since the last report: for each value the
    /// end of its bucket, in seconds, which is at most a quarter above the value (or 1 us), and
    /// never below. Beyond 18 min it is the greatest value so far. Costs one call for each bucket
    /// that has changed.
    ///
    /// # Panics
    /// If the recorder panics.
    pub fn report(&mut self, histogram: &Histogram, now: &LatenessHistogram) {
        for (range, count) in now.buckets() {
            let before = self.reported.insert(range.start, count).unwrap_or(0);
            if count > before {
                // The last bucket has no end: the greatest value stands for it, or its start, if
                // the greatest value was not written yet.
                let end = if range.end == Duration::MAX {
                    now.max().max(range.start)
                } else {
                    range.end
                };
                let more = usize::try_from(count - before).unwrap_or(usize::MAX);
                histogram.record_many(end, more);
            }
        }
    }
}

fn key(name: &'static str, labels: &[Label]) -> Key {
    Key::from_parts(name, labels.to_vec())
}

/// Sets counters and gauges to what is in `stats`.
fn report<S>(
    recorder: &dyn Recorder,
    labels: &[Label],
    stats: &S,
    counters: &[Figure<S>],
    gauges: &[Figure<S>],
) {
    for counter in counters {
        recorder
            .register_counter(&key(counter.name, labels), &METADATA)
            .absolute((counter.read)(stats));
    }
    for gauge in gauges {
        recorder
            .register_gauge(&key(gauge.name, labels), &METADATA)
            .set((gauge.read)(stats) as f64);
    }
}

fn describe(recorder: &dyn Recorder) {
    let counters = SHARD_COUNTERS
        .iter()
        .map(Figure::description)
        .chain(COUNTERS.iter().map(Figure::description));
    counters.for_each(|(name, unit, help)| recorder.describe_counter(name, unit, help));
    let gauges = SHARD_GAUGES
        .iter()
        .map(Figure::description)
        .chain(GAUGES.iter().map(Figure::description));
    gauges.for_each(|(name, unit, help)| recorder.describe_gauge(name, unit, help));
    recorder.describe_gauge(LEVEL.into(), Some(Unit::Count), LEVEL_HELP.into());
    recorder.describe_histogram(LATENESS.into(), Some(Unit::Seconds), LATENESS_HELP.into());
}
