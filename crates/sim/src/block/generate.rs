//! Generator of block-device histories: derives a history from a seed.

use std::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, Nanos, Rng, ZoneId, index, mix64};
use zonal_device::ram::Crash;
use zonal_device::{DeviceKind, Geometry};
use zonal_shaper::{Durability, Export, ExportId, Extent, Layout, MapMemory, Settings};

use super::history::{BlockHistory, Fault, Life, Op, Rot, Setting, Shutdown, Step};
use crate::drive::Model;

/// Options of a history besides its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockOptions {
    /// Bug to plant.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<zonal_shaper::Mutation>,
}

/// Largest number of lives of a history.
const LIVES_MAX: u64 = 4;

/// Additional zones of a device that holds map pages.
const MAP_ZONES: u32 = 6;

/// Latest crash of a life after its start, in nanoseconds.
const CRASH_WITHIN: u64 = 400_000_000;

/// Longest time for which a device takes no writes: several tries of the engine.
const FULL_WITHIN: u64 = 3_000_000_000;

impl BlockHistory {
    /// Generates the history of a seed.
    #[must_use]
    pub fn of_seed(seed: u64, options: &BlockOptions) -> Self {
        let mut rng = Rng::new(seed);
        let mut setting = Setting::draw(&mut rng, options);
        // A random stream of its own keeps other histories unchanged.
        let mut apart = Rng::new(mix64(seed));
        if apart.one_in(3) {
            setting.be_paged(apart.one_in(2));
        }
        setting.size_exports(&mut rng);
        let is_faulty = rng.one_in(4);
        let lives = (0..=rng.below(LIVES_MAX)).map(|_| setting.life(&mut rng, is_faulty));
        let mut lives: Vec<Life> = lives.collect();
        if !is_faulty && apart.one_in(2) {
            for life in &mut lives {
                if apart.one_in(2) {
                    life.shutdown = setting.damaged(&mut apart);
                }
            }
        }
        if apart.one_in(4) {
            lives.iter_mut().for_each(|life| setting.fill_device(&mut apart, life));
        }
        for export in &mut setting.exports {
            export.is_verified = !apart.one_in(4);
        }
        if apart.one_in(4) {
            for life in &mut lives {
                let actor = life.steps.last().map_or(0, |step| step.actor + 1);
                let at = Nanos(apart.below(CRASH_WITHIN));
                let deed = Op::Scrub(Bytes::mib(4 << apart.below(5)));
                life.steps.push(Step { actor, at, deed });
            }
        }
        if apart.one_in(4) {
            setting.slow_reads(&mut apart);
        }
        Self { seed, setting, lives }
    }
}

impl Setting {
    fn draw(rng: &mut Rng, options: &BlockOptions) -> Self {
        let (devices, layout) = if rng.one_in(4) {
            let model = draw_model(rng);
            let device = geometry(rng, model, 18..30);
            let buffer_zones = narrow(4 + rng.below(3));
            (vec![(model, device)], Layout::one_device(device, buffer_zones))
        } else {
            let (buffer, capacity) = (draw_model(rng), draw_model(rng));
            let buffer = (buffer, geometry(rng, buffer, 4..8));
            let capacity = (capacity, geometry(rng, capacity, 11..21));
            (vec![buffer, capacity], Layout::two_devices(buffer.1, capacity.1))
        };
        let mut engine = Settings {
            spare_percent: narrow_u8(5 + rng.below(30)),
            flush_every: Bytes::kib(64 << rng.below(6)),
            ..Settings::default()
        };
        let _ = (&mut engine, options);
        #[cfg(feature = "planted-bugs")]
        {
            engine.planted = options.bug;
        }
        let count = 1 + rng.below(3);
        let names = ["a", "b", "c"];
        let exports: Vec<Export> = (0..count)
            .map(|n| Export {
                name: names[index(n)].into(),
                tenant: names[index(rng.below(n + 1))].into(),
                blocks: Blocks(1),
                is_verified: true,
            })
            .collect();
        Self { devices, device_seed: 0, layout, exports, engine }
    }

    fn size_exports(&mut self, rng: &mut Rng) {
        let offered = self.engine.exportable(&self.layout, 3).0;
        let share = offered * (40 + rng.below(61)) / 100 / self.exports.len() as u64;
        self.exports.iter_mut().for_each(|export| export.blocks = Blocks(share.max(1)));
        self.device_seed = rng.next_u64();
    }

    /// Pages most of the map to flash, in additional zones; with `on_buffer` to zones of the buffer
    /// device as well.
    fn be_paged(&mut self, on_buffer: bool) {
        self.engine.map_memory = MapMemory::Least;
        let is_buffer_grown = on_buffer && self.devices.len() == 2;
        let first = if is_buffer_grown { 0 } else { self.devices.len() - 1 };
        for (_, geometry) in &mut self.devices[first..] {
            geometry.zone_count += MAP_ZONES;
            for limit in [&mut geometry.max_active_zones, &mut geometry.max_open_zones] {
                *limit = limit.map(|limit| limit.max(4));
            }
        }
        self.layout = match self.devices[..] {
            [(_, device)] => Layout::one_device(device, self.layout.buffer.count),
            _ => Layout::two_devices(self.devices[0].1, self.devices[1].1),
        };
    }

    /// Makes some reads of the devices in memory so slow that they are in flight while their zone is
    /// emptied.
    fn slow_reads(&mut self, rng: &mut Rng) {
        for (model, _) in &mut self.devices {
            if let Model::Ram { slow_reads, .. } = model {
                *slow_reads = Nanos(1_000_000 << rng.below(7));
            }
        }
    }

    fn life(&self, rng: &mut Rng, is_faulty: bool) -> Life {
        let mut steps = Vec::new();
        let actors = 1 + narrow_u8(rng.below(4));
        let (pace, reach) = ([100_000, 1_000_000, 5_000_000][draw(rng, 3)], 1 + rng.below(64));
        // Some actors overwrite few blocks, others write everywhere.
        let focus = [8, 64, u64::MAX][draw(rng, 3)];
        for actor in 0..actors {
            let mut at = Nanos(0);
            for _ in 0..rng.below(120) + 10 {
                at += Nanos(rng.below(pace));
                steps.push(Step { actor, at, deed: self.deed(rng, (reach, focus)) });
            }
        }
        if is_faulty {
            for _ in 0..=rng.below(3) {
                let at = Nanos(rng.below(CRASH_WITHIN));
                steps.push(Step { actor: actors, at, deed: self.fault(rng) });
            }
        }
        let crash = |rng: &mut Rng| [Crash::Process, Crash::Power][draw(rng, 2)];
        let shutdown = match rng.below(4) {
            0 => Shutdown::Graceful,
            1 => Shutdown::Crash([Crash::Process; 2], Nanos(rng.below(CRASH_WITHIN))),
            _ => Shutdown::Crash([crash(rng), crash(rng)], Nanos(rng.below(CRASH_WITHIN))),
        };
        Life { chance: rng.next_u64(), steps, shutdown }
    }

    /// In half of the lives, a device takes no writes for a while, sometimes until the end, and
    /// then another one or the same again.
    fn fill_device(&self, rng: &mut Rng, life: &mut Life) {
        if rng.one_in(2) {
            return;
        }
        let actor = life.steps.last().map_or(0, |step| step.actor + 1);
        let (mut at, first) = (Nanos(rng.below(CRASH_WITHIN)), draw(rng, self.devices.len()));
        for device in [first, draw(rng, self.devices.len())] {
            let mut step = |is_on, at| {
                let deed = Op::Fault(device, Fault::TakesNoWrites(is_on));
                life.steps.push(Step { actor, at, deed });
            };
            step(true, at);
            at += Nanos(rng.below(FULL_WITHIN));
            if !rng.one_in(4) {
                step(false, at);
            }
        }
    }

    fn damaged(&self, rng: &mut Rng) -> Shutdown {
        let device = draw(rng, self.devices.len());
        let geometry = &self.devices[device].1;
        let zone = |rng: &mut Rng| ZoneId(narrow(rng.below(u64::from(geometry.zone_count))));
        // Headers are at the front of zones, and between single user blocks.
        let block = |rng: &mut Rng| match rng.one_in(3) {
            true => 0,
            false => rng.below(geometry.zone_capacity.0),
        };
        let rot = match rng.below(10) {
            0..5 => Rot::Bit(zone(rng), block(rng), narrow(rng.below(8 * BLOCK_BYTES as u64))),
            5 => Rot::Zone(zone(rng)),
            6 => Rot::Exchanged(zone(rng), zone(rng)),
            7 => Rot::OldZone(zone(rng)),
            // With a single device, an old device would be consistent.
            _ if self.devices.len() == 1 => Rot::Zone(zone(rng)),
            _ => Rot::OldDevice,
        };
        Shutdown::Damaged(device, rot)
    }

    fn deed(&self, rng: &mut Rng, (reach, focus): (u64, u64)) -> Op {
        let export = draw(rng, self.exports.len());
        let size = self.exports[export].blocks.0;
        let first = rng.below(size.min(focus));
        let blocks = (1 + rng.below(reach)).min(size - first);
        let export = ExportId(u16::try_from(export).expect("few exports"));
        let extent = Extent { export, first: Lba(first), blocks: Blocks(blocks) };
        let durability = if rng.one_in(6) { Durability::Durable } else { Durability::Answered };
        match rng.below(20) {
            0..11 => Op::Write(extent, durability),
            11..13 => Op::Trim(extent, durability),
            13..18 => Op::Read(extent),
            _ => Op::Flush,
        }
    }

    fn fault(&self, rng: &mut Rng) -> Op {
        let device = draw(rng, self.devices.len());
        let geometry = &self.devices[device].1;
        let zone = ZoneId(narrow(rng.below(u64::from(geometry.zone_count))));
        let (kind, block) = (rng.below(12), rng.below(geometry.zone_capacity.0));
        let fault = match kind {
            0..4 => Fault::FailNextWrite(zone),
            4 => Fault::ReadOnly(zone),
            5 | 6 => Fault::Unreadable(zone, block),
            7 | 8 => Fault::Offline(zone),
            9 => Fault::FlipBit(zone, block, narrow(rng.below(8 * BLOCK_BYTES as u64))),
            10 if matches!(self.devices[device].0, Model::Zn540 { .. }) => Fault::LoseCommand,
            10 => Fault::FailNextWrite(zone),
            _ => Fault::Gone,
        };
        Op::Fault(device, fault)
    }
}

fn draw_model(rng: &mut Rng) -> Model {
    match rng.below(4) {
        0 => Model::Zn540 { is_volatile: rng.one_in(2), blocks_per_stream: [8, 32][draw(rng, 2)] },
        _ => Model::Ram {
            latency: Nanos(rng.below(100_000)),
            latency_spread: Nanos(rng.below(400_000) + 1),
            slow_reads: Nanos(0),
        },
    }
}

fn geometry(rng: &mut Rng, model: Model, zones: Range<u64>) -> Geometry {
    let zone_count = zones.start + rng.below(zones.end - zones.start);
    let kind = match model {
        Model::Ram { .. } if rng.one_in(2) => DeviceKind::Conventional,
        _ => DeviceKind::Zoned,
    };
    let zone_capacity = Blocks(24 + rng.below(60));
    let active = match kind {
        DeviceKind::Conventional => None,
        DeviceKind::Zoned => [None, Some(3), Some(5), Some(14)][draw(rng, 4)],
    };
    Geometry {
        kind,
        zone_count: narrow(zone_count),
        zone_size: zone_capacity + Blocks(rng.below(3) * 8),
        zone_capacity,
        max_open_zones: active,
        max_active_zones: active,
    }
}

fn draw(rng: &mut Rng, count: usize) -> usize {
    index(rng.below(count as u64))
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).expect("a small number was drawn")
}

fn narrow_u8(n: u64) -> u8 {
    u8::try_from(n).expect("a small number was drawn")
}
