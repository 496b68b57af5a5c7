//! End: the steps that end a timer before it fires: cancel, take, and the claims of `stop`.
//!
//! Runs on the thread that calls, with its [`Local`]. No payload is dropped here, because user code
//! must not run while the [`Local`] is borrowed: the caller drops the payload afterwards.

use crate::cell::{Claimed, Content, DueAt, index_after};
use crate::engine::cells::Cells;
use crate::engine::figures::tally::Event;
use crate::engine::id::TimerId;
use crate::engine::local::Local;
use crate::entry::Entry;

impl<T: Send + 'static> Cells<T> {
    /// Settles a timer that was claimed, and counts how it ended.
    #[inline]
    pub(crate) fn end(
        &self,
        local: &mut Local,
        claimed: Claimed<T>,
        how: Event,
    ) -> Option<Content<T>> {
        local.count(claimed.due_at.shard(), how, 1);
        self.settle(local, claimed)
    }

    /// Frees the cell of a timer that was claimed, and sends the tombstone of its entry. Returns
    /// the content, or `None` if a periodic timer's run has it.
    #[inline]
    pub(crate) fn settle(&self, local: &mut Local, claimed: Claimed<T>) -> Option<Content<T>> {
        self.put(local, claimed.index);
        if let Some(filed) = claimed.filed {
            self.send_tombstone(local, filed);
        }
        if claimed.content.is_some() {
            self.shared.release(1);
        }
        claimed.content
    }

    /// Takes the payload of a timer that was never moved and does not repeat, which is the usual
    /// case. Otherwise returns `None`, and the caller tries `take` or `cancel`.
    // (Never inlined: the code is too long to be copied to every `cancel` of a program. With some
    // settings the compiler would inline it where a crate calls `cancel` in one place only.)
    #[inline(never)]
    pub(crate) fn take_first(&self, local: &mut Local, id: TimerId) -> Option<T> {
        let claimed = self.look_up(local, id, None, |cell| cell.claim_first(id.birth()))?;
        // SAFETY: this thread has just claimed it, and `put` comes after this.
        let (payload, due_at) = unsafe { claimed.take() };
        self.put(local, index_after(id.cell(), id.birth()));
        let entry = Entry::new(due_at.deadline(), id.cell(), id.birth());
        local.unsend_counted(
            due_at.shard(),
            id.position(),
            entry,
            Event::Cancelled,
            |backlog| self.ease(due_at.shard(), backlog),
        );
        self.shared.release(1);
        Some(payload)
    }

    /// Cancels a timer, and returns its content. The caller drops that when no local is borrowed.
    /// Returns `Some(None)` if a periodic timer runs just now: its run drops the content. Returns
    /// `None` if there is no such timer any more.
    pub(crate) fn cancel(&self, local: &mut Local, id: TimerId) -> Option<Option<Content<T>>> {
        let claimed = self.look_up(local, id, None, |cell| cell.claim_id(id.birth()))?;
        Some(self.end(local, claimed, Event::Cancelled))
    }

    /// Takes a timer's payload before it fires.
    pub(crate) fn take(&self, local: &mut Local, id: TimerId) -> Option<T> {
        let claimed = self.look_up(local, id, None, |cell| cell.claim_payload(id.birth()))?;
        match self.end(local, claimed, Event::Cancelled) {
            Some(Content::Payload(payload)) => Some(payload),
            _ => None,
        }
    }

    /// Cancels timers. Calls `f` with the content of each, as `cancel` returns it. Returns how many
    /// were cancelled.
    pub(crate) fn cancel_many(
        &self,
        local: &mut Local,
        ids: &[TimerId],
        mut f: impl FnMut(Option<Content<T>>),
    ) -> usize {
        self.prefetch(ids);
        let mut missed = 0;
        for &id in ids {
            let content = match self.take_first(local, id) {
                Some(payload) => Some(Content::Payload(payload)),
                None => match self.cancel(local, id) {
                    Some(content) => content,
                    None => {
                        missed += 1;
                        continue;
                    }
                },
            };
            f(content);
        }
        ids.len() - missed
    }

    /// Cancels the timer that waits in a cell.
    pub(crate) fn cancel_at(&self, local: &mut Local, cell: u32) -> Option<Option<Content<T>>> {
        let claimed = self.arena.get(cell, &local.pinner.pin())?.claim_any()?;
        Some(self.end(local, claimed, Event::Cancelled))
    }

    /// StopClaim, for a model.
    #[cfg(loom)]
    pub(crate) fn hand_back_all(&self, local: &mut Local, mut f: impl FnMut(u64, Content<T>)) {
        let f = |due_at: DueAt, content| f(due_at.deadline(), content);
        self.claim_all(local, Event::HandedBack, f);
    }

    /// StopClaim. Claims every armed timer, and calls `f` with the deadline, or what is left if it
    /// was paused, and the content of each.
    pub(crate) fn claim_all(
        &self,
        local: &mut Local,
        how: Event,
        mut f: impl FnMut(DueAt, Content<T>),
    ) {
        let pinner = local.pinner.clone();
        let pinned = pinner.pin();
        // A stop that fires all timers leaves a RUNNING timer to its run, which sees that the
        // service is closed.
        self.arena
            .claim_all(&pinned, how != Event::Fired, |claimed| {
                let due_at = claimed.due_at;
                let how = if matches!(claimed.content, Some(Content::Payload(_))) {
                    how
                } else {
                    Event::Ended
                };
                // No tombstones: the shards are gone.
                if let Some(content) = self.end(
                    local,
                    Claimed {
                        filed: None,
                        ..claimed
                    },
                    how,
                ) {
                    f(due_at, content);
                }
            });
    }
}
