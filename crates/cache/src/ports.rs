//! Ports of a cache shard: its device, its origin, its clock and its buffers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use bytes::Bytes;
use zonal_base::{Checksum, RangeSpec};
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Clock, Port, Spawner};
use zonal_zonelog::Generations;

use crate::{Head, ObjectName, PrefetchSlots};

/// All contact of one cache shard with the outside world.
#[derive(Clone)]
pub struct Ports {
    /// Command and completion queues of the device.
    pub device: Port<Command, Completion>,
    /// Requests to the origin, and its answers.
    pub origin: Port<Fetch, Fetched>,
    /// Wall clock in nanoseconds since 1970, so that stored times stay valid after a restart.
    pub clock: Clock,
    /// Executor of the shard's tasks.
    pub spawner: Spawner,
    /// Buffer pool for records that are read, fetched or written.
    pub buffers: Buffers,
    /// CRC-32C implementation for records.
    pub checksum: Checksum,
    /// Generation numbers, one sequence for the records of all logs of the node.
    pub generations: Generations,
    /// Limit of prefetches in flight, shared by all shards of the node.
    pub prefetch_slots: PrefetchSlots,
}

/// ID of a response body that the origin is sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Request to the origin.
#[derive(Clone, Debug)]
pub enum Fetch {
    /// HEAD request. Answered by [`Fetched::Head`].
    Head {
        /// Object to look up.
        object: ObjectName,
    },
    /// GET request for the head and bytes of an object. Answered by [`Fetched::Object`] once status
    /// and headers are there and valid.
    Get {
        /// Object to read.
        object: ObjectName,
        /// Bytes to read. The whole object is requested with its checksums.
        range: RangeSpec,
        /// Version to read, if only one will do: its ETag is sent as `If-Match`.
        version: Option<Arc<Head>>,
    },
    /// Reads the next bytes of a body. Answered by [`Fetched::Data`], or by [`Fetched::End`] after
    /// the last.
    More {
        /// Body to read from.
        stream: StreamId,
    },
    /// Cancels the rest of a body. Answered by [`Fetched::End`].
    Close {
        /// Body to cancel.
        stream: StreamId,
    },
}

/// Answer of the origin.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// Metadata of the object.
    Head(OriginHead),
    /// The response headers are valid; read the body with [`Fetch::More`].
    Object {
        /// Metadata of the object.
        head: OriginHead,
        /// Bytes of the object in the body. May start before the requested bytes, if the origin
        /// ignores ranges. Empty if the object has none of them.
        range: Range<u64>,
        /// The body.
        stream: StreamId,
    },
    /// The next bytes of the body, at least one.
    Data(Bytes),
    /// The body has ended, or was cancelled.
    End,
    /// The request failed. A body that failed is closed.
    Failed(OriginFault),
}

/// Metadata of an object, as the origin sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginHead {
    /// Size of the object in bytes.
    pub size: u64,
    /// ETag as sent, quotes included; empty when there is none.
    pub etag: Box<str>,
    /// Version ID; empty when there is none.
    pub version_id: Box<str>,
    /// `Last-Modified` as sent; empty when there is none.
    pub last_modified: Box<str>,
    /// Response headers that are passed on unchanged, names in lower case. A value may have any
    /// bytes that HTTP allows.
    pub headers: Vec<(Box<str>, Box<[u8]>)>,
    /// From a response that lacks headers of the whole object, its checksums among them.
    pub is_partial: bool,
}

impl OriginHead {
    /// Lengths of all texts of the head: ETag, version ID, date, header names and values.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        let pairs = self.headers.iter().flat_map(|(name, value)| [name.len(), value.len()]);
        [&self.etag, &self.version_id, &self.last_modified]
            .map(|text| text.len())
            .into_iter()
            .chain(pairs)
    }
}

/// Failure of an origin request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFault {
    /// 404: no such object or bucket. Only the origin's own response tells the details.
    NotFound,
    /// 404 `NoSuchKey`: the bucket is there, and has no such object.
    NoSuchKey,
    /// 404 to HEAD, which has no error code.
    HeadNotFound,
    /// 403: the origin denies access to Zonal's credentials.
    Denied,
    /// 412: the version is gone. Look the head up again.
    Changed,
    /// The origin asks for fewer requests (503 SlowDown). Back off.
    Busy,
    /// The origin cannot be reached.
    Unreachable,
    /// The body broke off, or was shorter than announced.
    Broken,
    /// The answer contradicts itself or the request. No part of it was used.
    Lied,
    /// Any other HTTP status.
    Status(u16),
}

impl OriginFault {
    /// True when the origin has no such object.
    #[must_use]
    pub const fn is_not_found(self) -> bool {
        matches!(self, Self::NotFound | Self::NoSuchKey | Self::HeadNotFound)
    }

    /// False for valid answers: no such object, or no such version of it.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !self.is_not_found() && !matches!(self, Self::Changed)
    }

    /// True when the answer says nothing about the object: the origin is down, failed, or sent
    /// nonsense.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        match self {
            Self::NotFound
            | Self::NoSuchKey
            | Self::HeadNotFound
            | Self::Denied
            | Self::Changed => false,
            Self::Busy | Self::Unreachable | Self::Broken | Self::Lied => true,
            Self::Status(status) => 500 <= status,
        }
    }
}

impl fmt::Display for OriginFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound | Self::NoSuchKey | Self::HeadNotFound => {
                f.write_str("the origin has no such object")
            }
            Self::Denied => f.write_str("the origin denies access"),
            Self::Changed => f.write_str("the object changed at the origin"),
            Self::Busy => f.write_str("the origin is busy"),
            Self::Unreachable => f.write_str("the origin cannot be reached"),
            Self::Broken => f.write_str("the origin's answer broke off"),
            Self::Lied => f.write_str("the origin's answer contradicts the request"),
            Self::Status(status) => write!(f, "the origin answered {status}"),
        }
    }
}

impl core::error::Error for OriginFault {}
