//! Tests of SIGHUP: a changed configuration applies from the next request, and a mistake changes
//! nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::{ACCESS_KEY, DEVICE, PATIENCE, Process, SECRET_KEY, TestFolder, Zonal};
use crate::http::S3;

const TAKEN: &str = "zonal_config_reloads_total";
const REFUSED: &str = "zonal_config_reloads_refused_total";

/// Writes a configuration with an access-keys file, in which one key can access one bucket.
fn write_config(place: &TestFolder, secret: &str, access: &str, more: &str) {
    let keys = format!(
        "[[key]]\naccess-key = 'reader'\nsecret-key = '{secret}'\n\
         rules = [{{ prefix = 'bucket/', access = '{access}' }}]\n"
    );
    fs::write(place.path().join("keys.toml"), keys).unwrap();
    let config = format!(
        "[endpoint]\nkeys-file = 'keys.toml'\n[[origin]]\nspec = 'file:origin'\n\
         [[device]]\nspec = '{DEVICE}'\n{more}"
    );
    fs::write(place.path().join("zonal.toml"), config).unwrap();
}

fn status(zonal: &Zonal, secret: &str) -> u16 {
    S3::new(zonal.endpoint, "reader", secret).get("/bucket/a").unwrap().status
}

#[test]
fn keys_are_read_again() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    write_config(&place, "one", "read", "");
    let zonal = Zonal::start(place.path(), &["--config", "zonal.toml"]);
    assert!(!place.path().join("zonal-data").exists(), "everything was named");
    assert_eq!(status(&zonal, "one"), 200);

    write_config(&place, "two", "read", "");
    zonal.signal(Signal::HUP);
    zonal.await_metric(TAKEN, 1);
    assert_eq!((status(&zonal, "one"), status(&zonal, "two")), (403, 200));

    write_config(&place, "two", "none", "");
    zonal.signal(Signal::HUP);
    zonal.await_metric(TAKEN, 2);
    assert_eq!(status(&zonal, "two"), 403);
    zonal.stop();
}

#[test]
fn a_mistake_changes_nothing_and_is_told() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    write_config(&place, "one", "read", "");
    let zonal = Zonal::start(place.path(), &["--config", "zonal.toml"]);
    let mistakes = [
        ("all", "", "\"all\": write none, read, write or read-write"),
        ("read", "[limits]\nidle = '1s'\n", "limits: restart to change this"),
        ("read", "[endpoint]\n", "zonal.toml: line"),
        ("read", "policy = 'zone-fifo'\n", "device: restart to change this"),
    ];
    for (n, (access, more, said)) in mistakes.into_iter().enumerate() {
        write_config(&place, "two", access, more);
        zonal.signal(Signal::HUP);
        zonal.await_metric(REFUSED, n as u64 + 1);
        zonal.await_log(said);
        assert_eq!((status(&zonal, "one"), status(&zonal, "two")), (200, 403));
    }
    assert_eq!(zonal.metric(TAKEN), 0);
    zonal.stop();
}

/// Another Zonal serves as the origin: it checks every signature.
#[test]
fn keys_of_an_origin_are_read_again_whole_or_not_at_all() {
    let (behind, front) = (TestFolder::new(), TestFolder::new());
    behind.object("a", b"hello");
    write_config(&behind, "one", "read", "");
    let origin = Zonal::start(behind.path(), &["--config", "zonal.toml"]);
    let write_secret =
        |secret: &str| fs::write(front.path().join("secret"), format!("{secret}\n")).unwrap();
    write_secret("one");
    let spec = format!("s3:http://{}", origin.endpoint);
    let words = ["--device", DEVICE, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let keys = ["--origin-access-key", "reader", "--origin-secret-key-file", "secret"];
    let zonal = Zonal::start(front.path(), &[&["--origin", &spec], &words[..], &keys].concat());
    let status = || zonal.s3().get("/bucket/a").unwrap().status;
    assert_eq!(status(), 200);

    write_config(&behind, "two", "read", "");
    origin.signal(Signal::HUP);
    origin.await_metric(TAKEN, 1);
    assert_ne!(status(), 200, "the origin does not know the old secret any more");

    write_secret("");
    zonal.signal(Signal::HUP);
    zonal.await_metric(REFUSED, 1);
    zonal.await_log("the first line of secret is empty");

    write_secret("two");
    zonal.signal(Signal::HUP);
    zonal.await_metric(TAKEN, 1);
    assert_eq!(status(), 200);
    zonal.stop();
    origin.stop();
}

#[test]
fn without_a_file_to_read_again_it_stops() {
    let place = TestFolder::new();
    let mut zonal = place.start(&[]);
    zonal.signal(Signal::HUP);
    assert_eq!(zonal.wait().code(), Some(0));
}

/// Regression: `nohup zonal serve` ended with its terminal.
#[test]
fn under_nohup_it_outlives_its_terminal() {
    let place = TestFolder::new();
    let mut under_nohup = Command::new("nohup");
    under_nohup.arg(env!("CARGO_BIN_EXE_zonal")).current_dir(place.path()).stdin(Stdio::null());
    under_nohup.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    under_nohup.args(["--device", DEVICE, "--origin", "file:origin"]);
    under_nohup.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
    let mut served = Process::spawn(&mut under_nohup, place.path(), "survives a restart");
    served.signal(Signal::HUP);
    served.await_log("SIGHUP ignored");
    served.terminate();
    assert_eq!(served.wait().code(), Some(0), "{}", served.log());
}

/// Writes a new self-signed certificate and its key.
fn certify(place: &TestFolder) -> CertificateDer<'static> {
    let names = ["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    fs::write(place.path().join("chain.pem"), cert.pem()).unwrap();
    fs::write(place.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
    cert.der().clone()
}

/// Sends a request over HTTPS that trusts only `trusted`, and returns the response.
fn ask_over_https(to: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(to)?);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Regression: only the environment could set a private certificate authority, and the log advised
/// to check whether the origin is up.
#[test]
fn the_authority_of_an_origin_is_named_in_a_file_and_read_again() {
    let (behind, front) = (TestFolder::new(), TestFolder::new());
    behind.object("a", b"hello");
    certify(&behind);
    let origin =
        behind.start(&["--certificate-file", "chain.pem", "--private-key-file", "key.pem"]);
    let spec = format!("s3:https://localhost:{}", origin.endpoint.port());
    let keys = ["--origin-access-key", ACCESS_KEY, "--origin-secret-key", SECRET_KEY];
    let own = ["--device", DEVICE, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    // A certificate that the origin does not use.
    certify(&front);
    let of_origin = ["--origin", &spec, "--origin-ca-file", "chain.pem"];
    let zonal = Zonal::start(front.path(), &[&of_origin[..], &keys, &own].concat());
    let refused = zonal.s3().put("/bucket/b", b"new").unwrap();
    let said = "does not trust the certificate of its origin (unknown issuer)";
    assert!(refused.status == 502 && refused.text().contains(said), "{}", refused.text());
    let begin = Instant::now();
    while !zonal.log().contains("origin.ca-file (--origin-ca-file)") {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
        std::thread::yield_now();
    }
    fs::copy(behind.path().join("chain.pem"), front.path().join("chain.pem")).unwrap();
    zonal.signal(Signal::HUP);
    zonal.await_metric(TAKEN, 1);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().text(), "hello");
    assert_eq!(zonal.s3().put("/bucket/b", b"new").unwrap().status, 200);
    zonal.stop();
    origin.stop();
}

#[test]
fn a_certificate_is_read_again() {
    let place = TestFolder::new();
    let old = certify(&place);
    let zonal = place.start(&["--certificate-file", "chain.pem", "--private-key-file", "key.pem"]);
    assert!(zonal.banner.contains("curl -sS -D- -o /dev/null --cacert /"), "{}", zonal.banner);
    let answer = ask_over_https(zonal.endpoint, &old).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let new = certify(&place);
    zonal.signal(Signal::HUP);
    zonal.await_metric(TAKEN, 1);
    assert!(ask_over_https(zonal.endpoint, &new).unwrap().starts_with("HTTP/1.1 403 "));
    assert!(ask_over_https(zonal.endpoint, &old).is_err());
    zonal.stop();
}
