//! Keys that are renewed while the origin runs.

use super::*;
use crate::s3::KeyOrigin;

fn renewable(server: &Server) -> (Origin, Arc<SigningKeys>) {
    let keys = Arc::new(SigningKeys::renewable());
    let endpoint = server.url().parse().unwrap();
    let origin = S3Origin::with_keys(endpoint, keys.clone(), limits()).unwrap();
    (origin.with_buckets(&["b".to_owned()]).into(), keys)
}

fn renew(keys: &SigningKeys, access_key: &str) {
    let (access_key, secret_key) = (access_key.to_owned(), "SK".to_owned());
    let credentials = Credentials { access_key, secret_key, session_token: None };
    keys.renew(credentials, "r".into(), KeyOrigin::default()).unwrap();
}

/// Renews the keys once, after a refusal.
fn renew_when_refused(keys: &Arc<SigningKeys>) {
    let keys = keys.clone();
    tokio::spawn(async move {
        keys.refused().await;
        renew(&keys, "NEW");
    });
}

fn signers(server: &Server) -> Vec<String> {
    let key = |request: &scripted::Received| {
        let signed = request.header("authorization").unwrap_or_default();
        let (_, key) = signed.split_once("Credential=").unwrap_or_default();
        key.split('/').next().unwrap_or_default().to_owned()
    };
    server.requests().iter().map(key).collect()
}

#[tokio::test]
async fn without_keys_no_request_is_sent_and_the_reason_is_told() {
    let server = Server::start([good_range()]).await;
    let (origin, keys) = renewable(&server);
    keys.note_missing("imds: nobody answers".to_owned(), KeyOrigin::default());
    let why = "imds: nobody answers".to_owned();
    assert_eq!(get(&origin).await, Err(OriginError::NoCredentials { why: why.clone() }));
    let request = Request::get("/b/k").body(full_body("")).unwrap();
    let forwarded = origin.forward(request).await.map(|_| ());
    assert_eq!(forwarded, Err(OriginError::NoCredentials { why }));
    assert!(server.requests().is_empty(), "unsigned requests are another setting");
    renew(&keys, "AK");
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    keys.note_missing("a later failure".to_owned(), KeyOrigin::default());
    assert!(!matches!(get(&origin).await, Err(OriginError::NoCredentials { .. })));
}

#[tokio::test]
async fn a_read_that_is_refused_for_its_keys_is_sent_again_with_new_ones() {
    for (status, code) in [
        ("403 Forbidden", "InvalidAccessKeyId"),
        ("400 Bad Request", "ExpiredToken"),
        ("400 Bad Request", "InvalidToken"),
    ] {
        let server = Server::start([xml_error(status, code), good_range()]).await;
        let (origin, keys) = renewable(&server);
        renew(&keys, "OLD");
        renew_when_refused(&keys);
        assert_eq!(get(&origin).await.unwrap(), b"2345", "{code}");
        assert_eq!(signers(&server), ["OLD", "NEW"], "{code}");
    }
}

#[tokio::test]
async fn a_forwarded_read_is_sent_again_and_a_write_is_not() {
    let answers =
        || [xml_error("403 Forbidden", "InvalidAccessKeyId"), with_body("200 OK", "", "x")];
    let server = Server::start(answers()).await;
    let (origin, keys) = renewable(&server);
    renew(&keys, "OLD");
    renew_when_refused(&keys);
    let read = Request::get("/b/k?acl=").body(full_body("")).unwrap();
    assert_eq!(origin.forward(read).await.unwrap().status(), 200);
    assert_eq!(signers(&server), ["OLD", "NEW"]);

    let server = Server::start(answers()).await;
    let (origin, keys) = renewable(&server);
    renew(&keys, "OLD");
    renew_when_refused(&keys);
    let write = Request::put("/b/k").body(full_body("x")).unwrap();
    let refused = origin.forward(write).await.map(|_| ());
    assert!(matches!(refused, Err(OriginError::CredentialsRejected(_))), "{refused:?}");
    assert_eq!(signers(&server), ["OLD"]);
    // The client repeats it, with the keys that were renewed because of the refusal.
    while !signers(&server).contains(&"NEW".to_owned()) {
        drop(get(&origin).await);
    }
}

#[tokio::test]
async fn other_refusals_and_fixed_keys_ask_for_no_renewal() {
    let server = Server::start([xml_error("403 Forbidden", "SignatureDoesNotMatch")]).await;
    let (renewed, keys) = renewable(&server);
    renew(&keys, "OLD");
    assert!(matches!(get(&renewed).await, Err(OriginError::CredentialsRejected(_))));
    let is_asked = tokio::time::timeout(Duration::ZERO, keys.refused()).await.is_ok();
    assert!(!is_asked);
    let server = Server::start([xml_error("403 Forbidden", "InvalidAccessKeyId")]).await;
    let begun = Instant::now();
    assert!(matches!(get(&origin(&server)).await, Err(OriginError::CredentialsRejected(_))));
    assert!(begun.elapsed() < Duration::from_secs(4), "nobody would renew them");
}
