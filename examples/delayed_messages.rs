//! Messages that are delivered later, through a channel: `cargo run --example delayed_messages`.

use std::time::{Duration, Instant};
use wheelwork::{Builder, Receiver, StartError, TimerId, TimerService};

/// A post office: letters for a recipient, to be delivered after a while.
struct Post {
    timers: TimerService<Letter>,
    delivered: Receiver<Letter>,
}

#[derive(Debug, PartialEq)]
struct Letter {
    to: &'static str,
    text: String,
}

impl Post {
    /// Of batches that nobody fetches 100 wait in the channel, the rest in the wheel.
    fn open(settings: Builder) -> Result<Self, StartError> {
        let (settings, delivered) = settings.on_expire_channel(Some(100));
        Ok(Self {
            timers: settings.start()?,
            delivered,
        })
    }

    fn send(&self, delay: Duration, to: &'static str, text: impl Into<String>) -> Option<TimerId> {
        self.timers
            .schedule(
                delay,
                Letter {
                    to,
                    text: text.into(),
                },
            )
            .ok()
    }

    /// The letter, if it has not been delivered.
    fn call_back(&self, letter: TimerId) -> Option<Letter> {
        self.timers.take(letter)
    }
}

fn main() -> Result<(), StartError> {
    let post = Post::open(TimerService::builder())?;
    let start = Instant::now();
    post.send(Duration::from_millis(60), "Bert", "the second");
    post.send(Duration::from_millis(20), "Anna", "the first");
    let mistake = post.send(Duration::from_millis(40), "Bert", "a mistake");
    println!(
        "called back: {:?}",
        mistake.and_then(|letter| post.call_back(letter))
    );
    let mut expected = 2;
    while expected > 0 {
        let Ok(letters) = post.delivered.recv() else {
            break;
        };
        for Letter { to, text } in letters {
            println!("{:3} ms: to {to}: {text}", start.elapsed().as_millis());
            expected -= 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork::ManualClock;

    #[test]
    fn letters_are_delivered_in_time_or_called_back() {
        let clock = ManualClock::new();
        let post = Post::open(TimerService::builder().shards(1).clock(clock.clone())).unwrap();
        let letter = |number: u64| Letter {
            to: "Anna",
            text: number.to_string(),
        };
        let sent: Vec<_> = (0..1_000)
            .map(|number| {
                post.send(Duration::from_millis(number), "Anna", number.to_string())
                    .unwrap()
            })
            .collect();
        for (number, &id) in (0..).zip(&sent).step_by(2) {
            assert_eq!(post.call_back(id), Some(letter(number)));
        }
        for now in 1..=1_000 {
            clock.advance(Duration::from_millis(1));
            let delivered: Vec<Letter> = post.delivered.try_iter().flatten().collect();
            assert!(
                delivered
                    .into_iter()
                    .eq((now % 2 == 1).then(|| letter(now))),
                "after {now} ms"
            );
        }
        assert_eq!(post.call_back(sent[1]), None);
    }
}
