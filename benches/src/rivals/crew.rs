//! The crew: producer threads, pinned one to a core, that go through a measurement's phases together.

use crate::subjects::Subject;
use crate::system;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// What a phase took, until the last operation had settled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) elapsed: Duration,
    /// The part of it that came after the producers were done.
    pub(crate) settling: Duration,
    /// Of all threads of the process.
    pub(crate) cpu: Duration,
}

/// What each producer does in a phase with what it owns.
pub(crate) type Phase<'a, P, O> = &'a (dyn Fn(&mut P, &mut O) + Sync);

/// Takes one thread for each of `owns` through the phases, and tells `watch` each one's number and cost while the threads wait.
pub(crate) fn run<S: Subject, O: Send>(
    subject: &S,
    owns: &mut [O],
    phases: &[Phase<'_, S::Producer, O>],
    mut watch: impl FnMut(usize, &Cost),
) {
    let gate = &Barrier::new(owns.len() + 1);
    // From the last core down: wheelwork's shards are pinned from the first one up, other services' threads go where there is room.
    let mut cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.reverse();
    thread::scope(|scope| {
        for (number, own) in owns.iter_mut().enumerate() {
            let core = cores.get(number % cores.len().max(1)).copied();
            scope.spawn(move || {
                core.map(core_affinity::set_for_current);
                subject.within(|producer| {
                    for phase in phases {
                        gate.wait();
                        phase(producer, own);
                        gate.wait();
                    }
                    // What is armed stays so until it was looked at.
                    gate.wait();
                });
            });
        }
        for number in 0..phases.len() {
            let (start, cpu) = (Instant::now(), system::cpu_time());
            gate.wait();
            gate.wait();
            let done = start.elapsed();
            subject.settle();
            let elapsed = start.elapsed();
            watch(number, &Cost { elapsed, settling: elapsed - done, cpu: system::cpu_time() - cpu });
        }
        gate.wait();
    });
}
