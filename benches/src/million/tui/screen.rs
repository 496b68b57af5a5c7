//! Screen: the terminal while the picture has it. Whoever closes it first gives it back: the end of
//! the run, a key, a signal, or a panic on any thread.

use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wheelwork_bench::lock::lock;

pub(super) struct Screen {
    /// Changed while `output` is locked.
    closed: Arc<AtomicBool>,
    output: Mutex<Output>,
}

struct Output {
    to: Box<dyn Write + Send>,
    /// What shall be printed when the screen is closed.
    kept: Vec<String>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        Self::on(Box::new(io::stdout())).inspect_err(|_| _ = disable_raw_mode())
    }

    fn on(mut to: Box<dyn Write + Send>) -> io::Result<Self> {
        queue!(to, EnterAlternateScreen, Hide)?;
        to.flush()?;
        Ok(Self {
            closed: Arc::default(),
            output: Mutex::new(Output {
                to,
                kept: Vec::new(),
            }),
        })
    }

    /// Closes it before a panic tells of itself, on whatever thread, so that the message is seen.
    pub(super) fn close_on_panic(self: &Arc<Self>) {
        let (screen, hook) = (self.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |panic| {
            screen.close();
            hook(panic);
        }));
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(SeqCst)
    }

    /// Set when it is closed.
    pub(super) fn closed(&self) -> Arc<AtomicBool> {
        self.closed.clone()
    }

    /// Keeps a line until it is closed. Not if it is already.
    pub(super) fn keep(&self, line: &str) -> bool {
        let mut output = lock(&self.output);
        let is_open = self.is_open();
        if is_open {
            output.kept.push(line.to_string());
        }
        is_open
    }

    /// Gives the terminal back, the first time.
    pub(super) fn close(&self) {
        let mut output = lock(&self.output);
        if self.closed.swap(true, SeqCst) {
            return;
        }
        let Output { to, kept } = &mut *output;
        // Nobody is left to tell of an error.
        let _ = queue!(to, LeaveAlternateScreen, Show).and_then(|()| to.flush());
        let _ = disable_raw_mode();
        let _ = kept
            .drain(..)
            .try_for_each(|line| writeln!(to, "{line}"))
            .and_then(|()| to.flush());
    }
}

/// What is drawn on a screen: it comes there frame by frame, as long as it is open.
pub(super) struct Frames {
    screen: Arc<Screen>,
    bytes: Vec<u8>,
}

impl Frames {
    pub(super) fn new(screen: Arc<Screen>) -> Self {
        Self {
            screen,
            bytes: Vec::new(),
        }
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut output = lock(&self.screen.output);
        if self.screen.is_open() {
            output.to.write_all(&self.bytes)?;
            output.to.flush()?;
        }
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
    const LEAVE: &str = "\u{1b}[?1049l\u{1b}[?25h";

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("nobody panics").clone()).expect("it is text")
        }
    }

    fn screen() -> (Arc<Screen>, Sink) {
        let sink = Sink::default();
        let screen = Screen::on(Box::new(sink.clone())).expect("a sink takes all");
        (Arc::new(screen), sink)
    }

    #[test]
    fn a_frame_comes_as_a_whole_and_what_was_kept_after_the_last() {
        let (screen, sink) = screen();
        let mut frames = Frames::new(screen.clone());
        let mut write = |bytes: &[u8], flush: bool| {
            frames.write_all(bytes).expect("a sink takes all");
            if flush {
                frames.flush().expect("a sink takes all");
            }
        };
        assert!(screen.keep("a line") && screen.keep("another"));
        write(b"one ", false);
        assert_eq!(sink.text(), ENTER);
        write(b"frame", true);
        assert_eq!(sink.text(), format!("{ENTER}one frame"));
        screen.close();
        screen.close();
        write(b"another", true);
        assert!(!screen.keep("too late"));
        let kept = "a line\nanother\n";
        assert_eq!(sink.text(), format!("{ENTER}one frame{LEAVE}{kept}"));
    }

    /// Before the hook that was there, which prints the message.
    #[test]
    fn a_panic_closes_the_screen_first() {
        let (screen, sink) = screen();
        let before = panic::take_hook();
        let printed = sink.clone();
        panic::set_hook(Box::new(move |panic| {
            let message = panic.payload_as_str().unwrap_or_default();
            write!(printed.clone(), "{message}").expect("a sink takes all");
        }));
        screen.close_on_panic();
        let panicked = std::thread::spawn(|| panic!("the message")).join().is_err();
        panic::set_hook(before);
        assert!(panicked && !screen.is_open());
        assert_eq!(sink.text(), format!("{ENTER}{LEAVE}the message"));
    }
}
