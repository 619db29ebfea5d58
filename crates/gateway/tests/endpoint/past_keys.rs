//! Attacks that once bypassed the rights of a key, each at an origin that would obey. The tests
//! check the requests that reached the origin.

use std::sync::{Arc, Mutex};

use http::Method;
use zonal_folder::FolderOrigin;
use zonal_gateway::{Access, AccessRules, VendorHeaders};
use zonal_origin::{ConfiguredOrigin, Origins};
use zonal_s3::sigv4::Timestamp;

use crate::bad_origins::{scripted, send};
use crate::client::{ACCESS_KEY, Answer, Ask, Connection, SECRET_KEY, ask, get, now, signer};
use crate::world::{REVALIDATE, World};

const LIMITED: &str = "AKIALIMITED";
const LIMITED_SECRET: &str = "limited/secret";

/// What the origin answers to an administrator's request.
const SECRETS: &str = "{\"users\": \"SECRETS\"}";

/// Request heads that reached the origin.
#[derive(Clone, Default)]
struct Heads(Arc<Mutex<Vec<String>>>);

impl Heads {
    /// The heads that begin with `start`.
    fn of(&self, start: &str) -> Vec<String> {
        let heads = self.0.lock().unwrap();
        heads.iter().filter(|head| head.starts_with(start)).cloned().collect()
    }

    /// The heads of all writes.
    fn writes(&self) -> Vec<String> {
        ["PUT", "POST", "DELETE"].iter().flat_map(|method| self.of(method)).collect()
    }
}

/// An origin that obeys every request, with an API of its own at `/minio/`. The key `LIMITED` may
/// read and write `b/pub/`, and read `minio/`.
async fn world(is_refused: bool) -> (World, Heads) {
    let heads = Heads::default();
    let seen = heads.clone();
    let origin = scripted(move |head| {
        seen.0.lock().unwrap().push(head.to_owned());
        if head.contains(" /minio/") || head.contains(" /minio?") {
            send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{SECRETS}", SECRETS.len()))
        } else if head.starts_with("GET /b/?uploads&prefix=pub%2Fa ") {
            let upload = "<Upload><Key>pub/a</Key><UploadId>ours</UploadId></Upload>";
            let other = "<Upload><Key>pub/ab</Key><UploadId>other</UploadId></Upload>";
            let inner = format!("{upload}{other}<IsTruncated>false</IsTruncated>");
            let list = format!("<ListMultipartUploadsResult>{inner}</ListMultipartUploadsResult>");
            send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{list}", list.len()))
        } else {
            send("HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 0\r\n\r\n")
        }
    });
    let world = match is_refused {
        true => World::over_origin(origin.await, REVALIDATE).await,
        false => World::that_logs(origin.await).await,
    };
    let limited = AccessRules::all(Access::None)
        .with("b/pub/", Access::ReadWrite)
        .with("b/in/", Access::Write)
        .with("minio/", Access::ReadWrite);
    world.change_terms(|runtime_config| {
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with(LIMITED, LIMITED_SECRET, limited);
    });
    (world, heads)
}

fn of_limited(method: &str, uri: &str) -> Ask {
    Ask::new(method, uri).signed_by(LIMITED).signed_with(LIMITED_SECRET)
}

/// Sends these bytes.
async fn sent(world: &World, wire: impl AsRef<[u8]>) -> Option<Answer> {
    let mut connection = Connection::open(world.address).await;
    connection.send(wire.as_ref()).await;
    connection.answer(&Method::GET).await
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    let said = (answer.status, answer.code());
    assert_eq!(said, (status, code.to_owned()), "{}", answer.text());
}

#[tokio::test]
async fn an_api_of_the_origin_is_no_bucket() {
    let (world, heads) = world(true).await;
    for path in ["/minio/admin/v3/export-iam", "/minio/admin/v3/list-users?x=y"] {
        for request in [Ask::new("GET", path), of_limited("GET", path)] {
            let answer = ask(world.address, request).await;
            refused(&answer, 404, "NoSuchBucket");
            assert!(!answer.text().contains("SECRETS"));
        }
    }
    for (method, path) in [("PUT", "/minio/admin/v3/import-iam"), ("POST", "/minio/admin?uploads")]
    {
        let answer = ask(world.address, Ask::new(method, path).body("users")).await;
        refused(&answer, 404, "NoSuchBucket");
    }
    assert_eq!(heads.writes(), [""; 0]);
    assert_eq!(heads.of("GET /minio/admin"), [""; 0], "not even a read is sent there");
}

#[tokio::test]
async fn a_reserved_name_is_refused_whatever_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for bucket in ["b", "minio"] {
        std::fs::create_dir_all(folder.path().join("origin").join(bucket)).unwrap();
        std::fs::write(folder.path().join("origin").join(bucket).join("k"), bucket).unwrap();
    }
    let origin = FolderOrigin::open(folder.path().join("origin"), &Default::default()).unwrap();
    let (name, buckets, reserved) = (String::new(), Vec::new(), vec!["minio".to_owned()]);
    let named = ConfiguredOrigin { name, origin: origin.into(), buckets, reserved };
    let limits = zonal_gateway::Limits::default();
    let world = World::over(folder, Origins::new(vec![named]), REVALIDATE, limits).await;
    assert_eq!(ask(world.address, Ask::new("GET", "/b/k")).await.text(), "b");
    let copy = Ask::new("PUT", "/b/copy").with("x-amz-copy-source", "minio/k");
    for request in [
        Ask::new("GET", "/minio/k"),
        Ask::new("HEAD", "/minio/k"),
        Ask::new("PUT", "/minio/new").body("x"),
        Ask::new("GET", "/minio?list-type=2"),
        Ask::new("DELETE", "/minio"),
        copy,
    ] {
        let answer = ask(world.address, request).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    let stranger = Ask::new("GET", "/minio/k").signed_with("wrong");
    refused(&ask(world.address, stranger).await, 403, "SignatureDoesNotMatch");
}

#[tokio::test]
async fn a_write_carries_what_the_configuration_passes() {
    let (world, heads) = world(true).await;
    let write = || Ask::new("PUT", "/b/pub/a").with("x-rgw-new", "1").body("x");
    refused(&ask(world.address, write()).await, 400, "InvalidArgument");
    world.change_terms(|runtime_config| {
        runtime_config.vendor_headers = VendorHeaders::default().with_passed("x-rgw-new").unwrap();
    });
    assert_eq!(ask(world.address, write()).await.status, 200);
    let head = heads.of("PUT /b/pub/a").concat();
    assert!(head.contains("x-rgw-new: 1\r\n"), "{head}");
    // A read drops the header and bypasses the cache.
    let read = ask(world.address, Ask::new("GET", "/b/pub/a").with("x-rgw-new", "1")).await;
    assert_eq!(read.header("x-cache-reason"), "unknown-header; name=x-rgw-new");
    assert!(!heads.of("GET").concat().contains("x-rgw-new"));
}

#[tokio::test]
async fn a_list_of_deletions_is_read_in_one_way() {
    let (world, heads) = world(true).await;
    for document in [
        "<Delete><Object><Key><x>pub/</x>secret/a</Key></Object></Delete>",
        "<Delete><Object><Key>pub/a</Key><Key>secret/a</Key></Object></Delete>",
        "<!DOCTYPE d [<!ENTITY k 'x'>]><Delete><Object><Key>pub/&k;</Key></Object></Delete>",
    ] {
        let answer = ask(world.address, of_limited("POST", "/b?delete").body(document)).await;
        refused(&answer, 400, "MalformedXML");
    }
    assert_eq!(heads.writes(), [""; 0]);
    let document = "<Delete><Object><Key>pub/a</Key></Object></Delete>";
    ask(world.address, of_limited("POST", "/b?delete").body(document)).await;
    assert_eq!(heads.of("POST /b").len(), 1);
}

#[tokio::test]
async fn a_source_of_a_copy_is_read_in_one_way() {
    let (world, heads) = world(true).await;
    for path in ["/b/pub/copy", "/b/pub/copy?partNumber=1&uploadId=u"] {
        for source in [
            "//b/private/a",
            "x:/private/a",
            "//b:80/private/a",
            "//u@b/private/a",
            "http://b/private/a",
            "b/pub/a?versionId=1&x=../private/a",
        ] {
            let copy = of_limited("PUT", path).with("x-amz-copy-source", source);
            refused(&ask(world.address, copy).await, 400, "InvalidArgument");
        }
        let private = of_limited("PUT", path).with("x-amz-copy-source", "/b/private/a");
        refused(&ask(world.address, private).await, 403, "AccessDenied");
    }
    assert_eq!(heads.writes(), [""; 0]);
    let copy = of_limited("PUT", "/b/pub/copy").with("x-amz-copy-source", "%2Fb%2Fpub%2Fa");
    ask(world.address, copy).await;
    let head = heads.writes().concat();
    assert!(head.contains("x-amz-copy-source: b/pub/a\r\n"), "{head}");
}

#[tokio::test]
async fn an_upload_is_of_the_object_that_is_named() {
    let (world, heads) = world(true).await;
    let parts = "<CompleteMultipartUpload/>";
    for id in ["private%2Fa", "top", "other", ""] {
        for request in [
            of_limited("DELETE", &format!("/b/pub/a?uploadId={id}")),
            of_limited("PUT", &format!("/b/pub/a?partNumber=1&uploadId={id}")).body("x"),
            of_limited("POST", &format!("/b/pub/a?uploadId={id}")).body(parts),
            of_limited("GET", &format!("/b/pub/a?uploadId={id}")),
        ] {
            refused(&ask(world.address, request).await, 404, "NoSuchUpload");
        }
    }
    assert_eq!(heads.writes(), [""; 0]);
    for part in 1..4 {
        let put = of_limited("PUT", &format!("/b/pub/a?partNumber={part}&uploadId=ours")).body("x");
        assert_eq!(ask(world.address, put).await.status, 200);
    }
    let abort = of_limited("DELETE", "/b/pub/a?uploadId=ours");
    assert_eq!(ask(world.address, abort).await.status, 200);
    assert_eq!(heads.writes().len(), 4);
    assert_eq!(heads.of("GET /b/?uploads").len(), 16 + 1, "a proof is remembered");
    // A key that may do everything is not checked.
    assert_eq!(ask(world.address, Ask::new("DELETE", "/b/pub/a?uploadId=top")).await.status, 200);
    assert_eq!(heads.of("GET /b/?uploads").len(), 16 + 1);
}

#[tokio::test]
async fn writes_with_an_unknown_vendors_header_are_refused_and_reads_go_without_it() {
    let (world, heads) = world(true).await;
    for header in [
        "x-amz-meta-snowball-auto-extract",
        "x-amz-meta-minio-snowball-prefix",
        "x-amz-meta-snowball_auto_extract",
        "x-minio-force-delete",
        "x-minio-source-mtime",
        "x-goog-copy-source",
        "x-rgw-something",
        "x-amz-unheard-of",
    ] {
        for (method, path) in [("PUT", "/b/pub/a"), ("DELETE", "/b"), ("GET", "/b/pub/a")] {
            let answer = ask(world.address, Ask::new(method, path).with(header, "true")).await;
            if method == "GET" {
                // Without the header, the answer to a read harms only its own client.
                let reason = format!("unknown-header; name={header}");
                assert_eq!((answer.status, answer.header("x-cache-reason")), (200, &*reason));
                assert!(!heads.of("GET").concat().contains(header));
            } else {
                refused(&answer, 400, "InvalidArgument");
                assert!(answer.text().contains(header), "it is named");
            }
            // A client without a valid signature learns nothing else.
            let stranger = Ask::new(method, path).with(header, "true").signed_with("wrong");
            refused(&ask(world.address, stranger).await, 403, "SignatureDoesNotMatch");
        }
    }
    for uri in ["/b?unheard-of", "/b/pub/a?x-minio-extract=true", "/b/pub/a?unheard-of"] {
        refused(&ask(world.address, Ask::new("GET", uri)).await, 501, "NotImplemented");
    }
    refused(
        &ask(world.address, Ask::new("POST", "/b/pub/a").body("x")).await,
        501,
        "NotImplemented",
    );
    assert_eq!(heads.writes(), [""; 0]);
    let wire = String::from_utf8(Ask::new("PUT", "/b/pub/a").signed()).unwrap();
    let dropped = "x_amz_acl: public-read\r\nfoo: 1\r\nx-forwarded-host: private\r\n";
    let wire = wire.replacen("\r\n", &format!("\r\n{dropped}"), 1);
    assert_eq!(sent(&world, wire).await.unwrap().status, 200);
    let head = heads.of("PUT /b/pub/a").concat();
    assert!(
        !head.contains("x_amz") && !head.contains("foo:") && !head.contains("x-forwarded-host"),
        "{head}"
    );
}

/// The SDKs for Java and JavaScript send these headers with reads. When they were refused as
/// unknown vendor headers, such clients could read nothing.
#[tokio::test]
async fn what_sdks_say_of_each_read_is_dropped() {
    let (world, heads) = world(true).await;
    let of_sdks = [
        ("x-amz-te", "append-md5"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("x-amz-trace-id", "Root=1-2-3"),
    ];
    for (name, value) in of_sdks {
        for method in ["GET", "HEAD"] {
            let read = Ask::new(method, "/b/pub/a").with(name, value);
            assert_eq!(ask(world.address, read).await.status, 200, "{method} with {name}");
        }
        let heads = heads.of("").concat();
        assert!(heads.contains(" /b/pub/a ") && !heads.contains(name), "{heads}");
    }
}

#[tokio::test]
async fn a_key_that_may_only_write_asks_nothing() {
    let (world, heads) = world(true).await;
    for condition in ["if-none-match", "if-match"] {
        let asking = of_limited("PUT", "/b/in/a").with(condition, "*").body("x");
        refused(&ask(world.address, asking).await, 403, "AccessDenied");
    }
    assert_eq!(heads.writes(), [""; 0]);
    assert_eq!(ask(world.address, of_limited("PUT", "/b/in/a").body("x")).await.status, 200);
}

#[tokio::test]
async fn where_a_body_ends_is_said_once() {
    let (world, heads) = world(true).await;
    let wire = String::from_utf8(Ask::new("PUT", "/b/pub/a").signed()).unwrap();
    for (lines, status) in [
        ("content-length: 3\r\ntransfer-encoding: chunked\r\n", 400),
        ("transfer-encoding: chunked\r\ncontent-length: 3\r\n", 400),
        ("transfer-encoding: identity, chunked\r\n", 501),
        ("transfer-encoding: identity\r\n", 400),
        ("transfer-encoding: xchunked\r\n", 400),
    ] {
        let wire = wire.replacen("\r\n", &format!("\r\n{lines}"), 1) + "0\r\n\r\n";
        let mut connection = Connection::open(world.address).await;
        connection.send(wire.as_bytes()).await;
        let said = connection.until_closed().await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{lines:?}: {said}");
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{lines:?}: {said}");
    }
    assert_eq!(heads.writes(), [""; 0]);
}

#[tokio::test]
async fn a_signature_is_as_strict_as_that_of_aws() {
    let (world, _) = world(true).await;
    let presigned = |expires_seconds, at: Timestamp| {
        let url = "http://gateway/b/pub/a".parse().unwrap();
        let url = signer(ACCESS_KEY, SECRET_KEY).presign(at, &Method::GET, &url, expires_seconds);
        Ask::new("GET", url.strip_prefix("http://gateway").unwrap()).plain()
    };
    refused(
        &sent(&world, presigned(0, now())).await.unwrap(),
        400,
        "AuthorizationQueryParametersError",
    );
    let wire = String::from_utf8(Ask::new("GET", "/b/pub/a").signed()).unwrap();
    let (before, signature) = wire.split_once("Signature=").unwrap();
    // A signature of 64 digits and no letter is practically impossible.
    let (digits, rest) = signature.split_at(64);
    let upper = format!("{}{rest}", digits.to_ascii_uppercase());
    let answer = sent(&world, format!("{before}Signature={upper}")).await.unwrap();
    refused(&answer, 403, "SignatureDoesNotMatch");
}

#[tokio::test]
async fn what_would_be_refused_can_be_seen_before() {
    let (world, heads) = world(false).await;
    let would_refuse = || world.gateway.stats().would_refuse.get();
    let put = || Ask::new("PUT", "/b/pub/a").with("x-amz-unheard-of", "1");
    assert_eq!(ask(world.address, put()).await.status, 200);
    assert!(heads.writes().concat().contains("x-amz-unheard-of: 1"));
    assert_eq!(would_refuse(), 1);
    assert_eq!(ask(world.address, Ask::new("PUT", "/b?unheard-of")).await.status, 200);
    assert_eq!((heads.of("PUT /b/?unheard-of").len(), would_refuse()), (1, 2));
    // The cache does not answer unknown operations.
    assert_eq!(get(world.address, "/b/pub/a").await.status, 200);
    let unheard_of = get(world.address, "/b/pub/a?unheard-of").await;
    assert_eq!((unheard_of.header("x-cache"), would_refuse()), ("BYPASS", 3));
    assert_eq!(heads.of("GET /b/pub/a?unheard-of").len(), 1);
    // Unknown headers do not loosen the rest: copy sources are parsed as strictly as ever.
    assert_eq!(get(world.address, "/b/pub/a").await.status, 200);
    let before = heads.writes().len();
    let copy = of_limited("PUT", "/b/pub/a").with("x-amz-unheard-of", "1");
    let copy = copy.with("x-amz-copy-source", "//b/private/a");
    refused(&ask(world.address, copy).await, 400, "InvalidArgument");
    refused(&ask(world.address, of_limited("PUT", "/b?unheard-of")).await, 403, "AccessDenied");
    assert_eq!(heads.writes().len(), before);
}
