//! A block device on its devices: opened, turned on the caller's thread, asked by whoever is on that thread.
//!
//! 1. Open both devices, and judge them: what is somebody else's is refused before anything is changed.
//! 2. Let the engine recover what they hold, or format them.
//! 3. Turn its crank until it is told to stop (`crank`), and pass on what is asked of its exports (`volume`).

mod crank;
mod error;
mod volume;

use std::cell::Cell;
use std::rc::Rc;

use tokio::task::JoinHandle;
use zonal_base::{Blocks, Bytes, PoolClass, low_u32};
use zonal_device::Geometry;
use zonal_hostdev::{DeviceSpec, Drive, QUEUE_DEPTH, ShardOptions};
use zonal_runtime::{Buffers, Port};
use zonal_shaper::{
    BlockError, Export, ExportId, Identity, Layout, MapMemory, OpenMode, Opening, Ports, Settings,
    SettingsError, Shaper, Tier,
};

use crate::driven::Driven;
use crate::holds::bears_block_device;
use crate::node::random_id;
use crate::{CHECKSUM, Holds};
use crank::{Crank, Nudge};
pub use error::BlockStartError;
pub use volume::BlockVolume;

/// What a block device is made of.
#[derive(Clone, Debug)]
pub struct BlockSettings {
    /// Where data end up.
    pub capacity: DeviceSpec,
    /// What takes the writes. `None`: the first zones of the other.
    pub buffer: Option<DeviceSpec>,
    /// Exports to be made, or to be there already. None: those that are there, or else one of all that there is.
    pub exports: Vec<Export>,
    /// Of what the capacity device can hold, so many percent are not given to exports.
    pub spare_percent: u8,
    /// For what is being read.
    pub memory: Bytes,
    /// How much of the map of blocks is in memory.
    pub map_memory: MapMemory,
    /// What may become of what is there.
    pub mode: OpenMode,
}

/// Memory for what is being read, when nobody says otherwise: 64 MiB.
pub const BLOCK_MEMORY: Bytes = Bytes::mib(64);

/// The least with which reads of every size go on beside each other: 16 MiB.
pub const BLOCK_MEMORY_MIN: Bytes = Bytes::mib(16);

/// The export that is made where nobody names one.
const DEFAULT_EXPORT: &str = "disk";

/// Of a device that is both, one zone in so many is the buffer, ...
const BUFFER_SHARE: u32 = 20;

/// ... but no fewer than these.
const BUFFER_ZONES_MIN: u32 = 4;

/// A block device that is up.
pub struct Block {
    shaper: Shaper,
    buffers: Buffers,
    nudge: Rc<Nudge>,
    is_stopping: Rc<Cell<bool>>,
    turning: JoinHandle<()>,
}

/// Devices that were judged and may be used.
struct Found {
    capacity: Drive,
    buffer: Option<Drive>,
    layout: Layout,
    exports: Vec<Export>,
}

impl Block {
    /// Opens the devices and starts the engine. It is turned by a task of this thread, and whatever it is asked must come
    /// from there.
    ///
    /// Requires: it runs within a `LocalSet`.
    ///
    /// # Errors
    /// When it cannot be started: what is on the devices is as it was, unless they were to be formatted.
    pub async fn start(settings: &BlockSettings) -> Result<Self, BlockStartError> {
        let of_devices = settings.clone();
        // A device may take its time to be read or allocated, and the caller has others to attend to.
        let found = tokio::task::spawn_blocking(move || Found::open(&of_devices)).await;
        let found = found.map_err(|error| BlockStartError::System(error.to_string()))??;

        let mut crank = Crank::new();
        let buffers = Buffers::new(crank.executor.spawner(), &classes(settings.memory));
        let mut drive = |drive: &Drive| -> Result<Port<_, _>, BlockStartError> {
            let options = ShardOptions {
                shard: 0,
                shard_count: 1,
                queue_depth: QUEUE_DEPTH,
                pool: buffers.pool(),
            };
            let (device, port) = (drive.shard(&options)?, Port::new());
            let driven = Driven::new(device, port.clone());
            let driven = driven.map_err(|error| BlockStartError::System(error.to_string()))?;
            crank.devices.push((drive.path().into(), driven));
            Ok(port)
        };
        let capacity = drive(&found.capacity)?;
        let buffer = found.buffer.as_ref().map_or_else(|| Ok(capacity.clone()), drive)?;
        let ports = Ports {
            buffer,
            capacity,
            clock: crank.executor.clock().clone(),
            spawner: crank.executor.spawner().clone(),
            buffers: buffers.clone(),
            checksum: CHECKSUM,
        };
        let opening = Opening {
            settings: engine_settings(settings),
            exports: found.exports.clone(),
            identity: Identity(
                random_id().map_err(|error| BlockStartError::System(error.to_string()))?,
            ),
            mode: settings.mode,
        };
        let opened = crank.carry_out(Shaper::open(ports, found.layout, opening)).await;
        let shaper = opened.map_err(|error| BlockStartError::open(settings, error))?;
        found.keep();
        Ok(Self::up(crank, shaper, buffers))
    }

    fn up(mut crank: Crank, shaper: Shaper, buffers: Buffers) -> Self {
        let (nudge, is_stopping) = (crank.nudge.clone(), Rc::<Cell<bool>>::default());
        let stop = is_stopping.clone();
        crank.serve();
        let turning = tokio::task::spawn_local(async move {
            crank.turn_until(|| stop.get().then_some(())).await;
        });
        Self { shaper, buffers, nudge, is_stopping, turning }
    }

    /// The engine, to be looked at. What is to be done goes through volumes.
    #[must_use]
    pub const fn shaper(&self) -> &Shaper {
        &self.shaper
    }

    /// The blocks of an export.
    ///
    /// Requires: there is such an export.
    #[must_use]
    pub fn volume(&self, export: ExportId) -> BlockVolume {
        BlockVolume::new(self.shaper.clone(), export, self.buffers.clone(), self.nudge.clone())
    }

    /// Ends so that the next start knows all that must be on the devices. What was acknowledged is on flash then.
    ///
    /// Requires: nobody asks for anything any more.
    ///
    /// # Errors
    /// When the flush failed.
    pub async fn stop(self) -> Result<(), BlockError> {
        let closed = self.nudge.while_asking(self.shaper.close()).await;
        self.is_stopping.set(true);
        self.nudge.now();
        // A crank that panicked has said so.
        let _ = self.turning.await;
        closed
    }
}

impl Found {
    /// Every device is judged before the first is changed.
    fn open(settings: &BlockSettings) -> Result<Self, BlockStartError> {
        let (capacity, is_blank) = judged(&settings.capacity, settings.mode)?;
        let buffer =
            settings.buffer.as_ref().map(|spec| judged(spec, settings.mode)).transpose()?;
        let buffer = buffer.map(|(drive, _)| drive);
        let layout = match &buffer {
            Some(buffer) => Layout::two_devices(*buffer.geometry(), *capacity.geometry()),
            None => divided(capacity.geometry())?,
        };
        let engine = engine_settings(settings);
        let exports = match settings.exports.is_empty() && is_blank {
            true => vec![whole(&engine, &layout)],
            false => settings.exports.clone(),
        };
        engine.check(&layout, &exports).map_err(BlockStartError::Unfit)?;
        let (capacity, buffer) = (capacity.claim()?, buffer.map(Drive::claim).transpose()?);
        Ok(Self { capacity, buffer, layout, exports })
    }

    /// Files that were made stay.
    fn keep(&self) {
        self.capacity.keep();
        if let Some(buffer) = &self.buffer {
            buffer.keep();
        }
    }
}

/// A device that may be used, and whether there is nothing on it.
fn judged(spec: &DeviceSpec, mode: OpenMode) -> Result<(Drive, bool), BlockStartError> {
    let drive = Drive::open(spec)?;
    let foreign = |what| BlockStartError::Foreign { spec: spec.clone(), what };
    if mode == OpenMode::Format {
        // Its loss is meant.
        return Ok((drive, true));
    }
    if bears_block_device(&drive) {
        return Ok((drive, false));
    }
    match Holds::of(&drive)? {
        Holds::Nothing => Ok((drive, true)),
        Holds::NothingSeen => {
            tracing::warn!(
                path = %drive.path().display(),
                "the device looks blank and is formatted: it is too large to be read whole"
            );
            Ok((drive, true))
        }
        Holds::Log(_) | Holds::OtherVersion(_) => {
            Err(foreign("a cache, of zonal serve".to_owned()))
        }
        Holds::Foreign(what) => Err(foreign(what)),
    }
}

/// One device for both: its first zones are the buffer.
fn divided(geometry: &Geometry) -> Result<Layout, BlockStartError> {
    let zones = (geometry.zone_count / BUFFER_SHARE).max(BUFFER_ZONES_MIN);
    if geometry.zone_count <= zones {
        let least = BUFFER_ZONES_MIN + 1;
        let (tier, count) = (Tier::Buffer, geometry.zone_count);
        return Err(BlockStartError::Unfit(SettingsError::TooFewZones { tier, count, least }));
    }
    Ok(Layout::one_device(*geometry, zones))
}

fn engine_settings(settings: &BlockSettings) -> Settings {
    let BlockSettings { spare_percent, map_memory, .. } = *settings;
    Settings { spare_percent, map_memory, ..Settings::default() }
}

/// An export of all that there is, in whole MiB.
fn whole(settings: &Settings, layout: &Layout) -> Export {
    let offered = settings.exportable(layout, 1);
    let blocks = Blocks(offered.0 / MIB_BLOCKS.0 * MIB_BLOCKS.0);
    Export { name: DEFAULT_EXPORT.to_owned(), tenant: DEFAULT_EXPORT.to_owned(), blocks }
}

const MIB_BLOCKS: Blocks = Blocks(256);

/// Buffers of each size: many single blocks, and most memory for pieces as large as a read of the engine.
fn classes(memory: Bytes) -> [PoolClass; 3] {
    let class = |blocks: Blocks, parts: u64| {
        let count = (memory.0 / 8 * parts / blocks.bytes().0).max(8);
        PoolClass { blocks, count: low_u32(zonal_base::index(count)) }
    };
    [class(Blocks(1), 1), class(Blocks(16), 3), class(Settings::READ_BLOCKS, 4)]
}
