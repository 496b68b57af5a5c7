//! A stream that two tasks use, on one thread or on several.

use super::{SECOND, over, scripted};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use wheelwork::future::{Timers, sleep, timeout};
use wheelwork::io::{ElapsedLimit, Limits, TimeoutIo};
use wheelwork::testing::{block_on, spawn};

#[test]
fn each_task_has_the_limit_of_its_way() {
    block_on(async {
        for (read, write) in [(5, 3), (3, 5), (4, 4)] {
            let limits = Limits::new().read(read * SECOND).write(write * SECOND);
            let (stream, _peer) = scripted(limits);
            let start = super::elapsed();
            let (mut reader, mut writer) = split(stream);
            let reads = spawn(async move { over(reader.read_u8().await) });
            let writes = spawn(async move { over(writer.write_u8(0).await) });
            assert_eq!(reads.await, (ElapsedLimit::Read, start + read * SECOND));
            assert_eq!(writes.await, (ElapsedLimit::Write, start + write * SECOND));
        }
        assert!(Timers::current().handle().is_empty());
    });
}

#[test]
fn what_one_task_moves_renews_the_time_of_the_other() {
    block_on(async {
        let (stream, peer) = scripted(Limits::new().idle(60 * SECOND));
        let (mut reader, mut writer) = split(stream);
        let reads = spawn(async move { over(reader.read_u8().await) });
        let writes = spawn(async move {
            for _ in 0..10 {
                peer.accept(1);
                writer.write_u8(0).await.unwrap();
                sleep(59 * SECOND).await;
            }
            over(writer.write_u8(0).await)
        });
        let end = (ElapsedLimit::Idle, (9 * 59 + 60) * SECOND);
        assert_eq!((reads.await, writes.await), (end, end));
    });
}

#[test]
fn a_task_that_no_longer_waits_holds_up_no_other() {
    block_on(async {
        let limits = Limits::new().read(3 * SECOND).write(10 * SECOND);
        let (stream, _peer) = scripted(limits);
        let (mut reader, mut writer) = split(stream);
        // A read begins and is given up. Its time comes, and nobody is there.
        let writes = spawn(async move { over(writer.write_u8(0).await) });
        let read = timeout(SECOND, reader.read_u8());
        assert!(read.await.is_err());
        assert_eq!(writes.await, (ElapsedLimit::Write, 10 * SECOND));
        assert_eq!(
            over(reader.read_u8().await),
            (ElapsedLimit::Read, 10 * SECOND)
        );
    });
}

#[test]
fn the_last_task_that_asked_is_woken() {
    block_on(async {
        let (mut stream, _peer) = scripted(Limits::new().read(5 * SECOND));
        // The read moves from task to task.
        for _ in 0..4 {
            let read = async move {
                let read = timeout(SECOND, stream.read_u8());
                assert!(read.await.is_err());
                stream
            };
            stream = spawn(read).await;
        }
        let read = spawn(async move { over(stream.read_u8().await) });
        assert_eq!(read.await, (ElapsedLimit::Read, 5 * SECOND));
    });
}

/// Panics when it is woken.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_task_from_being_woken() {
    block_on(async {
        let limits = Limits::new().read(5 * SECOND).write(5 * SECOND);
        let (stream, _peer) = scripted(limits);
        let (mut reader, mut writer) = split(stream);
        let waker = Arc::new(Panics).into();
        let mut read = pin!(reader.read_u8());
        let poll = read.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        let write = timeout(60 * SECOND, writer.write_u8(0)).await;
        assert_eq!(
            over(write.expect("woken")),
            (ElapsedLimit::Write, 5 * SECOND)
        );
        assert_eq!(Timers::current().handle().stats().panics, 1);
    });
}

/// On the real clock: waits for conditions only.
#[test]
fn no_wake_up_is_lost_on_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    runtime.block_on(async {
        let limits = |number: u64| {
            let read = Duration::from_micros(500 + 37 * (number % 50));
            let write = Duration::from_micros(500 + 41 * (number % 50));
            Limits::new().read(read).write(write)
        };
        let (mut tasks, mut others) = (Vec::new(), Vec::new());
        for number in 0..500 {
            let (here, there) = duplex(1);
            others.push(there);
            let (mut reader, mut writer) = split(TimeoutIo::new(here, limits(number)));
            tasks.push(tokio::spawn(async move {
                let error = reader.read_u8().await.unwrap_err();
                assert_eq!(ElapsedLimit::of(&error), Some(ElapsedLimit::Read));
            }));
            tasks.push(tokio::spawn(async move {
                writer.write_u8(0).await.unwrap();
                let error = writer.write_u8(0).await.unwrap_err();
                assert_eq!(ElapsedLimit::of(&error), Some(ElapsedLimit::Write));
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}
