//! Buffer pool: block-aligned memory in a few sizes, bounded in number, reused without allocation.
//!
//! A [`Buffer`] has one owner while a read fills it. [`Buffer::freeze`] turns it into a shared, read-only [`Payload`] without
//! a copy. The memory returns to the pool when the last payload is dropped, on any thread. The pool keeps its memory and a
//! buffer keeps its [`Buffer::id`], so a device may register each buffer once.
//!
//! Buffers of one size lie side by side in one region, which the system can back with huge pages. A transfer is then one
//! segment of physical memory to the device, not one for each 4 KiB.
//!
//! A pool of [`Contents::Tags`] copies the [`Tag`] of each block instead of its data, and checksums cover the tags. A
//! simulation handles terabytes this way. Users of the buffers see no difference.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, BytesMut};
use crossbeam_queue::ArrayQueue;

use crate::payload::{Contents, Payload};
use crate::tag::{TAG_BYTES, Tag};
use crate::units::BLOCK_BYTES;
use crate::{Blocks, Bytes, Checksum, Seed};

/// Alignment of large regions: a huge page of x86-64 and AArch64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// One size of buffer that a pool hands out, and how many of them may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolClass {
    /// Size of each buffer.
    pub blocks: Blocks,
    /// Buffers of this size that may exist at once.
    pub count: u32,
}

/// A bounded set of buffers in a few sizes. Clones share it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<PoolInner>,
}

struct PoolInner {
    /// By rising size.
    classes: Vec<SizeClass>,
    regions: Vec<Region>,
    /// Set by a take that found nothing. The next buffer to return calls `on_return`.
    has_waiter: AtomicBool,
    on_return: Box<dyn Fn() + Send + Sync>,
    /// Whether [`Buffer::copy_from`] copies data or tags.
    copies: Contents,
}

struct SizeClass {
    blocks: usize,
    count: u32,
    /// Memory that was never used. The system provides it when it is first touched.
    fresh: ArrayQueue<Box<BufferMemory>>,
    /// Memory that returned.
    free: ArrayQueue<Box<BufferMemory>>,
}

/// The memory of one buffer with its id. It is boxed because a read moves it about ten times: each move copies a pointer.
struct BufferMemory {
    memory: BytesMut,
    id: u32,
    class_id: usize,
    contents: Contents,
}

/// Address range of the buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub address: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl Pool {
    /// A pool whose buffers are all free. The pool calls `on_return` on any thread when a buffer returns after a
    /// [`Pool::take`] found none: the owner of the pool wakes its waiting tasks there.
    ///
    /// Requires: at least one class, each with at least one block and one buffer.
    #[must_use]
    pub fn new(classes: &[PoolClass], on_return: Box<dyn Fn() + Send + Sync>) -> Self {
        Self::holding(Contents::Bytes, classes, on_return)
    }

    /// As [`Pool::new`]. `copies` says whether [`Buffer::copy_from`] copies data or tags.
    #[must_use]
    pub fn holding(
        copies: Contents,
        classes: &[PoolClass],
        on_return: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        assert!(!classes.is_empty());
        let mut sorted = classes.to_vec();
        sorted.sort_by_key(|class| class.blocks);
        let (mut next_id, mut regions) = (0, Vec::with_capacity(sorted.len()));
        let classes = sorted
            .iter()
            .map(|class| {
                let (made, region) = SizeClass::new(*class, regions.len(), next_id);
                next_id += class.count;
                regions.push(region);
                made
            })
            .collect();
        let has_waiter = AtomicBool::new(false);
        Self { shared: Arc::new(PoolInner { classes, regions, has_waiter, on_return, copies }) }
    }

    /// A buffer of at least `blocks`. `None` when all of that size are in use: the pool calls `on_return` as soon as one
    /// returns.
    ///
    /// Requires: `blocks` is at most [`Pool::largest`].
    #[must_use]
    pub fn take(&self, blocks: Blocks) -> Option<Buffer> {
        self.take_leaving(blocks, 0)
    }

    /// As [`Pool::take`], if at least `left` buffers of that size remain free.
    #[must_use]
    pub fn take_leaving(&self, blocks: Blocks, left: u32) -> Option<Buffer> {
        let class = self.class_for(blocks);
        let free = self.take_from(class, left);
        if free.is_some() {
            return free;
        }
        // Announce the wait, then try again: a buffer may have returned in between.
        self.shared.has_waiter.store(true, Ordering::SeqCst);
        self.take_from(class, left)
    }

    fn take_from(&self, class_id: usize, left: u32) -> Option<Buffer> {
        let class = &self.shared.classes[class_id];
        if u64::from(class.count) <= class.in_use() + u64::from(left) {
            return None;
        }
        let mut piece = class.free.pop().or_else(|| class.fresh.pop())?;
        piece.contents = Contents::Bytes;
        Some(Buffer { memory: Some(piece), pool: self.shared.clone() })
    }

    /// The largest buffer that this pool hands out.
    #[must_use]
    pub fn largest(&self) -> Blocks {
        let last = self.shared.classes.last().expect("a pool has a class");
        Blocks(last.blocks as u64)
    }

    /// Buffers in use, of any size. At rest this is 0.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.shared.classes.iter().map(SizeClass::in_use).sum()
    }

    /// True when fewer than a quarter of the buffers of this size are free. A holder that may keep a buffer for long (a
    /// client's socket) copies instead.
    #[must_use]
    pub fn is_short(&self, blocks: Blocks) -> bool {
        let class = &self.shared.classes[self.class_for(blocks)];
        u64::from(class.count) * 3 < class.in_use() * 4
    }

    /// Number of buffers in the pool: ids are below it.
    #[must_use]
    pub fn max_count(&self) -> u32 {
        self.shared.classes.iter().map(|class| class.count).sum()
    }

    /// Bytes of all buffers together.
    #[must_use]
    pub fn max_bytes(&self) -> Bytes {
        let blocks = |class: &SizeClass| u64::from(class.count) * class.blocks as u64;
        Blocks(self.shared.classes.iter().map(blocks).sum()).bytes()
    }

    /// Address ranges of all buffers, for `madvise` before the first use.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.shared.regions
    }

    fn class_for(&self, blocks: Blocks) -> usize {
        let classes = &self.shared.classes;
        classes
            .iter()
            .position(|class| blocks.0 <= class.blocks as u64)
            .expect("no caller asks for more than the largest class")
    }
}

impl SizeClass {
    fn new(class: PoolClass, class_id: usize, first_id: u32) -> (Self, Region) {
        assert!(0 < class.count && 0 < class.blocks.0);
        let (count, blocks) = (class.count as usize, crate::index(class.blocks.0));
        let mut memory = region(count * blocks * BLOCK_BYTES);
        let place = Region { address: memory.as_ptr().addr(), bytes: memory.len() };
        let (fresh, free) = (ArrayQueue::new(count), ArrayQueue::new(count));
        for id in first_id..first_id + class.count {
            let (memory, contents) = (memory.split_to(blocks * BLOCK_BYTES), Contents::Bytes);
            let room = fresh.push(Box::new(BufferMemory { memory, id, class_id, contents }));
            assert!(room.is_ok(), "made for so many");
        }
        (Self { blocks, count: class.count, fresh, free }, place)
    }

    fn in_use(&self) -> u64 {
        u64::from(self.count).saturating_sub((self.fresh.len() + self.free.len()) as u64)
    }
}

/// Zeroed memory, aligned to a huge page where it is that large. The system provides the memory when it is touched.
fn region(bytes: usize) -> BytesMut {
    let align = if bytes < HUGE_PAGE_BYTES { BLOCK_BYTES } else { HUGE_PAGE_BYTES };
    let mut region = BytesMut::zeroed(bytes + align);
    region.advance(region.as_ptr().align_offset(align));
    region.truncate(bytes);
    region
}

/// The invariant that a buffer has its memory until it is dropped.
const HELD: &str = "only a buffer that is dropped gives its memory back";

/// Block-aligned memory with one owner.
pub struct Buffer {
    /// `None` once it returned to the pool.
    memory: Option<Box<BufferMemory>>,
    pool: Arc<PoolInner>,
}

impl Buffer {
    fn memory(&self) -> &BufferMemory {
        self.memory.as_deref().expect(HELD)
    }

    fn memory_mut(&mut self) -> &mut BufferMemory {
        self.memory.as_deref_mut().expect(HELD)
    }

    /// Number of this memory as long as the pool lives, below [`Pool::max_count`].
    #[must_use]
    pub fn id(&self) -> u32 {
        self.memory().id
    }

    /// The bytes: as many as the size class has, not as the request asked for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory().memory
    }

    /// The bytes, to be filled.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory_mut().memory
    }

    /// Copies `bytes` to offset `at`. In a pool of tags, a whole block is reduced to its tag.
    pub fn copy_from(&mut self, at: usize, bytes: &[u8]) {
        let copies = self.pool.copies;
        let BufferMemory { memory, contents, .. } = self.memory_mut();
        if copies == Contents::Bytes {
            memory[at..at + bytes.len()].copy_from_slice(bytes);
            return;
        }
        let front = at.next_multiple_of(BLOCK_BYTES).min(at + bytes.len()) - at;
        let (front, rest) = bytes.split_at(front);
        let begin = at + front.len();
        memory[at..begin].copy_from_slice(front);
        let ours = memory[begin..begin + rest.len()].chunks_mut(BLOCK_BYTES);
        for (ours, block) in ours.zip(rest.chunks(BLOCK_BYTES)) {
            if block.len() < BLOCK_BYTES {
                ours.copy_from_slice(block);
                return;
            }
            ours[..TAG_BYTES].copy_from_slice(&block[..TAG_BYTES]);
            *contents = Contents::Tags;
        }
    }

    /// Sets the tags of blocks, beginning with `tag`. For devices that store tags.
    pub fn set_tags(&mut self, blocks: Range<usize>, tag: Tag) {
        let piece = self.memory_mut();
        piece.contents = Contents::Tags;
        let memory = &mut piece.memory[blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES];
        for (number, block) in (0..).zip(memory.chunks_exact_mut(BLOCK_BYTES)) {
            block[..TAG_BYTES].copy_from_slice(&tag.plus(Blocks(number)).encode());
        }
    }

    /// The checksum of `seed` and a part. Of tags, the first one stands for the part.
    #[must_use]
    pub fn checksum(&self, checksum: Checksum, seed: &Seed, part: Range<usize>) -> u32 {
        let BufferMemory { memory, contents, .. } = self.memory();
        checksum.behind(seed, contents.significant(&memory[part]))
    }

    /// Size of the memory.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        Blocks((self.memory().memory.len() / BLOCK_BYTES) as u64)
    }

    /// Shares the first `len` bytes, read-only from now on.
    #[must_use]
    pub fn freeze(self, len: usize) -> Payload {
        let contents = self.memory().contents;
        let mut bytes = bytes::Bytes::from_owner(Frozen(self));
        assert!(len <= bytes.len());
        bytes.truncate(len);
        Payload::new(bytes, contents)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(piece) = self.memory.take() else { return };
        let returned = self.pool.classes[piece.class_id].free.push(piece);
        assert!(returned.is_ok(), "a pool has room for every buffer that it made");
        let waits = &self.pool.has_waiter;
        // A load costs far less than a swap, and a waiter is rare.
        if waits.load(Ordering::SeqCst) && waits.swap(false, Ordering::SeqCst) {
            (self.pool.on_return)();
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({}, {} blocks)", self.id(), self.blocks().0)
    }
}

impl Payload {
    /// A copy in memory of its own, aligned like a [`Buffer`], for data that outlives a loan from the pool. It reuses
    /// the memory of `spare` when that has the same length and no other holder: fresh memory from the system costs more
    /// than the copy.
    #[must_use]
    pub fn to_own_memory(&self, spare: Option<Self>) -> Self {
        let (bytes, contents) = (self.as_bytes(), self.contents());
        if bytes.len() < BLOCK_BYTES {
            return Self::new(bytes::Bytes::copy_from_slice(bytes), contents);
        }
        let spare = spare.filter(|spare| spare.len() == bytes.len());
        let spare = spare.and_then(|spare| spare.into_bytes().try_into_mut().ok());
        let mut memory = spare.unwrap_or_else(|| region(bytes.len()));
        for (ours, block) in memory.chunks_mut(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)) {
            let significant = contents.significant(block);
            ours[..significant.len()].copy_from_slice(significant);
        }
        Self::new(memory.freeze(), contents)
    }
}

struct Frozen(Buffer);

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::sync::atomic::AtomicUsize;

    fn pool(returns: &Arc<AtomicUsize>) -> Pool {
        let returns = returns.clone();
        let classes =
            [PoolClass { blocks: Blocks(16), count: 1 }, PoolClass { blocks: Blocks(1), count: 2 }];
        let count = move || {
            returns.fetch_add(1, Ordering::Relaxed);
        };
        Pool::new(&classes, Box::new(count))
    }

    #[test]
    fn a_buffer_is_aligned_and_comes_back_when_the_last_payload_is_dropped() {
        let pool = pool(&Arc::default());
        let mut buffer = pool.take(Blocks(3)).unwrap();
        assert_eq!(buffer.bytes().as_ptr().align_offset(BLOCK_BYTES), 0);
        assert_eq!(buffer.blocks(), Blocks(16), "the class's size");
        buffer.bytes_mut()[..5].copy_from_slice(b"zones");
        let payload = buffer.freeze(5);
        let part = payload.slice(1..4);
        drop(payload);
        assert_eq!((part.as_bytes(), pool.in_use()), (&b"one"[..], 1));
        drop(part);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn buffers_of_one_size_lie_side_by_side_in_aligned_memory() {
        let classes = [PoolClass { blocks: Blocks(16), count: 64 }];
        let pool = Pool::new(&classes, Box::new(|| ()));
        let region = pool.regions()[0];
        assert_eq!((region.address % HUGE_PAGE_BYTES, region.bytes), (0, 4 << 20));
        let buffers: Vec<Buffer> = (0..64).map(|_| pool.take(Blocks(16)).unwrap()).collect();
        for (number, buffer) in buffers.iter().enumerate() {
            let address = region.address + number * 16 * BLOCK_BYTES;
            assert_eq!(buffer.bytes().as_ptr().addr(), address);
        }
    }

    #[test]
    fn an_empty_pool_refuses_and_calls_when_a_buffer_is_back() {
        let returns = Arc::new(AtomicUsize::new(0));
        let pool = pool(&returns);
        let first = pool.take(Blocks(1)).unwrap();
        let second = pool.take(Blocks(1)).unwrap();
        assert_ne!(first.id(), second.id());
        drop(first);
        assert_eq!(returns.load(Ordering::Relaxed), 0, "nobody waited");
        let third = pool.take(Blocks(1)).unwrap();
        assert!(pool.take(Blocks(1)).is_none());
        drop(third);
        assert_eq!(returns.load(Ordering::Relaxed), 1);
        assert_eq!(pool.max_bytes(), Blocks(18).bytes());
        drop(second);
    }

    #[test]
    fn a_copy_in_memory_of_its_own_outlives_the_buffer() {
        let pool = pool(&Arc::default());
        for len in [5, BLOCK_BYTES, 3 * BLOCK_BYTES + 7] {
            let mut buffer = pool.take(Blocks(16)).unwrap();
            buffer.bytes_mut().fill(7);
            let payload = buffer.freeze(len);
            let copy = payload.to_own_memory(None);
            assert!(copy == payload && (len < BLOCK_BYTES || is_aligned(&copy)), "{len}");
            drop(payload);
            assert_eq!((copy.as_bytes(), pool.in_use()), (&vec![7; len][..], 0));
        }
    }

    #[test]
    fn a_copy_takes_the_memory_of_one_that_nobody_holds_any_more() {
        let payload = |byte: u8, len| Payload::from(bytes::Bytes::from(alloc::vec![byte; len]));
        let len = 2 * BLOCK_BYTES + 1;
        let first = payload(1, len).to_own_memory(None);
        let (address, held) = (first.as_bytes().as_ptr(), first.clone());
        let check = |spare: Payload, len, is_there| {
            let copy = payload(2, len).to_own_memory(Some(spare));
            assert!(copy == payload(2, len) && is_aligned(&copy), "{len}");
            assert_eq!(copy.as_bytes().as_ptr() == address, is_there, "{len}");
        };
        check(first, len, false);
        assert_eq!(held, payload(1, len), "somebody holds it");
        check(held.clone(), len - 1, false);
        check(held, len, true);
    }

    fn is_aligned(payload: &Payload) -> bool {
        payload.as_bytes().as_ptr().align_offset(BLOCK_BYTES) == 0
    }

    #[test]
    fn of_whole_blocks_only_tags_are_copied_where_those_are_all_that_is_held() {
        let classes = [PoolClass { blocks: Blocks(4), count: 1 }];
        let pool = Pool::holding(Contents::Tags, &classes, Box::new(|| ()));
        let sum = Checksum(|crc, bytes| bytes.iter().fold(crc, |sum, byte| sum + u32::from(*byte)));
        let came = [1; 4 * BLOCK_BYTES];

        let mut short = pool.take(Blocks(4)).unwrap();
        short.copy_from(0, &came[..BLOCK_BYTES - 1]);
        assert_eq!(short.checksum(sum, &[0; 24], 0..BLOCK_BYTES), 4095, "not a whole block");
        let short = short.freeze(BLOCK_BYTES);
        assert_eq!(short.tag(), None);
        drop(short);

        let mut long = pool.take(Blocks(4)).unwrap();
        long.bytes_mut().fill(0);
        // In two parts that meet in the middle of the second block.
        long.copy_from(0, &came[..BLOCK_BYTES + 100]);
        long.copy_from(BLOCK_BYTES + 100, &came[..2 * BLOCK_BYTES]);
        let copied = |block: usize| {
            let bytes = &long.bytes()[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES];
            bytes.iter().filter(|byte| **byte == 1).count()
        };
        assert_eq!([0, 1, 2, 3].map(copied), [TAG_BYTES, BLOCK_BYTES, TAG_BYTES, 100]);
        assert_eq!(long.checksum(sum, &[2; 24], BLOCK_BYTES..3 * BLOCK_BYTES), 64);
        let ones = u64::from_le_bytes([1; 8]);
        let tag = Tag { source: ones, block: Blocks(ones) };
        assert_eq!(long.freeze(2 * BLOCK_BYTES).tag(), Some(tag));
    }
}
