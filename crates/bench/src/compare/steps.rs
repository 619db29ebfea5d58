//! Measurements without HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use zonal_base::Bytes;

use super::Stage;
use super::children::{ProgramFile, number};
use super::samples::{Goal, Row, Samples};

pub(super) const ZONAL: ProgramFile = ProgramFile::whole("zonal");
pub(super) const FOYER: ProgramFile = ProgramFile::whole("foyer");

/// Half the default size: filling a cache with values of 4 KiB takes long.
pub(super) const ZONAL_4K: ProgramFile = ProgramFile::sized("zonal-4k", Bytes::mib(2048));
pub(super) const FOYER_4K: ProgramFile = ProgramFile::sized("foyer-4k", Bytes::mib(2048));

pub(super) const MIB: f64 = 1048576.0;

/// Runs two measurements in turns; every other time the second one first.
pub(super) fn in_turns(
    pairs: u32,
    mut a: impl FnMut() -> Result<(), String>,
    mut b: impl FnMut() -> Result<(), String>,
) -> Result<(), String> {
    for pair in 0..pairs {
        match pair % 2 {
            0 => a().and_then(|()| b()),
            _ => b().and_then(|()| a()),
        }?;
    }
    Ok(())
}

impl Stage {
    /// Options of the fill before hits are measured repeatedly.
    pub(crate) fn fill_flags(flags: &str) -> String {
        format!("{flags} --mode hits --format --seconds 0.2 --segments 1 --warmup-seconds 0.2")
    }

    fn hit_flags(&self, flags: &str) -> String {
        let seconds = self.seconds;
        format!(
            "{flags} --mode hits --seconds {seconds} --segments 1 --warmup-seconds 0.5 \
             --prefill-seconds 0"
        )
    }
}

pub(crate) fn hits_64k(stage: &Stage) -> Result<Vec<Row>, String> {
    const OURS: &str = "--chunk 64KiB --value 64KiB --dist uniform --tasks 64";
    const THEIRS: &str = "--value 64KiB --dist uniform --tasks 64";
    let children = &stage.children;
    let filled = children.zonal(ZONAL, &Stage::fill_flags(OURS))?;
    children.foyer(FOYER, &Stage::fill_flags(THEIRS))?;
    let (ours, theirs) = (stage.hit_flags(OURS), stage.hit_flags(THEIRS));
    let fio_flags = format!("--bs=64k --iodepth=64 --ramp_time=0.5 --runtime={}", stage.seconds);
    let (mut mib, mut fio_mib, mut foyer_mib) = <(Samples, Samples, Samples)>::default();
    let (mut cpu, mut foyer_cpu) = <(Samples, Samples)>::default();
    let (mut p999, mut fio_p999) = <(Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || {
            let report = children.zonal(ZONAL, &ours)?;
            mib.push(number(&report, "/bytes_per_s")? / MIB);
            p999.push(number(&report, "/latency_us/flash_hit/p999")?);
            Ok(())
        },
        || {
            let report = children.fio("zonal", &fio_flags)?;
            fio_mib.push(number(&report, "/bw_bytes")? / MIB);
            fio_p999.push(number(&report, "/clat_ns/percentile/99.900000")? / 1e3);
            Ok(())
        },
    )?;
    // A separate alternation: with three measurements per round, each would have another neighbour.
    let mut beside_foyer = Samples::default();
    in_turns(
        stage.pairs,
        || {
            let report = children.zonal(ZONAL, &ours)?;
            beside_foyer.push(number(&report, "/bytes_per_s")? / MIB);
            cpu.push(number(&report, "/cpu_us_per_flash_hit")?);
            Ok(())
        },
        || {
            let report = children.foyer(FOYER, &theirs)?;
            foyer_mib.push(number(&report, "/bytes_per_s")? / MIB);
            foyer_cpu.push(number(&report, "/cpu_us_per_flash_hit")?);
            Ok(())
        },
    )?;
    let index = Samples { values: vec![number(&filled, "/index_bytes_per_chunk")?] };
    Ok(vec![
        Row::new("64 KiB flash hits, 64 tasks", "MiB/s", mib, Goal::RatioAtLeast(0.9))
            .beside("fio", fio_mib),
        Row::new("64 KiB flash hits, 64 tasks", "MiB/s", beside_foyer, Goal::None)
            .beside("foyer", foyer_mib),
        Row::new("p99.9 of these", "us", p999, Goal::None).beside("fio", fio_p999),
        Row::new("CPU per flash hit, 64 KiB", "us", cpu, Goal::RatioAtMost(0.5))
            .beside("foyer", foyer_cpu),
        Row::new("index memory per 64 KiB chunk, policy included", "B", index, Goal::AtMost(24.0))
            .said("foyer: 47 to 94, index alone"),
    ])
}

pub(crate) fn hits_4k(stage: &Stage) -> Result<Vec<Row>, String> {
    const OURS: &str = "--chunk 4KiB --value 4KiB --dist uniform --tasks 64";
    // foyer drops inserts that are faster than its writes: its cache fills at a lower rate.
    const THEIRS: &str = "--value 4KiB --dist uniform --tasks 64 --prefill-rate 100MiB";
    let children = &stage.children;
    children.zonal(ZONAL_4K, &Stage::fill_flags(OURS))?;
    children.foyer(FOYER_4K, &Stage::fill_flags(THEIRS))?;
    let (ours, theirs) = (stage.hit_flags(OURS), stage.hit_flags(THEIRS));
    let (mut cpu, mut foyer_cpu) = <(Samples, Samples)>::default();
    let (mut rate, mut foyer_rate) = <(Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || {
            let report = children.zonal(ZONAL_4K, &ours)?;
            cpu.push(number(&report, "/cpu_us_per_flash_hit")?);
            rate.push(number(&report, "/ops_per_s")?);
            Ok(())
        },
        || {
            let report = children.foyer(FOYER_4K, &theirs)?;
            foyer_cpu.push(number(&report, "/cpu_us_per_flash_hit")?);
            foyer_rate.push(number(&report, "/ops_per_s")?);
            Ok(())
        },
    )?;
    Ok(vec![
        Row::new("CPU per flash hit, 4 KiB", "us", cpu, Goal::RatioAtMost(0.5))
            .beside("foyer", foyer_cpu),
        Row::new("4 KiB hits, 64 tasks", "1/s", rate, Goal::None).beside("foyer", foyer_rate),
    ])
}

pub(crate) fn reclaim(stage: &Stage) -> Result<Vec<Row>, String> {
    let flags = format!(
        "--mode reclaim --format --chunk 64KiB --value 64KiB --rate 200MiB --seconds {} \
         --warmup-seconds 1",
        stage.seconds
    );
    let (mut with, mut without) = <(Samples, Samples)>::default();
    // Each run measures both halves; the fill between them takes most of the time.
    for _ in 0..stage.pairs {
        let report = stage.children.zonal(ZONAL, &flags)?;
        with.push(number(&report, "/latency_us/flash_hit/p999")?);
        without.push(number(&report, "/detail/reclaim/without/latency_us/flash_hit/p999")?);
    }
    let name = "p99.9 of 64 KiB flash hits beside 200 MiB/s of inserts, while reclaim runs";
    Ok(vec![Row::new(name, "us", with, Goal::RatioAtMost(2.0)).beside("without reclaim", without)])
}

pub(crate) fn range(stage: &Stage) -> Result<Vec<Row>, String> {
    const OURS: &str = "--chunk 256KiB --value 256KiB --range 4KiB --keys 4000 --dist uniform";
    let children = &stage.children;
    children.zonal(ZONAL, &Stage::fill_flags(OURS))?;
    let (mut own, mut kernel) = <(Samples, Samples)>::default();
    for _ in 0..stage.pairs {
        let report = children.zonal(ZONAL, &stage.hit_flags(OURS))?;
        let gets = number(&report, "/gets")?;
        own.push(number(&report, "/device_read_bytes")? / gets / 1024.0);
        kernel.push(number(&report, "/kernel_read_bytes")? / gets / 1024.0);
    }
    let name = "device bytes read per 4 KiB range hit in a 256 KiB chunk";
    Ok(vec![
        Row::new(name, "KiB", kernel, Goal::AtMost(32.0)).said("whole chunk: 256"),
        Row::new("the same by our own count", "KiB", own, Goal::None),
    ])
}

/// Last output of a churn, and the largest size of its file.
struct Churned {
    live: f64,
    inserted: f64,
    evicted: f64,
    taken: u64,
}

/// Time from the first line to the kill: this much of the stream is written.
const STREAM: Duration = Duration::from_millis(1500);

pub(crate) fn kill(stage: &Stage) -> Result<Vec<Row>, String> {
    const KEYS: &str = "--chunk 64KiB --value 64KiB --dist uniform";
    let children = &stage.children;
    let (mut kept, mut reopen, mut taken) = <(Samples, Samples, Samples)>::default();
    for round in 0..stage.pairs {
        let flags = format!("{KEYS} --mode churn --format --rate 100MiB --seconds 600");
        let child = children.zonal_command(ZONAL, &flags).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| error.to_string())?;
        let churned = churn_and_kill(child, stage, Duration::from_millis(u64::from(round) * 37))?;
        let expected = churned.live + churned.inserted - churned.evicted;
        let flags = format!("{KEYS} --mode count --inserted {}", churned.inserted);
        let report = children.zonal(ZONAL, &flags)?;
        let found = number(&report, "/detail/count/filled_found")?
            + number(&report, "/detail/count/inserted_found")?;
        kept.push(found / expected * 100.0);
        reopen.push(number(&report, "/open_seconds")?);
        for _ in 0..3 {
            let report = children.zonal(ZONAL, &format!("{KEYS} --mode count --keys 1"))?;
            reopen.push(number(&report, "/open_seconds")?);
        }
        taken.push(churned.taken as f64 / children.size().0 as f64 * 100.0);
    }
    Ok(vec![
        Row::new("chunks kept after kill -9", "%", kept, Goal::AtLeast(99.5)).said("foyer: 98.5"),
        Row::new("reopening 4 GiB of 64 KiB chunks", "s", reopen, Goal::AtMost(0.5)),
        Row::new(
            "disk space taken, in-flight included",
            "% of the configured size",
            taken,
            Goal::AtMost(100.0),
        )
        .said("nginx overran by 80 %"),
    ])
}

fn churn_and_kill(mut child: Child, stage: &Stage, extra: Duration) -> Result<Churned, String> {
    let stdout = child.stdout.take().ok_or("the child has no output")?;
    let mut churned = Churned { live: 0.0, inserted: 0.0, evicted: 0.0, taken: 0 };
    let mut first = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| error.to_string())?;
        let report: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        churned.live = number(&report, "/live")?;
        churned.inserted = number(&report, "/inserted")?;
        churned.evicted = number(&report, "/evicted")?;
        churned.taken = churned.taken.max(stage.children.taken());
        if STREAM + extra < first.get_or_insert_with(Instant::now).elapsed() {
            child.kill().map_err(|error| error.to_string())?;
            break;
        }
    }
    child.wait().map_err(|error| error.to_string())?;
    match first {
        Some(_) => Ok(churned),
        None => Err("the churn ended before it began".into()),
    }
}

pub(crate) fn idle(stage: &Stage) -> Result<Vec<Row>, String> {
    let children = &stage.children;
    children.zonal(ZONAL, "--mode insert --format --rate 200MiB --keys 2000")?;
    children.foyer(FOYER, "--mode insert --format --rate 200MiB --keys 2000")?;
    let (mut ours, mut theirs) = <(Samples, Samples)>::default();
    let flags = "--mode idle --seconds 5 --warmup-seconds 1";
    in_turns(
        stage.pairs,
        || {
            let report = children.zonal(ZONAL, flags)?;
            ours.push(number(&report, "/detail/idle/cpu_share")? * 100.0);
            Ok(())
        },
        || {
            let report = children.foyer(FOYER, flags)?;
            theirs.push(number(&report, "/detail/idle/cpu_share")? * 100.0);
            Ok(())
        },
    )?;
    Ok(vec![
        Row::new("idle CPU", "% of a core", ours, Goal::AtMost(0.1))
            .beside("foyer, psync (its io_uring: a core)", theirs),
    ])
}
