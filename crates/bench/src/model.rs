//! Cost of the drive models: gets of a whole cache per CPU second, memory at full size, and an
//! experiment with garbage collection.

mod overwrites;

use std::path::{Path, PathBuf};

use zonal_base::{Bytes, Nanos};
use zonal_emulator::{Profile, Tags, ZonedDrive};
use zonal_lab::bench::resident;
use zonal_lab::simulated::{OriginTimes, Simulated, SimulationOutcome, SimulationSettings};
use zonal_lab::{Distribution, Draw};

use crate::compare::machine::describe;
use crate::compare::page::{Words, page};
use crate::compare::samples::{Goal, Row, Samples};

/// Measure what a cache on the model of a drive costs, in virtual time
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often gets are measured
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: u32,
    /// Zones of the drive whose gets are measured
    #[arg(long, value_name = "N", default_value_t = 64)]
    zones: u32,
    /// Zones of the drive that is filled to see what it takes: the ZN540 has 904
    #[arg(long, value_name = "N", default_value_t = 904)]
    full_zones: u32,
    /// How much is overwritten in each of five rounds, and taken for its part of 6 TiB; 6TiB is all of it, once
    #[arg(long, value_name = "SIZE", default_value = "128GiB")]
    overwrites: Bytes,
    /// The page that is written
    #[arg(long, value_name = "FILE", default_value = "docs/results/model-cost.md")]
    out: PathBuf,
}

const WORDS: Words = Words {
    introduction: "\
# What the model of a drive costs

Written by `cargo run --release -p zonal-bench -- model`. A whole cache (the engine that serves users, chunks of 64 KiB, `zone-lru`) runs on
`emulator:zn540` in virtual time, one shard, 64 readers in closed loops, an origin 10 ms away; payloads are tags, and every reader checks
them. Medians, with the lowest and the highest in parentheses. CPU is that of the only thread.

Gets are measured twice: with 64 MiB of memory in front of flash, which is what `zonal serve` gives each shard unless it is told
otherwise, and with none, so that every hit is a read from flash. The first is the cache as its users get it, and the goal is
set on it; the second shows what a read from flash costs, and is as good a measure of the model. A hit in memory is found,
counted, told to the policy and looked at by its reader as one from flash is; its check was made when it came from flash or the
origin. The drive has 64 zones: on a full one 64 MiB hold a smaller part of what is asked for. What the full drive takes is
measured without that memory, which is a part of what the operator gives, not of what a chunk costs.

An experiment with garbage collection is 6 TiB of writes of 64 KiB, without a cache: on drives of full size that were filled, and
overwritten by twice their spare space after that. Unless `--overwrites` says otherwise, five rounds of 128 GiB are run, and each is
taken for its part of the whole: that they agree shows that the rate is constant. `--overwrites 6TiB` runs all of it.
",
    not_concluded: "\
## What is not concluded

- Nothing about the speed of a cache on real hardware: here time is the model's.
- Nothing about a cache on other drives than the ZN540, or about smaller chunks.
- Nothing about overwrites of less than 64 KiB: on drives with a map of 4 KiB each costs as much, for a part of the bytes.
",
};

const CHUNK: Bytes = Bytes::kib(64);

/// Default DRAM tier of a shard.
const DRAM: Bytes = Bytes::mib(64);

/// Gets of one round.
const ROUND: u64 = 1_000_000;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.overwrites < CHUNK {
        return Err(format!("--overwrites is {CHUNK} at least"));
    }
    let mut rows = full_drive(args.full_zones)?;
    rows.extend(gets(args, DRAM)?);
    rows.extend(gets(args, Bytes(0))?);
    rows.extend(overwrites::rows(args.overwrites)?);
    rows.iter().for_each(|row| eprintln!("{}", row.line()));
    let text = page(&WORDS, &describe(Path::new(".")), &rows, &[]);
    std::fs::write(&args.out, text).map_err(|error| error.to_string())?;
    eprintln!("written: {}", args.out.display());
    Ok(())
}

/// A cache on a ZN540 with this many zones and this DRAM tier, and the number of chunks in the
/// zones.
fn cache(zones: u32, memory: Bytes) -> Result<(Simulated<ZonedDrive>, u64), String> {
    let mut profile = Profile::zn540();
    profile.geometry.zone_count = zones;
    let geometry = profile.geometry;
    let drive = ZonedDrive::new(profile, 1, Box::new(Tags::new(&geometry)));
    let settings = SimulationSettings {
        chunk: CHUNK,
        get: CHUNK,
        policy: "zone-lru".parse().expect("a policy of ours"),
        memory,
        tasks: 64,
        origin: OriginTimes::each(Nanos::millis(10)),
        seed: 1,
    };
    let simulated = Simulated::start(drive, &settings).map_err(|error| error.to_string())?;
    let capacity = geometry.zone_capacity.bytes().0 * u64::from(zones);
    Ok((simulated, capacity / CHUNK.0))
}

/// Fills a drive slightly beyond its capacity, so that zones are reset, and measures the memory.
fn full_drive(zones: u32) -> Result<Vec<Row>, String> {
    let before = resident();
    let (mut simulated, chunks) = cache(zones, Bytes(0))?;
    // Uniform over far more keys than gets: nearly all of them miss.
    let draw = Draw::new(Distribution::Uniform, chunks * 64, 1);
    let outcome = simulated.gets(chunks + chunks / 50, draw)?;
    let memory = Bytes(resident().0.saturating_sub(before.0));
    let records = simulated.cache().record_count();
    let one = |value: f64| {
        let mut samples = Samples::default();
        samples.push(value);
        samples
    };
    let gib = memory.0 as f64 / (1u64 << 30) as f64;
    let measure = format!("memory of the model and the cache, {zones} zones full of 64 KiB chunks");
    let each = memory.0 as f64 / records as f64;
    let misses = outcome.gets as f64 / outcome.cpu.as_secs_f64() / 1e6;
    Ok(vec![
        Row::new(&measure, "GiB", one(gib), Goal::AtMost(2.0)),
        Row::new("memory for each chunk", "B", one(each), Goal::None),
        Row::new("misses, each of them filled", "million per CPU second", one(misses), Goal::None),
    ])
}

/// Gets of a cache with this DRAM tier.
fn gets(args: &Args, memory: Bytes) -> Result<Vec<Row>, String> {
    let (mut simulated, chunks) = cache(args.zones, memory)?;
    let mixed = Draw::new(Distribution::Zipf { theta: 0.99 }, chunks * 2, 1);
    // Fill, until the cache evicts.
    while simulated.cache().stats().evicted == 0 {
        simulated.gets(ROUND, mixed)?;
    }
    let (mut rate, mut hits, mut speed) = <(Samples, Samples, Samples)>::default();
    let mut from_memory = Samples::default();
    for _ in 0..args.rounds {
        let before = simulated.cache().stats().pieces_dram_hits;
        let outcome = simulated.gets(ROUND, mixed)?;
        let in_memory = simulated.cache().stats().pieces_dram_hits - before;
        from_memory.push(in_memory as f64 / outcome.gets as f64 * 100.0);
        rate.push(per_cpu_second(&outcome));
        hits.push(outcome.hits as f64 / outcome.gets as f64 * 100.0);
        speed.push(outcome.took.0 as f64 / 1e9 / outcome.cpu.as_secs_f64());
    }
    let (with, goal) = match memory {
        Bytes(0) => ("flash only".to_owned(), Goal::None),
        _ => (format!("{memory} of memory before flash"), Goal::AtLeast(1.0)),
    };
    let gets = format!("gets, hits and misses mixed: zipf:0.99 over twice the capacity, {with}");
    let row = |measure: &str, unit, samples| {
        Row::new(&format!("{measure}, {with}"), unit, samples, Goal::None)
    };
    Ok(vec![
        Row::new(&gets, "million per CPU second", rate, goal),
        row("hits among them", "%", hits),
        row("served from memory", "% of the gets", from_memory),
        row("virtual time over CPU time meanwhile", "", speed),
    ])
}

fn per_cpu_second(outcome: &SimulationOutcome) -> f64 {
    outcome.gets as f64 / outcome.cpu.as_secs_f64() / 1e6
}
