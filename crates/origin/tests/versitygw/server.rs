//! A versitygw process with its own folder, for tests. The tests of the gateway use this file too.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::uri::Scheme;
use tokio::process::{Child, Command};
use zonal_origin::{HttpClient, Origin, OriginLimits, S3Origin};
use zonal_s3::sigv4::Credentials;

pub(crate) const ACCESS_KEY: &str = "testak";
pub(crate) const SECRET_KEY: &str = "testsecret123";

/// Time limit for a start.
const START: Duration = Duration::from_secs(30);
/// A server whose port was taken is started again, up to so many times in all.
const STARTS_MAX: usize = 5;

/// A running server with its own folder. Dropping it stops the server and removes the folder.
pub(crate) struct VersityGw {
    folder: PathBuf,
    url: String,
    _process: Child,
}

impl Drop for VersityGw {
    fn drop(&mut self) {
        // Leftovers are in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn find_binary() -> Option<PathBuf> {
    let named = std::env::var_os("ZONAL_VERSITYGW").map(PathBuf::from);
    if let Some(named) = named {
        // A named server is required: a skipped test would look like success.
        assert!(named.is_file(), "ZONAL_VERSITYGW: there is no {}", named.display());
        return Some(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("versitygw"));
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/versitygw");
    on_path.chain([tools]).find(|file| file.is_file())
}

impl VersityGw {
    /// Starts a server, or says why the test is skipped.
    pub(crate) async fn start(name: &str) -> Option<Self> {
        let Some(binary) = find_binary() else {
            println!("skipped: versitygw was not found (ZONAL_VERSITYGW, PATH, .tools/bin)");
            return None;
        };
        let folder =
            std::env::temp_dir().join(format!("zonal-versitygw-{}-{name}", std::process::id()));
        // An earlier process with this ID may have been killed before it cleaned up.
        let _ = std::fs::remove_dir_all(&folder);
        for sub in ["root", "versions", "attributes", "users"] {
            std::fs::create_dir_all(folder.join(sub)).unwrap();
        }
        let (url, process) = run(&binary, &folder).await;
        Some(Self { folder, url, _process: process })
    }

    /// Adds a user without permissions.
    #[allow(dead_code, reason = "one of the two crates that share this file needs it")]
    pub(crate) async fn add_user(&self, access_key: &str, secret_key: &str) {
        let binary = find_binary().expect("it was started");
        let added = Command::new(binary)
            .args(["admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY])
            .args(["--endpoint-url", &self.url, "create-user", "--role", "user"])
            .args(["--access", access_key, "--secret", secret_key])
            .output()
            .await
            .unwrap();
        assert!(added.status.success(), "{added:?}");
    }

    /// The server as an origin, with this secret key.
    pub(crate) fn origin(&self, secret_key: &str) -> Origin {
        let credentials = Credentials {
            access_key: ACCESS_KEY.into(),
            secret_key: secret_key.into(),
            session_token: None,
        };
        let endpoint = self.url.parse().unwrap();
        let region = "us-east-1".to_owned();
        S3Origin::open(endpoint, region, Some(credentials), OriginLimits::default()).unwrap().into()
    }
}

/// A free port below the ephemeral range (32,768 and up on Linux). A client that polls for a server
/// on an ephemeral port can be given that very port, and connect to itself; then the server cannot
/// listen.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent processes start at different ports.
    let first = u16::try_from(std::process::id() % 100).expect("below 100") * 100;
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Starts the server on a port of its own, and waits until it answers there. Another process can
/// take the port between the check and the start: then the server ends, and the next port is tried.
async fn run(binary: &Path, folder: &Path) -> (String, Child) {
    for _ in 0..STARTS_MAX {
        let port = port();
        let mut process = command(binary, folder, port).spawn().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let is_up = wait_until_it_answers(&mut process, &url);
        if tokio::time::timeout(START, is_up).await.expect("versitygw answers or ends") {
            return (url, process);
        }
    }
    panic!("versitygw ended {STARTS_MAX} times before it answered");
}

fn command(binary: &Path, folder: &Path, port: u16) -> Command {
    let mut command = Command::new(binary);
    command
        .env("ROOT_ACCESS_KEY", ACCESS_KEY)
        .env("ROOT_SECRET_KEY", SECRET_KEY)
        .arg("--iam-dir")
        .arg(folder.join("users"))
        .args(["--port", &format!("127.0.0.1:{port}"), "posix", "--sidecar"])
        .arg(folder.join("attributes"))
        .arg("--versioning-dir")
        .arg(folder.join("versions"))
        .arg(folder.join("root"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Returns `false` if the process ended. An accepted connection proves nothing: another process may
/// have listened on the port for a moment.
async fn wait_until_it_answers(process: &mut Child, url: &str) -> bool {
    let client = HttpClient::open(&Scheme::HTTP, &OriginLimits::default()).unwrap();
    loop {
        let answer = client.send(Request::get(url).body(Bytes::new()).unwrap()).await;
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        if answer.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
