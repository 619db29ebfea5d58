//! Trace request: one read or invalidation of an object.

use zonal_base::mix64;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read. Only reads count as requests.
    Read,
    /// The object was written or deleted: cached bytes are stale. Counts neither as a hit nor as a
    /// miss.
    Invalidate,
}

/// A request of a trace, in 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Object id. Equal ids are the same object; the value has no other meaning.
    pub id: u64,
    /// Object size in bytes; [`SIZE_UNKNOWN`] where the format has no sizes.
    pub size: u64,
    /// First byte that was asked for.
    pub offset: u64,
    /// Number of bytes that were asked for: the size, or less for a range.
    pub bytes: u64,
    /// Request time in seconds since an origin that the trace chose. 0 where the format has no
    /// time.
    pub time_s: u32,
    /// Position, counted from 0, of the next read of the same object. [`NEVER`] if there is none,
    /// or if an invalidation precedes it. Set only when a contender [needs the
    /// future](super::Contender::needs_future), otherwise [`NEVER`].
    pub next: u32,
    /// Operation: read or invalidate.
    pub op: Op,
}

impl Request {
    /// Read of a whole object.
    #[must_use]
    pub const fn read(id: u64, size: u64, time_s: u32) -> Self {
        Self { id, size, offset: 0, bytes: size, time_s, next: NEVER, op: Op::Read }
    }

    /// Write or deletion of an object.
    #[must_use]
    pub const fn invalidate(id: u64, size: u64, time_s: u32) -> Self {
        Self { op: Op::Invalidate, ..Self::read(id, size, time_s) }
    }

    /// The request as policies see it that cache whole objects: a range is an object of its own,
    /// because only its bytes were asked for.
    #[must_use]
    pub const fn as_object(self) -> Self {
        if self.bytes == self.size {
            return self;
        }
        let id = mix64(self.id ^ mix64(self.offset ^ mix64(self.bytes)));
        Self { id, size: self.bytes, offset: 0, ..self }
    }
}

/// Object size in formats without sizes: 4 KiB, a block. Other simulators replay such traces with
/// equal sizes, too. The value changes only the unit of flash writes.
pub const SIZE_UNKNOWN: u64 = 4096;

/// Position of a read that never comes. Longer traces are refused where positions matter.
pub const NEVER: u32 = u32::MAX;

const _: () = assert!(size_of::<Request>() == 48);
