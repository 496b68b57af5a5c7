//! Requests that are sent again, each time after twice as long, until they are answered or given
//! up: `cargo run --example retries`.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wheelwork::{ServiceHandle, TimerId, TimerService};

const TIMEOUT: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 3;

/// What the client tells: a request goes out, or comes to its end.
#[derive(Debug, PartialEq)]
enum Event {
    Sent { request: u64, attempt: u32 },
    Answered(u64),
    GivenUp(u64),
}

struct Client {
    timers: ServiceHandle,
    events: Sender<Event>,
    /// The timer of each request that waits for its answer.
    waiting: Mutex<HashMap<u64, TimerId>>,
}

impl Client {
    fn new(timers: ServiceHandle, events: Sender<Event>) -> Arc<Self> {
        Arc::new(Self {
            timers,
            events,
            waiting: Mutex::default(),
        })
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, TimerId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }

    fn send(self: &Arc<Self>, request: u64, attempt: u32) {
        let client = self.clone();
        // Under the lock, so that the timer is known before it fires.
        let mut waiting = self.waiting();
        self.tell(Event::Sent { request, attempt });
        match self.timers.schedule(TIMEOUT * 2u32.pow(attempt), move || {
            client.timed_out(request, attempt)
        }) {
            Ok(timer) => _ = waiting.insert(request, timer),
            Err(_) => self.tell(Event::GivenUp(request)),
        }
    }

    fn timed_out(self: &Arc<Self>, request: u64, attempt: u32) {
        if self.waiting().remove(&request).is_none() {
            // The answer came at the last moment.
        } else if attempt + 1 < ATTEMPTS {
            self.send(request, attempt + 1);
        } else {
            self.tell(Event::GivenUp(request));
        }
    }

    /// The answer has come. From any thread.
    fn answer(&self, request: u64) {
        if let Some(timer) = self.waiting().remove(&request) {
            self.timers.cancel(timer);
            self.tell(Event::Answered(request));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = TimerService::builder().start()?;
    let (send, events) = channel();
    let client = Client::new(service.handle(), send);
    (1..=2).for_each(|request| client.send(request, 0));
    // A network that answers the second attempt of the first request, and nothing else.
    let mut open = 2;
    for event in events {
        println!("{event:?}");
        match event {
            Event::Sent {
                request: 1,
                attempt: 1,
            } => client.answer(1),
            Event::Sent { .. } => {}
            Event::Answered(_) | Event::GivenUp(_) => open -= 1,
        }
        if open == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork::ManualClock;

    #[test]
    fn are_sent_again_until_they_are_answered_or_given_up() {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .start()
            .unwrap();
        let (send, events) = channel();
        let client = Client::new(service.handle(), send);
        let told = || events.try_iter().collect::<Vec<_>>();
        client.send(1, 0);
        assert_eq!(
            told(),
            [Event::Sent {
                request: 1,
                attempt: 0
            }]
        );
        clock.advance(TIMEOUT);
        client.answer(1);
        client.answer(1);
        assert_eq!(
            told(),
            [
                Event::Sent {
                    request: 1,
                    attempt: 1
                },
                Event::Answered(1)
            ]
        );
        client.send(2, 0);
        clock.advance(TIMEOUT * 7);
        let sent = |attempt| Event::Sent {
            request: 2,
            attempt,
        };
        assert_eq!(told(), [sent(0), sent(1), sent(2), Event::GivenUp(2)]);
        client.answer(2);
        assert!(told().is_empty() && service.is_empty());
    }
}
