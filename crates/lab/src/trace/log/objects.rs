//! Objects of a log: turns the bytes of an entry into a request for a range of an object.
//!
//! Logs say how many bytes were sent, but rarely from where, and not always how large the object
//! is. What is missing is filled in:
//!
//! - **Size.** The last one known of the object: logged, or that of a complete answer.
//! - **Offset of a range of a multiple of 4 KiB**: where the last one of the object ended. Clients
//!   read large objects in such pieces, one after the other.
//! - **Offset of another range**: fixed by its length. A part such as a footer or a column has the
//!   same length each time. What remains of the object behind whole pieces is the last piece.
//! - **A range of an object of unknown size** is an object of its own.
//!
//! A write or deletion gives the object a new identity, so that nothing read before is valid.

use zonal_base::mix64;

use super::super::spread::NumberMap;
use super::super::{Op, Request};
use super::{Action, Entry, Transfer};

/// What is known about an object.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Size in bytes; 0: unknown.
    size: u64,
    /// End and length of the last piece.
    piece_end: u64,
    piece: u64,
    /// Number of writes and deletions.
    version: u32,
}

/// Objects of a log, as far as they are remembered: those seen last.
#[derive(Default)]
pub(super) struct Objects {
    young: NumberMap<u64, Known>,
    old: NumberMap<u64, Known>,
}

/// Objects after which the older half is forgotten: together at most 130 MB.
const REMEMBERED: usize = 1 << 20;

/// Unit of pieces.
const PIECE: u64 = 4096;

/// Bytes by which answers may differ in their headers.
const HEADERS_MAX: u64 = 1024;

impl Objects {
    /// The request that an entry stands for. Times before 1970 count as 1970.
    pub(super) fn request(&mut self, entry: &Entry) -> Request {
        let mut known = self.known(entry.object);
        let id = match known.version {
            0 => entry.object,
            version => mix64(entry.object ^ u64::from(version)),
        };
        let seconds = entry.time_ms / 1000;
        let time_s = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
        let request = match entry.action {
            Action::Read(transfer) => known.read(id, &transfer, time_s),
            Action::Write(size) => {
                let before = known.size;
                known = Known {
                    size: size.unwrap_or(0),
                    piece_end: 0,
                    piece: 0,
                    version: known.version.wrapping_add(1),
                };
                Request { op: Op::Invalidate, ..Request::read(id, before, time_s) }
            }
        };
        self.young.insert(entry.object, known);
        request
    }

    fn known(&mut self, object: u64) -> Known {
        if let Some(known) = self.young.get(&object) {
            return *known;
        }
        if REMEMBERED <= self.young.len() {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.get(&object).copied().unwrap_or_default()
    }
}

impl Known {
    fn read(&mut self, id: u64, transfer: &Transfer, time_s: u32) -> Request {
        let Transfer { mut bytes, size, is_whole, offset, has_headers } = *transfer;
        if has_headers && PIECE <= bytes && bytes % PIECE < HEADERS_MAX {
            bytes -= bytes % PIECE;
        }
        // An answer with other headers is no other object.
        let is_alike = has_headers && bytes.abs_diff(self.size) <= HEADERS_MAX;
        match (size, is_whole) {
            (Some(size), _) => self.size = size,
            // A client that hangs up got less.
            (None, Some(true)) if self.size < bytes && !is_alike => self.size = bytes,
            (None, None) => self.size = self.size.max(bytes),
            _ => {}
        }
        if self.size == 0 {
            // An object of its own: only its bytes are known.
            let id = mix64(id ^ mix64(bytes ^ mix64(offset.unwrap_or(u64::MAX))));
            return Request::read(id, bytes, time_s);
        }
        let bytes = if is_alike { self.size } else { bytes.min(self.size) };
        let offset = match offset {
            Some(offset) => offset.min(self.size - bytes),
            // A client that hung up read the beginning.
            None if is_whole == Some(true) => 0,
            None => self.offset(id, bytes),
        };
        Request { offset, bytes, ..Request::read(id, self.size, time_s) }
    }

    /// Probable offset of a range.
    fn offset(&mut self, id: u64, bytes: u64) -> u64 {
        let last = self.size - bytes;
        if bytes == self.size.checked_rem(self.piece).unwrap_or(0) {
            return last;
        }
        if !bytes.is_multiple_of(PIECE) {
            return mix64(id ^ bytes) % (last + 1);
        }
        let begin = if self.piece_end <= last { self.piece_end } else { 0 };
        (self.piece_end, self.piece) = (begin + bytes, bytes);
        begin
    }
}
