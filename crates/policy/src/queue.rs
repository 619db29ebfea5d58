//! FIFO queue with read counts: the building block of S3-FIFO's small and main queues, for chunks in memory.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use zonal_base::{Bytes, mix64};

/// FIFO of chunks that counts their bytes. The entry of a forgotten chunk stays until its turn comes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: VecDeque<Queued>,
    /// Position of each chunk in the queue, counted from the first entry ever pushed.
    places: HashMap<u64, u64, Mixed>,
    /// Position of the entry at the front.
    first: u64,
    /// Bytes of all entries, forgotten ones included.
    bytes: Bytes,
}

/// Queue entry of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) chunk: u64,
    pub(crate) len: Bytes,
    /// Number of reads, counted up to [`READS_MAX`].
    pub(crate) reads: u8,
}

/// Saturation of the read count: the two bits of S3-FIFO.
const READS_MAX: u8 = 3;

impl Queue {
    /// Adds a chunk at the end. Requires: the chunk is not in the queue.
    pub(crate) fn push(&mut self, queued: Queued) {
        self.places.insert(queued.chunk, self.first + self.line.len() as u64);
        self.bytes += queued.len;
        self.line.push_back(queued);
    }

    /// Removes the first chunk that was not forgotten, while the queue holds more bytes than `room`.
    pub(crate) fn pop_beyond(&mut self, room: Bytes) -> Option<Queued> {
        while room < self.bytes {
            let queued = self.line.pop_front()?;
            let number = self.first;
            self.first += 1;
            self.bytes = Bytes(self.bytes.0 - queued.len.0);
            // The chunk may have been forgotten, and even been pushed again since.
            if self.places.get(&queued.chunk) == Some(&number) {
                self.places.remove(&queued.chunk);
                return Some(queued);
            }
        }
        None
    }

    /// Counts a read of a chunk. True if the chunk is in the queue.
    pub(crate) fn read(&mut self, chunk: u64) -> bool {
        let Some(place) = self.places.get(&chunk) else { return false };
        let queued = &mut self.line[zonal_base::index(place - self.first)];
        queued.reads = (queued.reads + 1).min(READS_MAX);
        true
    }

    /// Removes a chunk lazily: its bytes are free when its turn comes.
    pub(crate) fn forget(&mut self, chunk: u64) {
        self.places.remove(&chunk);
    }

    /// Memory of the queue in bytes, without the chunks themselves.
    pub(crate) fn memory(&self) -> Bytes {
        let line = self.line.capacity() * size_of::<Queued>();
        let places = self.places.capacity() * size_of::<(u64, u64)>();
        Bytes((line + places) as u64)
    }
}

/// Hasher that mixes chunk numbers: they may be hashes, or count from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed;

impl core::hash::BuildHasher for Mixed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

struct Mixer(u64);

impl core::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = mix64(self.0 ^ n);
    }
}
