//! Drive of an experiment: created, preconditioned, and cut to the zones that the cache uses.

mod overwritten;

use zonal_base::{Blocks, Bytes, Lba, Nanos, Rng, Ticket, index};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};
use zonal_emulator::ftl::FtlCounters;
use zonal_emulator::{
    BlockCommand, ConventionalDrive, ConventionalProfile, DiscardMedium, Medium, Model, OnReset,
    Tags, ZonedDrive,
};

use super::{Engine, Experiment, Precondition};
use crate::Permutation;
use crate::simulated::Ground;
use crate::tagged::tagged;
use overwritten::Overwritten;

/// Drive of an experiment, with the zones that the cache uses.
#[derive(Debug)]
pub(super) struct Part {
    drive: Whole,
    geometry: Geometry,
}

#[derive(Debug)]
enum Whole {
    Zoned(Box<ZonedDrive>),
    Conventional(Box<ConventionalDrive>),
}

/// Writes in flight during preconditioning. More would not fill the drive faster.
const DEPTH: usize = 32;

impl Part {
    /// Creates and preconditions the drive. Requires: the drive has the experiment's zones.
    pub(super) fn prepare(experiment: &Experiment) -> Result<Ground<Self>, String> {
        let mut seeds = Rng::new(experiment.seed);
        let seed = seeds.next_u64();
        // With a place per chunk, a zone is one chunk.
        let (mut places, mut zones) = (None, experiment.zones);
        if experiment.has_places() {
            let capacity = experiment.drive.model().geometry().zone_capacity;
            places = Some(experiment.chunk.blocks_ceil());
            zones *= zonal_base::low_u32(index(capacity.bytes().0 / experiment.chunk.0));
        }
        let (drive, now) = match experiment.drive.model() {
            Model::Zoned(profile) => {
                let medium = medium(experiment.cache, &profile.geometry);
                (Whole::Zoned(Box::new(ZonedDrive::new(*profile, seed, medium))), Nanos(0))
            }
            Model::Conventional(mut profile) => {
                if let Some(place) = places {
                    *profile = profile.with_zones_of(place);
                }
                let (drive, now) = conventional(*profile, experiment, seeds)?;
                (Whole::Conventional(Box::new(drive)), now)
            }
        };
        let mut geometry = *drive.device().geometry();
        assert!(zones <= geometry.zone_count);
        geometry.zone_count = zones;
        Ok(Ground { drive: Self { drive, geometry }, now })
    }

    /// Counters of the flash translation layer. `None`: the drive has none.
    pub(super) fn ftl(&self) -> Option<FtlCounters> {
        match &self.drive {
            Whole::Zoned(_) => None,
            Whole::Conventional(drive) => drive.ftl_counters().copied(),
        }
    }

    /// Blocks per unit of the flash translation layer's map.
    pub(super) fn ftl_unit(&self) -> Blocks {
        match &self.drive {
            Whole::Zoned(_) => Blocks(1),
            Whole::Conventional(drive) => drive.profile().ftl.map_or(Blocks(1), |ftl| ftl.unit),
        }
    }
}

/// Contents of the drive. Zonal verifies what it reads. The published caches do not.
fn medium(cache: Engine, geometry: &Geometry) -> Box<dyn Medium> {
    match cache {
        Engine::Zncache | Engine::Znsccache => Box::new(DiscardMedium),
        Engine::Zonal => Box::new(Tags::new(geometry)),
    }
}

fn conventional(
    profile: ConventionalProfile,
    experiment: &Experiment,
    mut seeds: Rng,
) -> Result<(ConventionalDrive, Nanos), String> {
    let medium = medium(experiment.cache, &profile.drive.geometry);
    let (medium, is_kept) = Overwritten::new(medium);
    let medium = Box::new(medium);
    // Neither ZNCache nor Zonal trims a conventional drive.
    let mut drive = ConventionalDrive::new(profile, OnReset::Nothing, seeds.next_u64(), medium);
    let now = match experiment.precondition {
        Precondition::Nothing => Nanos(0),
        Precondition::Random(piece) => {
            let all = drive.geometry().zone_count;
            overwrite(&mut drive, (piece, all), seeds.next_u64())?
        }
        Precondition::Used(piece) => {
            overwrite(&mut drive, (piece, experiment.zones), seeds.next_u64())?
        }
    };
    is_kept.set(true);
    Ok((drive, now))
}

/// Preconditions a drive: writes every piece of its first `stretches` zones once, in random order.
/// Returns the time of the last completion.
fn overwrite(
    drive: &mut ConventionalDrive,
    (piece, stretches): (Bytes, u32),
    seed: u64,
) -> Result<Nanos, String> {
    let geometry = *drive.geometry();
    let blocks = piece.blocks_ceil();
    let per_zone = geometry.zone_size.0 / blocks.0;
    let pieces = per_zone * u64::from(stretches);
    let order = Permutation::new(pieces, seed);
    let data = tagged(blocks);
    let (mut now, mut written, mut under_way) = (Nanos(0), 0, 0);
    while written < pieces || 0 < under_way {
        while written < pieces && under_way < DEPTH {
            let place = order.at(written);
            let lba = Lba(place / per_zone * geometry.zone_size.0 + place % per_zone * blocks.0);
            let write = BlockCommand::Write { lba, data: vec![data.clone()] };
            let submitted = drive.submit_block(now, Ticket(0), write);
            submitted.map_err(|_| "the drive's queue is shorter than a host's")?;
            (written, under_way) = (written + 1, under_way + 1);
        }
        now = now.max(drive.next_event().ok_or("the drive does not respond")?);
        while let Some((_, completion)) = drive.poll(now) {
            completion.map_err(|error| format!("preconditioning write failed: {error:?}"))?;
            under_way -= 1;
        }
    }
    Ok(now)
}

impl Whole {
    fn device(&self) -> &dyn ZonedDevice {
        match self {
            Self::Zoned(drive) => &**drive,
            Self::Conventional(drive) => &**drive,
        }
    }
}

impl ZonedDevice for Part {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        match &mut self.drive {
            Whole::Zoned(drive) => drive.submit(now, ticket, command),
            Whole::Conventional(drive) => drive.submit(now, ticket, command),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        match &mut self.drive {
            Whole::Zoned(drive) => drive.poll(now),
            Whole::Conventional(drive) => drive.poll(now),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.device().next_event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The drive's constants are those of the model. An experiment only chooses how much of the
    /// drive is used.
    #[test]
    fn a_cache_runs_on_the_drive_that_was_compared_with_a_real_one() {
        for name in ["zn540", "sn540"] {
            let experiment = Experiment {
                cache: Engine::Zncache,
                drive: name.parse().expect("a model"),
                precondition: Precondition::Nothing,
                zones: 20,
                chunk: Bytes::mib(1),
                policy: "zone-lru".into(),
                dram: Bytes(0),
                workload: crate::Distribution::Uniform.into(),
                keys: 1,
                gets: 1,
                tasks: 1,
                origin_latency: Nanos(0),
                origin_sd: Nanos(0),
                hold_zone_during_fetch: false,
                habits: crate::simulated::Habits::default(),
                limit: Nanos::MAX,
                seed: 1,
            };
            let part = Part::prepare(&experiment).expect("it has 20 zones").drive;
            let model = match part.drive {
                Whole::Zoned(drive) => Model::Zoned(Box::new(drive.profile().clone())),
                Whole::Conventional(drive) => {
                    Model::Conventional(Box::new(drive.profile().clone()))
                }
            };
            let measured = Model::by_name(name).expect("a model");
            assert_eq!(model.fingerprint(), measured.fingerprint(), "{name}");
        }
    }
}
