//! Errors: those of redb in one line, with the file's path.

use crate::durable::StoreError;
use redb::Error;
use std::any::Any;
use std::io::ErrorKind;
use std::path::Path;

/// A path in an error, which has one line whatever the path has.
pub(super) fn one_line(path: &Path) -> String {
    match path.display().to_string() {
        path if path.is_empty() => "an empty path".into(),
        path => path.replace(char::is_control, "\u{fffd}"),
    }
}

/// What an error of redb means for the store in this file.
pub(super) fn store_error(what: &str, error: &Error) -> StoreError {
    match error {
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => StoreError::InUse(what.into()),
        Error::UpgradeRequired(version) => StoreError::Version(what.into(), (*version).into()),
        Error::Corrupted(why) => damage(what, why),
        Error::TableTypeMismatch { .. }
        | Error::TypeDefinitionChanged { .. }
        | Error::TableIsMultimap(_)
        | Error::TableIsNotMultimap(_) => StoreError::Foreign(what.into()),
        Error::TableDoesNotExist(table) => damage(what, &format!("there is no table {table}")),
        Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            StoreError::Foreign(what.into())
        }
        // A page that should be there is beyond the end.
        Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            damage(what, "it ends too early")
        }
        Error::Io(error) => StoreError::Io(format!("{what}: {error}").into()),
        other => StoreError::Io(format!("{what}: {other}").into()),
    }
}

/// A damaged store, in one line.
pub(super) fn damage(what: &str, why: &str) -> StoreError {
    let why = why.replace('\n', " ");
    StoreError::Damaged(format!("{what}: {why}").into())
}

/// redb panics on some damage that it meets.
pub(super) fn panicked(what: &str, panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    damage(what, text.unwrap_or("redb panicked"))
}
