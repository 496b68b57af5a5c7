//! Errors: those of redb in one line, with the file's path.

use super::bytes::LATER;
use crate::store::contract::{StoreCause, StoreError};
use redb::Error;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A path in an error, which has one line whatever the path has.
pub(super) fn one_line(path: &Path) -> String {
    match path.display().to_string() {
        path if path.is_empty() => "an empty path".into(),
        path => path.replace(char::is_control, "\u{fffd}"),
    }
}

/// An error of the system, in one line.
pub(super) fn io_error(what: &str, error: io::Error) -> StoreError {
    StoreError::Io(StoreCause::new(format!("{what}: {error}"), error))
}

/// What an error of redb means for the store in this file.
pub(super) fn store_error(what: &str, error: Error) -> StoreError {
    let flaw = |why: &str, error| {
        let line = format!("{what}: {}", why.replace('\n', " "));
        StoreError::Damaged(StoreCause::new(line, error))
    };
    match error {
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => {
            StoreError::InUse(StoreCause::new(what, error))
        }
        Error::UpgradeRequired(version) => version_of_redb(what, version.into(), error),
        Error::Corrupted(ref why) => match later_format(why) {
            Some(version) => version_of_redb(what, version, error),
            // (As `tables::damaged` puts it.)
            None if why.ends_with(LATER) => {
                let line = format!("{what}: {why}");
                StoreError::Later(StoreCause::new(line, error))
            }
            None => flaw(&why.clone(), error),
        },
        Error::TableTypeMismatch { .. }
        | Error::TypeDefinitionChanged { .. }
        | Error::TableIsMultimap(_)
        | Error::TableIsNotMultimap(_) => StoreError::Foreign(StoreCause::new(what, error)),
        Error::TableDoesNotExist(ref table) => flaw(&format!("there is no table {table}"), error),
        Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            StoreError::Foreign(StoreCause::new(what, error))
        }
        // A page that should be there is beyond the end.
        Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let line = format!("{what}: it ends too early");
            StoreError::Damaged(StoreCause::new(line, error))
        }
        Error::Io(error) => io_error(what, error),
        other => StoreError::Io(StoreCause::new(format!("{what}: {other}"), other)),
    }
}

/// redb's files have a format of their own, and this redb does not read this one.
fn version_of_redb(what: &str, version: u64, error: Error) -> StoreError {
    let line = format!("{what} (a file of redb's format {version})");
    StoreError::Version(StoreCause::new(line, error), version)
}

/// The format of a file from a later redb. redb calls such a file damaged, and a damaged file is
/// one that people replace. So its words are taken apart: there is nothing else that tells it.
fn later_format(why: &str) -> Option<u64> {
    let formats = why.strip_prefix("Expected file format version <= ")?;
    formats.rsplit_once(", found ")?.1.parse().ok()
}

/// A damaged store, in one line.
pub(super) fn damage(what: &str, why: &str) -> StoreError {
    let why = why.replace('\n', " ");
    StoreError::Damaged(format!("{what}: {why}").into())
}

/// redb panics on some damage that it meets.
pub(super) fn panicked(what: &str, panic: &(dyn Any + Send)) -> StoreError {
    damage(what, &panic_line(panic))
}

/// What a panic of redb says.
pub(super) fn panic_line(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    match text {
        Some(text) => format!("redb panicked: {text}"),
        None => "redb panicked".to_owned(),
    }
}
