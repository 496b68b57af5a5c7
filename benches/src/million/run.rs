//! The main run: all phases on one service, then the table and the verdict.

use crate::args::Args;
use crate::figures::Figures;
use crate::ledger::{Ledger, Outcome};
use crate::phases::{NO_LINE, PAIR_DELAY, Phases, lead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use wheelwork::{Batch, Builder, Dispatch, ShardStats, TimerService};
use wheelwork_kit::report::Report;
use wheelwork_kit::{program, system};

/// Pairs, two for each timer: fewer are measured too shortly, more tell nothing new.
const PAIRS: std::ops::RangeInclusive<usize> = 100_000..=2_000_000;

/// Churn steps at the most: more tell nothing new.
const CHURN_MAX: usize = 1_000_000;

/// The ledger of each of the two parts of a run: timers spread over time, and the burst.
struct Ledgers {
    spread: Ledger,
    burst: Ledger,
    /// Timers of the pair phase that have fired.
    pairs: AtomicU64,
    handled: AtomicU32,
    panic_every: u32,
}

/// Payloads of the burst are marked by this bit.
const BURST: u32 = 1 << 31;

impl Ledgers {
    fn handle(&self, batch: &mut Batch<'_, u32>) {
        let start = Instant::now();
        let (mut spread, mut burst) = (self.spread.firing(start), self.burst.firing(start));
        let mut fired = |payload: u32| {
            if payload == NO_LINE {
                self.pairs.fetch_add(1, Relaxed);
                return;
            }
            let firing = if payload & BURST == 0 {
                &mut spread
            } else {
                &mut burst
            };
            firing.fired(payload & !BURST);
        };
        if self.panic_every == 0 {
            // All at once: tiny tasks need no helpers, and the ledger's cache misses overlap.
            let mut payloads = Vec::with_capacity(batch.remaining());
            payloads.extend(batch);
            payloads.into_iter().for_each(fired);
            return;
        }
        for payload in batch {
            fired(payload);
            if (self.handled.fetch_add(1, Relaxed) + 1).is_multiple_of(self.panic_every) {
                std::panic::panic_any(Deliberate);
            }
        }
    }

    fn of(&self, payload: u32) -> (&Ledger, u32) {
        if payload & BURST == 0 {
            (&self.spread, payload)
        } else {
            (&self.burst, payload & !BURST)
        }
    }
}

/// The payload of the panics that were asked for: not worth a message.
struct Deliberate;

/// The service that the arguments ask for.
pub(crate) fn builder(args: &Args) -> Builder {
    let mut builder = TimerService::builder().tick(args.tick);
    if let Some(shards) = args.shards {
        builder = builder.shards(shards);
    }
    if args.inline {
        builder = builder.dispatch(Dispatch::Inline);
    }
    builder
}

/// The same with a handler, started.
pub(crate) fn service(
    args: &Args,
    handler: impl Fn(&mut Batch<'_, u32>) + Send + Sync + 'static,
) -> Result<TimerService<u32>, String> {
    let started = builder(args).on_expire(handler).start();
    started.map_err(|error| error.to_string())
}

/// Runs everything. Returns the promises that were broken, or what is wrong with the arguments.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Deliberate>() {
            hook(panic);
        }
    }));
    let (timers, threads) = (args.timers, args.threads());
    let steps = (timers / 2).min(CHURN_MAX);
    let ledgers = Arc::new(Ledgers {
        spread: Ledger::each(timers + steps),
        burst: Ledger::same(timers),
        pairs: AtomicU64::new(0),
        handled: AtomicU32::new(0),
        panic_every: args.panic_every,
    });
    let empty_bytes = system::resident_bytes();
    let noted = ledgers.clone();
    let service = service(args, move |batch| noted.handle(batch))?;
    let service_bytes = system::resident_bytes().saturating_sub(empty_bytes);
    program::say(format_args!(
        "{timers} timers, {threads} threads, {} shards, tick {:?}, spread {:?}, cancel {} %, {} cores",
        service.shards(),
        args.tick,
        args.spread,
        args.cancel,
        system::cores()
    ));

    let phases = Phases {
        service: &service,
        seed: args.seed,
        pair_delay: PAIR_DELAY,
        lead: lead(timers),
        spread: args.spread,
    };
    let pairs = (2 * timers).clamp(*PAIRS.start(), *PAIRS.end());
    let (pair_1, gone_1) = phases.pairs(1, pairs);
    let (pair_t, gone_t) = phases.pairs(threads, pairs);
    // The burst comes first: its timers find the memory cold, so that their bytes can be told, and
    // in order.
    let before_arm_bytes = system::resident_bytes();
    let arm_burst = phases.arm_burst(&ledgers.burst, threads, timers, BURST);
    let bytes_per_timer =
        system::resident_bytes().saturating_sub(before_arm_bytes) as f64 / timers as f64;
    phases.wait_for_fires(&ledgers.burst, timers as u64);
    let (mut owns, arm) = phases.arm(&ledgers.spread, threads, timers);
    let churn = phases.churn(&ledgers.spread, &mut owns, steps, timers);
    let heartbeats = phases.heartbeats(&ledgers.spread, &mut owns, steps);
    let moves = phases.moves(&ledgers.spread, &mut owns);
    let cancel = phases.cancel(&ledgers.spread, &mut owns, args.cancel);
    drop(owns);
    let expected = {
        let now = ledgers.spread.balance();
        now.armed - now.cancelled
    };
    let fire_cpu = system::cpu_time();
    phases.wait_for_fires(&ledgers.spread, expected);
    let fire_cpu = system::cpu_time() - fire_cpu;
    let stats = service.stats();
    for unfired in service.stop() {
        let (ledger, line) = ledgers.of(unfired.payload);
        ledger.close(line, Outcome::HandedBack);
        ledger.count(Outcome::HandedBack, 1);
    }

    let mut balance = ledgers.spread.balance();
    balance.add(&ledgers.burst.balance());
    balance.refused += gone_1.refused + gone_t.refused;
    let mut report = Report::default();
    report.section("cost, until settled");
    report.cost("pair, 1 thread", "pair_1", &pair_1, 1);
    report.cost("pair, all threads", "pair", &pair_t, threads);
    let scaling = pair_t.mops() / pair_1.mops();
    report.figure("  scaling", "pair_scaling", scaling, "x");
    report.cost("arm, cold memory", "arm_cold", &arm_burst, threads);
    report.cost("arm, warm memory", "arm", &arm, threads);
    report.cost("churn (cancel one, arm one)", "churn", &churn, threads);
    let [one_by_one, many] = heartbeats;
    report.cost(
        "re-arm later, random, 1 thr.",
        "heartbeat_1",
        &one_by_one,
        1,
    );
    report.cost("the same in one call", "heartbeat_many_1", &many, 1);
    report.cost("re-arm to anywhere", "rearm", &moves, threads);
    report.cost("cancel, random order", "cancel", &cancel, threads);
    report.section("memory");
    report.figure("per pending timer", "bytes_per_timer", bytes_per_timer, "B");
    report.figure("empty service", "service_bytes", service_bytes as f64, "B");
    report.section("lateness of what fired over time");
    report.lateness("lateness", &ledgers.spread.lateness());
    report.figure(
        "CPU while firing",
        "fire_cpu_s",
        fire_cpu.as_secs_f64(),
        "s",
    );
    report.section("burst: all due at one instant");
    let [first_ms, last_ms] = ledgers.burst.first_and_last_ms();
    report.figure("first task after", "burst_first_ms", first_ms, "ms");
    report.figure("last task after", "burst_last_ms", last_ms, "ms");
    report.section("what the shards did");
    let sum = |counter: fn(&ShardStats) -> u64| stats.sum(counter);
    report.count(
        "wake-ups",
        "wakeups",
        sum(|shard| shard.machinery.wakeups()),
    );
    report.count("rings", "rings", sum(|shard| shard.machinery.rings()));
    report.count(
        "compactions",
        "compactions",
        sum(|shard| shard.machinery.figure("compactions").unwrap()),
    );
    report.count("panics in handlers", "panics", stats.panics);
    let unpinned = stats.unpinned_shards as u64;
    report.count("shards not pinned", "unpinned_shards", unpinned);
    let mut broken = balance.broken();
    let handled = ledgers.handled.load(Relaxed);
    let panics = u64::from(handled.checked_div(args.panic_every).unwrap_or(0));
    if stats.panics != panics {
        let counted = stats.panics;
        broken.push(format!(
            "{panics} handlers panicked, {counted} were counted"
        ));
    }
    let (gone, fired) = (gone_1.timers + gone_t.timers, ledgers.pairs.load(Relaxed));
    if gone != fired {
        let gone = format!("{gone} timers of the pairs could not be cancelled");
        broken.push(format!("{gone}, {fired} fired"));
    }
    report.section("verdict");
    report.balance(&balance);
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}
