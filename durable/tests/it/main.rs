//! The promises of durable timers, a module each. They are one program, because linking takes
//! longer than running most of them. None of these tests starts a process: until that runs its
//! program it has a copy of each open file, and a lock of it.
//!
//! Beside this program are those that take very many steps (`../long/`), the models (`../models/`),
//! those that need a PostgreSQL (`../postgres/`), and those that start or fork processes, or need
//! one of their own.

#[path = "../common/all_may_go.rs"]
mod all_may_go;
mod answers;
mod backup;
mod beside_large;
mod board;
mod bulk;
#[cfg(feature = "calendar")]
mod calendar_payloads;
mod check;
mod crashes;
mod done;
#[path = "../common/durable_model.rs"]
mod durable_model;
mod expiry;
mod fair;
mod faulty_disk;
mod formats;
mod golden;
mod heal;
mod held;
mod held_up;
#[path = "../common/histories/mod.rs"]
mod histories;
mod kinds;
mod later_records;
mod limits;
mod lists;
mod lists_of_nodes;
#[path = "../common/lives.rs"]
mod lives;
mod manual_clock;
mod metrics;
#[path = "../common/over_memory.rs"]
mod over_memory;
mod pauses;
mod policies;
mod redb_faults;
mod salvage;
#[path = "../common/shared_memory/mod.rs"]
mod shared_memory;
mod slices;
mod slow_nodes;
#[path = "../common/slow_store.rs"]
mod slow_store;
mod sql;
mod stalls;
mod stop_async;
mod stopping_nodes;
mod store;
#[path = "../common/stores/mod.rs"]
mod stores;
mod sweeps;
mod time_limits;
mod trials;
mod typed;
mod window;
