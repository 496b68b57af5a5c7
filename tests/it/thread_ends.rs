//! Promise: the destructors of a thread's own thread-locals may make any call, in whatever order
//! they run with those of the library.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use wheelwork::future::{Timers, sleep};
use wheelwork::testing::{self, block_on};
use wheelwork::{ManualClock, TimerService};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Makes its calls when its thread's thread-locals are destroyed. A panic there aborts the process.
struct LastWill(Sender<Duration>);

impl Drop for LastWill {
    fn drop(&mut self) {
        let clock = ManualClock::new();
        let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
        let entered = timers.enter();
        let inner = timers.enter();
        let a_day = sleep(DAY);
        drop(entered);
        drop(inner);
        clock.advance(DAY);
        assert!(a_day.is_elapsed());
        let elapsed = block_on(async {
            testing::spawn(sleep(DAY)).await;
            testing::clock().elapsed()
        });
        self.0.send(elapsed).unwrap();
    }
}

thread_local! {
    static FIRST: RefCell<Option<LastWill>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<LastWill>> = const { RefCell::new(None) };
}

#[test]
fn a_service_may_be_entered_and_a_paused_test_run_at_the_end_of_a_thread() {
    let (send, elapsed) = channel();
    let wills = [0, 1].map(|_| Some(LastWill(send.clone())));
    drop(send);
    let [first, second] = wills;
    // One destructor is registered before those of the library, one after.
    let thread = std::thread::spawn(move || {
        FIRST.set(first);
        block_on(sleep_a_day());
        SECOND.set(second);
    });
    thread.join().unwrap();
    assert_eq!(elapsed.iter().collect::<Vec<_>>(), [DAY; 2]);
}

async fn sleep_a_day() {
    sleep(DAY).await;
}

/// A guard that is forgotten does not keep its service beyond its thread.
#[test]
fn a_thread_that_ends_leaves_what_it_has_entered() {
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock)).unwrap();
    let handle = timers.handle().clone();
    let thread = std::thread::spawn(move || {
        std::mem::forget(timers.enter());
        drop(timers);
    });
    thread.join().unwrap();
    assert!(handle.is_stopped());
}
