//! The subjects by name.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// No limits: what all else costs
    None,
    /// All limits on tokio's timers, each in the form that costs least
    Tokio,
    /// The same, with the layers of tower-http for requests and for bodies
    TowerHttp,
    /// All limits on wheelwork
    Wheelwork,
}

/// Whose figures are the floor, and to whom wheelwork is compared.
pub(crate) const FLOOR: &str = "none";
pub(crate) const RIVAL: &str = "tokio";

impl Name {
    pub(crate) fn has_limits(self) -> bool {
        self != Self::None
    }
}
