//! Requests of front ends to a shard.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use zonal_cache::{
    Care, ChunkRules, Doomed, Head, Homes, Keeping, LookupError, ObjectName, Opened, RemoveError,
    RosterLost, STRIPE, Trust,
};
use zonal_hostdev::Drive;
use zonal_policy::Wasted;
use zonal_zonelog::OpenMode;

use crate::client::Located;
use crate::pipe::PipeWriter;
use crate::{ShardStats, StartError};

/// Which bytes of the version that was found are wanted.
pub(crate) type RangeOf = Box<dyn FnOnce(&Opened) -> Range<u64> + Send>;

/// The version that was found, and the bytes of it that are wanted.
pub(crate) type Chosen = (Opened, Range<u64>);

/// Of `range` what lies with the head: the part in the first stripe.
pub(crate) fn with_head(range: &Range<u64>) -> Range<u64> {
    range.start..range.end.min(STRIPE.0)
}

pub(crate) enum Request {
    Open {
        object: ObjectName,
        trust: Trust,
        care: Care,
        reply: oneshot::Sender<Result<Opened, LookupError>>,
    },
    /// Open, and read of what is found the bytes that lie with the head.
    Get {
        object: ObjectName,
        trust: Trust,
        keeping: Keeping,
        range_of: RangeOf,
        /// Sent before the first piece.
        reply: oneshot::Sender<Result<Chosen, LookupError>>,
        to: PipeWriter,
    },
    Read {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        keeping: Keeping,
        to: PipeWriter,
    },
    /// Fetch what of the range is missing, if there is room: a reader may come for it.
    Prefetch {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        wasted: Wasted,
    },
    /// Is all of the range cached?
    Probe {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<bool>,
    },
    /// Where are the bytes of the range, and how far is flash behind?
    Locate {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<Located>,
    },
    /// Pin what of the range is on flash, or release it.
    SetCare {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        care: Care,
        reply: oneshot::Sender<()>,
    },
    /// The origin has sent an ETag of it.
    NoteEtag {
        object: ObjectName,
    },
    Remove {
        doomed: Doomed,
        reply: oneshot::Sender<Result<(), RemoveError>>,
    },
    Stats {
        reply: oneshot::Sender<ShardStats>,
    },
    /// Put everything that was admitted on flash; `reply` when that is done.
    Settle {
        reply: oneshot::Sender<()>,
    },
    /// Keep the roster on flash.
    Keep {
        roster: Arc<[u8]>,
        reply: oneshot::Sender<Result<(), RosterLost>>,
    },
    /// Since when what lives here is at home here. Nothing was asked before.
    SetHomes(Homes),
    /// From now on objects that come from the origin are cut by these rules.
    SetChunks(Arc<ChunkRules>),
    /// Do without the device: it is not worth to be waited for.
    Isolate,
    /// Close the device; `reply` when it has answered all that it was asked.
    Release {
        reply: oneshot::Sender<()>,
    },
    /// The device is there again.
    Rejoin(Rejoin),
    /// End the thread.
    Stop,
}

/// A device that its shards are to use again.
pub(crate) struct Rejoin {
    pub(crate) drive: Arc<Drive>,
    /// Of a device that is to be formatted: what it held is not to be found again.
    pub(crate) log: [u8; 16],
    pub(crate) mode: OpenMode,
    pub(crate) homes: Homes,
    /// Whether the share is up.
    pub(crate) reply: oneshot::Sender<Result<(), StartError>>,
}
