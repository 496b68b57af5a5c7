//! Statement: a text of SQL that names its parameters, and a struct that has their values.
//!
//! The macro `statement!` makes the struct of a statement. It has a field for each parameter
//! (`due` for `:due` in the text), so the compiler refuses a call that leaves one out, names one
//! that is not there, or gives it a value of another type. The reader stands beside the fields: it
//! makes a value of a row of the answer. `tests.rs` compares the texts with the fields.

use std::fmt::Write;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
#[cfg(test)]
use tokio_postgres::types::Type;

/// The text of a statement, and the names of its parameters.
pub(crate) struct Sql {
    /// `{s}` stands for the schema, `:due` for a parameter.
    pub(crate) text: &'static str,
    /// In the order in which the database gets the values.
    pub(crate) names: &'static [&'static str],
    /// Whether the value of each can be sent as a value of a type of the database.
    #[cfg(test)]
    pub(super) accepts: &'static [fn(&Type) -> bool],
}

/// What can be sent to the database.
pub(crate) trait Statement {
    const SQL: &'static Sql;

    /// What a row of the answer becomes.
    type Answer;

    /// The values of the parameters, in the order of their names.
    fn values(&self) -> impl AsRef<[&(dyn ToSql + Sync)]>;

    fn read(row: &Row) -> Self::Answer;
}

impl Sql {
    /// The text as the database takes it: with the schema, and with numbers for names.
    pub(crate) fn in_schema(&self, schema: &str) -> String {
        let mut sent = String::with_capacity(self.text.len());
        let mut rest = self.text;
        while let Some((before, name, after)) = split_name(rest) {
            let known = self.names.iter().position(|&known| known == name);
            // (All are known, as `tests.rs` finds. The database refuses `$0`.)
            let number = known.map_or(0, |at| at + 1);
            let _ = write!(sent, "{before}${number}");
            rest = after;
        }
        sent.push_str(rest);
        sent.replace("{s}", schema)
    }
}

/// The first name of a parameter in a text, between what is before it and what is after it.
pub(super) fn split_name(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(':')?;
        let after = &text[at + 1..];
        if after.starts_with(':') {
            // A cast.
            from = at + 2;
            continue;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = after.find(|c| !is_part(c)).unwrap_or(after.len());
        return Some((&text[..at], &after[..len], &after[len..]));
    }
}

/// A statement: its name and parameters, what a row of its answer becomes, and its text.
macro_rules! statement {
    (
        $(#[$meta:meta])*
        $name:ident $(<$life:lifetime>)? { $($field:ident: $type:ty),* $(,)? }
        -> $answer:ty = $read:expr;
        $text:expr
    ) => {
        $(#[$meta])*
        pub(crate) struct $name $(<$life>)? { $(pub(crate) $field: $type),* }

        impl $(<$life>)? $crate::stores::postgres::statements::statement::Statement
            for $name $(<$life>)?
        {
            const SQL: &'static $crate::stores::postgres::statements::statement::Sql =
                &$crate::stores::postgres::statements::statement::Sql {
                    text: $text,
                    names: &[$(stringify!($field)),*],
                    #[cfg(test)]
                    accepts: &[$(
                        <$type as tokio_postgres::types::ToSql>::accepts
                            as fn(&tokio_postgres::types::Type) -> bool
                    ),*],
                };

            type Answer = $answer;

            fn values(&self) -> impl AsRef<[&(dyn tokio_postgres::types::ToSql + Sync)]> {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); _] =
                    [$(&self.$field),*];
                values
            }

            fn read(row: &tokio_postgres::Row) -> $answer {
                let read: fn(&tokio_postgres::Row) -> $answer = $read;
                read(row)
            }
        }
    };
}

pub(super) use statement;
