//! Test bench: a device under test, with the operations that all experiments share.

use std::collections::VecDeque;
use std::fmt;

use zonal_base::index;
use zonal_base::{
    BLOCK_BYTES, Blocks, Buffer, Lba, Nanos, Payload, Pool, PoolClass, Rng, Ticket, ZoneId,
};
use zonal_device::{Answer, Command, DeviceError, ZoneAction, ZonedDevice};

use super::clock::Clock;
use super::ground::Ground;
use super::load::{Load, Stream, StreamOutcome, Window};

/// Characterization error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharacterizeError {
    /// The device refused a command that a drive must accept.
    Refused {
        /// The refused command.
        what: &'static str,
        /// Error of the device.
        error: DeviceError,
    },
    /// The device has too few zones for the experiments: take a larger one.
    TooFewZones,
    /// More concurrent reads than read buffers.
    TooDeep,
}

impl fmt::Display for CharacterizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { what, error } => write!(f, "the device failed {what}: {error}"),
            Self::TooFewZones => f.write_str("the device has too few zones for the experiments"),
            Self::TooDeep => write!(f, "more than {READS_MAX} reads at once"),
        }
    }
}

impl std::error::Error for CharacterizeError {}

/// Largest command: 1 MiB, as the reference's writers use under garbage collection.
pub(super) const COMMAND_BLOCKS_MAX: Blocks = Blocks(256);
/// Largest number of reads of one size in flight; the deepest run has 256.
pub const READS_MAX: u32 = 1024;
/// Sizes of reads in blocks: 4 KiB to 128 KiB.
const READ_BLOCKS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Pause before a run: that of the reference (Doekemeijer et al., section III-E).
const SETTLE: Nanos = Nanos::secs(1);

/// Read buffers for the experiments.
#[must_use]
pub fn memory() -> Pool {
    let read = |blocks| PoolClass { blocks: Blocks(blocks), count: READS_MAX };
    let mut classes: Vec<PoolClass> = READ_BLOCKS.map(read).to_vec();
    classes.push(PoolClass { blocks: COMMAND_BLOCKS_MAX, count: 1 });
    Pool::new(&classes, Box::new(|| ()))
}

/// A device, its clock, and its contents.
pub(super) struct Bench<'a, D, C> {
    pub(super) device: &'a mut D,
    pub(super) clock: &'a mut C,
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) ground: Ground,
    pool: Pool,
    data: Payload,
}

impl<'a, D: ZonedDevice, C: Clock<D>> Bench<'a, D, C> {
    /// Requires: every zone of the device is empty.
    pub(super) fn new(
        (device, pool): (&'a mut D, Pool),
        clock: &'a mut C,
        seed: u64,
    ) -> Result<Self, CharacterizeError> {
        let data = pool.take(COMMAND_BLOCKS_MAX).ok_or(CharacterizeError::TooDeep)?;
        let data = data.freeze(index(COMMAND_BLOCKS_MAX.bytes().0));
        let ground = Ground::new(device.geometry().zone_count);
        Ok(Self { device, clock, seed, rng: Rng::new(seed), ground, pool, data })
    }

    /// Data to write; the contents do not matter.
    pub(super) fn data(&self, blocks: Blocks) -> Payload {
        self.data.slice(0..index(blocks.0) * BLOCK_BYTES)
    }

    pub(super) fn buffer(&self, blocks: Blocks) -> Result<Buffer, CharacterizeError> {
        self.pool.take(blocks).ok_or(CharacterizeError::TooDeep)
    }

    /// Random address, aligned to the size of the read.
    pub(super) fn place_to_read(&mut self, blocks: Blocks, zone: Option<usize>) -> Lba {
        let readable = &self.ground.readable;
        let number = zone.unwrap_or_else(|| index(self.rng.below(readable.len() as u64)));
        let geometry = self.device.geometry();
        let start = geometry.zone_start(readable[number % readable.len()]);
        start + Blocks(self.rng.below(geometry.zone_capacity.0 / blocks.0) * blocks.0)
    }

    /// Runs one command on an idle device. Returns its latency.
    pub(super) fn one(
        &mut self,
        what: &'static str,
        command: Command,
    ) -> Result<Nanos, CharacterizeError> {
        let begun = self.clock.now();
        let refused = |error| CharacterizeError::Refused { what, error };
        let taken = self.device.submit(begun, Ticket(0), command);
        taken.map_err(|_| refused(DeviceError::DeviceGone))?;
        loop {
            let now = self.clock.now();
            if let Some((_, completion)) = self.device.poll(now) {
                let _: Answer = completion.map_err(refused)?;
                return Ok(now.since(begun));
            }
            self.clock.pass(self.device, None);
        }
    }

    pub(super) fn manage(
        &mut self,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<Nanos, CharacterizeError> {
        self.one("zone management", Command::Manage { zone, action })
    }

    /// Writes blocks `from..to` of a zone with large commands.
    pub(super) fn fill(
        &mut self,
        zone: ZoneId,
        from: Blocks,
        to: Blocks,
    ) -> Result<(), CharacterizeError> {
        let start = self.device.geometry().zone_start(zone);
        let mut at = from;
        while at < to {
            let blocks = COMMAND_BLOCKS_MAX.min(to - at);
            let data = vec![self.data(blocks)];
            self.one("a write", Command::Write { lba: start + at, data })?;
            at += blocks;
        }
        Ok(())
    }

    /// Writes the first blocks of a conventional device sequentially.
    pub(super) fn write_in_order(&mut self, span: Blocks) -> Result<(), CharacterizeError> {
        let mut at = Blocks(0);
        while at < span {
            let blocks = COMMAND_BLOCKS_MAX.min(span - at);
            let data = vec![self.data(blocks)];
            self.one("a write", Command::Write { lba: Lba(at.0), data })?;
            at += blocks;
        }
        Ok(())
    }

    fn fill_next(&mut self) -> Result<ZoneId, CharacterizeError> {
        let zone = self.ground.empty.pop_front().ok_or(CharacterizeError::TooFewZones)?;
        self.fill(zone, Blocks(0), self.device.geometry().zone_capacity)?;
        Ok(zone)
    }

    /// Fills zones for reads.
    pub(super) fn make_readable(&mut self, count: usize) -> Result<(), CharacterizeError> {
        while self.ground.readable.len() < count {
            let zone = self.fill_next()?;
            self.ground.readable.push(zone);
        }
        Ok(())
    }

    /// Fills zones that the next run resets.
    pub(super) fn make_full(&mut self, count: usize) -> Result<(), CharacterizeError> {
        while self.ground.full.len() < count {
            let zone = self.fill_next()?;
            self.ground.full.push(zone);
        }
        Ok(())
    }

    /// Resets the zones of the last run, and lets the drive become idle.
    pub(super) fn tidy(&mut self) -> Result<(), CharacterizeError> {
        let used: VecDeque<ZoneId> = std::mem::take(&mut self.ground.used);
        for zone in used {
            self.manage(zone, ZoneAction::Reset)?;
            self.ground.empty.push_back(zone);
        }
        self.rest(SETTLE);
        Ok(())
    }

    /// Leaves the drive idle for this time.
    pub(super) fn rest(&mut self, span: Nanos) {
        let until = self.clock.now() + span;
        while self.clock.now() < until {
            assert!(self.device.poll(self.clock.now()).is_none(), "nothing is in flight");
            self.clock.pass(self.device, Some(until));
        }
    }

    /// Runs streams on the idle drive, and resets the zones that they wrote.
    pub(super) fn run(
        &mut self,
        streams: &[Stream],
        window: Window,
    ) -> Result<Vec<StreamOutcome>, CharacterizeError> {
        self.rest(SETTLE);
        let outcomes = Load::new(self, streams, window).run()?;
        self.tidy()?;
        Ok(outcomes)
    }
}
