//! The subjects in Rust, and which one has which name. Those for Node.js are in
//! `compare/node/`.

#[cfg(feature = "rivals")]
mod apalis;
mod poller;
mod subject;
#[cfg(feature = "rivals")]
mod tokio_cron;
mod wheelwork;

pub(crate) use subject::{Opening, Subject};

use crate::name::Name;

/// What can be done with any subject.
pub(crate) trait Work {
    fn by<S: Subject>(&self) -> Result<(), String>;
}

/// Does it with the subject of this name.
pub(crate) fn with(name: Name, work: &impl Work) -> Result<(), String> {
    match name {
        Name::Wheelwork => work.by::<wheelwork::Wheelwork>(),
        Name::Poller => work.by::<poller::Poller>(),
        #[cfg(feature = "rivals")]
        Name::Apalis => work.by::<apalis::Apalis>(),
        #[cfg(feature = "rivals")]
        Name::TokioCron => work.by::<tokio_cron::TokioCron>(),
        Name::GraphileWorker | Name::PgBoss | Name::BullMq => {
            Err("it is a program for Node.js".to_string())
        }
        #[cfg(not(feature = "rivals"))]
        Name::Apalis | Name::TokioCron => Err("it was not built".to_string()),
    }
}
