//! Faulty disk: a disk in memory for the store in a file. It crashes, is full or fails at an access
//! to it. Also files that were closed well, and damage to them.

use crate::durable_model::{Answer, Call, HandedOut, History, Model, make, time};
use redb::StorageBackend;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, Once};
use std::{fmt, panic};
use wheelwork_durable::contract::{Position, Store, Write};
use wheelwork_durable::{DeadLetter, Redb, Row, StoreError, StoreTime};

/// Calls of a history.
pub const CALLS: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// From then on nothing works, and what was not synced is gone.
    Crash,
    /// So, but a part of what was not synced is there.
    Torn,
    /// One access fails: the disk is full.
    Full,
    /// One access fails. If it was a sync, a part of what was not synced is gone.
    Failing,
}

#[derive(Clone)]
pub enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

pub struct Disk {
    /// What is read.
    pub live: Vec<u8>,
    /// What was synced.
    pub synced: Vec<u8>,
    /// What came after.
    pub ops: Vec<Op>,
    pub accesses: u64,
    pub fails_at: u64,
    /// How many accesses fail from then on, if the disk works again at all.
    pub fails: u64,
    pub trouble: Trouble,
    pub has_failed: bool,
    pub rng: fastrand::Rng,
}

impl Disk {
    pub fn new(image: Vec<u8>, trouble: Trouble, fails_at: u64) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            live: image.clone(),
            synced: image,
            ops: Vec::new(),
            accesses: 0,
            fails_at,
            fails: 1,
            trouble,
            has_failed: false,
            rng: fastrand::Rng::with_seed(fails_at),
        }))
    }

    /// A disk that works.
    pub fn sound(image: Vec<u8>) -> Arc<Mutex<Self>> {
        Self::new(image, Trouble::Crash, u64::MAX)
    }

    /// Counts an access that changes something. Whether it works.
    fn access(&mut self) -> Result<(), Error> {
        let is_down = matches!(self.trouble, Trouble::Crash | Trouble::Torn);
        if self.has_failed && is_down {
            return Err(Error::from_raw_os_error(5));
        }
        self.accesses += 1;
        let at = self.accesses - 1;
        if at < self.fails_at || at - self.fails_at >= self.fails {
            return Ok(());
        }
        self.has_failed = true;
        Err(match self.trouble {
            Trouble::Full => Error::from(ErrorKind::StorageFull),
            _ => Error::from_raw_os_error(5),
        })
    }

    /// What was synced, and a part of what came after.
    fn torn(&mut self) -> Vec<u8> {
        let mut image = self.synced.clone();
        for op in self.ops.clone() {
            match (op, self.rng.u8(0..4)) {
                (_, 0) => {}
                (Op::Write(at, data), 1) => {
                    let sectors = self.rng.usize(0..=data.len() / 512);
                    write(&mut image, at, &data[..sectors * 512]);
                }
                (op, _) => apply(&mut image, &op),
            }
        }
        image
    }

    /// What is there after it all.
    pub fn image(&mut self) -> Vec<u8> {
        match self.trouble {
            Trouble::Crash if self.has_failed => self.synced.clone(),
            Trouble::Torn if self.has_failed => self.torn(),
            _ => self.live.clone(),
        }
    }
}

fn apply(image: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write(at, data) => write(image, *at, data),
        Op::SetLen(len) => image.resize(usize::try_from(*len).unwrap(), 0),
    }
}

/// Beyond the end, as a file system does it.
fn write(image: &mut Vec<u8>, at: u64, data: &[u8]) {
    let at = usize::try_from(at).unwrap();
    image.resize(image.len().max(at + data.len()), 0);
    image[at..at + data.len()].copy_from_slice(data);
}

pub struct Backend(pub Arc<Mutex<Disk>>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.0.lock().unwrap().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let disk = self.0.lock().unwrap();
        let at = usize::try_from(offset).map_err(|_| ErrorKind::UnexpectedEof)?;
        let end = at.checked_add(out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        let data = disk.live.get(at..end).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        let result = disk.access();
        let op = Op::SetLen(len);
        if result.is_ok() {
            apply(&mut disk.live, &op);
            disk.ops.push(op);
        }
        result
    }

    fn sync_data(&self) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        let result = disk.access();
        if result.is_ok() {
            let disk = &mut *disk;
            disk.synced.clone_from(&disk.live);
            disk.ops.clear();
        } else if disk.trouble == Trouble::Failing {
            let torn = disk.torn();
            disk.live.clone_from(&torn);
            disk.synced = torn;
            disk.ops.clear();
        }
        result
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut disk = self.0.lock().unwrap();
        let result = disk.access();
        let op = Op::Write(offset, data.to_vec());
        if result.is_ok() {
            apply(&mut disk.live, &op);
            disk.ops.push(op);
        } else if disk.trouble == Trouble::Torn && disk.ops.len() < 1_000_000 {
            // It may have come through, or a part of it.
            disk.ops.push(op);
        }
        result
    }
}

pub fn open(disk: &Arc<Mutex<Disk>>, check: bool) -> Result<Redb, StoreError> {
    let builder = Redb::builder().cache_bytes(1 << 17).sweep_at(10, 40);
    builder
        .check_at_open(check)
        .open_backend(Backend(disk.clone()))
}

/// redb's panics are caught, and are not to fill the screen.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let show = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_redb = |at: &panic::Location<'_>| at.file().contains("redb-");
            if !info.location().is_some_and(is_redb) {
                show(info);
            }
        }));
    });
}

/// What the reference has at a reopening.
pub fn expected(model: &Model) -> (Vec<Row>, Vec<DeadLetter>) {
    let mut model = model.clone();
    model.acquire();
    let rows = model.load(Position::MIN, StoreTime::MAX, usize::MAX);
    (rows, model.dead())
}

/// A file that was closed well, and what is in it.
pub fn closed_file(seed: u64) -> (Vec<u8>, Vec<Row>, Vec<DeadLetter>) {
    let disk = Disk::sound(Vec::new());
    let mut history = History::new(seed);
    let mut store = open(&disk, true).unwrap();
    for number in 0..CALLS {
        let call = match number {
            0 => Call::Acquire,
            _ => history.next_call(&mut store),
        };
        let mut gate = history.gate.clone();
        assert_eq!(
            make(&mut store, &call, &mut gate).unwrap(),
            history.expect(&call)
        );
    }
    // Enough rows for branches in each table.
    let mut rows = Vec::new();
    for number in 0..3_000_u64 {
        let due = time(number * 7_919 % 100_000);
        let mut row = Row::new(
            store.new_id(None, due),
            due,
            "kind".into(),
            [number as u8; 40][..].into(),
        );
        row.key = (number % 5 == 0).then(|| format!("many-{number}").into());
        rows.push(row);
    }
    for rows in rows.chunks(1_000) {
        let call = Call::Commit(rows.iter().cloned().map(Write::Arm).collect());
        let answer = make(&mut store, &call, &mut HandedOut::default()).unwrap();
        assert_eq!(answer, history.expect(&call));
        if rows[0].id.number() < 2_000 {
            while store.upkeep().unwrap() {}
        }
    }
    make(&mut store, &Call::Release, &mut HandedOut::default()).unwrap();
    assert_eq!(history.expect(&Call::Release), Answer::Done);
    drop(store);
    let (rows, dead) = expected(&history.model);
    let image = disk.lock().unwrap().image();
    (image, rows, dead)
}

/// Damages an image at a place that holds something.
pub fn damage(image: &mut [u8], rng: &mut fastrand::Rng) -> String {
    let mut at = rng.usize(0..image.len());
    while image[at / 512 * 512..]
        .iter()
        .take(512)
        .all(|&byte| byte == 0)
    {
        at = rng.usize(0..image.len());
    }
    // The header, more often than it would come by chance.
    if rng.u8(0..8) == 0 {
        at = rng.usize(0..512);
    }
    match rng.u8(0..8) {
        0..5 => image[at] ^= 1 << rng.u8(0..8),
        5 => image[at] = rng.u8(..),
        6 => image[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
        _ => image[at / 512 * 512..]
            .iter_mut()
            .take(512)
            .for_each(|byte| *byte = 0),
    }
    format!("byte {at}")
}
