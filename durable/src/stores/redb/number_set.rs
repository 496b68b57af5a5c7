//! A set of numbers that are given one after the other: a bit for each, where most are neighbours.

use crate::store::id_map::IdMap;

/// Numbers of a page, as a power of two.
const PAGE_BITS: u32 = 9;

/// Words of a page.
const WORDS: usize = 1 << (PAGE_BITS - u64::BITS.ilog2());

/// A set of numbers.
#[derive(Default)]
pub(super) struct NumberSet {
    pages: IdMap<u64, [u64; WORDS]>,
}

/// The page of a number, its word there, and its bit.
const fn place(number: u64) -> (u64, usize, u64) {
    let word = (number / u64::BITS as u64) as usize % WORDS;
    (number >> PAGE_BITS, word, 1 << (number % u64::BITS as u64))
}

impl NumberSet {
    pub(super) fn insert(&mut self, number: u64) {
        let (page, word, bit) = place(number);
        self.pages.entry(page).or_default()[word] |= bit;
    }

    pub(super) fn remove(&mut self, number: u64) {
        let (page, word, bit) = place(number);
        if let Some(page) = self.pages.get_mut(&page) {
            page[word] &= !bit;
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (page, word, bit) = place(number);
        let page = self.pages.get(&page);
        page.is_some_and(|page| page[word] & bit != 0)
    }
}
