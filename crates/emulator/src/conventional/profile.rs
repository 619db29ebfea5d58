//! Profiles of the conventional drives: the constants of each, with unit, source and date.
//!
//! One conventional drive was measured in the study of the ZN540; the others were not. For a profile that is a guess,
//! only the write amplification is a valid result: it depends on the map and the spare space alone.

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::{DeviceKind, Geometry};

use crate::ftl::FtlConfig;
use crate::profile::{
    Basis, BufferProfile, ControllerProfile, LinkProfile, NandProfile, Profile, ProgramProfile,
    WriteCosts,
};

/// Profile of a conventional drive.
#[derive(Clone, Debug)]
pub struct ConventionalProfile {
    /// Timing of the drive, and the zones that its host lays out on it.
    pub drive: Profile,
    /// Configuration of the FTL. `None`: blocks are written in place, and nothing is ever moved.
    pub ftl: Option<FtlConfig>,
    /// Source of the FTL configuration.
    pub ftl_basis: Basis,
    /// Program bandwidth that reading a unit for a copy takes, in thousandths of programming one. `None`: derived
    /// from the time for which the read occupies the dies.
    pub copy_read_permille: Option<u64>,
    /// Mapping work for each mapped block that is trimmed, in picoseconds.
    pub trim_ps_per_block: u64,
    /// User capacity, in blocks.
    pub user: Blocks,
}

/// Size of the host's zones: the zone capacity of the ZN540, so that the same cache runs on both.
const ZONE: Blocks = Bytes::mib(1077).blocks_ceil();

/// Mapping work of a trim, in picoseconds for each block: that of a block of the ZN540 that is reset (see
/// `profile/zn540.rs`). A guess: a trim costs the same.
const TRIM_PS_PER_BLOCK: u64 = 49_760;

/// Number of free superblocks at which garbage collection starts: as few as possible, so that as much as possible is
/// spare. A guess.
const FREE_MIN: u32 = 2;

impl ConventionalProfile {
    /// WD Ultrastar DC SN540, 960 GB: the hardware of the ZN540 under a page map of 4 KiB.
    ///
    /// Its over-provisioning and its copy cost are fitted to the study's series of 20 min under random overwrites
    /// (NVMeBenchmarks, suite long3; the drive is not named there), on 2026-11-21. The first run of the suite begins
    /// with 110 s at the full bandwidth of 1187 MiB/s. That is 127.5 GiB, and the user's 894.3 GiB with them are 1
    /// TiB of flash, 14.4 % over the user's space. In the runs at depth 32 the drive writes 570 MiB/s on average. The
    /// model reproduces this when reading for a copy takes as much as programming. A superblock is a zone of the
    /// ZN540 with its metadata, 1080 MiB: the arithmetic fits, but the size is not confirmed.
    #[must_use]
    pub fn sn540() -> Self {
        let profile = Self::new(
            Profile { name: "sn540", ..measured_timing() },
            Flash { unit: Blocks(1), user: gb(960), superblock: Bytes::mib(1080), count: 970 },
        );
        Self { ftl_basis: Basis::Fitted, copy_read_permille: Some(1_000), ..profile }
    }

    /// Intel D5-P5316, 15.36 TB, QLC, an indirection unit of 64 KiB. All but the unit is a guess: 16 TiB of flash,
    /// 14.5 % over the user's space. Takes 2 GiB of memory when the drive is full.
    #[must_use]
    pub fn p5316_qlc() -> Self {
        let flash = Flash {
            unit: Blocks(16),
            user: gb(15_360),
            superblock: Bytes::mib(1024),
            count: 16_384,
        };
        Self::new(guessed("p5316-qlc", 1_140), flash)
    }

    /// Intel D7-P5510, 7.68 TB, TLC. A guess: 8 TiB of flash, 14.5 % over the user's space, a page map of 4 KiB.
    /// Takes 15 GiB of memory when the drive is full: see [`ConventionalProfile::scaled_to`].
    #[must_use]
    pub fn p5510_tlc() -> Self {
        let flash =
            Flash { unit: Blocks(1), user: gb(7_680), superblock: Bytes::mib(1024), count: 8_192 };
        Self::new(guessed("p5510-tlc", 1_000), flash)
    }

    /// Intel Optane P5800X, 800 GB: written in place. All of its timing is a guess.
    #[must_use]
    pub fn p5800x_optane() -> Self {
        let guessed = guessed("p5800x-optane", 850);
        let at_once = Nanos(0);
        let program = ProgramProfile {
            time: Nanos(10_000),
            step: Nanos(1),
            long_step: Nanos(1),
            suspend: at_once,
            resume: at_once,
            ..guessed.nand.program
        };
        let nand = NandProfile {
            program,
            read: [Nanos(4_000); 3],
            transfer: Nanos(1_000),
            transfer_several: Nanos(0),
            transfer_ns_per_block: 1_000,
            ..guessed.nand
        };
        let user = Bytes(gb(800).0).blocks_ceil();
        Self {
            drive: Profile { nand, geometry: zones_of(user, ZONE), ..guessed },
            ftl: None,
            ftl_basis: Basis::Guess,
            copy_read_permille: None,
            trim_ps_per_block: 0,
            user,
        }
    }

    fn new(drive: Profile, flash: Flash) -> Self {
        let unit = flash.unit.bytes().0;
        let ftl = FtlConfig {
            unit: flash.unit,
            user_units: narrow(flash.user.0 / unit),
            superblock_units: narrow(flash.superblock.0 / unit),
            superblock_count: flash.count,
            free_min: FREE_MIN,
        };
        let user = Blocks(u64::from(ftl.user_units) * flash.unit.0);
        Self {
            drive: Profile { geometry: zones_of(user, ZONE), ..drive },
            ftl: Some(ftl),
            ftl_basis: Basis::Guess,
            copy_read_permille: None,
            trim_ps_per_block: TRIM_PS_PER_BLOCK,
            user,
        }
    }

    /// User capacity, in blocks.
    #[must_use]
    pub const fn user_blocks(&self) -> Blocks {
        self.user
    }

    /// Divides the drive into as many zones of that size as fit.
    ///
    /// Requires: one fits.
    #[must_use]
    pub fn with_zones_of(mut self, zone: Blocks) -> Self {
        self.drive.geometry = zones_of(self.user, zone);
        self
    }

    /// Scales the drive to another user capacity, with the same over-provisioning. The superblocks get smaller with
    /// it, down to a stripe over the dies, so that the few open or free ones stay as small a part of the drive.
    ///
    /// Requires: at least a stripe for each superblock of the full drive.
    #[must_use]
    pub fn scaled_to(mut self, user: Bytes) -> Self {
        let Some(ftl) = &mut self.ftl else {
            self.user = user.blocks_ceil();
            return self.with_zones_of(ZONE);
        };
        let scale = |units: u32, to: u64| narrow(u64::from(units) * to / u64::from(ftl.user_units));
        let user_units = user.0 / ftl.unit.bytes().0;
        let superblock_units = scale(ftl.superblock_units, user_units).max(1);
        // A higher number of superblocks makes up for their rounded-down size.
        let places = u64::from(ftl.superblock_units) * u64::from(ftl.superblock_count) * user_units
            / u64::from(ftl.user_units);
        let superblock_count = narrow(places / u64::from(superblock_units));
        let user_units = narrow(user_units);
        *ftl = FtlConfig { user_units, superblock_units, superblock_count, ..*ftl };
        self.user = Blocks(u64::from(user_units) * ftl.unit.0);
        self.drive.geometry = zones_of(self.user, ZONE.min(self.user));
        self
    }
}

/// Amount of flash, and its mapping unit.
struct Flash {
    unit: Blocks,
    user: Bytes,
    superblock: Bytes,
    count: u32,
}

/// Bytes of a drive with a printed capacity of `n` "GB": 10^9 each, and slightly more so that the capacity is whole
/// mebibytes (SFF-8447: 97,696,368 sectors for 50 GB, 1,953,504 for each GB above).
const fn gb(n: u64) -> Bytes {
    Bytes((97_696_368 + 1_953_504 * (n - 50)) * 512)
}

const fn zones_of(user: Blocks, zone: Blocks) -> Geometry {
    Geometry {
        kind: DeviceKind::Conventional,
        zone_count: narrow(user.0 / zone.0),
        zone_size: zone,
        zone_capacity: zone,
        max_open_zones: None,
        max_active_zones: None,
    }
}

/// Timing of the conventional drive of the study (PCI slot "nvme-a"; its model was not recorded), fitted on
/// 2026-11-21 to NVMeBenchmarks (github.com/stonet-research/NVMeBenchmarks, snapshot 01f40f1c, MIT): SPDK, sequential
/// writes, 512 B format. 4, 8, 16, 32 KiB at queue depth 1 take 9.66, 13.30, 17.92, 27.84 us; 4 KiB at 2 take 10.47
/// us; all sizes end at 1180 to 1199 MiB/s. Reads and the flash are the ZN540's.
fn measured_timing() -> Profile {
    let zn540 = Profile::zn540();
    let write = WriteCosts {
        single_block: Nanos(3_200),
        several_blocks: Nanos(4_400),
        list_fetch: Nanos(0),
        fixed: Nanos(3_550),
        interleaved: Nanos(800),
        opens_zone: Nanos(0),
    };
    let buffer = BufferProfile { drain_ns_per_block: 3_290, ..zn540.buffer };
    Profile {
        controller: ControllerProfile { write, append: write, ..zn540.controller },
        link: LinkProfile { write_ns_per_block: 2_400, ..zn540.link },
        nand: programming_at_the_rate_of(&buffer, zn540.nand),
        buffer,
        zones: None,
        ..zn540
    }
}

/// Timing of a drive without measurements: that of the measured drive, with another bandwidth.
fn guessed(name: &'static str, drain_ns_per_block: u64) -> Profile {
    let like = measured_timing();
    let burst = Nanos(like.buffer.stripe_blocks * drain_ns_per_block / 32 / 3);
    let basis = Basis::Guess;
    let buffer = BufferProfile {
        basis,
        drain_ns_per_block,
        burst,
        stall: Nanos(0),
        stall_per_million: 0,
        ..like.buffer
    };
    let nand = programming_at_the_rate_of(&buffer, like.nand);
    Profile {
        name,
        controller: ControllerProfile { basis, ..like.controller },
        link: LinkProfile { basis, write_ns_per_block: drain_ns_per_block / 2, ..like.link },
        nand: NandProfile { basis, program: ProgramProfile { basis, ..nand.program }, ..nand },
        buffer,
        ..like
    }
}

/// Sets the program time so that every die programs all of the time while the buffer drains at its full rate.
fn programming_at_the_rate_of(buffer: &BufferProfile, nand: NandProfile) -> NandProfile {
    let blocks = u64::from(nand.die_count * nand.program_blocks);
    let time = Nanos(buffer.drain_ns_per_block * blocks);
    NandProfile { program: ProgramProfile { time, ..nand.program }, ..nand }
}

/// Narrows a count of units or zones to 32 bits. The FTL asserts that its own counts fit.
#[expect(clippy::cast_possible_truncation, reason = "asserted in the line before")]
const fn narrow(n: u64) -> u32 {
    assert!(n <= u32::MAX as u64);
    n as u32
}
