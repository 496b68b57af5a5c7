//! Each limit by itself, and what all of them cost.

use super::{MS, SECOND, elapsed, over, scripted};
use std::io::{IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use wheelwork::future::{Timers, sleep, timeout};
use wheelwork::io::{ElapsedLimit, Limits, TimeoutIo};
use wheelwork::testing::{block_on, spawn};

#[test]
fn a_read_has_its_time_and_bytes_renew_it() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().read(5 * SECOND));
        let sender = spawn(async move {
            for byte in 0..10 {
                sleep(5 * SECOND - MS).await;
                peer.send(&[byte]);
            }
            peer
        });
        let mut bytes = [0; 10];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let (start, peer) = (elapsed(), sender.await);
        let expected = (ElapsedLimit::Read, start + 5 * SECOND);
        assert_eq!(over(stream.read_u8().await), expected);
        // Once more, and at once: nothing has come since.
        assert_eq!(over(stream.read_u8().await), expected);
        // Bytes that come late are read.
        peer.send(b"x");
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        assert_eq!(over(stream.read_u8().await).1, start + 10 * SECOND);
        peer.end();
        assert_eq!(stream.read(&mut bytes).await.unwrap(), 0);
        assert!(Timers::current().handle().is_empty() || elapsed() < start + 11 * SECOND);
    });
}

#[test]
fn a_read_that_is_dropped_has_begun() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().read(5 * SECOND));
        // Without a read there is no limit.
        sleep(60 * SECOND).await;
        assert!(timeout(3 * SECOND, stream.read_u8()).await.is_err());
        sleep(SECOND).await;
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Read, 65 * SECOND)
        );
        peer.send(b"xy");
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        sleep(60 * SECOND).await;
        assert_eq!(stream.read_u8().await.unwrap(), b'y');
    });
}

#[test]
fn a_write_has_its_time_and_bytes_that_are_taken_renew_it() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().write(10 * SECOND));
        let taker = spawn(async move {
            for _ in 0..5 {
                sleep(10 * SECOND - MS).await;
                peer.accept(2);
            }
            peer
        });
        stream.write_all(b"0123456789").await.unwrap();
        let (start, peer) = (elapsed(), taker.await);
        assert_eq!(peer.got(), b"0123456789");
        let expected = (ElapsedLimit::Write, start + 10 * SECOND);
        assert_eq!(over(stream.write_all(b"x").await), expected);
        // Reads have no limit.
        peer.send(b"a");
        sleep(100 * SECOND).await;
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
        let read = timeout(100 * SECOND, stream.read_u8());
        assert!(read.await.is_err());
    });
}

#[test]
fn a_flush_and_a_shutdown_have_the_time_of_a_write() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().write(10 * SECOND));
        assert_eq!(
            over(stream.flush().await),
            (ElapsedLimit::Write, 10 * SECOND)
        );
        peer.let_flush();
        stream.flush().await.unwrap();
        stream.shutdown().await.unwrap();
        let (mut stream, _peer) = scripted(Limits::new().write(10 * SECOND));
        assert_eq!(
            over(stream.shutdown().await),
            (ElapsedLimit::Write, 20 * SECOND)
        );
    });
}

#[test]
fn bytes_of_either_way_renew_the_idle_time() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().idle(60 * SECOND));
        let other = peer.clone();
        let _peer = spawn(async move {
            for _ in 0..5 {
                sleep(40 * SECOND).await;
                other.accept(1);
                sleep(40 * SECOND).await;
                other.send(b"x");
            }
        });
        for _ in 0..5 {
            stream.write_all(b"y").await.unwrap();
            stream.read_u8().await.unwrap();
        }
        assert_eq!(elapsed(), 400 * SECOND);
        // A flush moves no bytes.
        peer.let_flush();
        sleep(30 * SECOND).await;
        stream.flush().await.unwrap();
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Idle, 460 * SECOND)
        );
        // Neither does the end of the stream; and a write that need not wait goes through.
        peer.end();
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        peer.accept(3);
        stream.write_all(b"bye").await.unwrap();
        sleep(59 * SECOND).await;
        assert_eq!(
            over(stream.write_all(b"x").await),
            (ElapsedLimit::Idle, 520 * SECOND)
        );
    });
}

#[test]
fn the_time_of_the_whole_is_not_renewed() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().max_age(100 * SECOND));
        peer.accept(usize::MAX);
        peer.let_flush();
        for _ in 0..99 {
            peer.send(b"x");
            stream.read_u8().await.unwrap();
            stream.write_all(b"y").await.unwrap();
            sleep(SECOND).await;
        }
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Age, 100 * SECOND)
        );
        // Whether there are bytes or not; but a shutdown is tried.
        peer.send(b"x");
        assert_eq!(over(stream.read_u8().await).0, ElapsedLimit::Age);
        assert_eq!(over(stream.write(b"y").await).0, ElapsedLimit::Age);
        let slices = [IoSlice::new(b"y")];
        assert_eq!(
            over(stream.write_vectored(&slices).await).0,
            ElapsedLimit::Age
        );
        stream.flush().await.unwrap();
        stream.shutdown().await.unwrap();
    });
}

#[test]
fn without_limits_there_is_no_timer() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new());
        let read = timeout(1_000 * SECOND, stream.read_u8());
        assert!(read.await.is_err());
        let write = timeout(1_000 * SECOND, stream.write_all(b"x"));
        assert!(write.await.is_err());
        peer.send(b"x");
        stream.read_u8().await.unwrap();
        // Those of the two timeouts.
        assert_eq!(Timers::current().handle().stats().timers.armed, 2);
    });
}

#[test]
fn bytes_move_no_timer() {
    block_on(async {
        let limits = Limits::new().read(5 * SECOND).write(5 * SECOND);
        let limits = limits.idle(60 * SECOND).max_age(86_400 * SECOND);
        let (mut stream, peer) = scripted(limits);
        let counts = || Timers::current().handle().stats().timers;
        peer.let_flush();
        let other = peer.clone();
        // 1,000 exchanges within the shortest limit; sleeps are the other side's.
        let start = counts();
        let peers = spawn(async move {
            for _ in 0..1_000 {
                sleep(4 * MS).await;
                other.send(b"x");
                other.accept(1);
            }
        });
        for _ in 0..1_000 {
            stream.read_u8().await.unwrap();
            stream.write_all(b"y").await.unwrap();
        }
        peers.await;
        assert_eq!(peer.got().len(), 1_000);
        let now = counts();
        assert_eq!(now.armed - start.armed, 1_000 + 1);
        assert_eq!(now.rearmed - start.rearmed, 0);
        // An hour of bytes, one a second: the timer fires once in four seconds.
        let (start, other) = (counts(), peer.clone());
        let peers = spawn(async move {
            for _ in 0..3_600 {
                sleep(SECOND).await;
                other.send(b"x");
            }
        });
        for _ in 0..3_600 {
            stream.read_u8().await.unwrap();
        }
        peers.await;
        let fired = counts().fired - start.fired - 3_600;
        assert!((720..=900).contains(&fired), "{fired}");
        drop(stream);
        assert!(Timers::current().handle().is_empty());
    });
}

#[test]
fn limits_may_change() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().read(5 * SECOND));
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Read, 5 * SECOND)
        );
        // A longer one, counted from the beginning of the wait.
        stream.set_limits(stream.limits().read(60 * SECOND));
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Read, 60 * SECOND)
        );
        // A limit for idle time begins where it is set.
        stream.set_limits(Limits::new().idle(10 * SECOND));
        assert_eq!(stream.limits(), Limits::new().idle(10 * SECOND));
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Idle, 70 * SECOND)
        );
        // A shorter one, while a timer is armed for a longer one.
        peer.send(b"x");
        stream.read_u8().await.unwrap();
        assert!(timeout(SECOND, stream.read_u8()).await.is_err());
        stream.set_limits(Limits::new().idle(5 * SECOND));
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Idle, 75 * SECOND)
        );
        stream.set_limits(Limits::new());
        assert!(timeout(60 * SECOND, stream.read_u8()).await.is_err());
    });
}

#[test]
fn limits_that_are_set_end_a_wait_that_has_begun() {
    block_on(async {
        use futures_lite::future::or;
        let limits = Limits::new().idle(1_000 * SECOND);
        let (mut stream, _peer) = scripted(limits);
        // The same task waits, sets limits, and waits.
        let wait = or(
            async {
                assert!(timeout(SECOND, stream.read_u8()).await.is_err());
                stream.set_limits(limits.read(5 * SECOND));
                over(stream.read_u8().await)
            },
            async {
                sleep(100 * SECOND).await;
                panic!("too late");
            },
        );
        assert_eq!(wait.await, (ElapsedLimit::Read, 6 * SECOND));
    });
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_task_that_waits_looks_again_when_limits_are_set() {
    block_on(async {
        let (mut stream, _peer) = scripted(Limits::new().read(60 * SECOND));
        let wakes = Arc::<Wakes>::default();
        let waker = wakes.clone().into();
        let mut context = Context::from_waker(&waker);
        let mut poll = |stream: &mut TimeoutIo<_>| {
            let mut buffer = [0; 8];
            Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut buffer))
        };
        assert!(poll(&mut stream).is_pending());
        sleep(5 * SECOND).await;
        stream.set_limits(Limits::new().read(10 * SECOND));
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert!(poll(&mut stream).is_pending());
        sleep(5 * SECOND).await;
        assert_eq!(wakes.0.load(SeqCst), 2);
        assert!(poll(&mut stream).is_ready());
    });
}

#[test]
fn a_task_that_waited_without_a_limit_looks_when_one_is_set() {
    block_on(async {
        for first in [Limits::new(), Limits::new().write(60 * SECOND)] {
            let start = elapsed();
            let (mut stream, _peer) = scripted(first);
            let wakes = Arc::<Wakes>::default();
            let waker = wakes.clone().into();
            let mut context = Context::from_waker(&waker);
            let mut poll = |stream: &mut TimeoutIo<_>| {
                let mut buffer = [0; 8];
                Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut buffer))
            };
            assert!(poll(&mut stream).is_pending());
            sleep(5 * SECOND).await;
            stream.set_limits(first.read(10 * SECOND));
            assert_eq!(wakes.0.load(SeqCst), 1);
            assert!(poll(&mut stream).is_pending());
            sleep(10 * SECOND).await;
            assert_eq!(wakes.0.load(SeqCst), 2);
            assert!(poll(&mut stream).is_ready());
            assert_eq!(elapsed(), start + 15 * SECOND);
        }
    });
}

#[test]
fn a_limit_that_was_taken_away_counts_anew() {
    block_on(async {
        let limits = Limits::new().read(5 * SECOND).write(5 * SECOND);
        let (mut stream, _peer) = scripted(limits);
        // A read and a write begin to wait.
        assert!(timeout(SECOND, stream.read_u8()).await.is_err());
        assert!(timeout(SECOND, stream.write_u8(0)).await.is_err());
        stream.set_limits(Limits::new());
        assert!(timeout(60 * SECOND, stream.read_u8()).await.is_err());
        assert!(timeout(60 * SECOND, stream.write_u8(0)).await.is_err());
        stream.set_limits(limits);
        let set = elapsed();
        assert_eq!(
            over(stream.read_u8().await),
            (ElapsedLimit::Read, set + 5 * SECOND)
        );
        assert_eq!(
            over(stream.write_u8(0).await),
            (ElapsedLimit::Write, set + 10 * SECOND)
        );
    });
}

#[test]
fn vectored_writes_go_through() {
    block_on(async {
        let (mut stream, peer) = scripted(Limits::new().write(SECOND).idle(9 * SECOND));
        assert!(AsyncWrite::is_write_vectored(&stream));
        let slices = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
        assert_eq!(
            over(stream.write_vectored(&slices).await),
            (ElapsedLimit::Write, SECOND)
        );
        peer.accept(3);
        assert_eq!(stream.write_vectored(&slices).await.unwrap(), 3);
        assert_eq!((peer.slices(), peer.got()), (2, b"abc".to_vec()));
    });
}

#[test]
fn streams_of_futures_have_the_same_limits() {
    use futures_lite::{AsyncReadExt, AsyncWriteExt};
    block_on(async {
        let limits = Limits::new().read(5 * SECOND).write(3 * SECOND);
        let (mut stream, peer) = scripted(limits.max_age(100 * SECOND));
        let mut bytes = [0; 4];
        let (one, two) = bytes.split_at_mut(2);
        let mut slices = [IoSliceMut::new(one), IoSliceMut::new(two)];
        let read = stream.read_vectored(&mut slices).await;
        assert_eq!(over(read), (ElapsedLimit::Read, 5 * SECOND));
        peer.send(b"abcd");
        AsyncReadExt::read_exact(&mut stream, &mut bytes)
            .await
            .unwrap();
        assert_eq!(&bytes, b"abcd");
        let write = AsyncWriteExt::write_all(&mut stream, b"x").await;
        assert_eq!(over(write), (ElapsedLimit::Write, 8 * SECOND));
        peer.accept(2);
        let slices = [IoSlice::new(b"y"), IoSlice::new(b"z")];
        let written = AsyncWriteExt::write_vectored(&mut stream, &slices).await;
        assert_eq!((written.unwrap(), peer.slices()), (2, 2));
        let flush = AsyncWriteExt::flush(&mut stream).await;
        assert_eq!(over(flush), (ElapsedLimit::Write, 11 * SECOND));
        peer.let_flush();
        AsyncWriteExt::flush(&mut stream).await.unwrap();
        sleep(89 * SECOND).await;
        peer.send(b"x");
        let read = AsyncReadExt::read(&mut stream, &mut bytes).await;
        assert_eq!(over(read), (ElapsedLimit::Age, 100 * SECOND));
        AsyncWriteExt::close(&mut stream).await.unwrap();
    });
}

#[test]
fn a_stream_is_as_large_as_its_page_says() {
    // Beside this: two counts and two wakers with their states.
    assert!(size_of::<TimeoutIo<()>>() <= 248);
}
