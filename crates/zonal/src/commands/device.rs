//! `zonal device info` and `zonal device format`: shows what a device holds, and formats it.

mod kernel;

use std::fmt::Write;
use std::sync::Arc;

use clap::Subcommand;
use serde::Serialize;
use zonal_base::{Bytes, RangeSpec};
use zonal_cli::{Contents, DeviceInspector, Failure, LogContents, confirm_data_loss, print};
use zonal_host::{
    Backend, BoxFuture, ChunkRules, DeviceSettings, Head, Node, NodeSettings, ObjectBody,
    ObjectName, OriginFault, OriginHead,
};
use zonal_hostdev::{DeviceSpec, EngineKind};
use zonal_zonelog::OpenMode;

use kernel::KernelInfo;

/// Inspect or format a device
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show properties and contents of a device; read-only
    #[command(after_help = "Example: zonal device info file:zonal-data/flash")]
    Info {
        /// Device: file:PATH?zone=64MiB, block:/dev/NAME?zone=64MiB, zns:/dev/NAME or
        /// emulator:MODEL?backing=PATH
        spec: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Format a device as an empty cache; all data on it is lost
    #[command(
        after_help = "Example: zonal device format 'block:/dev/nvme1n1?zone=64MiB' --shards 8"
    )]
    Format {
        /// Device: file:PATH?size=8GiB&zone=64MiB, block:/dev/NAME?zone=64MiB, zns:/dev/NAME or
        /// emulator:MODEL?backing=PATH
        spec: String,
        /// Number of shards (threads) of the device [without it: one for each core]
        #[arg(long)]
        shards: Option<u16>,
        /// Erase the device without asking [without it: asks at a terminal, and refuses elsewhere]
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Info { spec, json } => {
            let info = Info::of(&parse(spec)?)?;
            if *json { print::json(&info) } else { print::text(&info.to_text()) }
        }
        Action::Format { spec, shards, yes, json } => {
            let spec = parse(spec)?;
            if *shards == Some(0) {
                return Err(Failure::request("--shards must be at least 1"));
            }
            if spec.place.is_in_memory() {
                return Err(Failure::request(format!(
                    "{spec} is in memory, so formatting it has no lasting effect: add backing=PATH"
                )));
            }
            confirm_data_loss(&spec, *yes)?;
            format(&spec, shards.map(usize::from))?;
            let info = Info::of(&spec)?;
            if *json { print::json(&info) } else { print::text(&info.to_text()) }
        }
    }
}

pub(super) fn parse(spec: &str) -> Result<DeviceSpec, Failure> {
    spec.parse().map_err(Failure::request)
}

/// Output of `device info`.
#[derive(Debug, Serialize)]
struct Info {
    spec: String,
    zone_count: u32,
    zone_size_bytes: u64,
    zone_capacity_bytes: u64,
    writable_bytes: u64,
    /// Bytes behind the last whole zone; never used.
    idle_bytes: u64,
    /// `null`: no limit.
    max_open_zones: Option<u32>,
    max_active_zones: Option<u32>,
    engine: String,
    /// Whether I/O bypasses the page cache (`O_DIRECT`).
    direct: bool,
    /// The same, for people.
    #[serde(skip)]
    caching: &'static str,
    /// `nothing`, `nothing-seen` (too large to be read whole), `log`, `other-version` or `foreign`.
    holds: &'static str,
    /// The contents, for people.
    about: String,
    /// Problems of the device, each with a remedy.
    warnings: Vec<String>,
    /// Kernel view; `null` if the device is not a block device.
    kernel: Option<KernelInfo>,
    log: Option<LogContents>,
}

impl Info {
    fn of(spec: &DeviceSpec) -> Result<Self, Failure> {
        let survey = DeviceInspector::open(spec)?;
        let geometry = *survey.geometry();
        let access = survey.access()?;
        let Contents { holds, about, log } = Contents::of(&survey)?;
        let (drive, queue) = (survey.drive(), survey.drive().queue());
        let mut warnings: Vec<String> = survey.warning().into_iter().collect();
        if let Some(queue) = &queue {
            let path = drive.path().display().to_string();
            warnings.extend(kernel::warnings(queue, drive.census(), &path));
        }
        Ok(Self {
            spec: spec.to_string(),
            zone_count: geometry.zone_count,
            zone_size_bytes: geometry.zone_size.bytes().0,
            zone_capacity_bytes: geometry.zone_capacity.bytes().0,
            writable_bytes: geometry.writable().0,
            idle_bytes: survey.idle().0,
            max_open_zones: geometry.max_open_zones,
            max_active_zones: geometry.max_active_zones,
            engine: access.engine.to_string(),
            direct: access.is_direct,
            caching: match (access.engine, access.is_direct) {
                (EngineKind::Model, _) if spec.place.is_in_memory() => "its bytes in memory",
                (EngineKind::Model, _) => "its bytes in a file",
                (_, true) => "O_DIRECT",
                (_, false) => "through the page cache",
            },
            holds,
            about,
            warnings,
            kernel: queue.as_ref().map(|queue| KernelInfo::of(queue, drive.census())),
            log,
        })
    }

    fn to_text(&self) -> String {
        let limit = |limit: Option<u32>| limit.map_or("no limit".into(), |limit| limit.to_string());
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<14} {value}");
        };
        line("device", &self.spec);
        line("size", &print::human(Bytes(self.writable_bytes)));
        let capacity = Bytes(self.zone_capacity_bytes);
        line("zones", &format!("{} of {capacity}", self.zone_count));
        if self.zone_size_bytes != self.zone_capacity_bytes {
            line("zone size", &Bytes(self.zone_size_bytes).to_string());
        }
        if self.idle_bytes != 0 {
            let idle = print::human(Bytes(self.idle_bytes));
            line("idle", &format!("{idle} at the end, less than a zone"));
        }
        line("open zones", &limit(self.max_open_zones));
        line("active zones", &limit(self.max_active_zones));
        line("engine", &format!("{}, {}", self.engine, self.caching));
        for (name, value) in self.kernel.iter().flat_map(KernelInfo::lines) {
            line(name, &value);
        }
        line("holds", &self.about);
        if let Some(log) = &self.log {
            let zones: Vec<String> =
                log.zones.iter().map(|(state, count)| format!("{count} {state}")).collect();
            line("zones hold", &zones.join(", "));
        }
        for warning in &self.warnings {
            line("warning", warning);
        }
        text
    }
}

fn format(spec: &DeviceSpec, shards: Option<usize>) -> Result<(), Failure> {
    let device = DeviceSettings {
        spec: spec.clone(),
        shards,
        policy: zonal_policy::Spec::default(),
        chunk: Bytes::kib(256),
        dram: Bytes(0),
        pinned_percent: 0,
        forgets_pins: false,
        buffers: zonal_host::BUFFER_BYTES_MIN,
        prefetch: Bytes(0),
        patience: zonal_host::READ_TIMEOUT,
        rejoin: zonal_host::PROBE_WINDOW,
    };
    let settings = NodeSettings {
        devices: vec![device],
        chunks: Arc::new(ChunkRules::all(None)),
        prefetches: 0,
        mode: OpenMode::Format,
    };
    let runtime = super::runtime()?;
    runtime.block_on(async {
        let node = Node::start(&settings, Arc::new(NoOrigin), None).await?;
        node.stop().await;
        Ok(())
    })
}

/// Placeholder origin for formatting, which never fetches.
struct NoOrigin;

impl Backend for NoOrigin {
    fn head(&self, _: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        Box::pin(async { Err(OriginFault::Unreachable) })
    }

    fn get_object(
        &self,
        _: ObjectName,
        _: RangeSpec,
        _: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        Box::pin(async { Err(OriginFault::Unreachable) })
    }
}
