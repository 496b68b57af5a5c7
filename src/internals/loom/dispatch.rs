//! Dispatch: an attendant, the jobs in flight, and the grains of a job, each by itself.

use crate::dispatch::attendant::{self, Called, Slept};
use crate::dispatch::{Half, announcements, grain};
use crate::engine::life::in_flight;
use crate::sync;
use std::time::Duration;

/// Where an attendant is called.
pub struct Post(attendant::Post);

/// A thread's time as attendant.
#[derive(Clone, Copy)]
pub struct Term(attendant::Term);

impl Post {
    /// For the calling thread, whose number is 0.
    #[expect(clippy::new_without_default, reason = "made in models only")]
    pub fn new() -> Self {
        Self(attendant::Post::new(vec![sync::current()]))
    }

    /// CallFence to CallWake. Returns whether others have to be told.
    pub fn call(&self) -> bool {
        self.0.call() == Called::Vacant
    }

    /// The calling thread becomes the attendant.
    pub fn begin(&self) -> Option<Term> {
        self.0.begin(0).map(Term)
    }

    /// Whether the term goes on, and the attendant is awake.
    pub fn attends(&self, term: Term) -> bool {
        self.0.awake() == Some(term.0)
    }

    /// KeepFence, KeepLook.
    pub fn may_leave(&self, term: Term) -> bool {
        self.0.may_leave(term.0)
    }

    /// WatchBegin.
    pub fn watch(&self) {
        self.0.watch();
    }

    /// WatchEnd.
    pub fn unwatch(&self) {
        self.0.unwatch();
    }

    /// Depose, of an attendant that is awake. Returns whether it was deposed.
    pub fn depose(&self) -> bool {
        self.0.awake().is_some_and(|term| self.0.depose(term))
    }

    /// AttendAnnounce to AttendPark. Returns whether the calling thread is still the attendant.
    pub fn sleep(
        &self,
        term: Term,
        half_limit: Duration,
        work_waits: impl FnOnce() -> bool,
    ) -> bool {
        self.0.sleep(term.0, half_limit, work_waits) == Slept::Called
    }
}

/// The announcements of a pool.
#[derive(Debug)]
pub struct Announcements(announcements::Announcements);

impl Announcements {
    /// None so far.
    #[expect(clippy::new_without_default, reason = "made in models only")]
    pub fn new() -> Self {
        Self(announcements::Announcements::new())
    }

    /// AnnounceNote.
    pub fn note(&self) {
        self.0.note();
    }

    /// HearNote to HearAgain.
    pub fn hear(&self, take: impl Fn() -> bool, waiting: impl Fn() -> usize) {
        self.0.hear(take, waiting);
    }

    /// CountMade to CountHeard.
    pub fn missing(&self, waiting: impl FnOnce() -> usize) -> u64 {
        self.0.missing(waiting)
    }
}

/// The jobs in flight.
#[derive(Debug, Default)]
pub struct InFlight(in_flight::InFlight);

impl InFlight {
    /// A job begins. Returns its half.
    pub fn begin(&self) -> usize {
        self.0.begin().0
    }

    /// A further thread begins with the job.
    pub fn begin_in(&self, half: usize) {
        self.0.begin_in(Half(half));
    }

    /// A thread has ended with the job.
    pub fn end(&self, half: usize) {
        self.0.end(Half(half));
    }

    /// StopWait.
    pub fn wait_for_all(&self) {
        self.0.wait_for_all();
    }

    /// New jobs go to the other half, as when another thread waits.
    pub fn turn_over(&self) {
        self.0.turn_over();
    }

    /// AwaitJobs.
    pub fn wait_for_present(&self) {
        self.0.wait_for_present();
    }
}

/// The grains of a job, by themselves.
pub struct Grains<P>(grain::Grains<P>);

/// One grain, as its owner or a helper sees it.
pub struct Grain<'a, P>(grain::Grain<'a, P>);

impl<P> Grains<P> {
    /// Grains for this number of entries.
    pub fn new(entries: usize) -> Self {
        Self(grain::Grains::new(entries))
    }

    /// Fills the first grain, and owns it.
    ///
    /// # Safety
    /// Once.
    pub unsafe fn fill(&self, payloads: impl Iterator<Item = P>) -> Grain<'_, P> {
        let mut grain = self.0.grain(0).expect("there are entries");
        // SAFETY: the caller's promise.
        unsafe { grain.fill(|filling| payloads.for_each(|payload| filling.add(payload))) };
        Grain(grain)
    }

    /// The first grain, to help with.
    pub fn help(&self) -> Grain<'_, P> {
        Grain(self.0.grain(0).expect("there are entries"))
    }
}

impl<P> Grain<'_, P> {
    /// The number of payloads that nobody has taken.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Takes a payload.
    pub fn take(&self) -> Option<P> {
        self.0.take()
    }
}
