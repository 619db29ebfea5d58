//! One log over zones: append-only records, streams, reclaim, recovery.
//!
//! Uses: `device` (its port), `runtime`, `base`. Knows nothing of: what the records mean, which of
//! them are wanted, files, sockets, threads, real time.
//! Read in this order: `record`, `format`, `generations`, `settings`, `state`, `append`, `room`, `segment`, `writer`, `read`,
//! `reclaim`, `open`, `scan`, `salvage`, `recover`.
//!
//! What holds, always:
//!
//! - Nothing is published before the device has answered its write: an [`Extent`] names bytes on flash.
//! - A zone is reset only when it has no pin, no unpublished record, and every tombstone in it that
//!   an older record elsewhere still needs has been written again and flushed.
//! - A removal is acknowledged when its tombstone is on flash and flushed.
//! - One slot and one empty zone are kept for rewrites, and these leave room for the tombstones of the next
//!   zone: reclaim proceeds as long as the device does what it is told, and whatever fails once. When no zone
//!   can ever be emptied again, the log says that it is gone; nobody waits for ever.
#![no_std]

extern crate alloc;

mod append;
mod format;
mod generations;
mod inspect;
mod log;
mod open;
mod planted;
mod read;
mod reclaim;
mod record;
mod recover;
mod room;
mod salvage;
mod scan;
mod segment;
mod settings;
mod state;
mod stats;
mod writer;

pub use append::{AppendError, Placed, Urgency};
pub use format::checks::{Checks, GRANULE_BYTES, GRANULES_MAX, granule_count};
pub use format::footer::Trailer;
pub use format::mark::Mark;
pub use format::segment::Header;
pub use generations::Generations;
pub use inspect::{ZoneContent, inspect_zone};
pub use log::{Log, Ports};
pub use open::{FirstBlock, OpenError, OpenMode};
#[cfg(feature = "planted-bugs")]
pub use planted::Planted;
pub use read::{ReadError, Reading};
pub use reclaim::Reclaim;
pub use record::{Descriptor, Extent, Key, Kind, Record, Recovered, Stream};
pub use scan::Ending;
pub use settings::{Identity, Settings, SettingsError};
pub use state::{ZoneFacts, ZoneUse};
pub use stats::LogStats;
