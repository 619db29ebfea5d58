//! Test harness: runs `zonal` in its own folder on free ports, and ends it in any case.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::{self, Response, S3};

pub(crate) const ACCESS_KEY: &str = "TESTACCESSKEY";
pub(crate) const SECRET_KEY: &str = "test/secret+key";

/// Longer than a start or stop takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder for one test. It is beside the build output, on a disk: a temporary folder is often in
/// memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Names in a folder, in order.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The binary, in a folder, without configuration from the environment.
pub(crate) fn zonal(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if name.starts_with("ZONAL_") || name.starts_with("AWS_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    // A busy disk takes seconds for a write. Only tests of isolation give a device up for that.
    command.env("ZONAL_DEVICE_PATIENCE", "1min");
    command
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(folder: &Path, words: &[&str]) -> Output {
    finished(zonal(folder).args(words))
}

/// Longest run of a command that ends by itself.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Runs a command to its end. One that serves instead of refusing to start would run for ever, so it
/// is killed.
#[track_caller]
pub(crate) fn finished(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = Pid::from_child(&child);
    let (done, is_done) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_late = is_done.recv_timeout(RUN_MAX) == Err(RecvTimeoutError::Timeout);
        if is_late {
            // It may end at this moment.
            let _ = kill_process(id, Signal::KILL);
        }
        is_late
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!watch.join().unwrap(), "it does not end: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Checks that a command fails with exit code `code`, prints nothing on standard output, and an
/// error line that begins with `said`.
#[track_caller]
pub(crate) fn check_failure(folder: &Path, words: &[&str], (code, said): (i32, &str)) {
    let output = run(folder, words);
    let error = String::from_utf8(output.stderr).unwrap();
    // Log warnings may precede the error.
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(output.status.code(), Some(code), "{words:?} said {error}");
    assert!(last.starts_with(&format!("zonal: {said}")), "{words:?} said {error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "of {words:?}");
}

/// A running `zonal` process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The banner on standard output.
    pub(crate) banner: String,
    log: PathBuf,
}

impl Process {
    /// Starts `zonal` and waits until it is up: until its banner contains `last`. The log goes to
    /// `folder`.
    #[track_caller]
    pub(crate) fn start(folder: &Path, words: &[&str], last: &str) -> Self {
        Self::spawn(zonal(folder).args(words), folder, last)
    }

    /// Starts a command of [`zonal`], and waits as [`start`](Self::start) does.
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command, folder: &Path, last: &str) -> Self {
        let log = folder.join("log");
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = String::new();
        // If the output ends before this line, the process has ended.
        while !banner.contains(last) {
            let Some(line) = lines.next() else {
                let _ = child.wait();
                panic!("it ended before it was up: {}", fs::read_to_string(&log).unwrap());
            };
            banner += &(line.unwrap() + "\n");
        }
        Self { child, banner, log }
    }

    /// An address in the banner.
    #[track_caller]
    pub(crate) fn address(&self, before: &str, after: &[char]) -> SocketAddr {
        let (_, rest) = self.banner.split_once(before).expect("an address is printed");
        rest[..rest.find(after).unwrap()].parse().unwrap()
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log contains a text.
    #[track_caller]
    pub(crate) fn await_log(&self, text: &str) {
        let begin = Instant::now();
        while !self.log().contains(text) {
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGTERM and does not wait for the exit.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits for the exit.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.wait_with(|_| ())
    }

    #[track_caller]
    fn wait_with(&mut self, meanwhile: fn(&Self)) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not stop: {}", self.log());
            meanwhile(self);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends SIGTERM repeatedly until the exit.
    #[track_caller]
    pub(crate) fn insist(&mut self) -> ExitStatus {
        self.wait_with(Self::terminate)
    }

    /// Sends SIGTERM, and expects exit code 0.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.terminate();
        assert_eq!(self.wait().code(), Some(0), "{}", self.log());
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a metric, summed over its labels.
pub(crate) fn metric(admin: SocketAddr, start: &str) -> u64 {
    let text = http::get(admin, "/metrics").unwrap().text();
    let lines = text.lines().filter(|line| line.starts_with(start));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A running `zonal serve`.
#[derive(Debug)]
pub(crate) struct Zonal {
    process: Process,
    pub(crate) endpoint: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Deref for Zonal {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Zonal {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Zonal {
    /// Starts `zonal serve` in `folder` on free ports, and waits until it is up.
    #[track_caller]
    pub(crate) fn start(folder: &Path, words: &[&str]) -> Self {
        Self::start_with(folder, words, &[])
    }

    /// Starts it with environment variables.
    #[track_caller]
    pub(crate) fn start_with(folder: &Path, words: &[&str], variables: &[(&str, String)]) -> Self {
        let mut command = zonal(folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(words);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let process = Process::spawn(&mut command, folder, "survives a restart");
        let is_secure = process.banner.contains("serves S3 at https://");
        let scheme = if is_secure { "https://" } else { "http://" };
        let endpoint = process.address(&format!("serves S3 at {scheme}"), &[',']);
        let (before, _) =
            process.banner.split_once("/metrics").expect("a URL of metrics is printed");
        let admin = before.rsplit('/').next().unwrap().parse().unwrap();
        Self { process, endpoint, admin }
    }

    pub(crate) fn s3(&self) -> S3 {
        S3::new(self.endpoint, ACCESS_KEY, SECRET_KEY)
    }

    pub(crate) fn admin(&self, path: &str) -> Response {
        http::get(self.admin, path).unwrap()
    }

    /// The value of a metric, summed over its labels.
    pub(crate) fn metric(&self, start: &str) -> u64 {
        metric(self.admin, start)
    }

    /// Waits until a metric has a value: background work shows in the metrics.
    #[track_caller]
    pub(crate) fn await_metric(&self, start: &str, value: u64) {
        let begin = Instant::now();
        while self.metric(start) != value {
            assert!(begin.elapsed() < PATIENCE, "{start} is not {value}:\n{}", self.state());
        }
    }

    /// What a failed wait shows: the counters that are not 0, and the log.
    fn state(&self) -> String {
        let metrics = http::get(self.admin, "/metrics").unwrap().text();
        let is_shown = |line: &&str| !line.starts_with('#') && !line.ends_with(" 0");
        let counters: Vec<&str> = metrics.lines().filter(is_shown).collect();
        format!("{}\n{}", counters.join("\n"), self.log())
    }

    /// Reads an object until all of it is cached. A disk slower than the origin may refuse some of
    /// it at first.
    #[track_caller]
    pub(crate) fn store(&self, path: &str) {
        let begin = Instant::now();
        loop {
            let answer = self.s3().get(path).unwrap();
            assert_eq!(answer.status, 200, "{path}");
            if answer.header("x-cache") == "HIT" {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{path}: {}", self.log());
        }
    }

    /// Sends SIGTERM, and expects exit code 0.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.process.stop();
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(self) {
        self.process.kill();
    }
}

/// A test folder with an origin, and the flags that serve it from a device in the folder.
pub(crate) struct TestFolder {
    pub(crate) folder: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        let folder = folder();
        fs::create_dir_all(folder.path().join("origin/bucket")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates an object at the origin.
    pub(crate) fn object(&self, key: &str, content: &[u8]) {
        fs::write(self.path().join("origin/bucket").join(key), content).unwrap();
    }

    /// Runs `zonal cache` with an action against a running server.
    pub(crate) fn cache(&self, zonal: &Zonal, action: &str, words: &[&str]) -> Output {
        let admin = zonal.admin.to_string();
        run(self.path(), &[&["cache", action, "--admin", &admin], words].concat())
    }

    #[track_caller]
    pub(crate) fn start(&self, more: &[&str]) -> Zonal {
        self.start_on(DEVICE, more)
    }

    #[track_caller]
    pub(crate) fn start_on(&self, device: &str, more: &[&str]) -> Zonal {
        let words = [
            "--device",
            device,
            "--origin",
            "file:origin",
            "--access-key",
            ACCESS_KEY,
            "--secret-key",
            SECRET_KEY,
        ];
        Zonal::start(self.path(), &[&words, more].concat())
    }
}

/// The device of a [`TestFolder`].
pub(crate) const DEVICE: &str = "file:flash?size=256MiB&zone=8MiB";

/// Pseudorandom, incompressible bytes.
pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = zonal_base::Rng::new(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(bytes).collect()
}
