//! One read, write or sync on its way through an engine, with the memory it works on.
//!
//! The engine owns the transfer until it is over: nobody else can touch or free the memory while the
//! kernel has its address.

use zonal_base::{Buffer, Payload};

/// Pieces that one system call takes: the kernel's UIO_MAXIOV. Longer writes take several.
pub(crate) const PIECES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) memory: Memory,
    /// Where in the file it begins, in bytes.
    offset: u64,
    len: usize,
    /// Bytes that were moved so far: the kernel may move fewer than it is asked to.
    done: usize,
}

#[derive(Debug)]
pub(crate) enum Memory {
    /// Into the front of a buffer.
    Read(Buffer),
    /// From pieces, one after the other.
    Write(Vec<Payload>),
    /// Nothing to move: make durable what was written before.
    Sync,
}

impl Transfer {
    pub(crate) const fn read(buffer: Buffer, offset: u64, len: usize) -> Self {
        Self { memory: Memory::Read(buffer), offset, len, done: 0 }
    }

    pub(crate) fn write(pieces: Vec<Payload>, offset: u64) -> Self {
        let len = pieces.iter().map(Payload::len).sum();
        Self { memory: Memory::Write(pieces), offset, len, done: 0 }
    }

    pub(crate) const fn sync() -> Self {
        Self { memory: Memory::Sync, offset: 0, len: 0, done: 0 }
    }

    /// Where in the file the rest begins.
    pub(crate) const fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Bytes that are left.
    pub(crate) const fn left(&self) -> usize {
        self.len - self.done
    }

    /// More was moved. Requires: not more than was left.
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left(), "the kernel moved more than it was asked to");
        self.done += bytes;
    }

    /// Where the rest of a read goes; empty for anything else.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Read(buffer) => &mut buffer.bytes_mut()[self.done..self.len],
            Memory::Write(_) | Memory::Sync => &mut [],
        }
    }

    /// The rest of a write, as much of it as one system call takes; empty for anything else.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let pieces = match &self.memory {
            Memory::Write(pieces) => pieces.as_slice(),
            Memory::Read(_) | Memory::Sync => &[],
        };
        let mut skip = self.done;
        let rest = pieces.iter().filter_map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            (skipped < piece.len()).then(|| &piece.as_bytes()[skipped..])
        });
        rest.take(PIECES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_goes_on_where_it_stopped() {
        let piece = |bytes: &'static [u8]| Payload::from(bytes::Bytes::from_static(bytes));
        let mut transfer = Transfer::write(vec![piece(b"abc"), piece(b"de"), piece(b"f")], 100);
        let rest = |transfer: &Transfer| transfer.pieces().map(<[u8]>::to_vec).collect::<Vec<_>>();
        for (moved, position, expected) in [
            (0, 100, &[&b"abc"[..], b"de", b"f"][..]),
            (1, 101, &[b"bc", b"de", b"f"]),
            (2, 103, &[b"de", b"f"]),
            (1, 104, &[b"e", b"f"]),
            (2, 106, &[]),
        ] {
            transfer.advance(moved);
            assert_eq!(
                (transfer.position(), rest(&transfer)),
                (position, expected.iter().map(|b| b.to_vec()).collect())
            );
        }
        assert_eq!(transfer.left(), 0);
    }

    #[test]
    fn one_call_takes_a_bounded_number_of_pieces() {
        let pieces = vec![Payload::from(bytes::Bytes::from_static(b"x")); 2500];
        let mut transfer = Transfer::write(pieces, 0);
        let mut calls = Vec::new();
        while 0 < transfer.left() {
            let bytes = transfer.pieces().map(<[u8]>::len).sum();
            transfer.advance(bytes);
            calls.push(bytes);
        }
        assert_eq!(calls, [1024, 1024, 452]);
    }
}
