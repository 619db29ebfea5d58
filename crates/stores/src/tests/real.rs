//! Each kind of store over a real server, if its binary is found: nginx on the `PATH` or in
//! `/usr/sbin`, fake-gcs-server and Azurite at `ZONAL_FAKE_GCS` and `ZONAL_AZURITE`.
//! CONTRIBUTING.md says how to install the latter two.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::uri::Scheme;
use http::{Method, Request};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequestBody;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use zonal_origin::conformance::{Subject, lists, reads, refusals_to_write};
use zonal_origin::{HttpClient, Origin};
use zonal_s3::sigv4::{encode_path, encode_query_value};

use super::limits;
use crate::{Azure, AzureKeys, Gcs, GcsKeys, Web};

/// Time limit for the start of a server.
const START: Duration = Duration::from_secs(20);

/// A free port below the ephemeral range (32,768 and up on Linux). A client that polls for a server
/// on an ephemeral port may connect to itself.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 100).expect("below 100") * 20;
    loop {
        let port = 30_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server process that is stopped at the end of the test.
struct Running {
    client: HttpClient,
    url: String,
    _server: Child,
}

impl Running {
    async fn start(mut command: Command, port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.kill_on_drop(true).spawn().unwrap();
        let client = HttpClient::open(&Scheme::HTTP, &limits()).unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let running = Self { client, url, _server: server };
        let ready = async {
            while running
                .client
                .send(running.request(Method::GET, "/", Bytes::new()))
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(START, ready).await.expect("the server answers");
        running
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Bytes> {
        Request::builder().method(method).uri(format!("{}{path}", self.url)).body(body).unwrap()
    }

    async fn send(&self, request: Request<Bytes>) {
        let answer = self.client.send(request).await.unwrap();
        if !answer.status().is_success() {
            let (parts, document) = HttpClient::read_refusal(answer).await;
            panic!("{}: {}", parts.status, String::from_utf8_lossy(&document));
        }
    }
}

fn named_by(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn nginx() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

fn write_nginx_conf(folder: &Path, port: u16) {
    let root = folder.display();
    let text = format!(
        "daemon off; error_log {root}/error.log; pid {root}/pid; events {{}}\n\
         http {{ access_log off; client_body_temp_path {root}/a; proxy_temp_path {root}/b; \
         fastcgi_temp_path {root}/c; uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;\n\
         server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
}

#[tokio::test]
async fn nginx_keeps_what_every_origin_promises_but_lists() {
    let Some(binary) = nginx() else { return };
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    // nginx workers run as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    write_nginx_conf(folder.path(), port);
    let mut command = Command::new(binary);
    command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    let server = Running::start(command, port).await;
    let store: Web = format!("{}/files/", server.url).parse().unwrap();
    let origin = store.open("shown".into(), limits()).unwrap().into();
    let written = std::cell::Cell::new(0);
    let put = async |key: &str, bytes: &[u8]| {
        let path = folder.path().join("files").join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).unwrap();
        // nginx's ETag consists of the size and the modification time in seconds.
        written.set(written.get() + 1);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + written.get());
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    };
    let subject = Subject { origin: &origin, bucket: "shown", put };
    reads(&subject).await;
    refusals_to_write(&subject).await;
}

#[tokio::test]
async fn fake_gcs_server_keeps_what_every_origin_promises() {
    let Some(binary) = named_by("ZONAL_FAKE_GCS") else { return };
    let port = free_port();
    let mut command = Command::new(binary);
    command.args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory"]);
    command.args(["-port", &port.to_string(), "-public-host", &format!("127.0.0.1:{port}")]);
    let server = Running::start(command, port).await;
    let bucket = Bytes::from_static(b"{\"name\":\"bucket\"}");
    let mut request = server.request(Method::POST, "/storage/v1/b?project=p", bucket);
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    server.send(request).await;
    let endpoint = Some(server.url.parse().unwrap());
    let store = Gcs { bucket: "bucket".into(), endpoint, keys: GcsKeys::Anonymous };
    let origin = store.open("shown".into(), limits()).unwrap().into();
    let put = async |key: &str, bytes: &[u8]| {
        let name = encode_query_value(key);
        let path = format!("/upload/storage/v1/b/bucket/o?uploadType=media&name={name}");
        server.send(server.request(Method::POST, &path, Bytes::copy_from_slice(bytes))).await;
    };
    let subject = Subject { origin: &origin, bucket: "shown", put };
    reads(&subject).await;
    lists(&subject).await;
    refusals_to_write(&subject).await;
}

/// The built-in account of Azurite, and its key.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[tokio::test]
async fn azurite_keeps_what_every_origin_promises() {
    let Some(binary) = named_by("ZONAL_AZURITE") else { return };
    let port = free_port();
    let mut command = Command::new(binary);
    command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
    command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]);
    let server = Running::start(command, port).await;
    let key = AzureCredential::AccessKey(AzureAccessKey::try_new(ACCOUNT_KEY).unwrap());
    let send = async |path: String, bytes: &[u8]| {
        let path = format!("/{ACCOUNT}/{path}");
        let request = server.request(Method::PUT, &path, Bytes::copy_from_slice(bytes));
        let (mut parts, body) = request.into_parts();
        parts.headers.insert("content-length", body.len().into());
        parts.headers.insert("x-ms-blob-type", "BlockBlob".parse().unwrap());
        let mut request = Request::from_parts(parts, HttpRequestBody::from(body.clone()));
        AzureAuthorizer::new(&key, ACCOUNT).try_authorize(&mut request).unwrap();
        server.send(request.map(|_| body)).await;
    };
    send("bucket?restype=container".to_owned(), b"").await;
    let store = Azure {
        account: ACCOUNT.to_owned(),
        container: "bucket".to_owned(),
        endpoint: Some(format!("{}/{ACCOUNT}", server.url).parse().unwrap()),
        keys: AzureKeys::Account(ACCOUNT_KEY.to_owned()),
    };
    let origin = store.open("shown".into(), limits()).unwrap().into();
    let put =
        async |key: &str, bytes: &[u8]| send(format!("bucket/{}", encode_path(key)), bytes).await;
    let subject = Subject { origin: &origin, bucket: "shown", put };
    reads(&subject).await;
    lists(&subject).await;
    refusals_to_write(&subject).await;
    let stranger = Azure { keys: AzureKeys::Account("bm8gc2VjcmV0".to_owned()), ..store };
    let stranger = Origin::from(stranger.open("shown".into(), limits()).unwrap());
    let refused = stranger.probe().await;
    assert!(
        matches!(refused, Err(zonal_origin::OriginError::CredentialsRejected(_))),
        "{refused:?}"
    );
}
