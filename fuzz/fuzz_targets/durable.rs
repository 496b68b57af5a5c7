//! Values of a store's file: whatever the bytes are, they decode or do not, without a panic, and
//! what decodes encodes to the same bytes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wheelwork_durable::internals::round_trip;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    table: Table,
    /// The number or the id under which the value is stored.
    under: u128,
    /// The value but for its checksum.
    body: &'a [u8],
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Table {
    Row,
    Tombstones,
    Dead,
    State,
    Version,
    Due,
}

fuzz_target!(|input: Input<'_>| {
    let table = match input.table {
        Table::Row => "row",
        Table::Tombstones => "tombstones",
        Table::Dead => "dead",
        Table::State => "state",
        Table::Version => "version",
        Table::Due => "due",
    };
    round_trip(table, input.under, input.body);
});
