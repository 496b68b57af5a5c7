//! Maps by numbers and ids that a store gives. Nobody chooses them, so a multiplication hashes
//! them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers or ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A set of them.
#[cfg(feature = "redb")]
pub(crate) type IdSet<K> = std::collections::HashSet<K, BuildHasherDefault<IdHasher>>;

#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u128(&mut self, id: u128) {
        self.write_u64((id >> 64) as u64);
        self.write_u64(id as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
