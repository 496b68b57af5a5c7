//! Writer: owns the store. It takes turns. Each turn stores what callers and handlers want, many
//! changes in one commit, and keeps the rows that are due soon in the window. This file has the
//! order of the steps of a turn, and what follows the clocks; other files have the steps.
//!
//! The writer has a thread of its own. On a manual clock it has none, and its callers take its
//! turns, one at a time. `src/README.md` has the protocol, with the names of the steps.

use super::alone::Alone;
use super::aside::Aside;
use super::core::{Core, LOOK_EVERY, Owned};
use super::done::DoneWork;
use super::down::Down;
use super::fleet::Fleet;
use super::hold::HeldRows;
use super::large::LargeCalls;
use super::ownership::Ownership;
use super::pace::Pace;
use super::queues::Queues;
use super::stall::StallWatch;
use super::window::{Bounds, ClockReading, Window};
use crate::handler::error::DurableError;
use crate::queue::fired::Fired;
use crate::queue::lanes::RequestQueue;
use crate::queue::link::DurableShared;
use crate::queue::pauses::PauseNews;
use crate::queue::ticket::Teller;
use crate::store::contract::{Store, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::StoreTime;
use crate::store::why::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wheelwork::ServiceHandle;
use wheelwork::TimerId;

/// Rows of the first load, which is small because the size of the rows is not known yet.
const SLICE_ROWS_FIRST: usize = 64;

/// Assumed bytes of a row that gets another deadline, as long as no such row was seen.
const MOVED_BYTES_FIRST: usize = 65_536;

/// If the system's clock has moved by more than this against the monotonic clock, it was set. A
/// smaller difference is the drift of the two clocks.
const CLOCK_STEP: Duration = Duration::from_millis(5);

/// The longest time for which a stop waits for transactions that are in the way.
const STOP_MAX: Duration = Duration::from_secs(5);

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
    pub(super) core: Core,
    pub(super) ownership: Box<dyn Ownership>,
    pub(super) requests: RequestQueue,
    /// Calls that take more than one turn.
    pub(super) large: LargeCalls,
    /// `pace` says how much is stored at once, `look_pace` how much is read for a large call.
    pub(super) pace: Pace,
    pub(super) look_pace: Pace,
    /// When it was made, by the window's clock.
    started: Instant,
    /// The system's time at the origin of the window's clock, when the timers were filed.
    offset: Option<SystemTime>,
    /// When the store was last measured, by the window's clock.
    pub(super) measured: Option<Instant>,
    /// Bytes that a change is taken to write if it moves or revives a row: the average of the last
    /// commit that had such changes.
    pub(super) moved_bytes: usize,
    /// What is known of records of runs.
    pub(super) done: DoneWork,
    /// Whether the store may have upkeep to do that it has put off.
    pub(super) has_upkeep: bool,
    /// On a manual clock: the timer of the next turn.
    pub(super) next_turn: Option<TimerId>,
    pub(super) stop: Option<Teller<()>>,
    /// What the rules that were read last have changed, until it is followed.
    pub(super) pauses: PauseNews,
    /// The store is away, or was.
    pub(super) down: Down,
    /// At this time a stop ends the writer, even if changes still wait.
    stop_until: Option<Duration>,
    /// (The last field, so that it is dropped last: by then all callers that waited have their
    /// answers.)
    watch: Option<StallWatch>,
}

impl Writer {
    /// Makes the writer, which takes the leases of the store.
    pub(crate) fn new(
        mut store: Box<dyn Store>,
        shared: Arc<DurableShared>,
        requests: RequestQueue,
        service: ServiceHandle<Fired>,
        bounds: Bounds,
        watch: Option<StallWatch>,
    ) -> Result<Self, StoreError> {
        let started = service.now();
        if let Some(store) = store.shared() {
            store.handles(&shared.kinds.names());
        }
        let mut owned: Vec<_> = store.acquire()?.into_iter().map(Owned::new).collect();
        owned.sort_unstable_by_key(|owned| owned.lease.partition);
        if let Some(rights) = &shared.rights {
            // (The first renewal says until when the leases last.)
            for Owned { lease, .. } in &owned {
                rights.set(lease.partition, lease.epoch);
            }
        }
        let ahead = store.shared().map(|store| {
            store.on_news(shared.news());
            store.claim_ahead()
        });
        let ownership: Box<dyn Ownership> = match ahead {
            Some(ahead) => Box::new(Fleet::new(ahead)),
            None => Box::new(Alone),
        };
        // (A turn stores once, and reads once.)
        let goal = ahead.map(|ahead| ahead / 2);
        let core = Core {
            store,
            window: Window::new(service, shared.clone(), bounds),
            shared,
            aside: Aside::default(),
            held: HeldRows::new(),
            queues: Queues::default(),
            owned,
            claimed: StoreTime::MIN,
            has_rows: true,
            made_up: IdMap::default(),
            is_stopping: false,
            slice_rows: SLICE_ROWS_FIRST.min(bounds.slice.rows),
            look_every: LOOK_EVERY,
        };
        let mut writer = Self {
            core,
            ownership,
            requests,
            large: LargeCalls::default(),
            pace: Pace::new(bounds.slice, goal),
            look_pace: Pace::new(bounds.slice, goal),
            started,
            offset: None,
            measured: None,
            moved_bytes: MOVED_BYTES_FIRST,
            done: DoneWork::default(),
            has_upkeep: true,
            next_turn: None,
            stop: None,
            pauses: PauseNews::default(),
            down: Down::default(),
            stop_until: None,
            watch,
        };
        writer.measure_store()?;
        Ok(writer)
    }

    /// The writer's thread: turns until the service has stopped, or the store has failed.
    pub(crate) fn run(mut self) {
        self.core.shared.take_turns_here();
        loop {
            match self.turn() {
                After::Turn => {}
                After::End => return,
                After::Wait(wait) => self.requests.wait(wait),
            }
        }
    }

    pub(super) fn turn(&mut self) -> After {
        let began = self.core.shared.elapsed();
        if !is_broken(DurableFault::TurnNotPublished) {
            self.core.shared.counts.begin_turn(began);
        }
        let timer = self.watch.as_ref().and_then(|watch| watch.begin(began));
        // A store may be a user's.
        let is_away = self.down.now.is_some();
        let result = match is_away {
            true => Ok(Ok(self.away())),
            false => catch_unwind(AssertUnwindSafe(|| self.try_turn())),
        };
        let load = self.core.aside.load();
        self.core.shared.set_aside(load.calls, load.bytes);
        self.core.shared.counts.end_turn();
        if let (Some(watch), Some(timer)) = (&self.watch, timer) {
            watch.end(timer);
        }
        match result {
            Ok(Ok(after)) => after,
            Ok(Err(error)) => self.fail(error, true),
            // (What the turn has left undone is not known.)
            Err(panic) => self.fail(StoreError::Io(panic_text(&*panic).into()), false),
        }
    }

    /// The steps of a turn, as the README has them.
    fn try_turn(&mut self) -> Result<After, StoreError> {
        let clocks = self.core.read_clocks();
        let now = self.core.store.clock(clocks.system)?;
        self.look_at_clock(clocks);
        self.ownership.renew(&mut self.core)?;
        self.core.take_back_notes()?;
        // This comes before the commit, which may take long: what falls due meanwhile must not wait
        // for it.
        self.ownership.claim(&mut self.core, now)?;
        // (What is loaded now is handed out by these rules.)
        self.read_rules()?;
        self.follow_rules();
        let mut is_loaded = self.ownership.load_claimed(&mut self.core, clocks)?;
        self.ask_grants()?;
        // TurnBack: what was kept of the commit that failed is stored before a call is taken.
        if self.core.aside.comes_first() {
            self.try_again(clocks)?;
        }
        // TurnTake. (If a step before this one fails, the requests are still in the queue, and
        // `fail` answers them.)
        let (mut taken, room) = self.take_requests();
        self.down.told.append(&mut taken.told);
        taken.told = std::mem::take(&mut self.down.told);
        taken.controls.append(&mut self.down.controls);
        if taken.count() > 0 {
            self.core.look_every = LOOK_EVERY;
        }
        let is_full = room.is_reached(0, 0);
        self.serve(taken, room, clocks, now)?;
        self.try_again(clocks)?;
        self.follow_rules();
        self.ownership.give_back_idle(&mut self.core)?;
        let has_shrunk = self.core.window.is_too_full();
        if has_shrunk {
            self.core.shrink();
        }
        let has_room = self.core.give_back_rows();
        self.core.take_back_notes()?;
        is_loaded &= (self.ownership).load(&mut self.core, clocks, now, has_shrunk)?;
        is_loaded &= self.load_suspects(clocks)?;
        let is_scanned = self.scan_held(clocks, now)?;
        if is_loaded {
            self.begin_trials(clocks, now)?;
        }
        let is_released = self.release_limited(clocks, now)?;
        if let Some(stop) = self.stop_now() {
            if let Err(error) = self.core.store.release() {
                self.down.was_tried_by_stop = true;
                stop.tell(Err(DurableError::Store(error.clone())));
                return Err(error);
            }
            self.measure_stopped();
            stop.tell(Ok(()));
            return Ok(After::End);
        }
        if self.has_upkeep {
            self.has_upkeep = self.core.store.upkeep()?;
        }
        let has_forgotten = self.forget_done(now)?;
        self.measure(now)?;
        self.core.check();
        let has_held = !self.core.held.has_due(self.core.shared.elapsed());
        let is_done = is_loaded && is_scanned && is_released && has_held && has_room;
        let is_done = is_done && has_forgotten;
        if is_full || !is_done || self.has_upkeep || !self.large.is_empty() {
            return Ok(After::Turn);
        }
        Ok(After::Wait(self.next(now)?))
    }

    /// The caller that has stopped the service, if all that handlers have said is stored or has
    /// waited for `STOP_MAX`. A row whose answer another transaction holds up for longer stays in
    /// the store, and fires again, on another node or later.
    fn stop_now(&mut self) -> Option<Teller<()>> {
        self.stop.as_ref()?;
        let elapsed = self.core.shared.elapsed();
        let until = *self.stop_until.get_or_insert(elapsed + STOP_MAX);
        for planned in self.core.aside.take_calls() {
            planned.reply.refuse(&DurableError::Stopped);
        }
        self.large.refuse(&DurableError::Stopped);
        if self.core.aside.next(elapsed).is_some() && elapsed < until {
            return None;
        }
        self.stop.take()
    }

    /// The store works again: all that followed from what was read before begins anew.
    pub(super) fn begin_anew(&mut self) {
        self.core.slice_rows = SLICE_ROWS_FIRST.min(self.core.window.bounds().slice.rows);
        self.core.look_every = LOOK_EVERY;
        self.core.has_rows = true;
        (self.measured, self.has_upkeep) = (None, true);
        self.done = DoneWork::default();
    }

    /// Arms all timers of the window anew if the system's clock was set.
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
            self.core.window.refile(clocks);
            self.done = DoneWork::default();
        }
    }

    /// How long the writer may wait for a request.
    fn next(&mut self, now: StoreTime) -> Result<Option<Duration>, StoreError> {
        let aside = self.core.aside.next(self.core.shared.elapsed());
        let ownership = self.ownership.next(&mut self.core, now)?;
        let held = self.next_held(now);
        let limited = self.next_limited();
        let done = self.next_forgetting();
        let waits = [ownership, aside, self.next_trial(now), held, limited, done];
        Ok(waits.into_iter().flatten().min())
    }
}
