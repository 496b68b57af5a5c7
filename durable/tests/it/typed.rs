//! Promise: what `schedule_typed` is given is what the handler of `on_typed` gets, through a
//! restart, whether its kind is a constant or a string; a payload that is none of its type is a
//! dead letter, and is kept.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::{
    Cause, Codec, Durable, DurableBuilder, DurableError, DurableId, HandlerResult, Kind, Memory,
};

const SECOND: Duration = Duration::from_secs(1);
const ORDER: Kind<Order> = Kind::new("order");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
    #[serde(default)]
    notes: Vec<String>,
}

fn order(number: u64) -> Order {
    Order {
        number,
        customer: "Ada".to_string(),
        notes: vec!["by mail".to_string()],
    }
}

type Log = Arc<Mutex<Vec<Order>>>;

fn open(clock: &ManualClock, store: &Memory, codec: Codec, log: &Log) -> DurableBuilder<Memory> {
    let log = log.clone();
    Durable::builder(store.clone())
        .clock(clock.clone())
        .codec(codec)
        .on_typed(ORDER, move |delivery, order| {
            assert_eq!(delivery.kind(), ORDER.name());
            log.lock().unwrap().push(order);
            Ok(())
        })
}

#[test]
fn a_value_survives_a_restart() {
    for codec in [Codec::Json, Codec::Postcard] {
        let (clock, store, log) = (ManualClock::new(), Memory::new(), Log::default());
        let timers = open(&clock, &store, codec, &log).start().unwrap();
        timers.schedule_typed("order", SECOND, &order(1)).unwrap();
        let keyed = timers.key("order-2");
        keyed.schedule_typed(ORDER, 2 * SECOND, &order(2)).unwrap();
        let payload = timers.encode(ORDER, &order(3)).unwrap();
        timers
            .schedule_many([("order", 3 * SECOND, payload)])
            .unwrap();
        drop(timers);
        let timers = open(&clock, &store, codec, &log).start().unwrap();
        clock.advance(10 * SECOND);
        assert_eq!(*log.lock().unwrap(), [order(1), order(2), order(3)]);
        assert_eq!(timers.stats().dead, 0);
    }
}

#[test]
fn what_cannot_be_read_is_kept() {
    for (codec, payload) in [
        (Codec::Json, "{\"number\":\"4711\"}".as_bytes()),
        (Codec::Json, b"\xff\xfe"),
        (Codec::Json, b""),
        (Codec::Postcard, b"\x01"),
        (Codec::Postcard, b"\x01\x00\x00more"),
    ] {
        let (clock, log) = (ManualClock::new(), Log::default());
        let timers = open(&clock, &Memory::new(), codec, &log).start().unwrap();
        let id = timers.schedule("order", SECOND, payload).unwrap();
        clock.advance(SECOND);
        let dead = timers.dead_letters(None, 10).unwrap();
        assert_eq!(dead.len(), 1, "{codec:?} {payload:?}");
        assert_eq!((dead[0].row.id, &*dead[0].row.payload), (id, payload));
        assert!(matches!(dead[0].cause, Cause::Undecodable(_)));
        assert_eq!(log.lock().unwrap().len(), 0);
        assert_eq!(timers.stats().failed, 0, "at once, without another attempt");
    }
}

/// JSON lets a type gain a field.
#[test]
fn a_field_that_is_new_has_its_default() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new(), Codec::Json, &log)
        .start()
        .unwrap();
    let former = "{\"number\":4711,\"customer\":\"Ada\",\"gone\":true}";
    timers.schedule("order", SECOND, former).unwrap();
    clock.advance(SECOND);
    assert_eq!(log.lock().unwrap()[0].notes, [""; 0]);
}

/// A kind has the codec that was set before its handler; kinds without a handler have the last one.
#[test]
fn each_kind_has_its_codec() {
    let nothing = |_: &_, _: u64| -> HandlerResult { Ok(()) };
    let timers = Durable::builder(Memory::new())
        .clock(ManualClock::new())
        .on_typed("json", nothing)
        .codec(Codec::Postcard)
        .on_typed("postcard", nothing)
        .start()
        .unwrap();
    let len = |kind: &'static str| timers.encode(kind, &100_u64).unwrap().len();
    assert_eq!(["json", "postcard", "other"].map(len), [3, 1, 1]);
}

/// Payloads may name other timers: in JSON by the text of their ids.
#[test]
fn an_id_is_a_value() {
    let id = DurableId::from_bits(u128::MAX - 0x2a);
    let text = format!("\"{id}\"");
    assert_eq!(Codec::Json.encode(&id).unwrap(), text.as_bytes());
    for codec in [Codec::Json, Codec::Postcard] {
        let payload = codec.encode(&id).unwrap();
        assert_eq!(codec.decode::<DurableId>(&payload), Ok(id), "{codec:?}");
    }
    for wrong in [
        "\"2a\"",
        "42",
        "\"\"",
        "\"+00000000000000000000000000000ff\"",
    ] {
        assert!(Codec::Json.decode::<DurableId>(wrong.as_bytes()).is_err());
    }
}

#[test]
fn what_cannot_be_written_is_refused() {
    let timers = Durable::builder(Memory::new()).start().unwrap();
    let map = BTreeMap::from([(vec![1], 1)]);
    let error = timers.schedule_typed("order", SECOND, &map).unwrap_err();
    assert!(matches!(error, DurableError::Invalid(_)), "{error}");
    assert_eq!(timers.stats().armed, 0);
}
