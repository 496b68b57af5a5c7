//! Time: ticks, the clocks that a service can run on, and the manual clock for tests.
//!
//! A time inside the service is a number of nanoseconds since the clock's origin (`u64`; 292 years
//! are used), or a number of ticks. Where both meet they are `Nanos` and `Tick`.
//!
//! | file | what |
//! |---|---|
//! | `nanos.rs` | nanoseconds, and where they end |
//! | `tick.rs` | nanoseconds to ticks without a division |
//! | `boot.rs` | the system's clock that counts suspended time |
//! | `origin.rs` | the instant from which a clock counts, and the distance of others to it |
//! | `manual.rs` | the clock that a test moves |
//! | `driven.rs` | what this clock moves: the shards of a service |
//! | `watch.rs` | a closure that this clock calls when the time of day was set |
//! | `counter.rs`, `no_counter.rs` | the processor's counter on Linux, and its absence elsewhere |
//! | `rate.rs` | how long a count lasts, and whether that is right |
//! | `anchor.rs` | a thread's latest readings of counter and `Instant`, and whether they agree |
//! | `clock.rs` | one type for all clocks |

mod anchor;
mod boot;
mod clock;
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
mod counter;
mod driven;
mod manual;
mod nanos;
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
mod no_counter;
mod origin;
mod rate;
mod tick;
mod watch;

pub(crate) use anchor::Anchor;
pub use boot::boot_time;
pub(crate) use clock::Clock;
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use counter::CycleCounter;
pub(crate) use driven::{Busy, Driven, Pass};
pub use manual::ManualClock;
#[cfg(feature = "async")]
pub(crate) use nanos::later;
pub(crate) use nanos::{NANOS_MAX, Nanos, YEARS_30, nanos};
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
use no_counter::NoCounter as CycleCounter;
pub(crate) use tick::{Tick, TickLength};
pub use watch::TimeOfDayWatch;
