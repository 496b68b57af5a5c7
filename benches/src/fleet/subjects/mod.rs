//! The subjects in Rust, and which one has which name. Those for Node.js are in
//! `benches/fleet-rivals/`.

#[cfg(feature = "fleet-rivals")]
mod apalis;
mod poller;
mod subject;
#[cfg(feature = "fleet-rivals")]
mod tokio_cron;
#[cfg(feature = "fleet-wheelwork")]
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
        #[cfg(feature = "fleet-wheelwork")]
        Name::Wheelwork => work.by::<wheelwork::Wheelwork>(),
        Name::Poller => work.by::<poller::Poller>(),
        #[cfg(feature = "fleet-rivals")]
        Name::Apalis => work.by::<apalis::Apalis>(),
        #[cfg(feature = "fleet-rivals")]
        Name::TokioCron => work.by::<tokio_cron::TokioCron>(),
        Name::GraphileWorker | Name::PgBoss | Name::BullMq => {
            Err("it is a program for Node.js".to_string())
        }
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        _ => Err("it was not built".to_string()),
    }
}
