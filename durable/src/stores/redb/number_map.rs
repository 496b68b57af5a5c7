//! A map by numbers that are given one after the other: eight bytes for each.
//!
//! Numbers rise, and those that are there at one time are mostly neighbours. So values lie in pages
//! of 512 numbers, by the number's lower bits. A page of which less than an eighth is left is given
//! up, and its values go to a hash map. So does the value of a number that comes back when its page
//! is gone.

use crate::store::id_map::IdMap;

/// Numbers of a page, as a power of two.
const PAGE_BITS: u32 = 9;

/// Numbers of a page.
const PAGE: usize = 1 << PAGE_BITS;

/// A page with fewer values is given up, unless numbers still come to it.
const PAGE_MIN: usize = PAGE / 8;

/// No value is this.
const NONE: u64 = u64::MAX;

/// Values by number. No value is `u64::MAX`.
#[derive(Default)]
pub(super) struct NumberMap {
    pages: IdMap<u64, NumberPage>,
    /// Values without a page.
    others: IdMap<u64, u64>,
    /// The highest number that has come.
    highest: u64,
    len: usize,
}

struct NumberPage {
    values: Box<[u64; PAGE]>,
    len: usize,
}

/// The page of a number, and its place there.
const fn place(number: u64) -> (u64, usize) {
    (number >> PAGE_BITS, number as usize % PAGE)
}

impl NumberMap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, number: u64) -> Option<u64> {
        let (page, at) = place(number);
        if let Some(page) = self.pages.get(&page)
            && page.values[at] != NONE
        {
            return Some(page.values[at]);
        }
        self.others.get(&number).copied()
    }

    /// Sets a value. Returns the former one.
    pub(super) fn insert(&mut self, number: u64, value: u64) -> Option<u64> {
        debug_assert_ne!(value, NONE);
        let is_new = number >= self.highest;
        self.highest = self.highest.max(number);
        let (page, at) = place(number);
        let page = match self.pages.get_mut(&page) {
            Some(page) => page,
            None if is_new => self.pages.entry(page).or_insert_with(NumberPage::new),
            None => {
                let former = self.others.insert(number, value);
                self.len += usize::from(former.is_none());
                return former;
            }
        };
        // (It may have come back while its page was gone.)
        let former = match page.values[at] {
            NONE if self.others.is_empty() => None,
            NONE => self.others.remove(&number),
            former => Some(former),
        };
        page.len += usize::from(page.values[at] == NONE);
        page.values[at] = value;
        self.len += usize::from(former.is_none());
        former
    }

    /// Takes a value out. Returns whether it was there.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let (number_page, at) = place(number);
        if let Some(page) = self.pages.get_mut(&number_page)
            && page.values[at] != NONE
        {
            page.values[at] = NONE;
            page.len -= 1;
            if page.len < PAGE_MIN && number_page != place(self.highest).0 {
                self.give_up(number_page);
            }
            self.len -= 1;
            return true;
        }
        let is_gone = self.others.remove(&number).is_some();
        self.len -= usize::from(is_gone);
        is_gone
    }

    fn give_up(&mut self, number_page: u64) {
        let Some(page) = self.pages.remove(&number_page) else {
            return;
        };
        let first = number_page << PAGE_BITS;
        let left = page.values.iter().zip(first..);
        let left = left.filter(|&(&value, _)| value != NONE);
        self.others
            .extend(left.map(|(&value, number)| (number, value)));
    }

    /// Values without a page.
    #[cfg(test)]
    pub(super) fn sparse(&self) -> usize {
        self.others.len()
    }

    /// Gives memory back that was needed for more values.
    pub(super) fn shrink(&mut self) {
        self.others.shrink_to(2 * self.others.len());
        self.pages.shrink_to(2 * self.pages.len());
    }
}

impl NumberPage {
    fn new() -> Self {
        Self {
            values: Box::new([NONE; PAGE]),
            len: 0,
        }
    }
}
