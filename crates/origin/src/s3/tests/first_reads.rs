//! First reads of objects: one request, whatever the origin does.

use zonal_base::RangeSpec;

use super::*;

/// Head and bytes of the object, or the error. Without retries.
async fn read(
    answers: impl IntoIterator<Item = Answer>,
    range: RangeSpec,
) -> (Result<(ObjectHead, bool, Vec<u8>), OriginError>, Server) {
    let server = Server::start(answers).await;
    let origin = origin_with(&server, OriginLimits { retries: 0, ..limits() });
    (read_at(&origin, range).await, server)
}

async fn read_at(
    origin: &Origin,
    range: RangeSpec,
) -> Result<(ObjectHead, bool, Vec<u8>), OriginError> {
    let response = origin.get_object(&object(), &range, None).await?;
    let (head, is_complete) = (response.head, response.is_complete);
    Ok((head, is_complete, collect(response.body).await?))
}

fn whole() -> Answer {
    with_body("200 OK", "ETag: \"v1\"\r\nx-amz-meta-a: 1\r\n", "0123456789")
}

#[tokio::test]
async fn a_whole_object_is_one_request_with_checksums_and_without_a_range() {
    let (read, server) = read([whole()], RangeSpec::Whole).await;
    let (head, is_complete, bytes) = read.unwrap();
    assert_eq!((head.size, head.etag.as_deref(), is_complete), (10, Some("\"v1\""), true));
    assert_eq!((bytes, head.headers.len()), (b"0123456789".to_vec(), 1));
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].head.starts_with("GET /b/dir/a%20key HTTP/1.1\r\n"));
    assert_eq!(requests[0].header("x-amz-checksum-mode"), Some("ENABLED"));
    assert_eq!((requests[0].header("range"), requests[0].header("if-match")), (None, None));
}

#[tokio::test]
async fn a_range_is_one_request_without_checksums() {
    for (range, header) in
        [(RangeSpec::Int(2..6), "bytes=2-5"), (RangeSpec::Int(2..u64::MAX), "bytes=2-")]
    {
        let told = if header == "bytes=2-" { ("2-9", "23456789") } else { ("2-5", "2345") };
        let headers = format!("Content-Range: bytes {}/10\r\nETag: \"v1\"\r\n", told.0);
        let answer = with_body("206 Partial Content", &headers, told.1);
        let (read, server) = read([answer], range).await;
        let (head, is_complete, bytes) = read.unwrap();
        assert_eq!((head.size, is_complete, &*bytes), (10, false, told.1.as_bytes()));
        assert_eq!(server.requests()[0].header("range"), Some(header));
        assert_eq!(server.requests()[0].header("x-amz-checksum-mode"), None);
    }
}

#[tokio::test]
async fn an_origin_that_refuses_checksum_mode_is_asked_without_it_from_then_on() {
    let answers = [xml_error("501 Not Implemented", "NotImplemented"), whole(), whole()];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    for _ in 0..2 {
        assert_eq!(read_at(&origin, RangeSpec::Whole).await.unwrap().2, b"0123456789");
    }
    let modes: Vec<_> =
        server.requests().iter().map(|it| it.header("x-amz-checksum-mode").is_some()).collect();
    assert_eq!(modes, [true, false, false]);
}

/// MinIO and versitygw answer 416 without a size to a range of an empty object.
#[tokio::test]
async fn a_range_outside_the_object_is_no_bytes_and_its_head() {
    let outside = || with_body("416 Range Not Satisfiable", "", "");
    let head =
        |size: u64| answer("200 OK", &format!("Content-Length: {size}\r\nETag: \"v1\"\r\n"), "");
    let (range, checked) = (RangeSpec::Int(20..30), outside());
    let (seen, server) = read([outside(), head(0), checked], range.clone()).await;
    let (head_seen, is_complete, bytes) = seen.unwrap();
    assert_eq!((head_seen.size, is_complete, bytes.len()), (0, true, 0));
    assert!(server.requests()[1].head.starts_with("HEAD "));
    let (seen, _) = read([outside(), head(10)], range).await;
    assert_eq!(seen.unwrap().0.size, 10);
}

#[tokio::test]
async fn an_empty_object_is_one_request() {
    let (read, server) =
        read([with_body("200 OK", "ETag: \"v1\"\r\n", "")], RangeSpec::Whole).await;
    assert_eq!(read.unwrap().0.size, 0);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_missing_object_is_one_request() {
    let (read, server) = read([xml_error("404 Not Found", "NoSuchKey")], RangeSpec::Whole).await;
    assert!(matches!(read, Err(OriginError::NotFound(_))), "{read:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_origin_that_ignores_ranges_sends_the_whole_object() {
    let server = Server::start([whole()]).await;
    let origin = origin(&server);
    let response = origin.get_object(&object(), &RangeSpec::Int(2..6), None).await.unwrap();
    assert_eq!((response.range.clone(), response.is_complete), (0..10, false));
    assert_eq!(collect(response.body).await.unwrap(), b"0123456789");
}

#[tokio::test]
async fn a_chunked_answer_without_a_length_is_asked_for_by_size() {
    let chunked = answer(
        "200 OK",
        "ETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n",
        "a\r\n0123456789\r\n0\r\n\r\n",
    );
    let head = answer("200 OK", "Content-Length: 10\r\nETag: \"v1\"\r\n", "");
    let range = with_body(
        "206 Partial Content",
        "Content-Range: bytes 0-9/10\r\nETag: \"v1\"\r\n",
        "0123456789",
    );
    let (seen, server) = read([chunked, head, range], RangeSpec::Whole).await;
    assert_eq!(seen.unwrap().2, b"0123456789");
    assert_eq!(server.requests()[2].header("if-match"), Some("\"v1\""));
}

#[tokio::test]
async fn an_answer_without_an_etag_is_an_object_if_the_bucket_is_one() {
    let server = Server::start([with_body("200 OK", "", "0123456789"), good_list()]).await;
    let origin = Origin::from(s3_with(&server, limits()));
    let (head, _, bytes) = read_at(&origin, RangeSpec::Whole).await.unwrap();
    assert_eq!((head.etag, bytes), (None, b"0123456789".to_vec()));
    assert_eq!(server.requests().len(), 2, "the bucket was checked");
}

fn good_list() -> Answer {
    with_body("200 OK", "", "<?xml version=\"1.0\"?><LocationConstraint/>")
}

#[tokio::test]
async fn an_object_that_google_decompresses_is_refused_in_words() {
    let stored = "x-goog-stored-content-encoding: gzip\r\nETag: \"v1\"\r\n";
    let (seen, _) = read([with_body("200 OK", stored, "0123")], RangeSpec::Whole).await;
    let text = seen.unwrap_err().to_string();
    assert!(text.contains("gcs:"), "{text}");
    // Google sends the object in chunks, without a length.
    let chunked = format!("{stored}Transfer-Encoding: chunked\r\n");
    let chunked = answer("200 OK", &chunked, "4\r\n0123\r\n0\r\n\r\n");
    let (seen, server) = read([chunked], RangeSpec::Whole).await;
    assert!(seen.unwrap_err().to_string().contains("gcs:"));
    assert_eq!(server.requests().len(), 1);
    let stored = format!("{stored}Content-Encoding: gzip\r\n");
    let (seen, _) = read([with_body("200 OK", &stored, "0123")], RangeSpec::Whole).await;
    assert_eq!(seen.unwrap().2, b"0123");
}
