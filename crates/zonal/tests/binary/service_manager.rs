//! What a service manager is told over `NOTIFY_SOCKET`: sd_notify(3).

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{DEVICE, PATIENCE, Place, Process, folder, zonal};

/// A service manager that hears what one service says.
struct ServiceManager(UnixDatagram);

impl ServiceManager {
    fn listen(folder: &Path) -> Self {
        let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Starts a service that notifies it.
    #[track_caller]
    fn start(&self, folder: &Path, words: &[&str], last: &str) -> Process {
        let socket = folder.join("notify");
        Process::spawn(zonal(folder).args(words).env("NOTIFY_SOCKET", socket), folder, last)
    }

    /// The lines of the next notification.
    #[track_caller]
    fn hears(&self) -> Vec<String> {
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

const SERVING: [&str; 2] = ["READY=1", "STATUS=serving"];

#[test]
fn a_start_a_reload_a_refused_reload_and_a_stop_are_told() {
    let place = Place::new();
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
    let mut service = manager.start(place.path(), &words, "Read an object twice");
    assert_eq!(manager.hears(), SERVING);

    service.signal(Signal::HUP);
    let reloading = manager.hears();
    assert_eq!(reloading[0], "RELOADING=1");
    // systemd takes the answer for that of an older signal if its time is not that of the monotonic clock.
    let told: u64 = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
    let up: f64 =
        fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
    let told_seconds = std::time::Duration::from_micros(told).as_secs_f64();
    assert!((up - told_seconds).abs() < PATIENCE.as_secs_f64(), "{told_seconds} s of {up} s");
    assert_eq!(manager.hears(), SERVING);

    config("no-such-key = 1");
    service.signal(Signal::HUP);
    assert_eq!(manager.hears()[0], "RELOADING=1");
    let refused = manager.hears();
    assert_eq!(refused[0], "READY=1", "what ran before goes on");
    assert!(refused[1].contains("refused"), "{refused:?}");

    service.terminate();
    assert_eq!(service.wait().code(), Some(0), "{}", service.log());
    assert_eq!(manager.hears(), ["STOPPING=1"]);
    manager.hears_nothing_more();
}

#[test]
fn a_block_device_tells_of_its_start_and_stop() {
    let folder = folder();
    let manager = ServiceManager::listen(folder.path());
    let words = ["block", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut service = manager.start(folder.path(), &words, "Whoever reaches it");
    assert_eq!(manager.hears(), SERVING);
    service.terminate();
    assert_eq!(service.wait().code(), Some(0), "{}", service.log());
    assert_eq!(manager.hears(), ["STOPPING=1"]);
    manager.hears_nothing_more();
}

#[test]
fn a_start_that_fails_tells_nothing() {
    let folder = folder();
    let manager = ServiceManager::listen(folder.path());
    let mut command = zonal(folder.path());
    command.args(["serve", "--device", "file:flash?size=1B", "--admin", "127.0.0.1:0"]);
    let output = command.env("NOTIFY_SOCKET", folder.path().join("notify")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    manager.hears_nothing_more();
}
