//! `--idle`: what a service costs that has nothing to do, and how rarely it is rung while timeouts are armed and cancelled.

use crate::args::Args;
use crate::report::{Report, Value};
use crate::{progress, run, system};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::TimerService;

const TIMEOUT: Duration = Duration::from_secs(30);
const FAR: Duration = Duration::from_secs(3600);

/// Rings a second that arming and cancelling 30 s timeouts may cost, at any rate.
const RINGS_PER_S_MAX: f64 = 100.0;

/// A shard is asleep for good so long after the last message.
const QUIET: Duration = Duration::from_secs(10);

/// Rates of request timeouts, a second; the last as fast as it goes.
const RATES: [u32; 5] = [10, 100, 1_000, 10_000, u32::MAX];

struct Idle {
    wakeups: u64,
    cpu: Duration,
}

/// Runs the idle measurements. Returns the promises that were broken.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    let service = run::service(args, |batch| batch.for_each(drop)).map_err(|error| error.to_string())?;
    let _shown = progress::show(service.handle());
    let mut report = Report::new();
    let mut broken = Vec::new();
    report.section("30 s timeouts armed and cancelled on an otherwise empty service");
    let mut rings_per_s_max: f64 = 0.0;
    for rate in RATES {
        let (rings_per_s, refused) = rings(&service, rate, Duration::from_secs(2));
        rings_per_s_max = rings_per_s_max.max(rings_per_s);
        if refused > 0 {
            broken.push(format!("{refused} timeouts gone before they were due"));
        }
        let rate = if rate == u32::MAX { "as fast as it goes".to_string() } else { format!("{rate} a second") };
        progress::say(format_args!("  {rate:<28} {rings_per_s:>8.1} rings/s"));
    }
    report.line("most rings a second", "rings_per_s_max", Value::PerSecond(rings_per_s_max));
    if rings_per_s_max > RINGS_PER_S_MAX {
        broken.push(format!("{rings_per_s_max:.0} rings a second, more than {RINGS_PER_S_MAX}"));
    }
    progress::wait("quiet", QUIET);
    let empty = measure(&service, Duration::from_secs(5));
    report.section("then, 10 s later, for 5 s");
    idle(&mut report, &mut broken, "empty", &empty);

    let before = system::resident_bytes();
    for line in 0..args.timers as u32 {
        service.schedule(FAR, line).map_err(|error| error.to_string())?;
    }
    let bytes = system::resident_bytes().saturating_sub(before);
    progress::wait("quiet", QUIET);
    let standing = measure(&service, Duration::from_secs(10));
    report.section(&format!("{} timers an hour away, for 10 s", args.timers));
    idle(&mut report, &mut broken, "standing", &standing);
    report.line("per pending timer", "bytes_per_timer", Value::Bytes(bytes as f64 / args.timers as f64));
    let handed_back = service.stop().len();
    report.line("handed back by stop", "handed_back", Value::Count(handed_back as u64));
    if handed_back != args.timers {
        broken.push(format!("{} armed, {handed_back} handed back", args.timers));
    }
    report.section("verdict");
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

/// Arms and cancels at a rate for a while. Returns the rings a second, and timeouts that were gone
/// before they were due.
fn rings(service: &TimerService<u32>, rate: u32, time: Duration) -> (f64, u64) {
    let rung = || service.stats().sum(|shard| shard.rings);
    let (before, start, mut refused) = (rung(), Instant::now(), 0);
    progress::watch_time("timeouts", time, || {
        let mut now = start;
        while now - start < time {
            let id = service.schedule(TIMEOUT, 0).expect("the service runs");
            // It is gone if the program was stopped for so long.
            refused += u64::from(!service.cancel(id) && now.elapsed() < TIMEOUT);
            if rate != u32::MAX {
                thread::sleep(Duration::from_secs(1) / rate);
            }
            now = Instant::now();
        }
    });
    ((rung() - before) as f64 / start.elapsed().as_secs_f64(), refused)
}

fn measure(service: &TimerService<u32>, time: Duration) -> Idle {
    let wakeups = || service.stats().sum(|shard| shard.wakeups);
    let (before, cpu) = (wakeups(), system::cpu_time());
    progress::wait("idle", time);
    Idle { wakeups: wakeups() - before, cpu: system::cpu_time() - cpu }
}

fn idle(report: &mut Report, broken: &mut Vec<String>, name: &str, idle: &Idle) {
    report.line("wake-ups", &format!("{name}_wakeups"), Value::Count(idle.wakeups));
    report.line("CPU", &format!("{name}_cpu_s"), Value::Seconds(idle.cpu.as_secs_f64()));
    if idle.wakeups > 0 {
        broken.push(format!("{} wake-ups of an idle service ({name})", idle.wakeups));
    }
}
