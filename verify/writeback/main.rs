//! `writeback`: a store of durable timers on a disk that fails. `scripts/check writeback` makes the
//! disk; this arms timers there, and counts which of them are left.

use clap::{Parser, ValueEnum};
use redb::backends::FileBackend;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wheelwork_durable::contract::{Gate, Position, SliceLimit, Store, Write};
use wheelwork_durable::{DurableId, Redb, Row, StoreError, StoreTime};
use wheelwork_kit::program::{run, say};

/// Rows of a commit.
const ROWS: usize = 200;

/// Bytes of a payload.
const PAYLOAD: usize = 400;

/// Rows after which a disk that has not failed is not going to.
const ROWS_MAX: usize = 2_000_000;

/// Arms timers in a store, and counts those that are left.
#[derive(Parser)]
#[command(name = "writeback", version, max_term_width = 100)]
struct Args {
    /// What to do
    act: Act,

    /// The store's file, on the disk that fails
    file: PathBuf,

    /// A file on another disk: the ids of all timers that were acknowledged
    ledger: PathBuf,

    /// Timers to arm by `arm` and `again`
    #[arg(long, default_value_t = 0)]
    rows: usize,

    /// After `fail`: delete this file, which gives the disk its room back, and do `again` in the
    /// same process
    #[arg(long, value_name = "FILE")]
    again_without: Option<PathBuf>,

    /// Open the file without dropping what the system has cached of it: this loses timers
    #[arg(long)]
    keep_cache: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Act {
    /// Arm timers
    Arm,
    /// Arm timers until the store fails
    Fail,
    /// Open the store, count its timers, arm some more, and stop
    Again,
    /// Count the timers: exit code 1 if one is missing
    Count,
}

/// No timer is handed out here.
struct Free;

impl Gate for Free {
    fn let_go(&mut self, _: DurableId) -> bool {
        true
    }
}

fn main() -> ExitCode {
    run::<Args>(|args| match args.act {
        Act::Arm => args.again(false),
        Act::Fail => args.fail(),
        Act::Again => args.again(true),
        Act::Count => Ok(args.count()),
    })
}

impl Args {
    fn open(&self) -> Result<Redb, StoreError> {
        let io = |error: std::io::Error| StoreError::Io(error.to_string().into());
        let mut store = if self.keep_cache {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&self.file);
            let backend = FileBackend::new(file.map_err(io)?);
            let backend = backend.map_err(|error| StoreError::Io(error.to_string().into()))?;
            Redb::builder().open_backend(backend)?
        } else {
            Redb::open(&self.file)?
        };
        store.acquire()?;
        Ok(store)
    }

    /// Arms timers, and notes those that were acknowledged.
    fn arm(&self, store: &mut Redb, ledger: &mut File) -> Result<(), StoreError> {
        let due = StoreTime::from_millis(4_000_000_000_000);
        let rows: Vec<_> = (0..ROWS)
            .map(|_| {
                let id = store.new_id(None, due);
                Row::new(id, due, "kind".into(), [7; PAYLOAD][..].into())
            })
            .collect();
        let ids: String = rows.iter().map(|row| format!("{}\n", row.id)).collect();
        store.commit(rows.into_iter().map(Write::Arm).collect(), &mut Free)?;
        let noted = ledger.write_all(ids.as_bytes());
        noted.map_err(|error| StoreError::Io(format!("the ledger: {error}").into()))
    }

    fn ledger(&self) -> Result<File, String> {
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).open(&self.ledger);
        opened.map_err(|error| format!("{}: {error}", self.ledger.display()))
    }

    fn fail(&self) -> Result<ExitCode, String> {
        let mut ledger = self.ledger()?;
        let mut store = self.open().map_err(|error| error.to_string())?;
        let mut armed = 0;
        let error = loop {
            match self.arm(&mut store, &mut ledger) {
                Ok(()) => armed += ROWS,
                Err(error) => break error,
            }
            if armed > ROWS_MAX {
                return Err("the disk does not fail".into());
            }
        };
        drop(store);
        say(format_args!("after {armed} timers: {error}"));
        let Some(filler) = &self.again_without else {
            return Ok(ExitCode::SUCCESS);
        };
        fs::remove_file(filler).map_err(|error| format!("{}: {error}", filler.display()))?;
        self.again(true)
    }

    /// Opens the store, arms timers, and stops. What was there before has to be there, as far as it
    /// seems.
    fn again(&self, has_to_be_there: bool) -> Result<ExitCode, String> {
        let failed = |error: StoreError| {
            say(format_args!("not opened again: {error}"));
            Ok(ExitCode::FAILURE)
        };
        let mut store = match self.open() {
            Err(error) => return failed(error),
            Ok(store) => store,
        };
        if has_to_be_there {
            match left(&mut store, &self.ledger) {
                Ok((left, all)) => say(format_args!("opened again: {left} of {all} timers")),
                Err(error) => return failed(error),
            }
        }
        let mut ledger = self.ledger()?;
        for _ in 0..self.rows.div_ceil(ROWS) {
            if let Err(error) = self.arm(&mut store, &mut ledger) {
                return failed(error);
            }
        }
        match store.release() {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => failed(error),
        }
    }

    fn count(&self) -> ExitCode {
        let counted = self.open();
        let counted = counted.and_then(|mut store| left(&mut store, &self.ledger));
        match counted {
            Ok((left, all)) => {
                say(format_args!("left: {left} of {all} timers"));
                ExitCode::from(u8::from(left < all))
            }
            Err(error) => {
                say(format_args!("left: nothing ({error})"));
                ExitCode::FAILURE
            }
        }
    }
}

/// How many timers of the ledger are there, and how many it has.
fn left(store: &mut Redb, ledger: &Path) -> Result<(usize, usize), StoreError> {
    let io = |error: std::io::Error| StoreError::Io(error.to_string().into());
    let text = fs::read_to_string(ledger).map_err(io)?;
    let known: BTreeSet<DurableId> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let rows = store.load(
        0,
        Position::MIN,
        StoreTime::MAX,
        SliceLimit::rows(usize::MAX),
    )?;
    let left = rows.iter().filter(|row| known.contains(&row.id)).count();
    Ok((left, known.len()))
}
