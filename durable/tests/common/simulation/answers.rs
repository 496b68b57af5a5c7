//! Answers: what callers were told is held against what the store has done.

use super::ledger::State;
use super::world::World;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use wheelwork_durable::contract::{Outcome, Target, Write};
use wheelwork_durable::{DurableError, DurableId, Ticket};

/// An answer that is awaited.
pub enum Pending {
    Arm(u64, Ticket<DurableId>),
    Cancel(DurableId, usize, Ticket<bool>),
}

impl World {
    /// How many writes the store has made, and how many acts were nested, so far.
    pub fn so_far(&self) -> (usize, u64) {
        (self.ledger.made.len(), self.nested)
    }

    pub fn check_arm(&mut self, node: usize, token: u64, answer: &Result<DurableId, DurableError>) {
        match answer {
            Ok(id) => {
                let timer = self.ledger.timers.get(id);
                if timer.is_none_or(|timer| timer.token != token) {
                    let what = format!("{token} is acknowledged, and was not stored");
                    self.ledger.wrong(what);
                }
            }
            Err(error) => {
                self.check_error(node, "schedule", error);
                self.check_refused(token, error);
            }
        }
    }

    fn check_cancelled(
        &mut self,
        node: usize,
        id: DurableId,
        first: usize,
        answer: &Result<bool, DurableError>,
    ) {
        match answer {
            Ok(true) => {
                let ended = self.ledger.ended_since(first, State::Cancelled);
                if !ended.contains(&id) {
                    self.ledger
                        .wrong(format_args!("{id} is told as cancelled, and is not"));
                }
            }
            Ok(false) => {}
            Err(error) => self.check_error(node, "cancel", error),
        }
    }

    /// Looks at the answers that have come. All have: the node is at rest.
    pub fn check_tickets(&mut self, node: usize) {
        let mut context = Context::from_waker(Waker::noop());
        for mut pending in std::mem::take(&mut self.nodes[node].tickets) {
            let is_answered = match &mut pending {
                Pending::Arm(token, ticket) => match Pin::new(ticket).poll(&mut context) {
                    Poll::Ready(answer) => {
                        self.check_arm(node, *token, &answer);
                        true
                    }
                    Poll::Pending => false,
                },
                Pending::Cancel(id, first, ticket) => match Pin::new(ticket).poll(&mut context) {
                    Poll::Ready(answer) => {
                        self.check_cancelled(node, *id, *first, &answer);
                        true
                    }
                    Poll::Pending => false,
                },
            };
            if !is_answered && self.may_wait() {
                self.nodes[node].tickets.push(pending);
            } else if !is_answered {
                self.ledger.wrong("a ticket has no answer");
            }
        }
    }

    /// Whether one of the writes since `first` was of this target, and came to what was told.
    pub fn is_true(&self, first: usize, target: &Target, is_done: bool) -> bool {
        let mut made = self.ledger.made[first..].iter();
        made.any(|(write, outcome)| came_to(write, outcome, target) == Some(is_done))
    }
}

/// Whether a write came to something. `None`: it was not of this target.
fn came_to(write: &Write, outcome: &Outcome, target: &Target) -> Option<bool> {
    match (write, outcome) {
        (Write::Cancel(of), Outcome::Cancelled(gone)) if of == target => Some(gone.is_some()),
        (Write::Move(of, _), Outcome::Moved(row)) if of == target => Some(row.is_some()),
        _ => None,
    }
}
