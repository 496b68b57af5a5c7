//! Promise: a calendar's text makes an equal calendar, and what is none of a calendar is refused.

use jiff::SignedDuration;
use proptest::prelude::*;
use std::time::{Duration, SystemTime};
use wheelwork::calendar::{Calendar, CalendarError, Gap, Missed, Overlap, Weekday};

type Read = fn(&str) -> Result<Calendar, CalendarError>;

const DIALECTS: [(&str, Read); 3] = [
    ("cron", Calendar::cron),
    ("quartz", Calendar::quartz),
    ("vixie", Calendar::vixie),
];

fn read(text: &str) -> Calendar {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Some runs of a calendar, through both changes of a year's clock.
fn runs(calendar: &Calendar) -> Vec<SystemTime> {
    let hour = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3_600);
    // Shortly before 2026-03-08, 2026-03-29 and 2026-10-25, when clocks are set in America and
    // Europe.
    let days = [20_519, 20_540, 20_750].map(|day| hour(day * 24));
    let runs = days.into_iter().flat_map(|day| calendar.after(day).take(6));
    runs.collect()
}

#[test]
fn each_call_has_its_text() {
    let table: [(Calendar, &str); 9] = [
        (Calendar::daily(9, 0).unwrap(), "cron 0 9 * * *"),
        (
            Calendar::weekly(Weekday::Sunday, 23, 59).unwrap(),
            "cron 59 23 * * 7",
        ),
        (Calendar::monthly(31, 0, 0).unwrap(), "cron 0 0 31 * *"),
        (Calendar::last_of_month(18, 30).unwrap(), "cron 30 18 L * *"),
        (Calendar::vixie(" @daily ").unwrap(), "vixie @daily"),
        (
            Calendar::quartz("0  0 9\t?\n* fri#2 ").unwrap(),
            "quartz 0 0 9 ? * fri#2",
        ),
        (
            Calendar::cron("0 9 LW * +MON")
                .unwrap()
                .zone("America/New_York")
                .unwrap()
                .gap(Gap::Skip)
                .overlap(Overlap::Second)
                .missed(Missed::BURST_ALL),
            "cron 0 9 LW * +MON; zone=America/New_York; gap=skip; overlap=second; \
             missed=burst 4294967295",
        ),
        (
            Calendar::daily(0, 0)
                .unwrap()
                .missed(Missed::SkipAfter(Duration::from_millis(90_500))),
            "cron 0 0 * * *; missed=skip-after PT1M30.5S",
        ),
        (
            Calendar::daily(2, 30)
                .unwrap()
                .zone("Europe/Berlin")
                .unwrap()
                .offset(Duration::from_millis(1_037_250))
                .missed(Missed::Burst(3)),
            "cron 30 2 * * *; zone=Europe/Berlin; offset=PT17M17.25S; missed=burst 3",
        ),
    ];
    for (calendar, text) in table {
        assert_eq!(calendar.to_string(), text);
        assert_eq!(read(text).to_string(), text);
        assert_eq!(runs(&read(text)), runs(&calendar), "{text}");
    }
}

#[test]
fn settings_come_in_any_order_and_with_any_spaces() {
    let tidy = "cron 0 9 * * *; zone=UTC; gap=skip; missed=burst 3";
    for text in [
        "cron 0 9 * * *;missed=burst 3;gap=skip;zone=UTC",
        "  cron  0 9  * * * ; gap = skip ; zone = UTC ; missed = burst  3 ; overlap = first\n",
    ] {
        assert_eq!(read(text).to_string(), tidy);
    }
    // What is as it would be unless set is left out; which that is, the hours say.
    assert_eq!(
        read("cron 0 9 * * *; gap=end; overlap=first; missed=once").to_string(),
        "cron 0 9 * * *"
    );
    assert_eq!(
        read("cron 0 * * * *; gap=end; overlap=first").to_string(),
        "cron 0 * * * *; gap=end; overlap=first"
    );
    assert_eq!(
        read("cron 0 * * * *; gap=skip; overlap=both").to_string(),
        "cron 0 * * * *"
    );
    let friendly = "cron 0 9 * * *; missed=skip-after 1h 30m";
    assert_eq!(
        read(friendly).to_string(),
        "cron 0 9 * * *; missed=skip-after PT1H30M"
    );
    for (offset, tidy) in [
        ("1h 30m", "; offset=PT1H30M"),
        ("PT0.0019S", "; offset=PT0.001S"),
        ("PT0.0009S", ""),
        ("PT9000H", "; offset=PT8784H"),
    ] {
        let text = read(&format!("cron 0 9 * * *; offset={offset}")).to_string();
        assert_eq!(text, format!("cron 0 9 * * *{tidy}"));
    }
}

/// A text without a zone means the zone of the system that reads it, whatever it was where the text
/// was written.
#[test]
fn no_zone_is_the_zone_of_the_system() {
    let here = Calendar::daily(9, 0).unwrap();
    assert!(!here.to_string().contains("zone"));
    assert_eq!(runs(&read(&here.to_string())), runs(&here));
    // A zone that was named stays named, even if it is the system's.
    let named = here.zone("UTC").unwrap();
    assert_eq!(named.to_string(), "cron 0 9 * * *; zone=UTC");
}

#[test]
fn what_is_none_says_why_in_a_line() {
    let dialects = "is none of cron, quartz, vixie";
    let policies = "is none of once, burst 3, skip-after PT3H";
    let table = [
        ("", format!("dialect: \"\" {dialects}")),
        ("0 9 * * *", format!("dialect: \"0\" {dialects}")),
        ("Cron 0 9 * * *", format!("dialect: \"Cron\" {dialects}")),
        ("cron 0 9 * * *;", "\"\" is no setting".to_string()),
        ("cron 0 9 * * *; UTC", "\"UTC\" is no setting".to_string()),
        (
            "cron 0 9 * * *; tz=UTC",
            "\"tz\" is none of zone, gap, overlap, offset, missed".to_string(),
        ),
        (
            "cron 0 9 * * *; gap=end; gap=end",
            "\"gap\" stands there twice".to_string(),
        ),
        (
            "cron 0 9 * * *; gap=both",
            "gap: \"both\" is none of end, skip".to_string(),
        ),
        (
            "cron 0 9 * * *; overlap=",
            "overlap: \"\" is none of first, second, both".to_string(),
        ),
        (
            "cron 0 9 * * *; offset=-PT1S",
            "offset: \"-PT1S\" is no duration such as PT17M30S".to_string(),
        ),
        (
            "cron 0 9 * * *; offset=P1D",
            "offset: \"P1D\" is no duration such as PT17M30S".to_string(),
        ),
        (
            "cron 0 9 * * *; missed=once 2",
            format!("missed: \"once 2\" {policies}"),
        ),
        (
            "cron 0 9 * * *; missed=burst",
            format!("missed: \"burst\" {policies}"),
        ),
        (
            "cron 0 9 * * *; missed=burst +3",
            format!("missed: \"burst +3\" {policies}"),
        ),
        (
            "cron 0 9 * * *; missed=burst 4294967296",
            format!("missed: \"burst 4294967296\" {policies}"),
        ),
        (
            "cron 0 9 * * *; missed=skip-after -PT1H",
            format!("missed: \"skip-after -PT1H\" {policies}"),
        ),
        (
            "cron 0 9 * * *; missed=skip-after 3",
            format!("missed: \"skip-after 3\" {policies}"),
        ),
    ];
    for (text, why) in table {
        let error = text.parse::<Calendar>().unwrap_err();
        assert_eq!(error.to_string(), format!("calendar {text:?}: {why}"));
    }
    // What the calls refuse is refused in their words.
    let told = |text: &str| text.parse::<Calendar>().unwrap_err().to_string();
    assert_eq!(
        told("cron"),
        "cron pattern \"\": it has 0 fields, and may have 5, 6 (seconds first) or 7 (years last)"
    );
    assert_eq!(
        told("cron 61 * * * *; zone=UTC"),
        "cron pattern \"61 * * * *\": minute: 61 is not in 0-59"
    );
    let zone = told("cron 0 9 * * *; zone=Middle/Earth");
    assert!(zone.starts_with("time zone \"Middle/Earth\": "), "{zone}");
}

fn patterns() -> impl Strategy<Value = (usize, String)> {
    let hours = prop_oneof![
        Just("*".to_string()),
        Just("*/2".to_string()),
        Just("2".to_string()),
        (0..24u8).prop_map(|hour| hour.to_string()),
        (0..12u8, 12..24u8).prop_map(|(from, to)| format!("{from}-{to}/3")),
    ];
    let days = prop_oneof![Just("*"), Just("L"), Just("L-3W"), Just("15"), Just("1,LW")];
    let weekdays = prop_oneof![Just("*"), Just("fri"), Just("MON-FRI"), Just("+FRI")];
    (0..3usize, 0..60u8, hours, days, weekdays).prop_map(|(dialect, minute, hour, day, weekday)| {
        let pattern = match (dialect, day, weekday) {
            (1, "*", weekday) if weekday != "*" => {
                format!("0 {minute} {hour} ? * {}", weekday.trim_matches('+'))
            }
            (1, day, _) => format!("0 {minute} {hour} {day} * ?"),
            (2, "15", _) => format!("{minute} {hour} 15 * MON"),
            (2, ..) => format!("{minute} {hour} */3 * *"),
            (_, day, weekday) => format!("{minute} {hour} {day} * {weekday}"),
        };
        (dialect, pattern)
    })
}

fn policies() -> impl Strategy<Value = Missed> {
    prop_oneof![
        Just(Missed::Once),
        any::<u32>().prop_map(Missed::Burst),
        (0..=i64::MAX as u64, 0..1_000_000_000u32)
            .prop_map(|(s, ns)| Missed::SkipAfter(Duration::new(s, ns))),
        (0..1_000_000_000u32).prop_map(|ns| Missed::SkipAfter(Duration::new(0, ns))),
    ]
}

#[cfg(feature = "serde")]
#[test]
fn a_calendar_is_serialized_as_its_text() {
    let text = "cron 0 9 * * 1; zone=Europe/Berlin; missed=burst 3";
    let json = serde_json::to_string(&read(text)).unwrap();
    assert_eq!(json, format!("\"{text}\""));
    let again: Calendar = serde_json::from_str(&json).unwrap();
    assert_eq!(again.to_string(), text);
    for wrong in ["\"cron 0 25 * * *\"", "7"] {
        assert!(serde_json::from_str::<Calendar>(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_text_makes_an_equal_calendar(
        (dialect, pattern) in patterns(),
        zone in prop::option::of(prop_oneof![
            Just("UTC"), Just("Europe/Berlin"), Just("America/New_York"), Just("Asia/Kolkata"),
        ]),
        gap in prop::option::of(prop_oneof![Just(Gap::End), Just(Gap::Skip)]),
        overlap in prop::option::of(prop_oneof![
            Just(Overlap::First), Just(Overlap::Second), Just(Overlap::Both),
        ]),
        offset_ms in prop_oneof![Just(0), 0..90_000_000_u64, any::<u64>()],
        missed in policies(),
    ) {
        let (name, call) = DIALECTS[dialect];
        let mut calendar = call(&pattern).unwrap().missed(missed);
        if let Some(zone) = zone {
            calendar = calendar.zone(zone).unwrap();
        }
        if let Some(gap) = gap {
            calendar = calendar.gap(gap);
        }
        if let Some(overlap) = overlap {
            calendar = calendar.overlap(overlap);
        }
        calendar = calendar.offset(Duration::from_millis(offset_ms));
        let text = calendar.to_string();
        let expected = format!("{name} {pattern}");
        prop_assert_eq!(text.split(';').next(), Some(&*expected));
        let written = text.split("missed=").nth(1).map(str::to_string);
        match missed {
            Missed::Once => prop_assert_eq!(written, None),
            Missed::Burst(limit) => prop_assert_eq!(written, Some(format!("burst {limit}"))),
            Missed::SkipAfter(grace) => {
                let written: SignedDuration = written
                    .as_deref()
                    .and_then(|text| text.strip_prefix("skip-after "))
                    .unwrap()
                    .parse()
                    .unwrap();
                prop_assert_eq!(written, SignedDuration::try_from(grace).unwrap());
            }
            _ => unreachable!("{missed:?}"),
        }
        let again = read(&text);
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(runs(&again), runs(&calendar));
        prop_assert!(again.runs_as(&calendar));
    }

    /// Any text is read or refused. What is read is written so that it is read again.
    #[test]
    fn no_text_panics(
        text in prop_oneof![
            any::<String>(),
            "(cron|quartz|vixie) [0-9*/?L ]{0,16}(; ?(zone|gap|overlap|offset|missed) ?=?[a-zA-Z0-9 -]{0,12}){0,4}",
            "(cron|vixie) 0 9 \\* \\* \\*(; ?(gap=end|gap=skip|overlap=both|offset=-?P?T?[0-9.]{1,25}[HMSdhms]|missed=burst [0-9]{1,11}|missed=skip-after P?T?[0-9.]{1,25}[HMSdhms])){0,3}",
        ],
    ) {
        match text.parse::<Calendar>() {
            Ok(calendar) => {
                let written = calendar.to_string();
                prop_assert_eq!(read(&written).to_string(), written);
            }
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
