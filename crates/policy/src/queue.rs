//! Chunks in memory, first in first out, each with what was read of it.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use zonal_base::{Bytes, mix64};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: VecDeque<Queued>,
    /// Where each chunk stands, counted from the first that ever did.
    places: HashMap<u64, u64, Mixed>,
    /// The number of the first of the line.
    first: u64,
    /// Of all that stand in the line, also of those that were forgotten.
    bytes: Bytes,
}

/// A chunk in the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) chunk: u64,
    pub(crate) len: Bytes,
    /// Counted up to [`READS_MAX`].
    pub(crate) reads: u8,
}

/// More reads are not told apart: S3-FIFO's two bits.
const READS_MAX: u8 = 3;

impl Queue {
    /// Requires: it is not in the line.
    pub(crate) fn push(&mut self, queued: Queued) {
        self.places.insert(queued.chunk, self.first + self.line.len() as u64);
        self.bytes += queued.len;
        self.line.push_back(queued);
    }

    /// The first that was not forgotten, while more stands there than `room`.
    pub(crate) fn pop_beyond(&mut self, room: Bytes) -> Option<Queued> {
        while room < self.bytes {
            let queued = self.line.pop_front()?;
            let number = self.first;
            self.first += 1;
            self.bytes = Bytes(self.bytes.0 - queued.len.0);
            // It may have been forgotten, and even stand there anew.
            if self.places.get(&queued.chunk) == Some(&number) {
                self.places.remove(&queued.chunk);
                return Some(queued);
            }
        }
        None
    }

    /// A read: true if the chunk is in the line.
    pub(crate) fn read(&mut self, chunk: u64) -> bool {
        let Some(place) = self.places.get(&chunk) else { return false };
        let queued = &mut self.line[zonal_base::index(place - self.first)];
        queued.reads = (queued.reads + 1).min(READS_MAX);
        true
    }

    /// Its room is free when its turn comes.
    pub(crate) fn forget(&mut self, chunk: u64) {
        self.places.remove(&chunk);
    }

    /// Memory that is taken beside the chunks themselves.
    pub(crate) fn memory(&self) -> Bytes {
        let line = self.line.capacity() * size_of::<Queued>();
        let places = self.places.capacity() * size_of::<(u64, u64)>();
        Bytes((line + places) as u64)
    }
}

/// Chunk numbers may be anything: the bits of a hash, or counted from 0.
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
