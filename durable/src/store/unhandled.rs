//! Unhandled: a kind whose timers wait for a handler.

use std::sync::Arc;
use std::time::SystemTime;

/// A kind whose timers wait, because no node that could hand them out has a handler of the kind.
///
/// # Example
/// See [`DurableClient::unhandled`](crate::DurableClient::unhandled).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnhandledKind {
    /// The kind.
    pub kind: Arc<str>,
    /// How many of its timers wait.
    pub rows: u64,
    /// Since when the first of them has waited.
    pub since: SystemTime,
    /// The names of live nodes that have a handler of the kind. The timers are on their way to
    /// them. Always empty where a process has the store for itself.
    pub nodes: Vec<String>,
}
