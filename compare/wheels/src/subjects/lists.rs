//! Doubly linked lists over one slab of nodes: what the schemes of the literature hang their timers
//! on.

use slab::Slab;

/// No node.
const NONE: u32 = u32::MAX;

struct Node {
    deadline: u64,
    key: u64,
    before: u32,
    next: u32,
    list: u32,
}

pub(crate) struct Lists {
    nodes: Slab<Node>,
    heads: Vec<u32>,
}

impl Lists {
    pub(super) fn new(lists: usize) -> Self {
        Self {
            nodes: Slab::new(),
            heads: vec![NONE; lists],
        }
    }

    /// A timer at the head of a list.
    pub(super) fn insert(&mut self, list: usize, deadline: u64, key: u64) -> u32 {
        self.insert_after(None, list, deadline, key)
    }

    /// A timer after `before`, which is in that list too, or at its head.
    pub(super) fn insert_after(
        &mut self,
        before: Option<u32>,
        list: usize,
        deadline: u64,
        key: u64,
    ) -> u32 {
        let node = self.nodes.insert(Node {
            deadline,
            key,
            before: NONE,
            next: NONE,
            list: list as u32,
        }) as u32;
        self.link(list, before.unwrap_or(NONE), node);
        node
    }

    /// Moves the timers of a list to the heads of those that `list_of` names by their deadlines.
    pub(super) fn relink_all(&mut self, list: usize, list_of: impl Fn(u64) -> Option<usize>) {
        let mut next = self.first(list);
        while let Some(node) = next {
            next = self.next(node);
            if let Some(list) = list_of(self.deadline(node)) {
                self.unlink(node);
                self.link(list, NONE, node);
            }
        }
    }

    /// Puts a node that is in no list after `before`, or at the head.
    fn link(&mut self, list: usize, before: u32, node: u32) {
        let next = match self.nodes.get_mut(before as usize) {
            Some(before) => std::mem::replace(&mut before.next, node),
            None => std::mem::replace(&mut self.heads[list], node),
        };
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.before = node;
        }
        let linked = &mut self.nodes[node as usize];
        (linked.list, linked.before, linked.next) = (list as u32, before, next);
    }

    fn unlink(&mut self, node: u32) {
        let Node {
            before, next, list, ..
        } = self.nodes[node as usize];
        match self.nodes.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.heads[list as usize] = next,
        }
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.before = before;
        }
    }

    /// Takes a timer away and gives its key back.
    pub(super) fn remove(&mut self, node: u32) -> u64 {
        self.unlink(node);
        self.nodes.remove(node as usize).key
    }

    pub(super) fn first(&self, list: usize) -> Option<u32> {
        Some(self.heads[list]).filter(|&node| node != NONE)
    }

    pub(super) fn next(&self, node: u32) -> Option<u32> {
        Some(self.nodes[node as usize].next).filter(|&node| node != NONE)
    }

    pub(super) fn deadline(&self, node: u32) -> u64 {
        self.nodes[node as usize].deadline
    }

    /// Fires all of a list.
    pub(super) fn fire_all(&mut self, list: usize, fire: &mut impl FnMut(u64)) {
        while let Some(node) = self.first(list) {
            fire(self.remove(node));
        }
    }

    /// Fires what is due in a list, looking at all of it.
    pub(super) fn fire_due(&mut self, list: usize, now: u64, fire: &mut impl FnMut(u64)) {
        let mut next = self.first(list);
        while let Some(node) = next {
            next = self.next(node);
            if self.deadline(node) <= now {
                fire(self.remove(node));
            }
        }
    }
}
