//! Keys: what ends the picture. In raw mode Ctrl-C is a key; other programs send signals.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// What a key, or a signal, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// To close the picture.
    Close,
    /// To end the program with this exit code.
    End(i32),
}

pub(super) struct Keys {
    /// The signal that has come; 0: none.
    signal: Arc<AtomicUsize>,
}

impl Keys {
    /// From now on signals are seen by `wait`; once `closed` is set they do again what they always
    /// do.
    pub(super) fn new(closed: Arc<AtomicBool>) -> io::Result<Self> {
        let signal = Arc::default();
        for number in [SIGHUP, SIGINT, SIGTERM] {
            flag::register_conditional_default(number, closed.clone())?;
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
        }
        Ok(Self { signal })
    }

    /// Waits for a key that means something, to the end of a frame.
    pub(super) fn wait(&self, end: Instant) -> io::Result<Option<Key>> {
        loop {
            let signal = self.signal.load(SeqCst) as i32;
            if signal != 0 {
                return Ok(Some(Key::End(128 + signal)));
            }
            let left = end.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(None);
            }
            if let Some(key) = key(&event::read()?) {
                return Ok(Some(key));
            }
        }
    }
}

fn key(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    match key.code {
        _ if key.kind != KeyEventKind::Press => None,
        KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => {
            Some(Key::End(128 + SIGINT))
        }
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Close),
        _ => None,
    }
}
