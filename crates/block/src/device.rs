//! Start and stop of a block device. The engine runs on the caller's thread, and its volumes belong
//! to that thread.
//!
//! 1. Open both devices, and refuse foreign data before anything is changed.
//! 2. Let the engine recover the devices, or format them.
//! 3. Run its event loop (`event_loop`) until it is told to stop, and pass on the requests of its
//!    exports (`volume`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::JoinHandle;
use zonal_base::{Blocks, Bytes, PoolClass, low_u32};
use zonal_device::{CommandLatencies, Geometry};
use zonal_host::{CHECKSUM, DeviceContents, DeviceDriver, bears_block_device};
use zonal_hostdev::{DeviceSpec, Drive, QUEUE_DEPTH, ShardOptions};
use zonal_runtime::{Buffers, Port};
use zonal_shaper::{
    BlockError, Export, ExportId, Identity, Layout, MapMemory, OpenMode, Opening, Ports, Scrub,
    Settings, SettingsError, Shaper, Tier,
};

use crate::error::StartError;
use crate::event_loop::{EventLoop, LoopWaker};
use crate::volume::BlockVolume;

/// Configuration of a block device.
#[derive(Clone, Debug)]
pub struct BlockSettings {
    /// Capacity device: the tier where data ends up.
    pub capacity: DeviceSpec,
    /// Write buffer device. `None`: the first zones of the capacity device.
    pub buffer: Option<DeviceSpec>,
    /// Exports to create or open. Empty: all existing exports, or on blank devices one of the whole
    /// capacity.
    pub exports: Vec<Export>,
    /// Over-provisioning: percent of the capacity that exports do not get.
    pub spare_percent: u8,
    /// Memory for running reads.
    pub memory: Bytes,
    /// How much of the L2P map is in memory.
    pub map_memory: MapMemory,
    /// What to do with the contents of the devices: recover, salvage or format.
    pub mode: OpenMode,
}

/// Default memory for running reads: 64 MiB.
pub const MEMORY: Bytes = Bytes::mib(64);

/// Minimum memory with which concurrent reads of every size make progress: 16 MiB.
pub const MEMORY_MIN: Bytes = Bytes::mib(16);

/// Name of the export on a blank device, if the configuration names none.
const DEFAULT_EXPORT: &str = "disk";

/// Size of the write buffer on a single device: one zone in this many, ...
const BUFFER_SHARE: u32 = 20;

/// ... but at least this many zones.
const BUFFER_ZONES_MIN: u32 = 4;

/// A running block device.
pub struct BlockDevice {
    shaper: Shaper,
    buffers: Buffers,
    waker: Rc<LoopWaker>,
    is_stopping: Rc<Cell<bool>>,
    running: JoinHandle<()>,
    commands: Vec<(Tier, Arc<CommandLatencies>)>,
}

/// Opened devices that contain no foreign data, with their layout and exports.
struct OpenedDevices {
    capacity: Drive,
    buffer: Option<Drive>,
    layout: Layout,
    exports: Vec<Export>,
}

impl BlockDevice {
    /// Opens the devices and starts the engine in a task of this thread. Its volumes must be used
    /// on this thread.
    ///
    /// Requires: it runs within a `LocalSet`.
    ///
    /// # Errors
    /// The block device cannot be started. The contents of the devices are unchanged, except in
    /// `Format` mode.
    pub async fn start(settings: &BlockSettings) -> Result<Self, StartError> {
        let of_devices = settings.clone();
        // Opening a device can block for long: it reads or allocates the device.
        let found = tokio::task::spawn_blocking(move || OpenedDevices::open(&of_devices)).await;
        let found = found.map_err(|error| StartError::System(error.to_string()))??;

        let mut event_loop = EventLoop::new();
        let buffers = Buffers::new(event_loop.executor.spawner(), &classes(settings.memory));
        let mut drive = |drive: &Drive| -> Result<Port<_, _>, StartError> {
            let options = ShardOptions {
                shard: 0,
                shard_count: 1,
                queue_depth: QUEUE_DEPTH,
                pool: buffers.pool(),
            };
            let (device, port) = (drive.shard(&options)?, Port::new());
            let driver = DeviceDriver::new(device, port.clone());
            let driver = driver.map_err(|error| StartError::System(error.to_string()))?;
            event_loop.devices.push((drive.path().into(), driver));
            Ok(port)
        };
        let capacity = drive(&found.capacity)?;
        let buffer = found.buffer.as_ref().map_or_else(|| Ok(capacity.clone()), drive)?;
        let tiers = [Tier::Capacity, Tier::Buffer].into_iter();
        let devices = event_loop.devices.iter().filter_map(|(_, driver)| driver.device());
        let commands = tiers.zip(devices.map(|device| device.latencies().clone())).collect();
        let ports = Ports {
            buffer,
            capacity,
            clock: event_loop.executor.clock().clone(),
            spawner: event_loop.executor.spawner().clone(),
            buffers: buffers.clone(),
            checksum: CHECKSUM,
        };
        let opening = Opening {
            settings: engine_settings(settings),
            exports: found.exports.clone(),
            identity: Identity(random_id()?),
            mode: settings.mode,
        };
        let opened = event_loop.carry_out(Shaper::open(ports, found.layout, opening)).await;
        let shaper = opened.map_err(|error| StartError::open(settings, error))?;
        found.keep();
        Ok(Self::up((event_loop, commands), shaper, buffers))
    }

    fn up(
        (mut event_loop, commands): (EventLoop, Vec<(Tier, Arc<CommandLatencies>)>),
        shaper: Shaper,
        buffers: Buffers,
    ) -> Self {
        let (waker, is_stopping) = (event_loop.waker.clone(), Rc::<Cell<bool>>::default());
        let stop = is_stopping.clone();
        event_loop.serve();
        let running = tokio::task::spawn_local(async move {
            event_loop.run_until(|| stop.get().then_some(())).await;
        });
        Self { shaper, buffers, waker, is_stopping, running, commands }
    }

    /// Latencies of the devices' commands. A single device counts as the capacity tier.
    #[must_use]
    pub fn commands(&self) -> &[(Tier, Arc<CommandLatencies>)] {
        &self.commands
    }

    /// The engine, for its statistics. Requests go through volumes.
    #[must_use]
    pub const fn shaper(&self) -> &Shaper {
        &self.shaper
    }

    /// The volume of an export.
    ///
    /// Requires: the export exists.
    #[must_use]
    pub fn volume(&self, export: ExportId) -> BlockVolume {
        BlockVolume::new(self.shaper.clone(), export, self.buffers.clone(), self.waker.clone())
    }

    /// Reads and verifies all that counts on both devices, with at most `rate` bytes a second.
    /// Requires: no other scrub is running.
    ///
    /// # Errors
    /// A device failed.
    pub async fn scrub(&self, rate: Bytes) -> Result<Scrub, BlockError> {
        self.waker.while_asking(self.shaper.scrub(rate)).await
    }

    /// Graceful shutdown: flushes and writes the zone table, from which the next start can tell
    /// whether anything is missing.
    ///
    /// Requires: no request is running.
    ///
    /// # Errors
    /// The flush failed.
    pub async fn stop(self) -> Result<(), BlockError> {
        let closed = self.waker.while_asking(self.shaper.close()).await;
        self.is_stopping.set(true);
        self.waker.wake();
        // If the event loop panicked, that was logged then.
        let _ = self.running.await;
        closed
    }
}

impl OpenedDevices {
    /// Opens and checks both devices before it changes either.
    fn open(settings: &BlockSettings) -> Result<Self, StartError> {
        let Self { capacity, buffer, layout, exports } = Self::checked(settings, Drive::open)?.0;
        let (capacity, buffer) = (capacity.claim()?, buffer.map(Drive::claim).transpose()?);
        Ok(Self { capacity, buffer, layout, exports })
    }

    /// Opens both devices with `open`, and checks them. Returns also whether a start would format
    /// the capacity device.
    fn checked(settings: &BlockSettings, open: OpenDrive) -> Result<(Self, bool), StartError> {
        let (capacity, is_blank) = judged(&settings.capacity, settings.mode, open)?;
        let buffer =
            settings.buffer.as_ref().map(|spec| judged(spec, settings.mode, open)).transpose()?;
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
        engine.check(&layout, &exports).map_err(StartError::Unfit)?;
        Ok((Self { capacity, buffer, layout, exports }, is_blank))
    }

    /// Keeps the files that were created for the devices. Without this call they are removed again.
    fn keep(&self) {
        self.capacity.keep();
        if let Some(buffer) = &self.buffer {
            buffer.keep();
        }
    }
}

/// How a drive is opened: for a start, or read-only.
type OpenDrive = fn(&DeviceSpec) -> Result<Drive, zonal_hostdev::OpenError>;

/// Checks devices as a start does, without changing them, even while another process uses
/// them. Returns whether a start would format the capacity device.
///
/// # Errors
/// The error with which a start would refuse the devices.
pub fn check_devices(settings: &BlockSettings) -> Result<bool, StartError> {
    OpenedDevices::checked(settings, Drive::open_to_check).map(|(_, is_blank)| is_blank)
}

/// Opens a device and refuses foreign data. The flag is true if the device is blank or will be
/// formatted.
fn judged(spec: &DeviceSpec, mode: OpenMode, open: OpenDrive) -> Result<(Drive, bool), StartError> {
    let drive = open(spec)?;
    let foreign = |what| StartError::Foreign { spec: spec.clone(), what };
    if mode == OpenMode::Format {
        // Formatting overwrites the contents on purpose.
        return Ok((drive, true));
    }
    if bears_block_device(&drive) {
        return Ok((drive, false));
    }
    match DeviceContents::of(&drive)? {
        DeviceContents::Nothing => Ok((drive, true)),
        DeviceContents::NothingSeen => {
            tracing::warn!(
                path = %drive.path().display(),
                "formatting: the device looks blank, but only parts were checked"
            );
            Ok((drive, true))
        }
        DeviceContents::Log(_) | DeviceContents::OtherVersion(_) => {
            Err(foreign("a Zonal cache".to_owned()))
        }
        DeviceContents::Foreign(what) => Err(foreign(what)),
    }
}

/// Layout of a single device: its first zones are the write buffer.
fn divided(geometry: &Geometry) -> Result<Layout, StartError> {
    let zones = (geometry.zone_count / BUFFER_SHARE).max(BUFFER_ZONES_MIN);
    if geometry.zone_count <= zones {
        let least = BUFFER_ZONES_MIN + 1;
        let (tier, count) = (Tier::Buffer, geometry.zone_count);
        return Err(StartError::Unfit(SettingsError::TooFewZones { tier, count, least }));
    }
    Ok(Layout::one_device(*geometry, zones))
}

fn engine_settings(settings: &BlockSettings) -> Settings {
    let BlockSettings { spare_percent, map_memory, .. } = *settings;
    Settings { spare_percent, map_memory, ..Settings::default() }
}

/// An export of the whole capacity, rounded down to MiB.
fn whole(settings: &Settings, layout: &Layout) -> Export {
    let offered = settings.exportable(layout, 1);
    let blocks = Blocks(offered.0 / MIB_BLOCKS.0 * MIB_BLOCKS.0);
    Export {
        name: DEFAULT_EXPORT.to_owned(),
        tenant: DEFAULT_EXPORT.to_owned(),
        blocks,
        is_verified: true,
    }
}

const MIB_BLOCKS: Blocks = Blocks(256);

/// Buffer pool: an eighth of the memory for single blocks, and half of it for buffers as large as
/// the largest read of the engine.
fn classes(memory: Bytes) -> [PoolClass; 3] {
    let class = |blocks: Blocks, parts: u64| {
        let count = (memory.0 / 8 * parts / blocks.bytes().0).max(8);
        PoolClass { blocks, count: low_u32(zonal_base::index(count)) }
    };
    [class(Blocks(1), 1), class(Blocks(16), 3), class(Settings::READ_BLOCKS, 4)]
}

fn random_id() -> Result<[u8; 16], StartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StartError::System(error.to_string()))?;
    Ok(id)
}
