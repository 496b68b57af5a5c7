//! Atomics, cells, threads, queues and epochs: the real ones, or loom's stand-ins under `--cfg loom`.
//!
//! The one file that names `std::sync::atomic` or `std::thread` park and unpark; every other room takes them from
//! here, so that the loom models in `loom-tests/` run the same code as the release build.
//!
//! crossbeam-queue and crossbeam-epoch are invisible to loom. Under loom a queue is a mutex around a `VecDeque` (a
//! linearizable stand-in), and an epoch guard does nothing: what a model proves is our code around them, not theirs.

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::thread::{Builder as ThreadBuilder, JoinHandle, Thread, current};
    pub(crate) use std::thread_local as per_thread;

    pub(crate) use crossbeam_epoch::{Collector, Guard, LocalHandle};
    pub(crate) use crossbeam_queue::SegQueue as Queue;

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

    /// A reference that does not keep what it names.
    #[derive(Debug)]
    pub(crate) struct Loose<T>(std::sync::Weak<T>);

    impl<T> Loose<T> {
        pub(crate) fn of(owned: &std::sync::Arc<T>) -> Self {
            Self(std::sync::Arc::downgrade(owned))
        }

        /// What it names, unless that is gone.
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

    /// Runs a job that waits for the calling thread's rayon pool. Whether there was one.
    pub(crate) fn run_rayon_job() -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    /// In a loop that keeps its core.
    pub(crate) fn spin() {
        std::hint::spin_loop();
    }

    /// Lets others run, when there is something to wait for that nobody announces.
    pub(crate) fn pause() {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }

    /// Runs `drop_it` once no guard that is pinned now can still hold what it frees.
    ///
    /// # Safety
    /// The caller has made what `drop_it` frees unreachable for guards that are pinned later.
    pub(crate) unsafe fn retire(guard: &Guard, drop_it: impl FnOnce() + Send + 'static) {
        // SAFETY: the caller's promise; the closure owns what it frees, so it may run on any thread.
        unsafe { guard.defer_unchecked(drop_it) };
    }

    /// Chooses the fences. Called before the first service starts; the choice stays.
    pub(crate) fn prepare_fences() {
        membarrier::register();
    }

    /// A light fence where there is a `membarrier`.
    #[inline(always)]
    pub(super) fn compiler_fence() {
        // Ordering: SeqCst, for the compiler alone. Pairs with `heavy_fence`.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// Long enough for whoever has just passed a light fence to go on to its look, or to be
    /// switched out, which is a full fence.
    pub(super) fn wait_out() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }

    #[inline(always)]
    pub(crate) fn full_fence() {
        // Ordering: SeqCst. Both sides of the pair where there is no `membarrier`.
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// `membarrier(2)`: a barrier in every running thread of this process.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(super) mod membarrier {
        use super::Ordering;
        use std::sync::Once;
        use std::sync::atomic::AtomicU8;

        use super::super::{ABSENT, PRESENT};

        const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
        const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

        static STATE: AtomicU8 = AtomicU8::new(ABSENT);

        #[inline(always)]
        pub(in super::super) fn state() -> u8 {
            // Ordering: Relaxed. Set before the first service exists, which orders it; constant after that, but for what `heavy_fence` does.
            STATE.load(Ordering::Relaxed)
        }

        pub(in super::super) fn set(state: u8) {
            // Ordering: Relaxed. Whoever does not see it yet is given time: see `heavy_fence`.
            STATE.store(state, Ordering::Relaxed);
        }

        pub(super) fn register() {
            static ONCE: Once = Once::new();
            // (`Once` orders it for a second service.)
            ONCE.call_once(|| set(if call(REGISTER_PRIVATE_EXPEDITED) { PRESENT } else { ABSENT }));
        }

        /// Whether it worked.
        pub(in super::super) fn run() -> bool {
            call(PRIVATE_EXPEDITED)
        }

        fn call(command: libc::c_int) -> bool {
            // SAFETY: takes two integers and touches no memory of ours.
            unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(super) mod membarrier {
        pub(in super::super) const fn state() -> u8 {
            super::super::ABSENT
        }

        pub(in super::super) fn set(_: u8) {}

        pub(super) fn register() {}

        pub(in super::super) fn run() -> bool {
            true
        }
    }

    /// Whether a step is broken on purpose. Never, outside loom.
    #[inline(always)]
    pub(crate) const fn broken(_: super::Fault) -> bool {
        false
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use loom::thread::{Builder as ThreadBuilder, JoinHandle, Thread, current};

    use loom::sync::atomic;
    use std::cell::Cell;
    use std::collections::VecDeque;

    /// Thread-locals of a model's threads, written as std's are.
    macro_rules! per_thread {
        ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
            loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
        };
    }
    pub(crate) use per_thread;

    /// One of loom's atomics whose loads conflict with each other.
    ///
    /// loom remembers only the last access to an atomic, when it looks for orders of steps that are left to explore. So a thread that
    /// loads and then stores hides its store from the loads of other threads before it, and orders are missed: nearly all, for a
    /// loop around a compare-and-swap. A Relaxed read-modify-write of a word beside it makes each load known to the next, and orders no memory.
    #[derive(Debug, Default)]
    pub(crate) struct Seen<A> {
        atomic: A,
        loads: atomic::AtomicUsize,
    }

    impl<A> std::ops::Deref for Seen<A> {
        type Target = A;

        fn deref(&self) -> &A {
            &self.atomic
        }
    }

    macro_rules! seen {
        ($name:ident $(<$t:ident>)?, $value:ty) => {
            pub(crate) type $name$(<$t>)? = Seen<atomic::$name$(<$t>)?>;

            impl$(<$t>)? Seen<atomic::$name$(<$t>)?> {
                pub(crate) fn new(value: $value) -> Self {
                    Self { atomic: atomic::$name::new(value), loads: atomic::AtomicUsize::new(0) }
                }

                pub(crate) fn load(&self, ordering: Ordering) -> $value {
                    // Ordering: Relaxed. No part of the model.
                    self.loads.fetch_add(1, Ordering::Relaxed);
                    self.atomic.load(ordering)
                }
            }
        };
    }

    seen!(AtomicBool, bool);
    seen!(AtomicPtr<T>, *mut T);
    seen!(AtomicU32, u32);
    seen!(AtomicU64, u64);
    seen!(AtomicUsize, usize);

    impl AtomicU64 {
        /// Sets it as its owner does. Whoever looks at it without an order is noticed.
        pub(crate) fn set(&mut self, value: u64) {
            self.atomic.with_mut(|word| *word = value);
        }
    }

    /// Stand-in for a weak reference, which keeps what it names: loom does not see that the last owner goes, and would leave the orders out in which it
    /// has not gone.
    #[derive(Debug)]
    pub(crate) struct Loose<T>(std::sync::Arc<T>);

    impl<T> Loose<T> {
        pub(crate) fn of(owned: &std::sync::Arc<T>) -> Self {
            Self(owned.clone())
        }

        pub(crate) fn get(&self) -> Option<std::sync::Arc<T>> {
            Some(self.0.clone())
        }
    }

    /// Stand-in for `crossbeam_queue::SegQueue`: linearizable, every pop synchronizes with its push.
    #[derive(Debug)]
    pub(crate) struct Queue<T> {
        values: Mutex<VecDeque<T>>,
        /// What the broken variant has: loom does not see this lock.
        unordered: std::sync::Mutex<VecDeque<T>>,
    }

    impl<T> Queue<T> {
        pub(crate) fn new() -> Self {
            Self { values: Mutex::new(VecDeque::new()), unordered: std::sync::Mutex::new(VecDeque::new()) }
        }

        pub(crate) fn push(&self, value: T) {
            if broken(super::Fault::QueueRelaxed) {
                return self.unordered.lock().unwrap().push_back(value);
            }
            self.values.lock().unwrap().push_back(value);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            if broken(super::Fault::QueueRelaxed) {
                return self.unordered.lock().unwrap().pop_front();
            }
            self.values.lock().unwrap().pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.values.lock().unwrap().len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    /// Stand-in for `crossbeam_epoch::Collector`: as soon as nobody is pinned that was when
    /// something was retired, it is freed. Each pin is a step of the model, so that is only so in
    /// the models that ask for it (`set_epochs`); in others nothing is pinned, and nothing is
    /// freed.
    #[derive(Clone, Debug)]
    pub(crate) struct Collector(Option<std::sync::Arc<Mutex<Pins>>>);

    #[derive(Debug)]
    pub(crate) struct LocalHandle(Collector);

    #[derive(Debug)]
    pub(crate) struct Guard {
        collector: Collector,
        number: usize,
    }

    /// The guards that there are, and what waits for which of them.
    #[derive(Default)]
    pub(crate) struct Pins {
        guards: usize,
        pinned: Vec<usize>,
        retired: Vec<(Vec<usize>, Box<dyn FnOnce() + Send>)>,
    }

    impl std::fmt::Debug for Pins {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Pins").field("pinned", &self.pinned).finish_non_exhaustive()
        }
    }

    impl Collector {
        pub(crate) fn new() -> Self {
            Self(EPOCHS.get().then(Default::default))
        }

        pub(crate) fn register(&self) -> LocalHandle {
            LocalHandle(self.clone())
        }

        fn with_pins<R: Default>(&self, f: impl FnOnce(&mut Pins) -> R) -> R {
            self.0.as_ref().map_or_else(R::default, |pins| f(&mut pins.lock().unwrap()))
        }
    }

    impl LocalHandle {
        pub(crate) fn pin(&self) -> Guard {
            let number = self.0.with_pins(|pins| {
                pins.guards += 1;
                pins.pinned.push(pins.guards);
                pins.guards
            });
            Guard { collector: self.0.clone(), number }
        }
    }

    impl Guard {
        pub(crate) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            // A model that has failed is gone, and its locks with it.
            if std::thread::panicking() {
                return;
            }
            let freed = self.collector.with_pins(|pins| {
                pins.pinned.retain(|&number| number != self.number);
                pins.retired.iter_mut().for_each(|(waits_for, _)| waits_for.retain(|&number| number != self.number));
                pins.retired.extract_if(.., |(waits_for, _)| waits_for.is_empty()).map(|(_, free)| free).collect::<Vec<_>>()
            });
            freed.into_iter().for_each(|free| free());
        }
    }

    /// Always until unparked: a timeout would hide a lost wake-up. But not at all if there is no time.
    pub(crate) fn park(timeout: Option<std::time::Duration>) {
        if timeout != Some(std::time::Duration::ZERO) {
            loom::thread::park();
        }
    }

    /// There is no rayon in a model.
    pub(crate) fn run_rayon_job() -> bool {
        false
    }

    /// As a spin loop has to do it in a model.
    pub(crate) fn spin() {
        loom::thread::yield_now();
    }

    /// As above.
    pub(crate) fn pause() {
        loom::thread::yield_now();
    }

    /// Runs `drop_it` once no guard that is pinned now is left: never, in models without epochs.
    ///
    /// # Safety
    /// As in the real one.
    pub(crate) unsafe fn retire(guard: &Guard, drop_it: impl FnOnce() + Send + 'static) {
        let Collector(Some(pins)) = &guard.collector else { return std::mem::forget(drop_it) };
        let mut pins = pins.lock().unwrap();
        let pinned = pins.pinned.clone();
        pins.retired.push((pinned, Box::new(drop_it)));
    }

    pub(crate) fn full_fence() {
        // Ordering: SeqCst. What the pair of fences amounts to.
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    /// A light fence where there is a `membarrier`: nothing, but an interrupt may come there.
    pub(super) fn compiler_fence() {
        interrupt();
    }

    /// What the time is for that the real one waits.
    pub(super) fn wait_out() {
        KERNEL.ask();
    }

    /// Stand-in for the kernel, in the models that ask for one (`set_kernel`); in others it offers
    /// nothing. There is one thread that it interrupts.
    struct Kernel {
        state: AtomicU32,
        /// Interrupts, and how many of them the thread has had.
        asked: AtomicUsize,
        had: Mutex<usize>,
        changed: loom::sync::Condvar,
    }

    loom::lazy_static! {
        static ref KERNEL: Kernel = Kernel {
            state: AtomicU32::new(super::PRESENT.into()),
            asked: AtomicUsize::new(0),
            had: Mutex::new(0),
            changed: loom::sync::Condvar::new(),
        };
    }

    loom::thread_local! {
        static FORBIDDEN: Cell<bool> = Cell::new(false);
    }

    impl Kernel {
        /// Interrupts the other thread, and waits until it has passed a fence, or gone.
        fn ask(&self) {
            // Ordering: AcqRel. An interrupt comes after what led to it.
            let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
            let mut had = self.had.lock().unwrap();
            while *had < number {
                had = self.changed.wait(had).unwrap();
            }
        }

        /// The thread has passed a fence, or ends behind one.
        fn pass(&self, number: usize) {
            full_fence();
            *self.had.lock().unwrap() = number;
            self.changed.notify_all();
        }
    }

    /// A point at which the thread may be interrupted that others want to pass a fence.
    pub fn interrupt() {
        // Ordering: Acquire. Pairs with the Release in `ask`.
        let asked = KERNEL.asked.load(Ordering::Acquire);
        if asked > 0 {
            KERNEL.pass(asked);
        }
    }

    /// The thread that may be interrupted ends: it need not be, any more.
    pub fn switch_out() {
        KERNEL.pass(usize::MAX);
    }

    /// From now on the kernel refuses the calling thread's `membarrier`.
    pub fn forbid_membarrier() {
        FORBIDDEN.with(|forbidden| forbidden.set(true));
    }

    pub(super) mod membarrier {
        use super::{FORBIDDEN, KERNEL, KERNELS, Ordering, broken};
        use crate::sync::{ABSENT, Fault};

        pub(in super::super) fn state() -> u8 {
            // Ordering: Relaxed. As in the real one.
            if KERNELS.get() { KERNEL.state.load(Ordering::Relaxed) as u8 } else { ABSENT }
        }

        pub(in super::super) fn set(state: u8) {
            // Ordering: Relaxed. As in the real one.
            KERNEL.state.store(state.into(), Ordering::Relaxed);
        }

        pub(in super::super) fn run() -> bool {
            if FORBIDDEN.with(|forbidden| forbidden.get()) {
                return false;
            }
            if !broken(Fault::BarrierSkipped) {
                KERNEL.ask();
            }
            true
        }
    }

    pub(crate) fn prepare_fences() {}

    std::thread_local! {
        /// The step that the running model breaks. loom runs all threads of a model on one OS thread.
        static FAULT: Cell<Option<super::Fault>> = const { Cell::new(None) };

        /// Whether there is a kernel with a `membarrier`.
        static KERNELS: Cell<bool> = const { Cell::new(false) };

        /// Whether collectors that are made now collect.
        static EPOCHS: Cell<bool> = const { Cell::new(false) };
    }

    /// Gives this thread's models a kernel with a `membarrier`, or none.
    pub fn set_kernel(on: bool) {
        KERNELS.set(on);
    }

    /// Lets the collectors that this thread's models make from now on free what is retired, or not.
    pub fn set_epochs(on: bool) {
        EPOCHS.set(on);
    }

    /// Breaks one step of a protocol in the models that this thread runs from now on.
    pub fn set_fault(fault: Option<super::Fault>) {
        FAULT.set(fault);
    }

    pub(crate) fn broken(fault: super::Fault) -> bool {
        FAULT.get() == Some(fault)
    }
}

pub(crate) use imp::*;

/// States of `membarrier`: the kernel does not offer it.
const ABSENT: u8 = 0;

/// The kernel offers it.
const PRESENT: u8 = 1;

/// The kernel does not offer it any more, and not everybody knows.
const LEAVING: u8 = 2;

/// The frequent side of a pair of fences: with [`heavy_fence`] on the other side, one of the two
/// sees what the other stored before its own.
///
/// Where the kernel offers `membarrier` this is a mere compiler fence: the heavy side lets every
/// running thread of the process execute a full barrier, so at whatever point of this side's order
/// that falls, it is as if the barrier had stood there. Otherwise it is a full fence.
#[inline(always)]
pub(crate) fn light_fence() {
    if imp::membarrier::state() == PRESENT {
        imp::compiler_fence();
    } else {
        imp::full_fence();
    }
}

/// The rare side of the pair: a system call of some microseconds.
pub(crate) fn heavy_fence() {
    // Before the fence: one that finds ABSENT, since another thread has waited, comes after what
    // that one has waited for.
    let mut state = imp::membarrier::state();
    imp::full_fence();
    if broken(Fault::AbsentAskedLate) {
        state = imp::membarrier::state();
    }
    let is_done = match state {
        ABSENT => true,
        PRESENT => imp::membarrier::run(),
        _ => false,
    };
    if !is_done {
        // The kernel has changed its mind (a new seccomp filter, say). From now on both sides are
        // full fences; and whoever has just passed a light one that was none is given time. Every
        // heavy side waits until one has waited.
        imp::membarrier::set(if broken(Fault::LeavingSkipped) { ABSENT } else { LEAVING });
        if !broken(Fault::NotWaitedOut) {
            imp::wait_out();
        }
        imp::membarrier::set(ABSENT);
        imp::full_fence();
    }
}

/// For statics, which loom's atomics cannot be made in.
pub(crate) use std::sync::atomic::AtomicU32 as StaticU32;

/// As above.
#[cfg(feature = "async")]
pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

/// For counters, which decide nothing: they are no part of a model.
pub(crate) use std::sync::atomic::AtomicU64 as CountU64;

/// The lock around sets of such counters, no part of a model either.
pub(crate) use std::sync::atomic::AtomicBool as CountLock;

#[cfg(loom)]
pub use imp::{forbid_membarrier, interrupt, set_epochs, set_fault, set_kernel, switch_out};

/// A step of a protocol that loom-tests can break, to show that its models notice.
///
/// Outside loom [`broken`] is a constant `false` and the broken branches do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The lane publishes its tail with Relaxed.
    LanePublishRelaxed,
    /// The lane's consumer hands emptied segments back with Relaxed.
    LaneRecycleRelaxed,
    /// A lane is put on its inbox's list with Relaxed.
    LaneAttachRelaxed,
    /// U2: the shard takes each message that it is to see to for one that it has skipped.
    LaneUnsureSkipped,
    /// D3: no fence between claim and look.
    LaneNoClaimFence,
    /// Y3: no fence between recall and look.
    LaneNoRecallFence,
    /// Y4: no second look.
    LaneClaimIgnored,
    /// `trim` frees segments in which the producer may look.
    LaneTrimTooEarly,
    /// R2: a segment is reused though a recall in it was left to the shard, which has not seen to
    /// it.
    LaneReuseUnsettled,
    /// V3: what was sent in doubt and not vouched for is vouched for with what is sent in doubt
    /// later.
    LaneDoubtsLeftOpen,
    /// A queue hands over without an order: what the last owner of a lane did is not seen by the
    /// next one.
    #[cfg(loom)]
    QueueRelaxed,
    /// G2: until when timers that share a reading are right is told of the last one.
    ReadingForgetsOthers,
    /// G3: a timer in doubt wakes no shard that sleeps until before it is due.
    DoubtWaits,
    /// G4: a reading vouches for timers that were armed too late for their date.
    ReadingVouchesBlindly,
    /// G5: the shard reads the clock before it claims what is in doubt.
    DoubtReadTooEarly,
    /// V1: a message's word is replaced by that of a later one.
    LaneDoubtNotLeast,
    /// V2: a message is published before it is in doubt.
    LaneDoubtLate,
    /// The messages of a segment that is used again are in doubt if those before them were.
    LaneDoubtKept,
    /// A segment is reused as soon as all its messages are read, though the shard may still stand on it.
    LaneReuseTooEarly,
    /// The chain is taken from without looking whether somebody else is at it.
    LaneBusyIgnored,
    /// The chain is left with Relaxed.
    LaneBusyRelaxed,
    /// A ringer does not fence between its push and its look at `wake_at`.
    DoorbellNoRingFence,
    /// The shard does not fence between its announcement and its second look.
    DoorbellNoWaitFence,
    /// The shard does not look at the lanes again after it published `wake_at`.
    DoorbellNoSecondLook,
    /// The shard announces its sleep with Relaxed.
    DoorbellAnnounceRelaxed,
    /// The winner among the ringers does not unpark the shard.
    DoorbellNoUnpark,
    /// The claim loads and stores the state word instead of one compare-and-swap.
    ClaimNotAtomic,
    /// The claim does not compare the generation.
    ClaimIgnoresGeneration,
    /// A worker's claim does not compare the deadline.
    ClaimIgnoresDeadline,
    /// Of the two that have to do with a doomed cell, the first to leave frees it.
    LeaveAlone,
    /// Whoever leaves a doomed cell publishes and acquires nothing.
    LeaveRelaxed,
    /// A re-arm that files the timer anew keeps its count.
    RefileKeepsCount,
    /// A run files its timer again without looking whether it was cancelled.
    RunFilesBlindly,
    /// A run that begins does not compare the generation.
    RunIgnoresGeneration,
    /// The winner of a claim publishes nothing.
    ClaimRelaxed,
    /// The loser of a claim acquires nothing.
    ClaimLostRelaxed,
    /// Arming publishes the payload with Relaxed.
    ArmRelaxed,
    /// A magazine given to the depot stays in use by its thread.
    MagazineKept,
    /// Fresh cells are handed out with Relaxed.
    FreshRelaxed,
    /// Fresh cells are handed out by a load and a store.
    FreshNotAtomic,
    /// A page is retired without noting its generation.
    RetireForgetsGeneration,
    /// `membarrier` has no effect.
    #[cfg(loom)]
    BarrierSkipped,
    /// Where the kernel refuses `membarrier` nobody waits for those that have passed a light fence.
    NotWaitedOut,
    /// Where the kernel refuses `membarrier` it is taken for absent at once: other heavy sides wait
    /// for nobody.
    LeavingSkipped,
    /// A heavy side asks whether somebody has waited for those that have passed a light fence when
    /// it has passed its own.
    AbsentAskedLate,
    /// T1: a page is retired though one of its cells is not in hand.
    RetireIncomplete,
    /// Two gather pages at the same time.
    GatherTogether,
    /// T3: a page is freed at once.
    RetireAtOnce,
    /// T2 after T3: a page can be found when its memory is given to the collector.
    UnlinkedLate,
    /// A cell is looked up without a pin though no cell of its page is at hand.
    LookUpUnguarded,
    /// `schedule` does not look at `closed` again after it armed the cell.
    StopNotSeenAfterArm,
    /// A `schedule` that takes its timer back from a stopped service, and finds that it runs, does not count its end.
    RunTakenBackNotCounted,
    /// `stop` does not wait for the turn that a manual clock runs.
    StopTurnNotAwaited,
    /// A further `stop` does not wait until the first one has claimed everything.
    FurtherStopWaitsForNobody,
    /// `stop` does not fence between its mark and its scan of the cells.
    StopNoFence,
    /// A job does not say that it runs.
    JobNotCounted,
    /// A1: whoever calls the attendant does not fence before it looks whether that sleeps.
    AttendantCalledWithoutFence,
    /// A5: the attendant does not fence before its look at the queues.
    AttendantSleepsWithoutFence,
    /// A6: the attendant does not look at the queues again.
    AttendantSleepsBlindly,
    /// A8: the attendant does not fence before it looks whether it was deposed.
    AttendantLeavesWithoutFence,
    /// A9: whoever deposes the attendant does not fence before its look at the queues.
    DeposedWithoutFence,
    /// A12: a shard that looks no more does not fence before its last look.
    UnwatchedWithoutFence,
    /// A7: the attendant leaves though it has just been called.
    AttendantLeavesBlindly,
    /// A leaf's payloads are published with Relaxed.
    LeafFillRelaxed,
    /// Payloads that are shared are taken by a load and a store.
    LeafTakeNotAtomic,
    /// Who wants to help does not fence before it looks how far the owner is.
    LeafHelpNoFence,
    /// Where the shared payloads begin is decided by a store.
    LeafSharedTwice,
    /// Who asks for shared payloads steps on, past the end too.
    LeafStepsPastEnd,
    /// An offer is taken with Relaxed.
    OfferRelaxed,
    /// Whoever takes an offer leaves no other.
    OfferNotRenewed,
    /// A worker that helps with a job does not say that it runs.
    HelperNotCounted,
    /// A worker that helps with a job is counted where new jobs are, not where its job is.
    HelperInPresentHalf,
    /// Who waits for jobs looks at one half of them.
    WaitForOneHalf,
    /// A job says with Relaxed that it has ended.
    JobEndRelaxed,
    /// Whoever drops what a dropped job names does not say so.
    AbandonNotCounted,
    /// A sleep that is polled with another waker keeps the first one.
    #[cfg(feature = "async")]
    SleepKeepsWaker,
    /// P4: a sleep whose timer is gone takes its time for come.
    #[cfg(feature = "async")]
    SleepTakesGoneForOver,
    /// P5: a sleep that is moved into the past wakes nobody.
    #[cfg(feature = "async")]
    SleepMovedInSilence,
}

/// The ordering of an access: `normal`, or Relaxed in the model that breaks this step.
#[inline(always)]
pub(crate) fn ordering(normal: Ordering, fault: Fault) -> Ordering {
    if broken(fault) { Ordering::Relaxed } else { normal }
}
