//! Claim: a worker claims due entries (FireClaim).
//!
//! Runs on the worker's thread, with its [`Local`], under one pin. No user code runs here.

use super::cells::Cells;
use super::local::Local;
use crate::cell::DueClaim;
use crate::cell::Pinned;
use crate::entry::Entry;

/// Prefetch distance, in claims: a cell comes from memory in about this time.
const AHEAD: usize = 32;

impl<T: Send + 'static> Cells<T> {
    /// Claims the timers of due entries, and frees their cells. Gives `fire` each payload, with its
    /// entry and the number of payloads before it. Gives `run` the entries of periodic timers.
    /// Returns the number of payloads.
    #[inline]
    pub(crate) fn claim_due(
        &self,
        local: &mut Local,
        entries: &[Entry],
        mut fire: impl FnMut(usize, Entry, T),
        mut run: impl FnMut(Entry),
    ) -> usize {
        entries
            .iter()
            .take(AHEAD)
            .for_each(|entry| self.arena.prefetch(entry.cell()));
        let pinned = local.pinner.pin();
        let mut fired = 0;
        for (position, &entry) in entries.iter().enumerate() {
            if let Some(next) = entries.get(position + AHEAD) {
                self.arena.prefetch(next.cell());
            }
            let plain = self
                .arena
                .get(entry.cell(), &pinned)
                .and_then(|cell| cell.claim_due_plain(entry));
            if let Some((payload, index)) =
                plain.or_else(|| self.claim_due_other(local, entry, &pinned, &mut run))
            {
                self.put(local, index);
                fire(fired, entry, payload);
                fired += 1;
            }
        }
        // Before any task runs: a task that arms a timer finds room.
        self.shared.release(fired);
        fired
    }

    /// Claims a due entry that is not the usual case: its timer is gone, was moved, or repeats.
    #[inline(never)]
    fn claim_due_other(
        &self,
        local: &mut Local,
        entry: Entry,
        pinned: &Pinned,
        run: &mut impl FnMut(Entry),
    ) -> Option<(T, Option<u32>)> {
        match self.arena.get(entry.cell(), pinned)?.claim_due(entry) {
            DueClaim::Dead => return None,
            DueClaim::Payload(payload, index) => return Some((payload, index)),
            DueClaim::Run => run(entry),
            DueClaim::Later(filed) => self.send(local, filed),
        }
        None
    }
}
