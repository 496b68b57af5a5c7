//! Std: the real atomics, cells, threads and queues, with the interface of `loom.rs`.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::thread::{Builder as ThreadBuilder, JoinHandle, Thread, current};
pub(crate) use std::thread_local as per_thread;

use super::forks::Process;
use crossbeam_queue::SegQueue;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

/// A lock-free queue. In a process that was forked off it is empty, and forgets what is pushed: a
/// push of a thread that is not there may be half done, and each other call would wait for it.
///
/// All queues are [`WordQueue`] underneath, so that a program compiles the queue once.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// Not dropped in such a process: the drop would read values that are not there.
    words: ManuallyDrop<WordQueue>,
    made_in: Process,
    /// A value that is sent through the queue changes its thread, as one behind a mutex does.
    _values: PhantomData<Mutex<T>>,
}

/// A queue of values of up to two words of 64 bits, whatever their types are.
#[derive(Debug)]
struct WordQueue(SegQueue<TwoWords>);

type TwoWords = MaybeUninit<[u64; 2]>;

impl WordQueue {
    fn new() -> Self {
        Self(SegQueue::new())
    }

    fn push(&self, words: TwoWords) {
        self.0.push(words);
    }

    fn pop(&self) -> Option<TwoWords> {
        self.0.pop()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            words: ManuallyDrop::new(WordQueue::new()),
            made_in: Process::current(),
            _values: PhantomData,
        }
    }

    pub(crate) fn push(&self, value: T) {
        const { assert!(size_of::<T>() <= size_of::<TwoWords>()) };
        const { assert!(align_of::<T>() <= align_of::<TwoWords>()) };
        if self.made_in.is_forked() {
            return std::mem::forget(value);
        }
        let mut words = TwoWords::uninit();
        // SAFETY: the words have room for a `T` (above), and are this call's own.
        unsafe { words.as_mut_ptr().cast::<T>().write(value) };
        self.words.push(words);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.made_in.is_forked() {
            return None;
        }
        let words = self.words.pop()?;
        // SAFETY: `push` wrote a `T` there. It was popped once, so this is its only owner.
        Some(unsafe { words.as_ptr().cast::<T>().read() })
    }

    pub(crate) fn len(&self) -> usize {
        if self.made_in.is_forked() {
            return 0;
        }
        self.words.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        if self.made_in.is_forked() {
            return;
        }
        while let Some(value) = self.pop() {
            drop(value);
        }
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.words) };
    }
}

/// `std::cell::UnsafeCell` with loom's interface.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A reference that does not keep its target alive.
#[derive(Debug)]
pub(crate) struct Loose<T>(std::sync::Weak<T>);

impl<T> Loose<T> {
    pub(crate) fn of(owned: &std::sync::Arc<T>) -> Self {
        Self(std::sync::Arc::downgrade(owned))
    }

    /// The target, unless it is gone.
    pub(crate) fn get(&self) -> Option<std::sync::Arc<T>> {
        self.0.upgrade()
    }
}

/// Parks for at most `timeout`; without one, until unparked.
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => std::thread::park_timeout(timeout),
        None => std::thread::park(),
    }
}

/// Runs a job that waits in the calling thread's rayon pool. Whether there was one.
pub(crate) fn run_rayon_job() -> bool {
    rayon::yield_now() == Some(rayon::Yield::Executed)
}

/// One step of a spin loop, which keeps its core.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// One step of a wait for a change that no thread announces. Other threads run meanwhile.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

/// Leaves the core to other threads. From the fourth step on, for a time in any case.
pub(crate) fn give_way(step: u64) {
    match pause_us(step) {
        0 => std::thread::yield_now(),
        pause_us => std::thread::sleep(std::time::Duration::from_micros(pause_us)),
    }
}

/// How long a thread pauses that gives way: 50 us at the fourth step, twice as long at each further
/// one, at most 25.6 ms. Hundreds of threads that paused for 1 ms at most would keep two cores busy
/// with their messages, and the shard would fall behind for ever.
fn pause_us(step: u64) -> u64 {
    match step {
        0..4 => 0,
        _ => 50 << (step - 4).min(9),
    }
}

/// Whether the thread is in a model that has failed.
pub(crate) const fn model_has_failed() -> bool {
    false
}

/// Whether pins count: always, but in a model.
pub(crate) const fn pins_count() -> bool {
    true
}

/// The light fence where the kernel offers `membarrier`.
#[inline(always)]
pub(super) fn compiler_fence() {
    // Ordering: SeqCst, only for the compiler. Pairs with `heavy_fence`.
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Waits 10 ms. In that time a thread that has just passed a light fence goes on to its look, or is
/// switched out, which is a full fence.
pub(super) fn wait_out() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

#[inline(always)]
pub(crate) fn full_fence() {
    // Ordering: SeqCst. Pairs with itself: both sides of the pair where there is no `membarrier`.
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_queue_of_another_process_is_left_alone() {
        let value = Arc::new(());
        let own = Queue::new();
        own.push(value.clone());
        let mut inherited = Queue::new();
        inherited.push(value.clone());
        inherited.made_in = Process::parent();
        inherited.push(value.clone());
        assert!(inherited.pop().is_none());
        assert_eq!((inherited.len(), own.len()), (0, 1));
        assert_eq!(inherited.words.len(), 1, "what it had");
        drop((inherited, own));
        assert_eq!(Arc::strong_count(&value), 3, "the other two are lost");
    }

    #[test]
    fn whoever_gives_way_again_pauses_for_longer() {
        assert_eq!([0, 3, 4, 5, 8].map(pause_us), [0, 0, 50, 100, 800]);
        assert_eq!(
            [11, 12, 13, 14, u64::MAX].map(pause_us),
            [6_400, 12_800, 25_600, 25_600, 25_600]
        );
        // A segment of 256 messages at a time. A shard takes in some 10,000 messages a millisecond.
        assert!(
            256 * 256 * 1_000 / pause_us(u64::MAX) < 3_000,
            "256 threads do not outrun it"
        );
    }
}
