//! Objects by their numbers, in lists: what the reference policies are built on.
//!
//! An object takes 8 bytes for its number, 8 for its neighbours in a list, 5 in the index and 1 for its mark; 4 more for
//! its size where capacities are bytes. Where they are objects, all of it is taken at the beginning and nothing grows.

use zonal_base::{index as wide, low_u32};

use super::super::Capacity;
use super::super::index::Index;

/// Where an object stands on the shelf, until it is removed.
pub(super) type Slot = u32;

/// No slot.
pub(super) const NONE: Slot = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    id: u64,
    /// Towards the front: what came later.
    newer: Slot,
    /// Towards the back.
    older: Slot,
}

/// Some objects of a shelf in an order, new ones in front.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    newest: Slot,
    pub(super) oldest: Slot,
    /// Of all of its objects together.
    pub(super) weight: u64,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { newest: NONE, oldest: NONE, weight: 0 }
    }
}

/// Objects, each of them in a list of the policy's choice.
#[derive(Debug)]
pub(super) struct Shelf {
    nodes: Vec<Node>,
    index: Index,
    /// By slot: what the policy wants to remember of each object.
    marks: Vec<u8>,
    /// By slot; empty where every object counts as one.
    sizes: Vec<u32>,
    capacity: Capacity,
    /// The first slot that is free; the others hang on it.
    free: Slot,
}

/// Objects for which room is made at once at most: a capacity may be any number.
const PREPARED_MAX: u64 = 64 << 20;

impl Shelf {
    /// A shelf for so many objects at once, if capacities are objects.
    pub(super) fn new(capacity: Capacity, objects: u64) -> Self {
        let objects = match capacity {
            Capacity::Objects(_) => wide(objects.min(PREPARED_MAX)),
            Capacity::Bytes(_) => 0,
        };
        Self {
            nodes: Vec::with_capacity(objects),
            index: Index::for_objects(objects),
            marks: Vec::with_capacity(objects),
            sizes: Vec::new(),
            capacity,
            free: NONE,
        }
    }

    pub(super) fn find(&self, id: u64) -> Option<Slot> {
        self.index.find(id, |slot| self.nodes[slot as usize].id)
    }

    /// Requires: the object is not there yet. It is in no list, and its mark is 0.
    pub(super) fn add(&mut self, id: u64, size: u32) -> Slot {
        let node = Node { id, newer: NONE, older: NONE };
        let slot = self.free;
        let slot = if slot == NONE {
            self.nodes.push(node);
            self.marks.push(0);
            low_u32(self.nodes.len() - 1)
        } else {
            self.free = self.nodes[slot as usize].older;
            self.nodes[slot as usize] = node;
            self.marks[slot as usize] = 0;
            slot
        };
        if let Capacity::Bytes(_) = self.capacity {
            let at = slot as usize;
            if at == self.sizes.len() { self.sizes.push(size) } else { self.sizes[at] = size }
        }
        self.index.insert(id, slot, |slot| self.nodes[slot as usize].id);
        slot
    }

    /// Requires: it is in no list.
    pub(super) fn remove(&mut self, slot: Slot) {
        let id = self.nodes[slot as usize].id;
        self.index.remove(id, slot, |slot| self.nodes[slot as usize].id);
        self.nodes[slot as usize].older = self.free;
        self.free = slot;
    }

    /// What an object takes of the capacity.
    pub(super) fn weight(&self, slot: Slot) -> u64 {
        match self.capacity {
            Capacity::Objects(_) => 1,
            Capacity::Bytes(_) => u64::from(self.sizes[slot as usize]),
        }
    }

    /// What the policy remembers of an object.
    pub(super) fn mark(&self, slot: Slot) -> u8 {
        self.marks[slot as usize]
    }

    pub(super) fn set_mark(&mut self, slot: Slot, mark: u8) {
        self.marks[slot as usize] = mark;
    }

    /// The neighbour that is newer, in the list in which this one is; [`NONE`] at its front.
    pub(super) fn newer(&self, slot: Slot) -> Slot {
        self.nodes[slot as usize].newer
    }

    /// Puts an object that is in no list in front of one.
    pub(super) fn push(&mut self, list: &mut List, slot: Slot) {
        let before = list.newest;
        let node = &mut self.nodes[slot as usize];
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => list.oldest = slot,
            before => self.nodes[before as usize].newer = slot,
        }
        list.newest = slot;
        list.weight += self.weight(slot);
    }

    /// Takes an object out of the list in which it is.
    pub(super) fn unlink(&mut self, list: &mut List, slot: Slot) {
        let Node { newer, older, .. } = self.nodes[slot as usize];
        match newer {
            NONE => list.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        list.weight -= self.weight(slot);
    }

    /// Makes an object the newest of the list in which it is.
    pub(super) fn renew(&mut self, list: &mut List, slot: Slot) {
        if list.newest != slot {
            self.unlink(list, slot);
            self.push(list, slot);
        }
    }
}
