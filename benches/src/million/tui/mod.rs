//! The live picture of a run (`--tui`): phases, rates, lateness, and what each shard holds, on the
//! terminal's alternate screen.
//!
//! [`screen`] has the terminal, and gives it back in every case; [`sample`] makes a [`snapshot`] of
//! each frame, which [`draw`] draws. A thread of its own does it, 20 times a second: the run's
//! threads only tell their phases, and which service is at work.

mod draw;
mod keys;
mod sample;
mod screen;
mod snapshot;

use crate::args::Args;
use crate::progress::{self, Picture as _};
use indicatif::HumanCount;
use keys::{Key, Keys};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use sample::Sampler;
use screen::{Frames, Screen};
use snapshot::{Phase, Snapshot};
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{process, thread};
use wheelwork::ServiceHandle;
use wheelwork_bench::lock::lock;

/// The time of a frame.
const FRAME: Duration = Duration::from_millis(50);

/// The picture of a run.
pub(crate) struct Picture {
    screen: Arc<Screen>,
    keys: Keys,
    start: Instant,
    title: String,
    tick: Duration,
    run: Mutex<Run>,
}

/// What is told of the run.
#[derive(Default)]
struct Run {
    service: Option<ServiceHandle<u32>>,
    sampler: Sampler,
    phase: Option<(Phase, Instant)>,
    /// Phases that are over, and what they took.
    over: Vec<(String, Duration)>,
}

impl Picture {
    /// Takes the terminal, and draws from now on. An error, in one line, if there is none.
    pub(crate) fn open(args: &Args) -> Result<&'static Self, String> {
        if !io::stdout().is_terminal() {
            return Err("--tui needs a terminal, and standard output is none".to_string());
        }
        let error = |error: io::Error| format!("--tui: {error}");
        let screen = Arc::new(Screen::open().map_err(error)?);
        let keys = Keys::new(screen.closed()).map_err(|why| {
            screen.close();
            error(why)
        })?;
        screen.close_on_panic();
        let title = format!(
            "{} timers, {} threads, tick {:?}",
            HumanCount(args.timers as u64),
            args.threads(),
            args.tick
        );
        let picture: &Self = Box::leak(Box::new(Self {
            screen,
            keys,
            start: Instant::now(),
            title,
            tick: args.tick,
            run: Mutex::default(),
        }));
        thread::spawn(|| {
            let result = picture.draw_frames();
            picture.close();
            if let Err(why) = result {
                eprintln!("million: the picture ended: {why}");
            }
        });
        Ok(picture)
    }

    fn draw_frames(&self) -> io::Result<()> {
        let mut terminal = Terminal::new(CrosstermBackend::new(Frames::new(self.screen.clone())))?;
        while self.is_open() {
            let end = Instant::now() + FRAME;
            let snapshot = self.snapshot();
            terminal.draw(|frame| draw::draw(&snapshot, frame))?;
            match self.keys.wait(end)? {
                None => {}
                Some(Key::Close) => self.close(),
                Some(Key::End(code)) => {
                    self.close();
                    process::exit(code);
                }
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        let mut run = lock(&self.run);
        let stats = run.service.as_ref().map(|service| service.stats());
        run.sampler.sample(self.start.elapsed(), stats);
        let phase = run.phase.as_ref().map(|(phase, _)| phase.clone());
        Snapshot {
            title: self.title.clone(),
            elapsed: self.start.elapsed(),
            tick: self.tick,
            phase,
            over: run.over.clone(),
            sample: run.sampler.last().clone(),
        }
    }
}

impl progress::Picture for Picture {
    fn is_open(&self) -> bool {
        self.screen.is_open()
    }

    fn close(&self) {
        self.screen.close();
    }

    fn keep(&self, line: &str) -> bool {
        self.screen.keep(line)
    }

    fn look_at(&self, service: Option<ServiceHandle<u32>>) {
        let mut run = lock(&self.run);
        run.service = service;
        run.sampler.forget_last();
    }

    fn begin_phase(&self, what: &str, total: u64) {
        let phase = Phase {
            what: what.to_string(),
            total,
            done: 0,
        };
        lock(&self.run).phase = Some((phase, Instant::now()));
    }

    fn set_done(&self, done: u64) {
        if let Some((phase, _)) = &mut lock(&self.run).phase {
            phase.done = done;
        }
    }

    fn end_phase(&self) {
        let mut run = lock(&self.run);
        if let Some((phase, start)) = run.phase.take() {
            run.over.push((phase.what, start.elapsed()));
        }
    }
}
