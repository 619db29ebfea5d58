//! B-tree page reads, as WiredTiger's when its memory is smaller than the tree.
//!
//! Each lookup goes from the root to a leaf. A page that is not among the recently used pages is
//! read.

use std::collections::BTreeMap;

use zonal_base::{Bytes, Rng, index, low_u32};

use crate::Draw;
use crate::trace::NumberMap;

/// A B-tree, and the LRU of pages in its reader's memory.
#[derive(Clone, Debug)]
pub struct BTree {
    draw: Draw,
    per_leaf: u64,
    fanout: u64,
    /// Pages per chunk. `chunk` is the size of a chunk in bytes.
    per_chunk: u64,
    chunk: u32,
    /// First page of each level, leaves first, and the end of the last level.
    levels: Vec<u64>,
    memory: Memory,
    /// Pages that the current lookup still needs. The next one is last.
    path: Vec<u64>,
    lookups: u64,
}

/// LRU of pages.
#[derive(Clone, Debug, Default)]
struct Memory {
    most: usize,
    now: u64,
    used: NumberMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

/// Sizes in a B-tree.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page: Bytes,
    /// Bytes of a record with its key.
    pub record: Bytes,
    /// Bytes of a key and a pointer in an inner page.
    pub entry: Bytes,
    /// Memory of the reader in bytes.
    pub memory: Bytes,
    /// Bytes of a chunk of the tree's file, the unit of requests. A chunk of one page requests
    /// pages.
    pub chunk: Bytes,
}

impl BTree {
    /// A tree with lookups of the records that `draw` draws. Records are sorted by number.
    ///
    /// # Errors
    /// When no record fits a page, fewer than two entries fit, or a chunk is not a whole number of
    /// pages.
    pub fn new(draw: Draw, shape: Shape) -> Result<Self, String> {
        let Shape { page, record, entry, memory, chunk } = shape;
        let (per_leaf, fanout) = (page.0 / record.0.max(1), page.0 / entry.0.max(1));
        if per_leaf == 0 || fanout < 2 {
            return Err(format!("a page of {page} must hold a record and two entries"));
        }
        if chunk.0 == 0 || !chunk.0.is_multiple_of(page.0) || u64::from(u32::MAX) < chunk.0 {
            return Err(format!(
                "a chunk must be a multiple of the page size {page} and below 4GiB, not {chunk}"
            ));
        }
        let (mut levels, mut pages) = (vec![0], draw.keys().div_ceil(per_leaf));
        loop {
            levels.push(levels.last().copied().unwrap_or(0) + pages);
            if pages == 1 {
                break;
            }
            pages = pages.div_ceil(fanout);
        }
        let memory = Memory { most: index(memory.0 / page.0).max(1), ..Memory::default() };
        let (per_chunk, chunk) = (chunk.0 / page.0, low_u32(index(chunk.0)));
        Ok(Self {
            draw,
            per_leaf,
            fanout,
            per_chunk,
            chunk,
            levels,
            memory,
            path: Vec::new(),
            lookups: 0,
        })
    }

    /// Number of pages of the tree.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.levels.last().copied().unwrap_or(0)
    }

    /// Lookups that were started.
    pub(crate) const fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Chunk of the next page that is not in memory, and its size in bytes.
    pub(super) fn next(&mut self, rng: &mut Rng) -> (u64, u32) {
        (self.next_page(rng) / self.per_chunk, self.chunk)
    }

    /// Next page that is not in memory.
    pub(crate) fn next_page(&mut self, rng: &mut Rng) -> u64 {
        loop {
            while let Some(page) = self.path.pop() {
                if !self.memory.has(page) {
                    return page;
                }
            }
            self.lookups += 1;
            let mut at = self.draw.key(rng) / self.per_leaf;
            for first in &self.levels[..self.levels.len() - 1] {
                self.path.push(first + at);
                at /= self.fanout;
            }
        }
    }
}

impl Memory {
    /// Makes the page the most recent. False: the page was not in memory.
    fn has(&mut self, page: u64) -> bool {
        self.now += 1;
        let before = self.used.insert(page, self.now);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.now, page);
        if self.most < self.used.len()
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    fn shape(memory_pages: u64) -> Shape {
        let page = Bytes::kib(32);
        let memory = Bytes(memory_pages * page.0);
        Shape { page, record: Bytes::kib(1), entry: Bytes(64), memory, chunk: page }
    }

    fn tree(records: u64, shape: Shape) -> BTree {
        BTree::new(Draw::new(Distribution::Uniform, records, 1), shape).expect("a page has room")
    }

    #[test]
    fn a_tree_has_its_leaves_and_what_leads_to_them() {
        // A leaf has 32 records, and an inner page 512 children.
        assert_eq!(tree(32, shape(1)).pages(), 1);
        assert_eq!(tree(32 * 512, shape(1)).pages(), 512 + 1);
        assert_eq!(tree(32 * 512 * 3, shape(1)).pages(), 3 * 512 + 3 + 1);
    }

    #[test]
    fn of_records_that_are_alike_as_many_leaves_are_read_as_do_not_fit_into_memory() {
        // All inner pages stay in memory: every lookup uses them. Of 2048 leaves 512 - 5 fit.
        let (mut tree, mut rng) = (tree(32 * 2048, shape(512)), Rng::new(3));
        for _ in 0..20_000 {
            tree.next_page(&mut rng);
        }
        let begun = tree.memory.now;
        const READS: u32 = 20_000;
        let mut others = 0;
        for _ in 0..READS {
            others += u32::from(2048 <= tree.next_page(&mut rng));
        }
        // Each lookup uses three pages.
        let lookups = (tree.memory.now - begun) as f64 / 3.0;
        let (missed, expected) = (f64::from(READS) / lookups, 1.0 - 507.0 / 2048.0);
        assert!((missed / expected - 1.0).abs() < 0.02, "{missed}, {expected}");
        assert_eq!(others, 0);
    }

    #[test]
    fn pages_that_lie_together_are_one_chunk() {
        let (mut pages, mut rng) = (tree(32 * 2048, shape(8)), Rng::new(3));
        let shape = Shape { chunk: Bytes::kib(256), ..shape(8) };
        let (mut chunks, mut same) = (tree(32 * 2048, shape), Rng::new(3));
        for _ in 0..1000 {
            let page = pages.next(&mut rng).0;
            assert_eq!(chunks.next(&mut same), (page / 8, 256 << 10));
        }
        let draw = Draw::new(Distribution::Uniform, 10, 1);
        let odd = BTree::new(draw, Shape { chunk: Bytes::kib(48), ..shape });
        assert!(odd.map(drop).expect_err("not whole").contains("not 48KiB"));
        let small = BTree::new(draw, Shape { record: Bytes::kib(64), ..shape });
        assert!(small.map(drop).expect_err("no room").contains("must hold a record"));
    }
}
