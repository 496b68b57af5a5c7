//! Trace: what a text must be to name a trace, by W3C's Trace Context.

/// Whether a text is a header `traceparent`: version, trace, span and flags, as small hexadecimal
/// digits between hyphens. A version after 00 may have more behind them.
pub(crate) fn is_traceparent(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let mut next = |digits: usize| {
        let part = parts.next().unwrap_or_default();
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (part.len() == digits && part.bytes().all(is_digit)).then_some(part)
    };
    let is_named = |part: &str| part.bytes().any(|digit| digit != b'0');
    let (version, trace, span, flags) = (next(2), next(32), next(16), next(2));
    let rest = parts.next();
    let is_whole = version.is_some_and(|version| version != "ff")
        && trace.is_some_and(is_named)
        && span.is_some_and(is_named)
        && flags.is_some();
    let rest_may_be = match version {
        Some("00") => rest.is_none(),
        _ => rest.is_none_or(|rest| rest.bytes().all(|byte| byte.is_ascii_graphic())),
    };
    is_whole && rest_may_be && super::row::RowMore::is_trace(text)
}
