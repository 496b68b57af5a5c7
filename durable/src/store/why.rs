//! Why: what errors and panics say, in one text, as a store keeps it.

use std::any::Any;
use std::sync::Arc;

/// The longest text of an error that is stored, in bytes.
const WHY_BYTES_MAX: usize = 4_096;

/// What is stored of the text of an error: all of it, or its beginning, up to the end of a
/// character.
pub(crate) fn stored_why(text: &str) -> Arc<str> {
    if text.len() <= WHY_BYTES_MAX {
        return text.into();
    }
    let (cut, more) = text.split_at(text.floor_char_boundary(WHY_BYTES_MAX));
    format!("{cut}.. ({} bytes more)", more.len()).into()
}

/// What an error and its causes say, in one text: "db error" alone says nothing. A cause that the
/// text ends with already is not said again. The causes add no lines.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string().replace(char::is_control, " ");
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match said {
        Some(said) => format!("it panicked: {said}"),
        None => "it panicked".to_owned(),
    }
}
