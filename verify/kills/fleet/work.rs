//! Work: what a node's threads call, at random.

use super::handlers::server_ms;
use crate::wire::{Aim, Ask, Due, Event, Kind, Teller};
use fastrand::Rng;
use postgres::types::ToSql;
use postgres::{Client, NoTls};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wheelwork_durable::{DurableClient, DurableError, DurableId, PostgresOutbox, Ticket, When};
use wheelwork_kit::lock::lock;

/// Keys that all nodes have in common.
const KEYS: u32 = 600;

/// The longest delay, in milliseconds.
pub(crate) const DELAY_MAX_MS: i64 = 4_000;

/// Own timers that may still be cancelled or moved.
const OWN_MAX: usize = 300;

/// Timers of other nodes, for this one to cancel or move.
pub(crate) type Foreign = Mutex<VecDeque<(u64, DurableId)>>;

/// Whether a timer is cancelled and moved by other nodes only, if at all: one in 8 is.
pub(crate) fn is_foreign(number: u64) -> bool {
    number.is_multiple_of(8)
}

/// What a node's threads have in common.
pub(crate) struct Work {
    pub(crate) teller: Arc<Teller>,
    pub(crate) timers: DurableClient,
    pub(crate) foreign: Foreign,
    /// The number of the next timer, or call.
    pub(crate) next: AtomicU64,
    pub(crate) is_quiet: AtomicBool,
    pub(crate) offset_ns: i64,
}

/// A timer that is to be armed.
#[derive(Clone)]
pub(crate) struct NewTimer {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) key: Option<String>,
    pub(crate) due: Due,
}

impl NewTimer {
    /// One of a random kind that is due soon, or was.
    pub(crate) fn random(random: &mut Rng, number: u64, now_ms: i64) -> Self {
        let kind = match random.u32(..100) {
            0..50 => Kind::Plain,
            50..62 => Kind::Flaky,
            62..80 => Kind::Batch,
            80..82 => Kind::Slow,
            82..97 => Kind::InTransaction,
            97..99 => Kind::Doomed,
            _ => Kind::Unknown,
        };
        Self {
            number,
            kind,
            key: None,
            due: random_due(random, now_ms),
        }
    }

    pub(crate) fn ask(&self, is_outbox: bool) -> Event {
        let ask = Ask {
            kind: self.kind,
            key: self.key.clone(),
            due: self.due,
            is_outbox,
        };
        Event::Ask(self.number, ask)
    }

    fn when(&self) -> When {
        when(self.due)
    }

    fn payload(&self) -> String {
        self.number.to_string()
    }
}

pub(crate) fn random_due(random: &mut Rng, now_ms: i64) -> Due {
    match random.u32(..10) {
        0 => Due::After(0),
        1 => Due::After(random.i64(0..100)),
        2 => Due::At(now_ms - random.i64(0..5_000)),
        3..5 => Due::At(now_ms + random.i64(0..DELAY_MAX_MS)),
        _ => Due::After(random.i64(0..DELAY_MAX_MS)),
    }
}

pub(crate) fn random_key(random: &mut Rng) -> String {
    format!("k{}", random.u32(..KEYS))
}

fn when(due: Due) -> When {
    let ms = |ms: i64| Duration::from_millis(ms.max(0) as u64);
    match due {
        Due::After(delay) => When::After(ms(delay)),
        Due::At(time) => When::At(
            UNIX_EPOCH
                .checked_add(ms(time))
                .unwrap_or(SystemTime::now()),
        ),
    }
}

impl Work {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    fn tell(&self, events: &[Event]) {
        self.teller.tell_or_end(events);
    }

    /// A call that arms was answered, or was not. Returns what this node may cancel or move later.
    fn armed(&self, number: u64, id: Option<DurableId>) -> Option<(u64, DurableId)> {
        self.tell(&[match id.map(DurableId::to_bits) {
            Some(id) => Event::Armed { number, id },
            None => Event::Doubt(number),
        }]);
        let id = id.filter(|_| !is_foreign(number))?;
        Some((number, id))
    }

    /// Cancels; or moves, if there is a new deadline.
    fn call(
        &self,
        aim: Aim,
        due: Option<Due>,
        made: impl FnOnce(&DurableClient) -> Result<bool, DurableError>,
    ) {
        let call = self.number();
        self.tell(&[Event::Call(call, aim, due)]);
        if let Ok(is_done) = made(&self.timers) {
            self.tell(&[Event::Answer(call, is_done)]);
        }
    }
}

/// A thread that calls.
pub(crate) struct Worker<'a> {
    pub(crate) work: &'a Work,
    pub(crate) random: Rng,
    /// Arms a second.
    pub(crate) rate: f64,
    /// Timers that it may cancel or move.
    pub(crate) own: VecDeque<(u64, DurableId)>,
}

impl Worker<'_> {
    fn new_timer(&mut self) -> NewTimer {
        let now_ms = server_ms(self.work.offset_ns);
        NewTimer::random(&mut self.random, self.work.number(), now_ms)
    }

    fn due(&mut self) -> Due {
        random_due(&mut self.random, server_ms(self.work.offset_ns))
    }

    /// Waits as long as `arms` calls that arm may take, at the worker's rate.
    fn pause(&mut self, arms: usize) {
        let wait = arms as f64 / self.rate * 2.0 * self.random.f64();
        thread::sleep(Duration::from_secs_f64(wait));
    }

    fn keep(&mut self, armed: Option<(u64, DurableId)>) {
        self.own.extend(armed);
        while self.own.len() > OWN_MAX {
            self.own.pop_front();
        }
    }

    fn take_own(&mut self) -> Option<(u64, DurableId)> {
        let count = self.own.len();
        (count > 0).then(|| self.own.swap_remove_back(self.random.usize(..count)))?
    }

    pub(crate) fn run(mut self) {
        while !self.work.is_quiet.load(Relaxed) {
            let mut arms = 1;
            match self.random.u32(..100) {
                0..40 => self.arm_one(),
                40..52 => self.arm_key(),
                52..57 => arms = self.arm_many(false),
                57..60 => arms = self.arm_many(true),
                60..72 => self.cancel_own(),
                72..75 => arms = self.cancel_several(2..12),
                75..80 => self.cancel_key(),
                80..88 => self.move_own(),
                88..90 => self.move_key(),
                _ => self.take_foreign(),
            }
            self.pause(arms);
        }
    }

    fn arm_one(&mut self) {
        let timer = self.new_timer();
        self.work.tell(&[timer.ask(false)]);
        let client = &self.work.timers;
        let id = client.schedule(timer.kind.name(), timer.when(), timer.payload());
        let armed = self.work.armed(timer.number, id.ok());
        self.keep(armed);
    }

    fn arm_key(&mut self) {
        let (mut timer, key) = (self.new_timer(), random_key(&mut self.random));
        timer.key = Some(key.clone());
        self.work.tell(&[timer.ask(false)]);
        let key = self.work.timers.key(&key);
        let id = key.schedule(timer.kind.name(), timer.when(), timer.payload());
        self.work.armed(timer.number, id.ok());
    }

    /// Arms several in one call, or by tickets.
    fn arm_many(&mut self, by_tickets: bool) -> usize {
        let count = self.random.usize(5..40);
        let timers: Vec<_> = (0..count).map(|_| self.new_timer()).collect();
        let asks: Vec<_> = timers.iter().map(|timer| timer.ask(false)).collect();
        self.work.tell(&asks);
        let client = &self.work.timers;
        let new = |timer: &NewTimer| (timer.kind.name(), timer.when(), timer.payload());
        let ids: Box<dyn Iterator<Item = Option<DurableId>>> = if by_tickets {
            let ask = |(kind, when, payload)| client.schedule_ticket(kind, when, payload);
            let tickets: Vec<_> = timers.iter().map(new).map(ask).collect();
            let wait = |ticket: Result<Ticket<_>, _>| ticket.and_then(Ticket::wait).ok();
            Box::new(tickets.into_iter().map(wait))
        } else {
            match client.schedule_many(timers.iter().map(new)) {
                Ok(ids) => Box::new(ids.into_iter().map(Some)),
                Err(_) => Box::new(timers.iter().map(|_| None)),
            }
        };
        for (timer, id) in timers.iter().zip(ids) {
            let armed = self.work.armed(timer.number, id);
            self.keep(armed);
        }
        count
    }

    fn cancel_own(&mut self) {
        if self.random.bool() {
            self.cancel_several(1..2);
        } else if let Some((number, id)) = self.take_own() {
            let aim = Aim::Number(number);
            self.work.call(aim, None, |client| client.cancel(id));
        }
    }

    /// Cancels several by tickets: they are in one commit.
    fn cancel_several(&mut self, counts: Range<usize>) -> usize {
        let count = self.random.usize(counts);
        let work = self.work;
        let own = (0..count).filter_map(|_| self.take_own());
        let own: Vec<_> = own.map(|own| (work.number(), own)).collect();
        let asks = own
            .iter()
            .map(|&(call, (number, _))| Event::Call(call, Aim::Number(number), None));
        self.work.tell(&asks.collect::<Vec<_>>());
        let client = &self.work.timers;
        let cancel = |(call, (_, id))| (call, client.cancel_ticket(id));
        let tickets: Vec<_> = own.into_iter().map(cancel).collect();
        for (call, ticket) in tickets {
            if let Ok(is_done) = ticket.and_then(Ticket::wait) {
                self.work.tell(&[Event::Answer(call, is_done)]);
            }
        }
        count
    }

    fn cancel_key(&mut self) {
        let key = random_key(&mut self.random);
        let aim = Aim::Key(key.clone());
        self.work
            .call(aim, None, |client| client.key(&key).cancel());
    }

    fn move_id(&mut self, (number, id): (u64, DurableId)) {
        let (aim, due) = (Aim::Number(number), self.due());
        let reschedule = |client: &DurableClient| client.reschedule(id, when(due));
        self.work.call(aim, Some(due), reschedule);
    }

    fn move_own(&mut self) {
        if let Some(own) = self.take_own() {
            self.move_id(own);
            // It may be moved again, or cancelled.
            self.own.push_back(own);
        }
    }

    fn move_key(&mut self) {
        let (key, due) = (random_key(&mut self.random), self.due());
        let reschedule = |client: &DurableClient| client.key(&key).reschedule(when(due));
        self.work.call(Aim::Key(key.clone()), Some(due), reschedule);
    }

    /// Cancels or moves a timer that another node has armed.
    fn take_foreign(&mut self) {
        let foreign = lock(&self.work.foreign).pop_back();
        let Some((number, id)) = foreign else { return };
        if self.random.u32(..3) == 0 {
            self.move_id((number, id));
        } else {
            let aim = Aim::Number(number);
            self.work.call(aim, None, |client| client.cancel(id));
        }
    }

    /// Arms and cancels in transactions of its own, of which some are rolled back.
    pub(crate) fn run_outbox(mut self, outbox: &PostgresOutbox, database: &str) {
        let mut client = None;
        while !self.work.is_quiet.load(Relaxed) {
            client = client.or_else(|| Client::connect(database, NoTls).ok());
            let open = client.as_mut();
            let arms = open.and_then(|open| self.transaction(outbox, open).ok());
            // After a failure it connects anew.
            client = client.filter(|_| arms.is_some());
            self.pause(arms.unwrap_or(5));
        }
    }

    fn transaction(
        &mut self,
        outbox: &PostgresOutbox,
        client: &mut Client,
    ) -> Result<usize, postgres::Error> {
        let count = self.random.usize(1..4);
        let mut timers: Vec<_> = (0..count).map(|_| self.new_timer()).collect();
        if self.random.u32(..4) == 0 {
            timers[0].key = Some(random_key(&mut self.random));
        }
        let cancelled = self.take_own().filter(|_| self.random.bool());
        let call = self.work.number();
        let mut asks: Vec<_> = timers.iter().map(|timer| timer.ask(true)).collect();
        asks.extend(cancelled.map(|(number, _)| Event::Call(call, Aim::Number(number), None)));
        self.work.tell(&asks);
        let all = |event: fn(u64) -> Event| -> Vec<Event> {
            timers.iter().map(|timer| event(timer.number)).collect()
        };
        let is_rolled_back = self.random.u32(..4) == 0;
        let done = (|| {
            let mut transaction = client.transaction()?;
            let mut ids = Vec::new();
            for timer in &timers {
                let insert = "INSERT INTO check_order (number) VALUES ($1)";
                transaction.execute(insert, &[&(timer.number as i64)])?;
                let (kind, key) = (timer.kind.name(), timer.key.as_deref());
                let (when, payload) = (timer.when(), timer.payload());
                let mut within = outbox.within(&mut transaction);
                ids.push(match key {
                    Some(key) => within.key(key).schedule(kind, when, payload)?,
                    None => within.schedule(kind, when, payload)?,
                });
            }
            let is_cancelled = match cancelled {
                Some((_, id)) => outbox.within(&mut transaction).cancel(id)?,
                None => false,
            };
            if is_rolled_back {
                transaction.rollback()?;
            } else {
                transaction.commit()?;
            }
            Ok((ids, is_cancelled))
        })();
        let (ids, is_cancelled) = match done {
            Ok(done) => done,
            // (Rolled back, if it was to be; else that is not known.)
            Err(error) => {
                let event = if is_rolled_back {
                    Event::RolledBack
                } else {
                    Event::Doubt
                };
                self.work.tell(&all(event));
                return Err(error);
            }
        };
        let mut events = if is_rolled_back {
            all(Event::RolledBack)
        } else {
            let armed = timers.iter().zip(&ids).map(|(timer, id)| Event::Armed {
                number: timer.number,
                id: id.to_bits(),
            });
            armed.collect()
        };
        events.extend(cancelled.map(|_| Event::Answer(call, is_cancelled && !is_rolled_back)));
        self.work.tell(&events);
        if !is_rolled_back {
            for (timer, id) in timers.iter().zip(ids) {
                let is_own = timer.key.is_none() && !is_foreign(timer.number);
                self.keep(Some((timer.number, id)).filter(|_| is_own));
            }
        }
        Ok(count)
    }
}

/// The numbers of a node begin here: timers, calls and handlings.
pub(crate) fn first_number(generation: u32) -> u64 {
    u64::from(generation) << 32
}

/// Arms, cancels and moves by the SQL functions, as programs in other languages do, until `is_over`
/// says so. It is the parent's.
pub(crate) fn plain_sql(
    teller: &Teller,
    database: &str,
    seed: u64,
    offset_ns: i64,
    is_over: &AtomicBool,
) {
    let mut random = Rng::with_seed(seed);
    let (mut client, mut own) = (None, VecDeque::new());
    let mut next = first_number(0);
    while !is_over.load(Relaxed) {
        thread::sleep(Duration::from_millis(random.u64(5..60)));
        client = client.or_else(|| Client::connect(database, NoTls).ok());
        let Some(open) = &mut client else {
            continue;
        };
        let now_ms = server_ms(offset_ns);
        next += 1;
        let done = match random.u32(..10) {
            0..7 => sql_arm(teller, open, &mut random, next, now_ms).map(|armed| own.extend(armed)),
            7 => sql_call(teller, open, next, own.pop_back(), None),
            _ => {
                let due = Due::At(now_ms + random.i64(-1_000..DELAY_MAX_MS));
                sql_call(teller, open, next, own.pop_front(), Some(due))
            }
        };
        if done.is_err() {
            client = None;
        }
    }
}

/// The seconds since 1970 of a number of milliseconds, as a time of the database.
const TIME: &str = "to_timestamp($2::float8 / 1000)";

/// Returns the timer with its id, as text, if it may be cancelled or moved later.
fn sql_arm(
    teller: &Teller,
    client: &mut Client,
    random: &mut Rng,
    number: u64,
    now_ms: i64,
) -> Result<Option<(u64, String)>, postgres::Error> {
    let mut timer = NewTimer::random(random, number, now_ms);
    let at_ms = match timer.due {
        Due::At(ms) => ms,
        Due::After(ms) => now_ms + ms,
    };
    timer.due = Due::At(at_ms);
    timer.key = (random.u32(..4) == 0).then(|| random_key(random));
    teller.tell_or_end(&[timer.ask(false)]);
    let call = format!("SELECT wheelwork.wheelwork_schedule($1, {TIME}, $3, $4)::text");
    let (kind, payload) = (timer.kind.name(), timer.payload());
    let arguments: [&(dyn ToSql + Sync); 4] =
        [&kind, &(at_ms as f64), &payload.as_bytes(), &timer.key];
    let row = client.query_one(&call, &arguments);
    let row = row.inspect_err(|_| teller.tell_or_end(&[Event::Doubt(number)]))?;
    let text: String = row.get(0);
    let id = u128::from_str_radix(&text.replace('-', ""), 16).unwrap_or_default();
    teller.tell_or_end(&[Event::Armed { number, id }]);
    Ok((timer.key.is_none() && !is_foreign(number)).then_some((number, text)))
}

fn sql_call(
    teller: &Teller,
    client: &mut Client,
    call: u64,
    timer: Option<(u64, String)>,
    due: Option<Due>,
) -> Result<(), postgres::Error> {
    let Some((number, id)) = timer else {
        return Ok(());
    };
    let aim = Aim::Number(number);
    teller.tell_or_end(&[Event::Call(call, aim, due)]);
    let row = match due {
        Some(Due::At(ms) | Due::After(ms)) => {
            let text = format!("SELECT wheelwork.wheelwork_reschedule($1::text::uuid, {TIME})");
            client.query_one(&text, &[&id, &(ms as f64)])
        }
        None => client.query_one("SELECT wheelwork.wheelwork_cancel($1::text::uuid)", &[&id]),
    };
    let is_done = row?.get(0);
    teller.tell_or_end(&[Event::Answer(call, is_done)]);
    Ok(())
}
