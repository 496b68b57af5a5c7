//! Ledger: which timers wait in a service, and when each has to fire.

use std::collections::BTreeSet;
use wheelwork::Missed;

/// The last nanosecond and the last tick that a service counts.
const NANOS_MAX: u64 = i64::MAX as u64;
const TICKS_MAX: u64 = (1 << 52) - 1;

/// What becomes of a timer when it has fired.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A payload that arms itself this number of times more, each time after a delay.
    Payload { again: u8, delay_ns: u64 },
    /// A closure that runs this number of times; without `missed` with a fixed delay.
    Periodic {
        runs: u8,
        period_ns: u64,
        missed: Option<Missed>,
        at_ns: u64,
        filed_ns: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    kind: Kind,
    deadline_ns: u64,
    /// At its deadline, or at once if time has ended.
    fires_ns: u64,
}

/// What waits, by number: timers are numbered as they are armed.
#[derive(Debug)]
pub struct Ledger {
    /// The length of a tick.
    pub tick_ns: u64,
    timers: Vec<Option<Timer>>,
    /// When timers fire, and their numbers.
    order: BTreeSet<(u64, usize)>,
}

impl Ledger {
    /// An empty ledger of a service with ticks of this length.
    #[must_use]
    pub fn new(tick_ns: u64) -> Self {
        Self {
            tick_ns,
            timers: Vec::new(),
            order: BTreeSet::new(),
        }
    }

    /// The tick at which a timer has to fire that is armed for a point in time; what is due now or
    /// before fires at the next one.
    #[must_use]
    pub fn deadline_ns(&self, now_ns: u64, at_ns: u64) -> u64 {
        let end_ns = (NANOS_MAX / self.tick_ns).min(TICKS_MAX) * self.tick_ns;
        at_ns
            .max(now_ns + 1)
            .checked_next_multiple_of(self.tick_ns)
            .map_or(end_ns, |deadline_ns| deadline_ns.min(end_ns))
    }

    /// A new timer.
    pub fn arm(&mut self, now_ns: u64, at_ns: u64, kind: Kind) {
        self.timers.push(None);
        self.file(self.timers.len() - 1, now_ns, at_ns.max(now_ns + 1), kind);
    }

    /// Puts a timer where it is meant to be, not where somebody moves it.
    fn file(&mut self, number: usize, now_ns: u64, meant_ns: u64, mut kind: Kind) {
        if let Kind::Periodic {
            at_ns, filed_ns, ..
        } = &mut kind
        {
            (*at_ns, *filed_ns) = (meant_ns, self.deadline_ns(now_ns, meant_ns));
        }
        self.put(number, now_ns, meant_ns, kind);
    }

    fn put(&mut self, number: usize, now_ns: u64, at_ns: u64, kind: Kind) {
        let deadline_ns = self.deadline_ns(now_ns, at_ns);
        let fires_ns = deadline_ns.max(now_ns);
        self.timers[number] = Some(Timer {
            kind,
            deadline_ns,
            fires_ns,
        });
        self.order.insert((fires_ns, number));
    }

    /// A timer is gone. Whether there was one.
    pub fn end(&mut self, number: usize) -> bool {
        let Some(timer) = self.timers[number].take() else {
            return false;
        };
        self.order.remove(&(timer.fires_ns, number))
    }

    /// A timer is moved. Whether there was one.
    pub fn reschedule(&mut self, number: usize, now_ns: u64, at_ns: u64) -> bool {
        let Some(Timer { kind, .. }) = self.timers[number] else {
            return false;
        };
        self.end(number);
        self.put(number, now_ns, at_ns, kind);
        true
    }

    /// Takes out what fires until a time: when, and which.
    pub fn fire(&mut self, until_ns: u64) -> Vec<(u64, usize)> {
        let mut fired = Vec::new();
        while let Some(&(now_ns, number)) = self
            .order
            .first()
            .filter(|&&(fires_ns, _)| fires_ns <= until_ns)
        {
            fired.push((now_ns, number));
            let timer = self.timers[number];
            self.end(number);
            if let Some((at_ns, kind)) = timer.and_then(|timer| again(timer, now_ns)) {
                self.file(number, now_ns, at_ns, kind);
            }
        }
        fired
    }

    /// Whether a timer has a payload, and its deadline; `None` if it is gone.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<(bool, u64)> {
        self.timers[number].map(|timer| {
            (
                matches!(timer.kind, Kind::Payload { .. }),
                timer.deadline_ns,
            )
        })
    }

    /// All timers that wait, those that fire first first: numbers, whether they have a payload, and
    /// deadlines.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool, u64)> {
        self.order.iter().filter_map(|&(_, number)| {
            self.get(number)
                .map(|(payload, deadline_ns)| (number, payload, deadline_ns))
        })
    }

    /// When the first timer fires.
    #[must_use]
    pub fn first_ns(&self) -> Option<u64> {
        self.order.first().map(|&(fires_ns, _)| fires_ns)
    }

    /// How many timers wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.order.len()
    }
}

/// When a timer that fires now comes again, if it does.
fn again(
    Timer {
        kind, deadline_ns, ..
    }: Timer,
    now_ns: u64,
) -> Option<(u64, Kind)> {
    match kind {
        Kind::Payload { again, delay_ns } => {
            let again = again.checked_sub(1)?;
            Some((
                now_ns.saturating_add(delay_ns),
                Kind::Payload { again, delay_ns },
            ))
        }
        Kind::Periodic {
            runs,
            period_ns,
            missed,
            at_ns,
            filed_ns,
        } => {
            let runs = runs.saturating_sub(1);
            // One that was moved goes on from there.
            let at_ns = if deadline_ns == filed_ns {
                at_ns
            } else {
                deadline_ns
            };
            let at_ns = next_run_ns(at_ns, period_ns, missed, now_ns).min(NANOS_MAX);
            (runs > 0).then_some((
                at_ns,
                Kind::Periodic {
                    runs,
                    period_ns,
                    missed,
                    at_ns,
                    filed_ns,
                },
            ))
        }
    }
}

fn next_run_ns(at_ns: u64, period_ns: u64, missed: Option<Missed>, now_ns: u64) -> u64 {
    let Some(missed) = missed else {
        return now_ns.saturating_add(period_ns);
    };
    let period_ns = period_ns.max(1);
    // The periods that have passed since it was meant to run.
    let passed = now_ns.saturating_sub(at_ns) / period_ns;
    let after = |periods: u64| at_ns.saturating_add(periods.saturating_mul(period_ns));
    match missed {
        Missed::Skip => after(passed + 1),
        Missed::Delay if passed > 0 => now_ns.saturating_add(period_ns),
        Missed::Delay => after(1),
        Missed::Burst(limit) => after(passed.saturating_sub(limit.into()) + 1),
    }
}
