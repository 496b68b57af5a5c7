//! The promises that take a PostgreSQL to try, a module each. The server is one for all of them
//! (`../common/server.rs`).

mod acknowledgements;
#[path = "../common/all_may_go.rs"]
mod all_may_go;
mod answers;
#[path = "../common/both_stores/mod.rs"]
mod both_stores;
mod clients;
mod contract;
mod databases;
mod done;
mod floor;
mod golden;
mod heal;
mod held;
mod held_up;
mod kinds;
#[path = "../common/left_behind.rs"]
mod left_behind;
mod limits;
mod lists;
mod nodes;
mod outbox_with;
#[path = "../common/own_schema.rs"]
mod own_schema;
mod partitions;
mod pauses;
mod poolers;
mod program;
#[path = "../common/proxy.rs"]
mod proxy;
mod rules;
mod settings;
#[path = "../common/shared_memory/mod.rs"]
mod shared_memory;
mod transactions;
mod upkeep;
mod versions;
