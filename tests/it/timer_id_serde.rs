//! Promise: a timer's id can be serialized, and what comes back names the same timer. What was not
//! written by an id is an error, or a name that every call may get.
//!
//! Programs may keep what they have written for as long as they run, and compare it: so its form
//! stays.

use std::time::Duration;
use wheelwork::{ManualClock, TimerId, TimerService};

#[test]
fn an_id_comes_back_from_json() {
    let service = TimerService::builder().clock(ManualClock::new()).start();
    let service = service.unwrap();
    for second in 1..100 {
        let id = service.schedule(Duration::from_secs(second), || ());
        let id = id.unwrap();
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, format!("\"{:032x}\"", id.to_bits()), "its form");
        assert_eq!(text, format!("\"{id}\""));
        let read: TimerId = serde_json::from_str(&text).unwrap();
        assert_eq!(read, id);
        assert_eq!(service.remaining(read), Some(Duration::from_secs(second)));
        assert!(service.cancel(read));
    }
}

#[test]
fn an_id_comes_back_from_a_format_that_nobody_reads() {
    let service = TimerService::builder().clock(ManualClock::new()).start();
    let id = service.unwrap().schedule(Duration::MAX, || ()).unwrap();
    let bytes = postcard::to_allocvec(&id).unwrap();
    assert_eq!(
        bytes,
        postcard::to_allocvec(&id.to_bits()).unwrap(),
        "its form"
    );
    assert_eq!(postcard::from_bytes(&bytes), Ok(id));
    let nobody = postcard::to_allocvec(&0_u128).unwrap();
    assert!(postcard::from_bytes::<TimerId>(&nobody).is_err());
}

#[test]
fn what_no_id_has_written_is_an_error() {
    for text in [
        "\"\"",
        "\"00000000000000000000000000000000\"",
        "\"ffffffffffffffffffffffffffffffff\"",
        "\"+0000001000000000000000000000001\"",
        "\"000000010000000000000000000000012\"",
        "\"0000000100000000000000000000001\"",
        "\"0000000g000000000000000000000001\"",
        "1",
        "null",
    ] {
        let read = serde_json::from_str::<TimerId>(text);
        assert!(read.is_err(), "{text}");
    }
    let error = serde_json::from_str::<TimerId>("\"7\"").unwrap_err();
    let expected = "expected the bits of a timer's id, as 32 hexadecimal digits in a text";
    assert!(error.to_string().contains(expected), "{error}");
}
