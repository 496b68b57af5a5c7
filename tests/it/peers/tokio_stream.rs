//! What users of `tokio_stream::StreamExt` rely on: `timeout`, `throttle`, `chunks_timeout`.

use super::MS;
use futures_lite::future::{or, poll_once};
use futures_lite::stream::{self, Boxed};
use futures_lite::{Stream, StreamExt as _};
use std::time::Duration;
use wheelwork::future::{StreamExt as _, interval, sleep};
use wheelwork::testing::{self, block_on};

/// Numbers, each of which comes its gap, in milliseconds, after the one before it was taken.
fn spaced(gaps: &'static [u32]) -> Boxed<u32> {
    let items = stream::iter(gaps.iter().copied()).then(|ms| async move {
        sleep(MS * ms).await;
        ms
    });
    items.boxed()
}

/// What a stream gives, with the milliseconds at which it comes.
async fn dated<S: Stream>(items: S) -> Vec<(u128, S::Item)> {
    let items = items.map(|item| (testing::clock().elapsed().as_millis(), item));
    items.collect().await
}

/// Of items in time nothing is changed. A late one is told once, however late it is, and comes all
/// the same.
#[test]
fn a_timeout_is_for_each_item() {
    block_on(async {
        let items = dated(spaced(&[5, 5, 5]).timeout(8 * MS)).await;
        assert_eq!(items, [(5, Ok(5)), (10, Ok(5)), (15, Ok(5))]);
    });
    block_on(async {
        let items = dated(spaced(&[5, 50, 5]).timeout(8 * MS)).await;
        let items: Vec<_> = items
            .into_iter()
            .map(|(at, item)| (at, item.ok()))
            .collect();
        assert_eq!(
            items,
            [(5, Some(5)), (13, None), (55, Some(50)), (60, Some(5))]
        );
    });
}

#[test]
fn a_stream_may_be_left_at_the_first_timeout() {
    block_on(async {
        let items = spaced(&[5, 5, 50, 5]).timeout(8 * MS);
        let items = dated(items.take_while(Result::is_ok)).await;
        assert_eq!(items, [(5, Ok(5)), (10, Ok(5))]);
    });
}

/// `timeout_repeating(interval)`, which has no counterpart of its own.
#[test]
fn a_timeout_that_repeats_is_an_interval_beside_the_stream() {
    block_on(async {
        let (mut items, mut late) = (spaced(&[5, 50, 5]), interval(20 * MS).first(20 * MS));
        let mut all = Vec::new();
        loop {
            let item = async { Some(items.next().await) };
            let elapsed = async {
                late.tick().await;
                None
            };
            match or(item, elapsed).await {
                Some(Some(item)) => {
                    late.reset();
                    all.push(Some(item));
                }
                Some(None) => break,
                None => all.push(None),
            }
        }
        assert_eq!(all, [Some(5), None, None, Some(50), Some(5)]);
    });
}

#[test]
fn a_throttle_keeps_items_apart_and_gives_the_first_at_once() {
    block_on(async {
        let items = dated(stream::iter(['a', 'b', 'c']).throttle(10 * MS)).await;
        assert_eq!(items, [(0, 'a'), (10, 'b'), (20, 'c')]);
    });
}

#[test]
fn a_throttle_slows_no_stream_that_is_slower() {
    block_on(async {
        let ticks = interval(25 * MS).throttle(10 * MS).take(4);
        let ticks: Vec<_> = dated(ticks).await.into_iter().map(|(at, _)| at).collect();
        assert_eq!(ticks, [0, 25, 50, 75]);
    });
}

#[test]
fn a_throttle_of_no_time_is_none() {
    block_on(async {
        let items = stream::iter(0..1_000).throttle(Duration::ZERO);
        assert_eq!(items.collect::<Vec<_>>().await.len(), 1_000);
        assert!(testing::clock().elapsed().is_zero());
    });
}

/// The example of tokio-stream's documentation.
#[test]
fn a_chunk_is_full_or_old_or_the_last() {
    block_on(async {
        let late = spaced(&[5_000]);
        let items = stream::iter([1, 2, 3, 4]).chain(late);
        let chunks = dated(items.chunks_timeout(3, 2_000 * MS)).await;
        assert_eq!(
            chunks,
            [(0, vec![1, 2, 3]), (2_000, vec![4]), (5_000, vec![5_000])]
        );
    });
}

/// So a stream that gives nothing for long gives no empty chunks.
#[test]
fn the_age_of_a_chunk_is_that_of_its_first_item() {
    block_on(async {
        let chunks = spaced(&[30, 4, 4, 4]).chunks_timeout(10, 10 * MS);
        assert_eq!(dated(chunks).await, [(40, vec![30, 4, 4]), (42, vec![4])]);
    });
}

/// A difference: tokio-stream panics.
#[test]
fn chunks_of_nothing_are_of_one() {
    block_on(async {
        let chunks = stream::iter([1, 2]).chunks_timeout(0, MS);
        assert_eq!(dated(chunks).await, [(0, vec![1]), (0, vec![2])]);
    });
}

/// `into_remainder`, with the stream.
#[test]
fn what_was_gathered_can_be_taken_out() {
    block_on(async {
        let items = stream::iter([1, 2]).chain(spaced(&[50, 7]));
        let mut chunks = items.chunks_timeout(10, 1_000 * MS);
        assert_eq!(poll_once(chunks.next()).await, None);
        let (rest, gathered) = chunks.into_parts();
        assert_eq!(gathered, [1, 2]);
        assert_eq!(rest.collect::<Vec<_>>().await, [50, 7]);
    });
}
