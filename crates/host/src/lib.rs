//! Real host of cache engines: a thread per shard, the real clock, device supervision, and the
//! handles that front ends use.
//!
//! Uses: `cache`, `shaper`, `hostdev`, `policy`, `zonelog`, `runtime`, `device`, `base`.
//! Knows nothing of: HTTP, S3, configuration files, what the origin is.
//! Read in this order: `node`, `device_open`, `device_contents`, `shard`, `shard_lifecycle`,
//! `shard_loop`, `device_driver`, `device_health`, `device_supervisor` (isolation of a failing
//! device), `roster`, `membership`, `routes`, `peers`, `client`, `events`, `listing`, `get`, `stripes`,
//! `striped_read`, `pipe`, `origin`; `containment` (scope of a panic).
//!
//! One shard = one thread = one current-thread tokio runtime. It runs the engine's executor, and
//! may run a front end's connections: a hit on the connection's own shard wakes no other thread.

mod alarm;
mod checksum;
mod chunks;
mod client;
mod clock;
mod containment;
mod device_contents;
mod device_driver;
mod device_health;
mod device_open;
mod device_supervisor;
mod events;
mod get;
mod listing;
mod membership;
mod memory;
mod node;
mod origin;
mod peers;
mod pipe;
mod request;
mod roster;
mod routes;
mod shard;
mod shard_lifecycle;
mod shard_loop;
mod stats;
mod striped_read;
mod stripes;

pub use alarm::Alarm;
pub use checksum::CHECKSUM;
pub use chunks::ChunkRefused;
pub use client::{Client, Located};
pub use clock::{RealClock, monotonic};
pub use containment::{contained, essential, in_contained_task};
pub use device_contents::{DeviceContents, Formatted, GeometryMismatch, bears_block_device};
pub use device_driver::DeviceDriver;
pub use device_open::CheckedDevice;
pub use device_supervisor::{PROBE_WINDOW, READ_TIMEOUT};
pub use events::{EventCursor, HealthEvent, ShardEvents};
pub use listing::{Listing, PlacedRange};
pub use memory::{BUFFER_BYTES, BUFFER_BYTES_MIN, DRAM_BYTES, PREFETCH_BYTES};
pub use node::{DeviceSettings, FrontEndTask, Node, NodeSettings, StartError};
pub use origin::{Backend, BodyStream, BoxFuture, ObjectBody};
pub use stats::{ShardStats, ShardZones, ZoneInspection};
pub use striped_read::StripedRead;
pub use zonal_cache::{
    CacheEvent, CachedObject, Change, Chunk, ChunkRules, Freshness, FreshnessPolicy, Head,
    HeadSource, LookupError, ObjectName, Opened, OriginFault, OriginHead, OriginUse,
    PREFIX_BYTES_MAX, PieceSource, PrefixRules, ReadError, RemoveError, Residency, RetentionClass,
    SampleSize, SampledObject, Tally, ZoneContents, ZoneDetails, prefetch_window,
};
