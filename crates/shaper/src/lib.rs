//! Write-shaping block device: accepts random writes and writes flash zones sequentially.
//!
//! Uses: `device` (its ports), `runtime`, `base`. Knows nothing of: NBD, files, sockets, threads,
//! real time.
//! Read in this order: `export`, `layout`, `settings`, `format`, `map`, `state`, `shaper`; then the
//! paths: `write`, `flush`, `read`, `trim`, `pages`, `throttle`, `compact`, `hot_retention`,
//! `garbage_collection`, `relocate`, `retry`, `refused`, `read_only`, `zone_table`, `tier`, `close`,
//! `zones`, `events`; then `open`, `scan`, `candidates`, `recover`.
//!
//! The *buffer* tier is a log that takes all writes. One device write (a segment) carries many user
//! writes, and they are acknowledged when the device completes it. Compaction takes the oldest zone
//! of that log and drops blocks that were overwritten or trimmed since. It keeps frequently
//! overwritten blocks in the buffer, and moves the rest in large writes to zones of the *capacity*
//! tier, with separate zones for each tenant. Garbage collection empties capacity zones that hold
//! little live data. The L2P map gives the physical address of each 4 KiB block. It is in memory,
//! or partly on flash.
//!
//! Execution: this crate runs no event loop. [`Shaper::open`] spawns its tasks on the given
//! spawner's executor. The host runs that executor, submits the commands of the two ports to the
//! two devices and returns their completions, as for a cache. With a single device both ports are
//! clones of one port.
//!
//! Invariants:
//!
//! - A write or trim is acknowledged when the device completes it, and then survives the end of the
//!   process. After [`Shaper::flush`], or with [`Durability::Durable`], it survives a power cut on
//!   either tier.
//! - A zone is reset only after two steps. Both tiers are flushed after everything in the zone was
//!   copied, overwritten or trimmed. Then a release entry for the zone, or a zone table without it,
//!   is on flash.
//! - A zone table entry on flash stays true until its zone is reset. A zone that contradicts its
//!   entry is damaged.
//! - The map names only blocks whose device write has completed. Of two writes to one block the one
//!   queued later wins, also after a crash.
//! - A block that can no longer be read is an error. It never returns an older version or zeros,
//!   also after a restart.
//! - A write that cannot complete is refused. When the block device can never write again, every
//!   waiting request fails.
#![no_std]

extern crate alloc;

mod candidates;
mod close;
mod compact;
mod damaged;
mod events;
mod export;
mod flush;
mod format;
mod garbage_collection;
mod hot_retention;
mod layout;
mod map;
mod mutation;
mod open;
mod pages;
mod ports;
mod read;
mod read_only;
mod recover;
mod refused;
mod relocate;
mod retry;
mod scan;
mod scrub;
mod segments;
mod settings;
mod shaper;
mod state;
mod stats;
mod throttle;
mod tier;
mod trim;
mod write;
mod zone_table;
mod zones;

pub use damaged::DamagedBlock;
pub use events::{BlockChange, BlockEvent, Moved, VictimChoice, ZoneChange};
pub use export::{BlockError, Durability, Export, ExportId, Extent, Piece, Run};
pub use format::bears_mark;
pub use layout::{Layout, Tier, ZoneRange};
#[cfg(feature = "planted-bugs")]
pub use mutation::Mutation;
pub use open::{Damage, Identity, OpenError, OpenMode, Opening};
pub use ports::Ports;
pub use recover::Recovery;
pub use scrub::Scrub;
pub use settings::{MapMemory, Settings, SettingsError};
pub use shaper::{ReadFailures, Shaper, ShaperLoad};
pub use state::ZoneUse;
pub use stats::{ShaperStats, TenantStats};
pub use zones::{Ranked, Score, Stream, ZoneRanking, ZoneStats};
