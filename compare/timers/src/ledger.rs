//! The ledger of what has fired: a stripe for each thread that fires. So counting costs little, and
//! the same for all subjects that are measured by this program.

use std::cell::OnceCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
pub(crate) use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lateness::{self, Stripe};
use wheelwork_kit::lock::lock;

/// With a due time: the timer comes again a period later, and whoever runs it arms it anew.
pub(crate) const PERIODIC: u64 = 1 << 63;

/// The period of timers that come again.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// In place of a due time: the time of the first of these is kept for each thread that fires, and
/// of every 64th, since a reading of the clock takes as long as some subjects need for a timer.
pub(crate) const BURST: u64 = PERIODIC - 1;
const STAMP_EVERY: u64 = 64;

/// Between two looks whether all have fired.
const LOOK: Duration = Duration::from_millis(1);

static STRIPES: Mutex<Vec<Arc<Stripe>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Arc<Stripe>> = const { OnceCell::new() };
}

/// Nanoseconds since the first call. 0 is no time that a timer may be due.
pub(crate) fn now_ns() -> u64 {
    ns_at(Instant::now())
}

/// The same at that time.
pub(crate) fn ns_at(time: Instant) -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    time.duration_since(*ORIGIN.get_or_init(Instant::now))
        .as_nanos() as u64
}

/// How long it is until then.
pub(crate) fn delay_until(due_ns: u64) -> Duration {
    Duration::from_nanos(due_ns.saturating_sub(now_ns()))
}

/// A timer has fired, that was due then; 0 if nobody asks when.
pub(crate) fn fired(due_ns: u64) {
    OWN.with(|own| {
        let stripe = own.get_or_init(new_stripe);
        // Ordering: Relaxed. One writer; the figures behind the lock are read under it.
        let before = stripe.fired.load(Relaxed);
        // This thread's own lock, but for the end.
        match due_ns {
            0 => (),
            BURST if before % STAMP_EVERY > 0 => (),
            BURST => lock(&stripe.lateness).stamp(now_ns()),
            _ => lock(&stripe.lateness).fired(due_ns, now_ns()),
        }
        stripe.fired.store(before + 1, Relaxed);
    });
}

/// The same for a timer that comes again. Returns when.
pub(crate) fn fired_again(due_ns: u64) -> u64 {
    fired(due_ns);
    due_ns + PERIOD.as_nanos() as u64
}

/// The same for one that comes again if it is [`PERIODIC`].
pub(crate) fn ran(payload: u64) -> Option<u64> {
    if payload & PERIODIC == 0 {
        fired(payload);
        return None;
    }
    Some(fired_again(payload & !PERIODIC))
}

fn new_stripe() -> Arc<Stripe> {
    let stripe = Arc::<Stripe>::default();
    lock(&STRIPES).push(stripe.clone());
    stripe
}

/// What a thread has armed that tells the ledger, and that fires on the same thread.
#[derive(Default)]
pub(crate) struct Awaited {
    armed: u64,
    last_due_ns: u64,
}

impl Awaited {
    /// One more, unless nobody asks how late it is.
    pub(crate) fn armed(&mut self, delay: Duration, due_ns: u64) {
        if due_ns > 0 {
            self.armed += 1;
            let due_ns = now_ns() + delay.as_nanos() as u64;
            self.last_due_ns = self.last_due_ns.max(due_ns);
        }
    }

    /// The time until all may have fired: from when the last one is due on, one look after the
    /// other. `None`: they have.
    pub(crate) fn left(&self) -> Option<Duration> {
        // Ordering: Relaxed. This thread wrote it.
        let fired = OWN.with(|own| own.get().map_or(0, |stripe| stripe.fired.load(Relaxed)));
        (fired < self.armed).then(|| delay_until(self.last_due_ns).max(LOOK))
    }
}

pub(crate) fn fired_so_far() -> u64 {
    lateness::fired_so_far(lock(&STRIPES).iter().map(Arc::as_ref))
}

/// All stripes together.
pub(crate) fn lateness() -> Lateness {
    lateness::sum(lock(&STRIPES).iter().map(Arc::as_ref))
}
