//! The model of a drive without zones, with what it does not model: crashes, and blocks that go bad.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use zonal_base::{
    BLOCK_BYTES, Blocks, Buffer, Bytes, Lba, Nanos, Payload, Rng, Ticket, ZoneId, index,
};
use zonal_device::{Command, Completion, DeviceError, Geometry, ZonedDevice};
use zonal_emulator::ftl::FtlConfig;
use zonal_emulator::{ConventionalDrive, ConventionalProfile, Medium, Memory, OnReset, Profile};

/// Blocks that are erased together: few, so that a small drive has enough superblocks to collect garbage.
const SUPERBLOCK: u32 = 32;

pub(super) struct Conventional {
    drive: ConventionalDrive,
    profile: ConventionalProfile,
    on_reset: OnReset,
    medium: Worn,
    /// Of the writes in flight a crash leaves any blocks.
    writes: BTreeMap<Ticket, (Lba, Vec<Payload>)>,
}

impl Conventional {
    pub(super) fn new(geometry: Geometry, on_reset: OnReset, seed: u64) -> Self {
        let profile = profile(geometry);
        let medium = Worn::new(&geometry);
        let drive =
            ConventionalDrive::new(profile.clone(), on_reset, seed, Box::new(medium.clone()));
        Self { drive, profile, on_reset, medium, writes: BTreeMap::new() }
    }

    pub(super) fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    pub(super) fn make_unreadable(&mut self, lba: Lba) {
        self.medium.0.borrow_mut().unreadable.insert(lba);
    }

    /// The buffer is protected, so what was answered stays. The agreement about zones is forgotten, and with it
    /// the map: the drive is as one that was formatted and filled with what the medium holds.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        for (lba, data) in std::mem::take(&mut self.writes).into_values() {
            let mut at = lba;
            for piece in data {
                for begin in (0..piece.len()).step_by(BLOCK_BYTES) {
                    if rng.one_in(2) {
                        let block = piece.slice(begin..begin + BLOCK_BYTES);
                        self.medium.write(at, &[block]).expect("memory takes everything");
                    }
                    at = at + Blocks(1);
                }
            }
        }
        let medium = Box::new(self.medium.clone());
        let seed = rng.next_u64();
        self.drive = ConventionalDrive::new(self.profile.clone(), self.on_reset, seed, medium);
    }
}

fn profile(geometry: Geometry) -> ConventionalProfile {
    let sn540 = ConventionalProfile::sn540();
    let user = Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0);
    let user_units = zonal_base::low_u32(index(user.0));
    // A tenth is spare, beside what the translation layer needs to move at all.
    let superblock_count = user_units.div_ceil(SUPERBLOCK) * 11 / 10 + 7;
    let ftl = FtlConfig {
        unit: Bytes::kib(4).blocks_ceil(),
        user_units,
        superblock_units: SUPERBLOCK,
        superblock_count,
        free_min: 2,
    };
    let drive = Profile { geometry, queue_depth: super::QUEUE_DEPTH, ..sn540.drive };
    ConventionalProfile { drive, ftl: Some(ftl), user, ..sn540 }
}

impl ZonedDevice for Conventional {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        let write = match &command {
            Command::Write { lba, data } => Some((*lba, data.clone())),
            _ => None,
        };
        self.drive.submit(now, ticket, command)?;
        self.writes.extend(write.map(|write| (ticket, write)));
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        let (ticket, completion) = self.drive.poll(now)?;
        self.writes.remove(&ticket);
        Some((ticket, completion))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event()
    }
}

/// Memory whose blocks go bad. Clones share it: it outlives the drive that writes to it.
#[derive(Clone, Debug)]
struct Worn(Rc<RefCell<Kept>>);

#[derive(Debug)]
struct Kept {
    memory: Memory,
    unreadable: BTreeSet<Lba>,
}

impl Worn {
    fn new(geometry: &Geometry) -> Self {
        let (memory, unreadable) = (Memory::new(geometry), BTreeSet::new());
        Self(Rc::new(RefCell::new(Kept { memory, unreadable })))
    }
}

impl Medium for Worn {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        let mut inner = self.0.borrow_mut();
        inner.memory.write(lba, data)?;
        let bytes: usize = data.iter().map(Payload::len).sum();
        let end = lba + Bytes(bytes as u64).blocks_ceil();
        inner.unreadable.retain(|bad| *bad < lba || end <= *bad);
        Ok(())
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let mut inner = self.0.borrow_mut();
        if inner.unreadable.range(lba..lba + blocks).next().is_some() {
            return Err(DeviceError::Media);
        }
        inner.memory.read(lba, blocks, out)
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        self.0.borrow_mut().memory.truncate(zone, written);
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.0.borrow_mut().memory.flip_bit(lba, bit);
    }
}
