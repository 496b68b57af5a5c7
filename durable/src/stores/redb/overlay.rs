//! Overlay: keeps what redb writes in memory, until it is known that this program may change the
//! file.
//!
//! redb writes to a file as soon as it opens it: it repairs what a crash has left, and notes that
//! the file is open. The version of the format can only be read afterwards. So redb opens the file
//! through an overlay. If the version is one that this program reads, all writes and syncs are made
//! in the order in which redb made them, and from then on each goes straight to the file. If it is
//! not, they are forgotten, and the file is as it was, byte for byte.
//!
//! The overlay keeps little, because redb writes only to its header while it opens a file: with a
//! million rows, closed or not, that was 10 calls and 1,600 bytes at the most.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use redb::{BackendError, StorageBackend};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

/// What redb has done.
#[derive(Debug)]
enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// What was not let through.
#[derive(Debug, Default)]
struct PutOff {
    ops: Vec<Op>,
    /// The length of the file as redb sees it. `None`: redb has not asked for it yet.
    len: Option<u64>,
    /// The length of the part of the real file that redb has never cut off.
    kept: u64,
}

/// A file's backend, and what was put off.
#[derive(Debug)]
struct Parts<B> {
    inner: B,
    is_through: AtomicBool,
    put_off: Mutex<PutOff>,
}

/// redb's backend over another one.
#[derive(Debug)]
pub(super) struct Overlay<B>(Arc<Parts<B>>);

impl<B> Clone for Overlay<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: StorageBackend> Overlay<B> {
    pub(super) fn new(inner: B) -> Self {
        Self(Arc::new(Parts {
            inner,
            is_through: AtomicBool::new(false),
            put_off: Mutex::default(),
        }))
    }

    /// Writes what was put off, and puts nothing off from then on.
    ///
    /// # Errors
    /// Those of the file. It has a part of the writes then, as after a crash, and gets no more.
    pub(super) fn let_through(&self) -> io::Result<()> {
        let mut put_off = self.put_off();
        for op in std::mem::take(&mut put_off.ops) {
            match op {
                Op::Write(at, data) => self.0.inner.write(at, &data)?,
                Op::SetLen(len) => self.0.inner.set_len(len)?,
                Op::Sync => self.0.inner.sync_data()?,
            }
        }
        // Ordering: Relaxed. The file is opened by one thread, and is given to others later.
        self.0.is_through.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn is_through(&self) -> bool {
        // Ordering: Relaxed. As in `let_through`.
        self.0.is_through.load(Ordering::Relaxed)
    }

    fn put_off(&self) -> MutexGuard<'_, PutOff> {
        self.0
            .put_off
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl PutOff {
    fn len(&mut self, inner: &impl StorageBackend) -> io::Result<u64> {
        if let Some(len) = self.len {
            return Ok(len);
        }
        self.kept = inner.len()?;
        Ok(*self.len.insert(self.kept))
    }

    /// The file as it would be: the real one up to where it was cut off, zeros behind that, and all
    /// writes over them in their order.
    fn read(&self, inner: &impl StorageBackend, at: u64, out: &mut [u8]) -> io::Result<()> {
        let end = at.checked_add(out.len() as u64);
        if end.is_none_or(|end| self.len.is_some_and(|len| end > len)) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let from_file = match self.len {
            // redb reads before it asks for the length.
            None => out.len(),
            Some(_) => within(self.kept, at, out.len()),
        };
        inner.read(at, &mut out[..from_file])?;
        out[from_file..].fill(0);
        for op in &self.ops {
            match op {
                Op::Write(from, data) => copy_over(*from, data, at, out),
                Op::SetLen(len) => {
                    let stays = within(*len, at, out.len());
                    out[stays..].fill(0);
                }
                Op::Sync => {}
            }
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        self.len = Some(len);
        self.kept = self.kept.min(len);
        self.ops.push(Op::SetLen(len));
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        let end = at + data.len() as u64;
        self.len = self.len.map(|len| len.max(end));
        self.ops.push(Op::Write(at, data.to_vec()));
    }
}

/// How many of `count` bytes from `at` on lie before `end`.
fn within(end: u64, at: u64, count: usize) -> usize {
    usize::try_from(end.saturating_sub(at)).map_or(count, |before| before.min(count))
}

/// Copies to `out`, which begins at `at`, what was written at `from`.
fn copy_over(from: u64, data: &[u8], at: u64, out: &mut [u8]) {
    let skipped = within(at, from, data.len());
    let data = &data[skipped..];
    let begin = within(from, at, out.len());
    let out = &mut out[begin..];
    let count = data.len().min(out.len());
    out[..count].copy_from_slice(&data[..count]);
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> io::Result<u64> {
        if self.is_through() {
            return self.0.inner.len();
        }
        self.put_off().len(&self.0.inner)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.is_through() {
            return self.0.inner.read(offset, out);
        }
        self.put_off().read(&self.0.inner, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.is_through() {
            return self.0.inner.set_len(len);
        }
        self.put_off().set_len(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_through() {
            return self.0.inner.sync_data();
        }
        self.put_off().ops.push(Op::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.is_through() {
            return self.0.inner.write(offset, data);
        }
        self.put_off().write(offset, data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.query_lock_range(start, end)
    }
}
