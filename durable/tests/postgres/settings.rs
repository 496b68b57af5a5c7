//! Promise: what is set for a single timer is kept by the tables, and a timer that expires is not
//! handed out afterwards, by whichever node.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, next, until};
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork_durable::{Cause, Delivery, Durable, RetryPolicy};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn settings_of_a_timer_go_from_node_to_node() {
    let Some(schema) = Schema::new("settings") else {
        return;
    };
    let idle = Durable::builder(schema.store()).start().unwrap();
    let timer = idle.timer("mail", HOUR, "late").not_after(HOUR + 500 * MS);
    let late = timer.key("late").traceparent(TRACE).schedule().unwrap();
    let timer = idle.timer("mail", HOUR, "in time").not_after(2 * HOUR);
    let in_time = timer.traceparent(TRACE).schedule().unwrap();
    let row = idle.get(late).unwrap().unwrap();
    assert_eq!(row.traceparent(), Some(TRACE));
    assert_eq!(row.expires(), Some(row.due.after(500 * MS)));
    idle.stop().unwrap();
    // As if the hour were over, and no node had run.
    let pass = "UPDATE {s}.timer SET moved = true, due = due - 3600000 - 60000,
        expires = expires - 3600000 - 60000";
    schema.client().batch_execute(&schema.sql(pass)).unwrap();
    let (tells, told) = channel();
    let node = Durable::builder(schema.store())
        .on("mail", move |mail: &Delivery| {
            let trace = mail.traceparent().map(str::to_owned);
            tells.send((mail.payload_text().into_owned(), mail.attempt(), trace))?;
            match mail.attempt() {
                1 => Err("no server".into()),
                _ => Ok(()),
            }
        })
        .retry_policy(RetryPolicy::new().first(MS))
        .start()
        .unwrap();
    let told = [next(&told), next(&told)];
    let trace = Some(TRACE.to_owned());
    let call = |attempt| ("in time".to_owned(), attempt, trace.clone());
    assert_eq!(told, [call(1), call(2)]);
    until("one is dead", || node.stats().expired == 1);
    until("one is done", || node.stats().done == 1);
    let dead = node.dead_letters(None, 9).unwrap();
    assert_eq!((dead.len(), dead[0].row.id), (1, late));
    assert_eq!((&dead[0].cause, dead[0].row.attempts), (&Cause::Expired, 0));
    assert_eq!(dead[0].row.traceparent(), Some(TRACE));
    assert_eq!(node.get(in_time).unwrap(), None);
    // It keeps what was set for it, so it expires again.
    assert!(node.revive(late).unwrap());
    until("it is dead again", || node.stats().expired == 2);
    node.stop().unwrap();
}
