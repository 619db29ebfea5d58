//! Transfer: one read, write or sync in an engine, with its memory.
//!
//! The engine owns the transfer until it is complete: no other code can access or free the memory
//! while the kernel has its address.

use zonal_base::{Buffer, Payload};

/// Maximum pieces (iovecs) per system call: the kernel's UIO_MAXIOV. A write of more pieces takes
/// several calls.
pub(crate) const PIECES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) memory: Memory,
    /// Start of the transfer in the file, in bytes.
    offset: u64,
    len: usize,
    /// Bytes moved so far: the kernel may move fewer bytes than requested.
    done: usize,
}

#[derive(Debug)]
pub(crate) enum Memory {
    /// Reads into the front of a buffer.
    Read(Buffer),
    /// Writes the pieces one after the other.
    Write(Vec<Payload>),
    /// Moves no bytes: makes completed writes durable.
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

    /// Position of the remaining bytes in the file, in bytes.
    pub(crate) const fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Remaining bytes.
    pub(crate) const fn left(&self) -> usize {
        self.len - self.done
    }

    /// Counts moved bytes. Requires: no more than the remaining ones.
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left(), "the kernel moved more than it was asked to");
        self.done += bytes;
    }

    /// Memory for the remaining bytes of a read; empty for a write or a sync.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Read(buffer) => &mut buffer.bytes_mut()[self.done..self.len],
            Memory::Write(_) | Memory::Sync => &mut [],
        }
    }

    /// Remaining pieces of a write, as many as one system call takes; none for a read or a sync.
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
    use proptest::prelude::*;
    use zonal_base::{Blocks, Pool, PoolClass};

    use super::*;

    proptest! {
        #[test]
        fn whatever_the_kernel_moves_at_a_time_each_byte_is_moved_once_and_in_order(
            pieces in proptest::collection::vec(1usize..300, 1..30),
            moved in proptest::collection::vec(1usize..700, 1..8), offset in 0u64..1 << 40,
        ) {
            let bytes: Vec<u8> = (0u8..=250).cycle().take(pieces.iter().sum()).collect();
            let mut rest = bytes::Bytes::from(bytes.clone());
            let pieces = pieces.into_iter().map(|len| Payload::from(rest.split_to(len))).collect();
            let pool = Pool::new(&[PoolClass { blocks: Blocks(4), count: 1 }], Box::new(|| ()));
            let mut write = Transfer::write(pieces, offset);
            let mut read = Transfer::read(pool.take(Blocks(4)).unwrap(), offset, bytes.len());
            for moved in moved.into_iter().cycle() {
                let shown: Vec<u8> = write.pieces().flatten().copied().collect();
                prop_assert_eq!(write.position() - offset, (bytes.len() - shown.len()) as u64);
                prop_assert_eq!((write.left(), read.left()), (shown.len(), read.target().len()));
                let moved = moved.min(shown.len());
                read.target()[..moved].copy_from_slice(&shown[..moved]);
                write.advance(moved);
                read.advance(moved);
                if write.left() == 0 {
                    break;
                }
            }
            let Memory::Read(buffer) = read.memory else { unreachable!("it is a read") };
            prop_assert_eq!(&buffer.bytes()[..bytes.len()], &bytes[..]);
        }
    }

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
