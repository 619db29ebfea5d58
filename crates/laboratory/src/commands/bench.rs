//! `zonal-lab bench`: runs a workload on a device, in real time and without HTTP.
//!
//! The loops run on the shards' threads, as the gateway's connections do, and read bytes of a known
//! version, as the gateway does after it has found the head. Misses are answered by an origin that
//! generates the data at once.

mod origin;
mod subject;

use std::sync::Arc;
use std::time::Instant;

use zonal_base::{Bytes, Nanos};
use zonal_cli::{Failure, print, refuse_foreign};
use zonal_host::{BUFFER_BYTES, ChunkRules, DeviceSettings, NodeSettings};
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_lab::bench::{self, BenchError, BenchReport, Progress};
use zonal_zonelog::OpenMode;

use super::on_device;
use subject::NodeSubject;

/// Measure a workload on a device, without HTTP
///
/// Existing cache contents are used and extended; --format starts with an empty cache. A device
/// with other data is refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HOW)]
pub(crate) struct Args {
    /// Device: file:PATH?size=4GiB, block:/dev/NAME or emulator:zn540?zones=4
    #[arg(long, value_name = "SPEC")]
    device: DeviceSpec,
    /// DRAM tier of each shard, for chunks on probation and frequently read chunks
    #[arg(long, value_name = "SIZE", default_value = "0")]
    dram: Bytes,
    /// Chunk size: the unit of fetching and admission
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    chunk: Bytes,
    /// Eviction policy with settings, such as flow or zdrop?vop=50%. The default admits everything
    #[arg(long, value_name = "POLICY", default_value = "zone-lru", value_parser = on_device)]
    policy: zonal_policy::Spec,
    /// Number of shards (threads) [default: as the device was formatted, or one for each core]
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Format the device first: all data on it is lost
    #[arg(long)]
    format: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    workload: bench::BenchSettings,
}

/// Meaning of the figures, for `--help`.
const HOW: &str = "\
Examples: zipf keys with twice the capacity of the device, then flash hits only:
  zonal-lab bench --device 'file:bench?size=4GiB' --format --chunk 64KiB --value 64KiB --keys 2x --dist zipf:0.99
  zonal-lab bench --device file:bench --chunk 64KiB --value 64KiB --mode hits --json

Definitions:
  A get ends with its last byte. The first 16 bytes of each get are checked, and all bytes of one in 256.
  found_after_insert_ratio  Share of keys that the cache still has after all writes have settled. With
                            --mode insert: of all inserted keys; otherwise of the last missed keys (at
                            most 4096).
  cpu_us_per_flash_hit      User and system CPU time of the process per get, including io_uring kernel
                            threads and the benchmark loops. Measured in a separate phase (at most 3 s;
                            with --mode hits the whole measured time) that reads only keys on flash,
                            uniformly. flash_hits.by_record has the cache's own counters of this phase.
  ..._net                   Without the CPU time of generating values (thread CPU clock).
  kernel_..._bytes          From /proc/self/io, to compare with the cache's counters.
  device_written_bytes_since_open
                            Bytes that the cache wrote in the whole run. Compare with the device's own
                            counter for the write amplification of the layers between.
  hits                      A value of several chunks is a hit if no part of it comes from the origin.
  --rate 80%                Share of the write bandwidth: 1 MiB writes, four in flight, with O_DIRECT, for
                            two seconds, to a scratch file of 512 MiB beside the device file, which is
                            deleted afterwards. For a drive model (emulator:): its sequential write rate.
Exit codes: 0 success, 1 failed, 2 invalid usage.";

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    args.workload.check().map_err(Failure::Request)?;
    let json = args.json;
    let report = measure(args)?;
    if json { print::json(&report) } else { print::text(&report.to_string()) }
}

fn measure(args: Args) -> Result<BenchReport, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::work)?.block_on(async {
        if args.shards == Some(0) {
            return Err(Failure::request("--shards must be at least 1"));
        }
        if args.format {
            refuse_foreign(&args.device)?;
        }
        let capacity = capacity_of(&args.device)?;
        let settings = node_settings(&args);
        let start = Instant::now();
        let (node, subject) = NodeSubject::start(&settings, capacity, args.workload.value).await?;
        let opened = start.elapsed();
        let progress = Progress::shown();
        let report = bench::run(Arc::new(subject), (args.workload, opened), progress).await;
        node.stop().await;
        report.map_err(|error| match error {
            BenchError::Unfit(why) => Failure::Request(why),
            BenchError::Failed(why) => Failure::Work(why),
        })
    })
}

/// Capacity of the device. Creates nothing.
fn capacity_of(device: &DeviceSpec) -> Result<Bytes, Failure> {
    let drive = Drive::open(device)?;
    let geometry = drive.geometry();
    Ok(Bytes(geometry.zone_capacity.bytes().0 * u64::from(geometry.zone_count)))
}

fn node_settings(args: &Args) -> NodeSettings {
    NodeSettings {
        devices: vec![DeviceSettings {
            spec: args.device.clone(),
            shards: args.shards,
            policy: args.policy.clone(),
            chunk: args.chunk,
            dram: args.dram,
            pinned_percent: 0,
            forgets_pins: false,
            buffers: BUFFER_BYTES,
            // Only requested data is measured.
            prefetch: Bytes(0),
            // Slow drives are measured, not isolated.
            patience: Nanos::secs(60),
            rejoin: zonal_host::PROBE_WINDOW,
        }],
        chunks: Arc::new(ChunkRules::all(None)),
        prefetches: 0,
        mode: if args.format { OpenMode::Format } else { OpenMode::Recover },
    }
}
