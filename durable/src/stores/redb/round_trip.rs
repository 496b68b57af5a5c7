//! Round trip: decodes a value and encodes it again, for tests and fuzzing.

use super::bytes::{saturated, seal};
use super::codec::{
    Names, RowView, decode_dead, decode_row, decode_tombstones, encode_dead, encode_row,
    encode_tombstones,
};
use super::due_key::DueKey;
use super::state::{StoreState, decode_version, encode_version};

/// Decodes a value of this body, under a checksum that is right, and encodes it again: there is
/// one encoding. Decodes the body as a whole value, too. Whether it is one.
pub(crate) fn round_trip(table: &str, under: u128, body: &[u8]) -> bool {
    let mut names = Names::default();
    let number = under as u64;
    let under = match table {
        "row" | "tombstones" => number.into(),
        "dead" => under,
        _ => 0,
    };
    let mut value = body.to_vec();
    seal(under, &mut value, 0);
    let _ = decode_row(number, body);
    let _ = decode_dead(under, body, &mut names);
    let _ = StoreState::decode(body);
    let encoded = match table {
        "row" => decode_row(number, &value).map(|row| {
            let mut out = Vec::new();
            encode_row(&mut out, number, &row);
            let owned = row.row(number, &mut names);
            let [attempts, crashes] = [row.attempts, row.crashes].map(|n| saturated(n).into());
            let known = RowView {
                attempts,
                crashes,
                ..row
            };
            assert_eq!(RowView::of(&owned, row.epoch), known);
            out
        }),
        "dead" => decode_dead(under, &value, &mut names).map(|letter| encode_dead(&letter)),
        "state" => StoreState::decode(&value).map(|state| state.encode()),
        "tombstones" => decode_tombstones(number, &value).map(|numbers| {
            let mut out = Vec::new();
            encode_tombstones(&mut out, number, &numbers.collect::<Vec<_>>());
            out
        }),
        "version" => decode_version(&value).map(encode_version),
        _ => match <[u8; 20]>::try_from(body) {
            Err(_) => Err("it is no key"),
            Ok(bytes) => {
                let key = DueKey::from_bytes(bytes);
                let again = DueKey::new(key.due(), key.first_due(), key.number());
                assert_eq!(DueKey::of(key.id(), key.due()), key);
                assert_eq!(again, key);
                return true;
            }
        },
    };
    if let Ok(encoded) = &encoded {
        assert_eq!(*encoded, value);
    }
    encoded.is_ok()
}
