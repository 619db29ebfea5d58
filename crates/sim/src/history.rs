//! A history as data: what is set up, and what happens in each life of the cache.
//!
//! A seed makes one (`generate`); nothing of it is drawn later, so a history with a step less is a history, too
//! (`shrink`). What stays to chance, delays and what a crash tears, comes from the numbers in it.

use zonal_base::{Bytes, Nanos};
use zonal_cache::Freshness;
use zonal_device::Geometry;
use zonal_device::ram::Crash;

use crate::drive::{Fault, Model};
use crate::oracle::Tag;

/// One history.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it comes from.
    pub seed: u64,
    pub(crate) setting: Setting,
    pub(crate) objects: Vec<NewObject>,
    pub(crate) lives: Vec<Life>,
}

/// What stays the same over all lives.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) model: Model,
    pub(crate) geometry: Geometry,
    pub(crate) device_seed: u64,
    pub(crate) engine: zonal_cache::Settings,
    pub(crate) policy: Keeping,
    /// For chunks that wait before flash or are read often.
    pub(crate) memory: Bytes,
    /// One request in so many goes wrong; 0: none does.
    pub(crate) origin_fault_rate: u64,
    /// Objects are cut into chunks by rules ([`History::chunks_of`]).
    pub(crate) is_cut_by_rules: bool,
}

/// What is kept on flash.
#[derive(Clone, Debug)]
pub(crate) enum Keeping {
    /// What a policy of ours keeps.
    By(zonal_policy::Spec),
    /// A third of everything ([`StressPolicy`](crate::hoarder::Hoarder)).
    Thirds,
}

/// An object that the origin has from the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewObject {
    pub(crate) size: u64,
    pub(crate) tag: Tag,
    /// Bytes of metadata: from a packed record to one of some blocks.
    pub(crate) metadata: usize,
    /// Whoever reads it wants it to stay.
    pub(crate) is_pinned: bool,
}

/// From a start of the process to its end.
pub(crate) type Life = crate::life::Life<Step, Shutdown>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// When everybody is done.
    Graceful,
    /// So long after the cache came up, if it is not done before.
    Crash(Crash, Nanos),
    /// So long after the cache came up its device is isolated; after so long again it is used as it is, and the share
    /// begins its next life.
    Isolated(Nanos, Nanos),
}

/// What one actor does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) actor: Actor,
    /// Since the cache came up; later, if the actor is still busy.
    pub(crate) at: Nanos,
    pub(crate) deed: Op,
}

/// Who takes its steps one after the other.
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

/// A read, by its number among the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStep {
    pub(crate) object: usize,
    pub(crate) freshness: Freshness,
    /// For how long it believes that there is no object; 0: not at all.
    pub(crate) absence: Nanos,
    /// For how long it takes what is not fresh when the origin fails; 0: not at all.
    pub(crate) stale: Nanos,
    /// Two points of the object, in parts of [`WHOLE`]; `None`: all of it.
    pub(crate) range: Option<(u64, u64)>,
    /// How long the reader waits for the head.
    pub(crate) head_patience: Option<Nanos>,
    /// How long the host lets the read go on.
    pub(crate) drop_after: Option<Nanos>,
    /// Pause after each piece.
    pub(crate) slowness: Nanos,
    /// Pieces after which the reader goes away.
    pub(crate) pieces_max: Option<u64>,
}

/// Reads of one object front to back, in ranges that adjoin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanStep {
    /// Each of them, but for its range.
    pub(crate) read: ReadStep,
    /// Bytes of a range.
    pub(crate) len: u64,
    /// Ranges, if the object has so many.
    pub(crate) count: u64,
    /// After each range.
    pub(crate) pause: Nanos,
    /// Of each two ranges the later is asked for first.
    pub(crate) is_disordered: bool,
}

/// Parts of an object that ranges are counted in.
pub(crate) const WHOLE: u64 = 1 << 20;

/// A change of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteStep {
    pub(crate) object: usize,
    pub(crate) change: Change,
    /// Before and after the origin has it.
    pub(crate) pauses: [Nanos; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A PUT as the gateway does it: remove, forward, remove, acknowledge.
    Overwrite { size: u64 },
    /// The same without the cache's knowledge.
    OverwriteBehind { size: u64 },
    /// A DELETE as the gateway does it; later the object is made again.
    Delete { size: u64 },
    /// Bad bytes at the origin were replaced under the same ETag; the operator purges the cache.
    Purge,
    /// The same with all objects whose names begin as this one's does without its last letters; the prefix is purged.
    PurgeBelow { cut: usize },
    /// The client of a write goes away after so long: nothing is acknowledged.
    Forsaken(Nanos),
}

impl History {
    /// True when it runs on the model of a drive, and not on memory.
    #[must_use]
    pub const fn is_on_drive_model(&self) -> bool {
        !matches!(self.setting.model, Model::Ram { .. })
    }
}
