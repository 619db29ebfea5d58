//! Device under the jobs: a drive alone, Zonal's block device on two drives, or a write-back cache.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::{
    BLOCK_BYTES, Blocks, Bytes, Checksum, Contents, Lba, Payload, PoolClass, index, low_u32,
};
use zonal_device::{Completion, Geometry, ZonedDevice};
use zonal_emulator::{
    BlockCommand, ConventionalDrive, ConventionalProfile, DiscardMedium, Model, OnReset, Profile,
    Tags, ZonedDrive,
};
use zonal_runtime::{Buffers, Port};
use zonal_shaper::{
    Durability, Export, ExportId, Extent, Identity, Layout, OpenMode, Opening, Ports, Settings,
    Shaper,
};

use super::sets::Sets;
use super::world::JobWorld;
use super::writers::FILL;
use super::{Buffer, Jobs};
use crate::experiment::Drive;

/// Bytes that the capacity drive has received and programmed so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) given: u64,
    pub(super) programmed: u64,
}

/// Device that takes reads and writes. The exports of a block device have equal sizes and follow
/// each other.
#[derive(Clone)]
pub(super) enum Volume {
    Shaped(Shaper, Blocks),
    Bare(Port<BlockCommand, Completion>, Buffers),
    Cached(Rc<Sets>),
}

/// An opened device with its simulation.
pub(super) struct Opened {
    pub(super) world: JobWorld,
    pub(super) volume: Volume,
    /// Blocks that the writers may use.
    pub(super) offered: Blocks,
    /// Returns the counters of the capacity drive.
    pub(super) given: Box<dyn Fn() -> Given>,
}

/// Zones of the full buffer. `CAPACITY_ZONES` are those of a conventional capacity drive.
const BUFFER_ZONES: u64 = 100;
const CAPACITY_ZONES: u64 = 1000;

/// A zone is a multiple of this many blocks: whole segments, and whole units of the largest map.
const ZONE_MULTIPLE: u64 = 192;

/// Smallest zone in blocks. A smaller zone would be mostly headers.
pub(super) const ZONE_BLOCKS_MIN: u64 = 2 * ZONE_MULTIPLE;

impl Jobs {
    /// Ranks of a Zipf distribution that are one block at this scale.
    pub(super) const fn merged(&self) -> u64 {
        if matches!(self.buffer, Buffer::None) { 1 } else { self.smaller }
    }

    pub(super) fn open(&self) -> Result<Opened, String> {
        match (self.buffer, self.drive.model()) {
            (Buffer::None, Model::Conventional(profile)) => {
                // The same share is spare as on the block device.
                let opened = alone(self.scaled(*profile), self.read, self.seed);
                Ok(Opened { offered: self.used(opened.offered), ..opened })
            }
            (Buffer::Log(buffer), Model::Conventional(profile)) => {
                let capacity = in_zones(self.scaled(*profile), CAPACITY_ZONES, self.seed + 1);
                let opened = self.shaped(conventional(buffer)?, &capacity)?;
                Ok(Opened { given: given_to(&capacity), ..opened })
            }
            (Buffer::Log(buffer), Model::Zoned(profile)) => {
                let profile = self.with_fewer_blocks(*profile);
                let medium = Box::new(Tags::new(&profile.geometry));
                let drive = ZonedDrive::new(profile, self.seed + 1, medium);
                self.shaped(conventional(buffer)?, &Rc::new(RefCell::new(drive)))
            }
            (Buffer::WriteBack(buffer), Model::Conventional(profile)) => {
                Ok(self.cached(conventional(buffer)?, *profile))
            }
            (Buffer::None, Model::Zoned(_)) => Err(NEEDS_BUFFER.into()),
            (Buffer::WriteBack(_), Model::Zoned(_)) => Err(IN_PLACE.into()),
        }
    }

    /// A write-back cache in front of a drive.
    fn cached(&self, buffer: ConventionalProfile, profile: ConventionalProfile) -> Opened {
        let mut opened = alone(self.scaled(profile), self.read, self.seed + 1);
        let Volume::Bare(drive, _) = opened.volume else { unreachable!("a drive alone") };
        let (fast, all) = in_place(self.scaled(buffer), self.seed);
        let port = Port::new();
        opened.world.add_in_place(&fast, port.clone());
        let tasks =
            (opened.world.executor.spawner(), self.jobs * self.depth, self.read.blocks_ceil());
        let volume = Volume::Cached(Sets::new((port, all), drive, tasks));
        Opened { volume, offered: self.used(opened.offered), ..opened }
    }

    fn used(&self, offered: Blocks) -> Blocks {
        Blocks(offered.0 * u64::from(100 - self.spare_percent) / 100)
    }

    fn shaped<D: ZonedDevice + 'static>(
        &self,
        buffer: ConventionalProfile,
        capacity: &Rc<RefCell<D>>,
    ) -> Result<Opened, String> {
        let buffer = in_zones(self.scaled(buffer), BUFFER_ZONES, self.seed);
        let exports = |offered: Blocks| {
            vec![Export {
                name: "jobs".into(),
                tenant: "jobs".into(),
                blocks: offered,
                is_verified: true,
            }]
        };
        on_tiers((&buffer, capacity), (1, self.spare_percent), exports)
    }

    fn scaled(&self, profile: ConventionalProfile) -> ConventionalProfile {
        let user = profile.user_blocks().bytes();
        profile.scaled_to(Bytes(user.0 / self.smaller))
    }

    /// A zoned drive at scale: with smaller zones, or with fewer zones of the smallest size if they
    /// would be too small.
    fn with_fewer_blocks(&self, profile: Profile) -> Profile {
        let Geometry { zone_capacity: Blocks(capacity), zone_count, .. } = profile.geometry;
        let zone = (capacity / self.smaller / ZONE_MULTIPLE * ZONE_MULTIPLE).max(ZONE_BLOCKS_MIN);
        let count = low_u32(index(capacity * u64::from(zone_count) / self.smaller / zone));
        let (zone_size, zone_count) = (Blocks(zone), count.clamp(1, zone_count));
        let geometry =
            Geometry { zone_size, zone_capacity: zone_size, zone_count, ..profile.geometry };
        Profile { geometry, ..profile }
    }
}

pub(super) const NEEDS_BUFFER: &str =
    "buffer: a zoned drive cannot be written in place: name a drive for the write buffer";

pub(super) const IN_PLACE: &str = "buffer: a write-back cache writes the drive in place: omit \
                                   write-back:, or name a drive without zones";

pub(super) const BUFFER_HAS_ZONES: &str = "buffer: write none, or a drive without zones";

/// A drive alone, with its whole capacity.
pub(super) fn alone(profile: ConventionalProfile, read: Bytes, seed: u64) -> Opened {
    let ((drive, all), port) = (in_place(profile, seed), Port::new());
    let mut world = JobWorld::new();
    world.add_in_place(&drive, port.clone());
    let class = PoolClass { blocks: read.blocks_ceil(), count: 512 };
    let buffers = Buffers::holding(Contents::Tags, world.executor.spawner(), &[class]);
    Opened { world, volume: Volume::Bare(port, buffers), offered: all, given: given_to(&drive) }
}

/// A drive that is written in place, and its number of blocks.
fn in_place(profile: ConventionalProfile, seed: u64) -> (Rc<RefCell<ConventionalDrive>>, Blocks) {
    // The drive is one zone, so that every write and read lies within it.
    let all = Blocks(profile.user_blocks().0 / FILL.blocks_ceil().0 * FILL.blocks_ceil().0);
    let profile = profile.with_zones_of(all);
    let drive = ConventionalDrive::new(profile, OnReset::Nothing, seed, Box::new(DiscardMedium));
    (Rc::new(RefCell::new(drive)), all)
}

fn conventional(buffer: Drive) -> Result<ConventionalProfile, String> {
    match buffer.model() {
        Model::Conventional(profile) => Ok(*profile),
        Model::Zoned(_) => Err(BUFFER_HAS_ZONES.into()),
    }
}

pub(super) fn given_to(drive: &Rc<RefCell<ConventionalDrive>>) -> Box<dyn Fn() -> Given> {
    let drive = drive.clone();
    Box::new(move || {
        let drive = drive.borrow();
        let unit = drive.profile().ftl.map_or(0, |ftl| ftl.unit.bytes().0);
        let (given, programs) = drive
            .ftl_counters()
            .map_or((0, 0), |counters| (counters.host_blocks, counters.programs()));
        Given { given: Blocks(given).bytes().0, programmed: programs * unit }
    })
}

/// A drive divided into zones that it does not know: so many, or fewer if they would be too small.
pub(super) fn in_zones(
    profile: ConventionalProfile,
    zones: u64,
    seed: u64,
) -> Rc<RefCell<ConventionalDrive>> {
    let zone = profile.user_blocks().0 / zones / ZONE_MULTIPLE * ZONE_MULTIPLE;
    let profile = profile.with_zones_of(Blocks(zone.max(ZONE_BLOCKS_MIN)));
    let medium = Box::new(Tags::new(&profile.drive.geometry));
    Rc::new(RefCell::new(ConventionalDrive::new(profile, OnReset::Nothing, seed, medium)))
}

/// Zonal's block device on two drives, with `spare_percent` of the capacity drive unused.
///
/// `exports` divides the blocks that the device offers to `tenants` tenants into exports of equal
/// size. The counters of the capacity drive are the block device's own.
pub(super) fn on_tiers<D: ZonedDevice + 'static>(
    (buffer, capacity): (&Rc<RefCell<ConventionalDrive>>, &Rc<RefCell<D>>),
    (tenants, spare_percent): (u32, u8),
    exports: impl FnOnce(Blocks) -> Vec<Export>,
) -> Result<Opened, String> {
    let mut world = JobWorld::new();
    let spawner = world.executor.spawner().clone();
    let classes = [
        PoolClass { blocks: Blocks(1), count: 512 },
        PoolClass { blocks: Settings::READ_BLOCKS, count: 512 },
    ];
    let ports = Ports {
        buffer: Port::new(),
        capacity: Port::new(),
        clock: world.executor.clock().clone(),
        buffers: Buffers::holding(Contents::Tags, &spawner, &classes),
        spawner: spawner.clone(),
        checksum: Checksum(crc32c::crc32c_append),
    };
    world.add_zoned(buffer, ports.buffer.clone());
    world.add_zoned(capacity, ports.capacity.clone());
    let layout = Layout::two_devices(*buffer.borrow().geometry(), *capacity.borrow().geometry());
    let settings = Settings { spare_percent, contents: Contents::Tags, ..Settings::default() };
    let exports = exports(settings.exportable(&layout, tenants));
    let each = exports.first().map_or(Blocks(0), |export| export.blocks);
    let offered = Blocks(each.0 * exports.len() as u64);
    let identity = Identity(*b"jobs of the lab\0");
    let opening = Opening { settings, exports, identity, mode: OpenMode::Recover };
    let opened = Rc::new(RefCell::new(None));
    let out = opened.clone();
    spawner.spawn(async move {
        let result = Shaper::open(ports, layout, opening).await;
        *out.borrow_mut() = Some(result);
    });
    world.run(|| opened.borrow().is_some());
    let shaper = opened.take().ok_or("the block device failed to open")?;
    let shaper = shaper.map_err(|error| format!("the block device failed to open: {error}"))?;
    let told = shaper.clone();
    let given = Box::new(move || {
        let given = told.stats().capacity_device_bytes;
        Given { given, programmed: given }
    });
    Ok(Opened { world, volume: Volume::Shaped(shaper, each), offered, given })
}

impl Volume {
    /// Checks that the device lost no block.
    ///
    /// # Errors
    /// When it did: the counters would then be too low.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Shaped(shaper, _) if 0 < shaper.stats().blocks_lost => {
                Err(format!("{} blocks were lost", shaper.stats().blocks_lost))
            }
            _ => Ok(()),
        }
    }

    /// Bytes that the capacity drive received for each tenant, in the order of their exports. Empty
    /// for a drive alone, which knows no tenants.
    pub(super) fn given_by_tenant(&self) -> Vec<u64> {
        let Self::Shaped(shaper, _) = self else { return Vec::new() };
        let stats = shaper.tenant_stats();
        stats.iter().map(|(_, stats)| stats.capacity_written_bytes).collect()
    }

    /// Writes blocks from `at` on.
    pub(super) async fn write(&self, at: u64, data: Payload) -> Result<(), String> {
        match self {
            Self::Shaped(shaper, each) => {
                let (export, lba) = in_export(at, *each);
                let data = vec![data];
                let written = shaper.write(export, lba, data, Durability::Answered).await;
                written.map_err(|error| format!("a write: {error}"))
            }
            Self::Bare(port, _) => {
                let (lba, data) = (Lba(at), vec![data]);
                let answer = port.call(BlockCommand::Write { lba, data }).await;
                answer.map(drop).map_err(|error| format!("a write: {error:?}"))
            }
            Self::Cached(sets) => sets.write(at, (data.len() / BLOCK_BYTES) as u64).await,
        }
    }

    /// Reads `blocks` blocks from `at` on.
    pub(super) async fn read(&self, at: u64, blocks: Blocks) -> Result<(), String> {
        match self {
            Self::Shaped(shaper, each) => {
                let (export, first) = in_export(at, *each);
                let extent = Extent { export, first, blocks };
                let pieces = shaper.read(extent).await;
                pieces.map(drop).map_err(|error| format!("a read: {error}"))
            }
            Self::Bare(port, buffers) => {
                let buffer = buffers.take(blocks).await;
                let answer = port.call(BlockCommand::Read { lba: Lba(at), blocks, buffer }).await;
                answer.map(drop).map_err(|error| format!("a read: {error:?}"))
            }
            Self::Cached(sets) => sets.read(at, blocks).await,
        }
    }
}

/// Export and address of a block. `at` counts from the first block of the first export.
fn in_export(at: u64, each: Blocks) -> (ExportId, Lba) {
    let export = u16::try_from(at / each.0).expect("a block of an export");
    (ExportId(export), Lba(at % each.0))
}
