//! Timers in flight: threads that arm at full speed and cancel what they armed a window of inserts
//! ago, with a probe beside them that shows how late a short timer fires meanwhile. It is workload
//! W11, which `window` runs for wheelwork alone and `rivals` for all subjects.

mod crew;
mod flight;
mod plan;
mod probe;
mod resident;
mod ring;
mod service;
mod touched;

pub use flight::{Flight, fly};
pub use plan::{CancelledBy, Plan};
pub use probe::DELAY as PROBE_DELAY;
pub use resident::Resident;
pub use service::{InFlight, Timers};
