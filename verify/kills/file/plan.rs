//! Plan: what is to become of each timer, by the seed. Parent and child make the same one, so no
//! record has to say it.

use std::ops::Range;
use wheelwork_kit::mix::mix;

/// Timers that are armed together. Each thread has this many on the way.
const BLOCK_MAX: u32 = 1_024;

/// Delays of those that fire begin here, in microseconds.
const FIRST_US: u64 = 200_000;

const MINUTE_US: u64 = 60_000_000;

/// Of the timers that are to be cancelled one in 64 is due soon, so that its cancel may come too
/// late.
const RACING: u64 = 64;

/// One timer in 16 has a key.
const KEYED: u32 = 16;

/// What is to become of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Fires,
    /// Cancelled some blocks after it was armed.
    CancelledSoon,
    /// Cancelled when all are armed, in random order.
    CancelledLate,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) timers: u32,
    pub(crate) seed: u64,
    pub(crate) cancel_percent: u8,
    pub(crate) spread_us: u64,
    pub(crate) payload_bytes: usize,
    block: u32,
}

impl Plan {
    pub(crate) fn new(
        timers: u32,
        seed: u64,
        cancel_percent: u8,
        spread_us: u64,
        payload_bytes: usize,
    ) -> Self {
        Self {
            timers,
            seed,
            cancel_percent,
            spread_us,
            payload_bytes,
            // Of a small job, too, no kill leaves more than a few percent of it in doubt.
            block: (timers / 128).clamp(1, BLOCK_MAX),
        }
    }

    /// A random number of a timer's, another one for each use.
    fn random(&self, number: u32, part: u64) -> u64 {
        mix(mix(self.seed ^ part << 56).wrapping_add(u64::from(number)))
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.timers.div_ceil(self.block)
    }

    /// Timers that a thread arms, or cancels, together.
    pub(crate) fn block_size(&self) -> usize {
        self.block as usize
    }

    pub(crate) fn block_of(&self, number: u32) -> u32 {
        number / self.block
    }

    pub(crate) fn numbers(&self, block: u32) -> Range<u32> {
        let first = block * self.block;
        first..(first + self.block).min(self.timers)
    }

    pub(crate) fn fate(&self, number: u32) -> Fate {
        let random = self.random(number, 1);
        if random % 100 >= u64::from(self.cancel_percent) {
            Fate::Fires
        } else if random >> 62 > 0 {
            Fate::CancelledSoon
        } else {
            Fate::CancelledLate
        }
    }

    /// How many are to be cancelled, and how many fire.
    pub(crate) fn fates(&self) -> (u64, u64) {
        let fires = |&number: &u32| self.fate(number) == Fate::Fires;
        let fires = (0..self.timers).filter(fires).count() as u64;
        (u64::from(self.timers) - fires, fires)
    }

    /// From when a timer's block is armed until it is due, in microseconds. Most that are to be
    /// cancelled are due in an hour, as time-outs are that hardly ever fire.
    pub(crate) fn delay_us(&self, number: u32) -> u64 {
        let random = self.random(number, 2);
        let is_racing = self.random(number, 3).is_multiple_of(RACING);
        match self.fate(number) {
            Fate::Fires => FIRST_US + random % (self.spread_us + 1),
            Fate::CancelledSoon if is_racing => random % FIRST_US,
            Fate::CancelledLate if is_racing => random % (self.spread_us + 1),
            _ => MINUTE_US + 20 * u64::from(self.timers) + random % (60 * MINUTE_US),
        }
    }

    pub(crate) fn key(&self, number: u32) -> Option<String> {
        number
            .is_multiple_of(KEYED)
            .then(|| format!("timer-{number}"))
    }

    /// When a timer is due that is armed now, in milliseconds of the system's clock.
    pub(crate) fn due_ms(&self, number: u32, now_us: i64) -> i64 {
        let due_us = now_us + self.delay_us(number) as i64;
        (due_us + 999) / 1_000
    }

    /// The payload of a timer that is due then.
    pub(crate) fn payload(&self, number: u32, due_ms: i64) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.payload_bytes);
        payload.extend(number.to_le_bytes());
        payload.extend(due_ms.to_le_bytes());
        let mut part = 0;
        while payload.len() < self.payload_bytes {
            part += 1;
            let fill = mix(self.random(number, 4) ^ part).to_le_bytes();
            let rest = self.payload_bytes - payload.len();
            payload.extend(&fill[..rest.min(8)]);
        }
        payload
    }

    /// The number and the deadline in a payload. `None`: it is no payload of the job's, or altered.
    pub(crate) fn read(&self, payload: &[u8]) -> Option<(u32, i64)> {
        let number = u32::from_le_bytes(*payload.first_chunk()?);
        let due_ms = i64::from_le_bytes(*payload.get(4..)?.first_chunk()?);
        (payload == self.payload(number, due_ms)).then_some((number, due_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::args::PAYLOAD_BYTES_MIN;

    #[test]
    fn blocks_hold_each_number_once() {
        for timers in [1, 127, 128, 20_000, 1_000_000] {
            let plan = Plan::new(timers, 1, 90, 1_000, 64);
            let numbers = (0..plan.blocks()).flat_map(|block| plan.numbers(block));
            assert!(numbers.eq(0..timers), "{timers}");
            assert_eq!(plan.block_of(timers - 1), plan.blocks() - 1);
        }
    }

    #[test]
    fn nine_in_ten_are_cancelled_and_most_of_these_are_far() {
        let plan = Plan::new(100_000, 7, 90, 3_000_000, 64);
        let fired = (0..plan.timers).filter(|&number| plan.fate(number) == Fate::Fires);
        assert!((9_000..11_000).contains(&fired.count()));
        let soon = (0..plan.timers).filter(|&number| plan.fate(number) == Fate::CancelledSoon);
        assert!((65_000..70_000).contains(&soon.count()));
        let near = (0..plan.timers).filter(|&number| plan.delay_us(number) < MINUTE_US);
        assert!((10_000..13_000).contains(&near.count()));
        for percent in [0, 100] {
            let plan = Plan::new(1_000, 7, percent, 0, 64);
            let fires = |number| plan.fate(number) == Fate::Fires;
            assert!((0..1_000).all(|number| fires(number) == (percent == 0)));
        }
    }

    #[test]
    fn an_altered_payload_is_seen() {
        for bytes in [PAYLOAD_BYTES_MIN, 13, 64, 1_000] {
            let plan = Plan::new(1_000, 7, 90, 0, bytes);
            let payload = plan.payload(17, 4_711);
            assert_eq!(payload.len(), bytes);
            assert_eq!(plan.read(&payload), Some((17, 4_711)));
            assert_eq!(plan.read(&payload[1..]), None);
            if bytes > PAYLOAD_BYTES_MIN {
                let mut other = payload.clone();
                other[0] ^= 1;
                assert_eq!(plan.read(&other), None);
            }
        }
        assert_eq!(Plan::new(1_000, 7, 90, 0, 64).read(b"short"), None);
    }
}
