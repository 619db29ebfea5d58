//! The few that are worth a run: the whole cache on the model of the drive, in virtual time.

use serde::Serialize;
use zonal_base::{Bytes, Nanos};
use zonal_emulator::{Basis, Model};

use super::sweep::{POLICIES, Replayed, chunks, lookups};
use super::{Question, Survey, ZONE, sweep};
use crate::bench::Progress;
use crate::experiment::{Campaign, Drive, Engine, Experiment, Outcome, Precondition};
use crate::simulated::Habits;

/// A cache on a drive that was run, and what it gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Final {
    /// With zones, or without.
    pub is_zoned: bool,
    /// Nothing of the drive was measured: only its write amplification says something.
    pub is_guess: bool,
    /// How much of the capacity is never written, in percent.
    pub spare: u32,
    /// Of its replay.
    pub replayed: Replayed,
    /// What was run: a sample of the load, on as small a part of the drive.
    pub experiment: Experiment,
    /// What it gave.
    pub outcome: Outcome,
}

/// Policies on the drive with zones, or on the only one.
const MOST: usize = 3;

/// Parts of a drive without zones that are left alone, in percent.
pub(super) const SPARES: [u32; 3] = [0, 10, 20];

/// Chunks that a run asks for, about: 20 seconds of a core, more if much is missed.
const LOOKUPS_MAX: u64 = 3_000_000;

/// In what a drive without zones was written over before: then what is spare on it is what was left spare.
const PIECE: Bytes = Bytes::kib(64);

/// What a part of the capacity leaves.
pub(super) fn used(zones: u32, spare: u32) -> u32 {
    (zones * (100 - spare) / 100).max(1)
}

/// One object in so many is asked for in runs.
pub(super) fn sample(question: &Question, survey: &Survey) -> u32 {
    let chunk = chunks(question, survey)[0];
    sweep::sample(question, lookups(survey, chunk), LOOKUPS_MAX)
}

/// What is run, on what.
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

/// The best few, with all of the capacity: those that nobody beats in both requests to the origin and bytes written; those
/// with the fewest requests first. What `zonal serve` does by itself is among them, and of several that a replay cannot tell
/// apart only the first.
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

/// The replay with as little room, if the policy was replayed so; the one with all of it otherwise.
fn with_spare<'a>(all: &'a [Replayed], best: &'a Replayed, spare: u32) -> &'a Replayed {
    let zones = used(best.zones, spare);
    let is_it = |one: &&Replayed| {
        (&one.policy, one.chunk, one.zones, one.sample)
            == (&best.policy, best.chunk, zones, best.sample)
    };
    all.iter().find(is_it).unwrap_or(best)
}

/// Nothing was measured of its timing.
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
    /// Bytes that the drive programs for each that the cache wrote.
    pub(super) fn device_amplification(&self) -> f64 {
        if self.outcome.drive.written == 0 { 1.0 } else { self.outcome.write_amplification() }
    }

    /// Bytes that the drive programs for each read, once the cache is full.
    pub(super) fn programmed_per_read(&self) -> f64 {
        self.replayed.late_flash_bytes * self.device_amplification()
    }

    /// Gets in a second of virtual time, all tasks together.
    pub(super) fn gets_per_s(&self) -> f64 {
        self.outcome.gets as f64 * 1e9 / self.outcome.took_ns.max(1) as f64
    }

    pub(super) const fn p99(&self) -> Nanos {
        Nanos(self.outcome.get.p99_ns)
    }
}
