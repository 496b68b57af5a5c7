//! Ownership: what a turn does for the partitions that it hands out. There are two kinds: a process
//! that has a store alone, and a node of a fleet. The turn is the same for both.

use super::core::Core;
use super::plan::Plan;
use super::window::ClockReading;
use crate::store::contract::{NodeKinds, StoreError};
use crate::store::fleet::Fleet;
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use std::time::Duration;

/// The steps of a turn that depend on whether other nodes write to the store.
pub(super) trait Ownership: Send {
    /// LeaseRenew: before all else.
    fn renew(&mut self, core: &mut Core) -> Result<(), StoreError>;

    /// TurnClaim: raises the watermark, if a row is due soon.
    fn claim(&mut self, core: &mut Core, now: StoreTime) -> Result<(), StoreError>;

    /// TurnLoad, before the commit of the turn: rows that must not wait for it. Returns whether all
    /// of them are loaded.
    fn load_claimed(&mut self, core: &mut Core, clocks: ClockReading) -> Result<bool, StoreError>;

    /// TurnLoad, after the commit of the turn. Returns whether all is loaded that is to be.
    /// `has_shrunk`: rows have just left the window.
    fn load(
        &mut self,
        core: &mut Core,
        clocks: ClockReading,
        now: StoreTime,
        has_shrunk: bool,
    ) -> Result<bool, StoreError>;

    /// LeaseRelease: what handlers have said may have made partitions idle.
    fn give_back_idle(&mut self, core: &mut Core) -> Result<(), StoreError>;

    /// TurnBack: the store was away, and nothing is known of what is due, or of the leases' ends.
    fn begin_anew(&mut self);

    /// How long the writer may wait for a request.
    fn next(&self, core: &mut Core, now: StoreTime) -> Result<Option<Duration>, StoreError>;

    /// The most requests of a commit, if a slice is so large.
    fn requests_max(&self, slice: SliceLimit) -> usize;

    /// How many rows of large calls a commit has room for if it also has `requests` requests.
    fn rows_left(&self, slice: SliceLimit, requests: usize) -> usize;

    /// A row is in the store that is not loaded.
    fn expect(&mut self, core: &Core, row: &Row);

    /// There may be something new in the store.
    fn look_soon(&mut self);

    /// A row may be this node's again, and lie where it is not looked for.
    fn look_at_all_soon(&mut self);

    /// The plan of changes that wait for somebody's transaction.
    fn plan_aside(&self, plan: Plan) -> Plan;

    /// A slice of the rows of the partitions that are owned, in order.
    fn read_owned(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError>;

    /// The nodes that hand something out, where there are several.
    fn node_kinds(&self, core: &mut Core) -> Result<Vec<NodeKinds>, StoreError>;

    /// Whether another node may hand out this kind.
    fn may_have(&mut self, core: &mut Core, kind: &str) -> Result<bool, StoreError>;

    /// A slice of the rows that are held in the partitions that are owned, in order. Each may have
    /// changed until it is written.
    fn read_held(
        &self,
        core: &mut Core,
        after: Position,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError>;

    /// A look at a slice of all rows of the store, whose ever they are, in order.
    fn read_all(
        &self,
        core: &mut Core,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError>;

    /// Who owns what.
    fn fleet(&self, core: &mut Core) -> Result<Fleet, StoreError>;
}
