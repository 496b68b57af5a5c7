//! Pins and the pages that are unlinked: src/cell/pins.rs. A page is a cell that loom watches, and
//! the directory a flag. Threads look the page up while it is unlinked and freed.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{
    Fault, Limbo, Pinner, Pins, interrupt, set_kernel, set_pins, switch_out,
};
use wheelwork_loom_tests::{explore, must_fail};

/// What a model finds when a page is freed too early.
const FREED: &str = "Causality violation";

/// A page, and whether the directory has it.
struct World {
    pins: Pins,
    linked: AtomicBool,
    page: UnsafeCell<u32>,
}

// SAFETY: whoever looks at the page is pinned; whoever frees it has waited for that.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        set_pins(true);
        let pins = Pins::new();
        set_pins(false);
        Arc::new(Self {
            pins,
            linked: AtomicBool::new(true),
            page: UnsafeCell::new(7),
        })
    }

    fn look_up(&self, pinner: &Pinner) {
        pinner.pinned(|| self.read());
    }

    fn read(&self) {
        // Ordering: Acquire. As in `Arena::get`.
        if self.linked.load(Ordering::Acquire) {
            // SAFETY: the page was in the directory after the pin.
            let page = self.page.with(|page| unsafe { *page });
            assert_eq!(page, 7, "it is freed");
        }
    }

    /// Unlinks the page, looks `looks` times at the most, and frees it when it may. Whether it did.
    fn retire(&self, looks: usize) -> bool {
        let mut limbo = self.pins.limbo();
        // Ordering: Release. As in `Arena::retire_page`.
        self.linked.store(false, Ordering::Release);
        limbo.add(());
        (0..looks).any(|_| {
            limbo.look();
            if limbo.take().is_none() {
                thread::yield_now();
                return false;
            }
            // SAFETY: no thread looks at it any more.
            self.page.with_mut(|page| unsafe { *page = 0 });
            true
        })
    }
}

/// `look` on a thread of its own, while the page is retired.
fn against(looks: usize, look: impl FnOnce(&World) + Send + 'static) {
    let world = World::new();
    let reader = world.clone();
    let reader = thread::spawn(move || look(&reader));
    let early = world.retire(looks);
    reader.join().unwrap();
    if !early {
        assert!(world.retire(1), "it is freed when nobody is pinned");
    }
}

/// The thread is registered meanwhile.
fn one_look() {
    against(2, |world| world.look_up(&world.pins.register()));
}

/// The thread is registered before.
fn one_look_of_old() {
    let world = World::new();
    let (reader, pinner) = (world.clone(), world.pins.register());
    let reader = thread::spawn(move || reader.look_up(&pinner));
    let early = world.retire(2);
    reader.join().unwrap();
    assert!(
        early || world.retire(1),
        "it is freed when nobody is pinned"
    );
}

fn two_looks() {
    against(2, |world| {
        let pinner = world.pins.register();
        world.look_up(&pinner);
        world.look_up(&pinner);
    });
}

fn nested_looks() {
    against(2, |world| {
        let pinner = world.pins.register();
        pinner.pinned(|| {
            world.look_up(&pinner);
            world.read();
        });
    });
}

/// The kernel has `membarrier`: the light fence is none.
fn with_membarrier() {
    set_kernel(true);
    against(2, |world| {
        let pinner = world.pins.register();
        interrupt();
        world.look_up(&pinner);
        world.look_up(&pinner);
        switch_out();
    });
    set_kernel(false);
}

fn two_readers() {
    let world = World::new();
    let readers = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || world.look_up(&world.pins.register()))
    });
    world.retire(1);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
}

/// A thread has ended, and another one looks, ends, and looks as a third one, while the shard
/// sweeps words.
fn words_swept(looks: usize) {
    let world = World::new();
    let mut limbo = world.pins.limbo();
    drop(world.pins.register());
    let (reader, pinner) = (world.clone(), world.pins.register());
    let other = world.pins.register();
    drop(other);
    let reader = thread::spawn(move || {
        reader.look_up(&pinner);
        drop(pinner);
        if looks > 1 {
            reader.look_up(&reader.pins.register());
        }
    });
    // Ordering: Release. As in `Arena::retire_page`.
    world.linked.store(false, Ordering::Release);
    limbo.add(());
    limbo.sweep();
    limbo.look();
    limbo.sweep();
    let free = |limbo: &mut Limbo<()>| {
        let is_free = limbo.take().is_some();
        if is_free {
            // SAFETY: no thread looks at it any more.
            world.page.with_mut(|page| unsafe { *page = 0 });
        }
        is_free
    };
    let early = free(&mut limbo);
    reader.join().unwrap();
    limbo.sweep();
    limbo.look();
    assert!(
        early || free(&mut limbo),
        "it is freed when nobody is pinned"
    );
}

#[test]
fn words_of_threads_that_have_ended_are_swept() {
    explore(Some(3), || words_swept(2));
}

#[test]
fn broken_sweep() {
    must_fail(Fault::PinSweptInUse, FREED, Some(3), || words_swept(1));
}

#[test]
fn a_page_is_freed_when_no_thread_looks_at_it() {
    explore(None, one_look);
}

#[test]
fn whoever_looks() {
    explore(None, one_look_of_old);
}

#[test]
fn or_will_look_again() {
    explore(None, two_looks);
}

#[test]
fn or_looks_twice_at_one_time() {
    explore(None, nested_looks);
}

#[test]
fn whatever_the_fences_are() {
    explore(Some(3), with_membarrier);
}

#[test]
fn and_however_many_look() {
    explore(Some(3), two_readers);
}

#[test]
fn broken_pin_fence() {
    must_fail(Fault::PinUnfenced, FREED, None, one_look);
}

#[test]
fn broken_retire_fence() {
    must_fail(Fault::RetireUnfenced, FREED, None, one_look);
}

#[test]
fn broken_retire_fence_with_membarrier() {
    must_fail(Fault::RetireUnfenced, FREED, Some(3), with_membarrier);
}

#[test]
fn broken_look_before_the_fence() {
    must_fail(Fault::LookedEarly, FREED, None, one_look_of_old);
}

#[test]
fn broken_unpin() {
    must_fail(Fault::UnpinRelaxed, FREED, None, one_look);
}

#[test]
fn broken_pin() {
    must_fail(Fault::PinRelaxed, FREED, None, two_looks);
}
