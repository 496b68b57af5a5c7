//! What the programs that measure and check wheelwork have in common: command lines, campaigns of
//! measurements, their figures and tables.

pub mod beside;
pub mod campaign;
pub mod clock;
pub mod command_line;
pub mod goals;
pub mod in_flight;
pub mod job;
pub mod lateness;
pub mod line;
pub mod lock;
pub mod machine;
pub mod mix;
pub mod program;
pub mod progress;
pub mod report;
pub mod round_trip;
pub mod said;
pub mod system;
pub mod table;
