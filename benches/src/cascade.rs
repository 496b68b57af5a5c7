//! `--cascade`: how late a timer of one tick is while the wheel cascades a slot of all the others: in steps, as it does, and in one go.

use crate::args::Args;
use crate::phases::lead;
use crate::report::Report;
use crate::{progress, run};
use hdrhistogram::Histogram;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::TimerHandle;

/// Ticks that the cascade may delay the timer.
const DELAY_TICKS_MAX: u32 = 2;

/// The timer is watched for so long, or a slot, before the others are due. Ten million need 0.6 s to be cascaded.
const WATCHED: Duration = Duration::from_millis(900);

/// Rounds, of which the best counts: a shared machine stalls by itself, a cascade delays the timer each time.
const ROUNDS: usize = 3;

/// Ticks of a slot of level 1, which all timers are in.
const SLOT_TICKS: u32 = 256;

/// Later than this is not told apart.
const LATE_NS_MAX: u64 = 60_000_000_000;

/// The longest tick that it makes sense for: a slot is over in seconds.
const TICK_MAX: Duration = Duration::from_millis(10);

/// The payload of the timer that is watched.
const PROBE: u32 = u32::MAX;

/// A timer of one tick that arms itself again when it fires.
struct Probe {
    tick: Duration,
    state: Mutex<State>,
}

struct State {
    handle: Option<TimerHandle<u32>>,
    due: Instant,
    /// What is due in this time is recorded.
    recorded: Range<Instant>,
    late_ns: Histogram<u64>,
}

impl Probe {
    fn new(tick: Duration) -> Self {
        let late_ns = Histogram::new_with_bounds(1, LATE_NS_MAX, 3).expect("the bounds are right");
        let now = Instant::now();
        Self { tick, state: Mutex::new(State { handle: None, due: now, recorded: now..now, late_ns }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fired(&self) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.recorded.contains(&state.due) {
            let late_ns = (now - state.due).as_nanos() as u64;
            state.late_ns.saturating_record(late_ns);
        }
        state.due = now + self.tick;
        if let Some(handle) = &state.handle {
            handle.schedule_at(state.due, PROBE).expect("the service runs");
        }
    }
}

/// Runs the measurements. Returns the promises that were broken.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    if args.tick > TICK_MAX {
        return Err(format!("--cascade with --tick {:?} takes too long, up to {TICK_MAX:?} will do", args.tick));
    }
    progress::say(format_args!("{} timers in one slot of {SLOT_TICKS} ticks, tick {:?}, and one timer of a tick", args.timers, args.tick));
    let (mut report, mut broken) = (Report::new(), Vec::new());
    let alone = measure(args, 0, 0, true)?;
    report.section("the timer alone: lateness");
    report.lateness("alone", &alone);
    let late_ns_max = alone.max() + (args.tick * DELAY_TICKS_MAX).as_nanos() as u64;
    for (name, what, width) in [("spread", "all over the slot", 100), ("one_tick", "all at one tick", 0)] {
        let mut best = measure(args, args.timers, width, true)?;
        for _ in 1..ROUNDS {
            if best.max() > late_ns_max {
                let next = measure(args, args.timers, width, true)?;
                best = if next.max() < best.max() { next } else { best };
            }
        }
        report.section(&format!("{what}: lateness with the cascade in steps"));
        report.lateness(&format!("{name}_steps"), &best);
        if best.max() > late_ns_max {
            broken.push(format!("{what}: a cascade delayed a timer by more than {DELAY_TICKS_MAX} ticks"));
        }
        report.section(&format!("{what}: in one go"));
        report.lateness(&format!("{name}_whole"), &measure(args, args.timers, width, false)?);
    }
    report.section("verdict");
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

/// Arms timers for `width` ticks within one slot, and watches a timer of one tick until the first is due.
fn measure(args: &Args, timers: usize, width: u32, in_steps: bool) -> Result<Histogram<u64>, String> {
    let probe = Arc::new(Probe::new(args.tick));
    let watched = probe.clone();
    // Ticks are counted from here.
    let origin = Instant::now();
    let service = run::builder(args).cascade_budget(in_steps).on_expire(move |batch| {
        if batch.any(|payload| payload == PROBE) {
            watched.fired();
        }
        batch.for_each(drop);
    });
    let service = service.start().map_err(|error| error.to_string())?;
    let _shown = progress::show(service.handle());
    // In the middle of a slot, so that it does not matter that the service counts from a little later.
    let slot = args.tick * SLOT_TICKS;
    let slots = (origin.elapsed() + lead(timers)).as_nanos() / slot.as_nanos() + 1;
    let first_due = origin + slot * slots as u32 + args.tick * 100;
    let recorded = first_due - WATCHED.max(slot)..first_due - args.tick * 10;
    probe.state().handle = Some(service.handle());
    probe.state().recorded = recorded.clone();
    probe.fired();
    for line in 0..timers as u32 {
        let after = (args.tick * width).mul_f64(f64::from(line) / timers as f64);
        service.schedule_at(first_due + after, 0u32).map_err(|error| error.to_string())?;
    }
    if Instant::now() > recorded.start {
        return Err(format!("{timers} timers could not be armed in {:?}; fewer would do", lead(timers) - WATCHED));
    }
    progress::wait("cascade", recorded.end.saturating_duration_since(Instant::now()));
    // The last one may be late.
    while probe.state().due < recorded.end {
        thread::sleep(args.tick);
    }
    probe.state().handle = None;
    service.stop();
    let late_ns = probe.state().late_ns.clone();
    Ok(late_ns)
}
