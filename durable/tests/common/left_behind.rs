//! What tests of the outbox's clients have in common: each client makes the same calls, and this is
//! what they have left behind.

use crate::own_schema::Schema;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Store, Target};
use wheelwork_durable::{DurableId, Row, StoreTime};

pub const HOUR: Duration = Duration::from_secs(3_600);

/// The year 2100, when nothing is due in a test.
pub fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(4_102_444_800_000)
}

/// The address of the server, as a URL.
pub fn url(schema: &Schema) -> String {
    let part = |name: &str| {
        let parts = schema.database.split(' ');
        let mut values = parts.filter_map(|part| part.strip_prefix(name));
        values.next().unwrap_or_default().to_owned()
    };
    let [host, port, user, dbname] = ["host=", "port=", "user=", "dbname="].map(part);
    format!("postgres://{user}@{host}:{port}/{dbname}?sslmode=disable")
}

fn get(store: &mut impl Store, id: DurableId) -> Option<Row> {
    store.get(&Target::Id(id)).unwrap()
}

fn key(store: &mut impl Store, key: &str) -> Option<Row> {
    store.get(&Target::Key(key.into())).unwrap()
}

/// What the client has left behind: of each pair of timers the committed one.
pub fn check(store: &mut impl Store, kept: DurableId, lost: DurableId) {
    let row = get(store, kept).expect("it is there");
    assert_eq!((&*row.kind, &row.payload[..]), ("mail", &b"kept"[..]));
    assert_eq!(row.due, StoreTime::from_millis(4_102_444_800_000));
    assert_eq!(get(store, lost), None);
    let row = key(store, "kept").expect("it is there");
    assert_eq!(&row.payload[..], b"newer", "a key has one timer");
    let in_two_hours = StoreTime::due_at(SystemTime::now() + HOUR * 2 - HOUR / 2);
    assert!(row.due > in_two_hours, "it was moved by its key");
    assert_eq!(key(store, "cancelled"), None);
}
