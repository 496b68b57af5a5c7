//! Promises that are tried in many steps, a module each. `scripts/test` optimizes this program.

#[path = "../common/all_may_go.rs"]
mod all_may_go;
mod calendars;
mod timers;
