//! `million --tui` as a user has it: on a terminal of its own, which it gives back whatever ends
//! the picture.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A terminal with `million` on it.
struct Terminal {
    million: Child,
    /// What the terminal's user has in hand.
    hand: File,
    /// What comes on the screen.
    screen: Receiver<Vec<u8>>,
    text: String,
    /// Keeps the terminal as it is when the program has ended.
    device: OwnedFd,
    modes: [u32; 4],
}

/// Input, output, control and local modes.
fn modes(device: &OwnedFd) -> [u32; 4] {
    // SAFETY: all-zero is a valid `termios`; the call below fills it.
    let mut modes: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::tcgetattr(device.as_raw_fd(), &raw mut modes) } != 0;
    assert!(!failed, "it is a terminal");
    [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
}

impl Terminal {
    fn new(width: u16, height: u16, words: &str) -> Self {
        let size = libc::winsize {
            ws_row: height,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (mut hand, mut device) = (-1, -1);
        let (ends, size) = ((&raw mut hand, &raw mut device), &raw const size);
        let (name, modes_given) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: the pointers are valid for the call, or null where that is allowed.
        let result = unsafe { libc::openpty(ends.0, ends.1, name, modes_given, size) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is open, and nobody else's.
        let hand = unsafe { File::from_raw_fd(hand) };
        // SAFETY: as above.
        let device = unsafe { OwnedFd::from_raw_fd(device) };
        let end = || Stdio::from(device.try_clone().expect("it is open"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_million"));
        command.args(words.split_whitespace());
        command.env("TERM", "xterm-256color");
        command.stdin(end()).stdout(end()).stderr(end());
        let own_terminal = || {
            // SAFETY: a call without arguments, that may be made after a fork.
            let result = unsafe { libc::setsid() };
            // SAFETY: as above; standard input is the terminal.
            if result < 0 || unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(own_terminal) };
        let modes = modes(&device);
        let million = command.spawn().expect("the binary was built");
        let (send, screen) = channel();
        let mut output = hand.try_clone().expect("it is open");
        thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            million,
            hand,
            screen,
            text: String::new(),
            device,
            modes,
        }
    }

    /// Reads until a text comes after the first `from` bytes. Returns where it begins.
    fn wait_for(&mut self, text: &str, from: usize) -> usize {
        loop {
            if let Some(at) = self.text[from..].find(text) {
                return from + at;
            }
            let bytes = self.screen.recv_timeout(HANGS);
            let bytes = bytes
                .unwrap_or_else(|why| panic!("{why}: no {text:?} in {:?}", &self.text[from..]));
            self.text += &String::from_utf8_lossy(&bytes);
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.hand.write_all(keys).expect("the terminal is there");
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a call without pointers, for a process of our own.
        assert_eq!(unsafe { libc::kill(self.million.id() as i32, signal) }, 0);
    }

    fn assert_restored(&self) {
        assert_eq!(modes(&self.device), self.modes, "they are as they were");
        let text = &self.text;
        let times = [ENTER, LEAVE].map(|code| text.matches(code).count());
        assert_eq!(times, [1, 1], "{text:?}");
        let cursor = text.rfind("\u{1b}[?25");
        let is_seen = cursor.is_some_and(|at| text[at..].starts_with("\u{1b}[?25h"));
        assert!(is_seen, "the cursor is seen: {text:?}");
    }

    /// Waits for the end.
    fn end(&mut self) -> ExitStatus {
        self.million.wait().expect("it is our child")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.million.kill();
        let _ = self.million.wait();
    }
}

/// A run that lasts as long as it is let.
const ENDLESS: &str = "--tui --timers 10000 --spread 1h --threads 2";

#[test]
fn a_run_is_shown_and_the_verdict_comes_after_it() {
    for (width, height) in [(80, 24), (160, 50), (1, 1), (0, 0)] {
        let words = "--tui --timers 20000 --spread 100ms --shards 2";
        let mut terminal = Terminal::new(width, height, words);
        let enter = terminal.wait_for(ENTER, 0);
        let leave = terminal.wait_for(LEAVE, enter);
        let head = terminal.wait_for("20000 timers, ", leave);
        let verdict = terminal.wait_for("clean: every promise held", head);
        let code = terminal.end().code();
        assert_eq!(code, Some(0), "{}", &terminal.text[verdict..]);
        terminal.assert_restored();
        let frames = &terminal.text[enter..leave];
        assert_eq!(frames.contains("shard 1"), width >= 80, "{frames:?}");
        let is_drawn = terminal.text[verdict..].contains("[?");
        assert!(!is_drawn, "nothing is drawn any more");
    }
}

#[test]
fn q_closes_the_picture_and_the_run_goes_on_with_bars() {
    for key in [b"q", b"\x1b"] {
        let mut terminal = Terminal::new(80, 24, ENDLESS);
        let enter = terminal.wait_for(ENTER, 0);
        let frame = terminal.wait_for("shard 0", enter);
        terminal.press(key);
        let leave = terminal.wait_for(LEAVE, frame);
        let head = terminal.wait_for("10000 timers, ", leave);
        terminal.wait_for(" fire [", head);
        terminal.assert_restored();
        // Signals do what they always do.
        terminal.signal(libc::SIGTERM);
        assert_eq!(terminal.end().signal(), Some(libc::SIGTERM));
    }
}

#[test]
fn ctrl_c_and_signals_end_the_program_and_give_the_terminal_back() {
    type End = fn(&mut Terminal);
    let ends: [(i32, End); 3] = [
        (130, |terminal| terminal.press(b"\x03")),
        (143, |terminal| terminal.signal(libc::SIGTERM)),
        (129, |terminal| terminal.signal(libc::SIGHUP)),
    ];
    for (code, end) in ends {
        let mut terminal = Terminal::new(80, 24, ENDLESS);
        let enter = terminal.wait_for(ENTER, 0);
        let frame = terminal.wait_for("shard 0", enter);
        end(&mut terminal);
        terminal.wait_for(LEAVE, frame);
        assert_eq!(terminal.end().code(), Some(code));
        terminal.assert_restored();
    }
}

#[test]
fn an_error_comes_after_the_picture() {
    let words = "--tui --timers 1000 --spread 10ms --json /dev/full";
    let mut terminal = Terminal::new(80, 24, words);
    let leave = terminal.wait_for(LEAVE, 0);
    let verdict = terminal.wait_for("clean: every promise held", leave);
    terminal.wait_for("million: --json /dev/full: ", verdict);
    assert_eq!(terminal.end().code(), Some(2));
    terminal.assert_restored();
}

#[test]
fn a_cascade_is_shown_service_by_service() {
    let mut terminal = Terminal::new(80, 24, "--tui --cascade --timers 1000");
    let enter = terminal.wait_for(ENTER, 0);
    let frame = terminal.wait_for("shard 0", enter);
    let leave = terminal.wait_for(LEAVE, frame);
    terminal.wait_for("\nverdict", leave);
    // How late is no matter of this test: machines stall.
    assert!(matches!(terminal.end().code(), Some(0 | 1)));
    terminal.assert_restored();
}
