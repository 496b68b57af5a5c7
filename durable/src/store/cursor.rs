//! Cursor: where a page of a list has ended, and its text.

use super::done::DonePlace;
use super::row::{DurableId, Position, StoreTime};
use std::fmt;
use std::str::FromStr;

/// Where a page of a list has ended: the next one begins there, also in the middle of one deadline.
/// It is a place in the order of deadlines, and names no timer, so it holds when timers come and
/// go, when the program starts again, and on each node of a fleet.
///
/// As a text it has 44 hexadecimal digits, and goes through a URL.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, ListCursor, ListQuery, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// timers.schedule_many((0..3).map(|_| ("mail", Duration::from_secs(60), "")))?;
/// let page = timers.list_page(&ListQuery::new().limit(2))?;
/// let text = page.next.expect("there is one more").to_string();
///
/// let cursor: ListCursor = text.parse()?;
/// let rest = timers.list_page(&ListQuery::new().limit(2).after(cursor))?;
/// assert_eq!((page.rows.len(), rest.rows.len(), rest.next), (2, 1, None));
/// assert!("0123".parse::<ListCursor>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListCursor(pub(crate) Position);

/// Digits of a cursor's times, and of its id.
const TIME_DIGITS: usize = 12;
const ID_DIGITS: usize = 32;

/// The parts of a cursor's text, which have these numbers of digits.
fn digits<const PARTS: usize>(
    text: &str,
    lens: [usize; PARTS],
) -> Result<[&str; PARTS], ParseCursorError> {
    let is_whole = text.len() == lens.iter().sum::<usize>();
    if !is_whole || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ParseCursorError);
    }
    let mut rest = text;
    Ok(lens.map(|len| {
        let (part, after) = rest.split_at(len);
        rest = after;
        part
    }))
}

fn time(digits: &str) -> Result<StoreTime, ParseCursorError> {
    let millis = u64::from_str_radix(digits, 16).map_err(|_| ParseCursorError)?;
    Ok(StoreTime::from_millis(millis))
}

fn parse_id(digits: &str) -> Result<DurableId, ParseCursorError> {
    digits.parse().map_err(|_| ParseCursorError)
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}{}", self.0.due.as_millis(), self.0.id)
    }
}

impl fmt::Debug for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListCursor({self})")
    }
}

/// A text that is no [`ListCursor`], or no [`DoneCursor`].
///
/// # Example
/// See [`ListCursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseCursorError;

impl fmt::Display for ParseCursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no cursor of a list, which has 44 hexadecimal digits, or 56")
    }
}

impl std::error::Error for ParseCursorError {}

impl FromStr for ListCursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let [due, id] = digits(text, [TIME_DIGITS, ID_DIGITS])?;
        Ok(Self(Position {
            due: time(due)?,
            id: parse_id(id)?,
        }))
    }
}

/// Where a page of [`done_page`](crate::DurableClient::done_page) has ended: the next one begins
/// there. It names a place, and no record, so it holds when records come and go, when the program
/// starts again, and on each node of a fleet.
///
/// A list is read by it, and no feed is followed: a record may be written later whose run has ended
/// before this place (`docs/limits.md`).
///
/// As a text it has 56 hexadecimal digits, and goes through a URL.
///
/// # Example
/// ```
/// use wheelwork_durable::DoneCursor;
///
/// let text = "0".repeat(56);
/// let cursor: DoneCursor = text.parse()?;
/// assert_eq!(cursor.to_string(), text);
/// assert!("0123".parse::<DoneCursor>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoneCursor(pub(crate) DonePlace);

impl fmt::Display for DoneCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DonePlace { ended, id, due } = self.0;
        let (ended, due) = (ended.as_millis(), due.as_millis());
        write!(f, "{ended:012x}{id}{due:012x}")
    }
}

impl fmt::Debug for DoneCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DoneCursor({self})")
    }
}

impl FromStr for DoneCursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let [ended, id, due] = digits(text, [TIME_DIGITS, ID_DIGITS, TIME_DIGITS])?;
        Ok(Self(DonePlace {
            ended: time(ended)?,
            id: parse_id(id)?,
            due: time(due)?,
        }))
    }
}
