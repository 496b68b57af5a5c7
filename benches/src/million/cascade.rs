//! `--cascade`: how late a timer of one tick is while the wheel cascades a slot of all the others:
//! in steps, as it does. With the feature `internals`, also in one go.

use crate::args::Args;
use crate::phases::lead;
use crate::run;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::ServiceHandle;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lock::lock;
use wheelwork_kit::report::Report;
use wheelwork_kit::{program, progress};

/// Ticks that the cascade may delay the timer.
const DELAY_TICKS_MAX: u32 = 2;

/// The timer is watched for so long, or a slot, before the others are due. Ten million need 0.6 s
/// to be cascaded.
const WATCHED: Duration = Duration::from_millis(900);

/// Rounds, of which the best counts: a shared machine stalls by itself, a cascade delays the timer
/// each time.
const ROUNDS: usize = 3;

/// Ticks of a slot of level 1, which all timers are in.
const SLOT_TICKS: u32 = 256;

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
    handle: Option<ServiceHandle<u32>>,
    due: Instant,
    /// What is due in this time is recorded.
    recorded: Range<Instant>,
    lateness: Lateness,
}

impl Probe {
    fn fired(&self) {
        let (mut state, now) = (lock(&self.state), Instant::now());
        if state.recorded.contains(&state.due) {
            let late = now - state.due;
            state.lateness.late(0, late.as_nanos() as u64);
        }
        state.due = now + self.tick;
        if let Some(handle) = &state.handle {
            let armed = handle.schedule_at(state.due, PROBE);
            armed.expect("the service runs");
        }
    }
}

/// Runs the measurements. Returns the promises that were broken.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    if args.tick > TICK_MAX {
        return Err(format!(
            "--cascade with --tick {:?} takes too long, up to {TICK_MAX:?} will do",
            args.tick
        ));
    }
    program::say(format_args!(
        "{} timers in one slot of {SLOT_TICKS} ticks, tick {:?}, and one timer of a tick",
        args.timers, args.tick
    ));
    let (mut report, mut broken) = (Report::default(), Vec::new());
    let alone = measure(args, 0, 0, true)?;
    report.section("the timer alone: lateness");
    report.lateness("alone", &alone);
    let most = |lateness: &Lateness| lateness.quantile_ns(1.0);
    let late_ns_max = most(&alone) + (args.tick * DELAY_TICKS_MAX).as_nanos() as u64;
    for (name, what, width) in [
        ("spread", "all over the slot", 100),
        ("one_tick", "all at one tick", 0),
    ] {
        let mut best = measure(args, args.timers, width, true)?;
        for _ in 1..ROUNDS {
            if most(&best) > late_ns_max {
                let next = measure(args, args.timers, width, true)?;
                best = if most(&next) < most(&best) {
                    next
                } else {
                    best
                };
            }
        }
        report.section(&format!("{what}: lateness with the cascade in steps"));
        report.lateness(&format!("{name}_steps"), &best);
        if most(&best) > late_ns_max {
            broken.push(format!(
                "{what}: a cascade delayed a timer by more than {DELAY_TICKS_MAX} ticks"
            ));
        }
        if cfg!(feature = "internals") {
            report.section(&format!("{what}: in one go"));
            let whole = measure(args, args.timers, width, false)?;
            report.lateness(&format!("{name}_whole"), &whole);
        }
    }
    report.section("verdict");
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

/// Arms timers for `width` ticks within one slot, and watches a timer of one tick until the first
/// is due.
fn measure(args: &Args, timers: usize, width: u32, in_steps: bool) -> Result<Lateness, String> {
    let now = Instant::now();
    let state = State {
        handle: None,
        due: now,
        recorded: now..now,
        lateness: Lateness::ready(),
    };
    let probe = Arc::new(Probe {
        tick: args.tick,
        state: Mutex::new(state),
    });
    let watched = probe.clone();
    // Ticks are counted from here.
    let origin = Instant::now();
    let builder = run::builder(args);
    #[cfg(feature = "internals")]
    let builder = wheelwork::internals::cascade_budget(builder, in_steps);
    #[cfg(not(feature = "internals"))]
    debug_assert!(in_steps, "in one go needs the feature `internals`");
    let builder = builder.on_expire(move |batch| {
        if batch.any(|payload| payload == PROBE) {
            watched.fired();
        }
        batch.for_each(drop);
    });
    let service = builder.start().map_err(|error| error.to_string())?;
    // In the middle of a slot, so that it does not matter that the service counts from a little
    // later.
    let slot = args.tick * SLOT_TICKS;
    let slots = (origin.elapsed() + lead(timers)).as_nanos() / slot.as_nanos() + 1;
    let first_due = origin + slot * slots as u32 + args.tick * 100;
    let recorded = first_due - WATCHED.max(slot)..first_due - args.tick * 10;
    lock(&probe.state).handle = Some(service.handle());
    lock(&probe.state).recorded = recorded.clone();
    probe.fired();
    for line in 0..timers as u32 {
        let after = (args.tick * width).mul_f64(f64::from(line) / timers as f64);
        service
            .schedule_at(first_due + after, 0u32)
            .map_err(|error| error.to_string())?;
    }
    if Instant::now() > recorded.start {
        return Err(format!(
            "{timers} timers could not be armed in {:?}; fewer would do",
            lead(timers) - WATCHED
        ));
    }
    let left = recorded.end.saturating_duration_since(Instant::now());
    progress::wait("cascade", left);
    // The last one may be late.
    while lock(&probe.state).due < recorded.end {
        thread::sleep(args.tick);
    }
    lock(&probe.state).handle = None;
    service.stop();
    Ok(std::mem::take(&mut lock(&probe.state).lateness))
}
