//! History as data: the setting, and the events of each life of the cache.
//!
//! The generator (`generate`) derives a history from a seed, and draws nothing later. A history
//! without one of its steps is therefore a history too (`shrink`). Delays and torn writes are drawn
//! from numbers in the history.

use zonal_base::{Bytes, Nanos};
use zonal_cache::Freshness;
use zonal_device::Geometry;
use zonal_device::ram::Crash;

use crate::drive::{Fault, Model};
use crate::oracle::Tag;

/// One history.
#[derive(Clone, Debug)]
pub struct History {
    /// Seed that generated it.
    pub seed: u64,
    pub(crate) setting: Setting,
    pub(crate) objects: Vec<NewObject>,
    pub(crate) lives: Vec<Life>,
}

/// Parameters that are the same in all lives.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) model: Model,
    pub(crate) geometry: Geometry,
    pub(crate) device_seed: u64,
    pub(crate) engine: zonal_cache::Settings,
    pub(crate) policy: Keeping,
    /// DRAM for write buffering and the hot set, in bytes.
    pub(crate) memory: Bytes,
    /// One origin request in this many fails; 0: none.
    pub(crate) origin_fault_rate: u64,
    /// Chunk sizes follow rules ([`History::chunks_of`]).
    pub(crate) is_cut_by_rules: bool,
}

/// Eviction policy.
#[derive(Clone, Debug)]
pub(crate) enum Keeping {
    /// A policy of the `policy` crate.
    By(zonal_policy::Spec),
    /// Keeps a third of all records ([`StressPolicy`](crate::stress_policy::StressPolicy)).
    Thirds,
}

/// An object that the origin has at the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewObject {
    pub(crate) size: u64,
    pub(crate) tag: Tag,
    /// Bytes of metadata: from a packed record to several blocks.
    pub(crate) metadata: usize,
    /// Readers of the object request that it stays pinned.
    pub(crate) is_pinned: bool,
}

/// Life of the cache: from a start of the process to its end.
pub(crate) type Life = crate::life::Life<Step, Shutdown>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Graceful end, after all actors have ended.
    Graceful,
    /// Crash, this long after the start of the cache unless the actors end earlier.
    Crash(Crash, Nanos),
    /// Crash some seconds after all actors have ended.
    CrashAtRest(Crash),
    /// Isolation of the device, this long after the start of the cache. After the second duration
    /// the device is readmitted with its contents, and the shard begins its next life.
    Isolated(Nanos, Nanos),
}

/// Step of one actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) actor: Actor,
    /// Earliest time, since the start of the cache. The step waits until the actor's previous step
    /// has ended.
    pub(crate) at: Nanos,
    pub(crate) deed: Op,
}

/// An actor: takes its steps one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    Reader(u8),
    Writer(u8),
    Fate,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read(ReadStep),
    Scan(ScanStep),
    Write(WriteStep),
    Fault(Fault),
}

/// A read. `object` is the number of the object in the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStep {
    pub(crate) object: usize,
    pub(crate) freshness: Freshness,
    /// Freshness of a negative answer; 0: not used.
    pub(crate) absence: Nanos,
    /// Stale-if-error time; 0: stale data is not used.
    pub(crate) stale_if_error: Nanos,
    /// Stale-while-revalidate time; 0: stale data is not used.
    pub(crate) stale_while_revalidate: Nanos,
    /// Start and end of the range, in units of 1/[`WHOLE`] of the object; `None`: the whole object.
    pub(crate) range: Option<(u64, u64)>,
    /// Longest wait of the reader for the head.
    pub(crate) head_patience: Option<Nanos>,
    /// Time after which the host drops the read.
    pub(crate) drop_after: Option<Nanos>,
    /// Pause of the client after each piece.
    pub(crate) slowness: Nanos,
    /// Number of pieces after which the client disconnects.
    pub(crate) pieces_max: Option<u64>,
}

/// Sequential reads of one object, in adjacent ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanStep {
    /// Each read, except its range.
    pub(crate) read: ReadStep,
    /// Length of a range, in bytes.
    pub(crate) len: u64,
    /// Largest number of ranges.
    pub(crate) count: u64,
    /// Pause after each range.
    pub(crate) pause: Nanos,
    /// Swaps the order of each pair of ranges.
    pub(crate) is_disordered: bool,
}

/// Unit of ranges: an object has this many parts.
pub(crate) const WHOLE: u64 = 1 << 20;

/// A change of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteStep {
    pub(crate) object: usize,
    pub(crate) change: Change,
    /// Pauses before and after the change at the origin.
    pub(crate) pauses: [Nanos; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// PUT as the gateway does it: remove, forward, remove, acknowledge.
    Overwrite { size: u64 },
    /// PUT at the origin, past the cache.
    OverwriteBehind { size: u64 },
    /// DELETE as the gateway does it; the object is created again later.
    Delete { size: u64 },
    /// Bad bytes at the origin are replaced under the same ETag; the operator purges the object.
    Purge,
    /// The same for all objects below a prefix, which is the object's name without its last `cut`
    /// letters; the operator purges the prefix.
    PurgeBelow { cut: usize },
    /// A write whose client disconnects after this time: it is not acknowledged.
    Forsaken(Nanos),
}

impl History {
    /// True if the history runs on a drive model, not on a RAM device.
    #[must_use]
    pub const fn is_on_drive_model(&self) -> bool {
        !matches!(self.setting.model, Model::Ram { .. })
    }
}
