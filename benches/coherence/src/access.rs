//! Access: one touch of one cache line, as it lies in a log.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// What an access does to its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It loads.
    Read = 0,
    /// It stores.
    Write = 1,
    /// It is a locked instruction: a read-modify-write, or a sequentially consistent store.
    Locked = 2,
}

/// An access, or the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the first byte in this line, and the kind in the lowest two bits.
    word: u64,
    /// The instruction after the one that called: an address in the program.
    pub site: u64,
}

const END: u64 = 3;

impl Access {
    /// The end of an operation.
    pub const END: Self = Self { word: END, site: 0 };

    /// An access at this address. User space has 47 bits.
    #[must_use]
    pub const fn new(address: usize, kind: Kind, site: usize) -> Self {
        Self {
            word: (address as u64) << 2 | kind as u64,
            site: site as u64,
        }
    }

    /// The address and the kind. `None`: the end of an operation.
    #[must_use]
    pub const fn what(self) -> Option<(u64, Kind)> {
        let kind = match self.word & 3 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Locked,
            _ => return None,
        };
        Some((self.word >> 2, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for kind in [Kind::Read, Kind::Write, Kind::Locked] {
            let address = 0x7fff_ffff_fff8;
            let access = Access::new(address, kind, 7);
            assert_eq!(access.what(), Some((address as u64, kind)));
        }
        assert_eq!(Access::END.what(), None);
    }
}
