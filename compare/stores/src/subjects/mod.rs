//! The subjects by name, each behind one trait: durable timers with tickets.

#[cfg(feature = "rivals")]
mod apalis;
pub(crate) mod engine;
#[cfg(feature = "rivals")]
mod fjall;
mod grouped;
mod redb;
#[cfg(feature = "rivals")]
mod redis;
#[cfg(feature = "rivals")]
mod sqlite;
mod subject;
mod wheelwork;

use crate::name::Name;
use engine::Engine;
pub(crate) use grouped::Grouped;
pub(crate) use subject::Subject;
use wheelwork_kit::line::Figures;

/// What can be done with any subject.
pub(crate) trait Work {
    /// With durable timers.
    fn by<S: Subject>(&self) -> Result<Figures, String>;

    /// With an engine that needs a writer and a poller around it.
    fn by_engine<E: Engine>(&self) -> Result<Figures, String> {
        self.by::<Grouped<E>>()
    }
}

/// Does it with the subject of this name.
pub(crate) fn with(name: Name, work: &impl Work) -> Result<Figures, String> {
    match name {
        Name::Wheelwork => work.by::<wheelwork::Wheelwork>(),
        Name::Redb => work.by_engine::<redb::Redb>(),
        #[cfg(feature = "rivals")]
        Name::Fjall => work.by_engine::<fjall::Fjall>(),
        #[cfg(feature = "rivals")]
        Name::Sqlite => work.by_engine::<sqlite::Sqlite>(),
        #[cfg(feature = "rivals")]
        Name::Redis => work.by_engine::<redis::Redis>(),
        #[cfg(feature = "rivals")]
        Name::Apalis => work.by_engine::<apalis::Apalis>(),
    }
}
