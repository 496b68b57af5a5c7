//! Chunks: fixed arrays of entries, chained into slots, from a private pool of slabs.
//!
//! Chunks are named by index, so that this room needs no unsafe block. Freed chunks are taken again from the lowest slab first, so that the
//! others run empty and can go.
//!
//! A chunk is narrow or wide. The entries of a slot that spans no more than 2^24 ticks differ only in the lower bits of their deadlines: a narrow chunk has the higher ones once, and
//! 12 bytes for each entry. A wide one has all 16.

use crate::entry::{Entry, NARROW_BITS};
use crate::mem::{Zeroable, Zeroed, prefetch_all_to_write};
use std::ops::Deref;

const SLAB_CHUNKS: usize = 256;

/// Empty slabs that are kept.
const SPARE_SLABS: usize = 1;

const NIL: u32 = u32::MAX;

/// Words of 4 bytes for entries.
const WORDS: usize = 252;

const NARROW: usize = 3;
const WIDE: usize = 4;

/// How a chunk holds its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Form {
    Narrow,
    Wide,
}

impl Form {
    /// Entries of a chunk, at the most.
    pub(super) const MAX: usize = WORDS / NARROW;

    /// That of slots which span so many ticks, two to the power of `bits`.
    #[inline]
    pub(super) const fn of_span(bits: u32) -> Self {
        if bits <= NARROW_BITS { Self::Narrow } else { Self::Wide }
    }

    /// Entries of a chunk.
    #[inline]
    pub(super) const fn capacity(self) -> usize {
        match self {
            Self::Narrow => WORDS / NARROW,
            Self::Wide => WORDS / WIDE,
        }
    }
}

#[repr(C)]
struct Chunk {
    /// Of a narrow one: the higher bits of each deadline.
    high: u64,
    /// Records in it; for the last chunk of a chain the chain itself knows better.
    len: u16,
    form: Form,
    next: u32,
    words: [u32; WORDS],
}

const _: () = assert!(size_of::<Chunk>() == 1024);

// SAFETY: integers, and a form, of which zero is the first.
unsafe impl Zeroable for Chunk {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self { high: 0, len: 0, form: Form::Narrow, next: 0, words: [0; WORDS] }
    }
}

impl Chunk {
    #[inline]
    fn put(&mut self, position: usize, entry: Entry, form: Form) {
        match form {
            Form::Narrow => {
                debug_assert_eq!((self.form, self.high), (form, entry.high()));
                self.words.as_chunks_mut::<NARROW>().0[position] = entry.narrow();
            }
            Form::Wide => self.words.as_chunks_mut::<WIDE>().0[position] = entry.words(),
        }
    }

    /// The first `len` entries.
    fn copy_to(&self, len: usize, entries: &mut Block) {
        match self.form {
            Form::Narrow => {
                entries.0.extend(self.words.as_chunks::<NARROW>().0[..len].iter().map(|&words| Entry::widened(words, self.high)))
            }
            Form::Wide => entries.0.extend(self.words.as_chunks::<WIDE>().0[..len].iter().map(|&words| Entry::from_words(words))),
        }
    }
}

/// A list of chunks.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: u32,
    /// Entries that the last chunk has room for. Here and not there, so that an append touches one cache line of the chunk.
    room: u16,
    /// That of the last chunk.
    form: Form,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL, len: 0, room: 0, form: Form::Narrow };

    /// Records in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// That of the last chunk.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Records in the last chunk.
    fn last_len(&self) -> usize {
        self.form.capacity() - usize::from(self.room)
    }
}

/// The entries of one chunk, copied out of it.
pub(super) struct Block(Vec<Entry>);

impl Block {
    /// Drops the entries that `keeps` says no to. Without a branch for each.
    #[inline]
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(Entry) -> bool) {
        let mut kept = 0;
        for position in 0..self.0.len() {
            let entry = self.0[position];
            self.0[kept] = entry;
            kept += usize::from(keeps(entry));
        }
        self.0.truncate(kept);
    }
}

impl Deref for Block {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.0
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
    /// A block's memory, for the next one.
    spare: Vec<Entry>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { slabs: Vec::new(), lowest: 0, empty: 0, spare: Vec::with_capacity(Form::MAX) }
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

    /// Appends an entry to a chain. A narrow one only where all are narrow, and have the higher bits of their deadlines in common.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, entry: Entry, form: Form) {
        if chain.room == 0 || form == Form::Wide && chain.form != form {
            self.add_chunk(chain, entry.high(), form);
        }
        debug_assert_eq!(chain.form, form);
        let position = form.capacity() - usize::from(chain.room);
        self.chunk_mut(chain.last).put(position, entry, form);
        chain.room -= 1;
        chain.len += 1;
    }

    /// Appends entries to a chain.
    pub(super) fn extend(&mut self, chain: &mut Chain, mut entries: &[Entry], form: Form) {
        while let Some(first) = entries.first() {
            if chain.room == 0 || chain.form != form {
                self.add_chunk(chain, first.high(), form);
            }
            let (some, others) = entries.split_at(entries.len().min(usize::from(chain.room)));
            let chunk = self.chunk_mut(chain.last);
            (chain.last_len()..).zip(some).for_each(|(position, &entry)| chunk.put(position, entry, form));
            chain.room -= some.len() as u16;
            chain.len += some.len() as u32;
            entries = others;
        }
    }

    /// Gives a chain an empty last chunk.
    fn add_chunk(&mut self, chain: &mut Chain, high: u64, form: Form) {
        let new = self.take();
        let chunk = self.chunk_mut(new);
        chunk.high = high;
        chunk.form = form;
        self.append(chain, Chain { first: new, last: new, len: 0, room: form.capacity() as u16, form });
    }

    /// Appends a chain to another.
    pub(super) fn append(&mut self, chain: &mut Chain, tail: Chain) {
        if chain.is_empty() {
            *chain = tail;
        } else if !tail.is_empty() {
            let last_len = chain.last_len();
            let last = self.chunk_mut(chain.last);
            last.len = last_len as u16;
            last.next = tail.first;
            *chain = Chain { first: chain.first, len: chain.len + tail.len, ..tail };
        }
    }

    /// The length and successor of a chain's chunk.
    #[inline]
    fn extent(&self, chain: &Chain, chunk: u32) -> (usize, u32) {
        if chunk == chain.last {
            return (chain.last_len(), NIL);
        }
        let Chunk { len, next, .. } = *self.chunk(chunk);
        (usize::from(len), next)
    }

    /// Takes the first chunk's entries out, and frees the chunk. To be followed by `done`.
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Block> {
        if chain.is_empty() {
            return None;
        }
        let (len, next) = self.extent(chain, chain.first);
        if next != NIL {
            prefetch_all_to_write(self.chunk(next));
        }
        let mut block = Block(std::mem::take(&mut self.spare));
        self.chunk(chain.first).copy_to(len, &mut block);
        self.free(chain.first);
        *chain = if next == NIL { Chain::EMPTY } else { Chain { first: next, len: chain.len - len as u32, ..*chain } };
        Some(block)
    }

    /// Takes a block's memory back.
    pub(super) fn done(&mut self, block: Block) {
        self.spare = block.0;
        self.spare.clear();
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn for_each(&self, chain: Chain, mut f: impl FnMut(Entry)) {
        let mut chunk = chain.first;
        while chunk != NIL {
            let (len, next) = self.extent(&chain, chunk);
            let mut block = Block(Vec::new());
            self.chunk(chunk).copy_to(len, &mut block);
            block.iter().copied().for_each(&mut f);
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
        self.empty += usize::from(slab.in_use == 0);
    }

    /// Gives an empty slab back to the system, the last one, if more are kept than the spare ones. Whether there are still more.
    pub(super) fn trim(&mut self) -> bool {
        if self.empty > SPARE_SLABS
            && let Some(slab) = self.slabs.iter_mut().rfind(|slab| slab.in_use == 0 && slab.chunks.is_some())
        {
            slab.chunks = None;
            self.empty -= 1;
        }
        self.empty > SPARE_SLABS
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

    /// Of each form, and of both in one chain: what was put in comes out, in order.
    #[test]
    fn chunks_of_each_form_hold_what_was_put_in() {
        let mut pool = Pool::new();
        let entry = |cell: u32, form| {
            let high = if form == Form::Narrow { u64::from(cell / 100) << NARROW_BITS } else { u64::from(cell) << 30 };
            Entry::new(high | u64::from(cell), cell, u64::from(cell) << 8 | 3)
        };
        let forms = |cell: u32| if cell / 100 % 3 == 1 { Form::Wide } else { Form::Narrow };
        let (mut chain, mut all) = (Chain::EMPTY, Vec::new());
        for cells in (0..2_000).collect::<Vec<_>>().chunks(100) {
            let form = forms(cells[0]);
            let mut part = Chain::EMPTY;
            let (some, others) = cells.split_at(40);
            some.iter().for_each(|&cell| pool.push(&mut part, entry(cell, form), form));
            let others: Vec<_> = others.iter().map(|&cell| entry(cell, form)).collect();
            pool.extend(&mut part, &others, form);
            assert_eq!((part.len(), part.form()), (100, form));
            all.extend(cells.iter().map(|&cell| entry(cell, form)));
            // A wide one goes on where a narrow one has ended, in a chunk of its own.
            if form == Form::Wide {
                while let Some(block) = pool.pop(&mut part) {
                    pool.extend(&mut chain, &block, form);
                    pool.done(block);
                }
            } else {
                pool.append(&mut chain, part);
            }
        }
        let mut came = Vec::new();
        pool.for_each(chain, |entry| came.push(entry));
        assert!(came == all && chain.len() == 2_000);
        came.clear();
        while let Some(block) = pool.pop(&mut chain) {
            assert!(!block.is_empty() && block.len() <= Form::MAX);
            came.extend_from_slice(&block);
            pool.done(block);
        }
        assert!(came == all && pool.chunks() == 0);
        assert_eq!([Form::of_span(24), Form::of_span(25)].map(Form::capacity), [84, 63]);
    }

    /// Empty ones are used again, or given back one by one. One is kept: it may be needed again and again.
    #[test]
    fn empty_slabs_are_given_back() {
        let mut pool = Pool::new();
        for slabs in [2, 5, 3] {
            let mut chain = Chain::EMPTY;
            let entries = slabs * SLAB_CHUNKS * Form::Narrow.capacity();
            (0..entries as u32).for_each(|cell| pool.push(&mut chain, Entry::new(1, cell, 0), Form::Narrow));
            assert_eq!((pool.slabs(), pool.empty), (slabs, 0));
            let mut cells = 0..chain.len();
            while let Some(block) = pool.pop(&mut chain) {
                assert!(block.iter().all(|entry| Some(entry.cell()) == cells.next()));
                pool.done(block);
            }
            assert_eq!((cells.len(), chain.len(), pool.slabs(), pool.empty), (0, 0, slabs, slabs));
            for left in (SPARE_SLABS..slabs).rev() {
                assert_eq!((pool.trim(), pool.slabs(), pool.empty), (left > SPARE_SLABS, left, left));
            }
            assert!(!pool.trim() && pool.slabs() == SPARE_SLABS);
        }
    }
}
