//! CPU time of the drive models for 6 TiB of overwrites, the length of an experiment with garbage
//! collection.
//!
//! 1. Fill the drive, and overwrite it until garbage collection has run for a while.
//! 2. Measure rounds of overwrites, each extrapolated to 6 TiB. They agree if the rate is
//!    constant.

use zonal_base::{
    Blocks, Bytes, Contents, Lba, Nanos, Payload, Pool, PoolClass, Rng, Ticket, ZoneId, index,
};
use zonal_device::{Command, Geometry, ZoneAction, ZonedDevice};
use zonal_emulator::ftl::{FtlConfig, FtlCounters};
use zonal_emulator::{
    BlockCommand, ConventionalDrive, ConventionalProfile, DiscardMedium, OnReset, Profile,
    ZonedDrive,
};
use zonal_lab::bench::thread_cpu;

use crate::compare::samples::{Goal, Row, Samples};

/// Length of the whole experiment.
const EXPERIMENT: Bytes = Bytes::mib(6 << 20);

/// Goal for the CPU time, in seconds.
const CPU_MAX: f64 = 120.0;

const CHUNK: Blocks = Bytes::kib(64).blocks_ceil();

/// Rounds, if the experiment is not run as a whole.
const ROUNDS: u64 = 5;

/// Queue depth of a host on a conventional drive.
const DEPTH: u64 = 32;

/// Zones with writes in flight, one write each.
const ZONES_WRITTEN: u64 = 8;

/// Workload of chunk writes. Each lane has one command in flight.
trait Writer {
    type Drive: ZonedDevice;

    fn drive(&mut self) -> &mut Self::Drive;

    /// Submits the lane's next command. True if it writes a chunk.
    fn begin(&mut self, now: Nanos, lane: u64, data: &Payload) -> Result<bool, String>;
}

struct Host<W> {
    writer: W,
    data: Payload,
    now: Nanos,
    lanes: u64,
}

/// Chunks anywhere on a conventional drive: sequential first, then random.
struct Anywhere {
    drive: ConventionalDrive,
    chunks: u64,
    filled: u64,
    rng: Rng,
}

/// Chunks zone by zone; each zone is reset before it is written again.
struct InZones {
    drive: ZonedDrive,
    geometry: Geometry,
    /// Zone and next block of each lane.
    lanes: Vec<(ZoneId, Blocks)>,
    zones_begun: u32,
}

/// Rows of all kinds of drives, with rounds of this length.
pub(super) fn rows(round: Bytes) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for profile in [
        ConventionalProfile::sn540(),
        ConventionalProfile::p5316_qlc(),
        ConventionalProfile::p5510_tlc(),
        ConventionalProfile::p5800x_optane(),
    ] {
        rows.extend(conventional(profile, round)?);
    }
    rows.push(zoned(round)?);
    Ok(rows)
}

fn conventional(profile: ConventionalProfile, round: Bytes) -> Result<Vec<Row>, String> {
    let name = profile.drive.name;
    let geometry = profile.drive.geometry;
    let chunks = u64::from(geometry.zone_count) * geometry.zone_size.0 / CHUNK.0;
    let places = |ftl: FtlConfig| {
        u64::from(ftl.superblock_units) * u64::from(ftl.superblock_count) * ftl.unit.0
    };
    let spare = profile.ftl.map_or(0, |ftl| places(ftl) / CHUNK.0 - chunks);
    let drive = ConventionalDrive::new(profile, OnReset::Nothing, 1, Box::new(DiscardMedium));
    let mut host = Host::new(Anywhere { drive, chunks, filled: 0, rng: Rng::new(1) }, DEPTH);
    // Garbage collection starts after the spare space has been used once.
    host.write(chunks + 2 * spare)?;
    let before = host.writer.drive.ftl_counters().copied();
    let costs = host.measure(round)?;
    let measure = format!("6 TiB of overwrites of 64 KiB at random, {name}");
    let mut rows = vec![Row::new(&measure, "CPU seconds", costs, Goal::AtMost(CPU_MAX))];
    if let (Some(before), Some(after)) = (before, host.writer.drive.ftl_counters()) {
        let mut amplification = Samples::default();
        amplification.push(write_amplification(&after.since(&before)));
        let measure = format!("write amplification meanwhile, {name}");
        rows.push(Row::new(&measure, "", amplification, Goal::None));
    }
    Ok(rows)
}

fn write_amplification(counters: &FtlCounters) -> f64 {
    counters.programs() as f64 / counters.host_programs as f64
}

fn zoned(round: Bytes) -> Result<Row, String> {
    let profile = Profile::zn540();
    let (name, geometry) = (profile.name, profile.geometry);
    let drive = ZonedDrive::new(profile, 1, Box::new(DiscardMedium));
    let writer = InZones { drive, geometry, lanes: Vec::new(), zones_begun: 0 };
    let mut host = Host::new(writer, ZONES_WRITTEN);
    // From here on, every zone is reset before it is written.
    host.write(u64::from(geometry.zone_count) * geometry.zone_capacity.0 / CHUNK.0)?;
    let costs = host.measure(round)?;
    let measure = format!("6 TiB of chunks of 64 KiB through zones that are reset, {name}");
    Ok(Row::new(&measure, "CPU seconds", costs, Goal::AtMost(CPU_MAX)))
}

impl<W: Writer> Host<W> {
    fn new(writer: W, lanes: u64) -> Self {
        let class = PoolClass { blocks: CHUNK, count: 1 };
        let pool = Pool::holding(Contents::Tags, &[class], Box::new(|| ()));
        let buffer = pool.take(CHUNK).expect("the pool has one");
        let data = buffer.freeze(index(CHUNK.bytes().0));
        Self { writer, data, now: Nanos(0), lanes }
    }

    /// CPU seconds of the whole experiment, extrapolated from each round.
    fn measure(&mut self, round: Bytes) -> Result<Samples, String> {
        let round = round.min(EXPERIMENT);
        let mut costs = Samples::default();
        for _ in 0..ROUNDS.min(EXPERIMENT.0 / round.0) {
            let before = thread_cpu();
            self.write(round.0 / CHUNK.bytes().0)?;
            let cpu = thread_cpu().saturating_sub(before).as_secs_f64();
            costs.push(cpu * EXPERIMENT.0 as f64 / round.0 as f64);
        }
        Ok(costs)
    }

    /// Writes this many chunks.
    fn write(&mut self, chunks: u64) -> Result<(), String> {
        let (mut left, mut idle) = (chunks, (0..self.lanes).collect::<Vec<_>>());
        while 0 < left || idle.len() < index(self.lanes) {
            while let Some(lane) = (0 < left).then(|| idle.pop()).flatten() {
                left -= u64::from(self.writer.begin(self.now, lane, &self.data)?);
            }
            let next = self.writer.drive().next_event().ok_or("the drive does not answer")?;
            self.now = self.now.max(next);
            while let Some((Ticket(lane), completion)) = self.writer.drive().poll(self.now) {
                completion.map_err(|error| format!("{error:?}"))?;
                idle.push(lane);
            }
        }
        Ok(())
    }
}

impl Writer for Anywhere {
    type Drive = ConventionalDrive;

    fn drive(&mut self) -> &mut ConventionalDrive {
        &mut self.drive
    }

    fn begin(&mut self, now: Nanos, lane: u64, data: &Payload) -> Result<bool, String> {
        let chunk =
            if self.filled < self.chunks { self.filled } else { self.rng.below(self.chunks) };
        self.filled += 1;
        let lba = Lba(chunk * CHUNK.0);
        let write = BlockCommand::Write { lba, data: vec![data.clone()] };
        let submitted = self.drive.submit_block(now, Ticket(lane), write);
        submitted.map_err(|_| "the drive's queue is shorter than this one")?;
        Ok(true)
    }
}

impl Writer for InZones {
    type Drive = ZonedDrive;

    fn drive(&mut self) -> &mut ZonedDrive {
        &mut self.drive
    }

    fn begin(&mut self, now: Nanos, lane: u64, data: &Payload) -> Result<bool, String> {
        let full = (ZoneId(0), self.geometry.zone_capacity);
        self.lanes.resize(self.lanes.len().max(index(lane) + 1), full);
        let (zone, at) = &mut self.lanes[index(lane)];
        let mut is_chunk = true;
        let command = if *at == self.geometry.zone_capacity {
            (*zone, *at) = (ZoneId(self.zones_begun % self.geometry.zone_count), Blocks(0));
            self.zones_begun += 1;
            is_chunk = false;
            Command::Manage { zone: *zone, action: ZoneAction::Reset }
        } else {
            let lba = self.geometry.zone_start(*zone) + *at;
            *at += CHUNK;
            Command::Write { lba, data: vec![data.clone()] }
        };
        let submitted = self.drive.submit(now, Ticket(lane), command);
        submitted.map_err(|_| "the drive's queue is shorter than this one")?;
        Ok(is_chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_overwrites_drives_of_both_kinds() {
        let round = Bytes::mib(64);
        let small = ConventionalProfile::sn540().scaled_to(Bytes::mib(256));
        let rows = conventional(small, round).expect("the drive takes them");
        assert_eq!(rows[0].ours.values.len(), 5);
        assert!(1.5 < rows[1].ours.median(), "garbage was collected: {:?}", rows[1].ours);
        let mut profile = Profile::zn540();
        profile.geometry.zone_count = 9;
        let geometry = profile.geometry;
        let drive = ZonedDrive::new(profile, 1, Box::new(DiscardMedium));
        let writer = InZones { drive, geometry, lanes: Vec::new(), zones_begun: 0 };
        let mut host = Host::new(writer, ZONES_WRITTEN);
        host.write(3 * 9 * geometry.zone_capacity.0 / CHUNK.0).expect("the drive takes them");
        assert!(19 < host.writer.zones_begun, "each zone was written and reset");
    }
}
