//! Promise: a crash loop buries no timer that no handler was given, and a timer that ends its
//! process each time ends among the dead, alone.
//!
//! Each test runs on the store for tests and on a file.

use crate::lives::{at_call, note, on_each_store};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wheelwork_durable::{Cause, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_crash_loop_buries_nothing() {
    on_each_store("crash-loop", |world| {
        world.arm(5_000);
        for _ in 0..25 {
            let life = world.live().on("x", RetryPolicy::new(), at_call(2));
            let life = life.start();
            life.clock.advance(SECOND * 3);
            assert!(
                life.is_over(),
                "a handler is called, however often it has died"
            );
            world.end(life);
            assert_eq!(world.dead(), []);
        }
        world.live_on(RetryPolicy::new(), |_| false);
        assert_eq!(world.dead(), []);
        let calls = world.calls.lock().unwrap();
        assert_eq!(calls.len(), 5_000, "all are handled");
        assert!(calls.values().all(|&calls| calls <= 3));
    });
}

#[test]
fn so_it_is_with_one_attempt() {
    on_each_store("crash-loop-never", |world| {
        world.arm(100);
        for _ in 0..5 {
            let life = world.live().on("x", RetryPolicy::never(), at_call(2));
            let life = life.start();
            life.clock.advance(SECOND * 3);
            world.end(life);
        }
        world.live_on(RetryPolicy::never(), |_| false);
        assert_eq!(world.dead(), []);
    });
}

#[test]
fn a_timer_that_ends_its_process_is_the_only_one_among_the_dead() {
    on_each_store("poison", |world| {
        world.arm(64);
        let retry = RetryPolicy::never().crash_attempts(3);
        world.live_on(retry, |delivery| delivery.payload() == b"33");
        let dead = world.dead();
        assert_eq!(dead.len(), 1, "{dead:?}");
        assert_eq!(&*dead[0].row.payload, b"33");
        assert_eq!(dead[0].cause, Cause::Crashed);
        assert_eq!((dead[0].row.attempts, dead[0].row.crashes), (0, 4));
        // Freely, in a group, and alone as often as it may be.
        assert_eq!(world.calls("33"), 5);
        for number in 0..64 {
            assert!(world.calls(&number.to_string()) > 0, "{number} was handled");
        }
        // One to arm them, those that it has ended, and the last one.
        assert_eq!(world.lives.load(SeqCst), 1 + 5 + 1);
    });
}

#[test]
fn two_of_them_are_told_apart() {
    on_each_store("poisons", |world| {
        world.arm(40);
        let retry = RetryPolicy::new().crash_attempts(2);
        world.live_on(retry, |delivery| {
            delivery.payload() == b"7" || delivery.payload() == b"8"
        });
        let dead = world.dead();
        let mut payloads: Vec<_> = dead.iter().map(|letter| &*letter.row.payload).collect();
        payloads.sort_unstable();
        assert_eq!(payloads, [b"7", b"8"]);
    });
}

#[test]
fn fewer_attempts_after_a_restart_bury_nothing_without_a_call() {
    on_each_store("fewer-attempts", |world| {
        let ids = world.arm(2);
        let first = world.live().with(|builder| {
            builder
                .on("x", |_| Err("no".into()))
                .retry_policy(RetryPolicy::new().first(SECOND).cap(SECOND))
        });
        let first = first.start();
        first.clock.advance(SECOND * 4);
        first.timers().stop().unwrap();
        world.end(first);
        assert!(world.row(ids[0]).unwrap().attempts >= 3);
        // One of them does its work now.
        let life = world.live();
        let calls = life.calls.clone();
        let life = life.with(move |builder| {
            builder
                .on("x", move |delivery| {
                    note(&calls, delivery);
                    match delivery.payload() {
                        b"0" => Ok(()),
                        _ => Err("never".into()),
                    }
                })
                .retry_policy(RetryPolicy::never())
        });
        let life = life.start();
        life.clock.advance(SECOND * 4);
        world.end(life);
        assert_eq!((world.calls("0"), world.calls("1")), (1, 1));
        let dead = world.dead();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].cause, Cause::Failed("never".into()));
    });
}

#[test]
fn one_that_is_moved_at_each_start_ends_among_the_dead_too() {
    on_each_store("moved-poison", |world| {
        let ids = world.arm(1);
        let mut lives = 0;
        while world.dead().is_empty() {
            let retry = RetryPolicy::new().crash_attempts(2);
            let life = world.live().on("x", retry, |_| true).start();
            // (As a program does that arms what it needs when it starts.)
            life.timers().reschedule(ids[0], SECOND).unwrap();
            for _ in 0..10 {
                life.clock.advance(SECOND);
            }
            world.end(life);
            lives += 1;
            assert!(lives < 20);
        }
        assert_eq!(world.calls("0"), 4);
    });
}
