//! Which code measures a job.

use crate::callers::{self, Calls, Load, Spent};
use crate::disk::Folder;
use crate::fires;
use crate::job::Job;
use crate::ledger::Ledger;
use crate::random::Timers;
use crate::stored;
use crate::subjects::engine::{Change, Engine, Key};
use crate::subjects::{Grouped, Subject, Work, with};
use crate::sweep;
use crate::workload::Workload;
use std::sync::Arc;
use std::time::Instant;
use wheelwork_kit::line::Figures;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    with(job.subject, job)
}

impl Work for Job {
    fn by<S: Subject>(&self) -> Result<Figures, String> {
        let folder = Folder::new(&self.dir)?;
        if self.workload == Workload::Stored {
            return stored::measure::<S>(self, folder.path());
        }
        let ledger = Arc::<Ledger>::default();
        let subject = match self.workload {
            // All of them are due soon: a window that holds them, which the guide says to set.
            Workload::FireAck => S::open_window(folder.path(), &ledger, self.timers())?,
            _ => S::open(folder.path(), &ledger)?,
        };
        let measured = match self.workload {
            Workload::Floor => Err("it is an engine's own call".to_string()),
            Workload::Arm | Workload::Pipelined => arm(self, &subject, &folder, false),
            Workload::ArmCancel => arm(self, &subject, &folder, true),
            Workload::FireAck => fires::fire_and_ack(self, &subject, &ledger, &folder),
            Workload::Lateness => fires::lateness(self, &subject, &ledger),
            Workload::Sweep => sweep::measure(self, &subject),
            Workload::Stored => Err("it opens the store by itself".to_string()),
        };
        let closed = subject.close();
        measured.and_then(|figures| closed.map(|()| figures))
    }

    fn by_engine<E: Engine>(&self) -> Result<Figures, String> {
        match self.workload {
            Workload::Floor => floor::<E>(self),
            _ => self.by::<Grouped<E>>(),
        }
    }
}

/// Rates: callers, or two threads that never wait for the latest call.
fn arm<S: Subject>(
    job: &Job,
    subject: &S,
    folder: &Folder,
    cancels: bool,
) -> Result<Figures, String> {
    let spent = Spent::start(subject.server(), folder.path());
    let load = Load {
        callers: job.count,
        time: job.time(),
        cancels,
    };
    let timers = |thread| Timers::far(job.seed.wrapping_mul(6007).wrapping_add(thread));
    let (calls, elapsed) = callers::run(subject, load, timers)?;
    let mut figures = calls.figures(elapsed);
    figures.0.extend(spent.each(calls.count(), folder.path()).0);
    Ok(figures)
}

/// The engine's own commits of one row, without a writer, on this thread.
fn floor<E: Engine>(job: &Job) -> Result<Figures, String> {
    let folder = Folder::new(&job.dir)?;
    let mut engine = E::open(folder.path(), &Arc::default())?;
    let mut timers = Timers::far(job.seed);
    let spent = Spent::start(engine.server(), folder.path());
    let mut calls = Calls::new();
    let start = Instant::now();
    let mut now = start;
    while now - start < job.time() {
        let key = Key {
            due: timers.due(),
            number: calls.count(),
        };
        engine.commit(&[Change::Arm(key, timers.payload())])?;
        let then = Instant::now();
        calls.took(then - now);
        now = then;
    }
    let mut figures = calls.figures(now - start);
    figures.0.extend(spent.each(calls.count(), folder.path()).0);
    engine.close()?;
    Ok(figures)
}
