//! Command generator: chooses the next command of a stream when one of its slots is due.

use zonal_base::{Blocks, Lba, ZoneId, mix64};
use zonal_device::{Command, ZoneAction, ZonedDevice};

use super::super::bench::{Bench, CharacterizeError};
use super::super::clock::Clock;
use super::super::ground::Next;
use super::{Load, Work};
use crate::permutation::Permutation;

/// Zone and position of a stream's writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WritePosition {
    pub(super) zone: ZoneId,
    pub(super) written: Blocks,
}

/// Purpose of a slot's command in flight.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    /// Work of the stream.
    Io,
    /// Reset of a zone that the stream will write again.
    Making(ZoneId),
    /// The block that is written before a finish.
    Touching(ZoneId),
    Finishing(ZoneId),
    Resetting(ZoneId),
}

impl Doing {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Io => "an I/O",
            Self::Making(_) | Self::Resetting(_) => "a reset",
            Self::Touching(_) => "the first block of a zone",
            Self::Finishing(_) => "a finish",
        }
    }
}

/// Result of a slot's turn.
pub(super) enum Turn {
    Submit(Command),
    /// Wait until the stream has a zone again.
    Park,
    /// No work is left.
    Stop,
}

impl<D: ZonedDevice, C: Clock<D>> Load<'_, '_, D, C> {
    pub(super) fn turn(&mut self, slot: usize) -> Result<Turn, CharacterizeError> {
        let number = self.slots[slot].stream;
        let stream = self.streams[number].stream;
        self.slots[slot].blocks = stream.blocks;
        if let Doing::Finishing(zone) = self.slots[slot].doing {
            return Ok(manage(zone, ZoneAction::Finish));
        }
        match stream.work {
            Work::Read(zone) => self.read(slot, stream.blocks, zone),
            Work::Mixed { read_percent, zones } => {
                if self.bench.rng.below(100) < read_percent {
                    return self.read(slot, stream.blocks, None);
                }
                let at = self.places_of(number, zones)?;
                Ok(self.write_at(slot, at))
            }
            Work::Write | Work::Append => Ok(self.write_on(slot)),
            Work::Reset => Ok(match self.bench.ground.full.pop() {
                Some(zone) => {
                    self.slots[slot].doing = Doing::Resetting(zone);
                    manage(zone, ZoneAction::Reset)
                }
                None => Turn::Stop,
            }),
            Work::Finish => Ok(match self.bench.ground.take_empty() {
                Some(zone) => {
                    self.slots[slot].doing = Doing::Touching(zone);
                    let lba = self.bench.device.geometry().zone_start(zone);
                    let data = vec![self.bench.data(Blocks(1))];
                    Turn::Submit(Command::Write { lba, data })
                }
                None => Turn::Stop,
            }),
            Work::Overwrite { first, span } => {
                let lba = self.next_to_overwrite(number, first, span);
                Ok(self.overwrite(lba, stream.blocks))
            }
            Work::Scatter { span } => {
                let places = span.0 / stream.blocks.0;
                let lba = Lba(self.bench.rng.below(places) * stream.blocks.0);
                Ok(self.overwrite(lba, stream.blocks))
            }
        }
    }

    /// Equal streams overwrite a region in the same order in every run, as in the reference, whose
    /// load generator has fixed seeds.
    fn next_to_overwrite(&mut self, number: usize, first: Blocks, span: Blocks) -> Lba {
        let running = &mut self.streams[number];
        let places = span.0 / running.stream.blocks.0;
        let (pass, at) = (running.overwritten / places, running.overwritten % places);
        running.overwritten += 1;
        let seed = mix64(self.bench.seed ^ mix64(pass << 32 | number as u64));
        Lba(first.0 + Permutation::new(places, seed).at(at) * running.stream.blocks.0)
    }

    fn overwrite(&self, lba: Lba, blocks: Blocks) -> Turn {
        Turn::Submit(Command::Write { lba, data: vec![self.bench.data(blocks)] })
    }

    fn read(
        &mut self,
        slot: usize,
        blocks: Blocks,
        zone: Option<usize>,
    ) -> Result<Turn, CharacterizeError> {
        let lba = self.bench.place_to_read(blocks, zone);
        let buffer = match self.slots[slot].buffer.take() {
            Some(buffer) => buffer,
            None => self.bench.buffer(blocks)?,
        };
        Ok(Turn::Submit(Command::Read { lba, blocks, buffer }))
    }

    /// Continues after the stream's last command, in the next zone if necessary.
    fn write_on(&mut self, slot: usize) -> Turn {
        let number = self.slots[slot].stream;
        let capacity = self.bench.device.geometry().zone_capacity;
        let running = &mut self.streams[number];
        if running.is_resetting {
            return Turn::Park;
        }
        if running.places.first().is_some_and(|place| place.written < capacity) {
            return self.write_at(slot, 0);
        }
        if 0 < running.in_flight && !self.has_zones_to_spare {
            return Turn::Park;
        }
        let filled = running.places.pop().map(|place| place.zone);
        match self.bench.ground.next(filled) {
            None => Turn::Stop,
            Some(Next::Empty(zone)) => {
                running.places.push(WritePosition { zone, written: Blocks(0) });
                self.write_at(slot, 0)
            }
            Some(Next::Again(zone)) => {
                running.is_resetting = true;
                self.slots[slot].doing = Doing::Making(zone);
                manage(zone, ZoneAction::Reset)
            }
        }
    }

    fn write_at(&mut self, slot: usize, at: usize) -> Turn {
        let Self { bench, streams, slots, .. } = self;
        let geometry = *bench.device.geometry();
        let running = &mut streams[slots[slot].stream];
        let place = &mut running.places[at];
        // The last write of a zone may be short.
        let blocks = running.stream.blocks.min(geometry.zone_capacity - place.written);
        let WritePosition { zone, written } = *place;
        place.written += blocks;
        slots[slot].blocks = blocks;
        let data = vec![bench.data(blocks)];
        Turn::Submit(match running.stream.work {
            Work::Write => Command::Write { lba: geometry.zone_start(zone) + written, data },
            _ => Command::Append { zone, data },
        })
    }

    /// One of the `count` zones of a mixed stream.
    fn places_of(&mut self, number: usize, count: usize) -> Result<usize, CharacterizeError> {
        let Bench { device, rng, ground, .. } = &mut *self.bench;
        let capacity = device.geometry().zone_capacity;
        let places = &mut self.streams[number].places;
        let at = zonal_base::index(rng.below(count as u64));
        while places.len() <= at {
            let zone = ground.empty.pop_front().ok_or(CharacterizeError::TooFewZones)?;
            places.push(WritePosition { zone, written: Blocks(0) });
        }
        if places[at].written == capacity {
            ground.used.push_back(places[at].zone);
            let zone = ground.empty.pop_front().ok_or(CharacterizeError::TooFewZones)?;
            places[at] = WritePosition { zone, written: Blocks(0) };
        }
        Ok(at)
    }
}

const fn manage(zone: ZoneId, action: ZoneAction) -> Turn {
    Turn::Submit(Command::Manage { zone, action })
}
