//! Ports of a cache shard: its device, its origin, its clock and its buffers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use bytes::Bytes;
use zonal_base::Checksum;
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Clock, Port, Spawner};
use zonal_zonelog::Generations;

use crate::{Head, ObjectName};

/// One cache shard's whole contact with the world.
#[derive(Clone)]
pub struct Ports {
    /// The device.
    pub device: Port<Command, Completion>,
    /// The object store.
    pub origin: Port<Fetch, Fetched>,
    /// The time: nanoseconds since 1970, so that what is stored means something after a restart.
    pub clock: Clock,
    /// What starts the shard's tasks.
    pub spawner: Spawner,
    /// Memory for records.
    pub buffers: Buffers,
    /// CRC-32C.
    pub checksum: Checksum,
    /// What the logs of all shards of the node number their records with.
    pub generations: Generations,
}

/// A body that the origin is sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What is asked of the origin.
#[derive(Clone, Debug)]
pub enum Fetch {
    /// HEAD. Answered by `Head`.
    Head {
        /// The object.
        object: ObjectName,
    },
    /// GET of a range of one version. Answered by `Opened`: status and headers are there and right.
    Open {
        /// The object.
        object: ObjectName,
        /// The bytes.
        range: Range<u64>,
        /// The version: its ETag is sent as If-Match, and what the answer says must agree with the rest.
        version: Arc<Head>,
    },
    /// The next bytes of a body. Answered by `Data`, or by `End` after the last.
    More {
        /// The body.
        stream: StreamId,
    },
    /// The rest of a body is not wanted. Answered by `End`.
    Close {
        /// The body.
        stream: StreamId,
    },
}

/// What the origin answered.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The object's head.
    Head(OriginHead),
    /// The body is coming.
    Opened(StreamId),
    /// Bytes; never none.
    Data(Bytes),
    /// All bytes were handed out.
    End,
    /// It did not work. A body that failed is closed.
    Failed(OriginFault),
}

/// What a HEAD says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginHead {
    /// Bytes.
    pub size: u64,
    /// As sent, quotes included; empty when there is none.
    pub etag: Box<str>,
    /// As sent; empty when there is none.
    pub last_modified: Box<str>,
    /// Names in lower case: what is handed on unchanged.
    pub headers: Vec<(Box<str>, Box<str>)>,
}

impl OriginHead {
    /// All that is text in it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let pairs = self.headers.iter().flat_map(|(name, value)| [&**name, &**value]);
        [&*self.etag, &*self.last_modified].into_iter().chain(pairs)
    }
}

/// Why the origin did not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFault {
    /// No such object (or bucket).
    NotFound,
    /// Our credentials do not reach it.
    Denied,
    /// The version is gone (412): look at the head again.
    Changed,
    /// It asks to be left alone for a while.
    Busy,
    /// It cannot be reached.
    Unreachable,
    /// It stopped in the middle, or sent fewer bytes than it said.
    Broken,
    /// Its answer contradicts itself or the question: nothing of it was used.
    Lied,
    /// Any other status.
    Status(u16),
}

impl OriginFault {
    /// False for an answer: there is no such object, or no such version of it.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::NotFound | Self::Changed)
    }

    /// True when nothing was said of the object: the origin is away, failed, or makes no sense.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        match self {
            Self::NotFound | Self::Denied | Self::Changed => false,
            Self::Busy | Self::Unreachable | Self::Broken | Self::Lied => true,
            Self::Status(status) => 500 <= status,
        }
    }
}

impl fmt::Display for OriginFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("the origin has no such object"),
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
