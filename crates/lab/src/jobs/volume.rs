//! What jobs run on: a drive as it is, or Zonal's block device on the models of two.

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{Blocks, Bytes, Checksum, Contents, Lba, Payload, PoolClass};
use zonal_device::{Completion, Geometry};
use zonal_emulator::{
    BlockCommand, ConventionalDrive, ConventionalProfile, Forgetful, OnReset, Tags,
};
use zonal_runtime::{Buffers, Port};
use zonal_shaper::{
    Durability, Export, ExportId, Extent, Identity, Layout, OpenMode, Opening, Ports, Settings,
    Shaper,
};

use super::{FILL, READ, World};

/// What jobs run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// Zonal's block device: writes go to an Optane drive, and from there to a QLC drive.
    OptaneAndQlc,
    /// The QLC drive alone.
    Qlc,
    /// A TLC drive alone.
    Tlc,
}

/// What the drive that keeps the data was given so far, and programmed: bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) given: u64,
    pub(super) programmed: u64,
}

/// Where blocks are written and read.
#[derive(Clone)]
pub(super) enum Volume {
    Shaped(Shaper),
    Bare(Port<BlockCommand, Completion>, Buffers),
}

/// All of it, the part that jobs may use, and what to ask about the drive.
type Opened = (World, Volume, Blocks, Box<dyn Fn() -> Given>);

/// Of each drive so many percent are not used.
const SPARE_PERCENT: u8 = 10;

/// Zones of the full drives' tiers: the buffer's, and what is written in one piece to the capacity tier.
const BUFFER_ZONES: u64 = 100;
const CAPACITY_ZONES: u64 = 1000;

/// Zones are whole segments, and with them whole units of the largest map.
const ZONE_MULTIPLE: u64 = 192;

impl Device {
    /// Ranks of a Zipf distribution that are one block of a device that is so many times smaller.
    pub(super) const fn merged(self, smaller: u64) -> u64 {
        match self {
            Self::OptaneAndQlc => smaller,
            Self::Qlc | Self::Tlc => 1,
        }
    }

    pub(super) fn open(self, smaller: u64, seed: u64) -> Result<Opened, String> {
        match self {
            Self::OptaneAndQlc => {
                let buffer = ConventionalProfile::p5800x_optane();
                shaped((buffer, ConventionalProfile::p5316_qlc()), smaller, seed)
            }
            Self::Qlc => Ok(bare(ConventionalProfile::p5316_qlc(), smaller, seed)),
            Self::Tlc => Ok(bare(ConventionalProfile::p5510_tlc(), smaller, seed)),
        }
    }
}

fn scaled(profile: ConventionalProfile, smaller: u64) -> ConventionalProfile {
    let user = profile.user_blocks().bytes();
    profile.scaled_to(Bytes(user.0 / smaller))
}

fn bare(profile: ConventionalProfile, smaller: u64, seed: u64) -> Opened {
    let profile = scaled(profile, smaller);
    // One zone by agreement: what is written or read lies within it.
    let all = Blocks(profile.user_blocks().0 / FILL.blocks_ceil().0 * FILL.blocks_ceil().0);
    let profile = profile.with_zones_of(all);
    let drive = ConventionalDrive::new(profile, OnReset::Nothing, seed, Box::new(Forgetful));
    let (drive, port) = (Rc::new(RefCell::new(drive)), Port::new());
    let mut world = World::new();
    world.add_in_place(&drive, port.clone());
    let class = PoolClass { blocks: READ.blocks_ceil(), count: 512 };
    let buffers = Buffers::holding(Contents::Tags, world.executor.spawner(), &[class]);
    let offered = Blocks(all.0 * u64::from(100 - SPARE_PERCENT) / 100);
    (world, Volume::Bare(port, buffers), offered, given_to(&drive))
}

fn given_to(drive: &Rc<RefCell<ConventionalDrive>>) -> Box<dyn Fn() -> Given> {
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

fn shaped(
    (buffer, capacity): (ConventionalProfile, ConventionalProfile),
    smaller: u64,
    seed: u64,
) -> Result<Opened, String> {
    let tier = |profile, zones: u64, seed| {
        let profile = scaled(profile, smaller);
        let zone = profile.user_blocks().0 / zones / ZONE_MULTIPLE * ZONE_MULTIPLE;
        let profile = profile.with_zones_of(Blocks(zone.max(2 * ZONE_MULTIPLE)));
        let medium = Box::new(Tags::new(&profile.drive.geometry));
        ConventionalDrive::new(profile, OnReset::Nothing, seed, medium)
    };
    let buffer = Rc::new(RefCell::new(tier(buffer, BUFFER_ZONES, seed)));
    let capacity = Rc::new(RefCell::new(tier(capacity, CAPACITY_ZONES, seed + 1)));
    let mut world = World::new();
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
    world.add_zoned(&buffer, ports.buffer.clone());
    world.add_zoned(&capacity, ports.capacity.clone());
    let geometry = |drive: &Rc<RefCell<ConventionalDrive>>| -> Geometry {
        *zonal_device::ZonedDevice::geometry(&*drive.borrow())
    };
    let layout = Layout::two_devices(geometry(&buffer), geometry(&capacity));
    let settings =
        Settings { spare_percent: SPARE_PERCENT, contents: Contents::Tags, ..Settings::default() };
    let blocks = settings.exportable(&layout, 1);
    let opening = Opening {
        settings,
        exports: vec![Export { name: "jobs".into(), tenant: "jobs".into(), blocks }],
        identity: Identity(*b"jobs of the lab\0"),
        mode: OpenMode::Recover,
    };
    let opened = Rc::new(RefCell::new(None));
    let out = opened.clone();
    spawner.spawn(async move {
        let result = Shaper::open(ports, layout, opening).await;
        *out.borrow_mut() = Some(result);
    });
    world.run(|| opened.borrow().is_some());
    let shaper = opened.take().ok_or("the block device does not open")?;
    let shaper = shaper.map_err(|error| format!("the block device does not open: {error}"))?;
    Ok((world, Volume::Shaped(shaper), blocks, given_to(&capacity)))
}

impl Volume {
    /// # Errors
    /// When it lost anything: what it moved would be too little.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Shaped(shaper) if 0 < shaper.stats().blocks_lost => {
                Err(format!("{} blocks were lost", shaper.stats().blocks_lost))
            }
            _ => Ok(()),
        }
    }

    /// Writes blocks from `at` on.
    pub(super) async fn write(&self, at: u64, data: Payload) -> Result<(), String> {
        let (lba, data) = (Lba(at), vec![data]);
        match self {
            Self::Shaped(shaper) => {
                let written = shaper.write(ExportId(0), lba, data, Durability::Answered).await;
                written.map_err(|error| format!("a write: {error}"))
            }
            Self::Bare(port, _) => {
                let answer = port.call(BlockCommand::Write { lba, data }).await;
                answer.map(drop).map_err(|error| format!("a write: {error:?}"))
            }
        }
    }

    /// Reads so many blocks from `at` on.
    pub(super) async fn read(&self, at: u64, blocks: Blocks) -> Result<(), String> {
        match self {
            Self::Shaped(shaper) => {
                let extent = Extent { export: ExportId(0), first: Lba(at), blocks };
                let pieces = shaper.read(extent).await;
                pieces.map(drop).map_err(|error| format!("a read: {error}"))
            }
            Self::Bare(port, buffers) => {
                let buffer = buffers.take(blocks).await;
                let answer = port.call(BlockCommand::Read { lba: Lba(at), blocks, buffer }).await;
                answer.map(drop).map_err(|error| format!("a read: {error:?}"))
            }
        }
    }
}
