//! A stop or a drop of durable timers in async code blocks no executor, not even a runtime of one
//! thread that runs the future of a handler.

#![cfg(feature = "durable")]

use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;
use wheelwork::durable::{Delivery, Durable, DurableError, Memory};

/// Timers, of which one has a handler's future that runs on this runtime until it is let go.
async fn with_future(store: &Memory) -> (Durable, Arc<Notify>) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runtime = Handle::current();
    let in_future = (begun.clone(), go.clone());
    let timers = Durable::open(store.clone())
        .spawner(move |future| drop(runtime.spawn(future)))
        .handle_async("mail", move |_: Delivery| {
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
    let handle = timers.handle();
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

#[tokio::test]
async fn a_stop_has_a_limit_and_goes_on_after_it() {
    let (timers, go) = with_future(&Memory::new()).await;
    let error = timers.stop_async(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, DurableError::StopGoesOn), "{error}");
    go.notify_one();
    timers.stop_async(Duration::MAX).await.unwrap();
    assert_eq!(timers.stats().done, 1);
}
