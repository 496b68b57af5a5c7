//! A cache whose values expire: `cargo run --example cache`.
//!
//! Each value has a timer, whose payload is its key and which of the key's values it is; what
//! expires goes at once, and not when somebody looks for it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wheelwork::{Batch, Builder, ScheduleError, StartError, TimerId, TimerService};

struct Held<V> {
    value: V,
    number: u64,
    timer: TimerId,
}

type Values<K, V> = HashMap<K, Held<V>>;

struct Cache<K: Send + 'static, V> {
    values: Arc<Mutex<Values<K, V>>>,
    timers: TimerService<(K, u64)>,
    /// Values that were put in so far.
    numbers: AtomicU64,
}

fn lock<T>(values: &Mutex<T>) -> MutexGuard<'_, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Clone + Eq + Hash + Send + 'static, V: Clone + Send + 'static> Cache<K, V> {
    fn start(settings: Builder) -> Result<Self, StartError> {
        let values = Arc::new(Mutex::new(Values::new()));
        let expiring = values.clone();
        let expire = move |expired: &mut Batch<'_, (K, u64)>| {
            let mut values = lock(&expiring);
            for (key, number) in expired {
                // Not one that was put in while this one waited for the lock.
                if values.get(&key).is_some_and(|held| held.number == number) {
                    values.remove(&key);
                }
            }
        };
        Ok(Self {
            values,
            timers: settings.on_expire(expire).start()?,
            numbers: AtomicU64::new(0),
        })
    }

    /// Puts a value in for so long; one that was there goes.
    fn put(
        &self,
        key: K,
        value: V,
        expires_after: Duration,
    ) -> Result<(), ScheduleError<(K, u64)>> {
        // Ordering: Relaxed. Only the number matters.
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut values = lock(&self.values);
        let timer = self.timers.schedule(expires_after, (key.clone(), number))?;
        if let Some(before) = values.insert(
            key,
            Held {
                value,
                number,
                timer,
            },
        ) {
            self.timers.cancel(before.timer);
        }
        Ok(())
    }

    fn get(&self, key: &K) -> Option<V> {
        lock(&self.values).get(key).map(|held| held.value.clone())
    }

    /// Takes a value out.
    fn remove(&self, key: &K) -> Option<V> {
        let Held { value, timer, .. } = lock(&self.values).remove(key)?;
        self.timers.cancel(timer);
        Some(value)
    }

    fn len(&self) -> usize {
        lock(&self.values).len()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::start(TimerService::builder())?;
    cache.put("short", 1, Duration::from_millis(20))?;
    cache.put("long", 2, Duration::from_secs(60))?;
    println!(
        "at once: {:?} and {:?}",
        cache.get(&"short"),
        cache.get(&"long")
    );
    std::thread::sleep(Duration::from_millis(60));
    println!(
        "60 ms later: {:?} and {:?}",
        cache.get(&"short"),
        cache.get(&"long")
    );
    println!("removed: {:?}, {} left", cache.remove(&"long"), cache.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork::ManualClock;

    #[test]
    fn values_go_when_they_expire_and_not_before() {
        let clock = ManualClock::new();
        let cache = Cache::start(TimerService::builder().clock(clock.clone())).unwrap();
        let ms = Duration::from_millis;
        for key in 0..1_000u64 {
            cache.put(key, key, ms(1_000)).unwrap();
            cache.put(key, 2 * key, ms(1 + key)).unwrap();
        }
        assert_eq!(cache.timers.len(), 1_000, "one for each value");
        assert_eq!(
            (cache.remove(&999), cache.remove(&999)),
            (Some(1_998), None)
        );
        for gone in 1..1_000u64 {
            clock.advance(ms(1));
            assert_eq!(
                (cache.len() as u64, cache.get(&(gone - 1))),
                (999 - gone, None)
            );
            assert_eq!(cache.get(&gone), (gone < 999).then_some(2 * gone));
        }
        assert!(cache.timers.is_empty());
    }
}
