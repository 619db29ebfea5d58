//! Block writes without NBD: CPU time and bytes of the engine and its system calls, per write of
//! one block.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use serde_json::json;
use tokio::task::{JoinSet, LocalSet};
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, Payload, Rng};
use zonal_block::{
    BlockDevice, BlockSettings, BlockVolume, Durability, Export, ExportId, MEMORY, MapMemory,
    OpenMode,
};
use zonal_lab::bench::process_cpu;
use zonal_lab::{Permutation, Zipf};

/// Write single blocks to a block device of two files, without NBD
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where its two files are; what they hold is lost
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// What users see of it
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Bytes,
    /// Exponent of the Zipf distribution of the blocks
    #[arg(long, value_name = "N", default_value_t = 0.99)]
    theta: f64,
    /// Writes under way at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    tasks: u32,
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
}

/// Size of a write during the fill before the measurement.
const PIECE: Blocks = Blocks(256);

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if !(0.01..10.0).contains(&args.theta) || args.size < Bytes::mib(64) {
        return Err("write --theta 0.01 to 10, and --size 64MiB or more".into());
    }
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| text(&error))?;
    let report = LocalSet::new().block_on(&runtime, async {
        let block = BlockDevice::start(&settings(args)?).await.map_err(|error| text(&error))?;
        let report = write(args, &block).await.map_err(|error| text(&error));
        block.stop().await.map_err(|error| text(&error))?;
        report
    })?;
    println!("{report}");
    Ok(())
}

fn settings(args: &Args) -> Result<BlockSettings, String> {
    let device = |name: &str, size: u64| {
        let path = args.folder.join(name);
        let size = Bytes(size).0.div_ceil(ZONE.0) * ZONE.0;
        let spec = format!("file:{}?size={}&zone={ZONE}", path.display(), Bytes(size));
        spec.parse().map_err(|error| format!("{spec}: {error}"))
    };
    Ok(BlockSettings {
        capacity: device("capacity", args.size.0 * 2)?,
        buffer: Some(device("buffer", args.size.0 / 8)?),
        exports: vec![Export {
            name: "disk".into(),
            tenant: "disk".into(),
            blocks: Blocks(args.size.0 / BLOCK_BYTES as u64),
            is_verified: true,
        }],
        spare_percent: 10,
        memory: MEMORY,
        map_memory: MapMemory::Whole,
        mode: OpenMode::Format,
    })
}

/// Zone size of both files.
const ZONE: Bytes = Bytes::mib(16);

async fn write(args: &Args, block: &BlockDevice) -> Result<serde_json::Value, String> {
    let volume = Rc::new(block.volume(ExportId(0)));
    let blocks = volume.blocks().0;
    let failed = |error: zonal_block::BlockError| error.to_string();
    let piece = memory(PIECE);
    for first in (0..blocks / PIECE.0).map(|n| Lba(n * PIECE.0)) {
        volume.write(first, piece.clone(), Durability::Answered).await.map_err(failed)?;
    }
    let zipf = Rc::new((Zipf::new(blocks, args.theta), Permutation::new(blocks, 1)));
    let before = block.shaper().stats();
    let (cpu, begun) = (process_cpu(), Instant::now());
    let deadline = begun + Duration::from_secs_f64(args.seconds);
    let written = Rc::new(Cell::new(0_u64));
    let mut tasks = JoinSet::new();
    for task in 0..args.tasks {
        let writer =
            Writer { volume: volume.clone(), zipf: zipf.clone(), written: written.clone() };
        tasks.spawn_local(writer.run(Rng::new(u64::from(task) + 1), deadline));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    let (cpu, seconds) = (process_cpu() - cpu, begun.elapsed().as_secs_f64());
    let (after, count) = (block.shaper().stats(), written.get());
    let bytes = count as f64 * BLOCK_BYTES as f64;
    let devices = after.buffer_device_bytes + after.capacity_device_bytes
        - before.buffer_device_bytes
        - before.capacity_device_bytes;
    Ok(json!({
        "writes": count,
        "writes_per_s": count as f64 / seconds,
        "cpu_us_per_write": cpu.as_secs_f64() * 1e6 / count as f64,
        "device_bytes_per_byte": devices as f64 / bytes,
        "blocks_per_buffer_write": count as f64
            / (after.buffer_segments - before.buffer_segments).max(1) as f64,
    }))
}

/// A client of the block device.
struct Writer {
    volume: Rc<BlockVolume>,
    zipf: Rc<(Zipf, Permutation)>,
    written: Rc<Cell<u64>>,
}

impl Writer {
    async fn run(self, mut rng: Rng, deadline: Instant) -> Result<(), String> {
        let block = memory(Blocks(1));
        while Instant::now() < deadline {
            let (zipf, permutation) = &*self.zipf;
            let at = Lba(permutation.at(zipf.draw(&mut rng) - 1));
            let written = self.volume.write(at, block.clone(), Durability::Answered).await;
            written.map_err(|error| error.to_string())?;
            self.written.set(self.written.get() + 1);
        }
        Ok(())
    }
}

/// Block-aligned memory, as devices require it.
fn memory(blocks: Blocks) -> Payload {
    let bytes = zonal_base::index(blocks.bytes().0);
    let mut memory = BytesMut::zeroed(bytes + BLOCK_BYTES);
    memory.advance(memory.as_ptr().align_offset(BLOCK_BYTES));
    memory.truncate(bytes);
    for (n, block) in (0_u64..).zip(memory.chunks_mut(BLOCK_BYTES)) {
        (&mut block[..8]).put_u64_le(n + 1);
    }
    memory.freeze().into()
}
