//! The promises of the service, a module each. They are one program, because linking takes longer
//! than running most of them.
//!
//! Beside this program are those that take very many steps (`../long/`), those that read the source
//! (`../source/`), and those that need a process of their own: they count its threads or its
//! memory, fork it, or change it for good.

mod after;
mod apart;
mod async_tasks;
#[path = "../common/blocked.rs"]
mod blocked;
mod calendar_dialects;
mod calendar_patterns;
mod calendar_text;
mod calendars;
mod calls;
mod cancelled_means_gone;
mod clocks;
mod delay_map;
mod delay_queue;
mod dispatch;
mod frameworks;
mod future_pauses;
mod futures;
mod graceful;
mod groups;
mod handler;
mod hooks;
mod inspect;
mod io;
mod lessons;
mod manual_clock;
mod many;
mod max_pending;
mod metrics;
mod one_outcome;
mod panics;
mod pause;
mod paused;
mod paused_threads;
mod peers;
mod periodic_run;
#[path = "../common/quiet.rs"]
mod quiet;
mod recall;
mod retry;
mod schedule;
mod set_global;
mod shared_clock;
mod slow_tasks;
mod start_again;
mod stats;
mod stop_and_wait;
mod stop_async;
mod stop_policies;
mod streams;
mod system_time;
#[path = "../common/tasks.rs"]
mod tasks;
mod thread_ends;
mod timer_id;
mod timer_id_serde;
mod total_functions;
mod tower;
