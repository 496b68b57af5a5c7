//! Promise: a call for all timers, or all dead letters, of a query changes each of them once, in
//! slices, and tells how far it has come.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::SliceLimit;
use wheelwork_durable::{
    Cause, DeadQuery, Durable, DurableBuilder, DurableError, DurableId, ListQuery, Memory,
    RetryPolicy, Row, Shift,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn builder(clock: &ManualClock) -> DurableBuilder<Memory> {
    // (Slices of 7 rows.)
    let slice = SliceLimit {
        rows: 7,
        bytes: 1 << 20,
    };
    Durable::builder(Memory::new())
        .clock(clock.clone())
        .slices(slice)
        .retry_policy(RetryPolicy::new().attempts(1))
        .on("fails", |_| Err("it does".into()))
}

fn dues(timers: &Durable) -> Vec<(DurableId, SystemTime)> {
    let rows = timers.list(.., usize::MAX).unwrap();
    let mut dues: Vec<_> = rows
        .iter()
        .map(|row| (row.id, row.due.system_time()))
        .collect();
    dues.sort_unstable();
    dues
}

/// Timers that are moved behind the place where a call is are found again there.
#[test]
fn each_timer_is_moved_once() {
    for shift in [
        Shift::Later(HOUR),
        Shift::Later(Duration::ZERO),
        Shift::Later(50 * SECOND),
        Shift::Sooner(30 * SECOND),
        Shift::To(SystemTime::UNIX_EPOCH + Duration::from_secs(7_000_000_000)),
    ] {
        let clock = ManualClock::new();
        let timers = builder(&clock).start().unwrap();
        let now = clock.system_time();
        let when = |number: u32| now + HOUR + SECOND * (number * 37 % 100);
        let armed = (0..300).map(|number| (["a", "b"][number as usize % 2], when(number), ""));
        let armed = timers.schedule_many(armed).unwrap();
        let moves = timers.move_all(&ListQuery::new().kind("a"), shift).unwrap();
        let progress = moves.progress();
        assert_eq!(moves.wait().unwrap(), 150, "{shift:?}");
        assert_eq!(progress.changed, 150, "{shift:?}");
        assert!((300..=450).contains(&progress.looked_at), "{progress:?}");
        let mut expected: Vec<_> = (0..300)
            .zip(armed)
            .map(|(number, id)| {
                let due = when(number);
                let moved = match shift {
                    Shift::Later(by) => due + by,
                    Shift::Sooner(by) => due - by,
                    Shift::To(time) => time,
                    _ => unreachable!(),
                };
                (id, if number % 2 == 0 { moved } else { due })
            })
            .collect();
        expected.sort_unstable();
        assert_eq!(dues(&timers), expected, "{shift:?}");
        assert_eq!(timers.stats().moved, 150);
        timers.stop().unwrap();
    }
}

/// Without the ids of those that were carried, they are.
#[cfg(feature = "__faults")]
#[test]
fn a_call_that_forgets_what_it_has_carried_is_noticed() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    let clock = ManualClock::new();
    let timers = builder(&clock).start().unwrap();
    let many = (0..100).map(|number| ("a", HOUR + SECOND * number, ""));
    timers.schedule_many(many).unwrap();
    set_durable_fault(Some(DurableFault::CarriedAgain));
    let until = clock.system_time() + 2 * HOUR;
    let moves = timers.move_all(&ListQuery::new().due(..until), Shift::Later(60 * SECOND));
    let moved = moves.unwrap().wait().unwrap();
    set_durable_fault(None);
    assert!(moved > 1_000, "{moved}");
}

#[test]
fn timers_that_are_moved_fire_then() {
    let clock = ManualClock::new();
    let timers = builder(&clock).on("mail", |_| Ok(())).start().unwrap();
    let many = (0..50).map(|_| ("mail", HOUR, ""));
    timers.schedule_many(many).unwrap();
    let now = clock.system_time();
    let soon = ListQuery::new().due(..now + 2 * HOUR);
    let moves = timers.move_all(&soon, Shift::Sooner(2 * HOUR)).unwrap();
    assert_eq!(moves.wait().unwrap(), 50);
    clock.advance(SECOND);
    assert_eq!(timers.stats().done, 50);
    // An empty range.
    let never = ListQuery::new().due(now + HOUR..now);
    let moves = timers.move_all(&never, Shift::Later(HOUR)).unwrap();
    assert_eq!(moves.wait().unwrap(), 0);
}

/// Kills by kind, by cause and by time.
#[test]
fn dead_letters_are_chosen() {
    let clock = ManualClock::new();
    let timers = builder(&clock)
        .on("report", |report| match &report.payload_text()[..] {
            "bad" => Err("it is".into()),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    for number in 0..40_u32 {
        let kind = ["fails", "report"][number as usize % 2];
        timers.schedule(kind, SECOND * number, "bad").unwrap();
    }
    clock.advance(19 * SECOND + SECOND / 2);
    let middle = clock.system_time();
    clock.advance(60 * SECOND);
    let letters = |timers: &Durable| timers.dead_letters(None, 1_000).unwrap().len();
    assert_eq!(letters(&timers), 40);
    let (all, failed) = (DeadQuery::new(), Cause::Failed("".into()));
    let of = |query: &DeadQuery| timers.discard_all(query).unwrap().wait().unwrap();
    assert_eq!(of(&all.clone().kind("other")), 0);
    assert_eq!(of(&all.clone().cause(&Cause::Crashed)), 0);
    assert_eq!(of(&all.clone().since(clock.system_time())), 0);
    let late = all.clone().kind("fails").cause(&failed).since(middle);
    assert_eq!(of(&late), 10);
    assert_eq!(letters(&timers), 30);
    // They come back, and fail again: each once.
    let revival = timers.revive_all(&all.clone().kind("report")).unwrap();
    assert_eq!(revival.progress().looked_at, 30);
    assert_eq!(revival.wait().unwrap(), 20);
    clock.advance(SECOND);
    assert_eq!(letters(&timers), 30);
    assert_eq!(of(&all), 30);
    assert_eq!(letters(&timers), 0);
}

/// A call that waits for nobody's answer is done beside others, by the writer's thread.
#[test]
fn others_are_served_meanwhile() {
    let timers = Durable::builder(Memory::new());
    let slice = SliceLimit {
        rows: 5,
        bytes: 1 << 20,
    };
    let timers = timers.slices(slice).start().unwrap();
    let many = (0..20_000).map(|_| ("mail", HOUR, ""));
    let ids = timers.schedule_many(many).unwrap();
    let moves = timers
        .move_all(&ListQuery::new(), Shift::Later(HOUR))
        .unwrap();
    let mut stays = BTreeSet::new();
    // (The call has 4,000 turns to go.)
    for id in ids.iter().rev().take(100) {
        assert!(timers.cancel(*id).unwrap());
        stays.insert(*id);
    }
    let progress = moves.progress();
    let moved = smol::block_on(moves).unwrap();
    assert!(progress.changed < 20_000, "{progress:?}");
    assert!((19_900..=20_000).contains(&moved), "{moved}");
    let rows = timers.list(.., 30_000).unwrap();
    assert_eq!(rows.len(), 19_900);
    let first = rows
        .iter()
        .map(|row: &Row| row.id.first_due())
        .min()
        .unwrap();
    assert!(rows.iter().all(|row| row.due >= first.after(HOUR)));
    // After a stop none begins.
    timers.stop().unwrap();
    let error = timers.revive_all(&DeadQuery::new()).unwrap_err();
    assert!(matches!(error, DurableError::Stopped));
}
