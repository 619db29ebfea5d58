//! Final runs: the best candidates as a whole cache on the drive model, in virtual time.

use serde::Serialize;
use zonal_base::{Bytes, Nanos};
use zonal_emulator::{Basis, Model};

use super::sweep::{POLICIES, Replayed, chunks, lookups};
use super::{Question, Survey, ZONE, sweep};
use crate::bench::Progress;
use crate::experiment::{Campaign, Drive, Engine, Experiment, Outcome, Precondition};
use crate::simulated::Habits;

/// A run of a cache on a drive, with its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Final {
    /// True for a zoned drive.
    pub is_zoned: bool,
    /// True if the drive was not measured: only its write amplification is meaningful.
    pub is_guess: bool,
    /// Spare space that is never written, in percent of the capacity.
    pub spare: u32,
    /// Replay of the same policy, without a drive.
    pub replayed: Replayed,
    /// The experiment: a sample of the load, on the same fraction of the drive.
    pub experiment: Experiment,
    /// Result of the run.
    pub outcome: Outcome,
}

/// Largest number of policies on the zoned drive, or on the only one.
const MOST: usize = 3;

/// Spare space on a conventional drive, in percent of the capacity.
pub(super) const SPARES: [u32; 3] = [0, 10, 20];

/// Chunk lookups of a run, about: 20 CPU seconds, more with many misses.
const LOOKUPS_MAX: u64 = 3_000_000;

/// Write unit that ages a conventional drive before the run, so that only the spare space is free.
const PIECE: Bytes = Bytes::kib(64);

/// Number of zones left beside the spare space.
pub(super) fn used(zones: u32, spare: u32) -> u32 {
    (zones * (100 - spare) / 100).max(1)
}

/// Sampling factor of the runs: one object in this many.
pub(super) fn sample(question: &Question, survey: &Survey) -> u32 {
    let chunk = chunks(question, survey)[0];
    sweep::sample(question, lookups(survey, chunk), LOOKUPS_MAX)
}

/// A run, its drive and its spare space.
struct Plan<'a> {
    drive: Drive,
    spare: u32,
    replayed: &'a Replayed,
}

pub(super) fn run(
    question: &Question,
    survey: &Survey,
    replayed: &[Replayed],
    progress: &Progress,
) -> Result<Vec<Final>, String> {
    let sample = sample(question, survey);
    let plans = plans(question, replayed);
    let campaign = Campaign {
        experiments: plans.iter().map(|plan| plan.experiment(question, sample)).collect(),
        at_once: question.at_once,
        kept: None,
        commit: question.commit.clone(),
    };
    let done = campaign.run(progress)?;
    let finals = plans.iter().zip(done).map(|(plan, done)| Final {
        is_zoned: matches!(plan.drive.model(), Model::Zoned(_)),
        is_guess: is_guess(plan.drive),
        spare: plan.spare,
        replayed: plan.replayed.clone(),
        experiment: done.experiment,
        outcome: done.outcome,
    });
    Ok(finals.collect())
}

fn plans<'a>(question: &Question, replayed: &'a [Replayed]) -> Vec<Plan<'a>> {
    let candidates = candidates(question, replayed);
    let Some(best) = candidates.first().copied() else { return Vec::new() };
    let sides = question.sides();
    let mut plans = Vec::new();
    for drive in sides.zoned.into_iter().chain(sides.conventional.filter(|_| sides.zoned.is_none()))
    {
        plans.extend(candidates.iter().map(|replayed| Plan { drive, spare: 0, replayed }));
    }
    if let Some(drive) = sides.conventional {
        for spare in SPARES {
            let known = plans
                .iter()
                .any(|plan| plan.drive == drive && plan.spare == spare && plan.replayed == best);
            if !known {
                plans.push(Plan { drive, spare, replayed: with_spare(replayed, best, spare) });
            }
        }
    }
    plans
}

/// Best candidates at full capacity: the Pareto front of origin requests and bytes written, those
/// with the fewest requests first. The default of `zonal serve` is among them. Of candidates with
/// equal replays, only the first is included.
pub(super) fn candidates<'a>(question: &Question, replayed: &'a [Replayed]) -> Vec<&'a Replayed> {
    let least_sample = replayed.iter().map(|one| one.sample).min().unwrap_or(1);
    let whole: Vec<&Replayed> = replayed
        .iter()
        .filter(|one| one.zones == question.zones() && one.sample == least_sample)
        .collect();
    let is_best = |one: &&&Replayed| !whole.iter().any(|other| one.is_beaten_by(other));
    let mut best: Vec<&Replayed> = Vec::new();
    for one in whole.iter().filter(is_best) {
        if !best.iter().any(|known| known.is_replayed_as(one)) {
            best.push(one);
        }
    }
    best.sort_by(|a, b| a.late_fetches.total_cmp(&b.late_fetches));
    best.truncate(MOST);
    let default = whole.iter().find(|one| one.policy == POLICIES[0]);
    if let Some(default) = default.filter(|_| !best.iter().any(|one| one.policy == POLICIES[0])) {
        best.truncate(MOST - 1);
        best.push(default);
    }
    best
}

/// Replay at the reduced capacity, if there is one, otherwise at full capacity.
fn with_spare<'a>(all: &'a [Replayed], best: &'a Replayed, spare: u32) -> &'a Replayed {
    let zones = used(best.zones, spare);
    let is_it = |one: &&Replayed| {
        (&one.policy, one.chunk, one.zones, one.sample)
            == (&best.policy, best.chunk, zones, best.sample)
    };
    all.iter().find(is_it).unwrap_or(best)
}

/// True if the drive's timing was not measured.
fn is_guess(drive: Drive) -> bool {
    let basis = match drive.model() {
        Model::Zoned(profile) => profile.nand.basis,
        Model::Conventional(profile) => profile.drive.nand.basis,
    };
    basis == Basis::Guess
}

impl Plan<'_> {
    fn experiment(&self, question: &Question, sample: u32) -> Experiment {
        let all = question.zones() / sample;
        let (drive, precondition) = match self.drive.model() {
            Model::Zoned(_) => (self.drive, Precondition::Nothing),
            Model::Conventional(_) => {
                let size = Bytes(u64::from(all) * ZONE.0);
                (self.drive.with_size(size), Precondition::Used(PIECE))
            }
        };
        Experiment {
            cache: Engine::Zonal,
            drive,
            precondition,
            zones: used(all, self.spare).min(drive.zones()),
            chunk: Bytes(self.replayed.chunk),
            policy: self.replayed.policy.clone(),
            dram: Bytes(question.dram.0 / u64::from(sample)),
            workload: question.workload(sample),
            keys: 0,
            gets: 0,
            tasks: question.tasks,
            origin_latency: question.origin_latency,
            origin_sd: Nanos(0),
            hold_zone_during_fetch: false,
            habits: Habits::default(),
            limit: Nanos::MAX,
            seed: question.seed,
        }
    }
}

impl Final {
    /// Device write amplification: NAND bytes per byte that the cache wrote.
    pub(super) fn device_amplification(&self) -> f64 {
        if self.outcome.drive.written == 0 { 1.0 } else { self.outcome.write_amplification() }
    }

    /// NAND bytes per read, once the cache is full.
    pub(super) fn programmed_per_read(&self) -> f64 {
        self.replayed.late_flash_bytes * self.device_amplification()
    }

    /// Gets per second of virtual time, over all tasks.
    pub(super) fn gets_per_s(&self) -> f64 {
        self.outcome.gets as f64 * 1e9 / self.outcome.took_ns.max(1) as f64
    }

    pub(super) const fn p99(&self) -> Nanos {
        Nanos(self.outcome.get.p99_ns)
    }
}
