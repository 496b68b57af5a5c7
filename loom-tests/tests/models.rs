//! All models, as one program: its tests keep both cores at work until the end. Each protocol's
//! models are in a file of their own.

mod attendant;
mod cell;
mod clock;
mod deferred;
mod doorbell;
mod ended;
mod fences;
mod grain;
mod handoff;
mod in_flight;
mod job;
mod lane;
mod magazine;
mod periodic;
mod pins;
mod rearm;
mod recall;
mod rights;
mod shared_clock;
mod sleep;
mod stop;
mod ticket;
mod waiting;
