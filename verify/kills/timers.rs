//! Timers: all of a ledger, by their numbers. Numbers of one process follow each other, so timers
//! lie in pages: a table of millions that is hashed costs a cache miss for each look, and is copied
//! whenever it grows.

use std::collections::BTreeMap;

const PAGE: u64 = 256;

#[derive(Debug)]
pub(crate) struct Timers<T>(BTreeMap<u64, Vec<Option<T>>>);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Timers<T> {
    /// Whatever had this number is gone.
    pub(crate) fn insert(&mut self, number: u64, timer: T) {
        let page = self.0.entry(number / PAGE);
        let page = page.or_insert_with(|| (0..PAGE).map(|_| None).collect());
        page[(number % PAGE) as usize] = Some(timer);
    }

    pub(crate) fn remove(&mut self, number: u64) {
        if let Some(page) = self.0.get_mut(&(number / PAGE)) {
            page[(number % PAGE) as usize] = None;
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.0.get(&(number / PAGE))?[(number % PAGE) as usize].as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.0.get_mut(&(number / PAGE))?[(number % PAGE) as usize].as_mut()
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let pages = self.0.iter();
        pages.flat_map(|(page, timers)| {
            let numbered = (0..).zip(timers);
            numbered.filter_map(move |(nth, timer)| Some((page * PAGE + nth, timer.as_ref()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_timer() {
        let mut timers = Timers::default();
        let numbers = [0, 1, 255, 256, 1 << 32, u64::MAX];
        for number in numbers {
            timers.insert(number, number);
        }
        let found: Vec<_> = timers.iter().collect();
        assert_eq!(found, numbers.each_ref().map(|number| (*number, number)));
        *timers.get_mut(256).expect("it is there") = 7;
        timers.remove(255);
        timers.remove(1_000);
        let found = [255, 256, 257, 1 << 40].map(|number| timers.get(number));
        assert_eq!(found, [None, Some(&7), None, None]);
    }
}
