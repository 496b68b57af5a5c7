//! The subjects: a server of axum, with limits by some timers or without any.

mod calls;
mod none;
mod pieces;
mod subject;
mod tokio_timers;
mod tower_http_layers;
mod wheelwork_timers;

pub(crate) use subject::{Subject, Work};

use crate::name::Name;

/// Has the work done by the subject of this name.
pub(crate) fn with<W: Work>(name: Name, work: W) -> Result<(), String> {
    match name {
        Name::None => work.by(none::NoLimits),
        Name::Tokio => work.by(tokio_timers::TokioTimers),
        Name::TowerHttp => work.by(tower_http_layers::TowerHttpLayers),
        Name::Wheelwork => work.by(wheelwork_timers::WheelworkTimers::new()),
    }
}
