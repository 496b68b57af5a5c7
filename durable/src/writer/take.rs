//! Take: TurnTake, the requests that a turn takes out of the queue, sorted.

use super::turn::Writer;
use crate::queue::request::{Change, Control, Look, Reply, Request, Told};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::write::{SliceLimit, Write};

/// What a turn has taken. Each kind is in the order in which it came.
pub(super) struct Taken {
    pub(super) told: Vec<Told>,
    pub(super) controls: Vec<Control>,
    pub(super) changes: Vec<(Change, Reply)>,
    pub(super) looks: Vec<Look>,
}

impl Taken {
    /// With room for this many calls and words: a large turn moves no request to make room.
    fn with_room(calls: usize, words: usize) -> Self {
        Self {
            told: Vec::with_capacity(words),
            controls: Vec::new(),
            changes: Vec::with_capacity(calls),
            looks: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.told.len() + self.controls.len() + self.changes.len() + self.looks.len()
    }

    fn add(&mut self, request: Request) {
        match request {
            Request::Told(told) => self.told.push(told),
            Request::Control(control) => self.controls.push(control),
            Request::Change(change, reply) => self.changes.push((change, reply)),
            Request::Look(look) => self.looks.push(look),
        }
    }
}

impl Writer {
    /// TurnTake: the requests that wait, and how much more the turn's commit has room for. Of what
    /// it may take, half is first for what handlers have said.
    pub(super) fn take_requests(&mut self) -> (Taken, SliceLimit) {
        let slice = self.pace.limit();
        let limit = SliceLimit {
            rows: self.ownership.requests_max(slice),
            bytes: slice.bytes,
        };
        let half = SliceLimit {
            rows: limit.rows.div_ceil(2),
            bytes: limit.bytes / 2,
        };
        let (calls, words) = self.requests.lengths();
        let mut taken = Taken::with_room(calls.min(limit.rows), words.min(limit.rows));
        let (mut count, mut bytes) = (0, 0);
        while !limit.is_reached(count, bytes)
            && let Some(request) = (self.requests).next(!half.is_reached(count, bytes))
        {
            if !is_broken(DurableFault::BytesUnbounded) {
                bytes += self.bytes_of(&request);
            }
            self.core.shared.take_out(request.queued_bytes());
            taken.add(request);
            count += 1;
        }
        let rows = match limit.is_reached(count, bytes) {
            true => 0,
            false => self.ownership.rows_left(slice, count),
        };
        let room = SliceLimit {
            rows,
            bytes: slice.bytes.saturating_sub(bytes),
        };
        (taken, room)
    }

    /// Bytes that a request adds to the commit.
    fn bytes_of(&self, request: &Request) -> usize {
        match request {
            Request::Told(Told::Done(done)) => self.core.window.bytes_of(done.of.id),
            Request::Told(Told::Settle(settlement)) => {
                self.core.window.bytes_of(settlement.of.id) + settlement.verdict.bytes()
            }
            Request::Change(Change::One(Write::Move(..) | Write::Revive(..)), _) => {
                self.moved_bytes
            }
            Request::Change(Change::Replace(timer, _), _) => timer.bytes(),
            Request::Change(Change::One(Write::Amend(of)), _) => of.bytes(),
            request => request.queued_bytes(),
        }
    }
}
