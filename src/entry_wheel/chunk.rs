//! Chunks: fixed arrays of entries, in lists, from a private pool of slabs.
//!
//! A chunk has a number, not an address: so this room needs no unsafe block. A freed chunk is used
//! again from the lowest slab first: so the other slabs become empty and can go.
//!
//! A chunk is narrow or wide. In a slot that spans at most 2^24 ticks, deadlines differ in their
//! lower bits only. A narrow chunk holds the higher bits once, and 12 bytes for each entry. A wide
//! chunk holds all 16 bytes of each entry.

use crate::entry::{Entry, NARROW_BITS};
use crate::mem::{Zeroable, Zeroed};
use crate::prefetch::prefetch_all_to_write;
use std::ops::Deref;

/// Chunks of a slab: 256 KiB.
const SLAB_CHUNKS: usize = if cfg!(loom) { 2 } else { 256 };

/// Empty slabs that are kept.
const SPARE_SLABS: usize = 1;

/// No chunk.
const NIL: u32 = u32::MAX;

/// Words of 4 bytes in a chunk, for entries.
const WORDS: usize = 252;

/// Words of an entry in a narrow chunk.
const NARROW: usize = 3;

/// Words of an entry in a wide chunk.
const WIDE: usize = 4;

/// How a chunk holds its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Form {
    Narrow,
    Wide,
}

impl Form {
    /// The most entries that a chunk of any form holds.
    pub(super) const MAX: usize = WORDS / NARROW;

    /// The form for slots that span two to the power of `bits` ticks.
    #[inline]
    pub(super) const fn of_span(bits: u32) -> Self {
        if bits <= NARROW_BITS {
            Self::Narrow
        } else {
            Self::Wide
        }
    }

    /// Entries that a chunk of this form holds.
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
    /// In a narrow chunk: the higher bits of all deadlines.
    high: u64,
    /// Entries in the chunk. Not valid in the last chunk of a list: see `ChunkList::last_len`.
    len: u16,
    form: Form,
    next: u32,
    words: [u32; WORDS],
}

const _: () = assert!(size_of::<Chunk>() == 1024);

// SAFETY: integers, and a `Form`, whose first variant is zero.
unsafe impl Zeroable for Chunk {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            high: 0,
            len: 0,
            form: Form::Narrow,
            next: 0,
            words: [0; WORDS],
        }
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

    /// Copies the first `len` entries to a block, in place of what that has.
    fn copy_to(&self, len: usize, block: &mut Block) {
        match self.form {
            Form::Narrow => {
                // (Two at a time: optimized for size, the compiler does not unroll the loop.)
                let (pairs, last) = self.words.as_chunks::<NARROW>().0[..len].as_chunks::<2>();
                let places = block.entries.as_chunks_mut::<2>().0;
                for (place, &[one, other]) in places.iter_mut().zip(pairs) {
                    *place = [
                        Entry::widened(one, self.high),
                        Entry::widened(other, self.high),
                    ];
                }
                if let &[last] = last {
                    block.entries[len - 1] = Entry::widened(last, self.high);
                }
            }
            Form::Wide => {
                let words = &self.words.as_chunks::<WIDE>().0[..len];
                for (place, &words) in block.entries.iter_mut().zip(words) {
                    *place = Entry::from_words(words);
                }
            }
        }
        block.len = len;
    }
}

/// A list of chunks.
#[derive(Clone, Copy)]
pub(super) struct ChunkList {
    first: u32,
    last: u32,
    len: u32,
    /// Entries in the last chunk; `FULL` if there is none. Here, not in the chunk: so an append
    /// touches one cache line of the chunk.
    last_len: u16,
    /// The last chunk's form.
    form: Form,
}

impl ChunkList {
    pub(super) const EMPTY: Self = Self {
        first: NIL,
        last: NIL,
        len: 0,
        last_len: Self::FULL,
        form: Form::Narrow,
    };

    /// A length that leaves no room for another entry.
    const FULL: u16 = u16::MAX;

    /// Entries in the list.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// The last chunk's form.
    #[inline]
    pub(super) fn form(&self) -> Form {
        self.form
    }
}

/// The entries of one chunk, copied out of it.
pub(super) struct Block {
    entries: Box<[Entry; Form::MAX]>,
    len: usize,
}

impl Block {
    #[cold]
    fn new() -> Self {
        Self {
            entries: Box::new([Entry::from_words([0; WIDE]); Form::MAX]),
            len: 0,
        }
    }

    /// Drops the entries for which `keeps` returns false. Without a branch for each entry.
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

    #[inline]
    fn deref(&self) -> &[Entry] {
        &self.entries[..self.len]
    }
}

/// Memory for 256 chunks.
struct Slab {
    /// `None`: the slab was given back to the system.
    chunks: Option<Zeroed<[Chunk; SLAB_CHUNKS]>>,
    /// The first freed chunk; `next` leads to the others.
    freed: u32,
    /// Chunks from this one on were never used.
    fresh: u32,
    /// Chunks that are in a list.
    in_use: u32,
}

/// Where chunks come from.
pub(super) struct ChunkPool {
    slabs: Vec<Slab>,
    /// No slab before this one has a chunk to give.
    lowest: usize,
    /// Slabs that exist and have no chunk in use.
    empty: usize,
    /// The last block, whose memory the next one takes.
    spare: Option<Block>,
}

impl ChunkPool {
    pub(super) fn new() -> Self {
        Self {
            slabs: Vec::new(),
            lowest: 0,
            empty: 0,
            spare: None,
        }
    }

    #[inline]
    fn chunk(&self, chunk: u32) -> &Chunk {
        let slab = &self.slabs[chunk as usize / SLAB_CHUNKS];
        let chunks = slab.chunks.as_ref().expect("a chunk in use keeps its slab");
        &chunks.first()[chunk as usize % SLAB_CHUNKS]
    }

    #[inline]
    fn chunk_mut(&mut self, chunk: u32) -> &mut Chunk {
        let slab = &mut self.slabs[chunk as usize / SLAB_CHUNKS];
        let chunks = slab.chunks.as_mut().expect("a chunk in use keeps its slab");
        &mut chunks.first_mut()[chunk as usize % SLAB_CHUNKS]
    }

    /// Appends an entry to a list. A narrow entry may follow narrow entries only, whose deadlines
    /// have the same higher bits.
    #[inline(always)]
    pub(super) fn push(&mut self, list: &mut ChunkList, entry: Entry, form: Form) {
        let position = usize::from(list.last_len);
        if position >= form.capacity() || form == Form::Wide && list.form != form {
            return self.push_to_new(list, entry, form);
        }
        debug_assert_eq!(list.form, form);
        self.chunk_mut(list.last).put(position, entry, form);
        list.last_len += 1;
        list.len += 1;
    }

    /// Appends an entry to a list, in a new chunk. (As a tail call it needs no saved registers.)
    #[inline(never)]
    fn push_to_new(&mut self, list: &mut ChunkList, entry: Entry, form: Form) {
        self.add_chunk(list, entry.high(), form);
        self.chunk_mut(list.last).put(0, entry, form);
        list.last_len = 1;
        list.len += 1;
    }

    /// Appends entries to a list.
    pub(super) fn extend(&mut self, list: &mut ChunkList, mut entries: &[Entry], form: Form) {
        while let Some(first) = entries.first() {
            if usize::from(list.last_len) >= form.capacity() || list.form != form {
                self.add_chunk(list, first.high(), form);
            }
            let last_len = usize::from(list.last_len);
            let (some, others) = entries.split_at(entries.len().min(form.capacity() - last_len));
            let chunk = self.chunk_mut(list.last);
            for (position, &entry) in (last_len..).zip(some) {
                chunk.put(position, entry, form);
            }
            list.last_len += some.len() as u16;
            list.len += some.len() as u32;
            entries = others;
        }
    }

    /// Appends an empty chunk to a list.
    #[inline]
    fn add_chunk(&mut self, list: &mut ChunkList, high: u64, form: Form) {
        let new = self.take();
        let chunk = self.chunk_mut(new);
        chunk.high = high;
        chunk.form = form;
        self.append(
            list,
            ChunkList {
                first: new,
                last: new,
                len: 0,
                last_len: 0,
                form,
            },
        );
    }

    /// Appends a list to another one.
    #[inline]
    pub(super) fn append(&mut self, list: &mut ChunkList, tail: ChunkList) {
        if list.is_empty() {
            *list = tail;
        } else if !tail.is_empty() {
            let last = self.chunk_mut(list.last);
            last.len = list.last_len;
            last.next = tail.first;
            *list = ChunkList {
                first: list.first,
                len: list.len + tail.len,
                ..tail
            };
        }
    }

    /// The length of a list's chunk, and the next chunk.
    #[inline]
    fn extent(&self, list: &ChunkList, chunk: u32) -> (usize, u32) {
        if chunk == list.last {
            return (list.last_len.into(), NIL);
        }
        let Chunk { len, next, .. } = *self.chunk(chunk);
        (usize::from(len), next)
    }

    /// Takes the first chunk's entries out, and frees the chunk. The caller gives the block back by
    /// `done`.
    #[inline]
    pub(super) fn pop(&mut self, list: &mut ChunkList) -> Option<Block> {
        if list.is_empty() {
            return None;
        }
        let (len, next) = self.extent(list, list.first);
        if next != NIL {
            prefetch_all_to_write(self.chunk(next));
        }
        let mut block = self.spare.take().unwrap_or_else(Block::new);
        self.chunk(list.first).copy_to(len, &mut block);
        self.free(list.first);
        *list = if next == NIL {
            ChunkList::EMPTY
        } else {
            ChunkList {
                first: next,
                len: list.len - len as u32,
                ..*list
            }
        };
        Some(block)
    }

    /// Takes a block's memory back.
    #[inline]
    pub(super) fn done(&mut self, block: Block) {
        self.spare = Some(block);
    }

    /// Gives `f` the entries of a list, which stay where they are.
    #[cfg(all(test, not(loom)))]
    pub(super) fn for_each(&self, list: ChunkList, mut f: impl FnMut(Entry)) {
        let (mut chunk, mut block) = (list.first, Block::new());
        while chunk != NIL {
            let (len, next) = self.extent(&list, chunk);
            self.chunk(chunk).copy_to(len, &mut block);
            block.iter().for_each(|&entry| f(entry));
            chunk = next;
        }
    }

    #[inline]
    fn take(&mut self) -> u32 {
        let has_chunk = |slab: &Slab| {
            slab.chunks.is_some() && (slab.freed != NIL || (slab.fresh as usize) < SLAB_CHUNKS)
        };
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

    /// Makes a slab, at the first number that is free. `lowest` points to it then.
    #[cold]
    fn add_slab(&mut self) {
        let number = self
            .slabs
            .iter()
            .position(|slab| slab.chunks.is_none())
            .unwrap_or(self.slabs.len());
        let slab = Slab {
            chunks: Some(Zeroed::new(1)),
            freed: NIL,
            fresh: 0,
            in_use: 0,
        };
        if number == self.slabs.len() {
            self.slabs.push(slab)
        } else {
            self.slabs[number] = slab
        }
        self.lowest = number;
        self.empty += 1;
    }

    #[inline]
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

    /// Gives the last empty slab back to the system, if there are more than `SPARE_SLABS`. Returns
    /// whether there are still more.
    #[inline]
    pub(super) fn trim(&mut self) -> bool {
        self.empty > SPARE_SLABS && self.trim_one()
    }

    #[cold]
    #[inline(never)]
    fn trim_one(&mut self) -> bool {
        let mut slabs = self.slabs.iter_mut();
        if let Some(slab) = slabs.rfind(|slab| slab.in_use == 0 && slab.chunks.is_some()) {
            slab.chunks = None;
            self.empty -= 1;
        }
        self.empty > SPARE_SLABS
    }

    /// Slabs that exist.
    #[cfg(all(test, not(loom)))]
    pub(super) fn slabs(&self) -> usize {
        self.slabs
            .iter()
            .filter(|slab| slab.chunks.is_some())
            .count()
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

    /// Entries come out in order: from lists of each form, and from a list of both forms.
    #[test]
    fn chunks_of_each_form_hold_what_was_put_in() {
        let mut pool = ChunkPool::new();
        let entry = |cell: u32, form| {
            let high = if form == Form::Narrow {
                u64::from(cell / 100) << NARROW_BITS
            } else {
                u64::from(cell) << 30
            };
            Entry::new(high | u64::from(cell), cell, u64::from(cell) << 8 | 3)
        };
        let forms = |cell: u32| {
            if cell / 100 % 3 == 1 {
                Form::Wide
            } else {
                Form::Narrow
            }
        };
        let (mut list, mut all) = (ChunkList::EMPTY, Vec::new());
        for cells in (0..2_000).collect::<Vec<_>>().chunks(100) {
            let form = forms(cells[0]);
            let mut part = ChunkList::EMPTY;
            let (some, others) = cells.split_at(40);
            some.iter()
                .for_each(|&cell| pool.push(&mut part, entry(cell, form), form));
            let others: Vec<_> = others.iter().map(|&cell| entry(cell, form)).collect();
            pool.extend(&mut part, &others, form);
            assert_eq!((part.len(), part.form()), (100, form));
            all.extend(cells.iter().map(|&cell| entry(cell, form)));
            // A wide entry after narrow ones gets a new chunk.
            if form == Form::Wide {
                while let Some(block) = pool.pop(&mut part) {
                    pool.extend(&mut list, &block, form);
                    pool.done(block);
                }
            } else {
                pool.append(&mut list, part);
            }
        }
        let mut came = Vec::new();
        pool.for_each(list, |entry| came.push(entry));
        assert!(came == all && list.len() == 2_000);
        came.clear();
        while let Some(block) = pool.pop(&mut list) {
            assert!(!block.is_empty() && block.len() <= Form::MAX);
            came.extend_from_slice(&block);
            pool.done(block);
        }
        assert!(came == all && pool.chunks() == 0);
        assert_eq!(
            [NARROW_BITS, NARROW_BITS + 1].map(|bits| Form::of_span(bits).capacity()),
            [84, 63]
        );
    }

    /// Empty slabs are used again, or given back one by one. One is kept.
    #[test]
    fn empty_slabs_are_given_back() {
        let mut pool = ChunkPool::new();
        for slabs in [2, 5, 3] {
            let mut list = ChunkList::EMPTY;
            let entries = slabs * SLAB_CHUNKS * Form::Narrow.capacity();
            (0..entries as u32)
                .for_each(|cell| pool.push(&mut list, Entry::new(1, cell, 0), Form::Narrow));
            assert_eq!((pool.slabs(), pool.empty), (slabs, 0));
            let mut cells = 0..list.len();
            while let Some(block) = pool.pop(&mut list) {
                assert!(block.iter().all(|entry| Some(entry.cell()) == cells.next()));
                pool.done(block);
            }
            assert_eq!(
                (cells.len(), list.len(), pool.slabs(), pool.empty),
                (0, 0, slabs, slabs)
            );
            for left in (SPARE_SLABS..slabs).rev() {
                assert_eq!(
                    (pool.trim(), pool.slabs(), pool.empty),
                    (left > SPARE_SLABS, left, left)
                );
            }
            assert!(!pool.trim() && pool.slabs() == SPARE_SLABS);
        }
    }
}
