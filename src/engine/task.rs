//! Task: a closure that runs once. It is the payload of a service without a handler.
//!
//! A task is four words of a pointer's size: 32 bytes, or 16 where pointers have 32 bits. A closure
//! of at most three words lies in the task, and so in the timer's cell. A larger one is boxed, at
//! the cost of an allocation.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};

const INLINE_WORDS: usize = 3;

type Storage = [MaybeUninit<usize>; INLINE_WORDS];

/// A closure to run when a timer fires. Any `FnOnce() + Send + 'static` makes one.
///
/// # Example
/// ```
/// let task = wheelwork::Task::new(|| println!("due"));
/// task.run();
/// ```
pub struct Task {
    /// Runs or drops the closure in the storage, which is empty afterwards.
    consume: unsafe fn(*mut Storage, run: bool),
    storage: Storage,
}

// 32 bytes with pointers of 64 bits.
const _: () = assert!(size_of::<Task>() == 4 * size_of::<usize>());

// SAFETY: made from Send closures only.
unsafe impl Send for Task {}

impl Task {
    /// Makes a task. Cost: an allocation if the closure is larger than three words, or aligned to
    /// more than a word.
    pub fn new<F: FnOnce() + Send + 'static>(closure: F) -> Self {
        if size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>() {
            Self::store(closure)
        } else {
            Self::store(Box::new(closure))
        }
    }

    fn store<F: FnOnce() + Send + 'static>(closure: F) -> Self {
        debug_assert!(
            size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>()
        );
        let mut storage: Storage = [MaybeUninit::uninit(); INLINE_WORDS];
        // SAFETY: `new` made sure that the closure fits, in size and alignment.
        unsafe { storage.as_mut_ptr().cast::<F>().write(closure) };
        Self {
            consume: consume::<F>,
            storage,
        }
    }

    /// Runs the closure.
    pub fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the storage holds the closure that `consume` was made for; `this` is not dropped,
        // so it is consumed once.
        unsafe { (this.consume)(&mut this.storage, true) };
    }
}

/// # Safety
/// The storage holds an `F`, which the caller does not use again.
unsafe fn consume<F: FnOnce()>(storage: *mut Storage, run: bool) {
    // SAFETY: the caller's promise.
    let closure = unsafe { storage.cast::<F>().read() };
    if run {
        closure();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: the storage holds the closure that `consume` was made for; `run` forgets the
        // task, so it is consumed once.
        unsafe { (self.consume)(&mut self.storage, false) };
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// What [`schedule`](crate::ServiceHandle::schedule) takes: a payload, or a closure where the
/// payload is a [`Task`].
///
/// # Example
/// ```
/// use wheelwork::{IntoPayload, Task};
///
/// let task: Task = (|| println!("due")).into_payload();
/// task.run();
/// let number: u64 = 7u64.into_payload();
/// assert_eq!(number, 7);
/// ```
pub trait IntoPayload<T> {
    /// Makes the payload.
    fn into_payload(self) -> T;
}

impl<T> IntoPayload<T> for T {
    #[inline]
    fn into_payload(self) -> T {
        self
    }
}

impl<F: FnOnce() + Send + 'static> IntoPayload<Task> for F {
    #[inline]
    fn into_payload(self) -> Task {
        Task::new(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn small_and_large_closures_run_once_and_drop_once() {
        let runs = Arc::new(AtomicUsize::new(0));
        let small = {
            let runs = runs.clone();
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let large = {
            let (runs, room) = (runs.clone(), [7u64; 20]);
            move || {
                runs.fetch_add(room[3] as usize, Ordering::Relaxed);
            }
        };
        Task::new(small.clone()).run();
        Task::new(large.clone()).run();
        assert_eq!(runs.load(Ordering::Relaxed), 8);
        drop(Task::new(small));
        drop(Task::new(large));
        assert_eq!(runs.load(Ordering::Relaxed), 8);
        assert_eq!(Arc::strong_count(&runs), 1);
    }

    #[test]
    fn an_overaligned_closure_is_boxed() {
        #[repr(align(64))]
        struct Wide(u8);
        let wide = Wide(3);
        let task = Task::new(move || {
            let wide = &wide;
            assert_eq!((&raw const *wide).addr() % 64, 0);
            assert_eq!(wide.0, 3);
        });
        task.run();
    }
}
