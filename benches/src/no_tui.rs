//! Stands for the picture where it was not built in (feature `tui`): there is none.

use crate::args::Args;
use wheelwork::TimerHandle;

/// There is none.
pub(crate) enum Picture {}

impl Picture {
    pub(crate) fn open(_: &Args) -> Result<Self, String> {
        Err("--tui is not built in, say cargo run --release --features tui -- --tui".to_string())
    }

    pub(crate) fn begin(&'static self) {
        match *self {}
    }

    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }

    pub(crate) fn keep(&self, _line: &str) -> bool {
        match *self {}
    }

    pub(crate) fn look_at(&self, _service: Option<TimerHandle<u32>>) {
        match *self {}
    }

    pub(crate) fn begin_phase(&self, _what: &str, _total: u64) {
        match *self {}
    }

    pub(crate) fn set_done(&self, _done: u64) {
        match *self {}
    }

    pub(crate) fn end_phase(&self) {
        match *self {}
    }
}
