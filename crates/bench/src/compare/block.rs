//! Block-device measurements: fio over NBD against `zonal block` on two files, alternating with
//! nbdkit on memory and on a file, qemu-nbd on a file, and fio on a file directly. Also writes
//! without NBD.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use zonal_base::Bytes;

use super::Stage;
use super::children::{cpu_seconds, number, written_bytes};
use super::samples::{Goal, Row, Samples};
use super::steps::{MIB, in_turns};

/// Size of the export.
const EXPORT: Bytes = Bytes::mib(1024);

/// Sizes of the two files: 1.5 times the export, and an eighth of it.
const CAPACITY: Bytes = Bytes::mib(1536);
const BUFFER: Bytes = Bytes::mib(128);

/// Longest wait for the start of a server.
const START: Duration = Duration::from_secs(30);

/// fio options of the random workloads, over NBD and on a file.
const RANDOM: &str = "--bs=4k --iodepth=64 --norandommap --time_based --ramp_time=0.5";

/// Name of the reference in memory.
const MEMORY: &str = "nbdkit memory";
const FILE: &str = "nbdkit file";
const DIRECT: &str = "qemu-nbd";
const DISK: &str = "fio, large writes to a file";
const LOWER: &str = "the lower of nbdkit memory and of the median of what the disk takes, below";

/// A server with one export, killed on drop.
struct Serving {
    child: Child,
    uri: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Fails if the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Results of fio, with the cost of the server.
struct FioRun {
    mib: f64,
    cpu_us: f64,
    /// Bytes that the server wrote to files per byte of the client.
    to_files: f64,
}

pub(crate) fn writes(stage: &Stage) -> Result<Vec<Row>, String> {
    let (zonal, memory) = (Serving::zonal(stage)?, Serving::memory(stage)?);
    let (file, direct) = (Serving::file(stage)?, Serving::direct(stage)?);
    for server in [&zonal, &memory, &file, &direct] {
        fill(stage, server)?;
    }
    // Measured separately from the rest: a virtual disk accepts more for a while after it was idle.
    let (mut given, mut disk) = <(Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || {
            let asked = fio(stage, &zonal, "randwrite", "")?;
            given.push(asked.mib * asked.to_files);
            Ok(())
        },
        || file_bandwidth(stage).map(|mib| disk.push(mib)),
    )?;
    let (mut ours, mut lower) = <(Samples, Samples)>::default();
    let (mut cpu, mut memory_cpu, mut to_files) = <(Samples, Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || {
            let asked = fio(stage, &zonal, "randwrite", "")?;
            ours.push(asked.mib);
            cpu.push(asked.cpu_us);
            to_files.push(asked.to_files);
            Ok(())
        },
        || {
            let asked = fio(stage, &memory, "randwrite", "")?;
            memory_cpu.push(asked.cpu_us);
            lower.push(asked.mib.min(disk.median()));
            Ok(())
        },
    )?;
    let (mut beside_direct, mut of_direct) = <(Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || fio(stage, &zonal, "randwrite", "").map(|asked| beside_direct.push(asked.mib)),
        || fio(stage, &direct, "randwrite", "").map(|asked| of_direct.push(asked.mib)),
    )?;
    let (mut flushed, mut file_flushed) = <(Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || fio(stage, &zonal, "randwrite", "--fsync=64").map(|asked| flushed.push(asked.mib)),
        || fio(stage, &file, "randwrite", "--fsync=64").map(|asked| file_flushed.push(asked.mib)),
    )?;
    Ok(vec![
        Row::new(
            "4 KiB random writes over NBD, 64 at once",
            "MiB/s",
            ours,
            Goal::RatioAtLeast(0.9),
        )
        .beside(LOWER, lower),
        Row::new("CPU of the server for each of them", "us", cpu, Goal::None)
            .beside(MEMORY, memory_cpu),
        Row::new("bytes to both files for each byte of them", "", to_files, Goal::None),
        Row::new("bytes to both files beside the disk's own rate", "MiB/s", given, Goal::None)
            .beside(DISK, disk),
        Row::new("the same beside a file past the page cache", "MiB/s", beside_direct, Goal::None)
            .beside(DIRECT, of_direct),
        Row::new("the same with a flush after every 64", "MiB/s", flushed, Goal::None)
            .beside(FILE, file_flushed),
    ])
}

pub(crate) fn reads(stage: &Stage) -> Result<Vec<Row>, String> {
    let (zonal, memory) = (Serving::zonal(stage)?, Serving::memory(stage)?);
    let (file, direct) = (Serving::file(stage)?, Serving::direct(stage)?);
    for server in [&zonal, &memory, &file, &direct] {
        fill(stage, server)?;
    }
    let (mut ours, mut of_fio, mut cpu) = <(Samples, Samples, Samples)>::default();
    let flags = format!("--bs=4k --iodepth=64 --ramp_time=0.5 --runtime={}", stage.seconds);
    in_turns(
        stage.pairs,
        || {
            let asked = fio(stage, &zonal, "randread", "")?;
            ours.push(asked.mib);
            cpu.push(asked.cpu_us);
            Ok(())
        },
        || {
            // Same size, and fully written: blocks that were never written are read without the
            // disk.
            let report = stage.children.fio("direct", &flags)?;
            of_fio.push(number(&report, "/bw_bytes")? / MIB);
            Ok(())
        },
    )?;
    let beside = |other: &Serving| {
        let (mut ours, mut theirs) = <(Samples, Samples)>::default();
        in_turns(
            stage.pairs,
            || fio(stage, &zonal, "randread", "").map(|asked| ours.push(asked.mib)),
            || fio(stage, other, "randread", "").map(|asked| theirs.push(asked.mib)),
        )?;
        Ok::<_, String>((ours, theirs))
    };
    let ((beside_memory, of_memory), (beside_file, of_file)) = (beside(&memory)?, beside(&file)?);
    let (beside_direct, of_direct) = beside(&direct)?;
    Ok(vec![
        Row::new("4 KiB random reads over NBD, 64 at once", "MiB/s", ours, Goal::RatioAtLeast(0.8))
            .beside("fio on the file", of_fio),
        Row::new("CPU of the server for each of them", "us", cpu, Goal::None),
        Row::new("the same beside memory", "MiB/s", beside_memory, Goal::None)
            .beside(MEMORY, of_memory),
        Row::new("the same beside a file in the page cache", "MiB/s", beside_file, Goal::None)
            .beside(FILE, of_file),
        Row::new("the same beside a file past the page cache", "MiB/s", beside_direct, Goal::None)
            .beside(DIRECT, of_direct),
    ])
}

/// The engine without NBD.
pub(crate) fn cpu(stage: &Stage) -> Result<Vec<Row>, String> {
    let (mut cpu, mut bytes, mut shared) = <(Samples, Samples, Samples)>::default();
    for _ in 0..stage.pairs {
        let report = stage.children.block_writes(&format!("--seconds {}", stage.seconds))?;
        cpu.push(number(&report, "/cpu_us_per_write")?);
        bytes.push(number(&report, "/device_bytes_per_byte")?);
        shared.push(number(&report, "/blocks_per_buffer_write")?);
    }
    Ok(vec![
        Row::new(
            "CPU per 4 KiB write without NBD, zipf 0.99, 64 at once",
            "us",
            cpu,
            Goal::AtMost(5.0),
        )
        .said("SPDK FTL: 4.2, on a core of its own that polls"),
        Row::new("bytes to both files for each byte of these", "", bytes, Goal::None),
        Row::new("of these, in one write to the buffer", "blocks", shared, Goal::None),
    ])
}

impl Serving {
    /// `zonal block` on two new files.
    fn zonal(stage: &Stage) -> Result<Self, String> {
        let path = |name: &str| stage.children.path(name);
        for name in ["capacity", "buffer"] {
            // The files do not exist before the first run.
            let _ = std::fs::remove_file(path(name));
        }
        let (socket, mut command) = (socket(stage, "zonal"), stage.children.serve_command());
        command.args(["block", "--admin", "127.0.0.1:0", "--log-level", "warn", "--capacity"]);
        command.arg(format!("file:{}?size={CAPACITY}&zone=16MiB", path("capacity").display()));
        command.arg("--buffer");
        command.arg(format!("file:{}?size={BUFFER}&zone=8MiB", path("buffer").display()));
        command.args(["--export", &format!("disk={EXPORT}"), "--socket"]).arg(&socket);
        Self::start(stage, command, &socket, "disk")
    }

    /// Upper bound for NBD on this machine.
    fn memory(stage: &Stage) -> Result<Self, String> {
        Self::nbdkit(stage, "memory", &["memory".into(), EXPORT.0.to_string()])
    }

    /// A file, through the page cache.
    fn file(stage: &Stage) -> Result<Self, String> {
        let name = format!("file={}", holes(stage, "plain")?.display());
        Self::nbdkit(stage, "file", &["file".into(), name, "fadvise=random".into()])
    }

    /// A file as Zonal uses it: with direct I/O, by io_uring.
    fn direct(stage: &Stage) -> Result<Self, String> {
        let (path, socket) = (holes(stage, "direct")?, socket(stage, "direct"));
        let mut command = Command::new("qemu-nbd");
        command.args(["--format=raw", "--cache=none", "--aio=io_uring", "--persistent"]);
        command.args(["--export-name=disk", "--socket"]).arg(&socket).arg(path);
        Self::start(stage, command, &socket, "disk")
    }

    fn nbdkit(stage: &Stage, name: &str, words: &[String]) -> Result<Self, String> {
        let socket = socket(stage, name);
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--unix"]).arg(&socket).args(words);
        Self::start(stage, command, &socket, "")
    }

    fn start(
        stage: &Stage,
        mut command: Command,
        socket: &Path,
        export: &str,
    ) -> Result<Self, String> {
        // Socket left by a killed server.
        let _ = std::fs::remove_file(socket);
        stage.children.note(&command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
        let mut serving = Self { child, uri };
        let begun = Instant::now();
        while !socket.exists() {
            if START < begun.elapsed() || !matches!(serving.child.try_wait(), Ok(None)) {
                return Err(format!("{name} did not come up"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(serving)
    }
}

/// A sparse file of the export's size.
fn holes(stage: &Stage, name: &str) -> Result<PathBuf, String> {
    let path = stage.children.path(name);
    let file = std::fs::File::create(&path).and_then(|file| file.set_len(EXPORT.0));
    file.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn socket(stage: &Stage, name: &str) -> PathBuf {
    stage.children.path(&format!("{name}.sock"))
}

/// Writes every block once.
fn fill(stage: &Stage, server: &Serving) -> Result<(), String> {
    let mut command = client(server, "--rw=write --bs=1m --iodepth=4 --end_fsync=1");
    stage.children.note(&command);
    super::children::json_of(&mut command).map(drop)
}

fn client(server: &Serving, flags: &str) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=a", "--ioengine=nbd", "--output-format=json"]);
    command.arg(format!("--uri={}", server.uri)).arg(format!("--size={}", EXPORT.0));
    command.args(flags.split_whitespace());
    command
}

fn fio(stage: &Stage, server: &Serving, pattern: &str, more: &str) -> Result<FioRun, String> {
    let flags = format!("--rw={pattern} {RANDOM} --runtime={} {more}", stage.seconds);
    let mut command = client(server, &flags);
    stage.children.note(&command);
    let (before, written_before) = (cpu_seconds(&server.child)?, written_bytes(&server.child)?);
    let report = super::children::json_of(&mut command)?;
    let spent = cpu_seconds(&server.child)? - before;
    let written = written_bytes(&server.child)? - written_before;
    let job = report.pointer("/jobs/0").cloned().unwrap_or_default();
    let direction = pattern.trim_start_matches("rand");
    let of = |name: &str| number(&job, &format!("/{direction}/{name}"));
    let mib = of("bw_bytes")? / MIB;
    // CPU time counts from the start of the ramp, requests only after it.
    let share = of("runtime")? / 1e3 / (of("runtime")? / 1e3 + RAMP_SECONDS);
    let (cpu_us, to_files) =
        (spent * share * 1e6 / of("total_ios")?, written * share / of("io_bytes")?);
    Ok(FioRun { mib, cpu_us, to_files })
}

/// Ramp time in [`RANDOM`].
const RAMP_SECONDS: f64 = 0.5;

/// Write bandwidth of the file system in MiB/s: large writes with direct I/O.
fn file_bandwidth(stage: &Stage) -> Result<f64, String> {
    let mut command = Command::new("fio");
    let path = stage.children.path("bandwidth");
    command.arg("--name=a").arg(format!("--filename={}", path.display()));
    command.args(["--rw=write", "--bs=1m", "--iodepth=8", "--direct=1", "--ioengine=io_uring"]);
    command.args(["--size=512m", "--time_based", "--output-format=json"]);
    command.arg(format!("--runtime={}", stage.seconds));
    stage.children.note(&command);
    let report: Value = super::children::json_of(&mut command)?;
    Ok(number(&report, "/jobs/0/write/bw_bytes")? / MIB)
}
