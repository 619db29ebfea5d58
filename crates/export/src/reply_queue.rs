//! Reply queue of a socket: small replies are gathered in one buffer, and data is sent as the
//! volume returned it.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use zonal_base::index;

/// Shared zeros for replies that cannot describe a hole: 64 KiB, so that a long run takes few
/// pieces.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Queue of bytes to send.
#[derive(Debug, Default)]
pub(crate) struct ReplyQueue {
    pieces: VecDeque<Bytes>,
    /// Headers that were appended after the last piece.
    tail: BytesMut,
    bytes: u64,
}

impl ReplyQueue {
    /// Number of queued bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the bytes that `write` produces. They are copied, so this is for headers.
    pub(crate) fn header(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.bytes += (self.tail.len() - before) as u64;
    }

    /// Appends data without a copy.
    pub(crate) fn data(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.bytes += data.len() as u64;
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.pieces.push_back(data);
    }

    /// Appends zeros without allocating them.
    pub(crate) fn zeros(&mut self, mut bytes: u64) {
        while 0 < bytes {
            let part = bytes.min(ZEROS.len() as u64);
            self.data(Bytes::from_static(&ZEROS[..index(part)]));
            bytes -= part;
        }
    }

    /// Fills `slices` with the next bytes to send, and returns the number of slices.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        let waiting = self.pieces.iter().map(|piece| &piece[..]).chain(tail);
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(waiting) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    /// Removes sent bytes from the queue.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        self.bytes -= bytes as u64;
        while 0 < bytes {
            let Some(first) = self.pieces.front_mut() else {
                return self.tail.advance(bytes);
            };
            let part = bytes.min(first.len());
            first.advance(part);
            bytes -= part;
            if first.is_empty() {
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
impl ReplyQueue {
    /// All queued bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.iter()).chain(self.tail.iter()).copied().collect()
    }
}
