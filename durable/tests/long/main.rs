//! Promises that are tried in many steps, a module each. `scripts/test` optimizes this program.

mod calendars;
mod timers;
