//! Promise: a pattern means in each dialect what the dialect's documents say, and what is no
//! pattern is refused by the name of its field.
//!
//! The tables are examples of these documents, with runs that were found by hand: crontab(5), the
//! tutorial and the reference of Quartz's `CronExpression`, and our own rustdoc. What random
//! patterns mean: `calendar_patterns.rs`.

use crate::calendars::{Read, runs};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use wheelwork::calendar::{Calendar, CalendarError, Weekday};

/// Holds a dialect against a table of patterns and their first runs in 2026, which begins with a
/// Thursday. The runs are parted by commas. What is left out of one is as in the run before: the
/// year, the month, the day; and midnight.
fn check(read: Read, table: &[(&str, &str)]) {
    for (pattern, expected) in table {
        let mut day: Date = "2026-01-01".parse().unwrap();
        let mut times = Vec::new();
        for run in expected
            .split(',')
            .map(str::trim)
            .filter(|run| !run.is_empty())
        {
            let mut time = "00:00";
            for part in run.split(' ') {
                let numbers: Vec<i16> = part.split('-').filter_map(|n| n.parse().ok()).collect();
                match numbers[..] {
                    [y, m, d] => day = Date::new(y, m as i8, d as i8).unwrap(),
                    [m, d] => day = Date::new(day.year(), m as i8, d as i8).unwrap(),
                    _ => time = part,
                }
            }
            times.push(day.to_datetime(time.parse().unwrap()));
        }
        let calendar = read(pattern).unwrap_or_else(|error| panic!("{error}"));
        let count = times.len().max(1);
        let from = "2026-01-01T00:00".parse().unwrap();
        assert_eq!(runs(calendar, from, count), times, "{pattern}");
    }
}

#[test]
fn quartz_means_what_its_documents_say() {
    let tutorial = [
        ("0 0 12 * * ?", "12:00, 01-02 12:00"),
        ("0 15 10 ? * *", "10:15, 01-02 10:15"),
        ("0 15 10 * * ?", "10:15, 01-02 10:15"),
        ("0 15 10 * * ? *", "10:15, 01-02 10:15"),
        ("0 15 10 * * ? 2005", ""),
        ("0 15 10 * * ? 2027", "2027-01-01 10:15, 01-02 10:15"),
        ("0 * 14 * * ?", "14:00, 14:01, 14:02"),
        ("0 0/5 14 * * ?", "14:00, 14:05, 14:10"),
        (
            "0 0/5 14,18 * * ?",
            "14:00, 14:05, 14:10, 14:15, 14:20, 14:25, 14:30, 14:35, 14:40, 14:45, 14:50, 14:55, \
             18:00, 18:05",
        ),
        (
            "0 0-5 14 * * ?",
            "14:00, 14:01, 14:02, 14:03, 14:04, 14:05, 01-02 14:00",
        ),
        ("0 10,44 14 ? 3 WED", "03-04 14:10, 14:44, 03-11 14:10"),
        ("0 15 10 ? * MON-FRI", "10:15, 01-02 10:15, 01-05 10:15"),
        ("0 15 10 15 * ?", "01-15 10:15, 02-15 10:15"),
        (
            "0 15 10 L * ?",
            "01-31 10:15, 02-28 10:15, 03-31 10:15, 04-30 10:15",
        ),
        (
            "0 15 10 L-2 * ?",
            "01-29 10:15, 02-26 10:15, 03-29 10:15, 04-28 10:15",
        ),
        (
            "0 15 10 ? * 6L",
            "01-30 10:15, 02-27 10:15, 03-27 10:15, 04-24 10:15",
        ),
        ("0 15 10 ? * 6L 2002-2005", ""),
        ("0 15 10 ? * 6L 2026-2029", "01-30 10:15, 02-27 10:15"),
        (
            "0 15 10 ? * 6#3",
            "01-16 10:15, 02-20 10:15, 03-20 10:15, 04-17 10:15",
        ),
        (
            "0 0 12 1/5 * ?",
            "12:00, 01-06 12:00, 01-11 12:00, 01-16 12:00, 01-21 12:00, \
             01-26 12:00, 01-31 12:00, 02-01 12:00",
        ),
        ("0 11 11 11 11 ?", "11-11 11:11, 2027-11-11 11:11"),
        ("0 0/5 * * * ?", "00:05, 00:10"),
        ("10 0/5 * * * ?", "00:00:10, 00:05:10"),
        (
            "0 30 10-13 ? * WED,FRI",
            "01-02 10:30, 11:30, 12:30, 13:30, 01-07 10:30",
        ),
        (
            "0 0/30 8-9 5,20 * ?",
            "01-05 08:00, 08:30, 09:00, 09:30, 01-20 08:00",
        ),
        ("0 0 12 ? * WED", "01-07 12:00, 01-14 12:00"),
        ("0/5 14,18,3-39,52 * ? JAN,MAR,SEP MON-FRI 2002-2010", ""),
    ];
    check(Calendar::quartz, &tutorial);
    let reference = [
        // The day of the week begins with Sunday.
        ("0 0 0 ? * 1", "01-04, 01-11"),
        ("0 0 0 ? * SUN", "01-04, 01-11"),
        ("0 0 0 ? * 2-6", "01-02, 01-05, 01-06"),
        ("0 0 0 ? * L", "01-03, 01-10"),
        ("0 0 0 ? * 7", "01-03, 01-10"),
        ("0 0 0 ? * FRIL", "01-30, 02-27"),
        ("0 0 0 ? * FRI#3", "01-16, 02-20"),
        ("0 0 0 ? * 6#5", "01-30, 05-29, 07-31, 10-30"),
        ("0 0 0 ? * 2#1", "01-05, 02-02, 03-02, 04-06"),
        ("0 0 0 ? * */2", "01-03, 01-04, 01-06, 01-08"),
        // A step begins with its value.
        (
            "5/15 0 0 1 1 ?",
            "00:00:05, 00:00:20, 00:00:35, 00:00:50, 2027-01-01 00:00:05",
        ),
        ("0 /20 6 * * ?", "06:00, 06:20, 06:40, 01-02 06:00"),
        ("0 0 8-18/4 * * ?", "08:00, 12:00, 16:00, 01-02 08:00"),
        ("0 0 0 1 6/5 ?", "06-01, 11-01, 2027-06-01"),
        ("0 0 0 1 1 ? 2027/3", "2027-01-01, 2030-01-01"),
        // The nearest weekday, which is not in another month.
        (
            "0 0 0 15W * ?",
            "01-15, 02-16, 03-16, 04-15, 05-15, 06-15, 07-15, 08-14",
        ),
        (
            "0 0 0 1W * ?",
            "02-02, 03-02, 04-01, 05-01, 06-01, 07-01, 08-03",
        ),
        ("0 0 0 31W * ?", "01-30, 03-31, 05-29, 07-31, 08-31"),
        ("0 0 0 LW * ?", "01-30, 02-27, 03-31, 04-30, 05-29"),
        ("0 0 0 L-3 * ?", "01-28, 02-25, 03-28, 04-27"),
        ("0 0 0 L-3W * ?", "01-28, 02-25, 03-27, 04-27, 05-28, 06-26"),
        // Ranges go round.
        (
            "0 0 22-2 * * ?",
            "01:00, 02:00, 22:00, 23:00, 01-02 00:00, 01:00",
        ),
        ("0 0 22-3/2 * * ?", "02:00, 22:00, 01-02 00:00, 02:00"),
        ("0 0 0 1 NOV-FEB ?", "02-01, 11-01, 12-01, 2027-01-01"),
        ("0 0 0 ? * FRI-MON", "01-02, 01-03, 01-04, 01-05, 01-09"),
        (
            "0 0 14-6 ? * FRI-MON",
            "01-02 00:00, 01:00, 02:00, 03:00, 04:00, 05:00, 06:00, 14:00",
        ),
        ("0 0 0 30-2 * ?", "01-02, 01-30, 01-31, 02-01, 02-02, 03-01"),
    ];
    check(Calendar::quartz, &reference);
}

#[test]
fn vixie_means_what_crontab_5_says() {
    let manual = [
        ("5 0 * * *", "00:05, 01-02 00:05"),
        ("15 14 1 * *", "14:15, 02-01 14:15"),
        ("0 22 * * 1-5", "22:00, 01-02 22:00, 01-05 22:00"),
        ("23 0-23/2 * * *", "00:23, 02:23, 04:23"),
        ("5 4 * * sun", "01-04 04:05, 01-11 04:05"),
        ("0 */4 1 12 *", "12-01 00:00, 04:00, 08:00"),
        (
            "0 4 8-14 * *",
            "01-08 04:00, 01-09 04:00, 01-10 04:00, 01-11 04:00, 01-12 04:00, 01-13 04:00, \
             01-14 04:00, 02-08 04:00",
        ),
        // Either of the days.
        (
            "30 4 1,15 * 5",
            "04:30, 01-02 04:30, 01-09 04:30, 01-15 04:30, 01-16 04:30, 01-23 04:30, \
             01-30 04:30, 02-01 04:30",
        ),
        (
            "0 0 1-7 * 1",
            "01-02, 01-03, 01-04, 01-05, 01-06, 01-07, 01-12, 01-19",
        ),
        ("0 0 13 * 0-7", "01-02, 01-03, 01-04"),
        // One begins with a star: both.
        ("0 0 */2 * MON", "01-05, 01-19, 02-09, 02-23"),
        ("0 0 13 * */2", "01-13, 06-13, 08-13"),
        ("0 0 *,13 * FRI", "01-02, 01-09, 01-16"),
        ("0 0 */2 * */2", "01-03, 01-11, 01-13, 01-15, 01-17, 01-25"),
        ("0 0 * * 1", "01-05, 01-12"),
        ("0 0 13 * *", "01-13, 02-13"),
        // Sunday is 0 and 7.
        ("0 0 * * 0", "01-04, 01-11"),
        ("0 0 * * 7", "01-04, 01-11"),
        ("0 0 * * 5-7", "01-02, 01-03, 01-04, 01-09"),
        ("0 0 * * Fri-Sun", "01-02, 01-03, 01-04, 01-09"),
        ("0 0 1 JAN-DEC/3 *", "04-01, 07-01, 10-01, 2027-01-01"),
        ("@hourly", "01:00, 02:00"),
        ("@daily", "01-02, 01-03"),
        ("@midnight", "01-02, 01-03"),
        ("@weekly", "01-04, 01-11"),
        ("@monthly", "02-01, 03-01"),
        ("@yearly", "2027-01-01, 2028-01-01"),
        ("@annually", "2027-01-01, 2028-01-01"),
    ];
    check(Calendar::vixie, &manual);
}

#[test]
fn cron_means_what_its_rustdoc_says() {
    let table = [
        ("0 9 * * TUE", "01-06 09:00, 01-13 09:00"),
        ("*/10 * * * * *", "00:00:10, 00:00:20"),
        ("0 0 0 1 1 * 2030", "2030-01-01"),
        ("0 0 0 1 1 * */10", "2030-01-01, 2040-01-01"),
        (
            "8-18/5 0 0 1 JAN,FEB *",
            "00:00:08, 00:00:13, 00:00:18, 02-01 00:00:08",
        ),
        (" \t0  1\n* * * ", "01:00, 01-02 01:00"),
        ("00 09 05 01 *", "01-05 09:00"),
        // Days.
        ("0 0 13 * FRI", "01-02, 01-09, 01-13, 01-16"),
        ("0 0 13 * +FRI", "02-13, 03-13, 11-13"),
        ("0 0 13 * +*", "01-13, 02-13"),
        ("0 0 * * +FRI", "01-02, 01-09"),
        ("0 0 */2 * FRI", "01-02, 01-03, 01-05, 01-07, 01-09, 01-11"),
        ("0 0 ? * ?", "01-02, 01-03"),
        ("0 0 ? * MON", "01-05, 01-12"),
        ("0 0 1 * ?", "02-01, 03-01"),
        ("0 0 1-31 * FRI", "01-02, 01-03, 01-04"),
        // Counted days of the month.
        ("0 0 L * *", "01-31, 02-28, 03-31, 04-30"),
        ("0 0 1,L * *", "01-31, 02-01, 02-28"),
        ("0 0 L-3 * *", "01-28, 02-25, 03-28, 04-27"),
        ("0 0 L-3 * +MON", "04-27, 12-28"),
        (
            "0 0 L-3 * FRI",
            "01-02, 01-09, 01-16, 01-23, 01-28, 01-30, 02-06",
        ),
        (
            "0 0 5,L-1,L * *",
            "01-05, 01-30, 01-31, 02-05, 02-27, 02-28",
        ),
        ("0 0 L-30 * *", "03-01, 05-01, 07-01, 08-01"),
        ("0 0 L-1 2 *", "02-27, 2027-02-27, 2028-02-28, 2029-02-27"),
        ("0 0 0 L-1 2 * 2028,2029", "2028-02-28, 2029-02-27"),
        (
            "0 0 0 L-1 2 * 2096,2100,2800",
            "2096-02-28, 2100-02-27, 2800-02-28",
        ),
        ("0 0 29 2 +MON", "2044-02-29, 2072-02-29"),
        ("0 0 L-3W * *", "01-28, 02-25, 03-27, 04-27, 05-28, 06-26"),
        ("0 0 L,LW * *", "01-30, 01-31, 02-27, 02-28, 03-31, 04-30"),
        ("0 0 LW * *", "01-30, 02-27, 03-31, 04-30, 05-29"),
        (
            "0 0 15w * *",
            "01-15, 02-16, 03-16, 04-15, 05-15, 06-15, 07-15, 08-14",
        ),
        (
            "0 0 1W * *",
            "02-02, 03-02, 04-01, 05-01, 06-01, 07-01, 08-03",
        ),
        ("0 0 31W * *", "01-30, 03-31, 05-29, 07-31, 08-31"),
        // Counted days of the week.
        ("0 0 * * TUE#2", "01-13, 02-10"),
        ("0 0 * * 2#2", "01-13, 02-10"),
        ("0 0 * * 7#1", "01-04, 02-01"),
        (
            "0 0 * * MON-WED#1",
            "01-05, 01-06, 01-07, 02-02, 02-03, 02-04",
        ),
        ("0 0 * * FRIL", "01-30, 02-27"),
        ("0 0 * * 5L", "01-30, 02-27"),
        ("0 0 * * 5#L", "01-30, 02-27"),
        ("0 0 * * 7L", "01-25, 02-22"),
        ("0 0 * * SUNL", "01-25, 02-22"),
        ("0 0 * * mon#1,fri", "01-02, 01-05, 01-09, 01-16"),
        ("0 0 1 * +THU#1", "10-01, 2027-04-01"),
        // Sunday is 0 and 7.
        ("0 0 * * 0", "01-04, 01-11"),
        ("0 0 * * 7", "01-04, 01-11"),
        ("0 0 * * FRI-SUN", "01-02, 01-03, 01-04, 01-09"),
        ("0 0 * * SUN-TUE", "01-04, 01-05, 01-06, 01-11"),
        ("0 0 * * SUN-SUN", "01-04, 01-11"),
        ("0 0 * * */7", "01-04, 01-11"),
        ("@Annually", "2027-01-01, 2028-01-01"),
        ("@YEARLY", "2027-01-01, 2028-01-01"),
        ("@monthly", "02-01, 03-01"),
        ("@weekly", "01-04, 01-11"),
        ("@daily", "01-02, 01-03"),
        ("@midnight", "01-02, 01-03"),
        (" @hourly ", "01:00, 02:00"),
    ];
    check(Calendar::cron, &table);
}

/// Hours by steps count real time: they come an hour apart when the clock is set. Given hours come
/// once, whatever the clock does.
#[test]
fn all_dialects_go_by_real_time_where_hours_are_steps() {
    let hours = |read: Read, pattern: &str| {
        let calendar = read(pattern).unwrap().zone("Europe/Berlin").unwrap();
        let from: Timestamp = "2026-10-24T23:30Z".parse().unwrap();
        let to = from + 4.hours();
        let times = calendar.after(from.try_into().unwrap());
        let times = times.map(|run| Timestamp::try_from(run).unwrap());
        times.take_while(|run| *run < to).count()
    };
    // Between 1:30 and 4:30 on the wall the clock is set back from 3 to 2.
    for pattern in [
        "0 0 * * * ?",
        "0 0 */1 * * ?",
        "0 0 0/1 * * ?",
        "0 0 /1 * * ?",
    ] {
        assert_eq!(hours(Calendar::quartz, pattern), 4, "{pattern}");
    }
    assert_eq!(hours(Calendar::quartz, "0 0 0-23 * * ?"), 3);
    assert_eq!(hours(Calendar::quartz, "0 0 0-23/1 * * ?"), 3);
    for read in [Calendar::cron, Calendar::vixie] as [Read; 2] {
        assert_eq!(hours(read, "0 * * * *"), 4);
        assert_eq!(hours(read, "0 */1 * * *"), 4);
        assert_eq!(hours(read, "0 2,*/1 * * *"), 4);
        assert_eq!(hours(read, "0 0-23 * * *"), 3);
    }
}

/// The text of an error, without the pattern before it.
fn why(read: Read, pattern: &str) -> String {
    let error = match read(pattern) {
        Ok(_) => panic!("{pattern:?} is accepted"),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(text.lines().count() == 1 && !text.ends_with('.'), "{text}");
    let rest = text.strip_prefix(&format!("cron pattern {pattern:?}: "));
    rest.unwrap_or_else(|| panic!("{text}")).to_string()
}

const DIALECTS: [Read; 3] = [Calendar::cron, Calendar::quartz, Calendar::vixie];

#[test]
fn what_no_dialect_has_is_refused_by_its_field() {
    let minutes = [
        ("61", "61 is not in 0-59"),
        ("60", "60 is not in 0-59"),
        ("1,,2", "an empty value is not in 0-59"),
        (",1", "an empty value is not in 0-59"),
        ("1,", "an empty value is not in 0-59"),
        ("5-", "an empty value is not in 0-59"),
        ("-5", "an empty value is not in 0-59"),
        ("5-61", "61 is not in 0-59"),
        ("1-2-3", "2-3 is not in 0-59"),
        ("*/61", "step 61 is not in 1-59"),
        ("*/60", "step 60 is not in 1-59"),
        ("*/0", "step 0 is not in 1-59"),
        ("0-30/0", "step 0 is not in 1-59"),
        ("*/", "an empty step is not in 1-59"),
        ("*/x", "step X is not in 1-59"),
        ("*/1/2", "step 1/2 is not in 1-59"),
        ("**", "** is not in 0-59"),
        ("*5", "*5 is not in 0-59"),
        ("mon", "MON is not in 0-59"),
        ("?", "? is not in 0-59"),
        ("L", "L is not in 0-59"),
        ("1.5", "1.5 is not in 0-59"),
        ("+5", "+5 is not in 0-59"),
        (
            "99999999999999999999",
            "99999999999999999999 is not in 0-59",
        ),
    ];
    for (minute, expected) in minutes {
        for (read, pattern) in DIALECTS.into_iter().zip([
            format!("{minute} * * * *"),
            format!("0 {minute} * * * ?"),
            format!("{minute} * * * *"),
        ]) {
            assert_eq!(why(read, &pattern), format!("minute: {expected}"));
        }
    }
    for pattern in [
        "٣ * * * *",
        "5\u{a0}* * * *",
        "5 * * * \u{1b}",
        "５ * * * *",
    ] {
        let letter = pattern
            .chars()
            .find(|letter| !letter.is_ascii() || letter.is_ascii_control());
        let expected = format!("{:?} is no printable ASCII character", letter.unwrap());
        for read in DIALECTS {
            assert_eq!(why(read, pattern), expected);
        }
    }
}

#[test]
fn what_a_dialect_does_not_have_is_refused_by_its_field() {
    let of_all_fields = [
        ("60 0 0 1 1 *", "second: 60 is not in 0-59"),
        ("0 24 * * *", "hour: 24 is not in 0-23"),
        ("0 */24 * * *", "hour: step 24 is not in 1-23"),
        ("0 0 0 * *", "day of month: 0 is not in 1-31"),
        ("0 0 32 * *", "day of month: 32 is not in 1-31"),
        ("0 0 1 13 *", "month: 13 is not in 1-12 or JAN-DEC"),
        ("0 0 1 MAI *", "month: MAI is not in 1-12 or JAN-DEC"),
        ("0 0 * * 8", "day of week: 8 is not in 0-7 or SUN-SAT"),
        (
            "0 0 * * Monday",
            "day of week: MONDAY is not in 0-7 or SUN-SAT",
        ),
        ("0 0 * * JAN", "day of week: JAN is not in 0-7 or SUN-SAT"),
        ("0 0 0 1 1 * 1969", "year: 1969 is not in 1970-4999"),
        ("0 0 0 1 1 * 5000", "year: 5000 is not in 1970-4999"),
    ];
    for (pattern, expected) in of_all_fields {
        assert_eq!(why(Calendar::cron, pattern), expected);
    }
    let range = "is not a range from a lower value to a higher one";
    for read in [Calendar::cron, Calendar::vixie] as [Read; 2] {
        assert_eq!(why(read, "0 22-2 * * *"), format!("hour: 22-2 {range}"));
        assert_eq!(
            why(read, "0 0 1 NOV-FEB *"),
            format!("month: NOV-FEB {range}")
        );
        assert_eq!(
            why(read, "0 0 * * FRI-MON"),
            format!("day of week: FRI-MON {range}")
        );
        assert_eq!(
            why(read, "0 0 * * 7-1"),
            format!("day of week: 7-1 {range}")
        );
        assert_eq!(
            why(read, "5/20 * * * *"),
            "minute: 5/20 is not a step over * or a range, as 5-59/20 is"
        );
        assert_eq!(
            why(read, "/20 * * * *"),
            "minute: an empty value is not in 0-59"
        );
        assert_eq!(
            why(read, "@often"),
            "it is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
        );
        assert_eq!(
            why(read, "@reboot"),
            "@reboot is a start, and no time: run the task where the program starts"
        );
    }
    let counted = "is not of the form L, L-1 to L-30, LW, L-3W, 15W";
    let of_cron = [
        ("0 0 L-31 * *", format!("day of month: L-31 {counted}")),
        ("0 0 L-0 * *", format!("day of month: L-0 {counted}")),
        ("0 0 L3 * *", format!("day of month: L3 {counted}")),
        ("0 0 W * *", format!("day of month: W {counted}")),
        ("0 0 32W * *", format!("day of month: 32W {counted}")),
        ("0 0 1-5W * *", format!("day of month: 1-5W {counted}")),
        ("0 0 +5 * *", "day of month: +5 is not in 1-31".to_string()),
        ("0 0 ?/2 * *", "day of month: ? is not in 1-31".to_string()),
        (
            "0 0 1 L *",
            "month: L is not in 1-12 or JAN-DEC".to_string(),
        ),
        (
            "0 0 * * FRI#6",
            "day of week: #6 is not in #1-#5 or #L".to_string(),
        ),
        (
            "0 0 * * FRI#0",
            "day of week: #0 is not in #1-#5 or #L".to_string(),
        ),
        (
            "0 0 * * FRI#",
            "day of week: # is not in #1-#5 or #L".to_string(),
        ),
        (
            "0 0 * * 15W",
            "day of week: 15W is not in 0-7 or SUN-SAT".to_string(),
        ),
        (
            "0 0 * * FOOL",
            "day of week: FOO is not in 0-7 or SUN-SAT".to_string(),
        ),
        (
            "0 0 * * ++5",
            "day of week: +5 is not in 0-7 or SUN-SAT".to_string(),
        ),
    ];
    for (pattern, expected) in of_cron {
        assert_eq!(why(Calendar::cron, pattern), expected);
    }
    let place = "is not a day with its place in the month, as FRI#2 and FRIL are";
    for weekday in ["L", "#2", "*#2", "*L", "1-5/2#1"] {
        let expected = format!("day of week: {} {place}", weekday);
        assert_eq!(why(Calendar::cron, &format!("0 0 * * {weekday}")), expected);
    }
    let of_vixie = [
        ("0 0 L * *", "day of month: L is not in 1-31"),
        ("0 0 15W * *", "day of month: 15W is not in 1-31"),
        ("0 0 ? * *", "day of month: ? is not in 1-31"),
        ("0 0 * * ?", "day of week: ? is not in 0-7 or SUN-SAT"),
        ("0 0 * * FRIL", "day of week: FRIL is not in 0-7 or SUN-SAT"),
        ("0 0 * * 5#2", "day of week: 5#2 is not in 0-7 or SUN-SAT"),
        ("0 0 1 * +FRI", "day of week: +FRI is not in 0-7 or SUN-SAT"),
        ("0~30 * * * *", "minute: 0~30 is not in 0-59"),
    ];
    for (pattern, expected) in of_vixie {
        assert_eq!(why(Calendar::vixie, pattern), expected);
    }
    let of_quartz = [
        ("0 0 0 ? * 0", "day of week: 0 is not in 1-7 or SUN-SAT"),
        ("0 0 0 ? * 8", "day of week: 8 is not in 1-7 or SUN-SAT"),
        (
            "0 0 0 ? * +FRI",
            "day of week: +FRI is not in 1-7 or SUN-SAT",
        ),
        ("0 0 0 0/5 * ?", "day of month: 0 is not in 1-31"),
        ("0 0 0 1 1 ? 2100", "year: 2100 is not in 1970-2099"),
        (
            "0 0 0 1 1 ? 2030-2028",
            "year: 2030-2028 is not a range from a lower value to a higher one",
        ),
        ("0 0 0 1,? 1 *", "day of month: ? is not in 1-31"),
        ("@daily", "Quartz has no @names"),
    ];
    for (pattern, expected) in of_quartz {
        assert_eq!(why(Calendar::quartz, pattern), expected);
    }
    for pattern in [
        "0 0 12 * * *",
        "0 0 12 ? * ?",
        "0 0 12 13 * FRI",
        "0 0 12 * * MON",
    ] {
        assert_eq!(
            why(Calendar::quartz, pattern),
            "one of day of month and day of week has to be ?, and the other one not"
        );
    }
}

#[test]
fn the_number_of_fields_is_told() {
    let counts = |read, allowed: &str, accepted: &[usize]| {
        for count in 0..10 {
            let pattern = vec!["*"; count].join(" ");
            let fields = if count == 1 { "field" } else { "fields" };
            if !accepted.contains(&count) {
                let expected = format!("it has {count} {fields}, and may have {allowed}");
                assert_eq!(why(read, &pattern), expected);
            }
        }
    };
    counts(
        Calendar::cron,
        "5, 6 (seconds first) or 7 (years last)",
        &[5, 6, 7],
    );
    counts(
        Calendar::quartz,
        "6 (seconds first) or 7 (years last)",
        &[6, 7],
    );
    counts(Calendar::vixie, "5", &[5]);
}

#[test]
fn what_never_comes_is_refused() {
    let never = "no such day ever comes";
    for read in [Calendar::cron, Calendar::vixie] as [Read; 2] {
        assert_eq!(why(read, "0 0 30 2 *"), never);
        assert_eq!(why(read, "0 0 31 2,4,6,9,11 *"), never);
    }
    let of_cron = [
        "0 0 L-29 2 *",
        "0 0 0 29 2 * 2026",
        "0 0 0 L-28 2 * 2027",
        "0 0 8 * +MON#1",
    ];
    for pattern in of_cron {
        assert_eq!(why(Calendar::cron, pattern), never);
    }
    for weekday in 0..7 {
        let leap_day = format!("0 0 29 2 +{weekday}");
        assert!(Calendar::cron(&leap_day).is_ok(), "rare, but it comes");
    }
    let of_quartz = ["0 0 0 30 2 ?", "0 0 0 31W 4 ?", "0 0 0 29 2 ? 2097-2099"];
    for pattern in of_quartz {
        assert_eq!(why(Calendar::quartz, pattern), never);
    }
}

#[test]
fn plain_calls_speak_of_their_field_and_of_no_pattern() {
    let told = |calendar: Result<Calendar, CalendarError>| {
        let error = calendar.unwrap_err();
        assert!(
            matches!(error, CalendarError::Field { pattern: None, .. }),
            "{error:?}"
        );
        error.to_string()
    };
    assert_eq!(told(Calendar::daily(24, 0)), "hour: 24 is not in 0-23");
    assert_eq!(told(Calendar::daily(0, 60)), "minute: 60 is not in 0-59");
    let friday = Calendar::weekly(Weekday::Friday, 255, 0);
    assert_eq!(told(friday), "hour: 255 is not in 0-23");
    assert_eq!(
        told(Calendar::monthly(0, 9, 0)),
        "day of month: 0 is not in 1-31"
    );
    assert_eq!(
        told(Calendar::monthly(32, 9, 0)),
        "day of month: 32 is not in 1-31"
    );
    assert_eq!(
        told(Calendar::last_of_month(9, 99)),
        "minute: 99 is not in 0-59"
    );
    let CalendarError::Field {
        pattern,
        field,
        value,
        allowed,
        ..
    } = Calendar::quartz("0 0 24 * * ?").unwrap_err()
    else {
        panic!("it is the hour")
    };
    assert_eq!(pattern.as_deref(), Some("0 0 24 * * ?"));
    assert_eq!((field, &*value, &*allowed), ("hour", "24", "in 0-23"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the text, it is a calendar or an error of one line.
    #[test]
    fn any_text_is_a_calendar_or_an_error(
        text in prop_oneof![
            any::<String>(),
            "[0-9*/,LW#?+@A-Z-]{0,6}( [0-9*/,LW#?+A-Z-]{1,5}){0,7}",
        ],
    ) {
        for read in DIALECTS {
            if let Err(error) = read(&text) {
                let told = error.to_string();
                prop_assert_eq!(told.lines().count(), 1, "{:?}", told);
                let prefix = format!("cron pattern {text:?}: ");
                prop_assert!(told.starts_with(&prefix), "{}", told);
            }
        }
    }
}
