//! The cancellable wheel of hierarchical_hash_wheel_timer: four levels of 256 slots, and a hash map
//! of ids.
//!
//! It takes delays. Each timer is an allocation; a cancelled one leaves a weak reference in its
//! slot until that comes up, and so keeps its memory. The wheel moves by ticks, and says which ones
//! may be skipped.

use super::Subject;
use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;
use std::time::Duration;

pub(crate) struct Hhwt {
    wheel: QuadWheelWithOverflow<IdOnlyTimerEntry<u64>>,
    now: u64,
}

impl Subject for Hhwt {
    type Handle = u64;

    fn new() -> Self {
        Self {
            wheel: QuadWheelWithOverflow::new(),
            now: 0,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u64 {
        let delay = Duration::from_millis(deadline - self.now);
        self.wheel
            .insert(IdOnlyTimerEntry { id: key, delay })
            .expect("no deadline has come");
        key
    }

    fn cancel(&mut self, handle: u64) {
        self.wheel.cancel(&handle).expect("it stands");
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            let empty = match self.wheel.can_skip() {
                Skip::Empty => now - self.now,
                Skip::Millis(ticks) => u64::from(ticks).min(now - self.now),
                Skip::None => 0,
            };
            self.wheel.skip(empty as u32);
            self.now += empty;
            if self.now < now {
                self.now += 1;
                self.wheel.tick().iter().for_each(|timer| fire(timer.id));
            }
        }
    }
}
