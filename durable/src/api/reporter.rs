//! Reporter: the figures of durable timers by the facade of the crate `metrics`.

use super::client::DurableClient;
use crate::queue::stats::DurableStats;
use crate::sync::Mutex;
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};
use std::fmt;
use std::sync::{Arc, PoisonError};
use wheelwork::metrics::HistogramReport;

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// One figure of a report.
struct Figure {
    name: &'static str,
    help: &'static str,
    read: fn(&DurableStats) -> u64,
}

impl Figure {
    fn description(&self) -> (KeyName, Option<Unit>, SharedString) {
        (self.name.into(), Some(Unit::Count), self.help.into())
    }
}

const fn figure(name: &'static str, help: &'static str, read: fn(&DurableStats) -> u64) -> Figure {
    Figure { name, help, read }
}

fn key(name: &'static str, labels: &[Label]) -> Key {
    Key::from_parts(name, labels.to_vec())
}

const COUNTERS: [Figure; 15] = [
    figure(
        "wheelwork_durable_armed_total",
        "Timers that were armed.",
        |stats| stats.armed,
    ),
    figure(
        "wheelwork_durable_cancelled_total",
        "Timers that were cancelled.",
        |stats| stats.cancelled,
    ),
    figure(
        "wheelwork_durable_moved_total",
        "Timers that got another deadline by a call.",
        |stats| stats.moved,
    ),
    figure(
        "wheelwork_durable_done_total",
        "Deliveries whose handler said Ok.",
        |stats| stats.done,
    ),
    figure(
        "wheelwork_durable_failed_total",
        "Deliveries whose handler failed.",
        |stats| stats.failed,
    ),
    figure(
        "wheelwork_durable_snoozed_total",
        "Deliveries whose handler said Later.",
        |stats| stats.snoozed,
    ),
    figure(
        "wheelwork_durable_given_up_total",
        "Deliveries whose handler said GiveUp.",
        |stats| stats.given_up,
    ),
    figure(
        "wheelwork_durable_over_time_total",
        "Deliveries whose handler has taken longer than its time limit.",
        |stats| stats.over_time,
    ),
    figure(
        "wheelwork_durable_expired_total",
        "Timers that were not handed out in time.",
        |stats| stats.expired,
    ),
    figure(
        "wheelwork_durable_died_total",
        "Timers that have become dead letters.",
        |stats| stats.died,
    ),
    figure(
        "wheelwork_durable_superseded_total",
        "Timers to be tried again, or to come later, whose key or calendar was gone by then.",
        |stats| stats.superseded,
    ),
    figure(
        "wheelwork_durable_stale_total",
        "Answers of handlers that the store refused.",
        |stats| stats.stale,
    ),
    figure(
        "wheelwork_durable_commits_total",
        "Commits of what calls, handlers and rules change.",
        |stats| stats.commits,
    ),
    figure(
        "wheelwork_durable_writes_total",
        "Changes in the commits of the store.",
        |stats| stats.writes,
    ),
    figure(
        "wheelwork_durable_outages_total",
        "How often the store has failed.",
        |stats| stats.outages,
    ),
];

const GAUGES: [Figure; 10] = [
    figure(
        "wheelwork_durable_down",
        "1 while the store does not work, else 0.",
        |stats| u64::from(stats.down),
    ),
    figure(
        "wheelwork_durable_rows",
        "Timers in the store, those that are being handled included.",
        |stats| stats.rows,
    ),
    figure(
        "wheelwork_durable_dead",
        "Dead letters in the store.",
        |stats| stats.dead,
    ),
    figure(
        "wheelwork_durable_unhandled",
        "Timers that wait, as no handler has their kind.",
        |stats| stats.unhandled,
    ),
    figure(
        "wheelwork_durable_paused",
        "Timers that are due, or are about to be, and are paused.",
        |stats| stats.paused,
    ),
    figure(
        "wheelwork_durable_limited",
        "Timers that wait, as a rate or a limit of calls lets others go first.",
        |stats| stats.limited,
    ),
    figure(
        "wheelwork_durable_done_kept",
        "Records of runs that are done.",
        |stats| stats.done_kept,
    ),
    figure(
        "wheelwork_durable_disk_bytes",
        "Size of the store on disk; 0 if it is not known.",
        |stats| stats.disk_bytes.unwrap_or(0),
    ),
    figure(
        "wheelwork_durable_window_rows",
        "Timers in memory.",
        |stats| stats.window_rows,
    ),
    figure(
        "wheelwork_durable_window_bytes",
        "Bytes of the payloads, keys, kinds, calendars and traces of timers in memory.",
        |stats| stats.window_bytes,
    ),
];

const LAG: &str = "wheelwork_durable_lag_seconds";
const LAG_HELP: &str = "How long ago the oldest timer was due that waits for its handler.";

const TURN: &str = "wheelwork_durable_turn_seconds";
const TURN_HELP: &str = "How long the present turn of the thread that stores changes has lasted: \
    it grows while the store hangs.";

const LATENESS: &str = "wheelwork_durable_lateness_seconds";
const LATENESS_HELP: &str = "How late timers were handed to their handlers, rounded up by a \
    quarter at the most.";

const COMMIT: &str = "wheelwork_durable_commit_seconds";
const COMMIT_HELP: &str = "How long commits of the store took, rounded up by a quarter at the \
    most.";

/// Reports the figures of durable timers to the recorder of the crate `metrics` that the program
/// has installed. A [`Reporter`](wheelwork::metrics::Reporter) does so for a timer service.
///
/// A name is `wheelwork_durable_` and the name of a field of [`DurableStats`]; counters end in
/// `_total`. Four figures are in seconds: the gauges `wheelwork_durable_lag_seconds` and
/// `wheelwork_durable_turn_seconds`, and the histograms `wheelwork_durable_lateness_seconds` and
/// `wheelwork_durable_commit_seconds`.
///
/// Clones report together: what one has reported to a histogram no other reports again. After a
/// stop the last figures are reported.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, DurableReporter, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// let reporter = DurableReporter::new(&timers).service("orders");
/// // Just before each scrape:
/// reporter.report();
/// // Or at a fixed rate:
/// wheelwork::global()?
///     .every(Duration::from_secs(10))
///     .start(move || reporter.report())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DurableReporter {
    timers: DurableClient,
    labels: Vec<Label>,
    reported: Arc<Mutex<ReportedFigures>>,
}

/// What the recorder has got so far.
#[derive(Default)]
struct ReportedFigures {
    names: bool,
    /// The numbers in the buckets of the histograms, by the buckets' starts.
    lateness: HistogramReport,
    commit_time: HistogramReport,
}

impl DurableReporter {
    /// A reporter. One is enough. Two that are not clones of each other would each report all of
    /// the histograms.
    #[must_use]
    pub fn new(timers: &DurableClient) -> Self {
        Self {
            timers: timers.clone(),
            labels: Vec::new(),
            reported: Arc::default(),
        }
    }

    /// Gives all figures the label `service` with this name.
    #[must_use]
    pub fn service(mut self, name: impl Into<SharedString>) -> Self {
        self.labels = vec![Label::new("service", name)];
        self
    }

    /// Reports now, to the recorder of the calling thread, or else to the global one. Cost: as
    /// [`Reporter::report`](wheelwork::metrics::Reporter::report), for a service of one shard.
    ///
    /// # Panics
    /// If the recorder panics.
    pub fn report(&self) {
        // Locked before the stats are read: so the figures of two reports do not go back.
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let ReportedFigures {
            names,
            lateness,
            commit_time,
        } = &mut *reported;
        let stats = self.timers.stats();
        metrics::with_recorder(|recorder| {
            if !std::mem::replace(names, true) {
                describe(recorder);
            }
            for counter in &COUNTERS {
                recorder
                    .register_counter(&key(counter.name, &self.labels), &METADATA)
                    .absolute((counter.read)(&stats));
            }
            for gauge in &GAUGES {
                recorder
                    .register_gauge(&key(gauge.name, &self.labels), &METADATA)
                    .set((gauge.read)(&stats) as f64);
            }
            for (name, time) in [(LAG, stats.lag), (TURN, stats.turn)] {
                recorder
                    .register_gauge(&key(name, &self.labels), &METADATA)
                    .set(time.as_secs_f64());
            }
            for (name, reported, now) in [
                (LATENESS, lateness, &stats.lateness),
                (COMMIT, commit_time, &stats.commit_time),
            ] {
                let histogram = recorder.register_histogram(&key(name, &self.labels), &METADATA);
                reported.report(&histogram, now);
            }
        });
    }
}

impl fmt::Debug for DurableReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableReporter")
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

fn describe(recorder: &dyn Recorder) {
    for figure in &COUNTERS {
        let (name, unit, help) = figure.description();
        recorder.describe_counter(name, unit, help);
    }
    for figure in &GAUGES {
        let (name, unit, help) = figure.description();
        recorder.describe_gauge(name, unit, help);
    }
    let seconds = Some(Unit::Seconds);
    recorder.describe_gauge(LAG.into(), seconds, LAG_HELP.into());
    recorder.describe_gauge(TURN.into(), seconds, TURN_HELP.into());
    recorder.describe_histogram(LATENESS.into(), seconds, LATENESS_HELP.into());
    recorder.describe_histogram(COMMIT.into(), seconds, COMMIT_HELP.into());
}
