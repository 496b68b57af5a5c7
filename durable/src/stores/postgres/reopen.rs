//! Reopen: the way back of a store that has failed, because its database did not answer for as long
//! as the user is patient, or has refused something.
//!
//! # Ground rules
//!  - A node whose leases have not run out goes on under them. What it has handed out is still its
//!    own, and what handlers say is stored under the same epochs. Else it comes under a new name,
//!    as after a pause that was too long. Its former rows are suspects then, and what its handlers
//!    say is refused.
//!  - What was sent before may still be made: a server may have it in its buffers, or wait for a
//!    standby. A commit is as a user's transaction then. Its rows and keys are locked, so they are
//!    passed over or wait (TurnAside). Its number is not given again. A renewal, a claim and a take
//!    do no harm when they come late. Partitions that were being given back would be lost while
//!    rows of them are handed out: so the node comes under a new name.

use super::migrations::schema;
use super::session::Patience;
use super::store::{KnownRules, Postgres};
use crate::store::contract::{Lease, StoreError};
use std::time::Duration;

/// How long one try may wait for others who are in the way. The writer has waits of its own between
/// tries, and a stop waits for one of them.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

impl Postgres {
    /// Opens the database again. Returns the leases that the node has now.
    pub(super) fn open_again(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.broken = None;
        self.session.forget();
        let patience = self.session.patience;
        self.session.patience = patience.min(PATIENCE_MAX);
        let leases = self.with(Self::come_back);
        self.session.patience = patience;
        leases
    }

    fn come_back(&mut self) -> Result<Vec<Lease>, StoreError> {
        // (It is there, or the next try comes later.)
        self.session
            .ensure_any(true, &mut Patience::new(Duration::ZERO))?;
        schema::check(&mut self.session)?;
        // The commit that has failed may be made now, and it has this number.
        self.seq += 1;
        self.rules = KnownRules::default();
        self.leases.come_back();
        self.change_leases()?;
        self.listen();
        let own = self.leases.own.iter();
        let leases = own.map(|(&partition, &epoch)| Lease { partition, epoch });
        Ok(leases.collect())
    }
}
