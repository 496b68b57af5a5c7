//! List: all lanes of an inbox.
//!
//! Any thread adds a lane. The shard walks the list in each drain, and takes out the lanes whose
//! threads have ended. Another thread that walks the list is counted meanwhile. The shard frees the
//! lanes that it has taken out once it has seen that no such thread is in the list. This file has
//! the steps EndUnlink to EndFree, and WalkEnter to WalkLeave. Protocol and proof: README.md of
//! this room.
//!
//! Ground rules:
//!
//! - Only the shard takes lanes out of the list, and only the shard frees them.
//! - Threads that walk the list do not wait, and the shard does not wait for them.

use super::pair::Lane;
use crate::sync::{
    AtomicPtr, AtomicUsize, Fault, Ordering, UnsafeCell, broken, heavy_fence_unless,
    light_fence_unless, ordering,
};
use std::marker::PhantomData;
use std::ptr;

/// The list, newest lane first.
pub(super) struct LaneList<M> {
    first: AtomicPtr<Lane<M>>,
    /// Threads that walk the list, beside the shard.
    walkers: AtomicUsize,
    /// Only the shard uses it. It lies here and not with the shard, because a walker may be in one
    /// of these lanes when the shard ends.
    ended: UnsafeCell<EndedLanes<M>>,
}

/// Lanes that are out of the list.
struct EndedLanes<M> {
    lanes: Vec<*mut Lane<M>>,
    /// No walker is in any of them any more.
    are_left: bool,
}

/// What is left of the lanes that are out of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedLeft {
    /// Nothing.
    None,
    /// Some that may be freed.
    Free,
    /// Some in which a walker may be.
    Walked,
}

impl<M> LaneList<M> {
    pub(super) fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
            walkers: AtomicUsize::new(0),
            ended: UnsafeCell::new(EndedLanes {
                lanes: Vec::new(),
                are_left: false,
            }),
        }
    }

    /// Puts a lane on the list. The lane lives until its producers are given up and the shard frees
    /// it.
    pub(super) fn add(&self, mut lane: Box<Lane<M>>) -> *const Lane<M> {
        // Ordering: Relaxed. The compare-and-swap below confirms it before it is used.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            lane.next = AtomicPtr::new(first);
            let raw = Box::into_raw(lane);
            // Ordering: Release. Pairs with the Acquire in `all`; publishes the lane. (The first
            // lane may have been freed, and another one may be first at the same address. Then that
            // one is the next lane, which is right.)
            match self.first.compare_exchange(
                first,
                raw,
                ordering(Ordering::Release, Fault::LaneAttachRelaxed),
                Ordering::Relaxed,
            ) {
                Ok(_) => return raw,
                Err(now) => {
                    first = now;
                    // SAFETY: not published: still this thread's, from `into_raw` above.
                    lane = unsafe { Box::from_raw(raw) };
                }
            }
        }
    }

    /// All lanes.
    ///
    /// # Safety
    /// The caller is the shard, and frees none while it has these; or no other thread has the list.
    pub(super) unsafe fn lanes(&self) -> Lanes<'_, M> {
        self.all()
    }

    fn all(&self) -> Lanes<'_, M> {
        // Ordering: Acquire. Pairs with the Release in `add`; publishes the lanes. The first lane
        // is taken out by a read-modify-write, too, so the release sequence that each `add` begins
        // goes on. In SleepLook the SleepFence before this makes every lane visible whose producer
        // has passed its RingFence.
        Lanes {
            next: self.first.load(Ordering::Acquire),
            _list: PhantomData,
        }
    }

    /// Gives `f` all lanes, on any thread (WalkEnter to WalkLeave).
    pub(super) fn walk<R>(&self, f: impl FnOnce(Lanes<'_, M>) -> R) -> R {
        // Ordering: Relaxed (WalkEnter). Ordered by WalkFence; pairs with EndLook.
        self.walkers.fetch_add(1, Ordering::Relaxed);
        // Ordering: light (WalkFence). Pairs with EndFence: the shard sees WalkEnter, or this
        // thread sees EndUnlink.
        light_fence_unless(Fault::LaneWalkUnfenced);
        let result = f(self.all());
        // Ordering: Release (WalkLeave). Pairs with the Acquire of EndLook; this thread's looks at
        // the lanes come before they are freed.
        self.walkers
            .fetch_sub(1, ordering(Ordering::Release, Fault::LaneWalkLeftRelaxed));
        result
    }

    /// Takes the lanes out that have ended (EndUnlink, EndFence).
    ///
    /// # Safety
    /// The caller is the shard, and no thread has the producers of a lane that `has_ended`.
    pub(super) unsafe fn unlink(&self, has_ended: impl Fn(&Lane<M>) -> bool) {
        let mut ended = Vec::new();
        let mut before = ptr::null_mut::<Lane<M>>();
        // Ordering: Acquire. As in `all`.
        let mut at = self.first.load(Ordering::Acquire);
        // SAFETY: in the list, and only the shard frees lanes: this thread.
        while let Some(lane) = unsafe { at.as_ref() } {
            // Ordering: Relaxed. The shard alone writes it, once the lane is published.
            let next = lane.next.load(Ordering::Relaxed);
            if has_ended(lane) {
                // SAFETY: as above; null, or a lane before this one.
                self.unlink_one(unsafe { before.as_ref() }, at, next);
                ended.push(at);
            } else {
                before = at;
            }
            at = next;
        }
        if ended.is_empty() {
            return;
        }
        // Ordering: heavy (EndFence). Pairs with WalkFence.
        heavy_fence_unless(Fault::LaneEndUnfenced);
        self.ended.with_mut(|all| {
            // SAFETY: the shard's own.
            let all = unsafe { &mut *all };
            all.lanes.append(&mut ended);
            all.are_left = false;
        });
    }

    /// EndUnlink of the lane at `at`. It lies behind `before`, or was the first one.
    fn unlink_one(&self, before: Option<&Lane<M>>, at: *mut Lane<M>, next: *mut Lane<M>) {
        let mut behind = before;
        if behind.is_none() {
            // Ordering: Release (EndUnlink). As in `add`. On failure Acquire, as in `all`.
            let swapped =
                self.first
                    .compare_exchange(at, next, Ordering::Release, Ordering::Acquire);
            let Err(newer) = swapped else {
                return;
            };
            if broken(Fault::LaneEndStored) {
                // Ordering: Release. The broken variant.
                return self.first.store(next, Ordering::Release);
            }
            // Lanes were added before it meanwhile.
            let mut newer = newer.cast_const();
            // SAFETY: in the list, as this thread alone frees lanes.
            while let Some(lane) = unsafe { newer.as_ref() } {
                behind = Some(lane);
                // Ordering: Relaxed. The shard alone writes it, once the lane is published.
                newer = lane.next.load(Ordering::Relaxed);
                if ptr::eq(newer, at) {
                    break;
                }
            }
        }
        if let Some(behind) = behind {
            // Ordering: Relaxed (EndUnlink). A walker that sees the lane at `at` also sees what
            // `next` points to, because the lane at `at` was added later.
            behind.next.store(next, Ordering::Relaxed);
        }
    }

    /// Frees at most `most` of the lanes that are out of the list, if no walker can be in one
    /// (EndLook, EndFree). Returns which are left.
    ///
    /// # Safety
    /// The caller is the shard.
    pub(super) unsafe fn free_ended(&self, most: usize) -> EndedLeft {
        self.ended.with_mut(|ended| {
            // SAFETY: the shard's own.
            let ended = unsafe { &mut *ended };
            // Ordering: Acquire (EndLook). Pairs with the Release of WalkLeave: what walkers did
            // with these lanes is over. A walker that comes later sees EndUnlink, because of
            // EndFence.
            ended.are_left = ended.are_left
                || self.walkers.load(Ordering::Acquire) == 0
                || broken(Fault::LaneEndUnderWalk);
            if !ended.are_left {
                return EndedLeft::Walked;
            }
            let kept = ended.lanes.len().saturating_sub(most);
            for lane in ended.lanes.drain(kept..) {
                // SAFETY: EndFree. It came from a box, is out of the list, has no producer, and no
                // walker is in it.
                unsafe { free(lane) };
            }
            if kept > 0 {
                return EndedLeft::Free;
            }
            ended.lanes = Vec::new();
            EndedLeft::None
        })
    }
}

/// Frees a lane.
///
/// # Safety
/// It came from a box, and no other thread uses it.
unsafe fn free<M>(lane: *mut Lane<M>) {
    #[cfg(loom)]
    {
        // SAFETY: as above. loom does not notice an access to freed memory. This access makes it
        // notice a thread that still uses the lane.
        unsafe { &*lane }.alive.with_mut(|_| ());
        if broken(Fault::LaneEndUnfenced)
            || broken(Fault::LaneEndUnderWalk)
            || broken(Fault::LaneWalkUnfenced)
            || broken(Fault::LaneWalkLeftRelaxed)
        {
            return;
        }
    }
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(lane) });
}

impl<M> Drop for LaneList<M> {
    fn drop(&mut self) {
        let mut lane = self.all().next;
        while !lane.is_null() {
            // SAFETY: this is `&mut self`, so no thread uses a lane. Each lane came from a box.
            let owned = unsafe { Box::from_raw(lane.cast_mut()) };
            // Ordering: Relaxed. No other thread has it.
            lane = owned.next.load(Ordering::Relaxed);
        }
        self.ended.with_mut(|ended| {
            // SAFETY: as above.
            let ended = unsafe { &mut *ended };
            for lane in ended.lanes.drain(..) {
                // SAFETY: as above. It is not in the list.
                unsafe { free(lane) };
            }
        });
    }
}

/// Lanes of a list.
pub(super) struct Lanes<'a, M> {
    next: *const Lane<M>,
    _list: PhantomData<&'a LaneList<M>>,
}

impl<M> Clone for Lanes<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Lanes<'_, M> {}

impl<'a, M> Iterator for Lanes<'a, M> {
    type Item = &'a Lane<M>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: in the list, or it was so when this walker came. The shard frees it after that
        // (`lanes`, `walk`).
        let lane = unsafe { self.next.as_ref() }?;
        #[cfg(loom)]
        lane.alive.with(|_| ());
        // Ordering: Relaxed. What it points to was published before this lane.
        self.next = lane.next.load(Ordering::Relaxed);
        Some(lane)
    }
}
