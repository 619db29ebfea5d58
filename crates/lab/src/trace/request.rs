//! Trace request: one read or invalidation of an object.

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read. Only reads count as requests.
    Read,
    /// The object was written or deleted: cached bytes are stale. Counts neither as a hit nor as a
    /// miss.
    Invalidate,
}

/// A request of a trace, in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Object id. Equal ids are the same object; the value has no other meaning.
    pub id: u64,
    /// Object size in bytes; [`SIZE_UNKNOWN`] where the format has no sizes.
    pub size: u32,
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

/// Object size in formats without sizes: 4 KiB, a block. Other simulators replay such traces with
/// equal sizes, too. The value changes only the unit of flash writes.
pub const SIZE_UNKNOWN: u32 = 4096;

/// Position of a read that never comes. Longer traces are refused where positions matter.
pub const NEVER: u32 = u32::MAX;

const _: () = assert!(size_of::<Request>() == 24);
