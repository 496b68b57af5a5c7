//! Promise: time limits, a pace and chunks for streams lose no item and change no order. Nothing
//! comes early; what is late is told once. Their ends are final, and leave no timer behind.

use crate::tasks::{MS, Task, armed, manual};
use futures_core::{FusedStream, Stream};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wheelwork::future::StreamExt;

/// A stream to which the test gives items. It panics if it is polled after its end.
#[derive(Clone, Debug, Default)]
struct Source(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    /// `None` is the end.
    items: VecDeque<Option<u32>>,
    has_ended: bool,
    waker: Option<Waker>,
    polls: usize,
}

impl Source {
    fn of(items: impl IntoIterator<Item = u32>) -> Self {
        let source = Self::default();
        items.into_iter().for_each(|item| source.give(Some(item)));
        source
    }

    /// An item, or the end.
    fn give(&self, item: Option<u32>) {
        let mut given = self.0.lock().unwrap();
        given.items.push_back(item);
        given.waker.take().into_iter().for_each(Waker::wake);
    }

    fn polls(&self) -> usize {
        self.0.lock().unwrap().polls
    }

    fn left(&self) -> usize {
        self.0.lock().unwrap().items.len()
    }
}

impl Stream for Source {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<u32>> {
        let mut given = self.0.lock().unwrap();
        assert!(!given.has_ended, "polled after its end");
        given.polls += 1;
        let Some(item) = given.items.pop_front() else {
            given.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        given.has_ended = item.is_none();
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let items = self.0.lock().unwrap().items.iter().flatten().count();
        (items, Some(items))
    }
}

fn next<S: Stream + Unpin>(stream: &mut S, task: &Task) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut task.context())
}

#[test]
fn a_debounced_stream_gives_the_last_item_when_it_is_quiet() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of([1, 2]));
    let mut stream = timers.debounce(10 * MS, source.clone());
    assert_eq!(stream.size_hint(), (1, Some(2)));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    for item in 3..10 {
        clock.advance(9 * MS);
        source.give(Some(item));
        assert_eq!(next(&mut stream, &task), Poll::Pending);
    }
    assert_eq!(stream.size_hint(), (1, Some(1)));
    let woken = task.woken();
    clock.advance(9 * MS);
    assert_eq!(
        (task.woken(), next(&mut stream, &task)),
        (woken, Poll::Pending)
    );
    clock.advance(MS);
    assert_eq!(task.woken(), woken + 1);
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(9)));
    // Once, and then nothing until the next item.
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(100 * MS);
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    source.give(Some(10));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(10 * MS);
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(10)));
    assert_eq!(timers.handle().len(), 0);
}

#[test]
fn a_debounced_stream_gives_its_last_item_at_its_end() {
    let (timers, _clock) = manual();
    let (task, source) = (Task::new(), Source::of([1, 2]));
    let mut stream = timers.debounce(10 * MS, source.clone());
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    source.give(Some(3));
    source.give(None);
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(3)));
    assert!(stream.is_terminated());
    assert_eq!(next(&mut stream, &task), Poll::Ready(None));
    assert_eq!(next(&mut stream, &task), Poll::Ready(None));
    drop(stream);
    assert!(timers.handle().is_empty());
    // An empty one.
    let source = Source::of([]);
    source.give(None);
    let mut stream = timers.debounce(10 * MS, source);
    assert_eq!(next(&mut stream, &task), Poll::Ready(None));
    assert_eq!(stream.size_hint(), (0, Some(0)));
}

#[test]
fn a_debounced_stream_that_is_always_ready_yields() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of(0..600));
    let mut stream = timers.debounce(10 * MS, source.clone());
    for left in [600 - 256, 600 - 512, 0] {
        assert_eq!(next(&mut stream, &task), Poll::Pending);
        assert_eq!(source.left(), left);
    }
    assert_eq!(task.woken(), 2, "it asks to be polled again");
    clock.advance(10 * MS);
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(599)));
    // Without a time, an item comes when no other one is there.
    let mut stream = timers.debounce(Duration::ZERO, Source::of([1, 2]));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(2)));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
}

#[test]
fn a_late_item_is_told_once_and_comes_all_the_same() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of([1]));
    let mut stream = timers.stream_timeout(10 * MS, source.clone());
    assert_eq!(stream.size_hint(), (1, Some(3)));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(Ok(1))));
    assert_eq!(armed(&timers), 0, "an item that is there costs no timer");
    for item in 2..5 {
        assert_eq!(next(&mut stream, &task), Poll::Pending);
        let woken = task.woken();
        clock.advance(9 * MS);
        assert_eq!(
            (task.woken(), next(&mut stream, &task)),
            (woken, Poll::Pending)
        );
        clock.advance(MS);
        assert_eq!(task.woken(), woken + 1);
        assert!(matches!(
            next(&mut stream, &task),
            Poll::Ready(Some(Err(_)))
        ));
        assert_eq!(next(&mut stream, &task), Poll::Pending);
        clock.advance(1_000 * MS);
        assert_eq!(
            (task.woken(), next(&mut stream, &task)),
            (woken + 1, Poll::Pending)
        );
        source.give(Some(item));
        assert_eq!(task.woken(), woken + 2);
        assert_eq!(next(&mut stream, &task), Poll::Ready(Some(Ok(item))));
    }
    // So may the end be late.
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(10 * MS);
    assert!(matches!(
        next(&mut stream, &task),
        Poll::Ready(Some(Err(_)))
    ));
    source.give(None);
    for _ in 0..3 {
        assert!(!stream.is_terminated() || stream.size_hint() == (0, Some(0)));
        assert_eq!(next(&mut stream, &task), Poll::Ready(None));
    }
    assert!(stream.is_terminated() && timers.handle().is_empty());
}

#[test]
fn an_item_that_is_there_wins_and_the_next_has_the_whole_delay() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::default());
    let mut stream = timers.stream_timeout(10 * MS, source.clone());
    // The delay counts from the start, though nobody has polled.
    clock.advance(4 * MS);
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(6 * MS);
    assert_eq!(task.woken(), 1);
    source.give(Some(1));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(Ok(1))));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(6 * MS);
    source.give(Some(2));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(Ok(2))));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    let woken = task.woken();
    clock.advance(9 * MS);
    assert_eq!(
        (task.woken(), next(&mut stream, &task)),
        (woken, Poll::Pending)
    );
    clock.advance(MS);
    assert!(matches!(
        next(&mut stream, &task),
        Poll::Ready(Some(Err(_)))
    ));
    // The end comes with a timer armed: it is cancelled.
    source.give(Some(3));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(Ok(3))));
    assert_eq!(
        (next(&mut stream, &task), timers.handle().len()),
        (Poll::Pending, 1)
    );
    source.give(None);
    assert_eq!(
        (next(&mut stream, &task), timers.handle().len()),
        (Poll::Ready(None), 0)
    );
    drop(source);
    assert_eq!(Arc::strong_count(&task.count), 2);
}

#[test]
fn a_throttle_pauses_after_each_item() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of(1..=4));
    let mut stream = timers.throttle(10 * MS, source.clone());
    for item in 1..=4 {
        assert_eq!(next(&mut stream, &task), Poll::Ready(Some(item)));
        let (polls, woken) = (source.polls(), task.woken());
        assert_eq!(next(&mut stream, &task), Poll::Pending);
        clock.advance(9 * MS);
        assert_eq!(
            (next(&mut stream, &task), task.woken()),
            (Poll::Pending, woken)
        );
        assert_eq!(source.polls(), polls, "what waits, waits in the stream");
        clock.advance(MS);
        assert_eq!(task.woken(), woken + 1);
    }
    // The pause is over, and nothing is there: the item comes when it comes.
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    assert!(timers.handle().is_empty());
    clock.advance(100 * MS);
    source.give(Some(5));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(5)));
    source.give(None);
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    clock.advance(10 * MS);
    for _ in 0..3 {
        assert_eq!(next(&mut stream, &task), Poll::Ready(None));
        assert!(stream.is_terminated() && stream.size_hint() == (0, Some(0)));
    }
    assert!(timers.handle().is_empty());
    // No delay, no pause.
    let mut stream = timers.throttle(Duration::ZERO, Source::of(0..1_000));
    for item in 0..1_000 {
        assert_eq!(next(&mut stream, &task), Poll::Ready(Some(item)));
    }
}

#[test]
fn a_chunk_comes_when_it_is_full_or_old_or_the_last() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of(1..=7));
    let mut stream = timers.chunks_timeout(3, 10 * MS, source.clone());
    assert_eq!(stream.size_hint(), (3, Some(7)));
    for chunk in [[1, 2, 3], [4, 5, 6]] {
        assert_eq!(next(&mut stream, &task), Poll::Ready(Some(chunk.to_vec())));
    }
    assert_eq!(
        armed(&timers),
        0,
        "a chunk that is full at once costs no timer"
    );
    // The delay counts from the first item, not from the last one.
    assert_eq!(
        (next(&mut stream, &task), stream.size_hint()),
        (Poll::Pending, (1, Some(1)))
    );
    clock.advance(6 * MS);
    source.give(Some(8));
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    let woken = task.woken();
    clock.advance(3 * MS);
    assert_eq!(
        (task.woken(), next(&mut stream, &task)),
        (woken, Poll::Pending)
    );
    clock.advance(MS);
    assert_eq!(task.woken(), woken + 1);
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(vec![7, 8])));
    // No item, no chunk, no timer.
    assert_eq!(
        (next(&mut stream, &task), timers.handle().len()),
        (Poll::Pending, 0)
    );
    clock.advance(1_000 * MS);
    assert_eq!(
        (next(&mut stream, &task), task.woken()),
        (Poll::Pending, woken + 1)
    );
    // It is full while it waits.
    source.give(Some(9));
    assert_eq!(
        (next(&mut stream, &task), timers.handle().len()),
        (Poll::Pending, 1)
    );
    (10..=12).for_each(|item| source.give(Some(item)));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(vec![9, 10, 11])));
    assert_eq!(timers.handle().len(), 0);
    // The end comes with the last chunk.
    assert_eq!(next(&mut stream, &task), Poll::Pending);
    source.give(None);
    assert!(!stream.is_terminated());
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(vec![12])));
    for _ in 0..3 {
        assert!(stream.is_terminated() && stream.size_hint() == (0, Some(0)));
        assert_eq!(next(&mut stream, &task), Poll::Ready(None));
    }
    assert!(timers.handle().is_empty());
    // A stream without items has no chunk.
    let empty = Source::default();
    empty.give(None);
    let mut stream = timers.chunks_timeout(3, 10 * MS, empty);
    assert_eq!(next(&mut stream, &task), Poll::Ready(None));
}

#[test]
fn a_chunk_of_nothing_is_one_and_a_long_one_yields() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut stream = timers.chunks_timeout(0, MS, Source::of([1, 2]));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(vec![1])));
    assert_eq!(next(&mut stream, &task), Poll::Ready(Some(vec![2])));
    // Others run meanwhile, and time passes though the stream never waits.
    let source = Source::of(0..1_000_000);
    let mut stream = timers.chunks_timeout(usize::MAX, 10 * MS, source.clone());
    let mut polls = 0;
    let chunk = loop {
        let before = source.left();
        match next(&mut stream, &task) {
            Poll::Ready(chunk) => break chunk.unwrap(),
            Poll::Pending => clock.advance(MS),
        }
        polls += 1;
        assert!(before - source.left() <= 256 && task.woken() >= polls);
    };
    assert_eq!((polls, chunk.len()), (10, 11 * 256));
    assert!(chunk.iter().copied().eq(0..11 * 256));
}

#[test]
fn what_is_dropped_hands_nothing_out_and_leaves_nothing_behind() {
    let (timers, clock) = manual();
    let (task, source) = (Task::new(), Source::of([1, 2]));
    let mut chunks = timers.chunks_timeout(3, 10 * MS, source.clone());
    let mut throttle = timers.throttle(10 * MS, Source::of([1, 2]));
    let mut timeout = timers.stream_timeout(10 * MS, Source::default());
    assert!(next(&mut chunks, &task).is_pending() && next(&mut timeout, &task).is_pending());
    assert!(next(&mut throttle, &task).is_ready() && next(&mut throttle, &task).is_pending());
    assert_eq!(timers.handle().len(), 3);
    // What a stream has still, and what was gathered.
    assert_eq!(throttle.into_inner().left(), 1);
    assert_eq!(timeout.into_inner().left(), 0);
    let (inner, gathered) = chunks.into_parts();
    assert_eq!((inner.left(), gathered), (0, vec![1, 2]));
    assert!(timers.handle().is_empty());
    let mut chunks = timers.chunks_timeout(3, 10 * MS, source.clone());
    source.give(Some(3));
    assert!(next(&mut chunks, &task).is_pending());
    drop((chunks, inner, source));
    clock.advance(100 * MS);
    // By the source, when it got an item.
    assert_eq!((task.woken(), Arc::strong_count(&task.count)), (1, 2));
}

#[test]
fn streams_have_the_calls_with_the_shared_service() {
    futures_lite::future::block_on(async {
        use futures_lite::{StreamExt as _, stream};
        let hour = Duration::from_secs(3_600);
        let chunks = stream::iter(0..10).throttle(MS).timeout(hour);
        let chunks = chunks.map(Result::unwrap).chunks_timeout(4, hour);
        let chunks: Vec<Vec<u32>> = chunks.collect().await;
        assert_eq!(chunks.concat(), Vec::from_iter(0..10));
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
    });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Give(u8),
    Advance(u64),
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u8..6).prop_map(Step::Give),
        3 => (0u64..8_000).prop_map(Step::Advance),
        4 => Just(Step::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// All three on top of each other, polled when the task is woken, and for no reason.
    #[test]
    fn no_item_is_lost(steps in prop::collection::vec(step(), 1..150), max in 1usize..6) {
        let (timers, clock) = manual();
        let (task, source) = (Task::new(), Source::default());
        let throttled = timers.throttle(2 * MS, source.clone());
        let chunks = timers.chunks_timeout(max, 7 * MS, throttled);
        let mut stream = timers.stream_timeout(5 * MS, chunks);
        let (mut given, mut came, mut was_late) = (0, Vec::new(), false);
        let mut poll = |came: &mut Vec<u32>| {
            let polled = next(&mut stream, &task);
            match &polled {
                Poll::Ready(Some(Ok(chunk))) => {
                    assert!((1..=max).contains(&chunk.len()));
                    came.extend(chunk);
                    was_late = false;
                }
                Poll::Ready(Some(Err(_))) => {
                    assert!(!was_late, "told twice");
                    was_late = true;
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            polled
        };
        let mut polls_until_pending = |came: &mut Vec<u32>| {
            loop {
                match poll(came) {
                    Poll::Pending => break false,
                    Poll::Ready(None) => break true,
                    Poll::Ready(Some(_)) => {}
                }
            }
        };
        for step in steps {
            match step {
                Step::Give(items) => (0..items).for_each(|_| {
                    source.give(Some(given));
                    given += 1;
                }),
                Step::Advance(time) => clock.advance(Duration::from_micros(time)),
                Step::Poll => _ = polls_until_pending(&mut came),
            }
            prop_assert!(timers.handle().len() <= 3);
        }
        source.give(None);
        // From here on the task polls only when it is woken.
        let mut woken = usize::MAX;
        loop {
            if task.woken() != woken {
                woken = task.woken();
                if polls_until_pending(&mut came) {
                    break;
                }
            } else {
                prop_assert!(clock.advance_to_next().is_some(), "nobody wakes the task");
            }
        }
        prop_assert!(came.iter().copied().eq(0..given));
        prop_assert!(timers.handle().is_empty());
    }
}
