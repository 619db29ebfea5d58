//! S3-FIFO main queue (SOSP'23) in DRAM: keeps copies of frequently read chunks in memory, beside flash.
//!
//! 1. A chunk that was read while it waited in the small queue enters at the end. So does a chunk at its second read
//!    from flash within the reach of a ghost list: only that read copies the bytes, not every read from flash.
//! 2. When the queue holds too many bytes, the first chunk leaves. A chunk that was read since it came goes to the end
//!    instead, once for each read.
//!
//! The tier is inclusive: each chunk is on flash as well, so a chunk that leaves is not lost.

use zonal_base::Bytes;

use crate::GhostList;
use crate::queue::{Queue, Queued};

/// DRAM hot set: a FIFO queue with second chances, and the ghost list that admits to it.
#[derive(Debug)]
pub struct MainQueue {
    room: Bytes,
    queue: Queue,
    /// Ghost list of chunks that were read once from flash lately.
    seen: GhostList,
}

/// Reach of the ghost list, as a multiple of the room. A chunk that is read more seldom would leave the queue before
/// its next read.
const REACH: u64 = 2;

impl MainQueue {
    /// A hot set for `room` bytes of chunks.
    #[must_use]
    pub fn new(room: Bytes) -> Self {
        Self { room, queue: Queue::default(), seen: GhostList::new(Bytes(room.0 * REACH)) }
    }

    /// Counts a read of a chunk. True if the chunk is in memory.
    pub fn read(&mut self, chunk: u64) -> bool {
        self.queue.read(chunk)
    }

    /// Records a read from flash. True if the caller should copy the chunk's bytes into memory.
    pub fn wants(&mut self, chunk: u64, len: Bytes) -> bool {
        if self.room < len {
            return false;
        }
        let is_known = self.seen.remove(chunk);
        if !is_known {
            self.seen.insert(chunk, len);
        }
        is_known
    }

    /// Adds a chunk. False when the chunk is larger than the room. Requires: the chunk is not in the hot set.
    pub fn insert(&mut self, chunk: u64, len: Bytes) -> bool {
        if self.room < len {
            return false;
        }
        self.queue.push(Queued { chunk, len, reads: 0 });
        true
    }

    /// The next chunk that must leave memory. `None`: the hot set fits its room.
    pub fn leave(&mut self) -> Option<u64> {
        loop {
            let first = self.queue.pop_beyond(self.room)?;
            match first.reads.checked_sub(1) {
                None => return Some(first.chunk),
                Some(reads) => self.queue.push(Queued { reads, ..first }),
            }
        }
    }

    /// Forgets a stale chunk. Its room is free when its turn comes.
    pub fn forget(&mut self, chunk: u64) {
        self.queue.forget(chunk);
    }

    /// Memory of the queue and the ghost list in bytes, without the chunks themselves.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        self.queue.memory() + self.seen.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_from_flash_is_worth_a_copy() {
        let mut hot = MainQueue::new(Bytes(4));
        assert!(!hot.wants(1, Bytes(1)) && !hot.wants(2, Bytes(1)));
        assert!(hot.wants(1, Bytes(1)));
        assert!(!hot.wants(3, Bytes(5)) && !hot.wants(3, Bytes(5)), "it would not fit");
        assert!(!hot.insert(3, Bytes(5)));
    }

    #[test]
    fn what_was_read_goes_round_once_more_for_each_read() {
        let mut hot = MainQueue::new(Bytes(3));
        for chunk in 1..=3 {
            assert!(hot.insert(chunk, Bytes(1)));
        }
        assert!(hot.read(1) && hot.read(1) && hot.read(2) && !hot.read(4));
        assert_eq!(hot.leave(), None);
        let gone: [u64; 4] = [4, 5, 6, 7].map(|chunk| {
            assert!(hot.insert(chunk, Bytes(1)));
            let gone = hot.leave().unwrap();
            assert_eq!(hot.leave(), None);
            gone
        });
        assert_eq!(gone, [3, 4, 2, 5]);
        assert!(hot.read(1), "two rounds are over, and it was read before the third");
    }

    #[test]
    fn what_was_forgotten_is_not_there() {
        let mut hot = MainQueue::new(Bytes(1));
        assert!(hot.insert(1, Bytes(1)));
        hot.forget(1);
        assert!(!hot.read(1) && hot.insert(1, Bytes(1)));
        assert_eq!(hot.leave(), None, "only its own room was left");
        assert!(hot.read(1));
    }
}
