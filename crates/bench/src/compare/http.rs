//! HTTP measurements: wrk reads presigned URLs from `zonal serve` over a folder of objects,
//! alternating with nginx, which gets requests without signatures.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use zonal_base::Bytes;
use zonal_lab::Generator;
use zonal_lab::bench::machine_idle;
use zonal_s3::sigv4::{Credentials, Signer, Timestamp};

use super::Stage;
use super::children::{ProgramFile, cpu_seconds, number};
use super::nginx::{self, Nginx};
use super::samples::{Goal, Row, Samples};
use super::scan::Scan;
use super::steps::in_turns;

const ACCESS_KEY: &str = "bench";
const SECRET_KEY: &str = "bench-secret-key";
pub(super) const BUCKET: &str = "objects";
const REGION: &str = "us-east-1";

/// Size and number of objects: 512 MiB of each size, so that reads spread over the device.
const OBJECTS: [(u64, u64); 2] = [(64 << 10, 8192), (1 << 20, 512)];

/// Lifetime of a URL in seconds: longer than the whole run.
const EXPIRES: u32 = 24 * 3600;

/// Connections and threads of wrk.
const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;

/// Connections of the reader beside a scan: few, so that the cores have room for both.
const CONNECTIONS_BESIDE: u32 = 4;

/// Goal: 35 us per GET where nginx takes 22 us. A ratio, because processors and their load differ.
const CPU_BESIDE_NGINX: f64 = 35.0 / 22.0;

/// Longest wait for the start of a server.
const START: Duration = Duration::from_secs(30);

/// Script of wrk: each thread requests all URLs in turn, from a different start. The last line is
/// JSON.
const SCRIPT: &str = r#"
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end
function init(args)
  paths = {}
  for line in io.lines(args[1]) do paths[#paths + 1] = line end
  at = math.floor(#paths * number / tonumber(args[2]))
end
function request()
  at = at % #paths + 1
  return wrk.format("GET", paths[at])
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"us":%d,"bytes":%d,"failed":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"#;

/// Size of the served device.
const SIZE: Bytes = Bytes::mib(2048);

const DEVICE: ProgramFile = ProgramFile::sized("http", SIZE);

/// Device of the server with the default policy.
const SHIPPED: ProgramFile = ProgramFile::sized("http-shipped", SIZE);

/// A server for wrk, killed on drop.
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
    /// Prefix of the files with the paths for wrk.
    urls: &'static str,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(stage: &Stage) -> Result<Vec<Row>, String> {
    let text = |error: std::io::Error| error.to_string();
    let bucket = stage.children.path("origin").join(BUCKET);
    std::fs::create_dir_all(&bucket).map_err(text)?;
    std::fs::write(stage.children.path("urls.lua"), SCRIPT).map_err(text)?;
    // Every part of the device is written once, so that fio reads written data, not just allocated
    // space. Then the objects replace it.
    stage.children.zonal(DEVICE, &Stage::fill_flags("--chunk 256KiB --value 256KiB"))?;
    // Warm objects must come from flash, not from memory.
    let server = serve(stage, DEVICE, &["--policy", "zone-lru", "--dram", "0"])?;
    let nginx = Nginx::start(stage)?;
    let signer = signer()?;
    for (size, count) in OBJECTS {
        write_objects(&bucket, size, count).map_err(text)?;
        let paths = (0..count).map(|number| format!("/{BUCKET}/{size}-{number}"));
        let signed = paths.clone().map(|path| presigned(&signer, &server.address, &path));
        write_paths(stage, &server, size, signed)?;
        write_paths(stage, nginx.server(), size, paths.map(Ok))?;
        for server in [&server, nginx.server()] {
            warm(stage, server, size, count)?;
        }
    }
    let mut rows = small(stage, &server, nginx.server())?;
    rows.extend(large(stage, &server, nginx.server())?);
    drop((server, nginx));
    rows.extend(beside_a_scan(stage, &signer)?);
    Ok(rows)
}

/// Objects of 64 KiB: CPU time per GET.
fn small(stage: &Stage, server: &Server, nginx: &Server) -> Result<Vec<Row>, String> {
    let (size, _) = OBJECTS[0];
    let (mut rate, mut p99) = <(Samples, Samples)>::default();
    let cpu = sampled(
        stage,
        || {
            let asked = wrk(stage, server, size, CONNECTIONS)?;
            rate.push(asked.rate);
            p99.push(asked.p99_us);
            Ok(asked.cpu_us)
        },
        || Ok(wrk(stage, nginx, size, CONNECTIONS)?.cpu_us),
    )?;
    let name = "CPU per warm 64 KiB GET over HTTP, presigned, from flash";
    Ok(vec![
        Row::new(name, "us", cpu.0, Goal::RatioAtMost(CPU_BESIDE_NGINX)).beside(nginx::NAME, cpu.1),
        Row::new("warm 64 KiB GETs", "1/s", rate, Goal::None),
        Row::new("p99 of these", "us", p99, Goal::None),
    ])
}

/// Objects of 1 MiB: CPU time per GET, and the share of the device bandwidth that reaches the
/// client.
fn large(stage: &Stage, server: &Server, nginx: &Server) -> Result<Vec<Row>, String> {
    let (size, _) = OBJECTS[1];
    let flags =
        format!("--bs=1m --iodepth={CONNECTIONS} --ramp_time=0.5 --runtime={}", stage.seconds);
    let (mut cores, mut idle) = <(Samples, Samples)>::default();
    let (mib, fio_mib) = sampled(
        stage,
        || {
            let idle_before = machine_idle();
            let asked = wrk(stage, server, size, CONNECTIONS)?;
            cores.push(asked.cpu_us * asked.rate / 1e6);
            idle.push((machine_idle() - idle_before).as_secs_f64() / asked.seconds);
            Ok(asked.rate * (size as f64 / 1048576.0))
        },
        || Ok(number(&stage.children.fio("http", &flags)?, "/bw_bytes")? / 1048576.0),
    )?;
    let per_gib = |asked: &WrkRun| asked.cpu_us / 1e6 * 1024.0;
    let cpu = sampled(
        stage,
        || wrk(stage, server, size, CONNECTIONS).map(|asked| per_gib(&asked)),
        || wrk(stage, nginx, size, CONNECTIONS).map(|asked| per_gib(&asked)),
    )?;
    Ok(vec![
        Row::new("warm 1 MiB GETs over HTTP, presigned", "MiB/s", mib, Goal::RatioAtLeast(0.7))
            .beside("fio", fio_mib),
        Row::new("CPU per GiB of these", "s", cpu.0, Goal::RatioAtMost(1.0))
            .beside(nginx::NAME, cpu.1),
        Row::new("cores that the server took for them", "", cores, Goal::None),
        Row::new("cores of the machine that were idle meanwhile", "", idle, Goal::None),
    ])
}

/// Latency of a reader of warm objects beside a scan of uncached objects, under the default policy.
/// nginx with the same clients and cores is the reference.
fn beside_a_scan(stage: &Stage, signer: &Signer) -> Result<Vec<Row>, String> {
    let server = serve(stage, SHIPPED, &[])?;
    let signed = |path: &str| presigned(signer, &server.address, path);
    let (beside, alone) = p99_beside_a_scan(stage, &server, signed)?;
    let name = "p99 of warm 64 KiB GETs by 4 connections beside a cold scan";
    let ours = Row::new(name, "us", beside, Goal::RatioAtMost(1.5)).beside(ALONE, alone);
    drop(server);
    let nginx = Nginx::start(stage)?;
    let (beside, alone) = p99_beside_a_scan(stage, nginx.server(), |path| Ok(path.to_owned()))?;
    let name = "the same p99 of nginx slice beside the same scan";
    Ok(vec![ours, Row::new(name, "us", beside, Goal::None).beside(ALONE, alone)])
}

/// Label of a reader without a scan.
const ALONE: &str = "without the scan";

/// p99 of a reader of warm objects, with and without a scan. `asked` turns a path into a request
/// target.
fn p99_beside_a_scan(
    stage: &Stage,
    server: &Server,
    asked: impl Fn(&str) -> Result<String, String>,
) -> Result<(Samples, Samples), String> {
    let (size, count) = OBJECTS[0];
    let paths = (0..count).map(|number| asked(&format!("/{BUCKET}/{size}-{number}")));
    write_paths(stage, server, size, paths)?;
    // The second read admits an object to flash.
    warm(stage, server, size, 2 * count)?;
    let scan = Scan::new(stage, &server.address, &asked)?;
    let p99 = || Ok(wrk(stage, server, size, CONNECTIONS_BESIDE)?.p99_us);
    sampled(stage, || scan.during(p99), p99)
}

/// Two alternating measurements.
fn sampled(
    stage: &Stage,
    mut ours: impl FnMut() -> Result<f64, String>,
    mut theirs: impl FnMut() -> Result<f64, String>,
) -> Result<(Samples, Samples), String> {
    let (mut a, mut b) = <(Samples, Samples)>::default();
    let (ours, theirs) =
        (|| ours().map(|value| a.push(value)), || theirs().map(|value| b.push(value)));
    in_turns(stage.pairs, ours, theirs)?;
    Ok((a, b))
}

fn serve(stage: &Stage, place: ProgramFile, flags: &[&str]) -> Result<Server, String> {
    let address = free_address()?;
    let admin = free_address()?;
    let path = |name: &str| stage.children.path(name).display().to_string();
    let mut command: Command = stage.children.serve_command();
    command.arg("serve").args(["--device", &format!("file:{}?size={SIZE}", path(place.name))]);
    command.args(["--origin", &format!("file:{}", path("origin"))]);
    command.args([
        "--listen",
        &address,
        "--admin",
        &admin,
        "--data-dir",
        &path(&format!("{}-data", place.name)),
    ]);
    command.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
    command.args(flags);
    command.args(["--freshness", "immutable"]).stdout(Stdio::null()).stderr(Stdio::null());
    stage.children.note(&command);
    Server::spawn(&mut command, address, "zonal")
}

impl Server {
    /// Starts the server, and waits until it listens.
    pub(super) fn spawn(
        command: &mut Command,
        address: String,
        urls: &'static str,
    ) -> Result<Self, String> {
        let child = command.spawn().map_err(|error| format!("{urls}: {error}"))?;
        let mut server = Self { child, address, urls };
        let start = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if START < start.elapsed() || !matches!(server.child.try_wait(), Ok(None)) {
                return Err(format!("{urls} did not come up"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// An address with a port that was free a moment ago.
pub(super) fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.to_string()).map_err(|error| error.to_string())
}

fn signer() -> Result<Signer, String> {
    let credentials = Credentials {
        access_key: ACCESS_KEY.into(),
        secret_key: SECRET_KEY.into(),
        session_token: None,
    };
    Signer::new(credentials, REGION.into()).map_err(|error| error.to_string())
}

fn write_objects(bucket: &Path, size: u64, count: u64) -> std::io::Result<()> {
    let generator = Generator::default();
    (0..count).try_for_each(|number| {
        std::fs::write(bucket.join(format!("{size}-{number}")), generator.make(number, 0..size))
    })
}

/// A path with the query of a presigned URL.
fn presigned(signer: &Signer, address: &str, path: &str) -> Result<String, String> {
    let now = Timestamp::from_system_time(SystemTime::now());
    let server = format!("http://{address}");
    let url = format!("{server}{path}").parse().map_err(|_| "not a URL")?;
    let signed = signer.presign(now, &http::Method::GET, &url, EXPIRES);
    Ok(signed.strip_prefix(&server).unwrap_or(&signed).to_owned())
}

/// Writes the paths for wrk, one per line.
fn write_paths(
    stage: &Stage,
    server: &Server,
    size: u64,
    paths: impl Iterator<Item = Result<String, String>>,
) -> Result<(), String> {
    let lines = paths.map(|path| Ok(path? + "\n")).collect::<Result<String, String>>()?;
    std::fs::write(server.paths(stage, size), lines).map_err(|error| error.to_string())
}

impl Server {
    fn paths(&self, stage: &Stage, size: u64) -> PathBuf {
        stage.children.path(&format!("{}-{size}", self.urls))
    }
}

/// Reads until every object has been read at least once, then waits a second for writes to flash.
fn warm(stage: &Stage, server: &Server, size: u64, count: u64) -> Result<(), String> {
    let mut read = 0.0;
    // Each thread begins elsewhere: half a round of each thread might be enough, two rounds are
    // safe.
    while read < 2.0 * count as f64 {
        let asked = wrk(stage, server, size, CONNECTIONS)?;
        read += asked.rate * asked.seconds;
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Results of a run of wrk.
struct WrkRun {
    seconds: f64,
    /// Responses per second.
    rate: f64,
    p99_us: f64,
    /// CPU time of the server per response, in microseconds.
    cpu_us: f64,
}

/// Runs wrk and parses the output of its script. Every response must be good.
fn wrk(stage: &Stage, server: &Server, size: u64, connections: u32) -> Result<WrkRun, String> {
    let mut command = Command::new("wrk");
    // wrk accepts whole seconds only.
    command.arg(format!("-d{}s", stage.seconds.ceil().max(1.0)));
    command.arg(format!("-t{THREADS}")).arg(format!("-c{connections}"));
    command
        .arg("-s")
        .arg(stage.children.path("urls.lua"))
        .arg(format!("http://{}", server.address));
    command.arg("--").arg(server.paths(stage, size)).arg(THREADS.to_string());
    stage.children.note(&command);
    let before = cpu_seconds(&server.child)?;
    let output = command.output().map_err(|error| format!("wrk: {error}"))?;
    let spent = cpu_seconds(&server.child)? - before;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).map_err(|error| format!("wrk: {error}"))?;
    let of = |name: &str| number(&report, name);
    if of("/failed")? != 0.0 {
        return Err(format!("{} of wrk's requests failed", of("/failed")?));
    }
    let (requests, seconds) = (of("/requests")?, of("/us")? / 1e6);
    let (rate, cpu_us) = (requests / seconds, spent * 1e6 / requests);
    Ok(WrkRun { seconds, rate, p99_us: of("/p99")?, cpu_us })
}
