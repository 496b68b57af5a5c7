//! Promise: durable timers keep their word where two protocols meet: a stop and a key that is
//! taken, a full window and a load, code that panics and those who wait.

#[path = "common/over_memory.rs"]
mod over_memory;

use over_memory::{Over, OverMemory};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, Position, SliceLimit, Store, Write};
use wheelwork_durable::{
    Durable, DurableClient, DurableError, DurableId, HandlerResult, Memory, RetryPolicy, Row,
    SpawnedFuture, StoreError, StoreTime, WindowLimits,
};

const SECOND: Duration = Duration::from_secs(1);

/// What a store does otherwise than [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    AsMemory,
    PanicAfterCommit,
    ForgetOutcomes,
    FailToHandOut,
    /// A commit takes this time.
    TakeTime(Duration),
}

/// A user's store.
struct Users {
    memory: Memory,
    does: Does,
    upkeeps: Arc<AtomicUsize>,
    clock: ManualClock,
}

impl Users {
    fn new(does: Does) -> (Over<Self>, Arc<AtomicUsize>) {
        let upkeeps = Arc::new(AtomicUsize::new(0));
        let store = Self {
            memory: Memory::new(),
            does,
            upkeeps: upkeeps.clone(),
            clock: ManualClock::new(),
        };
        (Over(store), upkeeps)
    }
}

impl OverMemory for Users {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let outcomes = self.memory.commit(writes, gate)?;
        match self.does {
            Does::PanicAfterCommit => panic!("the store's"),
            Does::ForgetOutcomes => Ok(Vec::new()),
            Does::TakeTime(time) => {
                self.clock.advance(time);
                Ok(outcomes)
            }
            _ => Ok(outcomes),
        }
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        match self.does {
            Does::FailToHandOut => Err(StoreError::Io("no watermark".into())),
            _ => self.memory.hand_out(upto),
        }
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.upkeeps.fetch_add(1, SeqCst);
        Ok(false)
    }
}

/// A gate that says the same of all rows.
struct Says(bool);

impl Gate for Says {
    fn let_go(&mut self, _: DurableId) -> bool {
        self.0
    }
}

#[test]
fn a_replaced_timer_does_not_fire_after_a_restart() {
    let mut store = Memory::new();
    store.acquire().unwrap();
    let due = StoreTime::from_millis(1);
    for (gate, payload) in [(true, b"former"), (false, b"latter")] {
        let id = store.new_id(Some("key"), due);
        let mut row = Row::new(id, due, "mail".into(), payload.as_slice().into());
        row.key = Some("key".into());
        store
            .commit(vec![Write::Arm(row)], &mut Says(gate))
            .unwrap();
    }
    store.release().unwrap();
    let (clock, seen) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let payloads = seen.clone();
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .on("mail", move |mail| {
            payloads.lock().unwrap().push(mail.payload().to_vec());
            Ok(())
        })
        .start()
        .unwrap();
    clock.advance(SECOND);
    assert_eq!(*seen.lock().unwrap(), [b"latter"]);
    assert_eq!(timers.list(.., 10).unwrap(), []);
}

#[test]
fn while_a_stop_waits_what_is_not_due_can_be_cancelled_and_replaced() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (sender, futures) = crossbeam_channel::unbounded::<SpawnedFuture>();
    let timers = Durable::builder(store.clone())
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("mail", |_| async {
            futures_lite::future::yield_now().await;
            Ok(())
        })
        .start()
        .unwrap();
    timers.schedule("mail", Duration::ZERO, "blocks").unwrap();
    clock.advance(SECOND);
    let mut blocks = futures.try_recv().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(blocks.as_mut().poll(&mut context).is_pending(), "it runs");
    let cancelled = timers.schedule("mail", 8 * SECOND, "").unwrap();
    timers
        .key("key")
        .schedule("mail", 8 * SECOND, "former")
        .unwrap();
    let (handle, timers) = (timers.client(), Arc::new(timers));
    let stop = {
        let timers = timers.clone();
        thread::spawn(move || timers.stop())
    };
    // Until the window has nothing but the timer that is being handled.
    while handle.stats().window_rows > 1 {
        handle.get(cancelled).unwrap();
        thread::yield_now();
    }
    assert!(handle.cancel(cancelled).unwrap());
    handle
        .key("key")
        .schedule("mail", 8 * SECOND, "latter")
        .unwrap();
    futures_lite::future::block_on(blocks);
    stop.join().unwrap().unwrap();
    let mut store = store;
    store.acquire().unwrap();
    let rows = store
        .load(0, Position::MIN, StoreTime::MAX, SliceLimit::rows(10))
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(&*rows[0].payload, b"latter");
}

#[test]
fn futures_that_are_dropped_at_once_need_no_stack() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(drop)
        .on_async("mail", |_| std::future::pending())
        .max_calls("mail", NonZeroUsize::MIN)
        .start()
        .unwrap();
    let mails = (0..20_000).map(|_| ("mail", Duration::ZERO, ""));
    timers.schedule_many(mails).unwrap();
    clock.advance(Duration::from_millis(1));
    assert_eq!(timers.stats().failed, 20_000);
}

/// An error that panics when it is shown, and when it goes.
#[derive(Debug)]
struct Rude;

impl fmt::Display for Rude {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("shown")
    }
}

impl std::error::Error for Rude {}

impl Drop for Rude {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

#[test]
fn an_error_that_panics_is_a_failure() {
    let clock = ManualClock::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (sender, futures) = crossbeam_channel::unbounded::<SpawnedFuture>();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on("one", |_| Err(Box::new(Rude)))
        .max_calls("one", NonZeroUsize::MIN)
        .on_batch("batch", |mails| {
            mails.iter().map(|_| Err(Rude.into())).collect()
        })
        .on_async("async", |_| async { Err(Rude.into()) })
        .start()
        .unwrap();
    for kind in ["one", "one", "batch", "async"] {
        timers.schedule(kind, Duration::ZERO, "").unwrap();
    }
    clock.advance(Duration::from_millis(1));
    runtime.block_on(futures.try_recv().unwrap());
    assert_eq!(timers.stats().failed, 4);
    timers.stop().unwrap();
}

#[test]
fn a_future_cannot_stop_what_waits_for_it_and_may_drop_it() {
    let clock = ManualClock::new();
    let (sender, futures) = crossbeam_channel::unbounded::<SpawnedFuture>();
    let owner = Arc::new(Mutex::new(None::<Durable>));
    let inside = owner.clone();
    let is_refused = Arc::new(AtomicBool::new(false));
    let refused = is_refused.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("mail", move |_| {
            let (inside, refused) = (inside.clone(), refused.clone());
            async move {
                let timers = inside.lock().unwrap().take().unwrap();
                refused.store(
                    matches!(timers.stop(), Err(DurableError::InsideHandler)),
                    SeqCst,
                );
                drop(timers);
                Ok(())
            }
        })
        .start()
        .unwrap();
    let handle = timers.client();
    timers.schedule("mail", Duration::ZERO, "").unwrap();
    *owner.lock().unwrap() = Some(timers);
    clock.advance(Duration::from_millis(1));
    futures_lite::future::block_on(futures.try_recv().unwrap());
    assert!(is_refused.load(SeqCst));
    // Another thread stops it.
    while !matches!(
        handle.schedule("mail", SECOND, ""),
        Err(DurableError::Stopped)
    ) {
        thread::yield_now();
    }
}

#[test]
fn bytes_bound_the_window_too() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let open = |bytes| {
        Durable::builder(store.clone())
            .clock(clock.clone())
            .window(
                WindowLimits::new()
                    .ahead(100 * SECOND)
                    .rows(10_000)
                    .bytes(bytes),
            )
            .on("mail", |_| Ok(()))
            .start()
            .unwrap()
    };
    let timers = open(1 << 30);
    let mails = (0..400).map(|_| ("mail", 10 * SECOND, vec![0; 16_384]));
    timers.schedule_many(mails).unwrap();
    timers.stop().unwrap();
    let timers = open(1 << 20);
    let largest = timers.stats().window_bytes;
    assert!((500_000..1_100_000).contains(&largest), "{largest}");
    clock.advance(100 * SECOND);
    assert_eq!(timers.stats().done, 400);
}

#[test]
fn the_store_may_put_work_off_at_any_time() {
    let (clock, (store, upkeeps)) = (ManualClock::new(), Users::new(Does::AsMemory));
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .start()
        .unwrap();
    for _ in 0..10 {
        let before = upkeeps.load(SeqCst);
        timers.schedule("mail", 1_000 * SECOND, "").unwrap();
        clock.advance(2 * SECOND);
        assert!(upkeeps.load(SeqCst) > before);
    }
}

#[test]
fn a_store_that_panics_or_forgets_has_failed() {
    for does in [Does::PanicAfterCommit, Does::ForgetOutcomes] {
        let told = Arc::new(AtomicUsize::new(0));
        let hook = told.clone();
        let own: Arc<Mutex<Option<DurableClient>>> = Arc::default();
        let handle = own.clone();
        let timers = Durable::builder(Users::new(does).0)
            .on_store_failed(move |error| {
                hook.fetch_add(1, SeqCst);
                let timers = handle.lock().unwrap().take();
                let refused = timers.unwrap().schedule("mail", SECOND, "");
                assert!(matches!(refused, Err(DurableError::Store(_))));
                panic!("the hook's, of {error}");
            })
            .start()
            .unwrap();
        *own.lock().unwrap() = Some(timers.client());
        let error = timers.schedule("mail", SECOND, "").unwrap_err();
        assert!(matches!(error, DurableError::Store(_)), "{error}");
        assert!(timers.failure().is_some());
        assert!(matches!(timers.stop(), Err(DurableError::Store(_))));
        assert_eq!(told.load(SeqCst), 1);
    }
}

#[test]
fn a_slow_commit_makes_no_timer_late() {
    let commit_takes = Duration::from_millis(7);
    let (store, _) = Users::new(Does::TakeTime(commit_takes));
    let clock = store.0.clock.clone();
    let handled = Arc::new(Mutex::new(Vec::new()));
    let handler = handled.clone();
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .on("mail", move |_| {
            handler.lock().unwrap().push(());
            Ok(())
        })
        .start()
        .unwrap();
    // (What it takes to start is over.)
    clock.advance(SECOND);
    for wait in [30, 50, 31] {
        let wait = Duration::from_millis(wait);
        timers.schedule("mail", wait, "").unwrap();
        // The commit has taken some of the wait.
        let left = wait - commit_takes;
        let before = handled.lock().unwrap().len();
        clock.advance(left - Duration::from_millis(1));
        assert_eq!(handled.lock().unwrap().len(), before, "never early");
        clock.advance(Duration::from_millis(2));
        assert_eq!(
            handled.lock().unwrap().len(),
            before + 1,
            "a tick late at the most"
        );
        clock.advance(SECOND);
    }
}

#[test]
fn a_commit_that_takes_long_holds_up_no_timer() {
    for commit_takes in [300, 700, 1_200].map(Duration::from_millis) {
        let (store, _) = Users::new(Does::TakeTime(commit_takes));
        let clock = store.0.clock.clone();
        let late = Arc::new(Mutex::new(Vec::new()));
        let (now, handler) = (clock.clone(), late.clone());
        let timers = Durable::builder(store)
            .clock(clock.clone())
            .on("mail", move |delivery| {
                let late = now.system_time().duration_since(delivery.due());
                handler.lock().unwrap().push(late.expect("never early"));
                Ok(())
            })
            .start()
            .unwrap();
        let mails = (0..100_u32).map(|n| ("mail", 5 * SECOND + n * SECOND / 50, ""));
        timers.schedule_many(mails).unwrap();
        for _ in 0..30 {
            timers.schedule("other", 1_000 * SECOND, "").unwrap();
        }
        let late = late.lock().unwrap();
        assert_eq!(late.len(), 100);
        let latest = *late.iter().max().unwrap();
        assert!(
            latest <= Duration::from_millis(2),
            "{commit_takes:?}: {latest:?}"
        );
    }
}

#[test]
fn nothing_is_handed_out_before_the_watermark() {
    let clock = ManualClock::new();
    let handed = Arc::new(AtomicBool::new(false));
    let handler = handed.clone();
    let timers = Durable::builder(Users::new(Does::FailToHandOut).0)
        .clock(clock.clone())
        .on("mail", move |_| {
            handler.store(true, SeqCst);
            Ok(())
        })
        .start()
        .unwrap();
    let _ = timers.schedule("mail", SystemTime::UNIX_EPOCH, "");
    clock.advance(SECOND);
    assert!(timers.failure().is_some());
    assert!(!handed.load(SeqCst));
}

/// A task that ends, and drops what it has, when it is woken.
struct Owner(Mutex<Option<Durable>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_the_timers() {
    let timers = Durable::builder(Memory::new()).start().unwrap();
    let handle: DurableClient = timers.client();
    let owner = Arc::new(Owner(Mutex::new(Some(timers))));
    let waker = Waker::from(owner.clone());
    loop {
        let Ok(mut ticket) = handle.schedule_ticket("mail", SECOND, "") else {
            break;
        };
        let polled = std::pin::Pin::new(&mut ticket);
        let _ = Future::poll(polled, &mut Context::from_waker(&waker));
        // (It hangs if the writer waits for itself.)
        while owner.0.lock().unwrap().is_some() && handle.schedule("mail", SECOND, "").is_ok() {}
    }
}

/// What a panic carries, and panics when it goes.
struct Awkward;

impl Drop for Awkward {
    fn drop(&mut self) {
        panic!("of what a panic carries");
    }
}

/// A task whose waker panics so.
struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(Awkward);
    }
}

#[test]
fn a_waker_may_panic_with_what_panics() {
    let timers = Durable::builder(Memory::new()).start().unwrap();
    let waker = Waker::from(Arc::new(Panicking));
    for _ in 0..1_000 {
        let mut ticket = timers.schedule_ticket("mail", SECOND, "").unwrap();
        let polled = std::pin::Pin::new(&mut ticket);
        let _ = Future::poll(polled, &mut Context::from_waker(&waker));
    }
    timers.schedule("mail", SECOND, "").unwrap();
    assert!(timers.failure().is_none());
    timers.stop().unwrap();
}

/// A future that ends at once, and panics when it goes.
struct Ends(Option<HandlerResult>);

impl Future for Ends {
    type Output = HandlerResult;

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        match self.0.take() {
            Some(result) => Poll::Ready(result),
            None => std::panic::panic_any(Awkward),
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        panic!("the future's");
    }
}

/// An error that panics when it goes.
#[derive(Debug)]
struct AwkwardError(#[allow(dead_code, reason = "it panics when it goes")] Awkward);

impl fmt::Debug for Awkward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awkward")
    }
}

impl fmt::Display for AwkwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("awkward")
    }
}

impl std::error::Error for AwkwardError {}

#[test]
fn a_future_may_panic_when_it_goes_whatever_it_has_answered() {
    for answer in [
        || Some(Ok(())),
        || Some(Err(AwkwardError(Awkward).into())),
        || None,
    ] {
        let clock = ManualClock::new();
        let timers = Durable::builder(Memory::new())
            .clock(clock.clone())
            .spawner(|mut future| {
                let mut context = Context::from_waker(Waker::noop());
                let _ = future.as_mut().poll(&mut context);
            })
            .on_async("mail", move |_| Ends(answer()))
            .max_calls("mail", NonZeroUsize::MIN)
            .retry_policy(RetryPolicy::never())
            .start()
            .unwrap();
        for _ in 0..5 {
            timers.schedule("mail", SECOND, "").unwrap();
        }
        clock.advance(SECOND * 2);
        let stats = timers.stats();
        assert_eq!((stats.failed, stats.died), (5, 5), "each has failed");
        timers.stop().unwrap();
    }
}

#[test]
fn callers_are_told_why_the_watermark_was_not_stored() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Users::new(Does::FailToHandOut).0)
        .clock(clock.clone())
        .on("mail", |_| Ok(()))
        .start()
        .unwrap();
    timers.schedule("mail", 100 * SECOND, "").unwrap();
    // It is due soon, which the turn of the next call notices.
    clock.set_system_time(clock.system_time() + 100 * SECOND);
    let ticket = timers.schedule_ticket("mail", 100 * SECOND, "").unwrap();
    let error = ticket.wait().unwrap_err();
    assert!(matches!(error, DurableError::Store(_)), "{error}");
}

/// In the child there is no writer, which would answer.
#[cfg(target_os = "linux")]
#[test]
fn calls_in_a_process_that_was_forked_off_do_not_wait() {
    let timers = Durable::builder(Memory::new()).start().unwrap();
    // SAFETY: the child runs what is below alone, and ends without a return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(120) };
        let refused = timers.schedule("mail", SECOND, "");
        let is_refused = matches!(refused, Err(DurableError::Stopped));
        // SAFETY: ends the process, without what the test harness does at its end.
        unsafe { libc::_exit(i32::from(!is_refused)) };
    }
    assert!(child > 0, "no process");
    let mut status = 0;
    // SAFETY: the child is this thread's, and the status is a place for it.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((ended, status), (child, 0), "the call was refused");
    timers.schedule("mail", SECOND, "").unwrap();
}

#[test]
fn a_suspect_that_comes_back_while_its_key_is_taken_is_forgotten() {
    let (Over(mut store), _) = Users::new(Does::TakeTime(Duration::from_millis(7)));
    let clock = store.clock.clone();
    let begin = clock.system_time();
    let due = StoreTime::due_at(begin);
    let mut row = Row::new(
        store.new_id(Some("key"), due),
        due,
        "mail".into(),
        b"former".as_slice().into(),
    );
    (row.key, row.crashes, row.suspect) = (Some("key".into()), 1, true);
    store.memory.acquire().unwrap();
    let arm = vec![Write::Arm(row)];
    store.memory.commit(arm, &mut Says(true)).unwrap();
    store.memory.release().unwrap();
    let (sender, futures) = crossbeam_channel::unbounded::<SpawnedFuture>();
    let own = Arc::new(Mutex::new(None::<DurableClient>));
    let (handle, set_back, waiting) = (own.clone(), clock.clone(), futures.clone());
    let handled = Arc::new(Mutex::new(Vec::new()));
    let payloads = handled.clone();
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("mail", move |mail| {
            payloads.lock().unwrap().push(mail.payload().to_vec());
            async { Ok(()) }
        })
        .on("act", move |_| {
            // The suspect is not due any more, and goes back; then another timer takes its key.
            set_back.set_system_time(begin - SECOND);
            let mut suspect = waiting.try_recv().unwrap();
            let mut context = Context::from_waker(Waker::noop());
            assert!(suspect.as_mut().poll(&mut context).is_ready());
            let handle = handle.lock().unwrap().clone().unwrap();
            let latter = handle.key("key");
            drop(latter.schedule_ticket("mail", Duration::ZERO, "latter"));
            Ok(())
        })
        .start()
        .unwrap();
    *own.lock().unwrap() = Some(timers.client());
    timers.schedule("act", 2 * SECOND, "").unwrap();
    while timers.stats().window_rows < 2 || clock.elapsed() < 2 * SECOND - Duration::from_millis(3)
    {
        clock.advance(Duration::from_millis(1));
    }
    // While this is stored, the handler runs: the next commit has all that it asks for.
    timers.schedule("other", 3_600 * SECOND, "").unwrap();
    for _ in 0..200 {
        clock.advance(SECOND);
        while let Ok(mut future) = futures.try_recv() {
            let mut context = Context::from_waker(Waker::noop());
            let _ = future.as_mut().poll(&mut context);
        }
    }
    assert_eq!(*handled.lock().unwrap(), [b"latter"]);
    let stats = timers.stats();
    assert_eq!((stats.rows, stats.lag), (1, Duration::ZERO), "{stats:?}");
}
