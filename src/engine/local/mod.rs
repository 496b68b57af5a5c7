//! Local: the part of a service that one thread has for itself.
//!
//! Its magazines, its lane to each shard, its tallies, its pins and its clock reading. With
//! them the calls of a thread touch no cache line that another thread writes. `thread_local.rs`
//! makes and finds it.
//!
//! Ground rules:
//!
//! - Its thread alone uses a local.
//! - No user code runs while a local is borrowed.

mod links;
pub(super) mod pressure;
pub(super) mod shared_clock;
pub(crate) mod thread_local;

use crate::cell::{Magazines, Pinner};
use crate::counters::Own;
use crate::engine::figures::lateness::Histogram;
use crate::engine::figures::tally::{Event, Tally};
use crate::engine::shared::Shared;
use crate::entry::Entry;
use crate::lane::{Backlog, Sender, Sent};
use crate::time::Anchor;
use links::Links;
use shared_clock::SharedClock;
use std::mem::ManuallyDrop;
use std::sync::Arc;

pub(crate) struct Local {
    /// The shard to which this thread's timers go. `NO_HOME` until the thread arms a timer: threads
    /// that only fire timers are not distributed over the shards.
    home: usize,
    pub(crate) anchor: Anchor,
    shared_clock: SharedClock,
    /// Taken when the local is dropped.
    pub(crate) magazines: ManuallyDrop<Magazines>,
    pub(crate) pinner: Pinner,
    /// The link to the home shard, made on first use. It has a field of its own, so that no call
    /// waits for a timer's cell to say which shard the timer has: see `link_to`.
    home_link: Option<ShardLink>,
    /// The links to the other shards.
    links: Links<ShardLink>,
    /// `None` until this thread has claimed due entries.
    lateness: Option<Own<Histogram>>,
    pub(super) shared: Arc<Shared>,
    /// It is for one call.
    pub(super) is_temporary: bool,
}

/// What a thread has for one shard.
struct ShardLink {
    /// Its lane, made when it first sends a message.
    lane: Option<Sender<Entry>>,
    tally: Own<Tally>,
}

/// A tick that wakes a shard in whatever sleep.
const NOW: u64 = 0;

const NO_HOME: usize = usize::MAX;

impl Local {
    /// A local for the calling thread.
    pub(crate) fn attach(shared: &Arc<Shared>) -> Self {
        Self {
            home: if shared.shards() == 1 { 0 } else { NO_HOME },
            anchor: Anchor::default(),
            shared_clock: SharedClock::default(),
            magazines: ManuallyDrop::new(Magazines::new(shared.depot())),
            pinner: shared.pins().register(),
            home_link: None,
            links: Links::new(shared.shards()),
            lateness: None,
            shared: shared.clone(),
            is_temporary: false,
        }
    }

    /// The shard to which this thread's timers go.
    #[inline]
    pub(crate) fn home(&mut self) -> usize {
        if self.home == NO_HOME {
            self.find_home();
        }
        self.home
    }

    #[cold]
    #[inline(never)]
    fn find_home(&mut self) {
        self.home = self.shared.next_home();
        self.home_link = self.links.take(self.home);
    }

    /// The date that the next timer for the home shard may share. `None`: read the clock.
    #[inline]
    pub(super) fn shared_date(&mut self) -> Option<u64> {
        if !self.shared_clock.is_shared() {
            return None;
        }
        let Some(ShardLink {
            lane: Some(lane), ..
        }) = &self.home_link
        else {
            return None;
        };
        self.shared_clock.date(lane, self.shared.bell(self.home))
    }

    /// Notes a reading of the clock for a timer, which has been sent.
    #[inline]
    pub(super) fn note_reading(&mut self, now_ns: u64, slack_ns: u64) {
        self.shared_clock
            .note(now_ns, slack_ns, || self.home_link.as_mut()?.lane.as_mut());
    }

    /// ShareSend. Sends the insert of a timer that shares the date to the home shard, and counts
    /// it.
    #[inline]
    pub(super) fn send_in_doubt(&mut self, insert: Entry, rounded_ns: u64) -> Sent {
        match &mut self.home_link {
            Some(ShardLink {
                lane: Some(lane),
                tally,
            }) => {
                tally.add(Event::Armed, 1);
                let key = insert.deadline();
                lane.push_in_doubt(insert, key, self.shared_clock.take(rounded_ns))
            }
            _ => unreachable!("the date came by this lane"),
        }
    }

    /// Sends a message to a shard, by the express track. Returns where the message lies, and the
    /// backlog.
    ///
    /// So are sent tombstones, and the inserts of timers that were filed before: of a move, and of
    /// a periodic timer's next run. Such an insert would wait in vain: its cancel does not know
    /// where it lies, and a periodic timer's next run seldom has one.
    // (Never: a move to a later deadline, which sends nothing, would have fewer registers.)
    #[inline(never)]
    pub(crate) fn send(&mut self, shard: usize, message: Entry) -> Sent {
        match self.link_to(shard) {
            Some(ShardLink {
                lane: Some(lane), ..
            }) => lane.push(message),
            _ => self.send_first(shard, message),
        }
    }

    /// Sends an insert, and counts its event.
    // (`always`: an arm would call it otherwise, which takes 8 instructions more.)
    #[inline(always)]
    pub(super) fn send_counted(&mut self, shard: usize, message: Entry, event: Event) -> Sent {
        match self.link_to(shard) {
            Some(ShardLink {
                lane: Some(lane),
                tally,
            }) => {
                tally.add(event, 1);
                lane.push_by_key(message, message.deadline())
            }
            _ => self.send_first_counted(shard, message, event),
        }
    }

    /// Recalls an insert that this thread sent lately, or sends its tombstone. Counts the event.
    /// Gives `f` the backlog, if it is known. (What is returned would be looked at in any case.)
    // (`always`, as above.)
    #[inline(always)]
    pub(super) fn unsend_counted(
        &mut self,
        shard: usize,
        position: u32,
        insert: Entry,
        event: Event,
        f: impl FnOnce(Backlog),
    ) {
        match self.link_to(shard) {
            Some(ShardLink {
                lane: Some(lane),
                tally,
            }) => {
                tally.add(event, 1);
                if !lane.recall(position, insert) {
                    lane.push_or_tell(insert.tombstone(), f);
                }
            }
            _ => f(self
                .send_first_counted(shard, insert.tombstone(), event)
                .backlog),
        }
    }

    #[cold]
    #[inline(never)]
    fn send_first(&mut self, shard: usize, message: Entry) -> Sent {
        let lane = self.shared.inbox(shard).attach();
        self.link(shard).lane.insert(lane).push(message)
    }

    #[cold]
    #[inline(never)]
    fn send_first_counted(&mut self, shard: usize, message: Entry, event: Event) -> Sent {
        self.count(shard, event, 1);
        self.send_first(shard, message)
    }

    /// Counts an event of a shard's timers.
    #[inline]
    pub(crate) fn count(&mut self, shard: usize, event: Event, timers: u64) {
        match self.link_to(shard) {
            Some(link) => link.tally.add(event, timers),
            None => self.link(shard).tally.add(event, timers),
        }
    }

    /// The link to a shard, if there is one.
    ///
    /// A branch for the home shard, in place of an index: the shard of a timer comes from its cell,
    /// which may be a cache miss away. The caller then stores into the link. With an index, the
    /// address of that store would wait for the cell. Some processors let no load pass a store
    /// whose address is unknown, so all later loads would wait, and with them the next call. A
    /// branch is predicted, and does not wait.
    #[inline]
    fn link_to(&mut self, shard: usize) -> Option<&mut ShardLink> {
        if shard == self.home {
            self.home_link.as_mut()
        } else {
            self.links.get(shard)
        }
    }

    #[cold]
    fn link(&mut self, shard: usize) -> &mut ShardLink {
        if self.link_to(shard).is_none() {
            let link = ShardLink {
                lane: None,
                tally: self.shared.tallies(shard).attach(),
            };
            if shard == self.home {
                self.home_link = Some(link);
            } else {
                self.links.insert(shard, link);
            }
        }
        self.link_to(shard).expect("it was made")
    }

    /// Gives `f` the local and this thread's histogram.
    #[inline]
    pub(super) fn with_lateness<R>(&mut self, f: impl FnOnce(&mut Self, &Histogram) -> R) -> R {
        let lateness = self
            .lateness
            .take()
            .unwrap_or_else(|| self.shared.lateness().attach());
        let result = f(self, &lateness);
        self.lateness = Some(lateness);
        result
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let magazines = unsafe { ManuallyDrop::take(&mut self.magazines) };
        magazines.give_back(self.shared.depot());
        let shared = &self.shared;
        let give_up = |shard, link| {
            drop::<ShardLink>(link);
            if shared.inbox(shard).wants_ring() {
                shared.bell(shard).ring(NOW);
            }
        };
        if let Some(link) = self.home_link.take() {
            give_up(self.home, link);
        }
        self.links.take_all(give_up);
    }
}
