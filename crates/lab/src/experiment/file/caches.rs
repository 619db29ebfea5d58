//! Cache experiments in a file: its keys, and the experiments that they make.

use serde::Deserialize;
use zonal_base::{Bytes, Nanos};

use super::several::{Several, Text, only, spread};
use crate::Workload;
use crate::experiment::{Drive, Engine, Experiment, Precondition};
use crate::simulated::Habits;

/// Keys of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Raw {
    pub(super) title: String,
    #[serde(default = "zonal")]
    cache: Several<Engine>,
    drive: Several<Text<Drive>>,
    #[serde(default = "nothing")]
    precondition: Several<Text<Precondition>>,
    zones: Several<u32>,
    chunk: Several<Text<Bytes>>,
    #[serde(default = "flow")]
    policy: Several<String>,
    #[serde(default = "no_memory")]
    dram: Several<Text<Bytes>>,
    workload: Several<Workload>,
    /// Bytes of all keys, as a multiple of the cache. A trace defines this, and the bytes of its
    /// gets.
    #[serde(default = "by_trace")]
    ratio: Several<u64>,
    /// Bytes of all gets together.
    #[serde(default = "by_trace_bytes")]
    bytes: Several<Text<Bytes>>,
    tasks: Several<usize>,
    origin_latency: Several<Text<Nanos>>,
    #[serde(default = "no_spread")]
    origin_sd: Several<Text<Nanos>>,
    #[serde(default = "no")]
    hold_zone_during_fetch: Several<bool>,
    #[serde(default = "no_habits")]
    habits: Several<Text<Habits>>,
    #[serde(default = "no_limit")]
    limit: Several<Text<Nanos>>,
    #[serde(default = "first_seed")]
    seed: Several<u64>,
}

fn zonal() -> Several<Engine> {
    only(Engine::Zonal)
}

fn nothing() -> Several<Text<Precondition>> {
    only(Text(Precondition::Nothing))
}

fn flow() -> Several<String> {
    only("flow".into())
}

fn no_memory() -> Several<Text<Bytes>> {
    only(Text(Bytes(0)))
}

/// Only a trace can omit the key: [`Experiment::check`] refuses 0 for other workloads.
fn by_trace() -> Several<u64> {
    only(0)
}

fn by_trace_bytes() -> Several<Text<Bytes>> {
    only(Text(Bytes(0)))
}

fn no() -> Several<bool> {
    only(false)
}

fn no_habits() -> Several<Text<Habits>> {
    only(Text(Habits::default()))
}

fn no_spread() -> Several<Text<Nanos>> {
    only(Text(Nanos(0)))
}

fn no_limit() -> Several<Text<Nanos>> {
    only(Text(Nanos::MAX))
}

fn first_seed() -> Several<u64> {
    only(1)
}

/// Bytes of a zone, the unit of ratios.
const ZONE: Bytes = Bytes::mib(1077);

impl Raw {
    /// Every combination, in the order of the keys.
    pub(super) fn combinations(&self) -> Vec<Experiment> {
        let mut all = vec![Experiment {
            cache: self.cache.0[0],
            drive: self.drive.0[0].0,
            precondition: self.precondition.0[0].0,
            zones: self.zones.0[0],
            chunk: self.chunk.0[0].0,
            policy: self.policy.0[0].clone(),
            dram: self.dram.0[0].0,
            workload: self.workload.0[0].clone(),
            keys: 0,
            gets: 0,
            tasks: self.tasks.0[0],
            origin_latency: self.origin_latency.0[0].0,
            origin_sd: self.origin_sd.0[0].0,
            hold_zone_during_fetch: self.hold_zone_during_fetch.0[0],
            habits: self.habits.0[0].0,
            limit: self.limit.0[0].0,
            seed: self.seed.0[0],
        }];
        spread(&mut all, &self.cache, |one, cache| one.cache = *cache);
        spread(&mut all, &self.drive, |one, drive| one.drive = drive.0);
        spread(&mut all, &self.precondition, |one, value| one.precondition = value.0);
        spread(&mut all, &self.zones, |one, zones| one.zones = *zones);
        spread(&mut all, &self.chunk, |one, chunk| one.chunk = chunk.0);
        spread(&mut all, &self.policy, |one, policy| one.policy.clone_from(policy));
        spread(&mut all, &self.dram, |one, dram| one.dram = dram.0);
        spread(&mut all, &self.workload, |one, workload| one.workload.clone_from(workload));
        spread(&mut all, &self.ratio, |one, ratio| {
            one.keys = (ZONE.0 / one.chunk.0.max(1) * u64::from(one.zones)).saturating_mul(*ratio);
        });
        spread(&mut all, &self.bytes, |one, bytes| one.gets = bytes.0.0 / one.chunk.0.max(1));
        spread(&mut all, &self.tasks, |one, tasks| one.tasks = *tasks);
        spread(&mut all, &self.origin_latency, |one, value| one.origin_latency = value.0);
        spread(&mut all, &self.hold_zone_during_fetch, |one, hold| {
            // Zonal never holds a zone. In a list, both values are one experiment for Zonal.
            let is_list = 1 < self.hold_zone_during_fetch.0.len() || 1 < self.cache.0.len();
            one.hold_zone_during_fetch = *hold && !(is_list && one.cache == Engine::Zonal);
        });
        // Only ZNSCCache has these keys.
        let has_none = |one: &Experiment| 1 < self.cache.0.len() && one.cache != Engine::Znsccache;
        spread(&mut all, &self.origin_sd, |one, sd| {
            one.origin_sd = if has_none(one) { Nanos(0) } else { sd.0 };
        });
        spread(&mut all, &self.habits, |one, habits| {
            one.habits = if has_none(one) { Habits::default() } else { habits.0 };
        });
        spread(&mut all, &self.limit, |one, limit| {
            one.limit = if has_none(one) { Nanos::MAX } else { limit.0 };
        });
        spread(&mut all, &self.seed, |one, seed| one.seed = *seed);
        for one in &mut all {
            // In a list of caches, a published cache that does not know the policy takes its own
            // first one.
            let known = one.cache.policies();
            if 1 < self.cache.0.len()
                && let Some(first) = known.first()
                && !known.contains(&&*one.policy)
            {
                one.policy = (*first).into();
            }
            // In a list of workloads, a trace keeps its own keys and gets.
            if 1 < self.workload.0.len() && matches!(one.workload, Workload::Recorded(_)) {
                (one.keys, one.gets) = (0, 0);
            }
        }
        all
    }
}
