//! A phase of a measurement: threads, pinned one to a core, that do the same at once.

use crate::subjects::Map;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::system;

/// What a phase took, until nothing was put off any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) elapsed: Duration,
    /// The part of it that came after the last call.
    pub(crate) settling: Duration,
    /// Of all threads of the process.
    pub(crate) cpu: Duration,
}

/// Has a thread for each map work with it and with what it owns.
pub(crate) fn run<M: Map, O: Send>(
    maps: &mut [M],
    owns: &mut [O],
    work: impl Fn(&mut M, &mut O) + Sync,
) -> Cost {
    let (gate, work) = (&Barrier::new(maps.len() + 1), &work);
    thread::scope(|scope| {
        for (number, (map, own)) in maps.iter_mut().zip(owns).enumerate() {
            scope.spawn(move || {
                system::pin(number);
                gate.wait();
                gate.wait();
                work(map, own);
                gate.wait();
                map.settle();
                gate.wait();
            });
        }
        // All are there.
        gate.wait();
        let (start, cpu) = (Instant::now(), system::cpu_time());
        gate.wait();
        gate.wait();
        let done = start.elapsed();
        gate.wait();
        let elapsed = start.elapsed();
        Cost {
            elapsed,
            settling: elapsed - done,
            cpu: system::cpu_time() - cpu,
        }
    })
}
