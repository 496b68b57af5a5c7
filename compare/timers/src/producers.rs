//! Producers: threads, pinned one to a core, that go through a measurement's phases together.

use crate::job::Job;
use crate::subjects::{Producer, Subject};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::system;

/// What a phase took, until the last operation had settled. Work that a service puts off, until its
/// threads rest, counts by its CPU time, and the wait for it does not.
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

/// The service is not taken down: the process ends.
pub(crate) fn start<S: Subject>(job: &Job) -> &'static S {
    Box::leak(Box::new(S::start(job.subject)))
}

/// Between two looks whether the process rests, and what its threads may take in one that finds so.
const LOOK: Duration = Duration::from_millis(20);
const RESTING: Duration = Duration::from_micros(400);

/// Looks at a process that does not rest, as one whose timers come due. (Giving memory back to the
/// system, a quarter of a second later, is no part of a call.)
const LOOKS: usize = 10;

/// Waits until the process rests. Returns the CPU time that its threads took before.
fn rest() -> Duration {
    let start = system::cpu_time();
    let mut before = start;
    for _ in 0..LOOKS {
        thread::sleep(LOOK);
        let now = system::cpu_time();
        if now - before < RESTING {
            break;
        }
        before = now;
    }
    before - start
}

/// Takes one thread for each of `owns` through the phases, and tells `watch` each one's number
/// while the threads wait. Returns what the last one took.
pub(crate) fn run<S: Subject, O: Send>(
    subject: &S,
    owns: &mut [O],
    phases: &[Phase<'_, S::Producer, O>],
    mut watch: impl FnMut(usize),
) -> Cost {
    let gate = &Barrier::new(owns.len() + 1);
    let mut last = Cost::default();
    thread::scope(|scope| {
        for (number, own) in owns.iter_mut().enumerate() {
            scope.spawn(move || {
                system::pin(number);
                subject.within(|producer| {
                    for phase in phases {
                        gate.wait();
                        phase(producer, own);
                        producer.settle();
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
            let (elapsed, before) = (start.elapsed(), system::cpu_time());
            subject.work_off();
            let after = system::cpu_time();
            watch(number);
            let put_off = after - before + rest();
            last = Cost {
                elapsed: elapsed + put_off,
                settling: elapsed + put_off - done,
                cpu: before - cpu + put_off,
            };
        }
        gate.wait();
    });
    last
}
