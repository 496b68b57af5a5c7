//! Queue: what waits for the writer.
//!
//! It has two lanes. What handlers have said, and news of other nodes, do not wait behind the calls
//! of the program, which may be very many: a timer that was sent back fires late by that wait.
//! Within a lane all goes in order.

use super::request::{Control, Request};
use crate::store::fault::{DurableFault, is_broken};
use crossbeam_channel::{Receiver, Select, Sender, unbounded};
use std::time::Duration;

/// The senders' end.
pub(crate) struct QueueSenders {
    /// What callers want.
    pub(super) calls: Sender<Request>,
    /// What handlers say, and other nodes.
    pub(super) words: Sender<Request>,
}

/// The writer's end. What is in it is dropped with it, so that its callers are answered.
pub(crate) struct RequestQueue {
    calls: Receiver<Request>,
    words: Receiver<Request>,
    /// A stop, and what was said before it comes first.
    stop: Option<Request>,
}

/// A queue. (Without a bound of its own: only such channels drop what waits in them when the writer
/// ends.)
pub(crate) fn queue() -> (QueueSenders, RequestQueue) {
    let (calls, waiting_calls) = unbounded();
    let (words, waiting_words) = unbounded();
    let queue = RequestQueue {
        calls: waiting_calls,
        words: waiting_words,
        stop: None,
    };
    (QueueSenders { calls, words }, queue)
}

impl RequestQueue {
    /// Waits until something is in it, or for this time.
    pub(crate) fn wait(&self, time: Option<Duration>) {
        let mut select = Select::new();
        select.recv(&self.words);
        select.recv(&self.calls);
        match time {
            // (Whether the time is over does not matter: the turn looks.)
            Some(time) => drop(select.ready_timeout(time)),
            None => drop(select.ready()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stop.is_none() && self.calls.is_empty() && self.words.is_empty()
    }

    /// How many calls wait, and how many words of handlers.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.calls.len(), self.words.len())
    }

    /// The next request. `words_first`: what handlers have said comes before what callers want.
    pub(crate) fn next(&mut self, words_first: bool) -> Option<Request> {
        // (Early returns, as a request is large: it is moved no more often than it must be.)
        if !words_first || is_broken(DurableFault::WordsBehindCalls) {
            if let call @ Some(_) = self.next_call() {
                return call;
            }
            return self.next_word();
        }
        if let word @ Some(_) = self.next_word() {
            return word;
        }
        self.next_call()
    }

    fn next_word(&self) -> Option<Request> {
        self.words.try_recv().ok()
    }

    fn next_call(&mut self) -> Option<Request> {
        // StopRelease comes behind all that handlers have said, and nothing overtakes it.
        if self.stop.is_some() {
            return match self.words.is_empty() {
                true => self.stop.take(),
                false => None,
            };
        }
        let call = self.calls.try_recv().ok();
        if matches!(call, Some(Request::Control(Control::Stop(_)))) && !self.words.is_empty() {
            self.stop = call;
            return None;
        }
        call
    }

    /// All that is in it.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Request> {
        let stop = self.stop.take();
        (self.words.try_iter())
            .chain(stop)
            .chain(self.calls.try_iter())
    }
}
