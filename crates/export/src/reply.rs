//! NBD replies: simple and structured, with their errors.
//!
//! A simple reply has an error number and, if that is zero, the data of a read. A structured reply
//! has chunks: runs of zeros are sent as holes without data, and an error has a message besides its
//! number.

use bytes::BufMut;
use zonal_base::low_u32;

use crate::reply_queue::ReplyQueue;
use crate::request::{NbdCommand, RejectedRequest, Request};
use crate::volume::{Extent, Piece, VolumeError};
use crate::wire::{CHUNK_MAGIC, Errno, SIMPLE_REPLY_MAGIC, allocation, chunk};

/// Result of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Done,
    /// Data whose total length is that of the request.
    Read(Vec<Piece>),
    /// Extents from the request's offset on. At least one.
    Status(Vec<Extent>),
    Failed(VolumeError),
}

/// Reply format of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replies {
    pub(crate) structured: bool,
}

impl VolumeError {
    const fn errno(self) -> (Errno, &'static str) {
        match self {
            Self::Failed => (Errno::Io, "a device of the export failed"),
            Self::NoSpace => (Errno::NoSpace, "no space left"),
            Self::ReadOnly => (Errno::Perm, "the devices accept no more writes"),
            Self::Stopping => (Errno::Shutdown, "the server is shutting down"),
        }
    }
}

impl Replies {
    pub(crate) fn answer(self, request: &Request, outcome: RequestOutcome, to: &mut ReplyQueue) {
        match outcome {
            RequestOutcome::Failed(error) => {
                let (errno, why) = error.errno();
                self.error(request.cookie, errno, why, to);
            }
            RequestOutcome::Done => self.done(request, to),
            RequestOutcome::Read(pieces) => self.read(request, &pieces, to),
            RequestOutcome::Status(extents) => status(request.cookie, &extents, to),
        }
    }

    pub(crate) fn refuse(self, refusal: &RejectedRequest, to: &mut ReplyQueue) {
        self.error(refusal.cookie, refusal.errno, refusal.why, to);
    }

    fn error(self, cookie: u64, errno: Errno, why: &str, to: &mut ReplyQueue) {
        if !self.structured {
            return simple(cookie, errno.code(), to);
        }
        let length = 4 + 2 + low_u32(why.len());
        begin_chunk(cookie, (chunk::ERROR, chunk::DONE), length, to);
        to.header(|header| {
            header.put_u32(errno.code());
            header.put_u16(u16::try_from(why.len()).expect("sentences are short"));
            header.put_slice(why.as_bytes());
        });
    }

    fn done(self, request: &Request, to: &mut ReplyQueue) {
        match request.command {
            // A read of zero bytes. With structured replies, even this reply must be structured.
            NbdCommand::Read { .. } if self.structured => {
                begin_chunk(request.cookie, (chunk::NONE, chunk::DONE), 0, to);
            }
            _ => simple(request.cookie, 0, to),
        }
    }

    fn read(self, request: &Request, pieces: &[Piece], to: &mut ReplyQueue) {
        let total: u64 = pieces.iter().map(Piece::len).sum();
        assert_eq!(total, request.length.into(), "a volume reads what it is asked for");
        let NbdCommand::Read { whole } = request.command else { unreachable!("only reads read") };
        if !self.structured {
            simple(request.cookie, 0, to);
            return put_all(pieces, to);
        }
        if whole {
            let done = (request.cookie, chunk::DONE);
            begin_data(done, request.offset, total, to);
            return put_all(pieces, to);
        }
        chunks(request, pieces, to);
    }
}

/// One chunk for each run of data, and one for each run of zeros.
fn chunks(request: &Request, pieces: &[Piece], to: &mut ReplyQueue) {
    let end = request.offset + u64::from(request.length);
    let mut offset = request.offset;
    for run in pieces.chunk_by(|one, next| is_data(one) == is_data(next)) {
        let length: u64 = run.iter().map(Piece::len).sum();
        let flags = if offset + length == end { chunk::DONE } else { 0 };
        if is_data(&run[0]) {
            begin_data((request.cookie, flags), offset, length, to);
            put_all(run, to);
        } else {
            begin_chunk(request.cookie, (chunk::OFFSET_HOLE, flags), 12, to);
            to.header(|header| {
                header.put_u64(offset);
                header.put_u32(length_of(length));
            });
        }
        offset += length;
    }
}

const fn is_data(piece: &Piece) -> bool {
    matches!(piece, Piece::Data(_))
}

fn put_all(pieces: &[Piece], to: &mut ReplyQueue) {
    for piece in pieces {
        match piece {
            Piece::Data(data) => to.data(data.clone()),
            Piece::Zeros(bytes) => to.zeros(*bytes),
        }
    }
}

fn status(cookie: u64, extents: &[Extent], to: &mut ReplyQueue) {
    assert!(!extents.is_empty(), "a volume says something of the first block");
    begin_chunk(cookie, (chunk::BLOCK_STATUS, chunk::DONE), 4 + 8 * low_u32(extents.len()), to);
    to.header(|header| {
        header.put_u32(allocation::ID);
        for extent in extents {
            header.put_u32(length_of(extent.length.0));
            header.put_u32(match extent.is_stored {
                true => 0,
                false => allocation::HOLE | allocation::ZERO,
            });
        }
    });
}

/// Requires: `bytes` is at most the length of one request.
fn length_of(bytes: u64) -> u32 {
    u32::try_from(bytes).expect("no longer than the request, whose length has 32 bits")
}

fn simple(cookie: u64, error: u32, to: &mut ReplyQueue) {
    to.header(|header| {
        header.put_u32(SIMPLE_REPLY_MAGIC);
        header.put_u32(error);
        header.put_u64(cookie);
    });
}

fn begin_data((cookie, flags): (u64, u16), offset: u64, length: u64, to: &mut ReplyQueue) {
    begin_chunk(cookie, (chunk::OFFSET_DATA, flags), 8 + length_of(length), to);
    to.header(|header| header.put_u64(offset));
}

fn begin_chunk(cookie: u64, (kind, flags): (u16, u16), length: u32, to: &mut ReplyQueue) {
    to.header(|header| {
        header.put_u32(CHUNK_MAGIC);
        header.put_u16(flags);
        header.put_u16(kind);
        header.put_u64(cookie);
        header.put_u32(length);
    });
}

#[cfg(test)]
mod tests;
