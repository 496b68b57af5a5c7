#![doc = include_str!("README.md")]

pub(crate) mod announcements;
pub(crate) mod attendant;
pub(crate) mod buffers;
pub(crate) mod channel;
mod dispatcher;
mod fire;
pub(crate) mod grain;
pub(crate) mod inline;
pub(crate) mod inside;
pub(crate) mod job;
pub(crate) mod pool;
pub(crate) mod pool_dispatcher;
pub(crate) mod queues;
mod receiver;
pub(crate) mod relief;
mod sizes;
mod target;

pub(crate) use dispatcher::{Dispatcher, LookAgain};
pub(crate) use fire::{Fire, Half};
pub use inside::{is_inside_task, run_as_task};
pub use receiver::Receiver;
pub use relief::is_relief_thread;
pub(crate) use sizes::{BATCH, EntryBatch, GRAIN, WAITING_MAX};
pub(crate) use target::Execute;
pub use target::{Dispatch, UserExecutor};
