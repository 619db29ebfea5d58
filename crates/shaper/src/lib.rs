//! Write-shaping block device: takes random writes, and writes zones sequentially.
//!
//! Uses: `device` (its ports), `runtime`, `base`. Knows nothing of: NBD, files, sockets, threads, real time.
//! Read in this order: `export`, `layout`, `settings`, `format`, `map`, `state`, `shaper`; then the paths: `write`, `flush`,
//! `read`, `trim`, `pages`, `throttle`, `compact`, `again`, `collect`, `relocate`, `zone_table`, `tier`, `close`; then `open`, `scan`, `sightings`, `recover`.
//!
//! Writes go to a log on the *buffer* tier, many of them in one device write, and are acknowledged when the device has
//! answered it. Compaction takes the oldest zone of that log, leaves out what was overwritten or trimmed meanwhile, lets
//! go round once more what is written often, and writes the rest in large pieces to zones of the *capacity* tier, each tenant to its own. Collection empties zones of the
//! capacity tier in which little is left. A map says where each block of 4 KiB lies; in memory, or in part on the capacity tier.
//!
//! Who turns the crank: nobody here. [`Shaper::open`] starts its tasks on the executor whose spawner it is given; the host
//! runs that executor, carries the commands of the two ports to the two devices and brings the answers back, as it does
//! for a cache. Over one device both ports are clones of one.
//!
//! What holds, always:
//!
//! - A write is acknowledged when the device has answered it, a trim too: both survive the end of the process. After [`Shaper::flush`], or
//!   with [`Durability::Durable`], they survive a power cut on either tier.
//! - A zone is reset only when both tiers have been flushed after everything in it was copied, overwritten or trimmed, and an
//!   entry that releases it is on flash, or a zone table without it.
//! - What the zone table on flash says of a zone is true until that is reset: what is found otherwise was damaged.
//! - The map names only blocks that a device has answered; of two writes to one block the one that was queued later wins,
//!   also after a crash.
//! - A block that can no longer be read is an error, never an older version and never zeros, also after a restart.
//! - What cannot be written is refused: when nothing can ever be written again, everybody who waits is told so.
#![no_std]

extern crate alloc;

mod again;
mod close;
mod collect;
mod compact;
mod export;
mod flush;
mod format;
mod layout;
mod map;
mod open;
mod pages;
mod planted;
mod ports;
mod read;
mod recover;
mod relocate;
mod scan;
mod settings;
mod shaper;
mod sightings;
mod state;
mod stats;
mod throttle;
mod tier;
mod trim;
mod write;
mod zone_table;

pub use export::{BlockError, Durability, Export, ExportId, Extent, Piece, Run};
pub use format::bears_mark;
pub use layout::{Layout, Tier, ZoneRange};
pub use open::{Damage, Identity, OpenError, OpenMode, Opening};
#[cfg(feature = "planted-bugs")]
pub use planted::Planted;
pub use ports::Ports;
pub use recover::Recovery;
pub use settings::{MapMemory, Settings, SettingsError};
pub use shaper::{Shaper, Waiting};
pub use stats::{ShaperStats, TenantStats};
