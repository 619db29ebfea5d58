//! Speed of trace replay, compared with libCacheSim.
//!
//! libCacheSim's C code is used through its Python package, in a separate process and under its own
//! licence, if a Python with it is given.

mod hits;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use zonal_base::Rng;
use zonal_lab::bench::process_cpu;
use zonal_lab::trace::{Capacity, Format, Room, Trace, make, replay};
use zonal_lab::{Distribution, Draw};

use crate::compare::machine::describe;
use crate::compare::page::{Words, page};
use crate::compare::samples::{Goal, Row, Samples};

/// Measure how fast traces are replayed, beside libCacheSim
#[derive(Debug, clap::Args)]
#[command(after_help = "\
libCacheSim's package goes into an environment of its own:
    python3 -m venv peer && peer/bin/pip install libcachesim==0.3.5
    cargo run --release -p zonal-bench -- traces --peer peer/bin/python")]
pub(crate) struct Args {
    /// A Python that has the package libcachesim; without it there is nothing to compare with
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// The page that is written
    #[arg(long, value_name = "FILE", default_value = "docs/results/trace-replay.md")]
    out: PathBuf,
}

const WORDS: Words = Words {
    introduction: "\
# How fast traces are replayed

Written by `cargo run --release -p zonal-bench -- traces --peer PYTHON`, with a Python that has libCacheSim's package (libcachesim 0.3.5, whose
`process_trace` is C from the trace's file to the miss ratio). The trace has two million requests, exactly zipf 0.99 over a million
objects, as `oracleGeneral` packed with zstd; each cache has room for 100,000 objects, where there are zones in 50 of them. One policy at a time, the two programs in turns;
reading and unpacking are part of both, and CPU is user and system time of all threads. libCacheSim's table by hash gets 2^18 buckets, two to
three for each object: with the 2^24 that it takes by default it needs up to twice the time on a cache of this size. The last rows are what a
policy does at a hit, without the rest of a cache: `holds` and `on_access`, of 2.2 million chunks in 125 zones one at random, drawing it included.
Medians, with the lowest and the highest in parentheses.
",
    not_concluded: "\
## What is not concluded

- Nothing about traces with many more objects than fit into the processor's caches.
- Nothing about several policies at once: here they share the reading and both cores, which libCacheSim's package does not offer.
- Belady reads the trace twice here, because it finds the future out by itself; libCacheSim is told it by the file.
",
};

const REQUESTS: u64 = 2_000_000;
const OBJECTS: u64 = 1_000_000;
const CAPACITY: u64 = 100_000;

/// Zones of the policies on zones.
const ZONES: u32 = 50;

/// Size of libCacheSim's hash table, as a power of two: its fastest on this machine.
const PEER_TABLE_BITS: u32 = 18;

/// Zonal's name of a policy, and libCacheSim's.
const POLICIES: [(&str, &str); 7] = [
    ("lru", "LRU"),
    ("fifo", "FIFO"),
    ("clock", "Clock"),
    ("sieve", "Sieve"),
    ("s3-fifo", "S3FIFO"),
    ("arc", "ARC"),
    ("belady", "Belady"),
];

/// Prints the CPU seconds of one replay, and the miss ratio.
const PEER: &str = "\
import sys, time, libcachesim as l
reader = l.TraceReader(sys.argv[1], l.TraceType.ORACLE_GENERAL_TRACE, l.ReaderInitParam(ignore_obj_size=True))
cache = getattr(l, sys.argv[2])(int(sys.argv[3]), hashpower=int(sys.argv[4]))
start = time.process_time()
misses = cache.process_trace(reader)[0]
print(time.process_time() - start, misses)
";

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("zonal-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let rows = measure(args, &folder);
    // A remaining folder does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let rows = rows?;
    rows.iter().for_each(|row| eprintln!("{}", row.line()));
    let text = page(&WORDS, &describe(Path::new(".")), &rows, &[]);
    std::fs::write(&args.out, text).map_err(|error| error.to_string())?;
    eprintln!("written: {}", args.out.display());
    Ok(())
}

fn measure(args: &Args, folder: &Path) -> Result<Vec<Row>, String> {
    let path = folder.join("zipf.oracleGeneral.bin.zst");
    let packed = zstd::encode_all(&records()[..], 3).map_err(|error| error.to_string())?;
    std::fs::write(&path, packed).map_err(|error| error.to_string())?;
    let mut samples = POLICIES.map(|_| (Samples::default(), Samples::default()));
    for _ in 0..args.rounds {
        for ((ours, theirs), (name, peer_name)) in samples.iter_mut().zip(POLICIES) {
            let (cpu, misses) = replayed(&path, name)?;
            ours.push(rate(cpu));
            let Some(python) = &args.peer else { continue };
            let (cpu, peer_misses) = replayed_by_peer(python, &path, peer_name)?;
            theirs.push(rate(cpu));
            if 0.005 < (misses - peer_misses).abs() {
                return Err(format!("{name} misses {misses}, and {peer_misses} in libCacheSim"));
            }
        }
    }
    let rows = POLICIES.iter().zip(samples).map(|((name, _), (ours, theirs))| {
        let unit = "million requests per CPU second";
        match args.peer {
            Some(_) => {
                Row::new(name, unit, ours, Goal::RatioAtLeast(1.2)).beside("libCacheSim", theirs)
            }
            None => Row::new(name, unit, ours, Goal::None),
        }
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.extend(on_zones(args, &path)?);
    rows.extend(hits::rows(args.rounds)?);
    Ok(rows)
}

/// Policies on zones have no peer.
fn on_zones(args: &Args, path: &Path) -> Result<Vec<Row>, String> {
    let mut samples = zonal_policy::NAMES.map(|_| Samples::default());
    for _ in 0..args.rounds {
        for (samples, name) in samples.iter_mut().zip(zonal_policy::NAMES) {
            samples.push(rate(replayed(path, name)?.0));
        }
    }
    let rows = zonal_policy::NAMES.iter().zip(samples).map(|(name, samples)| {
        Row::new(name, "million requests per CPU second", samples, Goal::AtLeast(2.0))
    });
    Ok(rows.collect())
}

fn rate(cpu: Duration) -> f64 {
    REQUESTS as f64 / cpu.as_secs_f64() / 1e6
}

fn replayed(path: &Path, policy: &str) -> Result<(Duration, f64), String> {
    let trace = Trace::new(path.to_owned(), Format::OracleGeneral);
    let contender = make(policy, Room { capacity: Capacity::Objects(CAPACITY), zones: ZONES })?;
    let start = process_cpu();
    let tallies = replay(&trace, vec![contender], &|_| ()).map_err(|error| error.to_string())?;
    Ok((process_cpu() - start, tallies[0].miss_ratio()))
}

fn replayed_by_peer(python: &Path, path: &Path, policy: &str) -> Result<(Duration, f64), String> {
    let mut command = Command::new(python);
    command
        .args(["-c", PEER])
        .arg(path)
        .arg(policy)
        .args([CAPACITY.to_string(), PEER_TABLE_BITS.to_string()]);
    let output = command.output().map_err(|error| format!("{}: {error}", python.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    // The package may print lines of its own before.
    let last = said.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, misses] => Ok((Duration::from_secs_f64(seconds), misses)),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            Err(format!("{}, {policy}: {last}", python.display()))
        }
    }
}

/// The trace, with the position of each object's next request, which libCacheSim's Belady needs.
fn records() -> Vec<u8> {
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, OBJECTS, 42);
    let mut rng = Rng::new(42);
    let ids: Vec<u64> = (0..REQUESTS).map(|_| draw.key(&mut rng)).collect();
    let mut next = vec![-1_i64; zonal_base::index(OBJECTS)];
    let mut ends = Vec::new();
    for (position, id) in ids.iter().enumerate().rev() {
        let at = zonal_base::index(*id);
        ends.push(next[at]);
        // Positions count from 1.
        next[at] = i64::try_from(position).map_or(-1, |position| position + 1);
    }
    let records = ids.iter().zip(ends.into_iter().rev()).flat_map(|(id, next)| {
        let mut record = [0; 24];
        record[4..12].copy_from_slice(&id.to_le_bytes());
        record[12..16].copy_from_slice(&4096_u32.to_le_bytes());
        record[16..].copy_from_slice(&next.to_le_bytes());
        record
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_says_when_each_object_is_asked_for_next() {
        let records = records();
        let part = |at: usize| records[at..at + 8].try_into().map(i64::from_le_bytes);
        let id = |n: usize| part(n * 24 + 4).ok();
        let next = part(16).ok().and_then(|next| usize::try_from(next).ok());
        // The first object of this seed recurs.
        let next = next.map_or(0, |next| next - 1);
        assert_eq!(id(0), id(next));
        assert!((1..next).all(|between| id(between) != id(0)));
    }
}
