//! Pages: redb's file, read without redb.
//!
//! redb reads a damaged file not at all, or stops where it meets the damage. This goes on behind
//! it. Every branch has the checksums of its children, and the header that of the root. So a page
//! whose checksum is right is the one that its table has now, and not one that it had before. What
//! is read so is certain; what is not is told as lost, with the keys that it may have had.
//!
//! Reference: redb's `docs/design.md`, file format 3. `tests/it/golden.rs` and `salvage.rs` read
//! files that redb has written.

use super::xxh3::checksum;
use crate::store::id_map::IdSet;
use redb::StorageBackend;
use std::cell::RefCell;
use std::io;

/// Bytes of a page, and of the place of one.
pub(super) const PAGE: u64 = 4_096;

/// Where the header has its parts, in bytes.
const PAGE_SIZE_AT: usize = 12;
const REGION_AT: usize = 16;
const SLOTS_AT: [usize; 2] = [64, 192];
const SLOT_BYTES: usize = 128;
const HEADER_BYTES: usize = 320;

/// redb's file format that this reads.
const VERSION: u8 = 3;

/// No tree is deeper. One with a circle is.
const DEPTH_MAX: usize = 64;

/// A page as its parent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRef {
    number: u64,
    sum: u128,
}

impl PageRef {
    /// As a header and a table's definition have it: number and checksum.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            number: u64_at(bytes, 0)?,
            sum: u128::from_le_bytes(*bytes.get(8..)?.first_chunk()?),
        })
    }
}

/// How many bytes keys and values have. `None`: each says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    pub(super) key: Option<usize>,
    pub(super) value: Option<usize>,
}

/// What a header says of the last commits: the number of each, and the root of its tables.
#[derive(Clone, Copy)]
struct Slot {
    commit: u64,
    root: Option<PageRef>,
}

/// A file.
pub(super) struct Pages<'a> {
    file: &'a dyn StorageBackend,
    len: u64,
    /// Pages of a region: those before its data, and its data.
    region: (u64, u64),
    slots: [Option<Slot>; 2],
    /// Where the pages are whose entries were read.
    known: RefCell<IdSet<u64>>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Pages<'a> {
    pub(super) fn new(file: &'a dyn StorageBackend) -> io::Result<Self> {
        let len = file.len()?;
        let mut header = vec![0; HEADER_BYTES.min(usize::try_from(len).unwrap_or(usize::MAX))];
        file.read(0, &mut header)?;
        let has_pages = u32_at(&header, PAGE_SIZE_AT) == Some(PAGE as usize);
        let region = |at| u32_at(&header, REGION_AT + at).unwrap_or(0) as u64;
        let slot = |at: usize| slot(header.get(at..at + SLOT_BYTES)?).filter(|_| has_pages);
        Ok(Self {
            file,
            len,
            region: (region(0), region(4)),
            slots: SLOTS_AT.map(slot),
            known: RefCell::default(),
        })
    }

    /// The root of the tables, as of the last commit. `None` in `Err`: that commit is not known for
    /// sure, since the header has but one that is whole, or none.
    pub(super) fn root(&self) -> Result<Option<PageRef>, ()> {
        match self.slots {
            [Some(one), Some(other)] if one.commit > other.commit => Ok(one.root),
            [Some(_), Some(other)] => Ok(other.root),
            _ => Err(()),
        }
    }

    /// The length of the file, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether the page that begins here was read as one of a tree, for its entries.
    pub(super) fn is_known(&self, at: u64) -> bool {
        self.known.borrow().contains(&at)
    }

    /// The bytes of the file from `at` on, `count` of them. `None`: it ends before.
    pub(super) fn bytes(&self, at: u64, count: u64) -> Option<Vec<u8>> {
        if at.checked_add(count)? > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(count).ok()?];
        self.file.read(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// A page's place, from its number: index and region in 20 bits each, and an exponent.
    fn place(&self, number: u64) -> Option<(u64, u64)> {
        let order = number >> 59;
        let index = number & (0xF_FFFF_u64.checked_shr(u32::try_from(order).ok()?)?);
        let region = number >> 20 & 0xF_FFFF;
        let bytes = PAGE.checked_shl(u32::try_from(order).ok()?)?;
        let (before, data) = self.region;
        let begin = PAGE + region * (before + data) * PAGE + before * PAGE;
        Some((begin.checked_add(index.checked_mul(bytes)?)?, bytes))
    }

    /// A page, if it is the one that is meant.
    fn page(&self, page: PageRef, widths: Widths) -> Option<Vec<u8>> {
        let (at, bytes) = self.place(page.number)?;
        let data = self.bytes(at, bytes)?;
        let used = Node::read(&data, widths)?.used(&data)?;
        if checksum(data.get(..used)?) != page.sum {
            return None;
        }
        if data[0] == LEAF {
            self.known.borrow_mut().insert(at);
        }
        Some(data)
    }

    /// The entries of a tree, in their order.
    pub(super) fn tree(&'a self, root: Option<PageRef>, widths: Widths) -> Tree<'a> {
        Tree {
            pages: self,
            widths,
            next: root.map(|root| (root, Vec::new(), None)),
            levels: Vec::new(),
        }
    }
}

fn slot(bytes: &[u8]) -> Option<Slot> {
    let (body, sum) = bytes.split_last_chunk::<16>()?;
    if body[0] != VERSION || checksum(body) != u128::from_le_bytes(*sum) {
        return None;
    }
    let root = PageRef::read(&body[8..]).filter(|_| body[1] != 0);
    Some(Slot {
        commit: u64_at(body, 104)?,
        root,
    })
}

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// How a page is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Leaf { pairs: usize, widths: Widths },
    Branch { keys: usize, width: Option<usize> },
}

impl Node {
    pub(super) fn read(page: &[u8], widths: Widths) -> Option<Self> {
        let count = u16_at(page, 2).filter(|&count| count > 0)?;
        match *page.first()? {
            LEAF => Some(Self::Leaf {
                pairs: count,
                widths,
            }),
            BRANCH => Some(Self::Branch {
                keys: count,
                width: widths.key,
            }),
            _ => None,
        }
    }

    /// How many bytes of the page are used.
    pub(super) fn used(self, page: &[u8]) -> Option<usize> {
        match self {
            Self::Leaf { pairs, .. } => self.value_end(page, pairs - 1),
            Self::Branch { keys, .. } => self.key_end(page, keys - 1),
        }
    }

    /// How many pairs there are, or children of a branch.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Leaf { pairs, .. } => pairs,
            Self::Branch { keys, .. } => keys + 1,
        }
    }

    /// Where the keys begin.
    fn keys_at(self) -> usize {
        let ends = |width: Option<usize>, count| if width.is_none() { 4 * count } else { 0 };
        match self {
            Self::Leaf { pairs, widths } => 4 + ends(widths.key, pairs) + ends(widths.value, pairs),
            Self::Branch { keys, width } => 8 + 24 * (keys + 1) + ends(width, keys),
        }
    }

    fn key_end(self, page: &[u8], number: usize) -> Option<usize> {
        let (width, ends_at) = match self {
            Self::Leaf { widths, .. } => (widths.key, 4),
            Self::Branch { keys, width } => (width, 8 + 24 * (keys + 1)),
        };
        match width {
            Some(width) => Some(self.keys_at() + width * (number + 1)),
            None => u32_at(page, ends_at + 4 * number),
        }
    }

    fn value_end(self, page: &[u8], number: usize) -> Option<usize> {
        let Self::Leaf { pairs, widths } = self else {
            return None;
        };
        match (widths.key, widths.value) {
            (_, Some(width)) => Some(self.key_end(page, pairs - 1)? + width * (number + 1)),
            (Some(_), None) => u32_at(page, 4 + 4 * number),
            (None, None) => u32_at(page, 4 + 4 * pairs + 4 * number),
        }
    }

    fn key(self, page: &[u8], number: usize) -> Option<&[u8]> {
        let begin = match number.checked_sub(1) {
            None => self.keys_at(),
            Some(before) => self.key_end(page, before)?,
        };
        page.get(begin..self.key_end(page, number)?)
    }

    /// A pair of key and value.
    pub(super) fn pair(self, page: &[u8], number: usize) -> Option<(&[u8], &[u8])> {
        let Self::Leaf { pairs, .. } = self else {
            return None;
        };
        let begin = match number.checked_sub(1) {
            None => self.key_end(page, pairs - 1)?,
            Some(before) => self.value_end(page, before)?,
        };
        let value = page.get(begin..self.value_end(page, number)?)?;
        Some((self.key(page, number)?, value))
    }

    fn child(self, page: &[u8], number: usize) -> Option<PageRef> {
        let Self::Branch { keys, .. } = self else {
            return None;
        };
        let sum = page.get(8 + 16 * number..)?.first_chunk()?;
        Some(PageRef {
            number: u64_at(page, 8 + 16 * (keys + 1) + 8 * number)?,
            sum: u128::from_le_bytes(*sum),
        })
    }
}

/// A page of the way to the present entry.
struct Level {
    page: Vec<u8>,
    node: Node,
    next: usize,
    /// Its keys are after this one, and up to the other one.
    after: Vec<u8>,
    upto: Option<Vec<u8>>,
}

/// Goes over a tree.
pub(super) struct Tree<'a> {
    pages: &'a Pages<'a>,
    widths: Widths,
    /// The page that comes next, and its keys.
    next: Option<(PageRef, Vec<u8>, Option<Vec<u8>>)>,
    levels: Vec<Level>,
}

/// What is next in a tree.
pub(super) enum Next<'t> {
    Entry(&'t [u8], &'t [u8]),
    /// A page that is not what it should be. Its keys are after the first one (which is empty
    /// before all others) and up to the second one.
    Lost(Vec<u8>, Option<Vec<u8>>),
}

impl Tree<'_> {
    pub(super) fn next(&mut self) -> Option<Next<'_>> {
        loop {
            if let Some((page, after, upto)) = self.next.take() {
                let read = self.pages.page(page, self.widths);
                let read = read.filter(|_| self.levels.len() < DEPTH_MAX);
                let node = read.as_ref().and_then(|page| Node::read(page, self.widths));
                let (Some(page), Some(node)) = (read, node) else {
                    return Some(Next::Lost(after, upto));
                };
                self.levels.push(Level {
                    page,
                    node,
                    next: 0,
                    after,
                    upto,
                });
            }
            let level = self.levels.last_mut()?;
            let number = level.next;
            if number == level.node.count() {
                self.levels.pop();
                continue;
            }
            level.next += 1;
            match level.node {
                Node::Leaf { .. } => break,
                Node::Branch { keys, .. } => {
                    let key = |number| level.node.key(&level.page, number).map(<[u8]>::to_vec);
                    let after = match number.checked_sub(1) {
                        None => Some(level.after.clone()),
                        Some(before) => key(before),
                    };
                    let upto = match number {
                        last if last == keys => level.upto.clone(),
                        _ => key(number),
                    };
                    let child = level.node.child(&level.page, number)?;
                    self.next = Some((child, after.unwrap_or_default(), upto));
                }
            }
        }
        let level = self.levels.last()?;
        let (key, value) = level.node.pair(&level.page, level.next - 1)?;
        Some(Next::Entry(key, value))
    }
}
