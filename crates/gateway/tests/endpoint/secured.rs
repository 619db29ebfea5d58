//! The S3 endpoint over HTTPS.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zonal_gateway::{Certificate, CertificateError, Limits};
use zonal_host::Freshness;

use crate::client::{Ask, Connection};
use crate::world::{World, eventually, pattern};

struct Pem {
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

fn certificate_of(name: &str) -> Pem {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).unwrap();
    Pem { chain: cert.pem(), key: signing_key.serialize_pem(), der: cert.der().clone() }
}

fn load(pem: &Pem) -> Certificate {
    Certificate::from_pem(pem.chain.as_bytes(), pem.key.as_bytes()).unwrap()
}

/// Connects as a client that trusts this certificate only.
async fn connect(world: &World, trusted: &Pem) -> std::io::Result<TlsStream<TcpStream>> {
    secure(TcpStream::connect(world.address).await.unwrap(), trusted).await
}

async fn secure(stream: TcpStream, trusted: &Pem) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("gateway").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends a signed GET with `Connection: close`.
async fn fetch(mut stream: TlsStream<TcpStream>, path: &str) -> Vec<u8> {
    let ask = Ask::new("GET", path).with("connection", "close");
    stream.write_all(&ask.signed()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    answer.split_off(head + 4)
}

#[tokio::test]
async fn objects_are_read_over_https() {
    let world = World::start(Freshness::Immutable).await;
    let large = pattern(5 << 20, 1);
    world.put("k", &large);
    let pem = certificate_of("gateway");
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&pem)));
    for _ in 0..2 {
        let stream = connect(&world, &pem).await.unwrap();
        assert!(fetch(stream, "/b/k").await == large);
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_who_comes_after() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let (old, new) = (certificate_of("gateway"), certificate_of("gateway"));
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&old)));
    let before = connect(&world, &old).await.unwrap();
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&new)));
    assert!(connect(&world, &old).await.is_err());
    assert_eq!(fetch(connect(&world, &new).await.unwrap(), "/b/k").await, b"hello");
    assert_eq!(fetch(before, "/b/k").await, b"hello");
}

#[tokio::test]
async fn plain_http_at_the_https_port_is_answered_400_in_words() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let pem = certificate_of("gateway");
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&pem)));
    let mut connection = Connection::open(world.address).await;
    connection.send(&Ask::new("GET", "/b/k").signed()).await;
    let stats = world.gateway.stats().clone();
    eventually("the handshake fails", || stats.handshakes_failed.get() == 1).await;
    let answer = connection.until_closed().await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("This port speaks HTTPS: write https:// in the URL.\r\n"), "{answer}");
}

/// Regression: a handshake that was under way at the stop was cut.
#[tokio::test]
async fn a_handshake_may_end_after_the_stop_has_begun() {
    let mut world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let pem = certificate_of("gateway");
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&pem)));
    let stream = TcpStream::connect(world.address).await.unwrap();
    let stats = world.gateway.stats().clone();
    eventually("it is accepted", || stats.connections_accepted.get() == 1).await;
    let stopped = world.stop();
    assert_eq!(fetch(secure(stream, &pem).await.unwrap(), "/b/k").await, b"hello");
    stopped.await;
}

/// Clients that never finish the handshake locked others out.
#[tokio::test]
async fn an_unfinished_handshake_makes_room() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    let pem = certificate_of("gateway");
    world.change_terms(|runtime_config| runtime_config.certificate = Some(load(&pem)));
    let stats = world.gateway.stats();
    let oldest = Connection::open(world.address).await;
    let other = Connection::open(world.address).await;
    eventually("both are accepted", || stats.connections_accepted.get() == 2).await;
    assert_eq!(fetch(connect(&world, &pem).await.unwrap(), "/b/k").await, b"hello");
    assert_eq!(oldest.until_closed().await, "");
    assert_eq!((stats.connections_evicted.get(), stats.connections_refused.get()), (1, 0));
    drop(other);
    eventually("all are closed", || stats.connections_open() == 0).await;
}

#[test]
fn what_is_no_certificate_is_named() {
    let (one, other) = (certificate_of("a"), certificate_of("a"));
    let load = |chain: &str, key: &str| Certificate::from_pem(chain.as_bytes(), key.as_bytes());
    assert!(matches!(load("", &one.key), Err(CertificateError::NoCertificate)));
    assert!(matches!(load(&one.key, &one.key), Err(CertificateError::NoCertificate)));
    assert!(matches!(load(&one.chain, &one.chain), Err(CertificateError::NoPrivateKey)));
    for encrypted in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIF\n-----END RSA PRIVATE KEY-----\n",
    ] {
        let outcome = load(&one.chain, encrypted);
        assert!(matches!(outcome, Err(CertificateError::EncryptedPrivateKey)));
    }
    let mixed = load(&one.chain, &other.key).unwrap_err().to_string();
    assert_eq!(mixed, "the private key does not match the first certificate");
}
