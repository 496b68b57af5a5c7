//! Cache: which lines a core has in one of its caches. Sets, ways, least recently used.

/// A cache's size.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Its lines.
    pub lines: usize,
    /// The lines of a set.
    pub ways: usize,
}

/// A way that holds nothing.
const NONE: u32 = u32::MAX;

/// One cache. Lines have numbers, which give their sets.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    ways: usize,
    sets: usize,
    /// Set by set, the latest line first.
    lines: Vec<u32>,
}

impl Cache {
    pub(crate) fn new(size: Size) -> Self {
        let sets = size.lines / size.ways;
        assert!(sets.is_power_of_two(), "sets are a power of two");
        Self {
            ways: size.ways,
            sets,
            lines: vec![NONE; size.lines],
        }
    }

    /// Makes the line its set's latest. Whether it was there.
    #[inline]
    pub(crate) fn touch(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|&other| other == line) else {
            return false;
        };
        set[..=at].rotate_right(1);
        true
    }

    /// Puts a line in. Returns the line that had to go for it: the one that was not touched for
    /// longest. None goes if there is one that `is_gone` anyhow.
    pub(crate) fn insert(&mut self, line: u32, is_gone: impl Fn(u32) -> bool) -> Option<u32> {
        if self.touch(line) {
            return None;
        }
        let set = self.set(line);
        let free = set
            .iter()
            .rposition(|&other| other == NONE || is_gone(other));
        let at = free.unwrap_or(set.len() - 1);
        let victim = (free.is_none()).then_some(set[at]);
        set[..=at].rotate_right(1);
        set[0] = line;
        victim
    }

    fn set(&mut self, line: u32) -> &mut [u32] {
        let start = (line as usize & (self.sets - 1)) * self.ways;
        &mut self.lines[start..start + self.ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_was_not_touched_for_longest_goes() {
        let mut cache = Cache::new(Size { lines: 4, ways: 2 });
        let keep = |_| false;
        assert_eq!([0, 2].map(|line| cache.insert(line, keep)), [None, None]);
        assert!(cache.touch(0) && !cache.touch(1));
        // Odd lines have the other set.
        assert_eq!(cache.insert(1, keep), None);
        assert_eq!(cache.insert(4, keep), Some(2));
        assert_eq!(cache.insert(6, |line| line == 4), None);
        assert!(cache.touch(0) && cache.touch(6) && !cache.touch(4));
    }
}
