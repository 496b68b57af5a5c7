//! The phases of a run: what the threads do, and what it cost.

use crate::ledger::{Ledger, Outcome};
use fastrand::Rng;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{TimerId, TimerService};
use wheelwork_kit::{progress, system};

/// The payload of the pair phase's timers, which are in no ledger. They fire only if the program is
/// stopped for longer than their delay.
pub(crate) const NO_LINE: u32 = u32::MAX;

/// The delay of the pair phase: a request timeout.
pub(crate) const PAIR_DELAY: Duration = Duration::from_secs(30);

/// The shortest delay of this number of armed timers: time to arm, churn, move and cancel them
/// before they are due, on a slow machine too.
pub(crate) fn lead(timers: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_nanos(timers as u64 * 1_000)
}

/// Operations between two reports of progress.
const STRIDE: usize = 8192;

/// What a phase took, until its last operation has settled: the wheels have taken in every message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
}

impl Cost {
    pub(crate) fn mops(&self) -> f64 {
        self.operations as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub(crate) fn cpu_s_per_mop(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.operations as f64 / 1e6).max(1e-9)
    }

    /// Nanoseconds of one thread's time for an operation.
    pub(crate) fn ns_per_op(&self, threads: usize) -> f64 {
        self.elapsed.as_nanos() as f64 * threads as f64 / (self.operations as f64).max(1.0)
    }
}

/// Timers of the pair phase that could not be cancelled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    pub(crate) timers: u64,
    /// Those that were not due.
    pub(crate) refused: u64,
}

/// A producer thread's part of the armed timers, with their lines.
pub(crate) type Own = Vec<(TimerId, u32)>;

pub(crate) struct Phases<'a> {
    pub(crate) service: &'a TimerService<u32>,
    pub(crate) seed: u64,
    pub(crate) pair_delay: Duration,
    /// Delays of armed timers are uniform from `lead` to `lead + spread`.
    pub(crate) lead: Duration,
    pub(crate) spread: Duration,
}

/// A thread's share of this number of timers.
fn part(all: usize, thread: usize, threads: usize) -> Range<usize> {
    all * thread / threads..all * (thread + 1) / threads
}

impl Phases<'_> {
    /// Runs `work(thread, done)` on this number of threads, pinned in turn to the cores, last core
    /// first, and measures it until all is settled.
    fn on_threads<O: Send>(
        &self,
        what: &str,
        owns: &mut [O],
        operations: usize,
        work: impl Fn(usize, &mut O, &AtomicU64) + Sync,
    ) -> Cost {
        let done: Box<[AtomicU64]> = owns.iter().map(|_| AtomicU64::new(0)).collect();
        let start = Barrier::new(owns.len() + 1);
        let (work, start) = (&work, &start);
        let sum = || done.iter().map(|done| done.load(Relaxed)).sum();
        progress::watch(what, operations as u64, sum, || {
            thread::scope(|scope| {
                let owns = owns.iter_mut().zip(&done).enumerate();
                let threads = owns.map(|(number, (own, done))| {
                    scope.spawn(move || {
                        system::pin(number);
                        start.wait();
                        work(number, own, done);
                    })
                });
                let threads: Vec<_> = threads.collect();
                let (before, cpu) = (Instant::now(), system::cpu_time());
                start.wait();
                let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
                ended.for_each(|ended| ended.expect("a producer does not panic"));
                self.settle();
                Cost {
                    operations: operations as u64,
                    elapsed: before.elapsed(),
                    cpu: system::cpu_time() - cpu,
                }
            })
        })
    }

    /// Waits until the shards have found their lanes empty: two turns after which nothing more was
    /// drained.
    fn settle(&self) {
        let look = || {
            let stats = self.service.stats();
            let turns = stats
                .shards
                .iter()
                .map(|shard| shard.machinery.turns())
                .min();
            (turns, stats.sum(|shard| shard.machinery.drained()))
        };
        let mut before = look();
        // A shard in a long sleep has nothing that is worth waking it for: give up after some
        // turns' time.
        let patience = Instant::now() + Duration::from_millis(20);
        while Instant::now() < patience {
            thread::sleep(Duration::from_micros(100));
            let now = look();
            if now.1 != before.1 {
                before = now;
            } else if now.0 > before.0 {
                return;
            }
        }
    }

    fn rng(&self, factor: u64, thread: usize) -> Rng {
        Rng::with_seed(self.seed.wrapping_mul(factor).wrapping_add(thread as u64))
    }

    /// Arm and cancel at once. Threads take blocks of pairs as they come along: one that shares its
    /// core with a shard takes fewer.
    pub(crate) fn pairs(&self, threads: usize, pairs: usize) -> (Cost, Gone) {
        let blocks = pairs.div_ceil(STRIDE);
        let next = AtomicUsize::new(0);
        let mut gone = vec![Gone::default(); threads];
        let cost = self.on_threads("pairs", &mut gone, blocks * STRIDE, |_, gone, done| {
            while next.fetch_add(1, Relaxed) < blocks {
                let begun = Instant::now();
                for _ in 0..STRIDE {
                    let armed = self.service.schedule(self.pair_delay, NO_LINE);
                    if !self.service.cancel(armed.expect("the service runs")) {
                        gone.timers += 1;
                        gone.refused += u64::from(begun.elapsed() < self.pair_delay);
                    }
                }
                done.fetch_add(STRIDE as u64, Relaxed);
            }
        });
        let sum = |count: fn(&Gone) -> u64| gone.iter().map(count).sum();
        let (timers, refused) = (sum(|gone| gone.timers), sum(|gone| gone.refused));
        (cost, Gone { timers, refused })
    }

    /// Arms `timers` with uniform delays. Returns each thread's part.
    pub(crate) fn arm(&self, ledger: &Ledger, threads: usize, timers: usize) -> (Vec<Own>, Cost) {
        // Memory of the handles, and delays, before the clock starts.
        let own = |thread| {
            let mut rng = self.rng(1009, thread);
            let delays = part(timers, thread, threads).map(|_| self.delay(&mut rng));
            let delays: Vec<Duration> = delays.collect();
            (Own::with_capacity(delays.len()), delays)
        };
        let mut owns: Vec<_> = (0..threads).map(own).collect();
        let cost = self.on_threads("arm", &mut owns, timers, |thread, (own, delays), done| {
            let lines = part(timers, thread, threads).zip(delays.iter());
            for (step, (line, &delay)) in lines.enumerate() {
                own.push(self.arm_one(ledger, line as u32, delay));
                tell(done, step);
            }
        });
        (owns.into_iter().map(|(own, _)| own).collect(), cost)
    }

    fn delay(&self, rng: &mut Rng) -> Duration {
        self.lead + Duration::from_nanos(rng.u64(..=self.spread.as_nanos() as u64))
    }

    fn arm_one(&self, ledger: &Ledger, line: u32, delay: Duration) -> (TimerId, u32) {
        ledger.open(line, Instant::now() + delay);
        let armed = self.service.schedule(delay, line);
        (armed.expect("the service runs"), line)
    }

    /// Cancels a timer. Returns how many were cancelled, for the count.
    fn cancel_one(&self, ledger: &Ledger, (id, line): (TimerId, u32)) -> u64 {
        let cancelled = self.service.cancel(id);
        if cancelled {
            ledger.close(line, Outcome::Cancelled);
        } else {
            ledger.gone([line], 1);
        }
        u64::from(cancelled)
    }

    /// Cancels a random own timer and arms another, `steps` times in all. Lines from `first` on are
    /// free.
    pub(crate) fn churn(
        &self,
        ledger: &Ledger,
        owns: &mut [Own],
        steps: usize,
        first: usize,
    ) -> Cost {
        let threads = owns.len();
        self.on_threads("churn", owns, steps, |thread, own, done| {
            let mut rng = self.rng(2003, thread);
            let mut cancelled = 0;
            for (step, line) in part(steps, thread, threads).enumerate() {
                let timer = rng.usize(..own.len());
                cancelled += self.cancel_one(ledger, own[timer]);
                let delay = self.delay(&mut rng);
                own[timer] = self.arm_one(ledger, (first + line) as u32, delay);
                tell(done, step);
            }
            ledger.count(Outcome::Cancelled, cancelled);
        })
    }

    /// Moves random timers to `lead + spread` from now, on one thread, one by one and then in one
    /// call: heartbeats, whose deadlines only get later.
    pub(crate) fn heartbeats(&self, ledger: &Ledger, owns: &mut [Own], steps: usize) -> [Cost; 2] {
        let timers = owns.concat();
        let mut rng = self.rng(4001, 0);
        let order = (0..steps).map(|_| timers[rng.usize(..timers.len())]);
        let order: Vec<(TimerId, u32)> = order.collect();
        let delay = self.lead + self.spread;
        let due = Instant::now() + delay;
        let mut gone = [Vec::new()];
        let one_by_one = self.on_threads("heartbeats", &mut gone, steps, |_, gone, done| {
            for (step, &(id, line)) in order.iter().enumerate() {
                if !self.service.reschedule(id, delay) {
                    ledger.gone([line], 1);
                    gone.push(line);
                }
                tell(done, step);
            }
        });
        let together = self.on_threads("heartbeats, batch", &mut [()], steps, |_, (), done| {
            let ids = order.iter().map(|&(id, _)| id);
            let moved = self.service.reschedule_many(ids, delay);
            ledger.gone(order.iter().map(|&(_, line)| line), (steps - moved) as u64);
            done.store(steps as u64, Relaxed);
        });
        // Not before this, and the next phase moves each of them once more. What was gone is due as
        // it was.
        let [mut gone] = gone;
        gone.sort_unstable();
        let moved = order.iter().map(|&(_, line)| line);
        moved
            .filter(|line| gone.binary_search(line).is_err())
            .for_each(|line| ledger.moved(line, due));
        [one_by_one, together]
    }

    /// Moves every timer once, to a uniform delay: half of them get earlier.
    pub(crate) fn moves(&self, ledger: &Ledger, owns: &mut [Own]) -> Cost {
        let timers = owns.iter().map(Vec::len).sum();
        self.on_threads("moves", owns, timers, |thread, own, done| {
            let mut rng = self.rng(5003, thread);
            for (step, &(id, line)) in own.iter().enumerate() {
                let delay = self.delay(&mut rng);
                let reschedule = || self.service.reschedule(id, delay);
                ledger.move_to(line, Instant::now() + delay, reschedule);
                tell(done, step);
            }
        })
    }

    /// Cancels `percent` of the timers, in random order.
    pub(crate) fn cancel(&self, ledger: &Ledger, owns: &mut [Own], percent: u8) -> Cost {
        for (thread, own) in owns.iter_mut().enumerate() {
            self.rng(3001, thread).shuffle(own);
        }
        let share = |own: &Own| own.len() * usize::from(percent) / 100;
        let cancels = owns.iter().map(share).sum();
        self.on_threads("cancel", owns, cancels, |_, own, done| {
            let mut cancelled = 0;
            for (step, &timer) in own[..share(own)].iter().enumerate() {
                cancelled += self.cancel_one(ledger, timer);
                tell(done, step);
            }
            ledger.count(Outcome::Cancelled, cancelled);
        })
    }

    /// Waits until everything that is armed has fired, or five seconds after the last one was due.
    pub(crate) fn wait_for_fires(&self, ledger: &Ledger, expected: u64) {
        let patience = ledger.last_due() + Duration::from_secs(5);
        let fired = || ledger.fired_so_far();
        progress::watch("fire", expected, fired, || {
            while fired() < expected && Instant::now() < patience {
                thread::sleep(Duration::from_millis(1));
            }
        });
    }

    /// Arms `timers` for one instant, from all threads; their payloads carry `mark`.
    pub(crate) fn arm_burst(
        &self,
        ledger: &Ledger,
        threads: usize,
        timers: usize,
        mark: u32,
    ) -> Cost {
        // Time to arm them all, on a slow machine too.
        let lead = Duration::from_millis(300) + Duration::from_nanos(timers as u64 * 300);
        let due = Instant::now() + lead;
        let mut owns = vec![(); threads];
        self.on_threads("burst", &mut owns, timers, |thread, (), done| {
            for (step, line) in part(timers, thread, threads).enumerate() {
                ledger.open(line as u32, due);
                let armed = self.service.schedule_at(due, line as u32 | mark);
                armed.expect("the service runs");
                tell(done, step);
            }
        })
    }
}

fn tell(done: &AtomicU64, step: usize) {
    if step.is_multiple_of(STRIDE) {
        done.store(step as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Balance;
    use std::sync::Arc;
    use wheelwork::Dispatch;

    const TIMERS: usize = 1_000;

    /// Runs `phases` with delays of zero. What came of it, and how many timers of pairs have fired.
    fn at_once(phases: impl FnOnce(&Phases<'_>, &Ledger)) -> (Balance, u64) {
        let (ledger, pairs) = (
            Arc::new(Ledger::each(2 * TIMERS)),
            Arc::<AtomicU64>::default(),
        );
        let (noted, fired_pairs) = (ledger.clone(), pairs.clone());
        let builder = TimerService::builder().tick(Duration::from_micros(1));
        let builder = builder.dispatch(Dispatch::Inline);
        let service = builder.on_expire(move |batch: &mut wheelwork::Batch<'_, u32>| {
            let mut firing = noted.firing(Instant::now());
            batch.for_each(|line| match line {
                NO_LINE => _ = fired_pairs.fetch_add(1, Relaxed),
                _ => firing.fired(line),
            });
        });
        let service = service.start().expect("it starts");
        let zero = Duration::ZERO;
        let at_once = Phases {
            service: &service,
            seed: 1,
            pair_delay: zero,
            lead: zero,
            spread: zero,
        };
        phases(&at_once, &ledger);
        for unfired in service.stop() {
            ledger.close(unfired.payload, Outcome::HandedBack);
            ledger.count(Outcome::HandedBack, 1);
        }
        (ledger.balance(), pairs.load(Relaxed))
    }

    /// As if the program had been stopped after each phase for as long as its timers wait.
    #[test]
    fn timers_that_have_fired_meanwhile_are_accounted_for() {
        let (balance, _) = at_once(|phases, ledger| {
            let (mut owns, _) = phases.arm(ledger, 2, TIMERS);
            let all_fire = || {
                while ledger.balance().lost > 0 {
                    thread::yield_now();
                }
            };
            all_fire();
            phases.churn(ledger, &mut owns, TIMERS, TIMERS);
            all_fire();
            phases.heartbeats(ledger, &mut owns, TIMERS);
            phases.moves(ledger, &mut owns);
            phases.cancel(ledger, &mut owns, 100);
        });
        assert_eq!(balance.broken(), [""; 0], "{balance:?}");
        assert_eq!((balance.armed, balance.handed_back), (2 * TIMERS as u64, 0));
    }

    /// The same, but they fire when they like.
    #[test]
    fn timers_that_fire_while_they_are_moved_are_accounted_for() {
        let (balance, _) = at_once(|phases, ledger| {
            let (mut owns, _) = phases.arm(ledger, 2, TIMERS);
            phases.heartbeats(ledger, &mut owns, TIMERS);
            phases.moves(ledger, &mut owns);
            phases.churn(ledger, &mut owns, TIMERS, TIMERS);
            phases.cancel(ledger, &mut owns, 100);
        });
        assert_eq!(balance.broken(), [""; 0], "{balance:?}");
        assert_eq!(balance.armed, 2 * TIMERS as u64);
    }

    #[test]
    fn pairs_that_fire_are_counted() {
        let mut gone = Gone::default();
        let (_, fired) = at_once(|phases, _| gone = phases.pairs(2, 200_000).1);
        assert_eq!((gone.timers, gone.refused), (fired, 0));
    }
}
