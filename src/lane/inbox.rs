//! Inbox: a shard's set of lanes.
//!
//! Any thread attaches and gets a [`Sender`] of its own; the shard has the one [`Drain`]. It has
//! the steps attach, detach and DrainFence. Protocol and proof: README.md of this room.

use super::consumer::{Arrival, Drained};
use super::producer::{Producer, Sent};
use super::shared::Lane;
use crate::sync::{AtomicPtr, Fault, Ordering, Queue, broken, heavy_fence, ordering};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

/// The lanes of one shard: producers attach to it, its [`Drain`] empties it.
pub(crate) struct Inbox<M> {
    /// List of all lanes, newest first. A lane is never removed before the inbox is dropped.
    lanes: AtomicPtr<Lane<M>>,
    /// Producers whose threads have ended, for the next threads.
    free: Queue<Producer<M>>,
}

// SAFETY: each field of a lane is atomic or has one owner at a time (README.md), and messages are
// Send.
unsafe impl<M: Send> Send for Inbox<M> {}
// SAFETY: as above.
unsafe impl<M: Send> Sync for Inbox<M> {}

/// The one consumer of an inbox.
pub(crate) struct Drain<M> {
    inbox: Arc<Inbox<M>>,
    /// Whether the messages since the last drain may be recalled.
    may_recall: bool,
    /// Whether the messages after the next drain may be recalled.
    may_recall_next: bool,
    /// Not Sync: `has_messages` uses the lanes' readers through `&self`.
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

/// A thread's end of its lane. Dropping it leaves the lane to the next thread.
pub(crate) struct Sender<M: Copy> {
    /// Taken out when the sender is dropped.
    producer: ManuallyDrop<Producer<M>>,
    /// Keeps the lane alive.
    inbox: Arc<Inbox<M>>,
}

impl<M: Copy> Inbox<M> {
    pub(crate) fn new() -> (Arc<Self>, Drain<M>) {
        let inbox = Arc::new(Self {
            lanes: AtomicPtr::new(ptr::null_mut()),
            free: Queue::new(),
        });
        (
            inbox.clone(),
            Drain {
                inbox,
                may_recall: false,
                may_recall_next: false,
                _not_sync: PhantomData,
            },
        )
    }

    /// A lane for the calling thread: one that an earlier thread has left, or a new one.
    pub(crate) fn attach(self: &Arc<Self>) -> Sender<M> {
        let producer = self.free.pop().unwrap_or_else(|| self.add_lane());
        Sender {
            producer: ManuallyDrop::new(producer),
            inbox: self.clone(),
        }
    }

    fn add_lane(&self) -> Producer<M> {
        let (mut lane, segment) = Lane::new();
        let mut producer = Producer::new(segment);
        // Ordering: Relaxed. The compare-and-swap below confirms it before it is used.
        let mut first = self.lanes.load(Ordering::Relaxed);
        let lane = loop {
            lane.next = first;
            let raw = Box::into_raw(lane);
            // Ordering: Release. Pairs with the Acquire in `lanes`; publishes the lane.
            match self.lanes.compare_exchange(
                first,
                raw,
                ordering(Ordering::Release, Fault::LaneAttachRelaxed),
                Ordering::Relaxed,
            ) {
                Ok(_) => break raw,
                Err(now) => {
                    first = now;
                    // SAFETY: not published: still this thread's, from `into_raw` above.
                    lane = unsafe { Box::from_raw(raw) };
                }
            }
        };
        producer.lane = lane;
        producer
    }

    /// How many messages are in the lanes. For statistics: reads two words of each lane.
    pub(crate) fn depth(&self) -> u64
    where
        M: Copy,
    {
        self.lanes().map(Lane::depth).sum()
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane<M>> {
        // Ordering: Acquire. Pairs with the Release in `add_lane`; publishes the lane. In SleepLook
        // the SleepFence before it makes every lane visible whose producer has passed its
        // RingFence.
        let mut lane: *const Lane<M> = self.lanes.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: lanes live as long as the inbox, and `next` does not change after
            // publication.
            let this = unsafe { lane.as_ref() }?;
            lane = this.next;
            Some(this)
        })
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        // Ordering: Acquire. Pairs with the Release in `add_lane`.
        let mut lane: *const Lane<M> = self.lanes.load(Ordering::Acquire);
        while !lane.is_null() {
            // SAFETY: every `Sender` and the `Drain` hold the inbox, and this is `&mut self`: none
            // of them is left. Each lane came from a box.
            let owned = unsafe { Box::from_raw(lane.cast_mut()) };
            lane = owned.next;
        }
    }
}

impl<M: Copy> Drain<M> {
    /// Says whether the messages that come after the next drain may be recalled. If they may, the
    /// drain that finds them pays a heavy fence.
    pub(crate) fn let_recall(&mut self, may_recall: bool) {
        self.may_recall_next = may_recall;
    }

    /// Gives `f` every message that was published before the call and not recalled, in order of
    /// each lane. Before these it reports messages of an earlier drain that were recalled at that
    /// time. Calls `claimed` between the two, when it has claimed the new ones.
    pub(crate) fn drain(
        &mut self,
        claimed: impl FnOnce(),
        mut f: impl FnMut(M, Arrival),
    ) -> Drained {
        let mut settled = Drained::default();
        let mut late = |message| {
            settled.messages += 1;
            f(message, Arrival::Recalled);
        };
        // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
        self.inbox
            .lanes()
            .for_each(|lane| unsafe { lane.settle(&mut late) });
        if !self.has_messages() {
            return settled;
        }
        // SAFETY: as above.
        self.inbox
            .lanes()
            .for_each(|lane| unsafe { lane.claim(self.may_recall_next) });
        claimed();
        if std::mem::replace(&mut self.may_recall, self.may_recall_next)
            && !broken(Fault::LaneNoDrainFence)
        {
            // Ordering: full (DrainFence). Pairs with RecallFence in `Producer::recall`.
            heavy_fence();
        }
        self.inbox.lanes().fold(settled, |sum, lane| {
            // SAFETY: as above, and DrainFence. (A lane that was attached since has nothing
            // claimed.)
            let drained = unsafe { lane.drain(&mut f) };
            Drained {
                messages: sum.messages + drained.messages,
                recalled: sum.recalled + drained.recalled,
            }
        })
    }

    /// Whether a drain would find messages.
    pub(crate) fn has_messages(&self) -> bool {
        // SAFETY: there is one `Drain` for an inbox, and it is not Sync. No drain is running,
        // because that takes it mutably.
        self.inbox
            .lanes()
            .any(|lane| unsafe { lane.has_messages() })
    }

    /// Frees the segments that the lanes keep for reuse, except the newest of each lane.
    pub(crate) fn trim(&mut self) {
        self.inbox.lanes().for_each(Lane::trim);
    }
}

impl<M: Copy> Sender<M> {
    /// Sends a message. Returns where it lies; and at the end of a segment how many messages wait
    /// for the shard (else 0).
    #[inline]
    pub(crate) fn push(&mut self, message: M) -> Sent {
        // SAFETY: `inbox` keeps the lane alive.
        unsafe { self.producer.push(message) }
    }

    /// Settles the messages sent in doubt since the last call: if `vouched`, they are in doubt no
    /// more, unless the shard has drained them. Returns whether there are messages to drain.
    pub(crate) fn settle_doubts(&mut self, vouched: bool) -> bool {
        // SAFETY: as above.
        unsafe { self.producer.settle_doubts(vouched) }
    }

    /// Sends a message that is in doubt, as `push` does. The caller has called `settle_doubts`
    /// since other messages were drained. The shard gets the message with this word, or with a
    /// lesser one of another message in doubt.
    #[inline]
    pub(crate) fn push_in_doubt(&mut self, message: M, word: u64) -> Sent {
        // SAFETY: as above.
        unsafe { self.producer.push_in_doubt(message, word) }
    }

    /// How many messages of this lane the shard has drained. A hint.
    #[inline]
    pub(crate) fn drained(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.producer.drained() }
    }

    /// Recalls a message that was sent here lately, if the shard has not claimed it. `position` is
    /// a hint: a wrong one finds another message, or none. `true`: the shard does not get it, or
    /// gets it and then learns that it is recalled.
    #[inline]
    pub(crate) fn recall(&mut self, position: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        // SAFETY: as above.
        unsafe { self.producer.recall(position, message) }
    }
}

impl<M: Copy> Drop for Sender<M> {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used after.
        let producer = unsafe { ManuallyDrop::take(&mut self.producer) };
        self.inbox.free.push(producer);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::segments;
    use super::*;

    #[test]
    fn a_lane_goes_from_thread_to_thread() {
        let (inbox, mut drain) = Inbox::new();
        let mut first = inbox.attach();
        let mut second = inbox.attach();
        (0..300).for_each(|message| _ = first.push(message));
        second.push(1_000);
        assert_eq!(
            (inbox.depth(), inbox.lanes().count(), drain.has_messages()),
            (301, 2, true)
        );
        drop(first);
        let mut third = inbox.attach();
        third.push(300);
        assert_eq!((inbox.depth(), inbox.lanes().count()), (302, 2));
        let mut came = Vec::new();
        assert_eq!(
            drain.drain(|| (), |message, _| came.push(message)).messages,
            302
        );
        came.sort_unstable();
        assert!(came.into_iter().eq((0..=300).chain([1_000])));
        assert_eq!((inbox.depth(), drain.has_messages()), (0, false));
    }

    #[test]
    fn what_lanes_keep_is_given_back_when_asked_for() {
        let (inbox, mut drain) = Inbox::new();
        let mut lanes = [inbox.attach(), inbox.attach()];
        for lane in &mut lanes {
            (0..10_000).for_each(|message| _ = lane.push(message));
        }
        let segments = |inbox: &Inbox<i32>| inbox.lanes().map(segments).collect::<Vec<_>>();
        assert_eq!(drain.drain(|| (), |_, _| {}).messages, 20_000);
        assert!(segments(&inbox).iter().all(|&segments| segments > 30));
        drain.trim();
        assert_eq!(
            segments(&inbox),
            [8, 8],
            "in which messages might be recalled"
        );
    }

    #[test]
    fn messages_are_recalled_after_the_drain_that_follows() {
        let (inbox, mut drain) = Inbox::new();
        let mut lanes = [inbox.attach(), inbox.attach()];
        let mut round = |may_recall: bool| {
            drain.let_recall(may_recall);
            let recalled = lanes.each_mut().map(|lane| {
                let position = lane.push(1).position;
                lane.recall(position, 1)
            });
            assert!(recalled[0] == recalled[1]);
            let drained = drain.drain(
                || (),
                |message, arrival| {
                    assert!((message, arrival) == (1, Arrival::Came) && !recalled[0])
                },
            );
            assert_eq!(
                (drained.messages, drained.recalled),
                (2, if recalled[0] { 2 } else { 0 })
            );
            assert_eq!(drain.drain(|| (), |_, _| {}), Drained::default());
            recalled[0]
        };
        assert_eq!(
            [true, true, false, false, true, true].map(&mut round),
            [false, true, true, false, false, true]
        );
    }
}
