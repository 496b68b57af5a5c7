//! Pins: which threads may be looking at a page that is being retired.
//!
//! Each thread has a word, in a cache line of its own, and pins itself for a look-up by writing it.
//! So a pin costs two stores, and no fence where the kernel offers `membarrier`. Only the shard
//! that gathers pages looks at the words of others, rarely: once for all pages that it has unlinked
//! since. (Userspace RCU with `membarrier`: Desnoyers et al. 2012.) Protocol and proof: README.md
//! of this room.
//!
//! Ground rules: a word is written by the thread that has it only. One shard at a time owns the
//! `Limbo`. Limits: a thread that is held up while it is pinned keeps the pages that were unlinked
//! meanwhile. A look is at the words of all threads, and at those which `sweep` has not freed.

use crate::cold_drop::ColdDrop;
use crate::sync::{
    AtomicU64, Fault, Ordering, Queue, broken, heavy_fence_unless, light_fence_unless,
    model_has_failed, ordering, pins_count,
};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// How often a thread has pinned and unpinned itself: odd while it is pinned.
#[derive(Debug)]
struct PinWord(CachePadded<AtomicU64>);

/// The words of all threads that may pin.
#[derive(Clone, Debug)]
pub(crate) struct Pins(Arc<PinWords>);

#[derive(Debug)]
struct PinWords {
    /// On the way to the `Limbo`.
    new: Queue<Arc<PinWord>>,
    /// Of threads that have ended, for others.
    left: Queue<Arc<PinWord>>,
    /// In models that do not ask for pins, pins do nothing and pages are not freed.
    counts: bool,
}

impl Pins {
    pub(crate) fn new() -> Self {
        Self(Arc::new(PinWords {
            new: Queue::new(),
            left: Queue::new(),
            counts: pins_count(),
        }))
    }

    /// A word for the calling thread.
    pub(crate) fn register(&self) -> Pinner {
        let word = self.0.left.pop().unwrap_or_else(|| self.new_word());
        Pinner(Rc::new(OwnWord {
            word,
            depth: Cell::new(0),
            words: self.0.clone(),
        }))
    }

    fn new_word(&self) -> Arc<PinWord> {
        let word = Arc::new(PinWord(CachePadded::new(AtomicU64::new(0))));
        if self.0.counts {
            self.0.new.push(word.clone()); // PinRegister
        }
        word
    }
}

/// A thread's own word.
#[derive(Debug)]
struct OwnWord {
    word: Arc<PinWord>,
    /// How many guards the thread has.
    depth: Cell<usize>,
    words: Arc<PinWords>,
}

impl Drop for OwnWord {
    fn drop(&mut self) {
        if self.counts() && !model_has_failed() {
            self.words.left.push(self.word.clone());
        }
    }
}

/// A thread's handle to its word.
#[derive(Clone, Debug)]
pub(crate) struct Pinner(Rc<OwnWord>);

// SAFETY: models hand a thread's local on when they have no guard of it: the `Rc` has one owner.
#[cfg(loom)]
unsafe impl Send for Pinner {}

impl Pinner {
    /// Pins the thread until the guard is dropped.
    #[inline]
    pub(crate) fn pin(&self) -> Pinned<'_> {
        let own = &*self.0;
        let depth = own.depth.get();
        own.depth.set(depth + 1);
        if depth == 0 && own.counts() {
            // Ordering: Release (PinStore). Pairs with RetireLook: a look that sees this pin comes
            // after all that the thread read under the pin before.
            own.step(ordering(Ordering::Release, Fault::PinRelaxed));
            light_fence_unless(Fault::PinUnfenced); // PinFence
        }
        Pinned(own)
    }
}

impl OwnWord {
    /// Whether pins do anything. Always, but in a model.
    #[inline(always)]
    fn counts(&self) -> bool {
        cfg!(not(loom)) || self.words.counts
    }

    #[inline(always)]
    fn step(&self, order: Ordering) {
        let word = &self.word.0;
        // Ordering: Relaxed. The last store is the thread's own, or that of the thread which had
        // the word before and handed it over by a queue.
        word.store(word.load(Ordering::Relaxed) + 1, order);
    }
}

/// While it lives its thread is pinned: no page that the thread finds is freed.
#[derive(Debug)]
pub(crate) struct Pinned<'a>(&'a OwnWord);

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        let own = self.0;
        let depth = own.depth.get() - 1;
        own.depth.set(depth);
        if depth == 0 && own.counts() && !model_has_failed() {
            // Ordering: Release (Unpin). Pairs with RetireLook, as in `pin`.
            own.step(ordering(Ordering::Release, Fault::UnpinRelaxed));
        }
    }
}

/// Words of threads that have ended which are kept for the next threads.
const SPARE_WORDS: usize = if cfg!(loom) { 0 } else { 16 };

/// Words that a sweep frees.
const SWEPT_MAX: usize = 512;

/// A word that was odd, and its value then.
type OddWord = (Arc<PinWord>, u64);

/// Pages that are unlinked, until no thread can be looking at them.
pub(crate) struct Limbo<P> {
    looks: ColdDrop<Looks>,
    /// Unlinked since the last look.
    unlinked: Vec<P>,
    /// Pages of each look that is waiting.
    waiting: Vec<Vec<P>>,
    /// No thread looks at them.
    free: Vec<P>,
}

/// The part of a limbo that does not depend on the pages: which threads were pinned.
struct Looks {
    pins: Pins,
    /// All words that there were at the last look.
    words: Vec<Arc<PinWord>>,
    /// The words that were odd at a look.
    waiting: Vec<Vec<OddWord>>,
}

impl<P> Limbo<P> {
    /// Unlinked pages that are worth a look in the midst of a gathering.
    const ENOUGH: usize = 64;

    pub(crate) fn new(pins: Pins) -> Self {
        Self {
            looks: Looks::new(pins),
            unlinked: Vec::new(),
            waiting: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes a page that was unlinked.
    pub(crate) fn add(&mut self, page: P) {
        self.unlinked.push(page);
    }

    /// Whether there are enough unlinked pages for a look.
    pub(super) fn has_enough(&self) -> bool {
        self.unlinked.len() >= Self::ENOUGH
    }

    /// Whether there are pages that wait for a thread.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there are pages that no thread looks at any more.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// A page that no thread looks at any more.
    pub(crate) fn take(&mut self) -> Option<P> {
        self.free.pop()
    }

    /// RetireFence, RetireLook: looks which threads are pinned. The pages that were unlinked wait
    /// for these. Then looks again for pages that wait.
    pub(crate) fn look(&mut self) {
        if !self.unlinked.is_empty() && self.looks.look() {
            self.waiting.push(std::mem::take(&mut self.unlinked));
        }
        let mut at = 0;
        while let Some(ended) = self.looks.ended(at) {
            self.free.append(&mut self.waiting.swap_remove(ended));
            at = ended;
        }
    }

    /// PinSweep. Frees some words of threads that have ended. Returns whether there are more.
    pub(crate) fn sweep(&mut self) -> bool {
        self.looks.sweep()
    }
}

impl Looks {
    fn new(pins: Pins) -> ColdDrop<Self> {
        ColdDrop::new(Self {
            pins,
            words: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// RetireFence, RetireLook. Adds a look that waits for the threads that are pinned. `false` in
    /// a model in which pins do not count.
    fn look(&mut self) -> bool {
        if !self.pins.0.counts {
            return false;
        }
        let early = broken(Fault::LookedEarly).then(|| self.pinned());
        heavy_fence_unless(Fault::RetireUnfenced); // RetireFence
        self.take_new();
        let pinned = early.unwrap_or_else(|| self.pinned());
        self.waiting.push(pinned);
        true
    }

    /// RetireLook. Takes a look out for which all pins have ended that there were, from this place
    /// on, and returns its place. The last look takes that.
    fn ended(&mut self, from: usize) -> Option<usize> {
        for at in from..self.waiting.len() {
            self.waiting[at].retain(|(word, seen)| word.seen() == *seen);
            if self.waiting[at].is_empty() {
                self.waiting.swap_remove(at);
                return Some(at);
            }
        }
        None
    }

    /// PinSweep, as [`Limbo::sweep`].
    fn sweep(&mut self) -> bool {
        let pins = &*self.pins.0;
        let surplus = pins.left.len().saturating_sub(SPARE_WORDS);
        if surplus == 0 {
            return false;
        }
        for _ in 0..surplus.min(SWEPT_MAX) {
            drop(pins.left.pop());
        }
        self.take_new();
        // A word that nobody else has is that of no thread, and none gets it again. (A word that a
        // page waits for is freed by a later sweep.)
        self.words
            .retain(|word| Arc::strong_count(word) > 1 && !broken(Fault::PinSweptInUse));
        if self.words.len() < self.words.capacity() / 4 {
            self.words.shrink_to(2 * self.words.len());
        }
        surplus > SWEPT_MAX
    }

    fn take_new(&mut self) {
        while let Some(word) = self.pins.0.new.pop() {
            self.words.push(word);
        }
    }

    /// RetireLook. The words of the threads that are pinned.
    fn pinned(&self) -> Vec<OddWord> {
        let mut pinned = Vec::new();
        for word in &self.words {
            let seen = word.seen();
            if seen % 2 == 1 {
                pinned.push((word.clone(), seen));
            }
        }
        pinned
    }
}

impl PinWord {
    fn seen(&self) -> u64 {
        // Ordering: Acquire (RetireLook). Pairs with PinStore and Unpin: what the thread read while
        // it was pinned comes before the pages are freed.
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOTHING: [u32; 0] = [];

    /// The numbers of all pages that are free.
    fn freed(limbo: &mut Limbo<u32>) -> Vec<u32> {
        limbo.look();
        let mut freed: Vec<_> = std::iter::from_fn(|| limbo.take()).collect();
        freed.sort_unstable();
        freed
    }

    #[test]
    fn a_page_waits_for_the_pins_that_there_were() {
        let pins = Pins::new();
        let mut limbo = Limbo::new(pins.clone());
        let (one, other) = (pins.register(), pins.register());
        let pinned = one.pin();
        limbo.add(1);
        assert_eq!(freed(&mut limbo), NOTHING);
        let later = other.pin();
        limbo.add(2);
        assert!(freed(&mut limbo).is_empty() && limbo.is_waiting());
        // Nested: the outer one counts.
        drop(one.pin());
        assert_eq!(freed(&mut limbo), NOTHING);
        drop(pinned);
        // Pinned anew: that pin found no page 1.
        let again = one.pin();
        assert_eq!(freed(&mut limbo), [1]);
        drop(later);
        assert_eq!(freed(&mut limbo), [2]);
        limbo.add(3);
        assert_eq!(freed(&mut limbo), NOTHING);
        drop(again);
        assert!(freed(&mut limbo) == [3] && !limbo.is_waiting());
    }

    /// Whether pages are retired or not.
    #[test]
    fn the_words_of_threads_that_have_ended_are_used_again() {
        let pins = Pins::new();
        let mut limbo = Limbo::new(pins.clone());
        let stays = pins.register();
        for page in 0..100 {
            drop(pins.register());
            let ends = pins.register();
            let pinned = ends.pin();
            limbo.add(page);
            assert_eq!(freed(&mut limbo), NOTHING);
            drop(pinned);
            drop(ends);
            assert_eq!(freed(&mut limbo), [page]);
        }
        assert_eq!(limbo.looks.words.len(), 2);
        assert!(pins.0.new.is_empty() && pins.0.left.len() == 1);
        drop(stays);
    }

    #[test]
    fn words_that_many_threads_have_left_are_freed() {
        let pins = Pins::new();
        let mut limbo = Limbo::new(pins.clone());
        let all: Vec<_> = (0..2_000).map(|_| pins.register()).collect();
        let stays = pins.register();
        let pinned = stays.pin();
        limbo.add(1);
        assert_eq!(freed(&mut limbo), NOTHING);
        drop(all);
        let sweeps = (0..).take_while(|_| limbo.sweep()).count();
        assert_eq!(sweeps, 1_984 / SWEPT_MAX);
        assert_eq!((limbo.looks.words.len(), pins.0.left.len()), (17, 16));
        limbo.add(2);
        assert_eq!(freed(&mut limbo), NOTHING, "the thread that stays is seen");
        drop(pinned);
        assert_eq!(freed(&mut limbo), [1, 2]);
    }
}
