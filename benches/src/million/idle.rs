//! `--idle`: what a service costs that has nothing to do, and how rarely it is rung while timeouts
//! are armed and cancelled.

use crate::args::Args;
use crate::run;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::TimerService;
use wheelwork_kit::report::Report;
use wheelwork_kit::{program, progress, system};

const TIMEOUT: Duration = Duration::from_secs(30);
const FAR: Duration = Duration::from_secs(3600);

/// Rings a second that arming and cancelling 30 s timeouts may cost, at any rate.
const RINGS_PER_S_MAX: f64 = 100.0;

/// A shard is asleep for good so long after the last message.
const QUIET: Duration = Duration::from_secs(10);

/// Rates of request timeouts, a second; the last as fast as it goes.
const RATES: [u32; 5] = [10, 100, 1_000, 10_000, u32::MAX];

/// Runs the idle measurements. Returns the promises that were broken.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    let service = run::service(args, |batch| batch.for_each(drop))?;
    let mut report = Report::default();
    let mut broken = Vec::new();
    report.section("30 s timeouts armed and cancelled on an otherwise empty service");
    let mut rings_per_s_max: f64 = 0.0;
    for rate in RATES {
        let (rings_per_s, refused) = rings(&service, rate, Duration::from_secs(2));
        rings_per_s_max = rings_per_s_max.max(rings_per_s);
        if refused > 0 {
            broken.push(format!("{refused} timeouts gone before they were due"));
        }
        let rate = match rate {
            u32::MAX => "as fast as it goes".to_string(),
            rate => format!("{rate} a second"),
        };
        program::say(format_args!("  {rate:<28} {rings_per_s:>8.1} rings/s"));
    }
    let most = rings_per_s_max;
    report.figure("most rings a second", "rings_per_s_max", most, "/s");
    if most > RINGS_PER_S_MAX {
        let limit = format!("more than {RINGS_PER_S_MAX}");
        broken.push(format!("{most:.0} rings a second, {limit}"));
    }
    report.section("then, 10 s later, for 5 s");
    let time = Duration::from_secs(5);
    broken.extend(idle(&service, &mut report, "empty", time));

    let before = system::resident_bytes();
    for line in 0..args.timers as u32 {
        service
            .schedule(FAR, line)
            .map_err(|error| error.to_string())?;
    }
    let bytes = system::resident_bytes().saturating_sub(before);
    report.section(&format!("{} timers an hour away, for 10 s", args.timers));
    let time = Duration::from_secs(10);
    broken.extend(idle(&service, &mut report, "standing", time));
    let each = bytes as f64 / args.timers as f64;
    report.figure("per pending timer", "bytes_per_timer", each, "B");
    let handed_back = service.stop().len();
    report.count("handed back by stop", "handed_back", handed_back as u64);
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
    let rung = || service.stats().sum(|shard| shard.machinery.rings());
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
    let rings_per_s = (rung() - before) as f64 / start.elapsed().as_secs_f64();
    (rings_per_s, refused)
}

/// For a while, once it is quiet. What is broken, if something is.
fn idle(
    service: &TimerService<u32>,
    report: &mut Report,
    name: &str,
    time: Duration,
) -> Option<String> {
    progress::wait("quiet", QUIET);
    let wakeups = || service.stats().sum(|shard| shard.machinery.wakeups());
    let (before, cpu) = (wakeups(), system::cpu_time());
    progress::wait("idle", time);
    let (wakeups, cpu) = (wakeups() - before, system::cpu_time() - cpu);
    report.count("wake-ups", &format!("{name}_wakeups"), wakeups);
    report.figure("CPU", &format!("{name}_cpu_s"), cpu.as_secs_f64(), "s");
    (wakeups > 0).then(|| format!("{wakeups} wake-ups of an idle service ({name})"))
}
