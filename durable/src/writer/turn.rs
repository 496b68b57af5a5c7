//! Writer: the one that owns the store. It takes turns: each stores what callers and handlers want,
//! many changes in one commit, and keeps the window loaded. What a turn consists of is in files of
//! their own; here are the turns, the watermark and the clocks.
//!
//! It has a thread, or on a manual clock the threads of its callers, one at a time. The README has
//! the protocol: the steps of a turn by their names.

use super::aside::Aside;
use super::fleet_watch::FleetWatch;
use super::large::LargeCalls;
use super::pace::Pace;
use super::stall::StallWatch;
use super::window::{Bounds, ClockReading, Window};
use crate::handler::caught::caught;
use crate::handler::error::DurableError;
use crate::queue::fired::Fired;
use crate::queue::lanes::RequestQueue;
use crate::queue::link::DurableShared;
use crate::queue::ticket::Teller;
use crate::store::contract::{Lease, SliceLimit, Store, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, Partition, Position, Row, StoreTime};
use crate::store::why::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wheelwork::ServiceHandle;
use wheelwork::TimerId;
use wheelwork::run_as_task;

/// Rows of the first load: nobody knows yet how large they are.
const SLICE_ROWS_FIRST: usize = 64;

/// Bytes of a row that gets another deadline, before one was seen.
const MOVED_BYTES_FIRST: usize = 65_536;

/// Rows may be handed out that are due within this time, or twice it.
const CLAIM_AHEAD: Duration = Duration::from_millis(500);

/// How often the writer looks at the system's clock, and counts the store's rows, while it has
/// something to watch.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A step of the system's clock that is noticed: less is the drift of two clocks.
const CLOCK_STEP: Duration = Duration::from_millis(5);

/// A stop waits no longer for somebody's transaction.
const STOP_MAX: Duration = Duration::from_secs(5);

/// A partition that this node owns.
#[derive(Clone, Copy)]
pub(super) struct Owned {
    pub(super) lease: Lease,
    /// Up to here all rows are in the window.
    pub(super) loaded: Position,
    /// Of a store that is shared: the watermark of the partition.
    pub(super) claimed: StoreTime,
    /// It is given back as soon as nothing of it is being handled.
    pub(super) is_leaving: bool,
}

impl Owned {
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            lease,
            loaded: Position::MIN,
            claimed: StoreTime::MIN,
            is_leaving: false,
        }
    }
}

/// What the writer does next.
pub(super) enum After {
    /// Another turn, at once.
    Turn,
    /// It waits for a request, or for this time.
    Wait(Option<Duration>),
    /// It has ended.
    End,
}

/// The owner of a store.
pub(crate) struct Writer {
    pub(super) store: Box<dyn Store>,
    pub(super) shared: Arc<DurableShared>,
    pub(super) requests: RequestQueue,
    pub(super) window: Window,
    /// What waits for somebody's transaction.
    pub(super) aside: Aside,
    /// Calls that take more than one turn.
    pub(super) large: LargeCalls,
    /// How much is stored at once, and how much is read for a large call.
    pub(super) pace: Pace,
    pub(super) look_pace: Pace,
    /// By partition.
    pub(super) owned: Vec<Owned>,
    /// What there is to know of other nodes.
    pub(super) fleet: Option<FleetWatch>,
    /// The watermark.
    pub(super) claimed: StoreTime,
    /// When it was made, by the window's clock.
    started: Instant,
    /// The system's time at the origin of the window's clock, when the timers were filed.
    offset: Option<SystemTime>,
    /// When the store was last measured, by the window's clock.
    pub(super) measured: Option<Instant>,
    /// On a manual clock: how long it waits for something to do. Twice as long each time that it
    /// has measured the store, until something happens.
    pub(super) look_every: Duration,
    /// The store may have rows, so that a step of the system's clock matters.
    pub(super) has_rows: bool,
    /// Of rows with a calendar that is behind: the runs in a row that were made up for.
    pub(super) made_up: IdMap<DurableId, u32>,
    /// Nothing is handed out any more.
    pub(super) is_stopping: bool,
    /// Rows that the next load asks for at most. It follows from their sizes.
    pub(super) slice_rows: usize,
    /// Bytes that a change writes again if it moves or revives a row: those of the last ones.
    pub(super) moved_bytes: usize,
    /// The store has put work off.
    pub(super) has_upkeep: bool,
    /// On a manual clock: the timer of the next turn.
    pub(super) next_turn: Option<TimerId>,
    pub(super) stop: Option<Teller<()>>,
    /// Then it ends, whatever waits.
    stop_until: Option<Duration>,
    /// (The last field: what waits for an answer has one, when this ends.)
    watch: Option<StallWatch>,
}

impl Writer {
    /// Takes the leases.
    pub(crate) fn new(
        mut store: Box<dyn Store>,
        shared: Arc<DurableShared>,
        requests: RequestQueue,
        service: ServiceHandle<Fired>,
        bounds: Bounds,
        watch: Option<StallWatch>,
    ) -> Result<Self, StoreError> {
        let started = service.now();
        let mut owned: Vec<_> = store.acquire()?.into_iter().map(Owned::new).collect();
        owned.sort_unstable_by_key(|owned| owned.lease.partition);
        if let Some(rights) = &shared.rights {
            // (Until when they last, the first renewal tells.)
            for Owned { lease, .. } in &owned {
                rights.set(lease.partition, lease.epoch);
            }
        }
        let fleet = store.shared().map(|store| {
            store.on_news(shared.news());
            FleetWatch::new(store.claim_ahead())
        });
        // (A turn stores once, and reads once.)
        let goal = fleet.as_ref().map(|fleet| fleet.ahead / 2);
        let mut writer = Self {
            pace: Pace::new(bounds.slice, goal),
            look_pace: Pace::new(bounds.slice, goal),
            fleet,
            store,
            window: Window::new(service, shared.clone(), bounds),
            shared,
            requests,
            aside: Aside::default(),
            large: LargeCalls::default(),
            moved_bytes: MOVED_BYTES_FIRST,
            owned,
            claimed: StoreTime::MIN,
            started,
            offset: None,
            made_up: IdMap::default(),
            measured: None,
            look_every: LOOK_EVERY,
            has_rows: true,
            is_stopping: false,
            slice_rows: SLICE_ROWS_FIRST.min(bounds.slice.rows),
            has_upkeep: true,
            next_turn: None,
            stop: None,
            stop_until: None,
            watch,
        };
        writer.measure_store()?;
        Ok(writer)
    }

    /// The writer's thread: turns until the service has stopped, or the store has failed.
    pub(crate) fn run(mut self) {
        self.shared.take_turns_here();
        loop {
            match self.turn() {
                After::Turn => {}
                After::End => return,
                After::Wait(wait) => self.requests.wait(wait),
            }
        }
    }

    pub(super) fn turn(&mut self) -> After {
        let began = self.shared.elapsed();
        if !is_broken(DurableFault::TurnNotPublished) {
            self.shared.counts.begin_turn(began);
        }
        let timer = self.watch.as_ref().and_then(|watch| watch.begin(began));
        // A store may be a user's.
        let result = catch_unwind(AssertUnwindSafe(|| self.try_turn()));
        self.shared.counts.end_turn();
        if let (Some(watch), Some(timer)) = (&self.watch, timer) {
            watch.end(timer);
        }
        let error = match result {
            Ok(Ok(after)) => return after,
            Ok(Err(error)) => error,
            Err(panic) => StoreError::Io(panic_text(&*panic).into()),
        };
        self.fail(error);
        After::End
    }

    /// The store has failed: whoever waits is told, and nothing fires any more.
    fn fail(&mut self, error: StoreError) {
        let error = self.shared.fail(error);
        self.window.service().cancel_all();
        for request in self.requests.drain() {
            request.refuse(&error);
        }
        for waiting in self.aside.take_all() {
            waiting.planned.reply.refuse(&error);
        }
        self.large.refuse(&error);
        if let Some(stop) = self.stop.take() {
            stop.tell(Err(error));
        }
        let Some(failure) = self.shared.failure() else {
            return;
        };
        #[cfg(feature = "tracing")]
        crate::queue::events::store_failed(failure);
        if let Some(hook) = &self.shared.hooks.store_failed {
            // (If it ends the timers, the writer does not wait for itself.)
            run_as_task(|| caught(|| hook(failure)));
        }
    }

    fn try_turn(&mut self) -> Result<After, StoreError> {
        let clocks = self.read_clocks();
        let now = self.store.clock(clocks.system)?;
        self.look_at_clock(clocks);
        self.renew()?;
        self.take_back_notes()?;
        // The commit may take long: what falls due meanwhile must not wait for it.
        self.claim(now)?;
        // (In a fleet the window has what is claimed. Elsewhere that is in it already.)
        let mut is_loaded = self.fleet.is_none() || self.load(clocks, now)?;
        // TurnTake. (If something fails before, those who wait are told why.)
        let (taken, room) = self.take_requests();
        if taken.count() > 0 {
            self.look_every = LOOK_EVERY;
        }
        let is_full = room.is_reached(0, 0);
        self.serve(taken, room, clocks, now)?;
        // (What handlers have said has made partitions idle.)
        self.give_back_idle()?;
        let is_too_full = self.window.is_too_full();
        if is_too_full {
            self.shrink();
        }
        let has_room = self.give_back_rows();
        self.take_back_notes()?;
        if self.fleet.is_some() {
            is_loaded &= self.scan()?;
            // (What was handled has made room. What has just left the window would leave it again.)
            is_loaded &= is_too_full || !self.is_behind();
        } else {
            is_loaded = self.load(clocks, now)?;
            self.claim(now)?;
        }
        is_loaded &= self.load_suspects(clocks)?;
        if is_loaded {
            self.begin_trials(clocks, now)?;
        }
        if let Some(stop) = self.stop_now() {
            self.store.release()?;
            stop.tell(Ok(()));
            return Ok(After::End);
        }
        if self.has_upkeep {
            self.has_upkeep = self.store.upkeep()?;
        }
        self.measure(now)?;
        if is_full || !is_loaded || !has_room || self.has_upkeep || !self.large.is_empty() {
            return Ok(After::Turn);
        }
        Ok(After::Wait(self.next(now)?))
    }

    /// Who has stopped the service, if nothing of handlers is left to be stored. What somebody's
    /// transaction holds up for longer stays in the store, and fires on another node or later.
    fn stop_now(&mut self) -> Option<Teller<()>> {
        self.stop.as_ref()?;
        let elapsed = self.shared.elapsed();
        let until = *self.stop_until.get_or_insert(elapsed + STOP_MAX);
        for planned in self.aside.take_calls() {
            planned.reply.refuse(&DurableError::Stopped);
        }
        self.large.refuse(&DurableError::Stopped);
        if self.aside.next(elapsed).is_some() && elapsed < until {
            return None;
        }
        self.stop.take()
    }

    /// What the window's clock shows.
    pub(super) fn time(&self) -> Instant {
        self.window.service().now()
    }

    /// Reads the node's clocks, the system's first: what is due by the other one is due by it.
    fn read_clocks(&self) -> ClockReading {
        let system = self.shared.now();
        let monotonic = self.time();
        ClockReading { system, monotonic }
    }

    /// Whether the system's clock was set: then all timers of the window are armed anew.
    fn look_at_clock(&mut self, clocks: ClockReading) {
        let since = clocks.monotonic.saturating_duration_since(self.started);
        let Some(offset) = clocks.system.checked_sub(since) else {
            return;
        };
        let Some(former) = self.offset else {
            self.offset = Some(offset);
            return;
        };
        let step = offset
            .duration_since(former)
            .unwrap_or_else(|error| error.duration());
        if step > CLOCK_STEP || is_broken(DurableFault::SlewIgnored) {
            self.offset = Some(offset);
        }
        if step > CLOCK_STEP && !is_broken(DurableFault::ClockNotFollowed) {
            self.window.refile(clocks);
        }
    }

    /// The epoch of a partition's lease.
    pub(super) fn epoch(&self, partition: Partition) -> u64 {
        self.owner(partition).map_or(0, |owned| owned.lease.epoch)
    }

    pub(super) fn owner(&self, partition: Partition) -> Option<&Owned> {
        let by_partition = |owned: &Owned| owned.lease.partition.cmp(&partition);
        let at = self.owned.binary_search_by(by_partition).ok()?;
        self.owned.get(at)
    }

    /// Whether a row is due in the part of the window that is loaded.
    pub(super) fn is_loaded(&self, row: &Row) -> bool {
        self.owner(row.id.partition())
            .is_some_and(|owned| row.position() <= owned.loaded)
    }

    /// TurnClaim: raises the watermark, if a row of the window is due soon.
    fn claim(&mut self, now: StoreTime) -> Result<(), StoreError> {
        if self.fleet.is_some() {
            return self.claim_leases(now);
        }
        if self.claim_at().is_none_or(|at| at > now) {
            return Ok(());
        }
        let upto = now.after(CLAIM_AHEAD * 3);
        if is_broken(DurableFault::ClaimedBeforeCommit) {
            self.shared.claim(upto);
        }
        self.store.hand_out(upto)?;
        self.claimed = upto;
        self.shared.claim(upto);
        // (What falls due may lag.)
        self.look_every = LOOK_EVERY;
        Ok(())
    }

    /// When the watermark is to be raised next.
    fn claim_at(&self) -> Option<StoreTime> {
        let oldest = self.window.oldest_after(self.claimed)?;
        let ahead = |time: StoreTime, by: Duration| {
            let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            StoreTime::from_millis(time.as_millis().saturating_sub(by))
        };
        // Not before most of the present claim is used up.
        Some(ahead(oldest, CLAIM_AHEAD * 2).max(ahead(self.claimed, CLAIM_AHEAD)))
    }

    /// How long the writer may wait for a request.
    fn next(&mut self, now: StoreTime) -> Result<Option<Duration>, StoreError> {
        let aside = self.aside.next(self.shared.elapsed());
        if let Some(wait) = self.next_of_fleet(now) {
            let waits = [Some(wait), aside, self.next_trial(now)];
            return Ok(waits.into_iter().flatten().min());
        }
        let claim = self.claim_at().map(|at| at.since(now));
        let load = self.next_load(now)?;
        // (A manual clock drifts from no other one, and tells when it is set.)
        let look_every = match self.shared.is_manual() {
            true => self.look_every,
            false => LOOK_EVERY,
        };
        let look = self.has_rows.then_some(look_every);
        let trial = self.next_trial(now);
        Ok([claim, load, look, aside, trial]
            .into_iter()
            .flatten()
            .min())
    }

    /// How long it takes until the window is to be loaded further.
    fn next_load(&mut self, now: StoreTime) -> Result<Option<Duration>, StoreError> {
        if self.window.room() == 0 || self.is_stopping {
            return Ok(None);
        }
        let mut next = None;
        for Owned { lease, loaded, .. } in &self.owned {
            let mut upto = Some(loaded.due);
            if self.shared.is_manual() {
                // Years may pass at once: it waits until there is something to load.
                let (until, limit) = (StoreTime::MAX, SliceLimit::rows(1));
                let rows = self.store.load(lease.partition, *loaded, until, limit)?;
                upto = rows.first().map(|row| row.due);
            }
            next = next.into_iter().chain(upto).min();
        }
        let ahead = self.window.bounds().ahead / 4 * 3;
        Ok(next.map(|due| due.since(now).saturating_sub(ahead)))
    }
}
