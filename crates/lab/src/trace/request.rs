//! What a trace consists of.

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read. Only these are counted as requests.
    Read,
    /// The object was written or deleted: what is cached of it is stale. It counts neither as a hit nor as a miss.
    Invalidate,
}

/// A request of a trace, in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Of the object. Equal numbers are equal objects, and that is all they say.
    pub id: u64,
    /// Of the object, in bytes; [`SIZE_UNKNOWN`] where the format has no sizes.
    pub size: u32,
    /// When, in seconds since an origin that the trace chose. 0 where the format has no time.
    pub time_s: u32,
    /// The position among all requests, counted from 0, at which the same object is read next; [`NEVER`] if it is
    /// not, or if it is invalidated before. It is there only when somebody [needs the
    /// future](super::Contender::needs_future), and is [`NEVER`] otherwise.
    pub next: u32,
    /// What was asked for.
    pub op: Op,
}

/// The size of objects in formats without sizes: 4 KiB, a block. Equal sizes are what such traces are replayed with elsewhere, too;
/// which one it is changes nothing but the unit of what is written.
pub const SIZE_UNKNOWN: u32 = 4096;

/// The position of a request that does not come. Traces longer than that are refused where positions matter.
pub const NEVER: u32 = u32::MAX;

const _: () = assert!(size_of::<Request>() == 24);
