// A user's program: orders that are cancelled unless they are paid in time. `store` opens the
// store.

/// Runs it, and returns which orders were cancelled because nobody paid.
pub fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let (send, receive) = std::sync::mpsc::channel();
    let timers = Durable::builder(store()?)
        .on("order.unpaid", move |order| {
            if order.attempt() == 1 {
                return Err("the first attempt fails".into());
            }
            send.send(order.payload_text().into_owned())?;
            Ok(())
        })
        .retry_policy(RetryPolicy::new().first(Duration::from_millis(20)))
        .start()?;
    let soon = Duration::from_millis(100);
    let later = Duration::from_secs(3_600);
    for (order, when) in [("4711", soon), ("4712", later), ("4713", soon)] {
        timers
            .key(&format!("order-{order}"))
            .schedule("order.unpaid", when, order)?;
    }
    // One is paid, one gets more time and then less.
    let unpaid = timers.key("order-4712");
    let paid = unpaid.reschedule(2 * later)? && unpaid.cancel()?;
    assert!(paid, "it was two hours away");
    let id = timers.schedule("order.unpaid", later, "4714")?;
    assert_eq!(timers.get(id)?.map(|row| row.attempts), Some(0));
    assert!(timers.reschedule(id, soon)?);
    let many = (0..10).map(|number| ("order.unpaid", later, format!("{number}")));
    let ids = timers.schedule_many(many)?;
    assert_eq!(timers.cancel_many(ids)?, 10);
    let mut unpaid: Vec<String> = receive.iter().take(3).collect();
    unpaid.sort();
    timers.stop()?;
    Ok(unpaid)
}
