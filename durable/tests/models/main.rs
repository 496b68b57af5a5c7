//! Models that are explored whole, a module each. `scripts/test` optimizes this program.

mod fleet;
mod grants;
mod kinds;
mod row_locks;
mod trials;
