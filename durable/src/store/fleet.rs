//! Fleet: who owns what, as a store that nodes share tells it.

use super::row::Partition;
use std::time::Duration;

/// The nodes of a store, and its partitions.
///
/// # Example
/// See [`DurableClient::fleet`](crate::DurableClient::fleet).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fleet {
    /// The nodes that are alive, by name.
    pub nodes: Vec<FleetNode>,
    /// The partitions, by number.
    pub partitions: Vec<FleetPartition>,
}

/// A node of a [`Fleet`].
///
/// # Example
/// See [`Fleet`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetNode {
    /// The name that its program has given it, or its host's and its process's.
    pub name: String,
    /// Partitions that it owns.
    pub partitions: usize,
    /// Whether it is the one that was asked.
    pub is_this: bool,
}

/// A partition of a [`Fleet`].
///
/// # Example
/// See [`Fleet`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetPartition {
    /// Its number.
    pub number: Partition,
    /// The owner's name, if it has one.
    pub owner: Option<String>,
    /// The epoch of its lease.
    pub epoch: u64,
    /// How long its oldest row is overdue. Zero: none is.
    pub lag: Duration,
}
