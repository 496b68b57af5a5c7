//! Claim: a worker claims due entries (FireClaim).
//!
//! Runs on the worker's thread, with its [`Local`], under one pin. No user code runs here.

use crate::cell::{DueClaim, Pinned, index_after};
use crate::engine::cells::Cells;
use crate::engine::local::Local;
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
        let (first, ahead) = entries.split_at(entries.len().min(AHEAD));
        for entry in first {
            self.arena.prefetch(entry.cell());
        }
        let mut ahead = ahead.iter();
        let pinner = local.pinner.clone();
        let pinned = pinner.pin();
        let mut fired = 0;
        for &entry in entries {
            if let Some(next) = ahead.next() {
                self.arena.prefetch(next.cell());
            }
            let plain = self
                .arena
                .get(entry.cell(), &pinned)
                .and_then(|cell| cell.claim_due_plain(entry));
            let payload = match plain {
                Some(payload) => payload,
                None => match self.claim_due_other(local, entry, &pinned, &mut run) {
                    Some(payload) => payload,
                    None => continue,
                },
            };
            self.put(local, index_after(entry.cell(), entry.generation()));
            fire(fired, entry, payload);
            fired += 1;
        }
        // Before any task runs: a task that arms a timer finds room.
        self.shared.release(fired);
        fired
    }

    /// Claims a due entry that is not the usual case: its timer is gone, was moved, or repeats.
    #[cold]
    #[inline(never)]
    fn claim_due_other(
        &self,
        local: &mut Local,
        entry: Entry,
        pinned: &Pinned<'_>,
        run: &mut impl FnMut(Entry),
    ) -> Option<T> {
        match self.arena.get(entry.cell(), pinned)?.claim_due(entry) {
            DueClaim::Dead => return None,
            DueClaim::Payload(payload) => return Some(payload),
            DueClaim::Run => run(entry),
            DueClaim::Later(filed) => self.send(local, filed),
        }
        None
    }
}
