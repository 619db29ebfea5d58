//! Volume in memory whose requests can be made to wait, fail or panic.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::yield_now;
use zonal_base::{BLOCK_BYTES, Blocks, Lba};
use zonal_export::{Extent, Piece, Volume, VolumeError, WriteAck};

/// Clones share the volume.
#[derive(Clone)]
pub(crate) struct Memory(Rc<Shared>);

struct Shared {
    blocks: Blocks,
    stored: RefCell<BTreeMap<u64, Bytes>>,
    /// Requests that begin at these blocks wait.
    held: RefCell<BTreeSet<u64>>,
    released: Notify,
    failure: Cell<Option<VolumeError>>,
    /// Requests that begin at this block panic.
    fatal: Cell<Option<u64>>,
    /// First block, number of blocks and promise of each write.
    writes: RefCell<Vec<(u64, u64, WriteAck)>>,
    flushes: Cell<u64>,
    under_way: Cell<usize>,
    most_under_way: Cell<usize>,
}

struct UnderWay<'a>(&'a Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

impl Memory {
    pub(crate) fn new(size: zonal_base::Bytes) -> Self {
        Self(Rc::new(Shared {
            blocks: size.blocks_ceil(),
            stored: RefCell::default(),
            held: RefCell::default(),
            released: Notify::new(),
            failure: Cell::default(),
            fatal: Cell::default(),
            writes: RefCell::default(),
            flushes: Cell::default(),
            under_way: Cell::default(),
            most_under_way: Cell::default(),
        }))
    }

    /// Makes requests that begin at this block panic.
    pub(crate) fn panic_at(&self, lba: Option<u64>) {
        self.0.fatal.set(lba);
    }

    /// Makes requests that begin at this block wait.
    pub(crate) fn hold(&self, lba: u64) {
        self.0.held.borrow_mut().insert(lba);
    }

    pub(crate) fn release(&self, lba: u64) {
        self.0.held.borrow_mut().remove(&lba);
        self.0.released.notify_waiters();
    }

    pub(crate) fn fail(&self, failure: Option<VolumeError>) {
        self.0.failure.set(failure);
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.0.flushes.get()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.0.under_way.get()
    }

    pub(crate) fn most_under_way(&self) -> usize {
        self.0.most_under_way.get()
    }

    /// First block, number of blocks and promise of every write so far.
    pub(crate) fn writes(&self) -> Vec<(u64, u64, WriteAck)> {
        self.0.writes.borrow().clone()
    }

    pub(crate) fn stored_blocks(&self) -> usize {
        self.0.stored.borrow().len()
    }

    /// Yields to other tasks, and waits if the block is held.
    async fn begin(&self, lba: Lba) -> Result<UnderWay<'_>, VolumeError> {
        let shared = &*self.0;
        shared.under_way.set(shared.under_way.get() + 1);
        shared.most_under_way.set(shared.most_under_way.get().max(shared.under_way.get()));
        let under_way = UnderWay(shared);
        while shared.held.borrow().contains(&lba.0) {
            shared.released.notified().await;
        }
        yield_now().await;
        assert_ne!(shared.fatal.get(), Some(lba.0), "as the test wants it");
        shared.failure.get().map_or(Ok(under_way), Err)
    }

    fn check(&self, lba: Lba, blocks: Blocks) {
        assert!(0 < blocks.0 && lba.0 + blocks.0 <= self.0.blocks.0, "{lba} + {blocks:?}");
    }
}

impl Volume for Memory {
    fn blocks(&self) -> Blocks {
        self.0.blocks
    }

    async fn read(&self, lba: Lba, blocks: Blocks) -> Result<Vec<Piece>, VolumeError> {
        self.check(lba, blocks);
        let _under_way = self.begin(lba).await?;
        let stored = self.0.stored.borrow();
        let piece = |block| match stored.get(&block) {
            Some(data) => Piece::Data(data.clone()),
            None => Piece::Zeros(BLOCK_BYTES as u64),
        };
        Ok((lba.0..lba.0 + blocks.0).map(piece).collect())
    }

    async fn write(&self, lba: Lba, data: Bytes, ack: WriteAck) -> Result<(), VolumeError> {
        assert_eq!(data.as_ptr().align_offset(BLOCK_BYTES), 0);
        assert_eq!(data.len() % BLOCK_BYTES, 0);
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        self.check(lba, Blocks(blocks));
        let _under_way = self.begin(lba).await?;
        self.0.writes.borrow_mut().push((lba.0, blocks, ack));
        let mut stored = self.0.stored.borrow_mut();
        for (block, bytes) in (lba.0..).zip(data.chunks(BLOCK_BYTES)) {
            // Copied, because a slice would keep the whole payload in memory.
            stored.insert(block, Bytes::copy_from_slice(bytes));
        }
        Ok(())
    }

    async fn clear(&self, lba: Lba, blocks: Blocks, _: WriteAck) -> Result<(), VolumeError> {
        self.check(lba, blocks);
        let _under_way = self.begin(lba).await?;
        let mut stored = self.0.stored.borrow_mut();
        let mut behind = stored.split_off(&lba.0);
        stored.append(&mut behind.split_off(&(lba.0 + blocks.0)));
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        let _under_way = self.begin(Lba(u64::MAX)).await?;
        self.0.flushes.set(self.0.flushes.get() + 1);
        Ok(())
    }

    async fn status(
        &self,
        lba: Lba,
        blocks: Blocks,
        extents_max: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        self.check(lba, blocks);
        let _under_way = self.begin(lba).await?;
        let stored = self.0.stored.borrow();
        let mut extents: Vec<Extent> = Vec::new();
        let mut add = |is_stored, blocks: u64| {
            let length = Blocks(blocks).bytes();
            match extents.last_mut() {
                _ if blocks == 0 => {}
                Some(last) if last.is_stored == is_stored => last.length += length,
                _ => extents.push(Extent { length, is_stored }),
            }
        };
        let mut at = lba.0;
        for block in stored.range(lba.0..lba.0 + blocks.0).map(|(block, _)| *block) {
            add(false, block - at);
            add(true, 1);
            at = block + 1;
        }
        add(false, lba.0 + blocks.0 - at);
        extents.truncate(extents_max);
        Ok(extents)
    }
}
