//! Promise: the window has a bound, also while callers arm timers without waiting, as fast as the
//! writer takes them.

use crate::over_memory::{Over, OverMemory};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, Store, Write};
use wheelwork_durable::{Durable, DurableClient, Memory, StoreError, WindowLimits};

/// What the writer takes in at most in a turn.
const TURN: usize = 16_384;

const ROWS: usize = 20_000;
const TURNS: usize = 12;

/// A store in memory. During each commit callers arm as many timers as the next turn takes, and
/// wait for none.
struct Flooded {
    memory: Memory,
    client: Arc<OnceLock<DurableClient>>,
    /// How many rows the window had, in each turn.
    had: Arc<Mutex<Vec<usize>>>,
}

impl OverMemory for Flooded {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut had = self.had.lock().unwrap();
        if let Some(client) = self.client.get().filter(|_| had.len() < TURNS) {
            had.push(client.stats().window_rows as usize);
            for number in 0..TURN {
                // (Some come behind all others, and some before.)
                let seconds = (number * 7_919 + had.len() * 31) % 3_000 + 1;
                drop(client.schedule_ticket("mail", Duration::from_secs(seconds as u64), ""));
            }
        }
        drop(had);
        self.memory.commit(writes, gate)
    }
}

#[test]
fn the_window_gives_back_what_comes() {
    let (client, had) = (
        Arc::<OnceLock<_>>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let clock = ManualClock::new();
    let store = Flooded {
        memory: Memory::new(),
        client: client.clone(),
        had: had.clone(),
    };
    let limits = WindowLimits::default()
        .ahead(Duration::from_secs(3_600))
        .rows(ROWS);
    let timers = Durable::builder(Over(store))
        .clock(clock)
        .window(limits)
        .on("mail", |_| Ok(()))
        .start()
        .unwrap();
    assert!(client.set(timers.client()).is_ok());
    timers.schedule("mail", Duration::from_secs(1), "").unwrap();
    let had = had.lock().unwrap();
    let most = had.iter().max().copied().unwrap_or_default();
    assert_eq!(had.len(), TURNS);
    assert_eq!(timers.stats().armed as usize, TURN * TURNS + 1);
    assert!(most > ROWS / 2, "{had:?}");
    assert!(most <= ROWS + ROWS / 4 + 2 * TURN, "{had:?}");
}
