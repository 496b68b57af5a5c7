//! Promise: a change that somebody's transaction holds up waits, and nothing else does.
//!
//! The store is one in memory that leaves changes of some keys out, as `Postgres` does where
//! another transaction has locked a row. The clock is moved by hand.

use crate::over_memory::{Over, OverMemory};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, SliceLimit, Store, Target, Write};
use wheelwork_durable::{
    Durable, DurableError, DurableId, ListQuery, Memory, Row, Shift, StoreError, StoreTime,
};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is locked: keys, the rows that have them, and kinds.
type Locked = Arc<Mutex<BTreeSet<String>>>;

struct Held {
    inner: Memory,
    locked: Locked,
    refused: bool,
    /// How many changes of a commit may be held up. It puts off what comes after these.
    tries: usize,
    /// What is done at the end of the next commit.
    in_commit: Act,
}

impl Held {
    fn is_held(&mut self, write: &Write) -> bool {
        let key = match write {
            Write::Arm(row) => row.key.clone(),
            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => Some(key.clone()),
            Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => self.key_of(*id),
            Write::Ack { of, .. } | Write::Retry { of, .. } | Write::Begin { of, .. } => {
                self.key_of(of.id)
            }
            Write::CancelKind(slice) => Some(slice.kind.clone()),
            _ => None,
        };
        key.is_some_and(|key| self.locked.lock().unwrap().contains(&*key))
    }

    fn key_of(&mut self, id: DurableId) -> Option<Arc<str>> {
        self.inner.get(&Target::Id(id)).unwrap()?.key
    }
}

impl OverMemory for Held {
    fn memory(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::new();
        let mut tries = self.tries;
        for mut write in writes {
            if let Write::CancelKind(slice) = &mut write {
                slice.limit = SliceLimit::rows(2);
            }
            if tries == 0 {
                outcomes.push(Outcome::PutOff(Box::new(write)));
            } else if self.refused && matches!(&write, Write::Arm(row) if row.payload.is_empty()) {
                outcomes.push(Outcome::Refused("no payload".into()));
            } else if self.is_held(&write) {
                tries -= 1;
                outcomes.push(Outcome::Blocked(Box::new(write)));
            } else {
                outcomes.extend(self.inner.commit(vec![write], gate)?);
            }
        }
        let act = self.in_commit.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
        Ok(outcomes)
    }
}

struct Timers {
    durable: Durable,
    clock: ManualClock,
    locked: Locked,
    handled: Arc<Mutex<Vec<String>>>,
    /// What a handler does next.
    act: Act,
    /// What is done at the end of the next commit.
    in_commit: Act,
}

type Act = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn timers() -> Timers {
    timers_on(Memory::new(), ManualClock::new())
}

fn timers_on(inner: Memory, clock: ManualClock) -> Timers {
    let (locked, act, in_commit) = (Locked::default(), Act::default(), Act::default());
    let handled = Arc::new(Mutex::new(Vec::new()));
    let store = Held {
        inner,
        locked: locked.clone(),
        refused: true,
        tries: usize::MAX,
        in_commit: in_commit.clone(),
    };
    let (told, acts) = (handled.clone(), act.clone());
    let durable = Durable::builder(Over(store))
        .clock(clock.clone())
        .on("mail", move |mail| {
            told.lock().unwrap().push(mail.payload_text().into_owned());
            if let Some(act) = acts.lock().unwrap().take() {
                act();
            }
            Ok(())
        })
        .start()
        .unwrap();
    Timers {
        durable,
        clock,
        locked,
        handled,
        act,
        in_commit,
    }
}

/// Nobody has any row.
struct Free;

impl Gate for Free {
    fn let_go(&mut self, _: DurableId) -> bool {
        true
    }
}

impl Timers {
    fn lock(&self, key: &str) {
        self.locked.lock().unwrap().insert(key.to_owned());
    }

    fn unlock(&self) {
        self.locked.lock().unwrap().clear();
    }

    fn handled(&self) -> Vec<String> {
        std::mem::take(&mut *self.handled.lock().unwrap())
    }
}

#[test]
fn smoke() {
    let timers = timers();
    timers.lock("K");
    let held = timers
        .durable
        .key("K")
        .schedule_ticket("mail", MS, "held")
        .unwrap();
    timers.durable.schedule("mail", MS, "free").unwrap();
    timers.clock.advance(MS * 500);
    assert_eq!(timers.handled(), ["free"]);
    assert_eq!(timers.durable.stats().armed, 1, "its caller waits");
    timers.unlock();
    timers.clock.advance(MS * 500);
    held.wait().unwrap();
    assert_eq!(timers.handled(), ["held"]);
    timers.durable.stop().unwrap();
}

#[test]
fn later_changes_of_the_same_key_do_not_overtake() {
    let timers = timers();
    timers.lock("K");
    let key = timers.durable.key("K");
    let tickets: Vec<_> = (0..20)
        .map(|number| {
            timers.clock.advance(MS * (number % 7));
            key.schedule_ticket("mail", HOUR, format!("{number}"))
                .unwrap()
        })
        .collect();
    timers.clock.advance(MS * 300);
    timers.unlock();
    // One that comes when nothing is in the way any more, and before the others are tried.
    let last = key.schedule_ticket("mail", HOUR, "last").unwrap();
    timers.clock.advance(MS * 300);
    for ticket in tickets.into_iter().chain([last]) {
        ticket.wait().unwrap();
    }
    let rows = timers.durable.list(.., 100).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(&*rows[0].payload, b"last");
}

#[test]
fn an_acknowledgement_that_is_held_up_is_made_later() {
    let timers = timers();
    timers
        .durable
        .key("K")
        .schedule("mail", MS * 10, "once")
        .unwrap();
    timers.lock("K");
    timers.clock.advance(MS * 20);
    assert_eq!(timers.handled(), ["once"]);
    timers.clock.advance(HOUR);
    assert_eq!(
        timers.durable.list(.., 10).unwrap().len(),
        1,
        "it is not stored"
    );
    timers.unlock();
    timers.clock.advance(MS * 200);
    assert_eq!(timers.durable.list(.., 10).unwrap().len(), 0);
    assert_eq!(timers.handled(), [""; 0], "it was handled once");
    assert_eq!(timers.durable.stats().done, 1);
}

/// It changes what it can, waits for the rest of its slice, and then goes on.
#[test]
fn a_call_for_many_timers_waits_for_the_one_that_is_held_up() {
    let timers = timers();
    for key in ["J", "K", "L"] {
        let timer = timers.durable.key(key);
        timer.schedule("mail", HOUR, key).unwrap();
    }
    timers.lock("K");
    let all = ListQuery::new();
    let moves = timers.durable.move_all(&all, Shift::Later(HOUR)).unwrap();
    timers.clock.advance(MS * 300);
    let due = |key| timers.durable.key(key).get().unwrap().unwrap().due;
    assert!(due("J") > due("K") && due("J") == due("L"));
    timers.unlock();
    timers.clock.advance(MS * 300);
    assert_eq!(due("J"), due("K"));
    assert_eq!(moves.progress().changed, 3);
    assert_eq!(moves.wait().unwrap(), 3);
}

/// A slice of a kind is held up. Timers of the kind that are moved meanwhile, to where the call has
/// been already, are cancelled, too.
#[test]
fn timers_of_a_kind_that_are_moved_while_it_is_held_up_are_cancelled() {
    let timers = timers();
    let arm = |hours: u32| timers.durable.schedule("mail", HOUR * hours, "all");
    let ids: Vec<_> = (2..=6).map(|hours| arm(hours).unwrap()).collect();
    // The first slice is made, and has two rows. The next commit moves a timer, and there the
    // second slice is held up.
    let (client, locked, last) = (timers.durable.client(), timers.locked.clone(), ids[4]);
    *timers.in_commit.lock().unwrap() = Some(Box::new(move || {
        locked.lock().unwrap().insert("mail".to_owned());
        drop(client.reschedule_ticket(last, HOUR).unwrap());
    }));
    let (is_moved, cancelled) = thread::scope(|scope| {
        let cancels = scope.spawn(|| timers.durable.cancel_kind("mail"));
        let begun = Instant::now();
        while timers.durable.stats().moved == 0 && begun.elapsed() < HANGS {
            thread::yield_now();
        }
        // Another one is moved while the slice waits.
        let is_moved = timers.durable.reschedule(ids[3], HOUR);
        timers.unlock();
        timers.clock.advance(MS * 300);
        (is_moved, cancels.join().unwrap())
    });
    assert!(is_moved.unwrap());
    assert_eq!(timers.durable.list(.., 10).unwrap().len(), 0);
    assert_eq!(cancelled.unwrap(), 5);
    assert_eq!(timers.durable.stats().moved, 2);
}

#[test]
fn nobody_waits_for_ever() {
    let timers = timers();
    timers.lock("K");
    let key = timers.durable.key("K");
    let held = key.schedule_ticket("mail", HOUR, "held").unwrap();
    timers.clock.advance(Duration::from_secs(301));
    assert!(matches!(held.wait(), Err(DurableError::Blocked)));
    let held = key.schedule_ticket("mail", HOUR, "held").unwrap();
    timers.durable.stop().unwrap();
    assert!(matches!(held.wait(), Err(DurableError::Stopped)));
}

#[test]
fn a_call_that_the_store_refuses_fails_alone() {
    let timers = timers();
    let refused = timers.durable.schedule_ticket("mail", MS, "").unwrap();
    let taken = timers.durable.schedule_ticket("mail", MS, "taken").unwrap();
    let error = refused.wait().unwrap_err();
    assert_eq!(error.to_string(), "the store refuses this call: no payload");
    taken.wait().unwrap();
    timers.clock.advance(MS * 10);
    assert_eq!(timers.handled(), ["taken"]);
}

#[test]
fn those_that_wait_keep_their_order_however_often_they_are_tried() {
    for waited in [3, 30, 60, 100, 180, 300, 410] {
        let timers = timers();
        timers.lock("K");
        let key = timers.durable.key("K");
        let schedule = |text: &str| key.schedule_ticket("mail", HOUR, text).unwrap();
        let tickets = ["first", "second", "third"].map(schedule);
        timers.clock.advance(MS * waited);
        timers.unlock();
        timers.clock.advance(MS * 300);
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        let rows = timers.durable.list(.., 100).unwrap();
        assert_eq!(&*rows[0].payload, b"third", "tried for {waited} ms");
    }
}

#[test]
fn a_charge_whose_taking_back_is_held_up_is_taken_back_later() {
    // A process has ended, and this timer may have been the cause.
    let (memory, clock) = (Memory::new(), ManualClock::new());
    let mut store = memory.clone();
    store.acquire().unwrap();
    let due = StoreTime::reading(clock.system_time() + MS * 100);
    let mut row = Row::new(store.new_id(Some("K"), due), due, "mail".into(), [].into());
    row.key = Some("K".into());
    let id = row.id;
    store.commit(vec![Write::Arm(row)], &mut Free).unwrap();
    store.hand_out(due).unwrap();
    // It is noted in a turn that another timer's handler takes. Then the clock slips, so that it is
    // too early to call it.
    let timers = timers_on(memory, clock.clone());
    let (handle, locked) = (timers.durable.client(), timers.locked.clone());
    *timers.act.lock().unwrap() = Some(Box::new(move || {
        handle.list(.., 1).unwrap();
        assert_eq!(handle.get(id).unwrap().unwrap().crashes, 1, "it is noted");
        locked.lock().unwrap().insert("K".to_owned());
        clock.set_system_time(clock.system_time() - MS * 3);
    }));
    timers.durable.schedule("mail", MS * 100, "act").unwrap();
    timers.clock.advance(MS * 101);
    assert_eq!(timers.handled(), ["act"]);
    let crashes = || timers.durable.get(id).unwrap().unwrap().crashes;
    assert_eq!(crashes(), 1, "the row is held up");
    timers.unlock();
    // (Each call takes a turn.)
    crashes();
    assert_eq!(crashes(), 0);
    timers.clock.advance(HOUR);
    assert_eq!(timers.handled(), [""]);
    timers.durable.stop().unwrap();
}

/// What a transaction holds up waits, and its callers count as those in the queue do. So one that
/// does not wait for its answers fills no memory.
#[test]
fn what_is_held_up_has_a_bound() {
    let locked = Locked::default();
    let store = Held {
        inner: Memory::new(),
        locked: locked.clone(),
        refused: false,
        tries: usize::MAX,
        in_commit: Act::default(),
    };
    let durable = Durable::builder(Over(store)).start().unwrap();
    locked.lock().unwrap().insert("K".to_owned());
    // 64 MiB may wait.
    let (max, all) = (64, 80);
    let armed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let arms = scope.spawn(|| {
            let payload = vec![0; 1 << 20];
            let arm = |_| {
                let timer = durable.timer("mail", HOUR, &payload[..]).key("K");
                let ticket = timer.schedule_ticket().unwrap();
                armed.fetch_add(1, Ordering::SeqCst);
                // The writer has taken it.
                durable.key("other").get().unwrap();
                ticket
            };
            (0..all).map(arm).collect::<Vec<_>>()
        });
        let begun = Instant::now();
        while armed.load(Ordering::SeqCst) < max - 1 {
            if begun.elapsed() > HANGS {
                locked.lock().unwrap().clear();
                panic!("they are not taken");
            }
            thread::yield_now();
        }
        // (The writer takes turns meanwhile.)
        for _ in 0..1_000 {
            durable.key("other").get().unwrap();
        }
        let count = armed.load(Ordering::SeqCst);
        locked.lock().unwrap().clear();
        for ticket in arms.join().unwrap() {
            ticket.wait().unwrap();
        }
        assert!(count <= max + 2, "{count} wait");
    });
    assert_eq!(durable.stats().armed, all as u64);
    durable.stop().unwrap();
}

/// A store may have no time to try all changes of a commit. However many wait, others are made.
#[test]
fn very_many_that_wait_do_not_use_up_the_time_for_others() {
    let locked = Locked::default();
    let store = Held {
        inner: Memory::new(),
        locked: locked.clone(),
        refused: false,
        tries: 4,
        in_commit: Act::default(),
    };
    let durable = Durable::builder(Over(store)).start().unwrap();
    let keys: Vec<String> = (0..64).map(|number| format!("{number}")).collect();
    locked.lock().unwrap().extend(keys.iter().cloned());
    let wait = |key: &String| durable.key(key).schedule_ticket("mail", HOUR, "").unwrap();
    let tickets: Vec<_> = keys.iter().map(wait).collect();
    let (send, done) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                durable.schedule("mail", HOUR, "").unwrap();
            }
            send.send(()).unwrap();
        });
        let are_done = done.recv_timeout(HANGS).is_ok();
        // Those that wait are tried in turn, so this one is tried, too.
        locked.lock().unwrap().remove("63");
        let begun = Instant::now();
        while durable.stats().armed < 101 && begun.elapsed() < HANGS {
            thread::sleep(MS);
        }
        let armed = durable.stats().armed;
        locked.lock().unwrap().clear();
        assert!(are_done, "others wait for those");
        assert_eq!(armed, 101);
    });
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    durable.stop().unwrap();
}
