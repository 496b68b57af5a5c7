//! Calls: what the outbox asks the functions of the schema, whichever client carries it there.

use crate::store::row::{DurableId, StoreTime};
use crate::store::when::{PayloadBytes, When};
use crate::stores::postgres::statements::rows::{millis, uuid};
use uuid::Uuid;

/// A value of a statement.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Bool(bool),
    Bytes(&'a [u8]),
    Id(Uuid),
    Int(i64),
    Text(&'a str),
    TextOrNull(Option<&'a str>),
}

/// A statement with its values. Its answer has one row, with one column.
#[doc(hidden)]
pub struct Call<'a> {
    pub(super) text: &'a str,
    pub(super) values: Vec<Value<'a>>,
}

/// The statements of the calls.
pub(super) struct Texts {
    schedule: String,
    reschedule: String,
    reschedule_key: String,
    cancel: String,
    cancel_key: String,
}

/// The texts of the calls, for the tests that keep them.
#[cfg(test)]
pub(in crate::stores::postgres) fn texts(schema: &str) -> [String; 5] {
    let Texts {
        schedule,
        reschedule,
        reschedule_key,
        cancel,
        cancel_key,
    } = Texts::new(schema);
    [schedule, reschedule, reschedule_key, cancel, cancel_key]
}

/// Which timer is ended or moved.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    Id(DurableId),
    Key(&'a str),
}

impl<'a> Of<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Self::Id(id) => Value::Id(uuid(id)),
            Self::Key(key) => Value::Text(key),
        }
    }
}

/// When a timer is due, as a statement takes it: whether from now or since 1970, and milliseconds.
fn due<'a>(when: When) -> [Value<'a>; 2] {
    let (is_delay, time) = match when {
        When::At(time) => (false, StoreTime::due_at(time)),
        When::After(delay) => (true, StoreTime::MIN.after(delay)),
    };
    [Value::Bool(is_delay), Value::Int(millis(time))]
}

impl Texts {
    pub(super) fn new(schema: &str) -> Self {
        let due = "CASE WHEN $2 THEN {s}.wheelwork_clock() ELSE 0 END + $3";
        let call = |function: &str, values: &str| {
            let call = format!("SELECT {{s}}.wheelwork_{function}({values})");
            call.replace("{due}", due).replace("{s}", schema)
        };
        Self {
            schedule: call("schedule_at", "$1, {due}, $4, $5"),
            reschedule: call("reschedule_at", "$1, {due}"),
            reschedule_key: call("reschedule_key_at", "$1, {due}"),
            cancel: call("cancel", "$1"),
            cancel_key: call("cancel_key", "$1"),
        }
    }

    /// Answered with the timer's id.
    pub(super) fn schedule<'a>(
        &'a self,
        key: Option<&'a str>,
        kind: &'a str,
        when: When,
        payload: &'a PayloadBytes,
    ) -> Call<'a> {
        let [is_delay, ms] = due(when);
        let payload = Value::Bytes(&payload.0);
        Call {
            text: &self.schedule,
            values: vec![
                Value::Text(kind),
                is_delay,
                ms,
                payload,
                Value::TextOrNull(key),
            ],
        }
    }

    /// Answered with whether it was done.
    pub(super) fn cancel<'a>(&'a self, of: Of<'a>) -> Call<'a> {
        let text = match of {
            Of::Id(_) => &self.cancel,
            Of::Key(_) => &self.cancel_key,
        };
        Call {
            text,
            values: vec![of.value()],
        }
    }

    /// Answered with whether it was done.
    pub(super) fn reschedule<'a>(&'a self, of: Of<'a>, when: When) -> Call<'a> {
        let text = match of {
            Of::Id(_) => &self.reschedule,
            Of::Key(_) => &self.reschedule_key,
        };
        let [is_delay, ms] = due(when);
        Call {
            text,
            values: vec![of.value(), is_delay, ms],
        }
    }
}
