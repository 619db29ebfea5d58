//! Requests to a shard, from front ends, the device supervisor and other shards.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zonal_base::{Bytes, ZoneId};
use zonal_cache::{
    CachedObject, ChunkRules, FreshnessPolicy, Head, InvalidationTarget, ListingEnded, LookupError,
    ObjectName, Opened, PlacementEpochs, ReadHints, RemoveError, RetentionClass, RosterLost,
    SampleSize, SampledObject,
};
use zonal_hostdev::Drive;
use zonal_policy::Wasted;
use zonal_zonelog::OpenMode;

use crate::client::Located;
use crate::events::{EventCursor, ShardEvents};
use crate::get::{Get, HandedBody};
use crate::listing::PlacedRange;
use crate::pipe::PipeWriter;
use crate::{ShardStats, ShardZones, StartError, ZoneInspection};

pub(crate) enum Request {
    Open {
        object: ObjectName,
        trust: FreshnessPolicy,
        retention: RetentionClass,
        reply: oneshot::Sender<Result<Opened, LookupError>>,
    },
    Get(Get),
    Read {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        keeping: ReadHints,
        /// Body of the request that found the version, with bytes of this shard's stripe.
        body: Option<Box<HandedBody>>,
        to: PipeWriter,
    },
    /// Hint: fetch the missing part of the range, if there is room, because a reader may need it.
    Prefetch {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        wasted: Wasted,
    },
    /// Reply true if the whole range is cached.
    Probe {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<bool>,
    },
    /// Reply with the first bytes of the range that a reader would have to fetch, if any.
    FindMissing {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<Option<Range<u64>>>,
    },
    /// Report where the bytes of the range are, and the write backlog.
    Locate {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<Located>,
    },
    /// Pin or unpin the cached part of the range.
    SetCare {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        retention: RetentionClass,
        reply: oneshot::Sender<()>,
    },
    /// The origin has sent an ETag for this object.
    NoteEtag {
        object: ObjectName,
    },
    /// The origin refused a fetch of this version.
    Distrust {
        object: ObjectName,
        head: Arc<Head>,
    },
    Remove {
        target: InvalidationTarget,
        reply: oneshot::Sender<Result<(), RemoveError>>,
    },
    Stats {
        reply: oneshot::Sender<ShardStats>,
    },
    /// Reply with the contents of each zone.
    Zones {
        reply: oneshot::Sender<ShardZones>,
    },
    /// Reply with the zone of this number on this device, if it is the shard's.
    Zone {
        device: usize,
        zone: ZoneId,
        reply: oneshot::Sender<Option<ZoneInspection>>,
    },
    /// Reply with the events that come after the cursor.
    Events {
        after: Arc<EventCursor>,
        reply: oneshot::Sender<ShardEvents>,
    },
    /// Send the cached objects whose `bucket/key` begins with the prefix, then reply whether these
    /// are all.
    List {
        prefix: Arc<str>,
        to: mpsc::Sender<CachedObject>,
        reply: oneshot::Sender<Result<(), ListingEnded>>,
    },
    /// Send a sample of the cached objects, then reply whether it is complete.
    Sample {
        size: SampleSize,
        to: mpsc::Sender<SampledObject>,
        reply: oneshot::Sender<Result<(), ListingEnded>>,
    },
    /// Reply with the cached object of this name, if there is one.
    Find {
        object: ObjectName,
        reply: oneshot::Sender<Option<CachedObject>>,
    },
    /// Reply with the places of the cached bytes of the range.
    Ranges {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<Vec<PlacedRange>>,
    },
    /// Write all admitted bytes to flash, then reply.
    Settle {
        reply: oneshot::Sender<()>,
    },
    /// Scrub the shard's flash with at most this many bytes per second, then reply.
    Scrub {
        rate: Bytes,
        reply: oneshot::Sender<()>,
    },
    /// Store the roster on flash.
    Keep {
        roster: Arc<[u8]>,
        reply: oneshot::Sender<Result<(), RosterLost>>,
    },
    /// Set the placement epochs. Sent before any other request.
    SetPlacementEpochs(PlacementEpochs),
    /// Set the chunk size rules for objects fetched from now on.
    SetChunks(Arc<ChunkRules>),
    /// Stop using the device, because it is failing.
    Isolate,
    /// Close the device when it has completed all its commands, then reply.
    Release {
        reply: oneshot::Sender<()>,
    },
    /// Reopen the device.
    Rejoin(Rejoin),
    /// Stop the shard and end its thread.
    Stop,
}

/// A device to be reopened by its shards.
pub(crate) struct Rejoin {
    pub(crate) drive: Arc<Drive>,
    /// Identity of the log. A new one if the device is formatted, so that its old records are never
    /// found.
    pub(crate) log: [u8; 16],
    pub(crate) mode: OpenMode,
    pub(crate) homes: PlacementEpochs,
    /// Reply with the outcome of the reopening.
    pub(crate) reply: oneshot::Sender<Result<(), StartError>>,
}
