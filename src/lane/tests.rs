//! One track, used by one thread.

use super::consumer::{Arrival, Drained};
use super::producer::Producer;
use super::segment::{LEN, RECENT};
use super::slab::free;
use super::track::Track;
use crate::sync::Ordering;

/// Bits of a number that a position has here.
const BITS: u32 = 23;

const SEGMENT: u64 = LEN as u64;

struct Fixture {
    track: Box<Track<u64>>,
    producer: Producer<u64>,
    sent: u64,
    came: u64,
}

impl Fixture {
    fn new() -> Self {
        let track = Box::new(Track::new());
        Self {
            producer: Producer::new(&raw const *track),
            track,
            sent: 0,
            came: 0,
        }
    }

    /// Sends messages. What the last push said.
    fn send(&mut self, messages: u64) -> u64 {
        let mut waiting = 0;
        for _ in 0..messages {
            // SAFETY: the lane is alive.
            let sent = unsafe { self.producer.push(self.sent) };
            assert_eq!(u64::from(sent.number), self.sent);
            self.sent += 1;
            waiting = sent.waiting;
            assert!(
                waiting == 0 || self.sent.is_multiple_of(SEGMENT),
                "said at the end of a segment"
            );
        }
        waiting
    }

    fn recall(&mut self, position: u64, message: u64) -> bool {
        // SAFETY: the lane is alive.
        unsafe { self.producer.recall(position as u32, BITS, message) }
    }

    fn claim(&mut self, may_recall: bool) {
        // SAFETY: there is one thread.
        unsafe { self.track.load() };
        // SAFETY: as above.
        let (end, _) = unsafe { self.track.next_claim(u64::MAX / 2) };
        // SAFETY: as above.
        unsafe { self.track.claim(end, may_recall) };
    }

    /// What is claimed: the messages that come, and how many were recalled.
    fn read(&mut self) -> (Vec<u64>, u64) {
        let mut came = Vec::new();
        // SAFETY: there is one thread.
        let drained = unsafe {
            self.track
                .read(&mut |_, message, _| came.push(message), false)
        };
        assert_eq!(drained.messages, came.len() as u64 + drained.recalled);
        (came, drained.recalled)
    }

    fn drain(&mut self) -> u64 {
        self.claim(false);
        let came = &mut self.came;
        let mut next = |number, message, arrival| {
            assert_eq!((number, message, arrival), (*came, *came, Arrival::Came));
            *came += 1;
        };
        // SAFETY: there is one thread.
        let Drained {
            messages: drained,
            recalled,
            ..
        } = unsafe { self.track.read(&mut next, false) };
        assert_eq!((self.came, recalled), (self.sent, 0));
        // SAFETY: as above.
        assert!(!unsafe { self.track.has_messages() });
        drained
    }

    fn segments(&self) -> usize {
        segments(&self.track)
    }
}

/// Segments of a track. The tests of this room have one thread.
pub(super) fn segments<M>(track: &Track<M>) -> usize {
    let mut segment = track.chain.with(|chain| {
        // SAFETY: there is one thread.
        unsafe { (*chain).oldest }
    });
    if segment.is_null() {
        // SAFETY: as above.
        segment = track.first.with(|first| unsafe { *first });
    }
    let mut segments = 0;
    while !segment.is_null() {
        segments += 1;
        // SAFETY: the chain's segments are alive.
        segment = unsafe { &*segment }.next.with(|next| unsafe { *next });
    }
    segments
}

#[test]
fn messages_come_once_and_in_order() {
    let mut fixture = Fixture::new();
    for messages in [1, 5, SEGMENT - 6, 1, SEGMENT, 3 * SEGMENT + 7, 2] {
        fixture.send(messages);
        assert_eq!(fixture.track.depth(), messages);
        // SAFETY: there is one thread.
        assert!(unsafe { fixture.track.has_messages() });
        assert_eq!(
            (fixture.drain(), fixture.track.depth(), fixture.drain()),
            (messages, 0, 0)
        );
    }
}

#[test]
fn a_full_segment_tells_how_many_wait() {
    let mut fixture = Fixture::new();
    assert_eq!(
        (
            fixture.send(SEGMENT - 1),
            fixture.send(1),
            fixture.send(SEGMENT)
        ),
        (0, SEGMENT, 2 * SEGMENT)
    );
    fixture.drain();
    assert_eq!((fixture.send(7), fixture.send(SEGMENT - 7)), (0, SEGMENT));
}

/// The shard has to be beyond a segment. It comes back to a segment that it has read to the end,
/// for `next`.
#[test]
fn segments_are_used_again_when_the_shard_has_gone_beyond_them() {
    let mut fixture = Fixture::new();
    fixture.send(SEGMENT);
    fixture.drain();
    assert_eq!(
        (fixture.track.take_oldest(1, u64::MAX), fixture.segments()),
        (None, 1)
    );
    fixture.send(1);
    assert_eq!(
        (fixture.track.take_oldest(1, u64::MAX), fixture.segments()),
        (None, 2)
    );
    fixture.drain();
    for _ in 0..5 {
        fixture.send(SEGMENT);
        fixture.drain();
        assert_eq!(fixture.segments(), 2, "one to write, one that waits");
    }
    fixture.send(4 * SEGMENT);
    assert_eq!(fixture.segments(), 5);
    fixture.track.trim(RECENT as u64);
    assert_eq!(fixture.segments(), 5, "nothing was read");
    fixture.drain();
    fixture.track.trim(RECENT as u64);
    assert_eq!(
        fixture.segments(),
        RECENT,
        "the producer may vouch for messages of the newest"
    );
    fixture.send(10 * SEGMENT);
    fixture.drain();
    fixture.track.trim(RECENT as u64);
    assert_eq!(fixture.segments(), RECENT);
    fixture.send(10);
    assert_eq!(fixture.drain(), 10);
}

/// Doubts, as a drain tells them: a message, and its word or a lesser one.
fn doubts(fixture: &mut Fixture) -> Vec<(u64, u64)> {
    let mut doubts = Vec::new();
    fixture.claim(false);
    let mut doubtful = |_, message, arrival| match arrival {
        Arrival::InDoubt(word) => doubts.push((message, word)),
        _ => assert_eq!(arrival, Arrival::Came),
    };
    // SAFETY: there is one thread.
    unsafe { fixture.track.read(&mut doubtful, false) };
    doubts
}

/// Sets of ten messages, of which a third is in doubt. A call vouches for the set before, or not.
#[test]
fn what_is_in_doubt_comes_with_a_word() {
    const SETS: u64 = 5 * SEGMENT / 10;
    let mut fixture = Fixture::new();
    let mut round = |vouched: &[u64]| {
        let first = fixture.sent;
        let is_vouched = |set: u64| vouched.contains(&(set % 4));
        for set in 0..SETS {
            // SAFETY: the lane is alive.
            let settled = unsafe { fixture.producer.settle_doubts(is_vouched(set)) };
            assert_eq!(settled, set > 0);
            for message in fixture.sent..fixture.sent + 10 {
                let producer = &mut fixture.producer;
                // SAFETY: the lane is alive.
                let push_in_doubt = |producer: &mut Producer<u64>| unsafe {
                    producer.push_in_doubt(message, 1_000 + message)
                };
                // SAFETY: as above.
                let push = |producer: &mut Producer<u64>| unsafe { producer.push(message) };
                let sent = if message.is_multiple_of(3) {
                    push_in_doubt(producer)
                } else {
                    push(producer)
                };
                assert_eq!(u64::from(sent.number), message);
            }
            fixture.sent += 10;
        }
        let doubts = doubts(&mut fixture);
        let is_doubted = |message: u64| {
            let next = (message - first) / 10 + 1;
            message.is_multiple_of(3) && (next == SETS || !is_vouched(next))
        };
        assert!(
            doubts
                .iter()
                .map(|&(message, _)| message)
                .eq((first..fixture.sent).filter(|&message| is_doubted(message)))
        );
        for (message, word) in doubts {
            let around = (message / 64 * 64).max(first)..=message;
            assert!(
                around.contains(&(word - 1_000)),
                "message {message} with {word}"
            );
        }
    };
    [&[][..], &[0, 1, 2, 3], &[1], &[0, 2], &[]]
        .into_iter()
        .for_each(&mut round);
    assert!(fixture.segments() <= 7, "they are used again");
}

#[test]
fn the_word_of_what_was_read_is_not_heard_again() {
    let mut fixture = Fixture::new();
    // Beyond the first group, and in the last place of one.
    for (before, word) in [(0, 10), (70, 20), (57, 30), (63, 40), (1, 50)] {
        fixture.send(before);
        assert_eq!(doubts(&mut fixture), []);
        // SAFETY: the lane is alive.
        assert!(!unsafe { fixture.producer.settle_doubts(false) });
        // SAFETY: as above.
        unsafe { fixture.producer.push_in_doubt(fixture.sent, word) };
        fixture.sent += 1;
        assert_eq!(doubts(&mut fixture), [(fixture.sent - 1, word)]);
    }
}

#[test]
fn what_was_recalled_does_not_come() {
    let mut fixture = Fixture::new();
    fixture.claim(true);
    let sent = 3 * SEGMENT + 70;
    fixture.send(sent);
    // Alone, beside each other, at the ends of words and segments, and the last.
    let recalled = [
        0,
        1,
        5,
        62,
        63,
        64,
        128,
        SEGMENT - 1,
        SEGMENT,
        SEGMENT + 63,
        2 * SEGMENT - 1,
        3 * SEGMENT,
        sent - 1,
    ];
    assert!(
        recalled
            .iter()
            .all(|&message| fixture.recall(message, message))
    );
    assert!(fixture.recall(5, 5), "a second time: as before");
    fixture.claim(true);
    let (came, count) = fixture.read();
    assert!(
        came.iter()
            .copied()
            .eq((0..sent).filter(|message| !recalled.contains(message)))
    );
    assert_eq!(count, recalled.len() as u64);
    // A whole word, in segments that are used again: nothing is left of their bits.
    for _ in 0..5 {
        let first = fixture.sent;
        fixture.send(SEGMENT);
        assert!((first + 100..first + 200).all(|message| fixture.recall(message, message)));
        fixture.claim(true);
        let (came, count) = fixture.read();
        assert!(
            came.into_iter()
                .eq((first..first + 100).chain(first + 200..first + SEGMENT))
        );
        assert_eq!(count, 100);
    }
}

/// Neither trim nor the producer takes its segment away meanwhile.
#[test]
fn what_is_recalled_during_its_claim_is_left_to_the_shard() {
    let mut fixture = Fixture::new();
    let settle = |fixture: &Fixture| {
        let mut late = None;
        // SAFETY: there is one thread.
        unsafe { fixture.track.settle(|message| late = Some(message)) };
        late
    };
    fixture.claim(true);
    fixture.send(4);
    fixture.claim(true);
    assert_eq!(settle(&fixture), None);
    // As if the claim had come between RecallMark and RecallConfirm, and the shard had read the
    // messages before RecallMark, or before RecallConfirm.
    assert!(
        fixture.producer.leave_to_shard(1) && !fixture.producer.leave_to_shard(2),
        "one at a time"
    );
    assert_eq!(fixture.read(), (vec![0, 1, 2, 3], 0));
    let segments = RECENT as u64 + 5;
    fixture.send(segments * SEGMENT);
    fixture.claim(true);
    assert_eq!(fixture.read().0.len() as u64, segments * SEGMENT);
    fixture.track.trim(RECENT as u64);
    fixture.send(2 * SEGMENT);
    assert_eq!(
        fixture.segments() as u64,
        segments + 3,
        "none was freed, or used again"
    );
    assert_eq!((settle(&fixture), settle(&fixture)), (Some(1), None));
    fixture.claim(true);
    fixture.read();
    fixture.track.trim(RECENT as u64);
    assert_eq!(fixture.segments(), RECENT);
    let message = fixture.sent;
    fixture.send(1);
    assert!(fixture.recall(message, message));
    fixture.claim(true);
    assert!(fixture.producer.leave_to_shard(message));
    assert_eq!(fixture.read(), (vec![], 1));
    assert_eq!(settle(&fixture), None, "it did not come");
}

#[test]
fn only_what_is_there_and_not_claimed_is_recalled() {
    let mut fixture = Fixture::new();
    fixture.send(3);
    assert!(
        !fixture.recall(2, 2),
        "the shard does not let messages be recalled"
    );
    fixture.claim(true);
    fixture.send(3);
    assert!(
        !fixture.recall(2, 2) && fixture.recall(3, 3),
        "three are claimed"
    );
    assert!(
        !fixture.recall(4, 5) && !fixture.recall(6, 6),
        "another message, and none"
    );
    // A position is the end of a number.
    assert!(!fixture.recall(1 << 20, 5) && fixture.recall((1 << BITS) + 5, 5));
    fixture.claim(false);
    assert_eq!(fixture.read(), (vec![0, 1, 2, 4], 2));
    fixture.send(1);
    assert!(
        !fixture.recall(6, 6),
        "the shard does not let them any more"
    );
    fixture.claim(true);
    assert_eq!(fixture.read(), (vec![6], 0));
    // However many there are.
    let first = fixture.sent;
    fixture.send(100 * SEGMENT);
    assert!(
        fixture.recall(first, first) && fixture.recall(first + 50 * SEGMENT, first + 50 * SEGMENT)
    );
    fixture.claim(true);
    assert_eq!(fixture.read().1, 2);
}

#[test]
fn one_at_a_time_is_at_the_chain() {
    let mut fixture = Fixture::new();
    fixture.send(SEGMENT + 1);
    fixture.drain();
    // Ordering: Relaxed. There is one thread.
    fixture.track.busy.store(true, Ordering::Relaxed);
    assert_eq!(fixture.track.take_oldest(1, u64::MAX), None);
    // Ordering: Relaxed. As above.
    fixture.track.busy.store(false, Ordering::Relaxed);
    let taken = fixture
        .track
        .take_oldest(1, u64::MAX)
        .expect("the shard is beyond it");
    // SAFETY: unlinked, so no other thread has it.
    unsafe { free(taken) };
    assert_eq!(fixture.segments(), 1);
    // Ordering: Relaxed. As above.
    assert!(
        !fixture.track.busy.load(Ordering::Relaxed),
        "the chain is free again"
    );
}
