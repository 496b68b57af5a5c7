//! Links: what a thread has for each shard that it talks to. It takes no memory for the others.
//!
//! Shards lie in groups. A group is made when the thread first links one of its shards. So a link
//! is found by two indices, however many there are, and a thread that uses few of 4,096 shards
//! keeps a kilobyte for the groups, not half a megabyte for the shards.

/// Shards of a group.
const GROUP: usize = 32;

type Group<L> = [Option<Box<L>>; GROUP];

/// A thread's links, by the numbers of their shards.
pub(super) struct Links<L>(Box<[Option<Box<Group<L>>>]>);

impl<L> Links<L> {
    /// No links, to this number of shards.
    pub(super) fn new(len: usize) -> Self {
        Self((0..len.div_ceil(GROUP)).map(|_| None).collect())
    }

    /// The link to a shard.
    #[inline]
    pub(super) fn get(&mut self, shard: usize) -> Option<&mut L> {
        self.0[shard / GROUP].as_mut()?[shard % GROUP].as_deref_mut()
    }

    /// Adds the link to a shard, in place of the one that there was.
    pub(super) fn insert(&mut self, shard: usize, link: L) -> &mut L {
        let group = self.0[shard / GROUP].get_or_insert_with(|| Box::new([const { None }; GROUP]));
        group[shard % GROUP].insert(Box::new(link))
    }

    /// Takes the link to a shard out.
    pub(super) fn take(&mut self, shard: usize) -> Option<L> {
        self.0[shard / GROUP].as_mut()?[shard % GROUP]
            .take()
            .map(|link| *link)
    }

    /// Takes all links out, and gives each to `f` with its shard.
    pub(super) fn take_all(&mut self, mut f: impl FnMut(usize, L)) {
        for (number, group) in self.0.iter_mut().enumerate() {
            let Some(mut group) = group.take() else {
                continue;
            };
            for (place, link) in group.iter_mut().enumerate() {
                if let Some(link) = link.take() {
                    f(number * GROUP + place, *link);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_its_own_link() {
        let mut links = Links::new(1_000);
        let some = || (0..1_000).step_by(7);
        assert!((0..1_000).all(|shard| links.get(shard).is_none()));
        some().for_each(|shard| assert_eq!(*links.insert(shard, shard), shard));
        assert!(
            (0..1_000)
                .all(|shard| { links.get(shard).copied() == (shard % 7 == 0).then_some(shard) })
        );
        assert!(some().all(|shard| links.take(shard) == Some(shard)));
        assert!((0..1_000).all(|shard| links.get(shard).is_none() && links.take(shard).is_none()));
    }

    /// Memory is for the shards that are used, and an index for groups of the others.
    #[test]
    fn a_few_links_to_many_shards_take_little() {
        let mut links = Links::new(4_096);
        for shard in [0, 31, 4_095] {
            links.insert(shard, [0u64; 15]);
        }
        let groups = links.0.iter().flatten().count();
        assert_eq!((groups, size_of_val(&*links.0)), (2, 1_024));
        assert_eq!(size_of::<Group<[u64; 15]>>(), 256);
    }
}
