//! Writes through the folder's own interface: uploads, removals, and what is refused.

use http::StatusCode;
use zonal_s3::S3Error;

use super::*;

#[tokio::test]
async fn every_write_is_another_version_even_of_the_same_bytes_at_once() {
    let folder = Fixture::new();
    let mut etags = Vec::new();
    for _ in 0..20 {
        etags.push(folder.put("k", "same", &[]).await.1);
    }
    for _ in 0..5 {
        folder.write("k", "same");
        etags.push(folder.etag("k").await);
    }
    let written = etags.len();
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), written);
}

#[tokio::test]
async fn keys_that_leave_the_folder_are_refused() {
    let folder = Fixture::with(&["k"]);
    fs::write(folder.root.join("secret"), "secret").unwrap();
    for key in ["../secret", "a/../../secret", "..", "/etc/passwd", "a\0b", "./k"] {
        let result = folder.get(key, 0..1, None).await;
        assert!(matches!(result, Err(OriginError::Failed(_))), "{key:?}: {result:?}");
    }
    for path in ["/b/..%2fsecret", "/b/%2e%2e/secret", "/b//etc/passwd", "/b/a%00b"] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let (status, xml) = folder.ask(method.clone(), path).await;
            let code = zonal_s3::xml::first_text(&xml, "Code");
            assert_eq!(
                (status, code.as_deref()),
                (400, Some("InvalidArgument")),
                "{method} {path}"
            );
        }
    }
    assert_eq!(folder.ask(Method::GET, "/..%2fsecret").await.0, 404);
    assert!(folder.root.join("secret").exists());
}

#[tokio::test]
async fn an_upload_is_whole_or_not_at_all() {
    let folder = Fixture::with(&["k"]);
    let wrong = Request::put("/b/k").header("x-amz-content-sha256", sha256_hex(b"another"));
    let result = folder.origin.forward(wrong.body(full_body("body")).unwrap()).await.map(|_| ());
    let mismatch = "XAmzContentSHA256Mismatch";
    assert!(
        matches!(result, Err(OriginError::InvalidRequest(S3Error { code, .. })) if code == mismatch)
    );
    let short = Request::put("/b/k").header("content-length", "5").body(full_body("body")).unwrap();
    let result = folder.origin.forward(short).await.map(|_| ());
    assert!(matches!(result, Err(OriginError::InvalidRequest(_))));
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
    let right_hash = [("x-amz-content-sha256", &*sha256_hex(b"body"))];
    assert_eq!(folder.put("k", "body", &right_hash).await.0, 200);
    assert_eq!(folder.get("k", 0..4, None).await.unwrap(), b"body");
    assert_eq!(fs::read_dir(folder.root.join("b").join(path::UPLOADS)).unwrap().count(), 0);
}

#[tokio::test]
async fn chunked_uploads_are_decoded() {
    let folder = Fixture::new();
    let body = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let headers = [
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", "5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    assert_eq!(folder.put("k", body, &headers).await.0, 200);
    assert_eq!(folder.get("k", 0..5, None).await.unwrap(), b"hello");
}

/// The checksum in a header was not verified. Clients without TLS put it there.
#[tokio::test]
async fn an_upload_with_another_checksum_than_its_header_says_is_not_stored() {
    let folder = Fixture::new();
    for (body, value, expected) in [
        ("123456780", "y/Q5Jg==", Err("BadDigest")),
        ("", "y/Q5Jg==", Err("BadDigest")),
        ("123456789", "y/Q5Jg==", Ok(200)),
        ("", "AAAAAA==", Ok(200)),
    ] {
        let put = Request::put("/b/k").header("x-amz-checksum-crc32", value);
        let answer = folder.origin.forward(put.body(full_body(body)).unwrap()).await;
        match answer {
            Err(OriginError::InvalidRequest(S3Error {
                status: StatusCode::BAD_REQUEST,
                code,
                ..
            })) => {
                assert_eq!(Err(code), expected, "{body:?}");
                assert!(!folder.root.join("b/k").exists());
            }
            other => assert_eq!(Ok(other.unwrap().status().as_u16()), expected, "{body:?}"),
        }
    }
}

/// The checksum in a trailer was not verified, so corrupt uploads were stored.
#[tokio::test]
async fn an_upload_with_another_checksum_than_its_trailer_says_is_not_stored() {
    let folder = Fixture::new();
    let upload = |name: &str, body: String| {
        let put = Request::put("/b/k")
            .header("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header("x-amz-decoded-content-length", "9")
            .header("x-amz-trailer", name);
        folder.origin.forward(put.body(full_body(body)).unwrap())
    };
    for (name, value) in [
        ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
        ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
    ] {
        for (payload, trailer, expected) in [
            ("123456780", format!("{name}:{value}"), "BadDigest"),
            ("123456789", format!("{name}:A{}", &value[1..]), "BadDigest"),
            ("123456789", "x-amz-meta-other:1".to_owned(), "MalformedTrailerError"),
        ] {
            let body = format!("9\r\n{payload}\r\n0\r\n{trailer}\r\n\r\n");
            match upload(name, body).await {
                Err(OriginError::InvalidRequest(S3Error {
                    status: StatusCode::BAD_REQUEST,
                    code,
                    ..
                })) => assert_eq!(code, expected),
                other => panic!("{trailer}: {other:?}"),
            }
        }
        assert!(!folder.root.join("b/k").exists(), "{name}");
        let body = format!("9\r\n123456789\r\n0\r\n{name}:{value}\r\n\r\n");
        assert_eq!(upload(name, body).await.unwrap().status(), 200, "{name}");
        assert_eq!(folder.get("k", 0..9, None).await.unwrap(), b"123456789");
        fs::remove_file(folder.root.join("b/k")).unwrap();
    }
    assert_eq!(fs::read_dir(folder.root.join("b").join(path::UPLOADS)).unwrap().count(), 0);
}

#[tokio::test]
async fn conditions_of_an_upload_are_kept() {
    let folder = Fixture::new();
    assert_eq!(folder.put("k", "1", &[("if-match", "*")]).await.0, 412);
    let (status, first) = folder.put("k", "1", &[("if-none-match", "*")]).await;
    assert_eq!(status, 200);
    assert_eq!(folder.put("k", "2", &[("if-none-match", "*")]).await.0, 412);
    assert_eq!(folder.put("k", "2", &[("if-match", &first)]).await.0, 200);
    assert_eq!(folder.put("k", "3", &[("if-match", &first)]).await.0, 412);
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"2");
}

#[tokio::test]
async fn of_uploads_that_must_be_the_first_one_wins() {
    let folder = Fixture::new();
    let put = |body: &'static str| folder.put("k", body, &[("if-none-match", "*")]);
    let (a, b, c) = tokio::join!(put("a"), put("b"), put("c"));
    let mut statuses = [a.0, b.0, c.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412]);
}

#[tokio::test]
async fn names_that_a_folder_has_no_place_for_are_refused() {
    let folder = Fixture::with(&["file", "dir/k"]);
    for key in ["file/below", "dir", "dir/", "a//b"] {
        let (status, xml) = folder.put(key, "body", &[]).await;
        assert_eq!(status, 400, "{key}: {xml}");
    }
    assert_eq!(folder.get("dir/k", 0..1, None).await.unwrap(), b"d");
}

#[tokio::test]
async fn a_removal_takes_empty_folders_along_and_is_no_error_twice() {
    let folder = Fixture::with(&["a/b/c/k", "a/other"]);
    for _ in 0..2 {
        assert_eq!(folder.ask(Method::DELETE, "/b/a/b/c/k").await.0, 204);
    }
    assert!(!folder.root.join("b/a/b").exists());
    assert_eq!(folder.ask(Method::DELETE, "/b/a").await.0, 204);
    assert_eq!(folder.list("list-type=2").await.0, ["a/other"]);
    assert_eq!(folder.ask(Method::DELETE, "/b/a/other").await.0, 204);
    assert!(folder.root.join("b").exists());
    assert_eq!(folder.ask(Method::DELETE, "/none/k").await.0, 404);
}

#[tokio::test]
async fn uploads_and_removals_side_by_side_all_succeed() {
    let folder = Fixture::new();
    let work = (0..40).map(|n| {
        let folder = &folder;
        async move {
            let key = format!("dir/{}/k", n % 4);
            assert_eq!(folder.put(&key, "body", &[]).await.0, 200);
            assert_eq!(folder.ask(Method::DELETE, &format!("/b/{key}")).await.0, 204);
        }
    });
    let mut work: Vec<_> = work.map(Box::pin).collect();
    // The futures are polled in turn, like tasks of one thread.
    while !work.is_empty() {
        let mut open = Vec::new();
        for mut one in work {
            let step = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(one.as_mut().poll(cx).is_pending())
            });
            if step.await {
                open.push(one);
            }
        }
        work = open;
        tokio::task::yield_now().await;
    }
    assert_eq!(folder.list("list-type=2").await.0, Vec::<String>::new());
}

#[tokio::test]
async fn everything_else_is_not_implemented_and_changes_nothing() {
    let folder = Fixture::with(&["k"]);
    for (method, uri) in [
        (Method::GET, "/b?uploads"),
        (Method::POST, "/b/k?uploads&acl"),
        (Method::PUT, "/b/k?uploadId=1&acl"),
        (Method::GET, "/b/k?uploads"),
        (Method::POST, "/b?delete"),
        (Method::PUT, "/b/k?acl"),
        (Method::GET, "/b/k?versionId=1"),
        (Method::GET, "/b?versions"),
        (Method::PUT, "/new?acl"),
        (Method::DELETE, "/b"),
        (Method::DELETE, "/none"),
        (Method::PUT, "/"),
    ] {
        let (status, xml) = folder.ask(method.clone(), uri).await;
        assert_eq!(status, 501, "{method} {uri}: {xml}");
    }
    assert_eq!(folder.put("copy", "", &[("x-amz-copy-source", "/b/k")]).await.0, 501);
    assert_eq!(folder.list("list-type=2").await.0, ["k"]);
}

#[tokio::test]
async fn left_overs_of_dead_uploads_are_removed_a_day_later() {
    let folder = Fixture::new();
    let uploads = folder.root.join("b").join(path::UPLOADS);
    fs::create_dir_all(&uploads).unwrap();
    for (name, age) in [("old", 2 * 86_400), ("young", 60)] {
        let file = fs::File::create(uploads.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    FolderOrigin::open(folder.root.clone(), &OriginLimits::default()).unwrap();
    assert!(!uploads.join("old").exists() && uploads.join("young").exists());
}
