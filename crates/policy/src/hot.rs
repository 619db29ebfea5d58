//! What is read again and again stays in memory as well: S3-FIFO's main queue (SOSP'23), beside flash.
//!
//! 1. What was read while it waited before flash goes to the end of the queue. So does what is read from flash a
//!    second time within the reach of a ghost list: one more read of its bytes is copied, not every one.
//! 2. When there is too much, the first goes; if it was read since it came, to the end of the queue once for each read.
//!
//! It is on flash all the same: nothing is lost with what goes.

use zonal_base::Bytes;

use crate::Ghost;
use crate::queue::{Queue, Queued};

/// See the module.
#[derive(Debug)]
pub struct Hot {
    room: Bytes,
    queue: Queue,
    /// Read from flash lately.
    seen: Ghost,
}

/// The ghost list reaches back over so many times the room: what comes round more seldom would not be read again
/// before it goes.
const REACH: u64 = 2;

impl Hot {
    /// For so many bytes.
    #[must_use]
    pub fn new(room: Bytes) -> Self {
        Self { room, queue: Queue::default(), seen: Ghost::new(Bytes(room.0 * REACH)) }
    }

    /// A read: true if the chunk is in memory.
    pub fn read(&mut self, chunk: u64) -> bool {
        self.queue.read(chunk)
    }

    /// A chunk was read from flash: true if its bytes are worth a copy.
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

    /// Requires: the chunk is not there. False when it would not fit.
    pub fn insert(&mut self, chunk: u64, len: Bytes) -> bool {
        if self.room < len {
            return false;
        }
        self.queue.push(Queued { chunk, len, reads: 0 });
        true
    }

    /// Who goes, while more is there than fits.
    pub fn leave(&mut self) -> Option<u64> {
        loop {
            let first = self.queue.pop_beyond(self.room)?;
            match first.reads.checked_sub(1) {
                None => return Some(first.chunk),
                Some(reads) => self.queue.push(Queued { reads, ..first }),
            }
        }
    }

    /// A chunk is stale. Its room is free when its turn comes.
    pub fn forget(&mut self, chunk: u64) {
        self.queue.forget(chunk);
    }

    /// Memory that is taken beside the chunks themselves.
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
        let mut hot = Hot::new(Bytes(4));
        assert!(!hot.wants(1, Bytes(1)) && !hot.wants(2, Bytes(1)));
        assert!(hot.wants(1, Bytes(1)));
        assert!(!hot.wants(3, Bytes(5)) && !hot.wants(3, Bytes(5)), "it would not fit");
        assert!(!hot.insert(3, Bytes(5)));
    }

    #[test]
    fn what_was_read_goes_round_once_more_for_each_read() {
        let mut hot = Hot::new(Bytes(3));
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
        let mut hot = Hot::new(Bytes(1));
        assert!(hot.insert(1, Bytes(1)));
        hot.forget(1);
        assert!(!hot.read(1) && hot.insert(1, Bytes(1)));
        assert_eq!(hot.leave(), None, "only its own room was left");
        assert!(hot.read(1));
    }
}
