//! Zone ioctls of the kernel (report, open, close, finish, reset), and NVMe admin commands (Identify,
//! the SMART log).
//!
//! Soundness: the structures are `repr(C)`, have the kernel's sizes and consist of integers only,
//! so that any bytes are a valid value. A report has room for as many zones as it requests, and the
//! kernel's count is capped at that.
#![expect(unsafe_code, reason = "an ioctl takes an address; each use says why it may have it")]

use std::ffi::c_void;
use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, Updater, opcode};
use zonal_device::ZoneAction;

/// Bytes of a sector: Linux counts in 512 bytes, whatever the drive's logical block.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Zones per system call: 1024, which take 64 KiB. The kernel requests as many from the drive at a
/// time as its own buffer holds.
const ZONES_PER_CALL: usize = 1024;

/// ioctl group of block devices.
const GROUP: u8 = 0x12;
const REPORT: Opcode = opcode::read_write::<ReportHeader>(GROUP, 130);
const RESET: Opcode = opcode::write::<RawRange>(GROUP, 131);
const OPEN: Opcode = opcode::write::<RawRange>(GROUP, 134);
const CLOSE: Opcode = opcode::write::<RawRange>(GROUP, 135);
const FINISH: Opcode = opcode::write::<RawRange>(GROUP, 136);

/// Flag of a report that has zone capacities; kernels before 5.9 do not set it.
const HAS_CAPACITY: u32 = 1;

/// `struct blk_zone`: a zone as the kernel reports it. Positions and lengths are in sectors.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawZone {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) write_pointer: u64,
    pub(super) kind: u8,
    pub(super) condition: u8,
    pub(super) non_sequential: u8,
    pub(super) reset_recommended: u8,
    pub(super) reserved: [u8; 4],
    pub(super) capacity: u64,
    pub(super) reserved_too: [u8; 24],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ReportHeader {
    /// First zone of the report: any sector of it.
    sector: u64,
    /// Requested number of zones; after the call, the number of reported zones.
    zone_count: u32,
    flags: u32,
}

#[repr(C)]
struct RawReport {
    header: ReportHeader,
    zones: [RawZone; ZONES_PER_CALL],
}

#[repr(C)]
struct RawRange {
    sector: u64,
    sectors: u64,
}

const _: () = assert!(size_of::<RawZone>() == 64 && size_of::<ReportHeader>() == 16);
const _: () = assert!(size_of::<RawReport>() == 16 + 64 * ZONES_PER_CALL);
const _: () = assert!(size_of::<RawRange>() == 16);

impl RawReport {
    fn asking(sector: u64, wanted: usize) -> Box<Self> {
        let zone_count = zonal_base::low_u32(wanted.min(ZONES_PER_CALL));
        let header = ReportHeader { sector, zone_count, flags: 0 };
        Box::new(Self { header, zones: [RawZone::default(); ZONES_PER_CALL] })
    }

    /// Zones that the kernel filled in, of `wanted` requested ones. Without a reported capacity,
    /// the capacity is the zone's length.
    fn filled(&self, wanted: usize) -> impl Iterator<Item = RawZone> {
        let filled = (self.header.zone_count as usize).min(wanted).min(ZONES_PER_CALL);
        let tells = self.header.flags & HAS_CAPACITY != 0;
        self.zones[..filled].iter().map(move |zone| RawZone {
            capacity: if tells { zone.capacity } else { zone.len },
            ..*zone
        })
    }
}

/// The kernel's `struct nvme_passthru_cmd`.
#[repr(C)]
struct RawAdmin {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    dwords_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<RawAdmin>() == 72);

const ADMIN: Opcode = opcode::read_write::<RawAdmin>(b'N', 0x41);

/// Length of every Identify data structure: 4096 bytes.
pub(super) const IDENTIFY_BYTES: usize = 4096;

/// NVMe Identify (opcode 06h) of a namespace, for one CNS and command set.
pub(super) fn identify(
    file: &File,
    namespace: u32,
    (cns, command_set): (u8, u8),
) -> Result<Box<[u8; IDENTIFY_BYTES]>, Errno> {
    ask(file, 0x06, namespace, [cns.into(), u32::from(command_set) << 24])
}

/// Length of the SMART / Health Information log page: 512 bytes.
pub(crate) const SMART_BYTES: usize = 512;

/// All namespaces: the log page is of the whole drive.
const ALL_NAMESPACES: u32 = u32::MAX;

/// NVMe Get Log Page (opcode 02h) of the SMART / Health Information log (02h).
pub(crate) fn smart_log(file: &File) -> Result<Box<[u8; SMART_BYTES]>, Errno> {
    const LOG: u32 = 0x02;
    // The length in dwords, less one.
    let dwords = zonal_base::low_u32(SMART_BYTES / 4 - 1);
    ask(file, 0x02, ALL_NAMESPACES, [dwords << 16 | LOG, 0])
}

/// Sends an admin command that returns data.
fn ask<const BYTES: usize>(
    file: &File,
    opcode: u8,
    namespace: u32,
    [dword_10, dword_11]: [u32; 2],
) -> Result<Box<[u8; BYTES]>, Errno> {
    let mut answer = Box::new([0; BYTES]);
    let mut raw = RawAdmin {
        opcode,
        flags: 0,
        reserved: 0,
        namespace,
        dwords_2_3: [0; 2],
        metadata: 0,
        address: answer.as_mut_ptr().expose_provenance() as u64,
        metadata_bytes: 0,
        bytes: zonal_base::low_u32(BYTES),
        dwords_10_15: [dword_10, dword_11, 0, 0, 0, 0],
        timeout_ms: 0,
        result: 0,
    };
    // SAFETY: the kernel reads and writes a command of its own layout, and fills in `answer`.
    // `answer` is as long as the command says, and no other code accesses it until the call
    // returns.
    let status = unsafe { rustix::ioctl::ioctl(file, Admin(&mut raw))? };
    // A positive value is the NVMe status of the drive, which refused the command.
    if status == 0 { Ok(answer) } else { Err(Errno::OPNOTSUPP) }
}

/// Admin command as an ioctl. Its output is the NVMe status.
struct Admin<'a>(&'a mut RawAdmin);

// SAFETY: the opcode belongs to the command, the address points to a command, and the output is an
// integer.
unsafe impl Ioctl for Admin<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ADMIN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(status: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(status)
    }
}

/// Reports zones, from the zone at `sector` on: at most `wanted`, fewer at the end of the device.
pub(super) fn report(file: &File, sector: u64, wanted: usize) -> Result<Vec<RawZone>, Errno> {
    let mut zones = Vec::with_capacity(wanted.min(ZONES_PER_CALL));
    let mut next = sector;
    while zones.len() < wanted {
        let left = wanted - zones.len();
        let mut raw = RawReport::asking(next, left);
        // SAFETY: the kernel fills in a header and as many zones as the header requests, and there
        // is room for them.
        unsafe { rustix::ioctl::ioctl(file, Updater::<REPORT, RawReport>::new(&mut raw))? };
        let before = next;
        for zone in raw.filled(left) {
            next = zone.start.saturating_add(zone.len);
            zones.push(zone);
        }
        if next <= before {
            break;
        }
    }
    Ok(zones)
}

/// Opens, closes, finishes or resets the zone of `sectors` sectors at `sector`. Requires: one of
/// these four actions.
pub(super) fn manage(
    file: &File,
    sector: u64,
    sectors: u64,
    action: ZoneAction,
) -> Result<(), Errno> {
    match action {
        ZoneAction::Open => send::<OPEN>(file, sector, sectors),
        ZoneAction::Close => send::<CLOSE>(file, sector, sectors),
        ZoneAction::Finish => send::<FINISH>(file, sector, sectors),
        ZoneAction::Reset => send::<RESET>(file, sector, sectors),
        ZoneAction::Write | ZoneAction::WriteToCapacity => Err(Errno::INVAL),
    }
}

fn send<const OPCODE: Opcode>(file: &File, sector: u64, sectors: u64) -> Result<(), Errno> {
    // SAFETY: the kernel reads a `struct blk_zone_range`, and the argument is one.
    unsafe {
        let range = Setter::<OPCODE, RawRange>::new(RawRange { sector, sectors });
        rustix::ioctl::ioctl(file, range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of `linux/blkzoned.h` since 5.9.
    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        let numbers = [REPORT, RESET, OPEN, CLOSE, FINISH].map(u64::from);
        let expected = [0xC010_1282, 0x4010_1283, 0x4010_1286, 0x4010_1287, 0x4010_1288];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_file_has_no_zones_to_report_or_manage() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(report(&file, 0, 1).err(), Some(Errno::NOTTY));
        for action in [ZoneAction::Open, ZoneAction::Close, ZoneAction::Finish, ZoneAction::Reset] {
            assert_eq!(manage(&file, 0, 8, action), Err(Errno::NOTTY));
        }
        assert_eq!(manage(&file, 0, 8, ZoneAction::Write), Err(Errno::INVAL));
    }

    proptest! {
        #[test]
        fn no_more_zones_are_taken_than_were_asked_for(
            wanted in 0usize..3000, said in any::<u32>(), flags in any::<u32>(),
        ) {
            let mut raw = RawReport::asking(7, wanted);
            prop_assert!(raw.header.zone_count as usize <= ZONES_PER_CALL.min(wanted));
            (raw.header.zone_count, raw.header.flags) = (said, flags);
            raw.zones[0] = RawZone { len: 9, capacity: 5, ..RawZone::default() };
            let taken: Vec<_> = raw.filled(wanted).collect();
            prop_assert!(taken.len() <= wanted.min(ZONES_PER_CALL).min(said as usize));
            if let Some(first) = taken.first() {
                prop_assert_eq!(first.capacity, if flags & 1 == 1 { 5 } else { 9 });
            }
        }
    }
}
