//! Which code measures a job.

use crate::job::Job;
use crate::name::Name;
#[cfg(tokio_unstable)]
use crate::subjects::alt;
use crate::subjects::keeper::Kept;
use crate::subjects::owned::{Owned, TokioOwner, WheelOwner};
use crate::subjects::polled::{AsyncIo, OurTimeouts, Pingora, Polled, TokioSleeps, TokioTimeouts};
use crate::subjects::tasks::{self, Tasks};
use crate::subjects::{Subject, btree, delay_queue, heap, hhwt, library, wheelwork};
use crate::workload::Workload;
use crate::{fires, in_flight, paced, rest, throughput};
use ::wheelwork::Task;
use wheelwork_kit::in_flight::CancelledBy;
use wheelwork_kit::line::Figures;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    let (is_server, is_periodic) = (job.workload.is_server(), job.workload.is_periodic());
    match job.subject {
        Name::Wheelwork
        | Name::WheelworkBatch
        | Name::WheelworkInline
        | Name::WheelworkCores
        | Name::WheelworkFine
        | Name::WheelworkSpin => by::<wheelwork::Service<u64>>(job),
        Name::WheelworkClosure => by::<wheelwork::Service<Task>>(job),
        Name::WheelworkFuture if is_server => by::<Polled<OurTimeouts>>(job),
        Name::WheelworkFuture => by::<Tasks<tasks::Ours>>(job),
        Name::TokioFuture if is_server => by::<Polled<TokioTimeouts>>(job),
        Name::TokioFuture => by::<Tasks<tasks::Tokios>>(job),
        Name::Tokio => by::<Polled<TokioSleeps>>(job),
        Name::WheelworkWheel => by::<Owned<WheelOwner>>(job),
        Name::TokioEach => by::<Owned<TokioOwner>>(job),
        Name::HeapEach => by::<Owned<heap::Owner>>(job),
        Name::Delayqueue => by::<Owned<delay_queue::Owner>>(job),
        Name::MutexDelayqueue => by::<delay_queue::Locked>(job),
        Name::Hhwt => by::<hhwt::Hhwt>(job),
        Name::Pingora if is_periodic => by::<Tasks<tasks::Pingoras>>(job),
        Name::Pingora => by::<Polled<Pingora>>(job),
        Name::AsyncIo if is_periodic => by::<Tasks<tasks::AsyncIos>>(job),
        Name::AsyncIo => by::<Polled<AsyncIo>>(job),
        Name::Library if job.workload == Workload::W11Other => {
            Err("each thread owns its timers".to_string())
        }
        Name::Library if job.workload.rates().is_some() || job.workload == Workload::W7 => {
            Err("its owner sleeps, and polls nothing".to_string())
        }
        Name::Library => {
            // What a library takes by itself, as DPDK does, is no memory that is left of timers.
            if job.workload.has_windows() {
                library::begin();
            }
            by::<library::Library>(job)
        }
        #[cfg(tokio_unstable)]
        Name::TokioAlt => match job.workload {
            Workload::W11Other => Err("each thread owns its timers".to_string()),
            Workload::W7 => by::<Polled<TokioSleeps>>(job),
            _ if is_server => by::<Polled<TokioTimeouts>>(job),
            _ if job.workload.rates().is_some() => by::<Tasks<tasks::Tokios>>(job),
            _ => by::<alt::Alt>(job),
        },
        Name::Heap => by::<Kept<heap::Timers>>(job),
        Name::Btree => by::<Kept<btree::Timers>>(job),
    }
}

fn by<S: Subject>(job: &Job) -> Result<Figures, String> {
    match job.workload {
        Workload::W1 | Workload::W1Cold => Ok(throughput::insert::<S>(job)),
        Workload::W2 => Ok(throughput::window::<S>(job, 0)),
        Workload::W2b => Ok(throughput::window::<S>(job, throughput::WINDOW)),
        Workload::W3 => Ok(throughput::churn::<S>(job)),
        Workload::W4 => Ok(throughput::cancel_all::<S>(job)),
        Workload::W5 => fires::spread::<S>(job),
        Workload::W5b => fires::burst::<S>(job),
        Workload::W6 => Ok(rest::memory::<S>(job)),
        Workload::W7 => Ok(rest::idle::<S>(job)),
        Workload::W8 => Ok(throughput::rearm::<S>(job)),
        Workload::W9 => paced::fires::<S>(job),
        Workload::W9Periodic => paced::periodic::<S>(job),
        Workload::W9Instant => paced::periodic_at_once::<S>(job),
        Workload::W10 => Ok(paced::server::<S>(job, 50)),
        Workload::W10Fast => Ok(paced::server::<S>(job, 5)),
        Workload::W10Slow => Ok(paced::server::<S>(job, 500)),
        Workload::W11 => Ok(in_flight::window::<S>(job, CancelledBy::Same)),
        Workload::W11Other => Ok(in_flight::window::<S>(job, CancelledBy::Other)),
        Workload::W11Random => Ok(in_flight::window::<S>(job, CancelledBy::Random)),
        Workload::Growth => Err("growth is measured by w1 and w3".to_string()),
    }
}
