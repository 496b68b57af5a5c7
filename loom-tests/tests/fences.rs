//! The pair of fences over a kernel with `membarrier`, and one that takes it back: src/sync/. One
//! side stores and looks behind a light fence, the other behind a heavy one: one of the two sees
//! the other's store. The kernel is a stand-in: it interrupts the light side at some point, before
//! it begins, between its steps, or after them; and the 10 ms of the real code are what they are
//! for: the light side has been interrupted, or has ended.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{
    Fault, forbid_membarrier, heavy_fence, interrupt, light_fence, set_kernel, switch_out,
};
use wheelwork_loom_tests::{explore, must_fail};

/// Each of the two sides, which stores in the one and looks at the other.
#[derive(Default)]
struct Words([AtomicUsize; 2]);

impl Words {
    fn store(&self, side: usize) {
        // Ordering: Relaxed. The fences are to order it.
        self.0[side].store(1, Ordering::Relaxed);
    }

    fn look(&self, side: usize) -> usize {
        // Ordering: Relaxed. As above.
        self.0[1 - side].load(Ordering::Relaxed)
    }
}

/// A side with the light fence, which may be interrupted; one with the heavy fence, which the
/// kernel may refuse; and another one whom it does refuse.
fn light_against_heavy(is_refused: bool, others: usize) {
    set_kernel(true);
    let words = Arc::new(Words::default());
    let light_words = words.clone();
    let light = thread::spawn(move || {
        interrupt();
        light_words.store(0);
        light_fence();
        let sees = light_words.look(0);
        switch_out();
        sees
    });
    let refused = move || {
        forbid_membarrier();
        heavy_fence();
    };
    let others: Vec<_> = (0..others).map(|_| thread::spawn(refused)).collect();
    if is_refused {
        forbid_membarrier();
    }
    words.store(1);
    heavy_fence();
    let sees = words.look(1);
    let light_sees = light.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    set_kernel(false);
    assert!(sees + light_sees > 0, "neither sees the other");
}

fn offered() {
    light_against_heavy(false, 0);
}

fn taken_back() {
    light_against_heavy(true, 0);
}

fn taken_back_from_another() {
    light_against_heavy(false, 1);
}

fn taken_back_from_two() {
    light_against_heavy(true, 1);
}

#[test]
fn a_light_fence_is_a_fence_where_there_is_a_heavy_one() {
    explore(None, offered);
}

#[test]
fn so_it_is_when_the_kernel_takes_its_offer_back() {
    explore(None, taken_back);
}

#[test]
fn and_when_it_does_so_for_another_thread() {
    explore(Some(3), taken_back_from_another);
}

#[test]
fn and_for_two_at_a_time() {
    explore(Some(2), taken_back_from_two);
}

#[test]
fn broken_barrier() {
    must_fail(
        Fault::BarrierSkipped,
        "neither sees the other",
        None,
        offered,
    );
}

#[test]
fn broken_wait() {
    must_fail(
        Fault::NotWaitedOut,
        "neither sees the other",
        None,
        taken_back,
    );
}

#[test]
fn broken_leaving_of_another() {
    must_fail(
        Fault::LeavingSkipped,
        "neither sees the other",
        Some(3),
        taken_back_from_another,
    );
}

#[test]
fn broken_leaving() {
    must_fail(
        Fault::LeavingSkipped,
        "neither sees the other",
        Some(2),
        taken_back_from_two,
    );
}

#[test]
fn broken_look_for_the_wait() {
    must_fail(
        Fault::AbsentAskedLate,
        "neither sees the other",
        Some(3),
        taken_back_from_another,
    );
}
