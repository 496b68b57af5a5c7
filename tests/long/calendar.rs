//! Promise: a calendar's runs are at the times of its pattern and zone, through gaps and overlaps
//! as its policies say, and a timer follows it by the wall clock.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::calendar::{Calendar, CalendarError, Gap, Missed, Overlap, Weekday};
use wheelwork::{ManualClock, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn time(text: &str) -> SystemTime {
    let time = text.parse::<ZonedDateTime>().unwrap().timestamp();
    time.try_into().unwrap()
}

fn in_berlin(pattern: &str) -> Calendar {
    Calendar::cron(pattern)
        .unwrap()
        .zone("Europe/Berlin")
        .unwrap()
}

/// The first runs after a time in Berlin, as the clock on the wall there shows them, and what it is
/// ahead of UTC.
fn runs(calendar: &Calendar, after: &str, count: usize) -> Vec<String> {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let show = |run| {
        Timestamp::try_from(run)
            .unwrap()
            .to_zoned_datetime(berlin.clone())
            .strftime("%m-%d %H:%M %:z")
            .to_string()
    };
    calendar
        .after(time(&format!("{after}[Europe/Berlin]")))
        .take(count)
        .map(show)
        .collect()
}

#[test]
fn plain_days_are_what_they_are_called() {
    let of = |calendar: Result<Calendar, CalendarError>| {
        runs(
            &calendar.unwrap().zone("Europe/Berlin").unwrap(),
            "2026-01-30T12:00",
            2,
        )
    };
    assert_eq!(
        of(Calendar::daily(11, 59)),
        ["01-31 11:59 +01:00", "02-01 11:59 +01:00"]
    );
    assert_eq!(
        of(Calendar::weekly(Weekday::Tuesday, 9, 0)),
        ["02-03 09:00 +01:00", "02-10 09:00 +01:00"]
    );
    assert_eq!(
        of(Calendar::weekly(Weekday::Sunday, 9, 0)),
        ["02-01 09:00 +01:00", "02-08 09:00 +01:00"]
    );
    assert_eq!(
        of(Calendar::monthly(12, 9, 0)),
        ["02-12 09:00 +01:00", "03-12 09:00 +01:00"]
    );
    assert_eq!(
        of(Calendar::monthly(31, 9, 0)),
        ["01-31 09:00 +01:00", "03-31 09:00 +02:00"],
        "February has none"
    );
    assert_eq!(
        of(Calendar::last_of_month(9, 0)),
        ["01-31 09:00 +01:00", "02-28 09:00 +01:00"]
    );
    assert_eq!(
        of(Calendar::cron("0 0 * * TUE#2")),
        ["02-10 00:00 +01:00", "03-10 00:00 +01:00"]
    );
    assert_eq!(
        of(Calendar::cron("@monthly")),
        ["02-01 00:00 +01:00", "03-01 00:00 +01:00"]
    );
}

#[test]
fn a_time_in_the_gap_comes_at_its_end_or_not_at_all() {
    let after = "2026-03-28T12:00";
    let nightly = in_berlin("30 2 * * *");
    assert_eq!(
        runs(&nightly, after, 2),
        ["03-29 03:00 +02:00", "03-30 02:30 +02:00"]
    );
    assert_eq!(
        runs(&nightly.gap(Gap::Skip), after, 2),
        ["03-30 02:30 +02:00", "03-31 02:30 +02:00"]
    );
    let several = in_berlin("10,20,30 2-3 * * *");
    assert_eq!(
        runs(&several, after, 3),
        [
            "03-29 03:00 +02:00",
            "03-29 03:10 +02:00",
            "03-29 03:20 +02:00"
        ]
    );
    let at_its_end = in_berlin("0 2,3 * * *");
    assert_eq!(
        runs(&at_its_end, after, 2),
        ["03-29 03:00 +02:00", "03-30 02:00 +02:00"],
        "which is one run"
    );
    let hourly = in_berlin("15 * * * *");
    assert_eq!(
        runs(&hourly, "2026-03-29T01:00", 2),
        ["03-29 01:15 +01:00", "03-29 03:15 +02:00"],
        "an hour apart"
    );
    assert_eq!(
        runs(&hourly.gap(Gap::End), "2026-03-29T01:15", 2),
        ["03-29 03:00 +02:00", "03-29 03:15 +02:00"]
    );
}

#[test]
fn a_time_in_the_overlap_comes_once_or_twice() {
    let after = "2026-10-24T12:00";
    let nightly = in_berlin("30 2 * * *");
    assert_eq!(
        runs(&nightly, after, 2),
        ["10-25 02:30 +02:00", "10-26 02:30 +01:00"]
    );
    assert_eq!(
        runs(&nightly.clone().overlap(Overlap::Second), after, 2),
        ["10-25 02:30 +01:00", "10-26 02:30 +01:00"]
    );
    assert_eq!(
        runs(&nightly.overlap(Overlap::Both), after, 3),
        [
            "10-25 02:30 +02:00",
            "10-25 02:30 +01:00",
            "10-26 02:30 +01:00"
        ]
    );
    let twice_an_hour = in_berlin("*/30 * * * *");
    assert_eq!(
        runs(&twice_an_hour, "2026-10-25T01:45", 5),
        [
            "10-25 02:00 +02:00",
            "10-25 02:30 +02:00",
            "10-25 02:00 +01:00",
            "10-25 02:30 +01:00",
            "10-25 03:00 +01:00"
        ]
    );
    assert_eq!(
        runs(
            &twice_an_hour.overlap(Overlap::First),
            "2026-10-25T01:45",
            3
        ),
        [
            "10-25 02:00 +02:00",
            "10-25 02:30 +02:00",
            "10-25 03:00 +01:00"
        ]
    );
    // From inside the overlap: the first 02:10, and the second.
    let from = |offset: &str| {
        in_berlin("5 2 * * *")
            .overlap(Overlap::Both)
            .after(time(&format!("2026-10-25T02:10{offset}[Europe/Berlin]")))
            .next()
    };
    assert_eq!(
        from("+02:00"),
        Some(time("2026-10-25T02:05+01:00[Europe/Berlin]"))
    );
    assert_eq!(
        from("+01:00"),
        Some(time("2026-10-26T02:05[Europe/Berlin]"))
    );
}

#[test]
fn odd_zones_and_far_times() {
    // Samoa left out the thirtieth of December 2011.
    let samoa = Calendar::daily(12, 0)
        .unwrap()
        .zone("Pacific/Apia")
        .unwrap();
    let noons: Vec<_> = samoa
        .clone()
        .gap(Gap::Skip)
        .after(time("2011-12-28T13:00[Pacific/Apia]"))
        .take(2)
        .collect();
    assert_eq!(
        noons,
        [
            time("2011-12-29T12:00[Pacific/Apia]"),
            time("2011-12-31T12:00[Pacific/Apia]")
        ]
    );
    assert_eq!(
        samoa.after(time("2011-12-29T13:00[Pacific/Apia]")).next(),
        Some(time("2011-12-31T00:00[Pacific/Apia]"))
    );
    // Lord Howe's summer is half an hour.
    let lord_howe = Calendar::cron("15 * * * *")
        .unwrap()
        .zone("Australia/Lord_Howe")
        .unwrap();
    let hours: Vec<_> = lord_howe
        .after(time("2026-10-04T01:00[Australia/Lord_Howe]"))
        .take(2)
        .collect();
    assert_eq!(
        hours,
        [
            time("2026-10-04T01:15[Australia/Lord_Howe]"),
            time("2026-10-04T03:15[Australia/Lord_Howe]")
        ]
    );
    // Eight years without one.
    let leap_day = Calendar::cron("0 0 29 2 *")
        .unwrap()
        .zone("Europe/Berlin")
        .unwrap();
    assert_eq!(
        leap_day
            .after(time("2096-03-01T00:00[Europe/Berlin]"))
            .next(),
        Some(time("2104-02-29T00:00[Europe/Berlin]"))
    );
    let far = Calendar::cron("0 0 0 1 1 * 4000")
        .unwrap()
        .zone("Europe/Berlin")
        .unwrap();
    assert_eq!(
        far.after(SystemTime::UNIX_EPOCH).collect::<Vec<_>>(),
        [time("4000-01-01T00:00[Europe/Berlin]")]
    );
    assert_eq!(
        far.after(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40))
            .next(),
        None
    );
    assert_eq!(
        far.after(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 62))
            .next(),
        None
    );
}

#[test]
fn what_is_no_calendar_says_why_in_a_line() {
    let patterns = [
        "",
        "x y",
        "61 * * * *",
        "* * * *",
        "0 0 30 2 *",
        "0 0 31 2,4,6 *",
        "* * * * FOO",
        "0 9 * * * * * *",
    ];
    for error in patterns.map(|pattern| Calendar::cron(pattern).unwrap_err()) {
        let text = error.to_string();
        assert!(
            text.starts_with("cron pattern \"")
                && text.lines().count() == 1
                && !text.ends_with('.'),
            "{text}"
        );
    }
    for nothing in [
        Calendar::daily(24, 0),
        Calendar::daily(0, 60),
        Calendar::monthly(0, 9, 0),
        Calendar::monthly(32, 9, 0),
    ] {
        assert!(matches!(nothing, Err(CalendarError::Field { .. })));
    }
    let error = Calendar::daily(9, 0)
        .unwrap()
        .zone("Middle/Earth")
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("time zone \"Middle/Earth\": "),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Against every minute of three days around a transition, each looked at by itself.
    #[test]
    fn runs_are_those_of_a_look_at_every_minute(
        minutes in "(\\*|\\*/7|[0-9]|[1-5][0-9]|0,30)", hours in "(\\*|\\*/2|[0-3]|1-3)",
        spring in any::<bool>(), gap in any::<bool>(), overlap in 0..3usize, zone in 0..3usize,
    ) {
        let zone = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"][zone];
        let (gap, overlap) = (if gap { Gap::End } else { Gap::Skip }, [Overlap::First, Overlap::Second, Overlap::Both][overlap]);
        let calendar = Calendar::cron(&format!("{minutes} {hours} * * *")).unwrap().zone(zone).unwrap().gap(gap).overlap(overlap);
        let tz = TimeZone::get(zone).unwrap();
        let year_half: Timestamp = if spring { "2026-01-10T00:00Z" } else { "2026-07-10T00:00Z" }.parse().unwrap();
        let transition = tz.following(year_half).next().unwrap().timestamp();
        let (from, to) = (transition - 36.hours(), transition + 36.hours());
        // The pattern by itself, where there are no transitions.
        let utc = Calendar::cron(&format!("{minutes} {hours} * * *")).unwrap().zone("UTC").unwrap();
        let matches = |civil: jiff::civil::DateTime| {
            let at: SystemTime = TimeZone::UTC.to_timestamp(civil).unwrap().try_into().unwrap();
            utc.after(at - SECOND).next() == Some(at)
        };
        let mut expected = Vec::new();
        let mut at = from + 1.minute();
        while at <= to {
            let civil = tz.to_datetime(at);
            let ambiguous = tz.to_ambiguous_timestamp(civil);
            let is_first = ambiguous.earlier().unwrap() == at;
            let is_twice = ambiguous.is_ambiguous();
            let is_wanted = !is_twice || match overlap { Overlap::First => is_first, Overlap::Second => !is_first, _ => true };
            // At the end of a gap: what was left out since the minute before.
            let mut left_out = false;
            let mut gone = tz.to_datetime(at - 1.minute()) + 1.minute();
            while at == transition && gone < civil {
                left_out |= matches(gone);
                gone += 1.minute();
            }
            if matches(civil) && is_wanted || left_out && gap == Gap::End {
                expected.push(at);
            }
            at += 1.minute();
        }
        let found: Vec<_> = calendar.after(from.try_into().unwrap()).map(|run| Timestamp::try_from(run).unwrap()).take_while(|&run| run <= to).collect();
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The same runs, each so much later: from any time on, and for what was missed.
    #[test]
    fn runs_with_an_offset_are_those_without_it_and_later(
        minute in 0..60u8, hours in "(\\*|\\*/2|[0-3]|1-3)",
        offset_ms in prop_oneof![0..5_000_u64, 0..10_000_000_u64, 0..400_000_000_u64],
        spring in any::<bool>(), after_ms in 0..200_000_000_u64, late_ms in 0..20_000_000_u64,
        policy in 0..3usize,
    ) {
        let policies = [Missed::Once, Missed::Burst(2), Missed::SkipAfter(HOUR)];
        let calendar = in_berlin(&format!("{minute} {hours} * * *")).missed(policies[policy]);
        let offset = MS * u32::try_from(offset_ms).unwrap();
        let later = calendar.clone().offset(offset);
        let day = if spring { "2026-03-28T00:00" } else { "2026-10-24T00:00" };
        let meant = time(&format!("{day}[Europe/Berlin]")) + Duration::from_millis(after_ms);
        let expected: Vec<_> = calendar.after(meant).take(40).map(|run| run + offset).collect();
        let found: Vec<_> = later.after(meant + offset).take(40).collect();
        prop_assert_eq!(&found, &expected);
        prop_assert!(later.runs_as(&later) && later.runs_as(&calendar) == (offset_ms == 0));

        let due = calendar.after(meant).next().unwrap();
        let now = due + Duration::from_millis(late_ms);
        let shifted = |run: Option<SystemTime>| run.map(|run| run + offset);
        let made = calendar.in_time(due, now);
        prop_assert_eq!(later.in_time(due + offset, now + offset), shifted(made));
        let mut counts = [0, 0];
        let next = calendar.following(due, now, &mut counts[0]);
        let of_later = later.following(due + offset, now + offset, &mut counts[1]);
        prop_assert_eq!(of_later, shifted(next));
        prop_assert_eq!(counts[0], counts[1]);
    }
}

#[test]
fn an_offset_goes_to_the_end_of_time_and_no_further() {
    let yearly = Calendar::cron("0 0 1 1 *").unwrap().zone("UTC").unwrap();
    let longest = yearly.clone().offset(Duration::MAX);
    let days = |count: u64| HOUR * 24 * u32::try_from(count).unwrap();
    assert!(longest.runs_as(&yearly.clone().offset(days(366))));
    let last = yearly.after(time("4998-06-01T00:00[UTC]")).last().unwrap();
    let last_of_longest = longest.after(time("4998-06-01T00:00[UTC]")).last();
    assert_eq!(last_of_longest, Some(last + days(366)));
    assert_eq!(longest.after(last + days(366)).next(), None);
    // Times before all calendars, and before the offset.
    let oldest = SystemTime::try_from(Timestamp::MIN).unwrap();
    for calendar in [&yearly, &longest] {
        assert!(calendar.after(oldest).next().is_some());
    }
}

#[test]
fn a_timer_follows_a_calendar_with_an_offset() {
    let (clock, service, log) = service("2026-03-01T00:00[Europe/Berlin]");
    let offset = HOUR * 3 + MS * 250;
    let calendar = in_berlin("30 2 * * *");
    follow(&service, &clock, &log, calendar.clone().offset(offset));
    clock.advance(HOUR * 24 * 60);
    let since = time("2026-03-01T00:00[Europe/Berlin]") - offset;
    let expected: Vec<_> = calendar
        .after(since)
        .take(60)
        .map(|run| run + offset)
        .collect();
    assert_eq!(*log.lock().unwrap(), expected);
}

type Log = Arc<Mutex<Vec<SystemTime>>>;

/// A service whose wall clock shows this, and what ran when.
fn service(now: &str) -> (ManualClock, TimerService, Log) {
    let clock = ManualClock::new();
    clock.set_system_time(time(now));
    (
        clock.clone(),
        TimerService::builder()
            .clock(clock)
            .tick(MS)
            .start()
            .unwrap(),
        Log::default(),
    )
}

fn follow(
    service: &TimerService,
    clock: &ManualClock,
    log: &Log,
    calendar: Calendar,
) -> wheelwork::TimerId {
    let (time, log) = (clock.clone(), log.clone());
    service
        .schedule_calendar(calendar, move || {
            log.lock().unwrap().push(time.system_time())
        })
        .unwrap()
}

#[test]
fn a_timer_follows_its_calendar_through_a_year() {
    let (clock, service, log) = service("2026-01-01T00:00[Europe/Berlin]");
    let calendar = in_berlin("30 2 * * *");
    let id = follow(&service, &clock, &log, calendar.clone());
    let looks = || service.stats().sum(|shard| shard.machinery.dispatched());
    clock.advance(HOUR * 24 * 365);
    let expected: Vec<_> = calendar
        .after(time("2026-01-01T00:00[Europe/Berlin]"))
        .take(365)
        .collect();
    assert_eq!(
        *log.lock().unwrap(),
        expected,
        "to the tick, summer and winter"
    );
    // It looked at the clock for each run, and once after it: nobody has set the clock.
    assert!((365..=2 * 366).contains(&looks()), "{} looks", looks());
    assert!(service.is_pending(id) && service.cancel(id));
    clock.advance(HOUR * 48);
    assert_eq!(
        (log.lock().unwrap().len(), Arc::strong_count(&log)),
        (365, 1)
    );
}

#[test]
fn a_clock_that_is_set_is_followed_within_a_minute() {
    let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
    follow(&service, &clock, &log, in_berlin("0 9 * * *"));
    clock.advance(HOUR / 2);
    // Forward, over the run: made up for.
    clock.set_system_time(time("2026-06-01T09:30[Europe/Berlin]"));
    clock.advance(SECOND * 60);
    assert_eq!(log.lock().unwrap().len(), 1);
    // Back again: no second run.
    clock.set_system_time(time("2026-06-01T08:59[Europe/Berlin]"));
    clock.advance(HOUR);
    assert_eq!(log.lock().unwrap().len(), 1);
    clock.advance(HOUR * 24);
    assert_eq!(
        log.lock().unwrap()[1..],
        [time("2026-06-02T09:00[Europe/Berlin]")]
    );
}

/// It tells its timers, wherever it is set from.
#[test]
fn a_manual_clock_that_is_set_is_followed_on_the_next_tick() {
    let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
    let id = follow(&service, &clock, &log, in_berlin("0 9 * * *"));
    let moved = follow(&service, &clock, &log, in_berlin("0 9 * * *"));
    assert!(service.reschedule(moved, HOUR * 5));
    let nine = time("2026-06-01T09:00[Europe/Berlin]");
    clock.set_system_time(nine);
    clock.set_system_time(nine);
    clock.advance(MS);
    assert_eq!(*log.lock().unwrap(), [nine + MS]);
    // By a task, which is followed before time moves on.
    let setter = clock.clone();
    let set = move || setter.set_system_time(time("2026-06-02T08:59:59[Europe/Berlin]"));
    service.schedule(HOUR, set).unwrap();
    clock.advance(HOUR * 2);
    let second_nine = time("2026-06-02T09:00[Europe/Berlin]");
    assert_eq!(log.lock().unwrap()[1..], [second_nine]);
    // What a user has moved stays where it is, and goes on with its calendar then.
    clock.advance(HOUR * 3 - MS * 2);
    assert_eq!(log.lock().unwrap().len(), 2);
    clock.advance(MS);
    assert_eq!(log.lock().unwrap().len(), 3);
    // (One run for what it has missed; then both at nine.)
    clock.advance(HOUR * 24);
    assert_eq!(log.lock().unwrap().len(), 6);
    assert!(service.cancel(id) && service.cancel(moved));
}

/// By how much the clock is set back counts, to the second; not how long ago the last run was.
#[test]
fn a_clock_that_is_set_back_by_more_than_three_hours_begins_anew() {
    // It ran at nine. From ten o'clock, three hours back are a correction.
    for (back, runs) in [
        (HOUR * 3, 1),
        (HOUR * 3 + SECOND, 2),
        (HOUR * 4, 2),
        (HOUR * 24 * 700, 2),
    ] {
        // Wherever between two looks it is set.
        for off in [0, 1, 29, 59] {
            let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
            follow(&service, &clock, &log, in_berlin("0 9 * * *"));
            clock.advance(HOUR * 2 + SECOND * off);
            assert_eq!(
                *log.lock().unwrap(),
                [time("2026-06-01T09:00[Europe/Berlin]")]
            );
            clock.set_system_time(clock.system_time() - back);
            clock.advance(HOUR * 24);
            let second = log.lock().unwrap().get(1).copied();
            assert_eq!(
                log.lock().unwrap().len(),
                runs,
                "{back:?} back, {off} s after a look: {second:?}"
            );
        }
    }
}

#[test]
fn a_clock_that_is_set_back_twice_by_a_little_repeats_nothing() {
    let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
    follow(&service, &clock, &log, in_berlin("0 9 * * *"));
    clock.advance(HOUR * 2);
    for _ in 0..2 {
        clock.set_system_time(clock.system_time() - HOUR * 2);
        clock.advance(SECOND * 90);
    }
    clock.advance(HOUR * 27);
    let days = [1, 2].map(|day| time(&format!("2026-06-0{day}T09:00[Europe/Berlin]")));
    assert_eq!(*log.lock().unwrap(), days);
}

/// While the clock was wrong there was no run, so that the last one is from before.
#[test]
fn a_clock_that_was_wrong_leaves_no_gap() {
    let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
    follow(
        &service,
        &clock,
        &log,
        in_berlin("0 9 * * *").missed(Missed::SkipAfter(HOUR)),
    );
    clock.set_system_time(time("2027-06-01T12:00[Europe/Berlin]"));
    clock.advance(SECOND * 60);
    clock.set_system_time(time("2026-06-01T08:30[Europe/Berlin]"));
    clock.advance(HOUR);
    assert_eq!(
        *log.lock().unwrap(),
        [time("2026-06-01T09:00[Europe/Berlin]")]
    );
}

/// Whatever the clock shows, before the calendar's years and after them.
#[test]
fn a_clock_beyond_all_calendars_panics_nowhere() {
    for far in [
        SECOND * 9,
        HOUR * 24 * 365 * 2_100,
        HOUR * 24 * 365 * 20_000,
        Duration::from_nanos(u64::MAX),
        Duration::from_secs(1 << 61),
    ] {
        for now in [
            SystemTime::UNIX_EPOCH.checked_sub(far),
            SystemTime::UNIX_EPOCH.checked_add(far),
        ]
        .into_iter()
        .flatten()
        {
            let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
            let calendars =
                ["* * * * *", "0 9 * * *", "30 2 29 2 *", "0 0 0 1 1 * 4000"].map(in_berlin);
            calendars
                .iter()
                .for_each(|calendar| assert!(calendar.after(now).take(3).is_sorted()));
            let arm = || {
                calendars
                    .iter()
                    .for_each(|calendar| _ = follow(&service, &clock, &log, calendar.clone()))
            };
            arm();
            clock.set_system_time(now);
            arm();
            clock.advance(SECOND * 150);
            clock.set_system_time(time("2026-06-01T08:58:30[Europe/Berlin]"));
            clock.advance(SECOND * 150);
            assert_eq!(service.stats().panics, 0, "{now:?}");
        }
    }
}

#[test]
fn runs_that_take_too_long_are_missed() {
    let (clock, service, log) = service("2026-06-01T08:00:30[Europe/Berlin]");
    // Every minute; each run takes two and a half.
    let (slow, count) = (clock.clone(), log.clone());
    let calendar = in_berlin("* * * * *").missed(Missed::Burst(2));
    let id = service.schedule_calendar(calendar, move || {
        count.lock().unwrap().push(slow.system_time());
        if count.lock().unwrap().len() == 1 {
            slow.set_system_time(slow.system_time() + SECOND * 150);
        }
    });
    // 08:01:00, then at 08:03:30 what was meant for 08:02 and 08:03, then 08:04.
    clock.advance(SECOND * 30);
    let half_past = time("2026-06-01T08:03:30[Europe/Berlin]");
    clock.advance(Duration::from_millis(3));
    assert_eq!(log.lock().unwrap().len(), 3);
    assert!(
        log.lock().unwrap()[1..]
            .iter()
            .all(|&run| run >= half_past && run < half_past + SECOND)
    );
    clock.advance(SECOND * 30);
    assert_eq!(
        log.lock().unwrap()[3],
        time("2026-06-01T08:04:00[Europe/Berlin]")
    );
    assert!(service.cancel(id.unwrap()));
}

#[test]
fn it_is_moved_and_ended_like_any_timer() {
    let (clock, service, log) = service("2026-06-01T08:00[Europe/Berlin]");
    let id = follow(&service, &clock, &log, in_berlin("0 9 * * *"));
    assert!(service.reschedule(id, SECOND * 5));
    clock.advance(HOUR);
    let [early, nine] = log.lock().unwrap()[..] else {
        panic!("two runs")
    };
    assert_eq!(
        (early, nine),
        (
            time("2026-06-01T08:00:05[Europe/Berlin]"),
            time("2026-06-01T09:00[Europe/Berlin]")
        )
    );
    // One that is over ends by itself, and one that panics goes on.
    let over = follow(&service, &clock, &log, in_berlin("0 0 9 1 6 * 2026"));
    let panics = service
        .schedule_calendar(in_berlin("* * * * *"), || {
            std::panic::resume_unwind(Box::new(()))
        })
        .unwrap();
    clock.advance(SECOND * 150);
    assert_eq!(
        (
            service.is_pending(over),
            service.is_pending(panics),
            service.stats().panics
        ),
        (false, true, 2)
    );
    // Not fired by `stop`, nor handed back.
    let runs = log.lock().unwrap().len();
    assert!(service.stop_with(StopPolicy::FireAll).is_empty());
    assert_eq!(
        (log.lock().unwrap().len(), Arc::strong_count(&log)),
        (runs, 1)
    );
    assert!(
        service
            .schedule_calendar(in_berlin("* * * * *"), || ())
            .is_err()
    );
}

/// The last civil time of a pattern that ends: the clock on the wall shows it twice.
#[test]
fn the_last_time_of_a_pattern_comes_again() {
    let runs = |calendar: Calendar, zone: &str| {
        let calendar = calendar.zone(zone).unwrap();
        calendar.after(SystemTime::UNIX_EPOCH).take(100).count()
    };
    let fold = || Calendar::quartz("0 30 2 25 10 ? 2026").unwrap();
    for (overlap, count) in [
        (Overlap::First, 1),
        (Overlap::Second, 1),
        (Overlap::Both, 2),
    ] {
        assert_eq!(
            runs(fold().overlap(overlap), "Europe/Berlin"),
            count,
            "{overlap:?}"
        );
    }
    let hours = Calendar::cron("0 30 * 24 10 * 2026").unwrap();
    assert_eq!(runs(hours, "Asia/Beirut"), 25, "its day has 25 hours");
}

#[test]
fn a_zone_may_stand_before_the_fields() {
    for text in ["CRON_TZ=Asia/Tokyo 0 9 * * *", "TZ=Asia/Tokyo  0 9 * * *"] {
        for calendar in [Calendar::cron(text), Calendar::vixie(text)] {
            let text = calendar.unwrap().to_string();
            assert!(text.ends_with(" 0 9 * * *; zone=Asia/Tokyo"), "{text}");
        }
    }
    let error = Calendar::cron("CRON_TZ=Nowhere/City 0 9 * * *").unwrap_err();
    assert!(matches!(error, CalendarError::Zone { name, .. } if name == "Nowhere/City"));
    assert!(Calendar::quartz("CRON_TZ=Asia/Tokyo 0 0 9 ? * 2").is_err());
}

#[test]
fn a_variable_that_names_no_zone_is_an_error() {
    const TEST: &str = "calendar::a_variable_that_names_no_zone_is_an_error";
    const TRIED: &str = "WHEELWORK_TEST_ZONE";
    if std::env::var_os(TRIED).is_some() {
        let error = Calendar::daily(9, 0).unwrap_err();
        assert!(error.to_string().contains("Nowhere/City"), "{error}");
        assert!(matches!(error, CalendarError::Zone { .. }));
        assert!("cron 0 9 * * *; zone=UTC".parse::<Calendar>().is_ok());
        assert!(Calendar::cron("TZ=UTC 0 9 * * *").is_ok());
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact"])
        .envs([(TRIED, "1"), ("TZ", "Nowhere/City")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
