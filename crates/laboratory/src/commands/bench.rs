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
/// What is on the device is used and added to; --format begins with an empty cache. A device that holds
/// anything but a cache is refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HOW)]
pub(crate) struct Args {
    /// The device: file:PATH?size=4GiB, block:/dev/NAME or emulator:zn540?zones=4
    #[arg(long, value_name = "SPEC")]
    device: DeviceSpec,
    /// Memory of each shard for chunks that wait before flash or are read often
    #[arg(long, value_name = "SIZE", default_value = "0")]
    dram: Bytes,
    /// Size of a chunk: what is fetched and admitted together
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    chunk: Bytes,
    /// What is kept: a policy, and its settings, as flow or zdrop?vop=50%. The default admits everything
    #[arg(long, value_name = "POLICY", default_value = "zone-lru", value_parser = on_device)]
    policy: zonal_policy::Spec,
    /// Threads [default: as the device was formatted, or one for each core]
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Begin with an empty cache: what the device holds is lost
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
For example, zipf keys that are twice what the device holds, then hits from flash alone:
  zonal-lab bench --device 'file:bench?size=4GiB' --format --chunk 64KiB --value 64KiB --keys 2x --dist zipf:0.99
  zonal-lab bench --device file:bench --chunk 64KiB --value 64KiB --mode hits --json

How it is measured:
  A get ends with its last byte. The first 16 bytes of each are checked, and every byte of one in 256.
  found_after_insert_ratio  with --mode insert: of all keys that were inserted, those that the cache has
                            when everything has settled; otherwise of the last keys that missed (at most
                            4096).
  cpu_us_per_flash_hit      user and system time of the whole process, kernel threads for io_uring and
                            the loops of this program included, over gets, in a phase of its own (at
                            most 3 s; with --mode hits all of the measured time) that reads only keys
                            that the cache has on flash, each as often. What the cache itself counted in
                            it is under flash_hits.by_record.
  ..._net                   without the CPU time of making values up, taken on the clock of the thread.
  kernel_..._bytes          /proc/self/io, beside the cache's own counts.
  device_written_bytes_since_open
                            the cache's own count of the whole run: beside what the device counts in the
                            same time it is the write amplification of what lies between.
  hits                      a value of several chunks is a hit when nothing of it is asked of the origin.
  --rate 80%                of 1 MiB writes, four at a time, with O_DIRECT, for two seconds, to a scratch
                            file of 512 MiB beside the device file, which is removed again; of a
                            model of a drive (emulator:) what the model takes, written in order.
Exit codes: 0 good, 1 the work failed, 2 the request was wrong.";

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
        let progress = Progress::on_terminal();
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
        mode: if args.format { OpenMode::Format } else { OpenMode::Recover },
    }
}
