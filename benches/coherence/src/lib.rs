//! Coherence: counts the cache lines that go from core to core, without many cores.
//!
//! The program beside this library is built so that each of its memory accesses calls a function
//! (`hooks`, under the feature `runtime`). While a thread acts as a core its accesses go to that
//! core's [`Log`]. The logs are then replayed, in random orders, through a model of the cores'
//! caches ([`Mesi`]), which counts.
//!
//! This library itself is built as any other: what it does is not logged.

mod access;
#[cfg(feature = "runtime")]
mod allocator;
mod cache;
mod census;
mod crew;
#[cfg(all(feature = "runtime", target_arch = "x86_64"))]
mod hooks;
mod lines;
mod log;
mod mesi;
mod named;
mod random;
mod replay;
mod sites;

pub use access::{Access, Kind, LINE};
#[cfg(feature = "runtime")]
pub use allocator::Allocator;
pub use cache::Size;
pub use census::{Census, Line};
pub use crew::{Crew, Seat, Seated, Start, Work};
pub use lines::{Lines, Part, Touch};
pub use log::{CORES_MAX, Log, Recording, core, end_operation};
pub use mesi::{Counts, Mesi};
pub use named::named;
pub use random::Random;
pub use replay::{Mix, Replay};
