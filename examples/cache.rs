//! A cache whose values expire: `cargo run --example cache`.
//!
//! Each value has a timer with its key for a payload; what expires goes at once, and not when somebody looks for it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wheelwork::{Batch, Builder, ScheduleError, StartError, TimerId, TimerService};

type Values<K, V> = HashMap<K, (V, TimerId)>;

struct Cache<K: Send + 'static, V> {
    values: Arc<Mutex<Values<K, V>>>,
    /// A value's key, and which of the key's values it is.
    timers: TimerService<K>,
}

fn lock<T>(values: &Mutex<T>) -> MutexGuard<'_, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Clone + Eq + Hash + Send + 'static, V: Clone + Send + 'static> Cache<K, V> {
    fn start(settings: Builder) -> Result<Self, StartError> {
        let values = Arc::new(Mutex::new(Values::new()));
        let expiring = values.clone();
        let expire = move |keys: &mut Batch<'_, K>| {
            // A timer that was replaced was cancelled: its key does not come here.
            let mut values = lock(&expiring);
            keys.for_each(|key| _ = values.remove(&key));
        };
        Ok(Self { values, timers: settings.on_expire(expire).start()? })
    }

    /// Puts a value in for so long; one that was there goes.
    fn put(&self, key: K, value: V, expires_after: Duration) -> Result<(), ScheduleError<K>> {
        let mut values = lock(&self.values);
        if let Some((_, timer)) = values.remove(&key) {
            // It may be about to fire, and wait for the lock: then it takes the new value away too, which a cache may do.
            self.timers.cancel(timer);
        }
        let timer = self.timers.schedule(expires_after, key.clone())?;
        values.insert(key, (value, timer));
        Ok(())
    }

    fn get(&self, key: &K) -> Option<V> {
        lock(&self.values).get(key).map(|(value, _)| value.clone())
    }

    /// Takes a value out.
    fn remove(&self, key: &K) -> Option<V> {
        let (value, timer) = lock(&self.values).remove(key)?;
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
    println!("at once: {:?} and {:?}", cache.get(&"short"), cache.get(&"long"));
    std::thread::sleep(Duration::from_millis(60));
    println!("60 ms later: {:?} and {:?}", cache.get(&"short"), cache.get(&"long"));
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
        assert_eq!((cache.remove(&999), cache.remove(&999)), (Some(1_998), None));
        for gone in 1..1_000u64 {
            clock.advance(ms(1));
            assert_eq!((cache.len() as u64, cache.get(&(gone - 1))), (999 - gone, None));
            assert_eq!(cache.get(&gone), (gone < 999).then_some(2 * gone));
        }
        assert!(cache.timers.is_empty());
    }
}
