//! The measurements over HTTP: `zonal serve` before a folder of objects, asked by wrk through presigned URLs.

use std::fmt::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use zonal_base::Bytes;
use zonal_lab::Generator;
use zonal_lab::bench::machine_idle;
use zonal_origin::sigv4::{Credentials, Signer, Timestamp};

use super::Stage;
use super::children::{Place, number};
use super::samples::{Goal, Row, Samples};
use super::steps::in_turns;

const ACCESS_KEY: &str = "bench";
const SECRET_KEY: &str = "bench-secret-key";
const BUCKET: &str = "objects";
const REGION: &str = "us-east-1";

/// Objects of each size: 512 MiB each, so that what is read lies all over the device.
const OBJECTS: [(u64, u64); 2] = [(64 << 10, 8192), (1 << 20, 512)];

/// Seconds that a URL is good for: the whole run.
const EXPIRES: u32 = 24 * 3600;

/// Connections of wrk, and its threads.
const CONNECTIONS: u32 = 64;
const THREADS: u32 = 2;

/// The longest wait for the server to come up.
const START: Duration = Duration::from_secs(30);

/// Each thread of wrk asks for all URLs in turn, beginning at another place; the last line is JSON.
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

/// Size of the device that is served from.
const SIZE: Bytes = Bytes::mib(2048);

const DEVICE: Place = Place::sized("http", SIZE);

/// A running server. It ends with this.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(stage: &Stage) -> Result<Vec<Row>, String> {
    let text = |error: std::io::Error| error.to_string();
    let bucket = stage.children.path("origin").join(BUCKET);
    std::fs::create_dir_all(&bucket).map_err(text)?;
    std::fs::write(stage.children.path("urls.lua"), SCRIPT).map_err(text)?;
    // Every part of the device is written once, so that fio reads what was written and not what was only
    // allocated. Then the objects take the place of what was there.
    stage.children.zonal(DEVICE, &Stage::fill_flags("--chunk 256KiB --value 256KiB"))?;
    let server = serve(stage)?;
    let signer = signer()?;
    for (size, count) in OBJECTS {
        write_objects(&bucket, size, count).map_err(text)?;
        let paths = presigned(&signer, &server.address, size, count)?;
        std::fs::write(stage.children.path(&format!("urls-{size}")), paths).map_err(text)?;
        warm(stage, &server, size, count)?;
    }
    let mut rows = small(stage, &server)?;
    rows.extend(large(stage, &server)?);
    Ok(rows)
}

/// 64 KiB: what each costs.
fn small(stage: &Stage, server: &Server) -> Result<Vec<Row>, String> {
    let (size, _) = OBJECTS[0];
    let (mut cpu, mut rate, mut p99) = <(Samples, Samples, Samples)>::default();
    for _ in 0..stage.pairs {
        let before = cpu_seconds(&server.child)?;
        let report = wrk(stage, server, size, stage.seconds)?;
        let spent = cpu_seconds(&server.child)? - before;
        cpu.push(spent * 1e6 / number(&report, "/requests")?);
        rate.push(number(&report, "/requests")? * 1e6 / number(&report, "/us")?);
        p99.push(number(&report, "/p99")?);
    }
    let name = "CPU per warm 64 KiB GET over HTTP, presigned, from flash";
    Ok(vec![
        Row::new(name, "us", cpu, Goal::AtMost(60.0))
            .said("Varnish 42-60, ATS 51, nginx slice 22: from tmpfs, unsigned"),
        Row::new("warm 64 KiB GETs", "1/s", rate, Goal::None),
        Row::new("p99 of these", "us", p99, Goal::None),
    ])
}

/// 1 MiB: how much of the device reaches the client.
fn large(stage: &Stage, server: &Server) -> Result<Vec<Row>, String> {
    let (size, _) = OBJECTS[1];
    let flags =
        format!("--bs=1m --iodepth={CONNECTIONS} --ramp_time=0.5 --runtime={}", stage.seconds);
    let (mut mib, mut fio_mib, mut cores, mut idle) =
        <(Samples, Samples, Samples, Samples)>::default();
    in_turns(
        stage.pairs,
        || {
            let (before, idle_before) = (cpu_seconds(&server.child)?, machine_idle());
            let report = wrk(stage, server, size, stage.seconds)?;
            let seconds = number(&report, "/us")? / 1e6;
            cores.push((cpu_seconds(&server.child)? - before) / seconds);
            idle.push((machine_idle() - idle_before).as_secs_f64() / seconds);
            mib.push(number(&report, "/requests")? * (size as f64 / 1048576.0) / seconds);
            Ok(())
        },
        || {
            let report = stage.children.fio("http", &flags)?;
            fio_mib.push(number(&report, "/bw_bytes")? / 1048576.0);
            Ok(())
        },
    )?;
    Ok(vec![
        Row::new("warm 1 MiB GETs over HTTP, presigned", "MiB/s", mib, Goal::RatioAtLeast(0.7))
            .beside("fio", fio_mib),
        Row::new("cores that the server took for them", "", cores, Goal::None),
        Row::new("cores of the machine that were idle meanwhile", "", idle, Goal::None),
    ])
}

fn serve(stage: &Stage) -> Result<Server, String> {
    let address = free_address()?;
    let admin = free_address()?;
    let path = |name: &str| stage.children.path(name).display().to_string();
    let mut command: Command = stage.children.serve_command();
    command.arg("serve").args(["--device", &format!("file:{}?size={SIZE}", path("http"))]);
    command.args(["--origin", &format!("file:{}", path("origin"))]);
    command.args(["--listen", &address, "--admin", &admin, "--data-dir", &path("data")]);
    command.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
    // All that is warmed is to come from flash.
    command.args(["--policy", "zone-lru", "--dram", "0"]);
    command.args(["--freshness", "immutable"]).stdout(Stdio::null()).stderr(Stdio::null());
    stage.children.note(&command);
    let child = command.spawn().map_err(|error| format!("zonal serve: {error}"))?;
    let mut server = Server { child, address };
    let start = Instant::now();
    while TcpStream::connect(&server.address).is_err() {
        if START < start.elapsed() || !matches!(server.child.try_wait(), Ok(None)) {
            return Err("zonal serve did not come up".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

/// A port that was free a moment ago.
fn free_address() -> Result<String, String> {
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

/// One path and query for each object, a line each.
fn presigned(signer: &Signer, address: &str, size: u64, count: u64) -> Result<String, String> {
    let now = Timestamp::from_system_time(SystemTime::now());
    let server = format!("http://{address}");
    let mut lines = String::new();
    for number in 0..count {
        let url = format!("{server}/{BUCKET}/{size}-{number}");
        let url = url.parse().map_err(|_| "not a URL")?;
        let signed = signer.presign(now, &http::Method::GET, &url, EXPIRES);
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{}", signed.strip_prefix(&server).unwrap_or(&signed));
    }
    Ok(lines)
}

/// Reads until everything has been read at least once, and gives it time to reach flash.
fn warm(stage: &Stage, server: &Server, size: u64, count: u64) -> Result<(), String> {
    let mut read = 0.0;
    // Each of the threads begins elsewhere: a round of half the objects each would do; two are sure.
    while read < 2.0 * count as f64 {
        read += number(&wrk(stage, server, size, 1.0)?, "/requests")?;
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// What wrk's script printed. Every answer must be good.
fn wrk(stage: &Stage, server: &Server, size: u64, seconds: f64) -> Result<Value, String> {
    let mut command = Command::new("wrk");
    // It takes whole seconds.
    command.arg(format!("-d{}s", seconds.ceil().max(1.0)));
    command.arg(format!("-t{THREADS}")).arg(format!("-c{CONNECTIONS}"));
    command
        .arg("-s")
        .arg(stage.children.path("urls.lua"))
        .arg(format!("http://{}", server.address));
    command.arg("--").arg(stage.children.path(&format!("urls-{size}"))).arg(THREADS.to_string());
    stage.children.note(&command);
    let output = command.output().map_err(|error| format!("wrk: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).map_err(|error| format!("wrk: {error}"))?;
    match number(&report, "/failed")? {
        0.0 => Ok(report),
        failed => Err(format!("{failed} of wrk's requests failed")),
    }
}

/// User and system time of a process.
fn cpu_seconds(child: &Child) -> Result<f64, String> {
    let path = format!("/proc/{}/stat", child.id());
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The name, in parentheses, may hold spaces: fields are counted from its end.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}
