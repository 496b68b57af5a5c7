//! All models, as one program, which is linked once. `scripts/check loom` runs each of them as a
//! process of its own. Each protocol's models are in a file of their own.

mod attendant;
mod calls;
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
mod outage;
mod pause;
mod periodic;
mod pins;
mod rearm;
mod recall;
mod rights;
mod shared_clock;
mod sleep;
mod stop;
mod throttle;
mod ticket;
mod waiting;
