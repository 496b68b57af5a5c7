//! Scene: what the worlds of both simulations have, as far as calls and handlers need it.

use super::{Pending, Records, Said};
use fastrand::Rng;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wheelwork_durable::contract::Target;
use wheelwork_durable::{Delivery, DurableError, Row, When};

/// What is counted in a world.
#[derive(Default)]
pub struct Counts {
    /// Acts that were done in handlers and in the store, and times that the store was slow.
    pub nested: u64,
    /// Timers that callers have named so far.
    pub tokens: u64,
}

/// A simulated world.
pub trait Scene {
    /// Where a call is made: on a node of a fleet.
    type Node: Copy;
    /// What the ledger notes of a timer beside its row.
    type More;

    const KEYS: &'static [&'static str];
    /// Of calendars.
    const PATTERNS: &'static [&'static str];
    /// Another node may revive or discard a dead letter while this one does.
    const OTHERS_REVIVE: bool;

    fn rng(&mut self) -> &mut Rng;
    fn counts(&mut self) -> &mut Counts;
    fn records(&mut self) -> &mut Records<Self::More>;
    /// Answers that a node awaits.
    fn tickets(&mut self, node: Self::Node) -> &mut Vec<Pending>;

    /// How notes of what a node does begin.
    fn who(node: Self::Node) -> String;
    fn note(&mut self, what: impl Display);
    /// Notes that a node's code runs, or does not. Returns what was noted before.
    fn set_running(&mut self, node: Self::Node, is_running: bool) -> bool;

    fn when(&mut self) -> When;
    fn kind(&mut self) -> &'static str;
    /// The kind of a recurring timer, in place of this one.
    fn recurring_kind(kind: &'static str) -> &'static str;
    /// A timer: mostly one that is stored, mostly one that is due soon.
    fn some_row(&mut self, is_stored: bool) -> Option<Row>;

    /// An error of a call is one that the call may have.
    fn check_error(&mut self, node: Self::Node, call: &str, error: &DurableError);
    /// A timer was not armed, says this error.
    fn check_refused(&mut self, token: u64, error: &DurableError);
    /// Whether a caller may be told that a row's last moments had come.
    fn may_be_gone(&mut self, row: &Row) -> bool;

    /// Whether a user's transaction may be in the way of changes of this target.
    fn is_held(&mut self, _: &Target) -> bool {
        false
    }
    /// Whether a call may have no answer yet, because of such a transaction.
    fn may_wait(&mut self) -> bool {
        false
    }

    /// A handler has ended.
    fn said(&mut self, node: Self::Node, delivery: &Delivery, said: Said);
    /// The process dies of a handler.
    fn dies(&mut self, node: Self::Node, delivery: &Delivery);
}

/// A world, for all who live in it.
pub struct Shared<W>(Arc<Mutex<W>>);

impl<W> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W> Shared<W> {
    pub fn of(world: W) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub fn lock(&self) -> MutexGuard<'_, W> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Scene> Shared<W> {
    /// Runs a node's code.
    pub fn run<T>(&self, node: W::Node, code: impl FnOnce() -> T) -> T {
        let former = self.lock().set_running(node, true);
        let value = code();
        self.lock().set_running(node, former);
        value
    }
}
