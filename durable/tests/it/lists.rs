//! Promise: a list goes on from page to page, also inside one deadline, and misses no timer that
//! stays as it is, whatever is armed, cancelled, moved and swept meanwhile.

use crate::all_may_go::AllMayGo;
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
#[cfg(feature = "calendar")]
use wheelwork_durable::CalendarPage;
use wheelwork_durable::contract::{HeldWhy, Outcome, Settled, SliceLimit, Store, Target, Write};
use wheelwork_durable::{
    Durable, DurableId, ListCursor, ListPage, ListQuery, Memory, ParseCursorError, Redb,
    RetryPolicy, Row, SpawnedFuture, StoreTime, TimerState,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// All pages of a query, each as it comes.
fn pages(timers: &Durable, mut query: ListQuery, mut each: impl FnMut(usize)) -> Vec<ListPage> {
    let mut pages = Vec::new();
    loop {
        let page = timers.list_page(&query).unwrap();
        let next = page.next;
        pages.push(page);
        each(pages.len());
        match next {
            Some(next) => query = query.after(next),
            None => return pages,
        }
    }
}

fn rows(timers: &Durable, query: ListQuery) -> Vec<Row> {
    let pages = pages(timers, query, |_| {});
    pages.into_iter().flat_map(|page| page.rows).collect()
}

fn texts(timers: &Durable, query: ListQuery) -> Vec<String> {
    let rows = rows(timers, query);
    let text = |row: &Row| String::from_utf8_lossy(&row.payload).into_owned();
    rows.iter().map(text).collect()
}

/// 10,000 timers are due at once. In pages of 7 each that stays is listed exactly once.
fn pages_go_on_inside_a_deadline(store: impl Store) {
    let clock = ManualClock::new();
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .start()
        .unwrap();
    let now = clock.system_time();
    let (due, day) = (now + HOUR, now + 24 * HOUR);
    let armed = timers.schedule_many((0..10_000).map(|_| ("mail", due, "stays")));
    let armed = armed.unwrap();
    let mut stays: BTreeSet<DurableId> = armed.iter().copied().collect();
    let mut random = fastrand::Rng::with_seed(50);
    let pages = pages(&timers, ListQuery::new().due(..day).limit(7), |page| {
        // (Each act has rows before the page, on it, and behind it.)
        let id = armed[random.usize(..armed.len())];
        match page % 4 {
            0 => drop(timers.schedule("mail", due, "is new").unwrap()),
            1 => {
                timers.cancel(id).unwrap();
                stays.remove(&id);
            }
            2 => {
                let when = [due - SECOND, due + SECOND, day + HOUR][random.usize(..3)];
                timers.reschedule(id, when).unwrap();
                stays.remove(&id);
            }
            // (Time passes, so the writer has turns for its sweeps.)
            _ => clock.advance(Duration::from_millis(1)),
        }
    });
    assert!(pages.len() > 1_300, "{} pages", pages.len());
    assert!(pages.iter().all(|page| page.rows.len() <= 7));
    let rows: Vec<Row> = pages.into_iter().flat_map(|page| page.rows).collect();
    let places: Vec<_> = rows.iter().map(Row::position).collect();
    assert!(places.is_sorted_by(|one, other| one < other), "in order");
    let mut listed = BTreeSet::new();
    for row in &rows {
        let is_new = listed.insert(row.id);
        assert!(is_new || !stays.contains(&row.id), "{} twice", row.id);
    }
    let missed: Vec<_> = stays.difference(&listed).collect();
    assert!(missed.is_empty(), "{} are missed", missed.len());
}

#[test]
fn pages_go_on_inside_a_deadline_in_memory() {
    pages_go_on_inside_a_deadline(Memory::new());
}

#[test]
fn pages_go_on_inside_a_deadline_in_a_file() -> Result<(), Box<dyn Error>> {
    let name = format!("wheelwork-lists-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)?;
    // (It sweeps all the time.)
    let store = Redb::builder().sweep_at(64, 4_096);
    pages_go_on_inside_a_deadline(store.open(folder.join("timers.redb"))?);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn filters_add_up() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new()).clock(clock.clone());
    // (Slices of 3: a page is put together from many.)
    let slice = SliceLimit {
        rows: 3,
        bytes: 1 << 20,
    };
    let timers = timers.slices(slice).start().unwrap();
    let now = clock.system_time();
    for number in 0..40_u32 {
        let kind = ["mail", "report"][number as usize % 2];
        let key = format!("{}/{number}", ["shop", "shö", "sh"][number as usize % 3]);
        let when = now + HOUR * (number / 10 + 1);
        let timer = timers.key(&key);
        timer.schedule(kind, when, format!("{number}")).unwrap();
    }
    timers.schedule("mail", now + HOUR, "no key").unwrap();
    let all = ListQuery::new().limit(2);
    let numbers = |query: ListQuery, is: fn(u32) -> bool| {
        let expected: Vec<_> = (0..40).filter(|&number| is(number)).collect();
        let expected: Vec<_> = expected.iter().map(u32::to_string).collect();
        assert_eq!(texts(&timers, query), expected);
    };
    assert_eq!(rows(&timers, all.clone()).len(), 41);
    numbers(all.clone().key_prefix(""), |_| true);
    numbers(all.clone().kind("mail").key_prefix(""), |n| n % 2 == 0);
    numbers(all.clone().kind("report"), |n| n % 2 == 1);
    numbers(all.clone().key_prefix("sh/"), |n| n % 3 == 2);
    numbers(all.clone().key_prefix("shö/1"), |n| {
        n % 3 == 1 && (n == 1 || n / 10 == 1)
    });
    numbers(all.clone().kind("report").key_prefix("shop/"), |n| {
        n % 2 == 1 && n % 3 == 0
    });
    let later = all.clone().kind("mail").due(now + 2 * HOUR..now + 4 * HOUR);
    numbers(later, |n| n % 2 == 0 && (10..30).contains(&n));
    numbers(all.clone().kind("other"), |_| false);
    let never = now + HOUR..now;
    numbers(all.clone().due(never), |_| false);
    // A limit of 0 would never come to an end.
    assert_eq!(rows(&timers, all.limit(0)).len(), 41);
}

#[test]
fn states_are_those_at_the_time_of_the_look() {
    let clock = ManualClock::new();
    let futures = Arc::<Mutex<Vec<SpawnedFuture>>>::default();
    let kept = futures.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on("fails", |_| Err("it does".into()))
        .retry_policy(RetryPolicy::new().first(60 * SECOND))
        .on_async("lasts", |_| async { Ok(()) })
        // (They wait for their executor.)
        .spawner(move |future| kept.lock().unwrap().push(future))
        .start()
        .unwrap();
    timers.schedule("mail", HOUR, "waits").unwrap();
    timers.schedule("lasts", SECOND, "is handled").unwrap();
    timers
        .schedule("fails", SECOND, "is to be tried again")
        .unwrap();
    clock.advance(2 * SECOND);
    let of = |state| texts(&timers, ListQuery::new().state(state).limit(1));
    assert_eq!(of(TimerState::Waiting), ["is to be tried again", "waits"]);
    assert_eq!(of(TimerState::Handled), ["is handled"]);
    assert_eq!(of(TimerState::Due), [""; 0]);
    assert_eq!(of(TimerState::Suspect), [""; 0]);
    futures.lock().unwrap().clear();
    timers.stop().unwrap();
}

/// Held rows lie behind all others in a store. A list has them where their users expect them.
#[test]
fn held_timers_are_listed_by_the_deadline_that_they_had() {
    let clock = ManualClock::new();
    let now = StoreTime::reading(clock.system_time());
    let mut store = Memory::new();
    let epoch = store.acquire().unwrap()[0].epoch;
    let mut names = Vec::new();
    for number in 0..60_u64 {
        let due = now.after(HOUR + SECOND * (number as u32 % 7));
        let name = format!("{number:02}");
        let row = Row::new(
            store.new_id(None, due),
            due,
            "mail".into(),
            name.as_bytes().into(),
        );
        store
            .commit(vec![Write::Arm(row.clone())], &mut AllMayGo)
            .unwrap();
        names.push((row.position(), name));
        if number % 3 == 0 {
            let of = Settled {
                id: row.id,
                due,
                epoch,
            };
            let (why, since) = (HeldWhy::Unhandled, now);
            let held = Write::Hold { of, why, since };
            let outcomes = store.commit(vec![held], &mut AllMayGo).unwrap();
            assert!(matches!(outcomes[..], [Outcome::Settled(true, Some(_))]));
            let row = store.get(&Target::Id(row.id)).unwrap().unwrap();
            assert!(row.held().is_some());
        }
    }
    // (A deadline after the year 6429, which is not that of a held row.)
    let far = StoreTime::from_millis((1 << 47) + now.as_millis());
    let row = Row::new(store.new_id(None, far), far, "mail".into(), [].into());
    store
        .commit(vec![Write::Arm(row.clone())], &mut AllMayGo)
        .unwrap();
    names.push((row.position(), String::new()));
    store.release().unwrap();
    names.sort();
    let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();

    let slice = SliceLimit {
        rows: 4,
        bytes: 1 << 20,
    };
    let timers = Durable::builder(store).clock(clock).slices(slice);
    let timers = timers.start().unwrap();
    for limit in [1, 2, 7, 100] {
        assert_eq!(texts(&timers, ListQuery::new().limit(limit)), names);
        let held = texts(
            &timers,
            ListQuery::new().state(TimerState::Held).limit(limit),
        );
        assert_eq!(held.len(), 20);
        let others = ListQuery::new().state(TimerState::Waiting).limit(limit);
        assert_eq!(texts(&timers, others).len(), 41);
    }
    let until = SystemTime::UNIX_EPOCH + Duration::from_millis(now.as_millis()) + HOUR;
    let first = texts(&timers, ListQuery::new().due(..=until).limit(3));
    assert_eq!(first, names[..9]);
}

#[cfg(feature = "calendar")]
#[test]
fn calendars_tell_their_next_runs() -> Result<(), Box<dyn Error>> {
    use wheelwork::calendar::Calendar;
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on("fails", |_| Err("it does".into()))
        .retry_policy(RetryPolicy::new().first(7 * SECOND))
        .start()?;
    // (Noon of a day in 2023.)
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(19_675 * 86_400 + 43_200);
    clock.set_system_time(noon);
    let daily = |hour, kind| {
        let calendar = Calendar::daily(hour, 0)?.zone("UTC")?;
        timers.schedule_calendar(kind, calendar, format!("{hour}"))?;
        Ok::<_, Box<dyn Error>>(())
    };
    daily(9, "report")?;
    daily(13, "fails")?;
    daily(15, "report")?;
    for _ in 0..200 {
        timers.schedule("mail", HOUR, "")?;
    }
    let hours = |page: &CalendarPage| -> Vec<Vec<u64>> {
        let since = |time: &SystemTime| time.duration_since(noon).unwrap().as_secs() / 3_600;
        let runs = page.rows.iter().map(|row| &row.runs);
        runs.map(|runs| runs.iter().map(since).collect()).collect()
    };
    let page = timers.calendars(None, 2, 3)?;
    assert_eq!(hours(&page), [[1, 25, 49], [3, 27, 51]]);
    let rest = timers.calendars(page.next, 2, 3)?;
    assert_eq!((hours(&rest), rest.next), (vec![vec![21, 45, 69]], None));
    assert_eq!(timers.calendars(None, 9, 0)?.rows[0].runs, []);
    // Its first run has failed, and is tried again in a few seconds.
    clock.advance(HOUR + SECOND);
    let page = timers.calendars(None, 1, 2)?;
    let again = page.rows[0].row.due.system_time();
    assert!(again > noon + HOUR && again < noon + HOUR + 10 * SECOND);
    assert_eq!(page.rows[0].runs, [again, noon + 25 * HOUR]);
    Ok(())
}

#[test]
fn a_cursor_is_a_text() {
    let timers = Durable::builder(Memory::new()).start().unwrap();
    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(250_000_000_000);
    timers.schedule("mail", late, "").unwrap();
    timers.schedule("mail", late, "").unwrap();
    let cursor = timers.list_page(&ListQuery::new().limit(1)).unwrap().next;
    let cursor = cursor.expect("there is one more");
    let text = cursor.to_string();
    assert_eq!(text.len(), 44);
    assert_eq!(text.parse(), Ok(cursor));
    for wrong in [&text[1..], &format!("{text}0"), &text.replace('0', "+"), ""] {
        assert_eq!(wrong.parse::<ListCursor>(), Err(ParseCursorError));
    }
}
