//! The main run: all phases on one service, then the table and the verdict.

use crate::args::Args;
use crate::ledger::{Ledger, Outcome};
use crate::phases::{NO_LINE, PAIR_DELAY, Phases, lead};
use crate::report::{Report, Value};
use crate::{progress, system};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use wheelwork::{Batch, Builder, Dispatch, StartError, TimerService};

const PAIRS: usize = 2_000_000;

/// Churn steps at the most: more tell nothing new.
const CHURN_MAX: usize = 1_000_000;

/// The book of each of the two parts of a run: timers spread over time, and the burst.
struct Books {
    spread: Ledger,
    burst: Ledger,
    /// Timers of the pair phase that have fired.
    pairs: AtomicU64,
    handled: AtomicU32,
    panic_every: u32,
}

/// Payloads of the burst are marked by this bit.
const BURST: u32 = 1 << 31;

impl Books {
    fn handle(&self, batch: &mut Batch<'_, u32>) {
        let start = Instant::now();
        let (mut spread, mut burst) = (self.spread.firing(start), self.burst.firing(start));
        let mut fired = |payload: u32| {
            if payload == NO_LINE {
                self.pairs.fetch_add(1, Relaxed);
                return;
            }
            let firing = if payload & BURST == 0 { &mut spread } else { &mut burst };
            firing.fired(payload & !BURST);
        };
        if self.panic_every == 0 {
            // All at once: tiny tasks need no helpers, and the book's cache misses overlap.
            let mut payloads = Vec::with_capacity(batch.left());
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
        if payload & BURST == 0 { (&self.spread, payload) } else { (&self.burst, payload & !BURST) }
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
pub(crate) fn service(args: &Args, handler: impl Fn(&mut Batch<'_, u32>) + Send + Sync + 'static) -> Result<TimerService<u32>, StartError> {
    builder(args).on_expire(handler).start()
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
    let books = Arc::new(Books {
        spread: Ledger::each(timers + steps),
        burst: Ledger::same(timers),
        pairs: AtomicU64::new(0),
        handled: AtomicU32::new(0),
        panic_every: args.panic_every,
    });
    let empty_bytes = system::resident_bytes();
    let service = {
        let books = books.clone();
        service(args, move |batch| books.handle(batch))
    };
    let service = service.map_err(|error| error.to_string())?;
    let service_bytes = system::resident_bytes().saturating_sub(empty_bytes);
    progress::say(format_args!(
        "{timers} timers, {threads} threads, {} shards, tick {:?}, spread {:?}, cancel {} %, {} cores",
        service.shards(),
        args.tick,
        args.spread,
        args.cancel,
        system::cores()
    ));
    let _shown = progress::show(service.handle());

    let phases = Phases { service: &service, seed: args.seed, pair_delay: PAIR_DELAY, lead: lead(timers), spread: args.spread };
    let (pair_1, gone_1) = phases.pairs(1, PAIRS);
    let (pair_t, gone_t) = phases.pairs(threads, PAIRS);
    // The burst comes first: its timers find the memory cold, so that their bytes can be told, and in order.
    let before_arm_bytes = system::resident_bytes();
    let arm_burst = phases.arm_burst(&books.burst, threads, timers, BURST);
    let bytes_per_timer = system::resident_bytes().saturating_sub(before_arm_bytes) as f64 / timers as f64;
    phases.wait_for_fires(&books.burst, timers as u64);
    let (mut owns, arm) = phases.arm(&books.spread, threads, timers);
    let churn = phases.churn(&books.spread, &mut owns, steps, timers);
    let [heartbeats, heartbeats_many] = phases.heartbeats(&books.spread, &mut owns, steps);
    let moves = phases.moves(&books.spread, &mut owns);
    let cancel = phases.cancel(&books.spread, &mut owns, args.cancel);
    drop(owns);
    let expected = {
        let now = books.spread.balance();
        now.armed - now.cancelled
    };
    let fire_cpu = system::cpu_time();
    phases.wait_for_fires(&books.spread, expected);
    let fire_cpu = system::cpu_time() - fire_cpu;
    let stats = service.stats();
    for unfired in service.stop() {
        let (ledger, line) = books.of(unfired.payload);
        ledger.close(line, Outcome::HandedBack);
        ledger.count(Outcome::HandedBack, 1);
    }

    let mut balance = books.spread.balance();
    balance.add(&books.burst.balance());
    balance.refused += gone_1.refused + gone_t.refused;
    let (lateness, burst) = (books.spread.lateness(), books.burst.lateness());
    let mut report = Report::new();
    report.section("cost, until settled");
    report.cost("pair, 1 thread", "pair_1", &pair_1, 1);
    report.cost("pair, all threads", "pair", &pair_t, threads);
    report.ratio("  scaling", "pair_scaling", pair_t.mops() / pair_1.mops());
    report.cost("arm, cold memory", "arm_cold", &arm_burst, threads);
    report.cost("arm, warm memory", "arm", &arm, threads);
    report.cost("churn (cancel one, arm one)", "churn", &churn, threads);
    report.cost("re-arm later, random, 1 thr.", "heartbeat_1", &heartbeats, 1);
    report.cost("the same in one call", "heartbeat_many_1", &heartbeats_many, 1);
    report.cost("re-arm to anywhere", "rearm", &moves, threads);
    report.cost("cancel, random order", "cancel", &cancel, threads);
    report.section("memory");
    report.line("per pending timer", "bytes_per_timer", Value::Bytes(bytes_per_timer));
    report.line("empty service", "service_bytes", Value::Bytes(service_bytes as f64));
    report.section("lateness of what fired over time");
    report.lateness("lateness", &lateness);
    report.line("CPU while firing", "fire_cpu_s", Value::Seconds(fire_cpu.as_secs_f64()));
    report.section("burst: all due at one instant");
    report.line("first task after", "burst_first_ms", Value::Milliseconds(burst.min() as f64 / 1e6));
    report.line("last task after", "burst_last_ms", Value::Milliseconds(burst.max() as f64 / 1e6));
    report.section("what the shards did");
    report.line("wake-ups", "wakeups", Value::Count(stats.sum(|shard| shard.wakeups)));
    report.line("rings", "rings", Value::Count(stats.sum(|shard| shard.rings)));
    report.line("compactions", "compactions", Value::Count(stats.sum(|shard| shard.compactions)));
    report.line("panics in handlers", "panics", Value::Count(stats.panics));
    report.line("shards not pinned", "unpinned_shards", Value::Count(stats.unpinned_shards as u64));
    report.section("verdict");
    let mut broken = balance.broken();
    let panics = u64::from(books.handled.load(Relaxed).checked_div(args.panic_every).unwrap_or(0));
    if stats.panics != panics {
        broken.push(format!("{panics} handlers panicked, {} were counted", stats.panics));
    }
    let (gone, fired) = (gone_1.timers + gone_t.timers, books.pairs.load(Relaxed));
    if gone != fired {
        broken.push(format!("{gone} timers of the pairs could not be cancelled, {fired} fired"));
    }
    report.balance(&balance);
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}
