//! The longest call while a store does what it has put off: moves rows, loads what is due soon,
//! merges files; and while timers fire.

use crate::callers::{self, Load};
use crate::fires::arm_all;
use crate::job::Job;
use crate::random::{Timers, now_ms};
use crate::subjects::Subject;
use wheelwork_kit::line::Figures;

const CALLERS: usize = 64;

/// Stored timers begin to fire after this time, and this number of them is due in a second: few
/// enough for every subject to keep up.
const LEAD_MS: u64 = 3_000;
const FIRED_PER_S: u64 = 20_000;

/// First 64 callers alone, in a new store, whose timers are due in an hour: the longest call
/// without. Then the same callers, for twice the time, after many timers were stored: these fire at
/// a moderate rate meanwhile. The callers' own are due in an hour again.
pub(crate) fn measure<S: Subject>(job: &Job, subject: &S) -> Result<Figures, String> {
    let alone = Load {
        callers: CALLERS,
        time: job.time() / 2,
        cancels: false,
    };
    let seed = |thread: u64| job.seed.wrapping_mul(6007).wrapping_add(thread);
    let (without, _) = callers::run(subject, alone, |thread| Timers::far(seed(thread)))?;
    let spread_ms = job.timers() as u64 * 1_000 / FIRED_PER_S;
    let mut stored = Timers::within(seed(2), now_ms() + LEAD_MS, spread_ms);
    arm_all(subject, job.timers(), || (stored.due(), stored.payload()))?;
    let busy = Load {
        time: job.time() * 2,
        ..alone
    };
    let (with, elapsed) = callers::run(subject, busy, |thread| Timers::far(seed(3 + thread)))?;
    let mut figures = with.figures(elapsed);
    figures.extend([
        ("without_ms_max", without.max_ms()),
        ("with_ms_max", with.max_ms()),
        ("over_ms", with.max_ms() - without.max_ms()),
    ]);
    Ok(figures)
}
