//! Room: a reserve on the disk, for when it is full.
//!
//! While the disk has room, the store holds a part of it. When redb's write finds none, the reserve
//! is given back to the disk, and the write is made again. From then on work that can wait is put
//! off, until the reserve is whole again: so what is left is there for what frees room, or has to
//! be stored.
//!
//! One thread at a time calls this: the one that calls the store.

use crate::store::row::StoreTime;
use crate::sync::{AtomicU64, Ordering};
use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// What is held beside room for redb's buffer, in bytes.
const BESIDE: u64 = 8 << 20;

/// What is held at least, if the disk has no more room.
const LEAST: u64 = 1 << 20;

/// How long the store waits until it tries to hold room again. Each time twice as long.
const WAIT: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(64);

/// Has the disk hold at least this number of bytes for the store. 0 gives all back, and syncs.
pub(super) type HoldRoom = Box<dyn Fn(u64) -> io::Result<()> + Send + Sync>;

/// The reserve of a store.
pub(super) struct Room {
    hold: HoldRoom,
    /// The most that redb keeps before it writes, in bytes.
    buffer: u64,
    /// What is held, in bytes. 1 stands for an unknown part: what an earlier process has left.
    held: AtomicU64,
    /// The length of the file, in bytes.
    len: AtomicU64,
}

/// When the reserve is to be made whole.
pub(super) struct Tries {
    /// The last one, by the store's clock.
    last: Option<StoreTime>,
    wait: Duration,
    /// The disk can be told to hold room.
    can_hold: bool,
}

/// How much a transaction may write anew of rows that handlers have had. The others come in the
/// next one: so a transaction on a full disk needs no more than the reserve has.
#[derive(Default)]
pub(super) struct RewriteBound {
    /// In bytes. `None`: no bound, since there is no reserve.
    bytes_max: Option<u64>,
    /// The reserve is not whole.
    is_low: bool,
    /// A write has found the disk full, and the reserve could not be made whole since.
    is_full: bool,
    /// What this transaction has written of them.
    bytes: u64,
}

/// Where there is room for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomFor {
    /// In this transaction.
    This,
    NextTransaction,
    /// In none, until the reserve is whole.
    None,
}

impl RewriteBound {
    pub(super) fn is_none(&self) -> bool {
        self.bytes_max.is_none()
    }

    pub(super) fn is_low(&self) -> bool {
        self.is_low
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether this number of bytes may be written besides. If so, it counts. The first row may be
    /// larger, unless there is little room.
    pub(super) fn take(&mut self, bytes: usize) -> RoomFor {
        let Some(max) = self.bytes_max else {
            return RoomFor::This;
        };
        let after = self.bytes.saturating_add(bytes as u64);
        if after <= max || self.bytes == 0 && !self.is_low {
            self.bytes = after;
            RoomFor::This
        } else if bytes as u64 > max && self.is_low {
            RoomFor::None
        } else {
            RoomFor::NextTransaction
        }
    }
}

/// What came of holding room.
enum RoomHeld {
    All,
    /// The disk is full.
    Less,
    /// The disk cannot hold room.
    Never,
}

impl Default for Tries {
    fn default() -> Self {
        Self {
            last: None,
            wait: WAIT,
            can_hold: true,
        }
    }
}

impl Room {
    pub(super) fn new(hold: HoldRoom, cache_bytes: usize) -> Self {
        Self {
            hold,
            // (redb writes when its buffer is half of its cache.)
            buffer: u64::try_from(cache_bytes / 2).unwrap_or(u64::MAX),
            held: AtomicU64::new(1),
            len: AtomicU64::new(0),
        }
    }

    /// The file has this length now. What is beyond the end has gone with what was cut off, if
    /// anything was: it is held again at once, before others take it.
    ///
    /// An error is that of a sync: the store must end.
    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        // Ordering: Relaxed. One thread at a time calls this.
        let former = self.len.swap(len, Ordering::Relaxed);
        if len < former {
            // Ordering: Relaxed. As above.
            self.held.store(0, Ordering::Relaxed);
            self.hold_all()?;
        }
        Ok(())
    }

    /// A write to the file. If the disk is full, it is made once more without the reserve.
    ///
    /// This is for writes alone: after a sync that has failed nobody knows what is on the disk. An
    /// error of giving the reserve back may be that of a sync, so it is returned too.
    pub(super) fn write(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match write() {
            Err(error) if is_full(&error) => {
                // Ordering: Relaxed. One thread at a time calls this.
                if self.held.swap(0, Ordering::Relaxed) == 0 {
                    return Err(error);
                }
                (self.hold)(0)?;
                write()
            }
            written => written,
        }
    }

    /// Whether there is room for work that can wait: the reserve is whole, or is made so. It covers
    /// what such work leaves in redb's buffer, which the next commit has to write.
    ///
    /// An error is that of a sync: the store must end.
    pub(super) fn is_whole(&self, tries: &mut Tries, now: Option<StoreTime>) -> io::Result<bool> {
        // Ordering: Relaxed. One thread at a time calls this.
        if !tries.can_hold || self.held.load(Ordering::Relaxed) >= self.wanted() {
            return Ok(true);
        }
        if let (Some(now), Some(last)) = (now, tries.last) {
            // (The clock may have been set back.)
            if now.since(last).max(last.since(now)) < tries.wait {
                return Ok(false);
            }
        }
        match self.hold_all()? {
            RoomHeld::All => *tries = Tries::default(),
            RoomHeld::Less => (tries.last, tries.wait) = (now, (tries.wait * 2).min(WAIT_MAX)),
            RoomHeld::Never => tries.can_hold = false,
        }
        // Ordering: Relaxed. As above.
        Ok(!tries.can_hold || self.held.load(Ordering::Relaxed) >= self.wanted())
    }

    /// What the next transaction may write anew. A row takes up to twice its size, and the room
    /// that it leaves is free two transactions later: so the reserve has to cover six times as
    /// much.
    pub(super) fn rewrite_bound(&self, tries: &Tries) -> RewriteBound {
        if !tries.can_hold {
            return RewriteBound::default();
        }
        let wanted = self.wanted();
        // Ordering: Relaxed. One thread at a time calls this.
        let held = self.held.load(Ordering::Relaxed);
        RewriteBound {
            bytes_max: Some(wanted / 6),
            is_low: held < wanted,
            // (It was given back just now, or there was less when it was tried last.)
            is_full: held == 0 || tries.wait > WAIT,
            bytes: 0,
        }
    }

    /// How large the reserve is to be, in bytes.
    fn wanted(&self) -> u64 {
        // Ordering: Relaxed. One thread at a time calls this.
        let len = self.len.load(Ordering::Relaxed);
        // (A small file has little to write anew.)
        (self.buffer.min(len) + BESIDE.min(len)).max(LEAST)
    }

    /// Has the disk hold all of the reserve, or what it held before.
    fn hold_all(&self) -> io::Result<RoomHeld> {
        // Ordering: Relaxed. One thread at a time calls this.
        let (held, wanted) = (self.held.load(Ordering::Relaxed), self.wanted());
        let (now_held, is_held) = match (self.hold)(wanted) {
            Ok(()) => (wanted, RoomHeld::All),
            Err(error) if is_full(&error) => {
                // It may hold a part, which others may need. But what frees room shall find some.
                (self.hold)(0)?;
                let less = held.max(LEAST);
                let less = if (self.hold)(less).is_ok() { less } else { 1 };
                (less, RoomHeld::Less)
            }
            Err(_) => (0, RoomHeld::Never),
        };
        // Ordering: Relaxed. As above.
        self.held.store(now_held, Ordering::Relaxed);
        Ok(is_held)
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

/// Whether this is how a system says that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}
