//! Tests of access control at the admin endpoint.

use std::fs;
use std::net::SocketAddr;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;

use crate::harness::{TestFolder, check_failure, finished, run, zonal};
use crate::http;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn status(to: SocketAddr, method: &str, path: &str, headers: &str) -> u16 {
    http::ask(to, &format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n"))
        .unwrap()
        .status
}

/// Regression (DNS rebinding): a web page could read the endpoint once its own host name pointed
/// here.
#[test]
fn it_answers_under_names_that_are_its_own() {
    let place = TestFolder::new();
    let zonal = place.start(&["--admin-host", "Zonal-0.zonal"]);
    let port = zonal.admin.port();
    for path in ["/", "/healthz", "/readyz", "/metrics", "/stats"] {
        for host in [
            "127.0.0.1",
            "10.1.2.3:9090",
            "localhost",
            "LOCALHOST:1",
            "[::1]",
            "zonal-0.ZONAL:9090",
        ] {
            assert_eq!(
                status(zonal.admin, "GET", path, &format!("host: {host}\r\n")),
                200,
                "{path} {host}"
            );
        }
        let own = format!("127.0.0.1:{port}");
        for hosts in [
            "host: evil.example\r\n".to_owned(),
            "host: localhost.evil.example\r\n".to_owned(),
            "host: 127.0.0.1@evil.example\r\n".to_owned(),
            "host: zonal-1.zonal\r\n".to_owned(),
            "host: \r\n".to_owned(),
            format!("host: {own}\r\nhost: evil.example\r\n"),
            String::new(),
        ] {
            assert_eq!(status(zonal.admin, "GET", path, &hosts), 421, "{path} {hosts}");
        }
    }
    assert_eq!(
        status(zonal.admin, "POST", "/cache/off", "host: evil.example\r\ncontent-length: 0\r\n"),
        421
    );
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 0);
    zonal.stop();
}

#[test]
fn orders_take_the_token_where_there_is_one_and_no_page_gives_any() {
    let place = TestFolder::new();
    fs::write(place.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let zonal = place.start(&["--admin-token-file", "token"]);
    let order = |headers: &str| {
        status(
            zonal.admin,
            "POST",
            "/cache/off",
            &format!("host: localhost\r\ncontent-length: 0\r\n{headers}"),
        )
    };
    assert_eq!(order(""), 401);
    assert_eq!(order("authorization: Bearer 0123456789abcdef\r\n"), 401);
    assert_eq!(
        order(&format!("authorization: Bearer {TOKEN}\r\norigin: http://localhost\r\n")),
        403
    );
    assert_eq!(
        order(&format!("authorization: Bearer {TOKEN}\r\nsec-fetch-site: cross-site\r\n")),
        403
    );
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 0, "looking needs none");
    assert_eq!(order(&format!("authorization: Bearer {TOKEN}\r\n")), 200);
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 1);

    let without = place.cache(&zonal, "on", &[]);
    let said = String::from_utf8(without.stderr).unwrap();
    assert_eq!(without.status.code(), Some(1), "{said}");
    assert!(said.contains("--admin-token-file"), "{said}");
    let with = place.cache(&zonal, "on", &["--admin-token-file", "token"]);
    assert_eq!(with.status.code(), Some(0));

    // A new token applies from the next request.
    fs::write(place.path().join("token"), "another-token-of-ours\n").unwrap();
    zonal.signal(Signal::HUP);
    zonal.await_metric("zonal_config_reloads_total", 1);
    assert_eq!(order(&format!("authorization: Bearer {TOKEN}\r\n")), 401);
    assert_eq!(order("authorization: Bearer another-token-of-ours\r\n"), 200);
    zonal.stop();
}

#[test]
fn it_speaks_https_with_a_certificate_of_its_own() {
    let place = TestFolder::new();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    fs::write(place.path().join("chain.pem"), cert.pem()).unwrap();
    fs::write(place.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
    let zonal = place.start(&[
        "--admin-certificate-file",
        "chain.pem",
        "--admin-private-key-file",
        "key.pem",
    ]);
    let at = format!("https://{}", zonal.admin);
    let trusting = ["cache", "stats", "--admin", &at, "--admin-ca-file", "chain.pem", "--json"];
    let output = run(place.path(), &trusting);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = run(place.path(), &trusting[..4]);
    assert_eq!(output.status.code(), Some(1), "nobody vouches for it");
    assert_eq!(
        http::get(zonal.admin, "/stats").unwrap().status,
        400,
        "nothing is said in the clear"
    );
    zonal.stop();
    let zonal = place.start(&[]);
    let at = format!("https://{}", zonal.admin);
    let said =
        format!("the admin endpoint at {0} does not speak TLS: write http://{0}", zonal.admin);
    check_failure(place.path(), &["cache", "stats", "--admin", &at], (2, &said));
    zonal.stop();
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_start() {
    let place = TestFolder::new();
    fs::write(place.path().join("short"), "0123456789abcde\n").unwrap();
    for (words, said) in [
        (["--admin-token-file", "short"], "admin.token-file: short: a token needs at least 16"),
        (["--admin-token-file", "nosuch"], "admin.token-file: nosuch"),
        (["--admin-host", "http://a"], "admin.hosts: \"http://a\" is not a host name"),
        (["--admin-certificate-file", "a"], "admin.private-key-file: required with a certificate"),
    ] {
        let output = finished(zonal(place.path()).arg("serve").args(words));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    }
}
