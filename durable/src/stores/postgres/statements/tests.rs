//! Tests of the statements, without a server: each parameter is bound, by its name and as a value
//! of its type.

use super::ALL;
use super::rows::{cause_of, cause_parts, gate, part, partition};
use super::statement::{Sql, split_name};
use crate::store::row::Cause;
use std::collections::BTreeSet;
use tokio_postgres::types::Type;

/// The files that have statements.
const SOURCES: [&str; 13] = [
    include_str!("arm.rs"),
    include_str!("cancel.rs"),
    include_str!("commit.rs"),
    include_str!("dead.rs"),
    include_str!("done.rs"),
    include_str!("floor.rs"),
    include_str!("grant.rs"),
    include_str!("lease.rs"),
    include_str!("load.rs"),
    include_str!("locked.rs"),
    include_str!("reschedule.rs"),
    include_str!("rules.rs"),
    include_str!("settle.rs"),
];

/// The types of parameters without a cast: those of the columns that they are compared with.
static TYPES: [(&str, Type); 33] = [
    ("after", Type::UUID),
    ("before", Type::INT8),
    ("before_due", Type::INT8),
    ("before_id", Type::UUID),
    ("burst", Type::INT8),
    ("bytes", Type::INT8),
    ("calls", Type::INT8),
    ("due", Type::INT8),
    ("ended", Type::INT8),
    ("epoch", Type::INT8),
    ("from", Type::INT8),
    ("full_at_us", Type::INT8),
    ("id", Type::UUID),
    ("key", Type::TEXT),
    ("kind", Type::TEXT),
    ("kinds", Type::TEXT_ARRAY),
    ("limit", Type::INT8),
    ("looks", Type::BOOL),
    ("name", Type::TEXT),
    ("node", Type::UUID),
    ("number", Type::INT8),
    ("part", Type::INT2),
    ("paused", Type::BOOL),
    ("paused_since", Type::INT8),
    ("per_second", Type::FLOAT8),
    ("program", Type::TEXT),
    ("seq", Type::INT8),
    ("since_us", Type::INT8),
    ("slow", Type::BOOL),
    ("until", Type::INT8),
    ("upto", Type::INT8),
    ("wanted", Type::INT8),
    ("wants", Type::TEXT_ARRAY),
];

/// The types that parameters are cast to.
static CASTS: [(&str, Type); 9] = [
    ("bigint[]", Type::INT8_ARRAY),
    ("boolean", Type::BOOL),
    ("boolean[]", Type::BOOL_ARRAY),
    ("bytea[]", Type::BYTEA_ARRAY),
    ("float8", Type::FLOAT8),
    ("smallint[]", Type::INT2_ARRAY),
    ("text", Type::TEXT),
    ("text[]", Type::TEXT_ARRAY),
    ("uuid[]", Type::UUID_ARRAY),
];

/// The parameters that a text names, each as often as it does, with the type to which it is cast.
fn named(text: &str) -> Vec<(&str, Option<&str>)> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some((_, name, after)) = split_name(rest) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "[]".contains(c);
        let cast = after.strip_prefix("::").map(|cast| {
            let len = cast.find(|c| !is_part(c)).unwrap_or(cast.len());
            &cast[..len]
        });
        all.push((name, cast));
        rest = after;
    }
    all
}

/// What is wrong between a text and the fields of its struct.
fn faults(sql: &Sql) -> Vec<String> {
    let mut faults = Vec::new();
    let named = named(sql.text);
    let bound: BTreeSet<&str> = sql.names.iter().copied().collect();
    if bound.len() < sql.names.len() {
        faults.push("a parameter is bound twice".to_string());
    }
    for name in &bound {
        if !named.iter().any(|(named, _)| named == name) {
            faults.push(format!("{name} is bound, and is not in the text"));
        }
    }
    for (name, cast) in named {
        let ty = match cast {
            Some(cast) => CASTS.iter().find(|(known, _)| *known == cast),
            None => TYPES.iter().find(|(known, _)| *known == name),
        };
        match (sql.names.iter().position(|bound| *bound == name), ty) {
            (None, _) => faults.push(format!("{name} is not bound")),
            (_, None) => faults.push(format!("the type of {name} is not known")),
            (Some(at), Some((_, ty))) if !sql.accepts[at](ty) => {
                faults.push(format!("{name} is bound to what is no {ty}"));
            }
            _ => {}
        }
    }
    faults.extend(misnamed_columns(sql.text));
    faults
}

/// Where the columns of an `unnest` have other names than the parameters that they come from.
fn misnamed_columns(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for rest in text.split("unnest(").skip(1) {
        let (given, rest) = rest.split_once(')').expect("the end of what is given");
        let (_, rest) = rest.split_once('(').expect("the names of columns");
        let (columns, _) = rest.split_once(')').expect("their end");
        let given: Vec<&str> = named(given).into_iter().map(|(name, _)| name).collect();
        let columns: Vec<&str> = columns.split(',').map(str::trim).collect();
        if given != columns {
            faults.push(format!("{given:?} are not the columns {columns:?}"));
        }
    }
    faults
}

#[test]
fn each_parameter_is_bound_once_to_a_value_of_its_type() {
    for sql in ALL.into_iter().flatten() {
        assert_eq!(faults(sql), [""; 0], "in:{}", sql.text);
    }
}

/// A statement that is not on the list would not be prepared, and would reach no table.
#[test]
fn all_statements_are_prepared() {
    let made = SOURCES
        .iter()
        .map(|source| source.matches("statement! {").count());
    let all: Vec<&Sql> = ALL.into_iter().flatten().copied().collect();
    assert_eq!(made.sum::<usize>(), all.len());
    let texts: BTreeSet<&str> = all.iter().map(|sql| sql.text).collect();
    assert_eq!(texts.len(), all.len(), "one is there twice");
}

#[test]
fn a_text_is_sent_with_numbers_and_with_the_schema() {
    let sql = Sql {
        text: "SELECT a::text FROM {s}.t WHERE b = :due AND c = :due_to::int OR d = :due",
        names: &["due_to", "due"],
        accepts: &[],
    };
    let sent = "SELECT a::text FROM shop.t WHERE b = $2 AND c = $1::int OR d = $2";
    assert_eq!(sql.in_schema("shop"), sent);
}

#[test]
fn what_does_not_match_is_seen() {
    let of = |text, names| Sql {
        text,
        names,
        accepts: &[|ty| *ty == Type::INT8, |ty| *ty == Type::INT2_ARRAY],
    };
    let count = |text, names| faults(&of(text, names)).len();
    let columns = "unnest(:part::smallint[]) u (part) WHERE due = :due";
    assert_eq!(count(columns, &["due", "part"]), 0);
    assert_eq!(
        count(columns, &["part", "due"]),
        2,
        "the values are swapped"
    );
    assert_eq!(
        count("a = :due", &["due", "part"]),
        1,
        "`part` is not in it"
    );
    assert_eq!(count("a = :due AND b = :upto", &["due"]), 1, "not bound");
    assert_eq!(count("a = :due", &["due", "due"]), 1, "bound twice");
    assert_eq!(count("a = :due::jsonb", &["due"]), 1, "an unknown type");
    assert_eq!(count("a = :mine", &["mine"]), 1, "an unknown type");
    let swapped = "unnest(:due::bigint[], :part::bigint[]) u (part, due)";
    assert_eq!(misnamed_columns(swapped).len(), 1);
}

#[test]
fn a_partition_is_stored_in_its_16_bits() {
    assert_eq!([0, 255, 40_000, u16::MAX].map(part), [0, 255, -25_536, -1]);
    assert!((0..=u16::MAX).all(|number| partition(part(number)) == number));
}

/// As `wheelwork_gate` has it (`tests/postgres/partitions.rs`).
#[test]
fn partitions_beside_each_other_share_a_gate() {
    assert!((0..256).all(|number| gate(number, 256) == number as i16));
    for partitions in [512, 1_024, 65_536_u32] {
        let each = partitions / 256;
        let all = (0..partitions).map(|number| (number, gate(number as u16, partitions)));
        for (number, gate) in all {
            assert_eq!(gate as u32, number / each, "{number} of {partitions}");
        }
    }
}

#[test]
fn a_cause_that_is_not_known_is_not_guessed() {
    let later = "cause 6, of a later program: why";
    assert_eq!(cause_of(6, "why"), Cause::Failed(later.into()));
    for tag in 0..=5 {
        assert_eq!(cause_parts(&cause_of(tag, "")).0, tag);
    }
}
