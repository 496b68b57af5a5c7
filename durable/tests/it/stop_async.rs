//! A stop or a drop of durable timers in async code does not hang: not even on the thread of a
//! runtime of one thread, which runs the futures of handlers.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::yield_now;
use wheelwork_durable::{Delivery, Durable, DurableBuilder, DurableError, Memory};

/// Timers, of which one has a handler's future that runs on this runtime until it is let go.
async fn with_future(store: &Memory) -> (Durable, Arc<Notify>) {
    with_future_of(Durable::builder(store.clone())).await
}

async fn with_future_of(builder: DurableBuilder<Memory>) -> (Durable, Arc<Notify>) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runtime = Handle::current();
    let in_future = (begun.clone(), go.clone());
    let timers = builder
        .spawner(move |future| drop(runtime.spawn(future)))
        .on_async("mail", move |_: Delivery| {
            let (begun, go) = in_future.clone();
            async move {
                begun.notify_one();
                go.notified().await;
                Ok(())
            }
        })
        .start()
        .unwrap();
    let ticket = timers.schedule_ticket("mail", Duration::ZERO, "").unwrap();
    ticket.await.unwrap();
    begun.notified().await;
    (timers, go)
}

#[tokio::test]
async fn a_drop_leaves_the_futures_of_handlers_to_a_thread() {
    let (timers, go) = with_future(&Memory::new()).await;
    let handle = timers.client();
    drop(timers);
    assert_eq!(handle.stats().done, 0);
    go.notify_one();
    while handle.stats().done == 0 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_stop_is_awaited_while_a_future_runs() {
    let (timers, go) = with_future(&Memory::new()).await;
    let stop = timers.stop_async(Duration::MAX);
    go.notify_one();
    stop.await.unwrap();
    assert_eq!(
        timers.stats().done,
        1,
        "what the handler has said is stored"
    );
    let late = timers.schedule("mail", Duration::ZERO, "").unwrap_err();
    assert!(matches!(late, DurableError::Stopped));
    timers.stop_async(Duration::MAX).await.unwrap();
}

/// The turn that stores the last answer is its last one.
#[tokio::test]
async fn a_node_that_has_stopped_has_no_lag() {
    let memory = Memory::new();
    // Two timers and one place for a call: the stop lets go of the other timer.
    let (timers, go) =
        with_future_of(Durable::builder(memory).max_calls("mail", NonZeroUsize::MIN)).await;
    let ticket = timers.schedule_ticket("mail", Duration::ZERO, "").unwrap();
    ticket.await.unwrap();
    let stats = || {
        let stats = timers.stats();
        (stats.window_rows, stats.lag)
    };
    while stats().0 < 2 || stats().1.is_zero() {
        yield_now().await;
    }
    let stop = timers.stop_async(Duration::MAX);
    while stats().0 == 2 {
        yield_now().await;
    }
    go.notify_one();
    stop.await.unwrap();
    assert_eq!(stats(), (0, Duration::ZERO));
}

#[tokio::test]
async fn a_stop_has_a_limit_and_goes_on_after_it() {
    let (timers, go) = with_future(&Memory::new()).await;
    let error = timers.stop_async(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, DurableError::StopGoesOn), "{error}");
    go.notify_one();
    timers.stop_async(Duration::MAX).await.unwrap();
    assert_eq!(timers.stats().done, 1);
}

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Runs async code on a thread of its own, with a runtime of one thread.
fn on_one_thread<T: Send + 'static>(
    code: impl AsyncFnOnce() -> T + Send + 'static,
) -> Result<T, mpsc::RecvTimeoutError> {
    let (send, done) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().build().unwrap();
        let _ = send.send(runtime.block_on(code()));
    });
    done.recv_timeout(HANGS)
}

#[test]
fn a_stop_on_the_thread_that_polls_a_future_is_refused() {
    let refused = on_one_thread(async || {
        let (timers, go) = with_future(&Memory::new()).await;
        let refused = timers.stop();
        // Nothing was stopped.
        timers.schedule("mail", HANGS, "").unwrap();
        go.notify_one();
        while timers.stats().done == 0 {
            yield_now().await;
        }
        timers.stop().unwrap();
        refused
    });
    let error = refused.unwrap().unwrap_err();
    assert!(matches!(error, DurableError::PollsHandler), "{error}");
    assert!(!error.to_string().contains('\n'), "one line: {error}");
}

#[test]
fn a_stop_elsewhere_waits_for_the_future() {
    let done = on_one_thread(async || {
        let (timers, go) = with_future(&Memory::new()).await;
        let timers = Arc::new(timers);
        let stopping = timers.clone();
        let stop = tokio::task::spawn_blocking(move || stopping.stop());
        go.notify_one();
        stop.await.unwrap().unwrap();
        timers.stats().done
    });
    assert_eq!(done, Ok(1));
}

#[test]
fn a_stop_does_not_wait_for_a_future_that_was_never_polled() {
    let store = Memory::new();
    let first = store.clone();
    let calls = on_one_thread(async move || {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let (runtime, (spawned, has_spawned)) = (Handle::current(), mpsc::channel());
        let timers = Durable::builder(first)
            .spawner(move |future| {
                drop(runtime.spawn(future));
                spawned.send(()).unwrap();
            })
            .on_async("mail", move |_: Delivery| {
                // Ordering: Relaxed. A count that this thread reads.
                counted.fetch_add(1, Ordering::Relaxed);
                async { Ok(()) }
            })
            .start()
            .unwrap();
        timers.schedule("mail", Duration::ZERO, "").unwrap();
        // This blocks the runtime's only thread, so it has not polled the future.
        has_spawned.recv_timeout(HANGS).unwrap();
        timers.stop().unwrap();
        for _ in 0..100 {
            yield_now().await;
        }
        calls.load(Ordering::Relaxed)
    });
    assert_eq!(calls, Ok(0), "after a stop no handler is called");
    let rows = Durable::builder(store).start().unwrap();
    let left = rows.list(.., 10).unwrap();
    assert_eq!((left.len(), left[0].attempts), (1, 0), "it stays stored");
}
