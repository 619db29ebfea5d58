//! Log-structured store over zones: append-only records, placement streams, garbage collection
//! (reclaim), crash recovery.
//!
//! Uses: `device` (its port), `runtime`, `base`. Knows nothing of: the meaning of records, which
//! records are worth keeping, files, sockets, threads, real time.
//! Read in this order: `record`, `format`, `generations`, `settings`, `state`, `events`, `append`,
//! `backpressure`, `segment`, `writer`, `fills`, `read`, `reclaim`, `manifests`, `open`, `scan`,
//! `salvage`, `damage`, `recover`, `verify`.
//!
//! Invariants:
//!
//! - The log hands out an [`Extent`] only after the device has completed the write: an extent names
//!   bytes on flash.
//! - A zone is reset only when it has no pin and no unpublished record. Its tombstones that an
//!   older record elsewhere still needs have been rewritten and flushed before the reset.
//! - A removal is acknowledged when its tombstone is on flash and flushed.
//! - A header expects of other zones only what is durable, so a crash is never taken for a loss. A
//!   lost zone is noticed as long as one newer header is left in another zone.
//! - One active slot and one empty zone are reserved for rewrites, and rewrites leave room for the
//!   tombstones of the next zone. So reclaim proceeds as long as the device works, and after any
//!   single failure. When no zone can be emptied any more, the log reports that it is gone, and no
//!   caller waits for ever.
#![no_std]

extern crate alloc;

mod append;
mod backpressure;
mod damage;
mod events;
mod fills;
mod format;
mod generations;
mod inspect;
mod log;
mod manifests;
mod mutation;
mod open;
mod read;
mod reclaim;
mod record;
mod recover;
mod salvage;
mod scan;
mod segment;
mod settings;
mod state;
mod stats;
mod verify;
mod writer;

pub use append::{AppendError, UnpublishedRecord, Urgency};
pub use damage::Damage;
pub use events::{ZoneChange, ZoneEvent};
pub use format::checks::{Checks, GRANULE_BYTES, GRANULES_MAX, granule_count};
pub use format::footer::Trailer;
pub use format::mark::ZoneMark;
pub use format::segment::Header;
pub use generations::Generations;
pub use inspect::{ZoneContent, inspect_zone};
pub use log::{Log, Ports};
#[cfg(feature = "planted-bugs")]
pub use mutation::Mutation;
pub use open::{FirstBlock, OpenError, OpenMode};
pub use read::{LogRead, ReadError};
pub use reclaim::Reclaim;
pub use record::{Descriptor, Extent, Key, Kind, Record, Recovered, Stream};
pub use scan::ZoneEnd;
pub use settings::{Identity, Settings, SettingsError};
pub use state::{ZoneFacts, ZoneStatus, ZoneUse};
pub use stats::LogStats;
pub use verify::ZoneListing;
