//! Host of the write-shaping block device: opens its devices, runs the engine on the caller's
//! thread, and offers each export as a volume of the NBD server.
//!
//! Uses: `shaper`, `host`, `hostdev`, `export`, `runtime`, `device`, `base`. Knows nothing of:
//! HTTP, S3, the cache, configuration files, flags. Read in this order: `device` (start and stop),
//! `event_loop`, `volume`, `nbd`, `error`.

mod device;
mod error;
mod event_loop;
mod nbd;
mod volume;

pub use device::{BlockDevice, BlockSettings, MEMORY, MEMORY_MIN, check_devices};
pub use error::StartError;
pub use nbd::exports;
pub use volume::BlockVolume;
pub use zonal_shaper::{
    BlockChange, BlockError, BlockEvent, DamagedBlock, Durability, Export, ExportId, MapMemory,
    OpenError, OpenMode, Piece, ReadFailures, Run, Scrub, Shaper, ShaperStats, Stream, Tier,
    ZoneChange, ZoneStats, ZoneUse,
};
