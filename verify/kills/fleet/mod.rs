//! Fleet: nodes that share a private PostgreSQL, in trouble. They are killed, stopped and started.
//! So is the server.
//!
//! `scripts/check fleet` runs it.

mod acts;
mod args;
mod handlers;
mod node;
mod nodes;
mod parent;
mod plan;
mod server;
mod table;
mod work;

pub(crate) use args::Args;
pub(crate) use parent::run;
