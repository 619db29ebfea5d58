//! Upgrades: a process is replaced while clients read, on a socket that outlives it.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::harness::{DEVICE, PATIENCE, Process, TestFolder, finished, zonal};
use crate::http::{Response, S3};

const KEYS: [&str; 4] = ["--access-key", "a", "--secret-key", "b"];

/// Starts `zonal serve` with this socket as its third descriptor, as systemd does.
#[track_caller]
fn start(place: &TestFolder, socket: &TcpListener, name: &str) -> Process {
    let mut command = zonal(place.path());
    let program = command.get_program().to_owned();
    // bash: other shells know descriptors of one digit only.
    let script = "exec 3<&$2; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=$1; shift 2; \
                  exec \"$@\"";
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", script, "bash", name, &socket.as_raw_fd().to_string()]).arg(program);
    shell.args(["serve", "--admin", "127.0.0.1:0", "--device", DEVICE, "--origin", "file:origin"]);
    shell.args(KEYS).current_dir(place.path());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command = shell;
    Process::spawn(&mut command, place.path(), "survives a restart")
}

/// A socket that a child inherits.
fn inherited() -> TcpListener {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    fcntl_setfd(&socket, FdFlags::empty()).unwrap();
    socket
}

#[test]
fn three_upgrades_under_load_lose_no_request() {
    let place = TestFolder::new();
    place.object("k", b"hello");
    let socket = inherited();
    let address = socket.local_addr().unwrap();
    let (ends, requests, retries) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let read = || {
        let s3 = S3::new(address, KEYS[1], KEYS[3]);
        let mut failures = Vec::new();
        while !ends.load(Ordering::Relaxed) {
            let is_good =
                |response: &Response| (response.status, &*response.body) == (200, b"hello");
            match s3.get("/bucket/k").or_else(|_| {
                // A client sends an idempotent read again when its connection ends first.
                retries.fetch_add(1, Ordering::Relaxed);
                s3.get("/bucket/k")
            }) {
                Ok(response) if is_good(&response) => {}
                other => failures.push(format!("{other:?}")),
            }
            requests.fetch_add(1, Ordering::Relaxed);
        }
        failures
    };
    thread::scope(|scope| {
        let mut process = start(&place, &socket, "s3");
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        let await_more = |more: u64| {
            let (from, until) = (requests.load(Ordering::Relaxed), Instant::now() + PATIENCE);
            while requests.load(Ordering::Relaxed) < from + more && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        };
        for _ in 0..3 {
            await_more(100);
            process.terminate();
            assert_eq!(process.wait().code(), Some(0), "{}", process.log());
            process = start(&place, &socket, "s3");
        }
        await_more(100);
        ends.store(true, Ordering::Relaxed);
        let failures: Vec<String> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        process.stop();
        let read = requests.load(Ordering::Relaxed);
        assert!(400 <= read && failures.is_empty(), "{read} requests: {failures:?}");
        let retries = retries.load(Ordering::Relaxed);
        assert!(retries <= read / 100, "{retries} retries of {read} requests");
    });
}

#[test]
fn a_socket_for_the_admin_endpoint_has_its_name() {
    let place = TestFolder::new();
    let socket = inherited();
    let process = start(&place, &socket, "admin");
    let address = socket.local_addr().unwrap();
    assert_eq!(crate::http::get(address, "/healthz").unwrap().status, 200);
    process.stop();
}

#[test]
fn a_socket_that_cannot_be_used_is_refused_in_words() {
    let place = TestFolder::new();
    let mut shell = zonal(place.path());
    let program = shell.get_program().to_owned();
    shell = std::process::Command::new("sh");
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3</dev/null; exec \"$@\"";
    shell.args(["-c", script, "sh"]).arg(program).arg("serve").current_dir(place.path());
    let output = finished(&mut shell);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("name one TCP socket for S3 in zonal.socket"), "{said}");
}
