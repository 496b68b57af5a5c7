//! Text: a calendar as a line of text, for a file of settings or a store.

use super::dialect::Dialect;
use super::error::CalendarError;
use super::pattern::{Calendar, unless_set};
use super::policy::{Gap, Missed, Overlap};
use jiff::SignedDuration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The words for the values of a setting.
type Words<T, const N: usize> = [(T, &'static str); N];

const GAPS: Words<Gap, 2> = [(Gap::End, "end"), (Gap::Skip, "skip")];
const OVERLAPS: Words<Overlap, 3> = [
    (Overlap::First, "first"),
    (Overlap::Second, "second"),
    (Overlap::Both, "both"),
];

/// Writes the calendar down, in one line, so that `parse` makes an equal one of it: the dialect,
/// the pattern, and what was set beside it.
///
/// | setting | values | unless it is there |
/// |---|---|---|
/// | `zone` | a name of the IANA database | the zone of the system that reads the text |
/// | `gap` | `end`, `skip` | as the pattern's hours say ([`Gap`]) |
/// | `overlap` | `first`, `second`, `both` | as the pattern's hours say ([`Overlap`]) |
/// | `offset` | a duration by ISO 8601, such as `PT17M30S` ([`offset`](Calendar::offset)) | none |
/// | `missed` | `once`, `burst 3`, `skip-after PT3H` ([`Missed`]; a duration by ISO 8601) | `once` |
///
/// Settings that are as they would be unless set are left out. A calendar that was made by a plain
/// call, such as [`daily`](Calendar::daily), is written as its pattern. The text stays readable by
/// later versions of this library.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, CalendarError, Missed, Weekday};
///
/// let mondays = Calendar::weekly(Weekday::Monday, 9, 0)?;
/// assert_eq!(mondays.to_string(), "cron 0 9 * * 1", "in the system's time zone");
///
/// let mondays = mondays.zone("Europe/Berlin")?.missed(Missed::Burst(3));
/// assert_eq!(mondays.to_string(), "cron 0 9 * * 1; zone=Europe/Berlin; missed=burst 3");
///
/// let calendar: Calendar = "vixie 0 9 * * MON; zone=UTC; missed=skip-after PT3H".parse()?;
/// # let again: Calendar = calendar.to_string().parse()?;
/// # assert_eq!(again.to_string(), calendar.to_string());
/// # Ok::<(), CalendarError>(())
/// ```
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            word(&Dialect::NAMES, self.dialect),
            self.pattern
        )?;
        if let Some(zone) = &self.zone_name {
            write!(f, "; zone={zone}")?;
        }
        let (gap, overlap) = unless_set(self.counts_real_time);
        if self.occurrences.gap != gap {
            write!(f, "; gap={}", word(&GAPS, self.occurrences.gap))?;
        }
        if self.occurrences.overlap != overlap {
            write!(f, "; overlap={}", word(&OVERLAPS, self.occurrences.overlap))?;
        }
        if self.offset_ms > 0 {
            let offset = SignedDuration::from_millis(self.offset_ms.cast_signed());
            write!(f, "; offset={offset}")?;
        }
        match self.missed {
            Missed::Once => Ok(()),
            Missed::Burst(limit) => write!(f, "; missed=burst {limit}"),
            Missed::SkipAfter(grace) => {
                // Longer ones, of 292 billion years, are as good as this.
                let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
                write!(f, "; missed=skip-after {grace}")
            }
        }
    }
}

/// Reads what `to_string` wrote: the [table](#impl-Display-for-Calendar) there says what a text may
/// have. The settings come in any order, each at most once. Spaces around them do not count.
///
/// # Errors
/// [`Text`](CalendarError::Text) for a text without a dialect or with a setting that there is not;
/// else as [`cron`](Calendar::cron) and [`zone`](Calendar::zone).
///
/// # Example
/// ```
/// use wheelwork::calendar::Calendar;
///
/// assert!("quartz 0 0 9 ? * 6L; zone=Asia/Tokyo; gap=skip".parse::<Calendar>().is_ok());
///
/// let error = "cron 0 9 * * *; gap=never".parse::<Calendar>().unwrap_err();
/// let text = "calendar \"cron 0 9 * * *; gap=never\": gap: \"never\" is none of end, skip";
/// assert_eq!(error.to_string(), text);
/// ```
impl FromStr for Calendar {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Self, CalendarError> {
        read(text).map_err(|error| match error {
            CalendarError::Text { .. } => error.of(text),
            _ => error,
        })
    }
}

/// As its [text](#impl-Display-for-Calendar).
#[cfg(feature = "serde")]
impl serde::Serialize for Calendar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Calendar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Reads a calendar from its text.
#[cfg(feature = "serde")]
struct TextVisitor;

#[cfg(feature = "serde")]
impl serde::de::Visitor<'_> for TextVisitor {
    type Value = Calendar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a calendar, as a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Calendar, E> {
        text.parse().map_err(E::custom)
    }
}

fn read(text: &str) -> Result<Calendar, CalendarError> {
    let mut parts = text.split(';').map(str::trim);
    let pattern = parts.next().unwrap_or_default();
    let (dialect, pattern) = pattern
        .split_once(|letter: char| letter.is_ascii_whitespace())
        .unwrap_or((pattern, ""));
    let dialect = value("dialect", &Dialect::NAMES, dialect)?;
    let mut settings: Vec<(&str, &str)> = Vec::new();
    for setting in parts {
        let (name, value) = setting
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .ok_or_else(|| CalendarError::text(format!("{setting:?} is no setting")))?;
        if settings.iter().any(|(other, _)| *other == name) {
            return Err(CalendarError::text(format!("{name:?} stands there twice")));
        }
        settings.push((name, value));
    }
    // (With a zone of its own it does not need the system's.)
    let zone = settings.iter().find(|(name, _)| *name == "zone");
    let mut calendar = Calendar::read_in(pattern.trim(), dialect, zone.map(|(_, zone)| *zone))?;
    for (name, value) in settings {
        calendar = set(calendar, name, value)?;
    }
    Ok(calendar)
}

fn set(calendar: Calendar, name: &str, text: &str) -> Result<Calendar, CalendarError> {
    Ok(match name {
        "zone" => calendar.zone(text)?,
        "gap" => calendar.gap(value(name, &GAPS, text)?),
        "overlap" => calendar.overlap(value(name, &OVERLAPS, text)?),
        "offset" => calendar.offset(offset(text)?),
        "missed" => calendar.missed(missed(text)?),
        _ => {
            let why = format!("{name:?} is none of zone, gap, overlap, offset, missed");
            return Err(CalendarError::text(why));
        }
    })
}

fn offset(text: &str) -> Result<Duration, CalendarError> {
    let offset: Option<SignedDuration> = text.parse().ok();
    offset
        .and_then(|offset| Duration::try_from(offset).ok())
        .ok_or_else(|| {
            let why = format!("offset: {text:?} is no duration such as PT17M30S");
            CalendarError::text(why)
        })
}

fn missed(text: &str) -> Result<Missed, CalendarError> {
    let wrong = || {
        let why = format!("missed: {text:?} is none of once, burst 3, skip-after PT3H");
        CalendarError::text(why)
    };
    let (policy, number) = text.split_once(' ').unwrap_or((text, ""));
    let number = number.trim();
    match policy {
        "once" if number.is_empty() => Ok(Missed::Once),
        "burst" if number.bytes().all(|letter| letter.is_ascii_digit()) => {
            number.parse().map(Missed::Burst).map_err(|_| wrong())
        }
        "skip-after" => {
            let grace: SignedDuration = number.parse().map_err(|_| wrong())?;
            let grace = Duration::try_from(grace).map_err(|_| wrong())?;
            Ok(Missed::SkipAfter(grace))
        }
        _ => Err(wrong()),
    }
}

/// The word for a value.
fn word<T: PartialEq, const N: usize>(words: &Words<T, N>, value: T) -> &'static str {
    words
        .iter()
        .find_map(|(of, word)| (*of == value).then_some(*word))
        .unwrap_or_default()
}

/// The value that a word is for.
fn value<T: Copy, const N: usize>(
    setting: &str,
    words: &Words<T, N>,
    text: &str,
) -> Result<T, CalendarError> {
    words
        .iter()
        .find_map(|(value, word)| (*word == text).then_some(*value))
        .ok_or_else(|| {
            let all = words.iter().flat_map(|(_, word)| [", ", word]);
            let all: String = all.skip(1).collect();
            CalendarError::text(format!("{setting}: {text:?} is none of {all}"))
        })
}
