//! `zonal block format`: formats devices as an empty block device; their contents are lost.

use serde::Serialize;
use tokio::task::LocalSet;
use zonal_block::{BlockDevice, BlockSettings, Export, OpenMode};
use zonal_cli::{Failure, confirm_data_loss, print};

use crate::config::{BlockConfig, BlockFlags, Devices};

/// Format devices as an empty block device; all data on them is lost
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: zonal block format --capacity block:/dev/nvme1n1 --buffer block:/dev/nvme0n1 --export vm=500GiB --yes")]
pub(super) struct Args {
    // Declared before the flags: otherwise clap lists them under their last help heading.
    /// Erase the devices without asking [without it: asks at a terminal, and refuses elsewhere]
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: BlockFlags,
}

/// JSON output: the created exports.
#[derive(Debug, Serialize)]
struct Formatted {
    exports: Vec<Made>,
}

#[derive(Debug, Serialize)]
struct Made {
    name: String,
    tenant: String,
    size_bytes: u64,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = BlockConfig::load(&args.flags).map_err(Failure::request)?;
    crate::logging::start(&config.log);
    let (buffer, capacity) = match config.devices {
        Devices::Own => {
            return Err(Failure::request("name the devices with --capacity and --buffer"));
        }
        Devices::One(capacity) => (None, capacity),
        Devices::Two { buffer, capacity } => (Some(buffer), capacity),
    };
    for spec in buffer.iter().chain([&capacity]) {
        if spec.place.is_in_memory() {
            return Err(Failure::request(format!(
                "{spec} is in memory, so formatting it has no lasting effect: add backing=PATH"
            )));
        }
        confirm_data_loss(spec, args.yes)?;
    }
    let settings = BlockSettings {
        capacity,
        buffer,
        exports: config.exports,
        spare_percent: config.spare_percent,
        map_memory: config.map_memory,
        memory: config.memory,
        mode: OpenMode::Format,
    };
    let runtime = crate::commands::runtime()?;
    let exports = LocalSet::new().block_on(&runtime, async {
        let block = BlockDevice::start(&settings).await.map_err(super::failed_start)?;
        let exports = block.shaper().exports().to_vec();
        block.stop().await.map_err(Failure::work)?;
        Ok::<_, Failure>(exports)
    })?;
    if args.json {
        let made = |Export { name, tenant, blocks, .. }| Made {
            name,
            tenant,
            size_bytes: blocks.bytes().0,
        };
        return print::json(&Formatted { exports: exports.into_iter().map(made).collect() });
    }
    for export in exports {
        let size = export.blocks.bytes();
        print::text(&format!("{}  {size}  of tenant {}\n", export.name, export.tenant))?;
    }
    Ok(())
}
