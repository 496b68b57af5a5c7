//! Timers: numbers in order, random deadlines, bodies of 64 letters.

use fastrand::Rng;
use serde_json::{Value, json};
pub(crate) use wheelwork_kit::clock::{now_ms, now_ns};

const BODY: usize = 64;

/// What each timer carries is all of it.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) due_ms: u64,
    pub(crate) body: String,
}

impl Timer {
    /// As text of a single line.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        format!("{} {} {}", self.number, self.due_ms, self.body).into_bytes()
    }

    /// Number and deadline of such a text.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(u64, u64)> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

/// Which timers are armed, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Each arms one timer after the other; 0: by the subject's call for many.
    pub(crate) callers: usize,
    /// 0: until the time is over.
    pub(crate) count: u64,
    /// 0: until all are armed.
    pub(crate) ms: u64,
    pub(crate) seed: u64,
    pub(crate) from_ms: u64,
    pub(crate) spread_ms: u64,
}

impl Plan {
    /// The command that a process is given.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "do": "arm", "callers": self.callers, "count": self.count, "ms": self.ms,
            "seed": self.seed, "first": 0, "from_ms": self.from_ms, "spread_ms": self.spread_ms,
        })
    }

    pub(crate) fn from_json(command: &Value) -> Self {
        let number = |name: &str| command[name].as_u64().unwrap_or(0);
        Self {
            callers: number("callers") as usize,
            count: number("count"),
            ms: number("ms"),
            seed: number("seed"),
            from_ms: number("from_ms"),
            spread_ms: number("spread_ms"),
        }
    }

    /// A timer of this number.
    pub(crate) fn timer(&self, rng: &mut Rng, number: u64) -> Timer {
        Timer {
            number,
            due_ms: self.from_ms + rng.u64(..self.spread_ms.max(1)),
            body: (0..BODY).map(|_| rng.alphanumeric()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_found_in_its_bytes() {
        let plan = Plan {
            callers: 0,
            count: 1,
            ms: 0,
            seed: 7,
            from_ms: 5_000,
            spread_ms: 100,
        };
        let timer = Plan::from_json(&plan.to_json()).timer(&mut Rng::with_seed(7), 42);
        assert_eq!(timer.body.len(), BODY);
        assert!((5_000..5_100).contains(&timer.due_ms));
        let bytes = timer.to_bytes();
        assert_eq!(Timer::from_bytes(&bytes), Some((42, timer.due_ms)));
    }
}
