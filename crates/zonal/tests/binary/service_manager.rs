//! Tests of service manager notifications over `NOTIFY_SOCKET`: sd_notify(3).

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::harness::{DEVICE, PATIENCE, Process, TestFolder, finished, folder, zonal};

/// A fake service manager that receives the notifications of one service.
pub(crate) struct ServiceManager(UnixDatagram);

impl ServiceManager {
    pub(crate) fn listen(folder: &Path) -> Self {
        let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Starts a service with `NOTIFY_SOCKET` set to this service manager.
    #[track_caller]
    pub(crate) fn start(&self, folder: &Path, words: &[&str], last: &str) -> Process {
        let socket = folder.join("notify");
        Process::spawn(zonal(folder).args(words).env("NOTIFY_SOCKET", socket), folder, last)
    }

    /// Receives the next notification, split into lines.
    #[track_caller]
    pub(crate) fn hears(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("a notification");
        let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn hears_nothing_more(&self) {
        self.0.set_nonblocking(true).unwrap();
        assert!(self.0.recv(&mut [0; 1]).is_err());
    }
}

pub(crate) const SERVING: [&str; 2] = ["READY=1", "STATUS=serving"];
const STOPPING: [&str; 2] = ["STOPPING=1", "STATUS=stopping"];

/// CLOCK_MONOTONIC in microseconds. Unlike CLOCK_BOOTTIME it stops during suspend; sd_notify
/// requires it.
fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

#[test]
fn a_start_a_reload_a_refused_reload_and_a_stop_are_told() {
    let place = TestFolder::new();
    let config = |more: &str| {
        let text = format!(
            "[endpoint]\nlisten = '127.0.0.1:0'\naccess-key = 'a'\nsecret-key = 'secret-key'\n{more}\n\
             [admin]\nlisten = '127.0.0.1:0'\n[[origin]]\nspec = 'file:origin'\n\
             [[device]]\nspec = '{DEVICE}'\n"
        );
        fs::write(place.path().join("zonal.toml"), text).unwrap();
    };
    config("");
    let manager = ServiceManager::listen(place.path());
    let words = ["serve", "--config", "zonal.toml"];
    let mut service = manager.start(place.path(), &words, "survives a restart");
    assert_eq!(manager.hears(), SERVING);

    let before = monotonic_us();
    service.signal(Signal::HUP);
    let reloading = manager.hears();
    assert_eq!(reloading[0], "RELOADING=1");
    // If this time is older than its signal, systemd takes the notification for the answer to an
    // earlier signal.
    let told: i64 = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
    assert!((before..=monotonic_us()).contains(&told), "{told}, after {before}");
    assert_eq!(manager.hears(), SERVING);

    config("no-such-key = 1");
    service.signal(Signal::HUP);
    assert_eq!(manager.hears()[0], "RELOADING=1");
    let refused = manager.hears();
    assert_eq!(refused[0], "READY=1", "what ran before goes on");
    assert!(refused[1].contains("refused"), "{refused:?}");

    service.terminate();
    assert_eq!(service.wait().code(), Some(0), "{}", service.log());
    assert_eq!(manager.hears(), STOPPING);
    manager.hears_nothing_more();
}

#[test]
fn a_block_device_tells_of_its_start_and_stop() {
    let folder = folder();
    let manager = ServiceManager::listen(folder.path());
    let words = ["block", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut service = manager.start(folder.path(), &words, "NBD has no authentication");
    assert_eq!(manager.hears(), SERVING);
    service.terminate();
    assert_eq!(service.wait().code(), Some(0), "{}", service.log());
    assert_eq!(manager.hears(), STOPPING);
    manager.hears_nothing_more();
}

#[test]
fn a_start_that_fails_tells_nothing() {
    let folder = folder();
    let manager = ServiceManager::listen(folder.path());
    let mut command = zonal(folder.path());
    command.args(["serve", "--device", "file:flash?size=1B", "--admin", "127.0.0.1:0"]);
    let output = finished(command.env("NOTIFY_SOCKET", folder.path().join("notify")));
    assert_eq!(output.status.code(), Some(2));
    manager.hears_nothing_more();
}
