//! Promise: what is set for a single timer is kept by the tables, and a timer that expires is not
//! handed out afterwards, by whichever node.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, next, until};
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork::{calendar::Calendar, spread};
use wheelwork_durable::{Cause, Delivery, Durable, RetryPolicy};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Whichever node arms it, and whichever one asks.
#[test]
fn all_nodes_have_the_same_times_of_a_calendar_with_an_offset() {
    let Some(schema) = Schema::new("offset") else {
        return;
    };
    let [one, other] = [(); 2].map(|()| Durable::builder(schema.store()).start().unwrap());
    // Once a year, so that nothing is due in this test.
    let yearly = || Calendar::cron("0 0 1 1 *").unwrap().zone("UTC").unwrap();
    let calendar = || yearly().offset(spread(24 * HOUR, "shop"));
    let arm = |node: &Durable| {
        let key = node.key("shop");
        key.schedule_calendar("mail", calendar(), "").unwrap()
    };
    let id = arm(&one);
    assert_eq!(arm(&other), id);
    let pages = [&one, &other].map(|node| node.calendars(None, 9, 3).unwrap());
    assert_eq!(pages[0], pages[1]);
    let row = &pages[0].rows[0];
    let offset = Duration::from_millis(spread(24 * HOUR, "shop").as_millis() as u64);
    let since = row.runs[0] - offset - MS;
    let expected: Vec<_> = yearly()
        .after(since)
        .take(3)
        .map(|run| run + offset)
        .collect();
    assert_eq!((row.row.id, &row.runs), (id, &expected));
    assert!(other.reschedule(id, Duration::ZERO).unwrap());
    // It is put off to its next run, by the node that has made this one.
    other.stop().unwrap();
    let (tells, told) = channel();
    let handler = Durable::builder(schema.store()).on("mail", move |mail: &Delivery| {
        tells.send(mail.id())?;
        Ok(())
    });
    let node = handler.start().unwrap();
    assert_eq!(next(&told), id);
    until("its next run is stored", || {
        let row = node.get(id).unwrap().unwrap();
        row.due.system_time() == expected[0]
    });
    node.stop().unwrap();
    one.stop().unwrap();
}

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
