//! Promise: the statements of `Postgres` keep to what other databases take that speak its protocol.
//!
//! Each word in capitals and each function of the statements in `statements/` and in `migrations/`
//! (`tables.rs`, `steps.rs`, `partitions.rs`, `rules.rs`, `functions.rs`) is on a list here. Both
//! are in `src/stores/postgres/`. What the databases are documented to take is in
//! `docs/platforms.md`.

use std::collections::BTreeSet;

/// The files that have the statements of nodes.
const SOURCES: [&str; 13] = [
    include_str!("../../src/stores/postgres/statements/arm.rs"),
    include_str!("../../src/stores/postgres/statements/cancel.rs"),
    include_str!("../../src/stores/postgres/statements/commit.rs"),
    include_str!("../../src/stores/postgres/statements/dead.rs"),
    include_str!("../../src/stores/postgres/statements/done.rs"),
    include_str!("../../src/stores/postgres/statements/floor.rs"),
    include_str!("../../src/stores/postgres/statements/grant.rs"),
    include_str!("../../src/stores/postgres/statements/lease.rs"),
    include_str!("../../src/stores/postgres/statements/load.rs"),
    include_str!("../../src/stores/postgres/statements/locked.rs"),
    include_str!("../../src/stores/postgres/statements/reschedule.rs"),
    include_str!("../../src/stores/postgres/statements/rules.rs"),
    include_str!("../../src/stores/postgres/statements/settle.rs"),
];

/// What makes the tables.
const TABLES_SOURCE: &str = include_str!("../../src/stores/postgres/migrations/tables.rs");

/// What changes them.
const STEPS_SOURCE: &str = include_str!("../../src/stores/postgres/migrations/steps.rs");

/// The functions of the schema that know how many partitions it has.
const PARTITIONS_SOURCE: &str = include_str!("../../src/stores/postgres/migrations/partitions.rs");

/// The functions of the schema that pause timers.
const RULES_SOURCE: &str = include_str!("../../src/stores/postgres/migrations/rules.rs");

/// The functions of the schema.
const FUNCTIONS_SOURCE: &str = include_str!("../../src/stores/postgres/migrations/functions.rs");

/// Words of statements that nodes send.
const WORDS: &[&str] = &[
    "AND",
    "ALL",
    "ANY",
    "AS",
    "BY",
    "CASE",
    "COALESCE",
    "CONFLICT",
    "CROSS",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DO",
    "ELSE",
    "END",
    "EXISTS",
    "FILTER",
    "FOR",
    "FROM",
    "GREATEST",
    "GROUP",
    "IN",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LATERAL",
    "LEFT",
    "LEAST",
    "LIMIT",
    "LOCKED",
    "SKIP",
    "NOT",
    "NOTHING",
    "NULL",
    "OF",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "RETURNING",
    "SELECT",
    "SET",
    "SHARE",
    "THEN",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Functions of statements that nodes send.
const FUNCTIONS: &[&str] = &[
    "count",
    "extract",
    "left",
    "length",
    "max",
    "min",
    "now",
    "octet_length",
    "sum",
    "to_regclass",
    "unnest",
];

/// Words of the statements that make the tables and the functions.
const MAKING: &[&str] = &[
    "ADD",
    "ALTER",
    "COLUMN",
    "CREATE",
    "DEFAULT",
    "FUNCTION",
    "IF",
    "IMMUTABLE",
    "INDEX",
    "KEY",
    "LANGUAGE",
    "PRIMARY",
    "REPLACE",
    "RETURNS",
    "SCHEMA",
    "TABLE",
    "UNIQUE",
];

/// Words of the functions' bodies, and of who may call them.
const BODIES: &[&str] = &[
    "ACCESS",
    "BEGIN",
    "BETWEEN",
    "CHECK",
    "CONSTRAINT",
    "CONTINUE",
    "DECLARE",
    "DEFINER",
    "DIAGNOSTICS",
    "DROP",
    "ELSIF",
    "ERRCODE",
    "EXCEPTION",
    "EXCLUSIVE",
    "EXECUTE",
    "EXIT",
    "FOUND",
    "GET",
    "LOCK",
    "LOOP",
    "MESSAGE",
    "MODE",
    "NOTICE",
    "NULLIF",
    "OUT",
    "PERFORM",
    "PUBLIC",
    "RAISE",
    "RETURN",
    "REVOKE",
    "ROW_COUNT",
    "SECURITY",
    "SQLSTATE",
    "TRUE",
    "VALID",
    "VOLATILE",
];

/// Functions of these.
const MAKING_FUNCTIONS: &[&str] = &[
    "bit",
    "ceil",
    "clock_timestamp",
    "current_setting",
    "floor",
    "format",
    "gen_random_uuid",
    "generate_series",
    "has_table_privilege",
    "lpad",
    "md5",
    "random",
    "replace",
    "set_config",
    "substr",
    "to_hex",
    "to_timestamp",
];

/// The texts between quotes, but for comments.
fn literals(source: &str) -> Vec<String> {
    let code: Vec<_> = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let texts = code.split('"').skip(1).step_by(2);
    texts.map(ToString::to_string).collect()
}

/// The statements of nodes: the texts that name the schema, and the pieces behind an order that is
/// put in.
fn of_nodes() -> impl Iterator<Item = String> {
    let all = SOURCES.iter().flat_map(|source| literals(source));
    all.filter(|text| text.contains("{s}") || text.contains("ORDER BY"))
}

/// Its words in capitals, and the functions that it calls.
fn words(statement: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut capitals, mut functions) = (BTreeSet::new(), BTreeSet::new());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = statement;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let word = &rest[begin..];
        let len = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(len);
        if word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            capitals.insert(word.to_string());
        } else if after.starts_with('(') {
            functions.insert(word.to_string());
        }
        rest = after;
    }
    (capitals, functions)
}

/// What a statement has that is not on the lists.
fn strange(statement: &str) -> Vec<String> {
    let is_making = ["CREATE", "ALTER", "REVOKE"]
        .iter()
        .any(|word| statement.trim_start().starts_with(word))
        || statement.contains("generate_series");
    let (capitals, functions) = words(statement);
    let is_known_word = |word: &String| {
        let making = MAKING.contains(&word.as_str()) || BODIES.contains(&word.as_str());
        WORDS.contains(&word.as_str()) || is_making && making
    };
    let is_known_function = |name: &String| {
        let own = name.starts_with("wheelwork_");
        // (Columns in brackets follow the name of what has them.)
        let columns = [
            "timer",
            "lease",
            "gate",
            "node",
            "watermark",
            "seq",
            "meta",
            "dead",
            "setting",
            "kind",
            "u",
            "p",
            "g",
        ];
        FUNCTIONS.contains(&name.as_str())
            || columns.contains(&name.as_str())
            || own
            || is_making && MAKING_FUNCTIONS.contains(&name.as_str())
    };
    let words = capitals.into_iter().filter(|word| !is_known_word(word));
    let calls = functions
        .into_iter()
        .filter(|name| !is_known_function(name));
    words.chain(calls).collect()
}

#[test]
fn the_statements_keep_to_what_ports() {
    let mut statements: Vec<String> = of_nodes().collect();
    assert!(statements.len() > 45, "{} are not all", statements.len());
    statements.extend(literals(TABLES_SOURCE));
    statements.extend(literals(STEPS_SOURCE));
    statements.extend(literals(FUNCTIONS_SOURCE));
    statements.extend(literals(PARTITIONS_SOURCE));
    statements.extend(literals(RULES_SOURCE));
    assert!(statements.len() > 60, "{} are not all", statements.len());
    for statement in statements {
        assert_eq!(strange(&statement), [""; 0], "in: {statement}");
    }
}

#[test]
fn a_statement_changes_one_table_once() {
    for statement in of_nodes().chain(literals(TABLES_SOURCE)) {
        if statement.starts_with("CREATE FUNCTION") {
            continue; // (Their bodies have several statements.)
        }
        let changes = ["DELETE FROM", "UPDATE {s}", "INSERT INTO"];
        let count: usize = changes
            .iter()
            .map(|word| statement.matches(word).count())
            .sum();
        assert!(count <= 1, "{count} changes in: {statement}");
    }
}

#[test]
fn this_test_sees_what_does_not_port() {
    for statement in [
        "SELECT part FROM {s}.lease FOR UPDATE NOWAIT",
        "SELECT pg_advisory_xact_lock($1)",
        "LISTEN news",
        "SELECT array_agg(part) FROM {s}.lease",
        "SELECT ('x' || md5($1))::bit(8)",
    ] {
        assert_ne!(strange(statement), [""; 0], "{statement}");
    }
}
