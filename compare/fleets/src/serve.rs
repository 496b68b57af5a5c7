//! The end of a process that keeps timers by a subject in Rust: reads commands, answers each with a
//! line. `compare/node/node.mjs` is the same for packages of Node.js.
//!
//! | command | answer |
//! |---|---|
//! | `open`: `url`, `hang`, `poll_ms` (0: the subject's own) | |
//! | `work`: handle what is due, from now on | |
//! | `arm`: a plan (`timers.rs`) | `armed`, `ms`, `call_us_p50` `_p99` `_max` |
//! | `fired` | `fired` |
//! | `left` | `left`: whether a timer is not acknowledged |
//! | `late` | the ledger (`ledger.rs`) |
//! | `close` | |
//!
//! Where something fails, the answer is `error`.

use crate::ledger::Ledger;
use crate::name::Name;
use crate::subjects::{Opening, Subject, Work, with};
use crate::timers::Plan;
use fastrand::Rng;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Serves until there are no commands any more.
pub(crate) fn serve(name: Name) -> ExitCode {
    match with(name, &Commands) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Commands;

impl Work for Commands {
    fn by<S: Subject>(&self) -> Result<(), String> {
        let mut end = End::<S>::default();
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| format!("no command: {error}"))?;
            let command: Value =
                serde_json::from_str(&line).map_err(|error| format!("no command: {error}"))?;
            let answer = end.answer(&command);
            let answer = answer.unwrap_or_else(|why| json!({ "error": why }));
            let mut out = std::io::stdout().lock();
            let told = writeln!(out, "{answer}").and_then(|()| out.flush());
            told.map_err(|error| format!("no answer: {error}"))?;
            if command["do"] == "close" {
                break;
            }
        }
        Ok(())
    }
}

struct End<S> {
    subject: Option<S>,
    ledger: Arc<Ledger>,
}

impl<S> Default for End<S> {
    fn default() -> Self {
        Self {
            subject: None,
            ledger: Arc::default(),
        }
    }
}

impl<S: Subject> End<S> {
    fn answer(&mut self, command: &Value) -> Result<Value, String> {
        let what = command["do"].as_str().unwrap_or_default();
        if what == "open" {
            self.ledger = Arc::new(Ledger::new(command["hang"] == true));
            let poll_ms = command["poll_ms"].as_u64().filter(|poll_ms| *poll_ms > 0);
            let opening = Opening {
                url: command["url"].as_str().unwrap_or_default().to_string(),
                poll: poll_ms.map(Duration::from_millis),
            };
            self.subject = Some(S::open(&opening, &self.ledger)?);
            return Ok(json!({}));
        }
        let subject = self.subject.as_mut().ok_or("it is not open")?;
        match what {
            "work" => subject.work().map(|()| json!({})),
            "arm" => arm(subject, Plan::from_json(command)),
            "fired" => Ok(json!({ "fired": self.ledger.fired_so_far() })),
            "left" => Ok(json!({ "left": subject.left()? })),
            "late" => Ok(self.ledger.to_json()),
            "close" => {
                let subject = self.subject.take();
                subject.map_or(Ok(()), S::close).map(|()| json!({}))
            }
            _ => Err(format!("no command: {what}")),
        }
    }
}

/// Numbers that are not armed yet, and until when.
struct Rest {
    next: AtomicU64,
    count: u64,
    end: Option<Instant>,
}

impl Rest {
    /// Up to this many numbers, from the first one on; none if it is over.
    fn take(&self, many: usize) -> Option<std::ops::Range<u64>> {
        if self.end.is_some_and(|end| Instant::now() >= end) {
            return None;
        }
        // Ordering: Relaxed. Only the number counts.
        let first = self.next.fetch_add(many as u64, Relaxed);
        let last = (first + many as u64).min(self.count);
        (first < last).then_some(first..last)
    }
}

/// Callers on a thread each, until all are armed or the time is over.
fn arm<S: Subject>(subject: &S, plan: Plan) -> Result<Value, String> {
    let (threads, many) = match plan.callers {
        0 => (S::BATCHES, S::BATCH),
        callers => (callers, 1),
    };
    let mut callers = (0..threads)
        .map(|_| subject.caller())
        .collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let rest = Rest {
        next: AtomicU64::new(0),
        count: if plan.count > 0 { plan.count } else { u64::MAX },
        end: (plan.ms > 0).then(|| start + Duration::from_millis(plan.ms)),
    };
    let call = |caller: &mut S::Caller, thread: usize| {
        let mut rng = Rng::with_seed(plan.seed.wrapping_mul(6007).wrapping_add(thread as u64));
        let (mut armed, mut us) = (0, Vec::new());
        while let Some(numbers) = rest.take(many) {
            let timers: Vec<_> = numbers.map(|number| plan.timer(&mut rng, number)).collect();
            let begun = Instant::now();
            S::arm(caller, &timers)?;
            us.push(begun.elapsed().as_secs_f64() * 1e6);
            armed += timers.len();
        }
        Ok::<_, String>((armed, us))
    };
    let (mut armed, mut us) = (0, Vec::new());
    thread::scope(|scope| {
        let callers = callers.iter_mut().enumerate();
        let call = &call;
        let threads: Vec<_> = callers
            .map(|(number, caller)| scope.spawn(move || call(caller, number)))
            .collect();
        for thread in threads {
            let (some, took) = thread.join().expect("it does not panic")?;
            armed += some;
            us.extend(took);
        }
        Ok::<_, String>(())
    })?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    us.sort_by(f64::total_cmp);
    let quantile = |part: f64| us.get((us.len() as f64 * part) as usize);
    Ok(json!({
        "armed": armed,
        "ms": ms,
        "call_us_p50": quantile(0.5),
        "call_us_p99": quantile(0.99),
        "call_us_max": us.last(),
    }))
}
