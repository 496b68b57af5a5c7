//! The counters of a service by the facade of the crate `metrics`, for Prometheus, StatsD and others: [`Reporter`].
//!
//! A report reads the service's [`Stats`](crate::Stats) and hands the figures to the recorder that the program has installed; without a recorder nothing happens. Between two reports nobody
//! does anything: the calls of a service and its shards cost what they cost without this feature.
//!
//! Each figure of [`ShardStats`] is a counter (`wheelwork_timers_armed_total`, `..._fired_total`, `wheelwork_wakeups_total`, ...) or a gauge (`wheelwork_timers_pending`,
//! `wheelwork_lane_depth`, `wheelwork_pool_backlog`, `wheelwork_holes`, `wheelwork_due`) with the label `shard`, and `wheelwork_level_entries` with `level` too. Without these labels: the counters `wheelwork_panics_total`,
//! `wheelwork_hook_panics_total`, `wheelwork_pool_calls_total` and `wheelwork_pool_announcements_total`, the gauge `wheelwork_unpinned_shards`, and the histogram `wheelwork_lateness_seconds`, in which each timer that fired (but
//! for those of [`FireAll`](crate::StopPolicy::FireAll)) and each run of a periodic timer is once.

mod names;

use crate::error::ScheduleError;
use crate::service::{LatenessHistogram, ShardStats, Task, TimerHandle, TimerId};
use crate::sync::Mutex;
use metrics::{Key, Label, Level, Metadata, Recorder, SharedString, Unit};
use names::{COUNTERS, Figure, GAUGES, LATENESS, LATENESS_HELP, LEVEL, LEVEL_HELP, SHARD_COUNTERS, SHARD_GAUGES};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Reports the counters of a service to the recorder that is installed. Clones report together: what one has told of the lateness of timers no other tells again.
///
/// It does not keep the service running. After the service has stopped it reports the last figures, so that the last report can come after `stop`.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::TimerService;
/// use wheelwork::metrics::Reporter;
///
/// let service = TimerService::builder().start()?;
/// let reporter = Reporter::new(&service).service("timeouts");
/// // By who scrapes, just before:
/// reporter.report();
/// // Or at a fixed rate:
/// reporter.every(Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reporter<T: Send + 'static = Task> {
    timers: TimerHandle<T>,
    labels: Vec<Label>,
    told: Arc<Mutex<Told>>,
}

/// What the recorder has been told.
#[derive(Debug, Default)]
struct Told {
    names: bool,
    /// How many timers of each bucket, by its start.
    lateness: BTreeMap<Duration, u64>,
}

impl<T: Send + 'static> Clone for Reporter<T> {
    fn clone(&self) -> Self {
        Self { timers: self.timers.clone(), labels: self.labels.clone(), told: self.told.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for Reporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("timers", &self.timers).field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Reporter<T> {
    /// A reporter of a service. One is enough: two that are not clones of each other would each tell of all lateness.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn new(timers: &TimerHandle<T>) -> Self {
        Self { timers: timers.clone(), labels: Vec::new(), told: Arc::default() }
    }

    /// Gives all figures the label `service` with this name. Services of one program that are reported without, or with the same name, write over each other's figures.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn service(mut self, name: impl Into<SharedString>) -> Self {
        self.labels = vec![Label::new("service", name)];
        self
    }

    /// Reports now, to the recorder of the calling thread, or the global one.
    ///
    /// Counters are set to what [`stats`](TimerHandle::stats) says, the histogram is given what has come since the last report: each lateness as the end of its bucket, which is at most a
    /// quarter above the truth (or 1 us), and never below. The first report also hands over the descriptions; so install the recorder before that. What was told when there was no recorder, or another
    /// one, is not told again.
    ///
    /// Cost: `stats`, and a look-up for each figure, since a recorder may be installed at any time: with `metrics-exporter-prometheus` some 4 us a shard. And one call for each bucket of lateness that
    /// has changed; but a recorder that keeps each value of a histogram, as that one does until it is scraped, needs some 45 ns and 16 bytes for each timer that has fired since the last report. Where that is too much, leave
    /// `wheelwork_lateness_seconds` out, by a `FilterLayer` of `metrics-util`, say. Reports wait for each other.
    ///
    /// # Panics
    /// If the recorder does.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn report(&self) {
        // Before the stats are read: so the reports' figures do not go back.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = self.timers.stats();
        metrics::with_recorder(|recorder| {
            if !std::mem::replace(&mut told.names, true) {
                describe(recorder);
            }
            report(recorder, &self.labels, &stats, &COUNTERS, &GAUGES);
            for (number, shard) in stats.shards.iter().enumerate() {
                self.report_shard(recorder, number, shard);
            }
            self.report_lateness(recorder, &mut told.lateness, &stats.lateness);
        });
    }

    /// Reports at a fixed rate from now on, with a periodic timer of the service itself: until that is cancelled, or the service stops.
    ///
    /// Each report is one of the runs that it counts, and wakes its shard: with this an idle service is not quite idle. It reports to the global recorder, unless the service is on a manual clock.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) and [`Full`](ScheduleError::Full), as for [`schedule`](TimerHandle::schedule).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn every(&self, period: Duration) -> Result<TimerId, ScheduleError<()>> {
        let reporter = self.clone();
        self.timers.every(period).start(move || reporter.report())
    }

    fn report_shard(&self, recorder: &dyn Recorder, number: usize, shard: &ShardStats) {
        let mut labels = self.labels.clone();
        labels.push(Label::new("shard", number.to_string()));
        report(recorder, &labels, shard, &SHARD_COUNTERS, &SHARD_GAUGES);
        for (level, &entries) in shard.levels.iter().enumerate() {
            let mut labels = labels.clone();
            labels.push(Label::new("level", level.to_string()));
            recorder.register_gauge(&key(LEVEL, &labels), &METADATA).set(entries as f64);
        }
    }

    fn report_lateness(&self, recorder: &dyn Recorder, told: &mut BTreeMap<Duration, u64>, lateness: &LatenessHistogram) {
        let histogram = recorder.register_histogram(&key(LATENESS, &self.labels), &METADATA);
        for (range, timers) in lateness.buckets() {
            let before = told.insert(range.start, timers).unwrap_or(0);
            if timers > before {
                // The last bucket has no end; its start, should the greatest lateness not be there yet.
                let end = if range.end == Duration::MAX { lateness.max().max(range.start) } else { range.end };
                histogram.record_many(end, (timers - before) as usize);
            }
        }
    }
}

fn key(name: &'static str, labels: &[Label]) -> Key {
    Key::from_parts(name, labels.to_vec())
}

fn report<S>(recorder: &dyn Recorder, labels: &[Label], stats: &S, counters: &[Figure<S>], gauges: &[Figure<S>]) {
    for counter in counters {
        recorder.register_counter(&key(counter.name, labels), &METADATA).absolute((counter.read)(stats));
    }
    for gauge in gauges {
        recorder.register_gauge(&key(gauge.name, labels), &METADATA).set((gauge.read)(stats) as f64);
    }
}

fn describe(recorder: &dyn Recorder) {
    let counters = SHARD_COUNTERS.iter().map(Figure::description).chain(COUNTERS.iter().map(Figure::description));
    counters.for_each(|(name, unit, help)| recorder.describe_counter(name, unit, help));
    let gauges = SHARD_GAUGES.iter().map(Figure::description).chain(GAUGES.iter().map(Figure::description));
    gauges.for_each(|(name, unit, help)| recorder.describe_gauge(name, unit, help));
    recorder.describe_gauge(LEVEL.into(), Some(Unit::Count), LEVEL_HELP.into());
    recorder.describe_histogram(LATENESS.into(), Some(Unit::Seconds), LATENESS_HELP.into());
}
