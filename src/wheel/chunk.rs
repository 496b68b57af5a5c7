//! Chunks: fixed arrays of entries, chained into slots, from a private pool of slabs.
//!
//! Chunks are named by index, so that this room needs no unsafe code. Freed chunks are taken again from the lowest slab first, so that the
//! others run empty and can go.

use crate::entry::Entry;
use crate::mem::{Zeroable, Zeroed};
use std::ops::Deref;

const ENTRIES: usize = 63;
const SLAB_CHUNKS: usize = 256;

/// Empty slabs that are kept.
const SPARE_SLABS: usize = 1;

const NIL: u32 = u32::MAX;

#[repr(C)]
struct Chunk {
    entries: [Entry; ENTRIES],
    /// Records in it; for the last chunk of a chain the chain itself knows better.
    len: u32,
    next: u32,
    _unused: u64,
}

const _: () = assert!(size_of::<Chunk>() == 1024);

// SAFETY: integers.
unsafe impl Zeroable for Chunk {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self { entries: [Entry::default(); ENTRIES], len: 0, next: 0, _unused: 0 }
    }
}

/// A list of chunks.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: u32,
    /// Records in the last chunk. Here and not there, so that an append touches one cache line of the chunk.
    last_len: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL, len: 0, last_len: 0 };

    /// Records in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NIL
    }
}

/// The entries of one chunk, copied out of it.
pub(super) struct Block {
    entries: [Entry; ENTRIES],
    len: usize,
}

impl Block {
    /// Drops the entries that `keeps` says no to. Without a branch for each.
    #[inline]
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(Entry) -> bool) {
        let mut kept = 0;
        for position in 0..self.len {
            let entry = self.entries[position];
            self.entries[kept] = entry;
            kept += usize::from(keeps(entry));
        }
        self.len = kept;
    }
}

impl Deref for Block {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.entries[..self.len]
    }
}

struct Slab {
    /// `None`: given back to the system.
    chunks: Option<Zeroed<Chunk>>,
    /// List of freed chunks, through `next`.
    freed: u32,
    /// Chunks from here on were never used.
    fresh: u32,
    in_use: u32,
}

/// Where chunks come from.
pub(super) struct Pool {
    slabs: Vec<Slab>,
    /// No slab before this one has a chunk to give.
    lowest: usize,
    /// Slabs that exist and have no chunk in use.
    empty: usize,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { slabs: Vec::new(), lowest: 0, empty: 0 }
    }

    #[inline]
    fn chunk(&self, chunk: u32) -> &Chunk {
        let slab = &self.slabs[chunk as usize / SLAB_CHUNKS];
        &slab.chunks.as_ref().expect("a chunk in use keeps its slab")[chunk as usize % SLAB_CHUNKS]
    }

    #[inline]
    fn chunk_mut(&mut self, chunk: u32) -> &mut Chunk {
        let slab = &mut self.slabs[chunk as usize / SLAB_CHUNKS];
        &mut slab.chunks.as_mut().expect("a chunk in use keeps its slab")[chunk as usize % SLAB_CHUNKS]
    }

    /// Appends an entry to a chain.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, entry: Entry) {
        if chain.last == NIL || chain.last_len as usize == ENTRIES {
            self.add_chunk(chain);
        }
        self.chunk_mut(chain.last).entries[chain.last_len as usize] = entry;
        chain.last_len += 1;
        chain.len += 1;
    }

    /// Appends entries to a chain.
    pub(super) fn extend(&mut self, chain: &mut Chain, mut entries: &[Entry]) {
        while !entries.is_empty() {
            if chain.last == NIL || chain.last_len as usize == ENTRIES {
                self.add_chunk(chain);
            }
            let from = chain.last_len as usize;
            let (some, others) = entries.split_at(entries.len().min(ENTRIES - from));
            self.chunk_mut(chain.last).entries[from..from + some.len()].copy_from_slice(some);
            chain.last_len += some.len() as u32;
            chain.len += some.len() as u32;
            entries = others;
        }
    }

    /// Gives a chain an empty last chunk.
    fn add_chunk(&mut self, chain: &mut Chain) {
        let new = self.take();
        self.append(chain, Chain { first: new, last: new, len: 0, last_len: 0 });
    }

    /// Appends a chain to another.
    pub(super) fn append(&mut self, chain: &mut Chain, tail: Chain) {
        if chain.is_empty() {
            *chain = tail;
        } else if !tail.is_empty() {
            let last = self.chunk_mut(chain.last);
            last.len = chain.last_len;
            last.next = tail.first;
            *chain = Chain { first: chain.first, len: chain.len + tail.len, ..tail };
        }
    }

    /// The length and successor of a chain's chunk.
    #[inline]
    fn extent(&self, chain: &Chain, chunk: u32) -> (usize, u32) {
        if chunk == chain.last {
            return (chain.last_len as usize, NIL);
        }
        let Chunk { len, next, .. } = *self.chunk(chunk);
        (len as usize, next)
    }

    /// The first chunk's entries.
    pub(super) fn first(&self, chain: &Chain) -> &[Entry] {
        if chain.is_empty() {
            return &[];
        }
        let (len, _) = self.extent(chain, chain.first);
        &self.chunk(chain.first).entries[..len]
    }

    /// Frees the first chunk of a chain that has one.
    pub(super) fn drop_first(&mut self, chain: &mut Chain) {
        let (len, next) = self.extent(chain, chain.first);
        self.free(chain.first);
        *chain = if next == NIL { Chain::EMPTY } else { Chain { first: next, len: chain.len - len as u32, ..*chain } };
    }

    /// Takes the first chunk's entries out, and frees the chunk.
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Block> {
        if chain.is_empty() {
            return None;
        }
        let (len, _) = self.extent(chain, chain.first);
        let block = Block { entries: self.chunk(chain.first).entries, len };
        self.drop_first(chain);
        Some(block)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn for_each(&self, chain: Chain, mut f: impl FnMut(Entry)) {
        let mut chunk = chain.first;
        while chunk != NIL {
            let (len, next) = self.extent(&chain, chunk);
            self.chunk(chunk).entries[..len].iter().copied().for_each(&mut f);
            chunk = next;
        }
    }

    fn take(&mut self) -> u32 {
        let has_chunk = |slab: &Slab| slab.chunks.is_some() && (slab.freed != NIL || (slab.fresh as usize) < SLAB_CHUNKS);
        while self.lowest < self.slabs.len() && !has_chunk(&self.slabs[self.lowest]) {
            self.lowest += 1;
        }
        if self.lowest == self.slabs.len() {
            self.add_slab();
        }
        let number = self.lowest;
        let slab = &mut self.slabs[number];
        self.empty -= usize::from(slab.in_use == 0);
        slab.in_use += 1;
        if slab.freed == NIL {
            slab.fresh += 1;
            return (number * SLAB_CHUNKS) as u32 + slab.fresh - 1;
        }
        let chunk = slab.freed;
        let next = self.chunk(chunk).next;
        self.slabs[number].freed = next;
        chunk
    }

    /// Makes a slab, in the first place that is free, and lets `lowest` point to it.
    #[cold]
    fn add_slab(&mut self) {
        let place = self.slabs.iter().position(|slab| slab.chunks.is_none()).unwrap_or(self.slabs.len());
        let slab = Slab { chunks: Some(Zeroed::new(SLAB_CHUNKS)), freed: NIL, fresh: 0, in_use: 0 };
        if place == self.slabs.len() {
            self.slabs.push(slab)
        } else {
            self.slabs[place] = slab
        }
        self.lowest = place;
        self.empty += 1;
    }

    pub(super) fn free(&mut self, chunk: u32) {
        let number = chunk as usize / SLAB_CHUNKS;
        let freed = self.slabs[number].freed;
        self.chunk_mut(chunk).next = freed;
        let slab = &mut self.slabs[number];
        slab.freed = chunk;
        slab.in_use -= 1;
        self.lowest = self.lowest.min(number);
        if slab.in_use == 0 {
            if self.empty == SPARE_SLABS {
                slab.chunks = None;
            } else {
                self.empty += 1;
            }
        }
    }

    /// Slabs that exist.
    #[cfg(all(test, not(loom)))]
    pub(super) fn slabs(&self) -> usize {
        self.slabs.iter().filter(|slab| slab.chunks.is_some()).count()
    }

    /// Chunks in use.
    #[cfg(all(test, not(loom)))]
    pub(super) fn chunks(&self) -> u32 {
        self.slabs.iter().map(|slab| slab.in_use).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One that runs empty and is needed again at once is not given back each time; no more than that one is kept.
    #[test]
    fn one_empty_slab_is_kept() {
        let mut pool = Pool::new();
        for slabs in [1, 5, 2] {
            let mut chain = Chain::EMPTY;
            (0..(slabs * SLAB_CHUNKS * ENTRIES) as u32).for_each(|cell| pool.push(&mut chain, Entry::new(1, cell, 0)));
            assert_eq!((pool.slabs(), pool.empty), (slabs, 0));
            let mut cells = 0..chain.len();
            while let Some(block) = pool.pop(&mut chain) {
                assert!(block.iter().all(|entry| Some(entry.cell()) == cells.next()));
            }
            assert_eq!((cells.len(), chain.len(), pool.slabs(), pool.empty), (0, 0, SPARE_SLABS, SPARE_SLABS));
        }
    }
}
