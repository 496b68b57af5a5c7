//! What fires: how many in a second, and how late.

use crate::callers::Spent;
use crate::disk::Folder;
use crate::job::Job;
use crate::ledger::Ledger;
use crate::random::{Timers, now_ms, now_ns};
use crate::subjects::Subject;
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;

/// Arming takes at most a second for this number of timers, and `LEAD` more.
const ARMED_PER_S: u64 = 60_000;
const LEAD_MS: u64 = 2_500;

/// All are due within it.
const WITHIN_MS: u64 = 1_000;

/// Timers under way while they are armed.
const UNDER_WAY: usize = 65_536;

/// After the last deadline a second is waited for this number of timers, and [`PATIENCE`] more.
const FIRED_PER_S: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Delays of the timers whose lateness is measured.
const DELAY_MS: u64 = 1_000;
const DELAY_SPREAD_MS: u64 = 1_000;

/// Arms this number of timers without waiting for each.
pub(crate) fn arm_all<S: Subject>(
    subject: &S,
    count: usize,
    mut timer: impl FnMut() -> (u64, crate::random::Payload),
) -> Result<(), String> {
    let mut under_way = VecDeque::with_capacity(UNDER_WAY);
    for _ in 0..count {
        if under_way.len() == UNDER_WAY {
            under_way
                .pop_front()
                .map_or(Ok(()), |ticket| subject.armed(ticket).map(drop))?;
        }
        let (due, payload) = timer();
        under_way.push_back(subject.arm(due, &payload)?);
    }
    under_way
        .into_iter()
        .try_for_each(|ticket| subject.armed(ticket).map(drop))
}

/// Waits until this number of timers has fired, or it takes too long.
pub(crate) fn wait_until_fired(ledger: &Ledger, count: u64, patience: Duration) {
    let start = Instant::now();
    while ledger.fired_so_far() < count && start.elapsed() < patience {
        thread::sleep(LOOK_AGAIN);
    }
}

/// How long after the last deadline all must have fired.
fn patience(count: u64) -> Duration {
    PATIENCE + Duration::from_secs(count / FIRED_PER_S)
}

/// All due within a second: from the first deadline until the last ack is durable.
pub(crate) fn fire_and_ack<S: Subject>(
    job: &Job,
    subject: &S,
    ledger: &Ledger,
    folder: &Folder,
) -> Result<Figures, String> {
    let count = job.timers() as u64;
    let lead_ms = if job.quick {
        LEAD_MS / 5
    } else {
        LEAD_MS + count * 1_000 / ARMED_PER_S
    };
    let first_ms = now_ms().div_ceil(1_000) * 1_000 + lead_ms.next_multiple_of(1_000);
    let mut timers = Timers::within(job.seed, first_ms, WITHIN_MS);
    arm_all(subject, job.timers(), || (timers.due(), timers.payload()))?;
    let now = now_ms();
    if now >= first_ms {
        return Err(format!("arming took {} ms too long", now - first_ms));
    }
    thread::sleep(Duration::from_millis(first_ms - now));
    let spent = Spent::start(subject.server(), folder.path());
    let end = Instant::now() + Duration::from_millis(WITHIN_MS) + patience(count);
    wait_until_fired(ledger, count, end - Instant::now());
    let fired_ns = now_ns();
    while subject.acked() < count && Instant::now() < end {
        thread::sleep(LOOK_AGAIN);
    }
    let (acked, acked_ns) = (subject.acked(), now_ns());
    if acked < count {
        return Err(format!("{acked} of {count} were acknowledged in time"));
    }
    let after_first = |time_ns: u64| (time_ns.saturating_sub(first_ms * 1_000_000)) as f64 / 1e6;
    let mut figures = ledger.figures(count);
    figures.0.extend(spent.each(count, folder.path()).0);
    figures.extend([
        ("kops", count as f64 / after_first(acked_ns)),
        ("fired_ms", after_first(fired_ns)),
        ("acked_ms", after_first(acked_ns)),
    ]);
    Ok(figures)
}

/// Timers that are armed at a rate, in steps of a millisecond, each due at a random one 1 to 2 s
/// later.
pub(crate) fn lateness<S: Subject>(
    job: &Job,
    subject: &S,
    ledger: &Ledger,
) -> Result<Figures, String> {
    let mut timers = Timers::within(job.seed, 0, DELAY_SPREAD_MS);
    let delay_ms = if job.quick { DELAY_MS / 4 } else { DELAY_MS };
    let mut under_way: VecDeque<(Instant, S::Armed)> = VecDeque::new();
    let start = Instant::now();
    let mut armed = 0;
    loop {
        let elapsed = start.elapsed();
        if elapsed >= job.time() {
            break;
        }
        let wanted = (elapsed.as_secs_f64() * job.count as f64) as u64;
        let (now, now_ms) = (Instant::now(), now_ms());
        for _ in armed..wanted {
            let due = now_ms + delay_ms + timers.due();
            under_way.push_back((now, subject.arm(due, &timers.payload())?));
        }
        armed = armed.max(wanted);
        // Who cannot keep up gets no more than it can take.
        let old = now - Duration::from_millis(delay_ms / 2).min(elapsed);
        while under_way.front().is_some_and(|(begun, _)| *begun < old) {
            let oldest = under_way.pop_front();
            oldest.map_or(Ok(()), |(_, ticket)| subject.armed(ticket).map(drop))?;
        }
        thread::sleep(LOOK_AGAIN);
    }
    let armed_in = start.elapsed();
    for (_, ticket) in under_way {
        subject.armed(ticket)?;
    }
    let rest = Duration::from_millis(delay_ms + DELAY_SPREAD_MS);
    wait_until_fired(ledger, armed, rest + PATIENCE);
    let mut figures = ledger.figures(armed);
    figures.extend([("armed_per_s", armed as f64 / armed_in.as_secs_f64())]);
    Ok(figures)
}
