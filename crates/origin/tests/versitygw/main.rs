//! A round trip through a real S3 server, if its binary is found: `ZONAL_VERSITYGW`, the `PATH`, or
//! `.tools/bin` of the repository. The server verifies every signature that Zonal makes.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod server;

use http::Request;
use http_body_util::BodyExt;
use server::{SECRET_KEY, VersityGw};
use zonal_origin::conformance::{self, Subject};
use zonal_origin::{ObjectName, Origin, OriginError};
use zonal_s3::full_body;
use zonal_s3::sigv4::{encode_path, sha256_hex};

/// Forwards a request. Returns the status and the body of its answer.
async fn send(origin: &Origin, request: http::request::Builder, body: &str) -> (u16, String) {
    let request = request.header("content-length", body.len()).body(full_body(body.to_owned()));
    let response = origin.forward(request.unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(
    origin: &Origin,
    object: &ObjectName,
    range: std::ops::Range<u64>,
    etag: Option<&str>,
) -> Result<Vec<u8>, OriginError> {
    let mut body = origin.get(object, range, etag).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

fn object(key: &str) -> ObjectName {
    ObjectName::new("bucket", key)
}

#[tokio::test]
async fn a_real_server_accepts_what_we_sign_and_we_accept_what_it_answers() {
    let Some(server) = VersityGw::start("round-trip").await else { return };
    let origin = server.origin(SECRET_KEY);
    assert_eq!(send(&origin, Request::put("/bucket"), "").await.0, 200);
    let contents: String = (0..200_000).map(|n| format!("{n:06} ")).collect();
    let put = Request::put("/bucket/dir/a%20key%20%2B%20%C3%A9.txt")
        .header("content-type", "text/plain")
        .header("x-amz-meta-owner", "me")
        .header("x-amz-content-sha256", sha256_hex(contents.as_bytes()));
    assert_eq!(send(&origin, put, &contents).await.0, 200);

    let name = object("dir/a key + é.txt");
    let head = origin.head(&name).await.unwrap();
    assert_eq!(head.size, 1_400_000);
    assert!(head.headers.contains(&("x-amz-meta-owner".into(), "me".parse().unwrap())));
    assert!(head.headers.contains(&("content-type".into(), "text/plain".parse().unwrap())));
    let etag = head.etag.as_deref();
    let bytes = get(&origin, &name, 0..head.size, etag).await.unwrap();
    assert!(bytes == contents.as_bytes());
    assert_eq!(get(&origin, &name, 7..13, etag).await.unwrap(), b"000001");

    let put = Request::put("/bucket/dir/a%20key%20%2B%20%C3%A9.txt");
    assert_eq!(send(&origin, put, "new").await.0, 200);
    assert_eq!(get(&origin, &name, 0..1, etag).await, Err(OriginError::Changed));
    assert_eq!(get(&origin, &name, 3..4, None).await, Err(OriginError::RangeNotSatisfiable));

    let (status, xml) =
        send(&origin, Request::get("/bucket?list-type=2&prefix=dir/a%20key&delimiter="), "").await;
    assert!(status == 200 && xml.contains("<Key>dir/a key + é.txt</Key>"), "{xml}");
    let delete = Request::delete("/bucket/dir/a%20key%20%2B%20%C3%A9.txt");
    assert_eq!(send(&origin, delete, "").await.0, 204);
    assert!(matches!(origin.head(&name).await, Err(OriginError::NotFound(_))));
    assert!(matches!(get(&origin, &name, 0..1, None).await, Err(OriginError::NotFound(_))));
}

#[tokio::test]
async fn a_real_server_keeps_what_every_origin_promises() {
    let Some(server) = VersityGw::start("conformance").await else { return };
    let origin = server.origin(SECRET_KEY);
    assert_eq!(send(&origin, Request::put("/bucket"), "").await.0, 200);
    let put = async |key: &str, bytes: &[u8]| {
        let request = Request::put(format!("/bucket/{}", encode_path(key)));
        let request = request.header("content-length", bytes.len());
        let answer = origin.forward(request.body(full_body(bytes.to_vec())).unwrap()).await;
        assert_eq!(answer.unwrap().status(), 200, "{key}");
    };
    let subject = Subject { origin: &origin, bucket: "bucket", put };
    conformance::reads(&subject).await;
    conformance::lists(&subject).await;
}

#[tokio::test]
async fn every_kind_of_payload_arrives() {
    let Some(server) = VersityGw::start("payloads").await else { return };
    let origin = server.origin(SECRET_KEY);
    assert_eq!(send(&origin, Request::put("/bucket"), "").await.0, 200);
    let zeros = "0".repeat(64);
    // The CRC-32 of "hello"; the server refuses any other.
    let trailer = "x-amz-checksum-crc32:NhCmhg==";
    let signed = format!("5;chunk-signature={zeros}\r\nhello\r\n0;chunk-signature={zeros}\r\n");
    for (key, hash, body) in [
        ("plain", "UNSIGNED-PAYLOAD", "hello".to_owned()),
        (
            "unsigned-trailer",
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            format!("5\r\nhello\r\n0\r\n{trailer}\r\n\r\n"),
        ),
        ("signed", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", format!("{signed}\r\n")),
        (
            "signed-trailer",
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            format!("{signed}{trailer}\r\nx-amz-trailer-signature:{zeros}\r\n\r\n"),
        ),
    ] {
        let mut put = Request::put(format!("/bucket/{key}")).header("x-amz-content-sha256", hash);
        if hash.starts_with("STREAMING") {
            put = put
                .header("content-encoding", "aws-chunked")
                .header("x-amz-decoded-content-length", "5");
        }
        if hash.ends_with("TRAILER") {
            put = put
                .header("x-amz-trailer", "x-amz-checksum-crc32")
                .header("x-amz-sdk-checksum-algorithm", "CRC32");
        }
        let (status, text) = send(&origin, put, &body).await;
        assert_eq!(status, 200, "{key}: {text}");
        assert_eq!(get(&origin, &object(key), 0..5, None).await.unwrap(), b"hello", "{key}");
        if hash.ends_with("TRAILER") {
            let head = origin.head(&object(key)).await.unwrap();
            let checksum = ("x-amz-checksum-crc32".to_owned(), "NhCmhg==".parse().unwrap());
            assert!(head.headers.contains(&checksum), "{key}: {:?}", head.headers);
        }
    }
}

#[tokio::test]
async fn a_multipart_upload_passes_through() {
    let Some(server) = VersityGw::start("multipart").await else { return };
    let origin = server.origin(SECRET_KEY);
    assert_eq!(send(&origin, Request::put("/bucket"), "").await.0, 200);
    let (status, xml) = send(&origin, Request::post("/bucket/large?uploads"), "").await;
    assert_eq!(status, 200, "{xml}");
    let (_, rest) = xml.split_once("<UploadId>").unwrap();
    let (id, _) = rest.split_once("</UploadId>").unwrap();
    let part = "x".repeat(5 << 20);
    let uri = format!("/bucket/large?partNumber=1&uploadId={id}");
    let put = Request::put(uri).header("content-length", part.len());
    let response = origin.forward(put.body(full_body(part.clone())).unwrap()).await.unwrap();
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let uri = format!("/bucket/large?uploadId={id}");
    let (status, xml) = send(&origin, Request::post(uri), &list).await;
    assert_eq!(status, 200, "{xml}");
    let size = part.len() as u64;
    assert!(get(&origin, &object("large"), 0..size, None).await.unwrap() == part.as_bytes());
}

#[tokio::test]
async fn a_wrong_key_is_denied() {
    let Some(server) = VersityGw::start("keys").await else { return };
    let wrong = server.origin("another secret");
    assert!(matches!(wrong.head(&object("k")).await, Err(OriginError::Denied(_))));
    assert!(matches!(wrong.probe().await, Err(OriginError::CredentialsRejected(_))));
}
