//! Sessions that are kept alive by heartbeats: `cargo run --example sessions`.
//!
//! A heartbeat moves the session's timer to a later deadline: one compare-and-swap and no message,
//! but for two every 52 s, however many come. Each time its old deadline comes, the timer is put
//! into the wheel again, which is a message of a worker.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wheelwork::{Batch, Builder, StartError, TimerId, TimerService};

const EXPIRES_AFTER: Duration = Duration::from_millis(100);

struct Sessions {
    timers: TimerService<u64>,
    alive: HashMap<u64, TimerId>,
    expired: Receiver<u64>,
}

impl Sessions {
    fn start(settings: Builder) -> Result<Self, StartError> {
        let (send, expired) = channel();
        // Nobody has to listen.
        let expire = move |sessions: &mut Batch<'_, u64>| {
            sessions.for_each(|session| _ = send.send(session))
        };
        Ok(Self {
            timers: settings.on_expire(expire).start()?,
            alive: HashMap::new(),
            expired,
        })
    }

    /// The session is alive: it begins, or goes on.
    fn heartbeat(&mut self, session: u64) {
        let goes_on = self
            .alive
            .get(&session)
            .is_some_and(|&timer| self.timers.reschedule(timer, EXPIRES_AFTER));
        if !goes_on && let Ok(timer) = self.timers.schedule(EXPIRES_AFTER, session) {
            self.alive.insert(session, timer);
        }
    }

    /// The session was ended by its user.
    fn close(&mut self, session: u64) -> bool {
        self.alive
            .remove(&session)
            .is_some_and(|timer| self.timers.cancel(timer))
    }

    /// Those that nobody has heard of for too long.
    fn expired(&mut self) -> Vec<u64> {
        let expired: Vec<u64> = self.expired.try_iter().collect();
        // One that was heard of again meanwhile has another timer, and lives.
        expired
            .into_iter()
            .filter(|session| {
                self.alive
                    .get(session)
                    .is_some_and(|&timer| !self.timers.is_pending(timer))
            })
            .collect()
    }
}

fn main() -> Result<(), StartError> {
    let mut sessions = Sessions::start(TimerService::builder())?;
    for round in 0u64..6 {
        // Session 1 falls silent after the first round, 2 is closed in the third, 3 stays.
        (1..=3)
            .filter(|&session| round == 0 || session == 3 || session == 2 && round < 2)
            .for_each(|session| sessions.heartbeat(session));
        if round == 2 {
            println!("round {round}: session 2 closed: {}", sessions.close(2));
        }
        for session in sessions.expired() {
            println!("round {round}: session {session} has expired");
            sessions.alive.remove(&session);
        }
        std::thread::sleep(EXPIRES_AFTER / 3);
    }
    println!("alive: {:?}", sessions.alive.keys().collect::<Vec<_>>());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork::ManualClock;

    #[test]
    fn live_as_long_as_their_hearts_beat() {
        let clock = ManualClock::new();
        let mut sessions = Sessions::start(TimerService::builder().clock(clock.clone())).unwrap();
        (0..1_000).for_each(|session| sessions.heartbeat(session));
        for _ in 0..10 {
            clock.advance(EXPIRES_AFTER - Duration::from_millis(1));
            assert!(sessions.expired().is_empty());
            (0..1_000).for_each(|session| sessions.heartbeat(session));
        }
        assert!(sessions.close(0) && !sessions.close(0));
        clock.advance(EXPIRES_AFTER / 2);
        (1..500).for_each(|session| sessions.heartbeat(session));
        clock.advance(EXPIRES_AFTER / 2);
        // It comes back before anybody looked.
        sessions.heartbeat(999);
        let mut expired = sessions.expired();
        expired.sort_unstable();
        assert!(expired.into_iter().eq(500..999));
        assert_eq!(sessions.timers.len(), 500);
    }
}
