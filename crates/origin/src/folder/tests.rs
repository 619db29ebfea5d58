//! The folder origin through its own interface: reads, writes, lists.

mod multipart;

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;

use super::*;
use crate::body::{BoxBody, OriginBody, full_body};
use crate::error::OriginError;
use crate::object::ObjectName;
use crate::sigv4::sha256_hex;

/// A folder with one bucket `b`, removed at the end.
struct Fixture {
    root: PathBuf,
    origin: FolderOrigin,
}

impl Fixture {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zonal-folder-test-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("b")).unwrap();
        let origin = FolderOrigin::open(root.clone(), &Limits::default()).unwrap();
        Self { root, origin }
    }

    fn with(keys: &[&str]) -> Self {
        let fixture = Self::new();
        for key in keys {
            fixture.write(key, key);
        }
        fixture
    }

    /// Writes a file as another program would.
    fn write(&self, key: &str, contents: &str) {
        let path = self.root.join("b").join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<Vec<u8>, OriginError> {
        collect(self.origin.get(&object(key), range, if_match).await?).await
    }

    async fn etag(&self, key: &str) -> String {
        self.origin.head(&object(key)).await.unwrap().etag.unwrap()
    }

    async fn send(&self, request: Request<BoxBody>) -> (u16, String, Response<()>) {
        let response = self.origin.forward(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        (parts.status.as_u16(), body, Response::from_parts(parts, ()))
    }

    async fn ask(&self, method: Method, uri: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(uri).body(full_body("")).unwrap();
        let (status, body, _) = self.send(request).await;
        (status, body)
    }

    /// Puts an object; the status and the ETag.
    async fn put(&self, key: &str, body: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = Request::put(format!("/b/{key}")).header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(full_body(body.to_owned())).unwrap();
        let (status, text, response) = self.send(request).await;
        let etag = response.headers().get("etag");
        (status, etag.map_or(text, |etag| etag.to_str().unwrap().to_owned()))
    }

    /// The keys and common prefixes of a page, and its token if there are more.
    async fn list(&self, query: &str) -> (Vec<String>, Option<String>) {
        let (status, xml) = self.ask(Method::GET, &format!("/b/?{query}")).await;
        assert_eq!(status, 200, "{xml}");
        let (_, contents) = xml.split_once("</IsTruncated>").unwrap();
        let mut names = Vec::new();
        for part in contents.split("<Contents>").flat_map(|part| part.split("<CommonPrefixes>")) {
            let key = part.strip_prefix("<Key>").or_else(|| part.strip_prefix("<Prefix>"));
            names.extend(key.map(|key| key.split('<').next().unwrap().to_owned()));
        }
        let token = crate::xml::first_text(&xml, "NextContinuationToken")
            .or_else(|| crate::xml::first_text(&xml, "NextMarker"));
        assert_eq!(token.is_some(), xml.contains("<IsTruncated>true<"), "{xml}");
        (names, token)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

fn object(key: &str) -> ObjectName {
    ObjectName { bucket: "b".into(), key: key.into() }
}

async fn collect(mut body: OriginBody) -> Result<Vec<u8>, OriginError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_file_is_an_object_with_a_strong_etag() {
    let folder = Fixture::with(&["dir/a b.json"]);
    let head = folder.origin.head(&object("dir/a b.json")).await.unwrap();
    assert_eq!(head.size, 12);
    let etag = head.etag.unwrap();
    assert!(etag.starts_with('"') && etag.ends_with("-1\""), "{etag}");
    assert!(head.last_modified.unwrap().ends_with(" GMT"));
    assert_eq!(head.headers, [("content-type".into(), "application/json".into())]);
    assert_eq!(folder.get("dir/a b.json", 4..7, Some(&etag)).await.unwrap(), b"a b");
    let stats = folder.origin.stats();
    assert_eq!((stats.heads.get(), stats.gets.get(), stats.received_bytes.get()), (1, 1, 3));
}

#[tokio::test]
async fn a_large_file_comes_in_pieces_and_whole() {
    let folder = Fixture::new();
    let contents: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.root.join("b/large"), &contents).unwrap();
    let size = contents.len() as u64;
    assert!(folder.get("large", 0..size, None).await.unwrap() == contents);
    assert!(
        folder.get("large", 1..size - 1, None).await.unwrap() == contents[1..contents.len() - 1]
    );
    let mut body = folder.origin.get(&object("large"), 0..size, None).await.unwrap();
    assert_eq!(body.object_size(), Some(size));
    let first = body.next().await.unwrap().unwrap();
    assert_eq!(body.missing_bytes(), size - first.len() as u64);
}

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
async fn the_etag_of_an_upload_is_the_one_that_head_and_list_show() {
    let folder = Fixture::new();
    let (status, etag) = folder.put("a/k", "body", &[]).await;
    assert_eq!((status, folder.etag("a/k").await), (200, etag.clone()));
    let (_, xml) = folder.ask(Method::GET, "/b?list-type=2").await;
    assert_eq!(crate::xml::first_text(&xml, "ETag").unwrap(), etag);
    assert_eq!(folder.get("a/k", 0..4, Some(&etag)).await.unwrap(), b"body");
}

#[tokio::test]
async fn another_version_or_size_than_asked_for_is_changed() {
    let folder = Fixture::with(&["0123456789"]);
    let key = "0123456789";
    let etag = folder.etag(key).await;
    folder.write(key, "9876543210");
    assert_eq!(folder.get(key, 0..5, Some(&etag)).await, Err(OriginError::Changed));
    assert_eq!(folder.get(key, 5..11, None).await, Err(OriginError::Changed));
    assert_eq!(folder.get(key, 10..11, None).await, Err(OriginError::RangeNotSatisfiable));
}

#[tokio::test]
async fn an_open_object_stays_its_version_when_it_is_replaced() {
    let folder = Fixture::new();
    let old = "old ".repeat(200_000);
    folder.write("k", &old);
    let mut body = folder.origin.get(&object("k"), 0..800_000, None).await.unwrap();
    let first = body.next().await.unwrap().unwrap();
    let new = "new ".repeat(200_000);
    assert_eq!(folder.put("k", &new, &[]).await.0, 200);
    let rest = collect(body).await.unwrap();
    assert_eq!([first.to_vec(), rest].concat(), old.as_bytes());
    assert_eq!(folder.get("k", 0..800_000, None).await.unwrap(), new.as_bytes());
}

#[tokio::test]
async fn a_file_that_is_written_while_it_is_read_fails_the_body() {
    for changed in ["new ".repeat(200_000), "shorter".to_owned()] {
        let folder = Fixture::new();
        folder.write("k", &"old ".repeat(200_000));
        let mut body = folder.origin.get(&object("k"), 0..800_000, None).await.unwrap();
        body.next().await.unwrap().unwrap();
        folder.write("k", &changed);
        assert_eq!(collect(body).await, Err(OriginError::Changed));
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found_by_bucket_or_key() {
    let folder = Fixture::with(&["dir/k"]);
    let code = |result: Result<_, OriginError>| match result {
        Err(OriginError::NotFound(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    };
    for key in ["none", "dir", "dir/", "dir/k/", "dir/k/below", "a//b"] {
        assert_eq!(code(folder.origin.head(&object(key)).await), "NoSuchKey", "{key}");
    }
    for bucket in ["none", "..", "."] {
        let elsewhere = ObjectName { bucket: bucket.into(), key: "b/dir/k".into() };
        assert_eq!(code(folder.origin.head(&elsewhere).await), "NoSuchBucket", "{bucket}");
    }
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
            let code = crate::xml::first_text(&xml, "Code");
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
    assert!(matches!(result, Err(OriginError::BadUpload { code, .. }) if code == mismatch));
    let short = Request::put("/b/k").header("content-length", "5").body(full_body("body")).unwrap();
    let result = folder.origin.forward(short).await.map(|_| ());
    assert!(matches!(result, Err(OriginError::BadUpload { .. })));
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

/// Nobody compared the checksum in a trailer: what a client had sent wrongly was stored.
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
            ("123456789", "x-amz-meta-other:1".to_owned(), "InvalidRequest"),
        ] {
            let body = format!("9\r\n{payload}\r\n0\r\n{trailer}\r\n\r\n");
            match upload(name, body).await {
                Err(OriginError::BadUpload { status: 400, code, .. }) => assert_eq!(code, expected),
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
    // Polled in turn, as tasks of one thread would be.
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
async fn a_read_through_forward_is_what_s3_answers() {
    let folder = Fixture::with(&["0123456789.txt"]);
    let etag = folder.etag("0123456789.txt").await;
    let get = |header: &'static str, value: &str| {
        let request = Request::get("/b/0123456789.txt").header(header, value);
        request.body(full_body("")).unwrap()
    };
    let (status, body, response) = folder.send(get("range", "bytes=2-4")).await;
    assert_eq!((status, body.as_str()), (206, "234"));
    assert_eq!(response.headers()["content-range"], "bytes 2-4/14");
    assert_eq!(response.headers()["content-type"], "text/plain");
    assert_eq!(response.headers()["content-length"], "3");
    assert_eq!(response.headers()["etag"], etag);
    let (status, body, _) = folder.send(get("accept", "*/*")).await;
    assert_eq!((status, body.as_str()), (200, "0123456789.txt"));
    assert_eq!(folder.send(get("range", "bytes=14-")).await.0, 416);
    assert_eq!(folder.send(get("if-match", "\"other\"")).await.0, 412);
    let (status, body, _) = folder.send(get("if-none-match", &etag)).await;
    assert_eq!((status, body.as_str()), (304, ""));
    assert_eq!(folder.ask(Method::GET, "/b/none").await.0, 404);
    let head = Request::head("/b/0123456789.txt").body(full_body("")).unwrap();
    let (status, body, response) = folder.send(head).await;
    assert_eq!((status, body.as_str()), (200, ""));
    assert_eq!(response.headers()["content-length"], "14");
    assert_eq!(folder.ask(Method::HEAD, "/b/none").await, (404, String::new()));
}

/// The folder judged conditions and ranges by rules of its own: a weak tag met If-Match, a comma split a tag in
/// two, dates and If-Range were passed over, and DELETE removed whatever was there.
#[tokio::test]
async fn the_same_conditions_hold_whoever_judges_them() {
    let folder = Fixture::with(&["k"]);
    folder.write("empty", "");
    let etag = folder.etag("k").await;
    let ask = async |method: Method, key: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder().method(method).uri(format!("/b/{key}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        folder.send(request.body(full_body("")).unwrap()).await.0
    };
    let weak = format!("W/{etag}");
    let listed = format!("\"a,{}\"", etag.trim_matches('"'));
    let (past, range) = ("Sat, 01 Jan 2000 00:00:00 GMT", ("range", "bytes=0-0"));
    for method in [Method::GET, Method::DELETE] {
        for wrong in [&weak, &listed, "\"other\""] {
            assert_eq!(ask(method.clone(), "k", &[("if-match", wrong)]).await, 412, "{wrong}");
        }
    }
    assert_eq!(ask(Method::GET, "k", &[("if-none-match", &weak)]).await, 304);
    assert_eq!(ask(Method::GET, "k", &[("if-unmodified-since", past)]).await, 412);
    assert_eq!(ask(Method::GET, "k", &[range, ("if-range", &etag)]).await, 206);
    assert_eq!(ask(Method::GET, "k", &[range, ("if-range", "\"other\"")]).await, 200);
    assert_eq!(ask(Method::GET, "empty", &[("range", "bytes=-1")]).await, 200);
    assert_eq!(ask(Method::DELETE, "none", &[("if-match", "*")]).await, 412);
    assert_eq!(ask(Method::DELETE, "k", &[("if-match", &etag)]).await, 204);
    assert_eq!(ask(Method::GET, "k", &[]).await, 404);
}

#[tokio::test]
async fn keys_are_listed_in_the_order_of_their_bytes() {
    let mut keys = ["a/b", "a-b", "a.b", "a0", "a/b/c.x", "a/b-c", "Z", "é", "b/c/d/e"];
    let keys_without_conflict: Vec<&str> =
        keys.iter().copied().filter(|key| *key != "a/b").collect();
    let folder = Fixture::with(&keys_without_conflict);
    keys.sort_unstable();
    let sorted: Vec<&str> = keys.iter().copied().filter(|key| *key != "a/b").collect();
    for query in ["list-type=2", "", "list-type=2&max-keys=1000&fetch-owner=true"] {
        assert_eq!(
            folder.list(query).await,
            (sorted.iter().map(ToString::to_string).collect(), None)
        );
    }
}

#[tokio::test]
async fn a_prefix_is_a_string_and_a_delimiter_groups() {
    let folder = Fixture::with(&["a/1", "a/2", "a/b/3", "ab", "b/4", "c"]);
    #[track_caller]
    fn names(expected: &[&str]) -> (Vec<String>, Option<String>) {
        (expected.iter().map(ToString::to_string).collect(), None)
    }
    let list = |query: &'static str| folder.list(query);
    assert_eq!(list("list-type=2&prefix=a").await, names(&["a/1", "a/2", "a/b/3", "ab"]));
    assert_eq!(list("list-type=2&prefix=a/").await, names(&["a/1", "a/2", "a/b/3"]));
    assert_eq!(list("list-type=2&prefix=a/b/").await, names(&["a/b/3"]));
    assert_eq!(list("list-type=2&prefix=x/y").await, names(&[]));
    assert_eq!(list("list-type=2&prefix=../").await, names(&[]));
    assert_eq!(list("list-type=2&delimiter=/").await, names(&["a/", "ab", "b/", "c"]));
    assert_eq!(list("delimiter=/&prefix=a/").await, names(&["a/1", "a/2", "a/b/"]));
    assert_eq!(list("delimiter=/&prefix=a").await, names(&["a/", "ab"]));
    assert_eq!(list("delimiter=b").await, names(&["a/1", "a/2", "a/b", "ab", "b", "c"]));
    assert_eq!(list("list-type=2&start-after=a/2").await, names(&["a/b/3", "ab", "b/4", "c"]));
    assert_eq!(list("marker=ab").await, names(&["b/4", "c"]));
    assert_eq!(list("marker=a/&delimiter=/").await, names(&["ab", "b/", "c"]));
    assert_eq!(list("list-type=2&max-keys=0").await, names(&[]));
}

#[tokio::test]
async fn pages_of_any_size_hold_every_entry_once() {
    let folder = Fixture::with(&["a/1", "a/2", "a/b/3", "ab", "b/4", "b/c/5", "c", "d e&f"]);
    for query in ["", "&delimiter=/", "&delimiter=b", "&prefix=a", "&prefix=b/&delimiter=/"] {
        let whole = folder.list(&format!("list-type=2{query}")).await.0;
        for max_keys in 1..4 {
            for (version, name) in [("list-type=2", "continuation-token"), ("x-id=1", "marker")] {
                let mut entries = Vec::new();
                let mut token = String::new();
                loop {
                    let query = format!("{version}{query}&max-keys={max_keys}{token}");
                    let (page, next) = folder.list(&query).await;
                    assert!(page.len() <= max_keys);
                    entries.extend(page);
                    let Some(next) = next else { break };
                    token = format!("&{name}={}", crate::sigv4::encode_query_value(&next));
                }
                assert_eq!(entries, whole, "{version}{query} in pages of {max_keys}");
            }
        }
    }
}

#[tokio::test]
async fn names_that_xml_cannot_hold_are_encoded_on_demand() {
    let folder = Fixture::with(&["d/a b+<&>\u{1}é"]);
    let encoded = folder.list("list-type=2&encoding-type=url&prefix=d/").await.0;
    assert_eq!(encoded, ["d/a%20b%2B%3C%26%3E%01%C3%A9"]);
    assert_eq!(folder.list("list-type=2").await.0, ["d/a b+&lt;&amp;&gt;&#x1;é"]);
}

#[tokio::test]
async fn what_is_no_key_is_not_listed() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Fixture::with(&["k", "dir/k"]);
    let bucket = folder.root.join("b");
    fs::create_dir_all(bucket.join("empty/below")).unwrap();
    fs::create_dir_all(bucket.join(path::UPLOADS)).unwrap();
    fs::write(bucket.join(path::UPLOADS).join("1-1"), "unfinished").unwrap();
    fs::write(bucket.join(std::ffi::OsStr::from_bytes(b"not-utf8-\xff")), "").unwrap();
    std::os::unix::fs::symlink(&bucket, bucket.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", bucket.join("broken")).unwrap();
    std::os::unix::fs::symlink("k", bucket.join("link")).unwrap();
    assert_eq!(folder.list("list-type=2").await.0, ["dir/k", "k", "link"]);
    assert_eq!(folder.list("list-type=2&delimiter=/").await.0, ["dir/", "k", "link"]);
    assert_eq!(folder.get("link", 0..1, None).await.unwrap(), b"k");
    assert_eq!(folder.ask(Method::GET, "/b/.zonal-uploads/1-1").await.0, 404);
}

#[tokio::test]
async fn buckets_are_the_first_level_folders() {
    let folder = Fixture::with(&["k"]);
    fs::create_dir(folder.root.join("another")).unwrap();
    fs::create_dir(folder.root.join(".hidden")).unwrap();
    fs::write(folder.root.join("file"), "").unwrap();
    let (status, xml) = folder.ask(Method::GET, "/").await;
    assert_eq!(status, 200);
    let names: Vec<&str> =
        xml.split("<Name>").skip(1).map(|n| n.split('<').next().unwrap()).collect();
    assert_eq!(names, ["another", "b"]);
    assert_eq!(folder.ask(Method::HEAD, "/b").await.0, 200);
    assert_eq!(folder.ask(Method::HEAD, "/file").await.0, 404);
    assert_eq!(folder.ask(Method::HEAD, "/.hidden").await.0, 404);
    let (status, xml) = folder.ask(Method::GET, "/b?location").await;
    assert!(status == 200 && xml.contains("<LocationConstraint"), "{xml}");
    assert_eq!(folder.ask(Method::GET, "/none?location").await.0, 404);
}

/// `aws s3 mb` was told that the bucket it wanted to make was not there.
#[tokio::test]
async fn a_bucket_is_made_once() {
    let folder = Fixture::with(&["k"]);
    fs::write(folder.root.join("file"), "").unwrap();
    assert_eq!(folder.ask(Method::PUT, "/new").await, (200, String::new()));
    assert_eq!(folder.ask(Method::HEAD, "/new").await.0, 200);
    for (path, status, code) in [
        ("/new", 409, "BucketAlreadyOwnedByYou"),
        ("/b/", 409, "BucketAlreadyOwnedByYou"),
        ("/file", 400, "InvalidBucketName"),
        ("/.hidden", 400, "InvalidBucketName"),
        ("/..", 400, "InvalidBucketName"),
        ("/a%00", 400, "InvalidBucketName"),
    ] {
        let (found, xml) = folder.ask(Method::PUT, path).await;
        let found_code = crate::xml::first_text(&xml, "Code");
        assert_eq!((found, found_code.as_deref()), (status, Some(code)), "{path}");
    }
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
}

/// An unmounted folder looked like one without buckets.
#[tokio::test]
async fn a_folder_that_is_gone_is_unreachable() {
    let folder = Fixture::with(&["k"]);
    let elsewhere = folder.root.with_extension("away");
    fs::rename(&folder.root, &elsewhere).unwrap();
    for result in [
        folder.origin.head(&object("k")).await.map(|_| ()),
        folder.origin.get(&object("k"), 0..1, None).await.map(|_| ()),
        folder.origin.forward(Request::get("/b/k").body(full_body("")).unwrap()).await.map(|_| ()),
        folder.origin.forward(Request::put("/b").body(full_body("")).unwrap()).await.map(|_| ()),
    ] {
        assert!(matches!(result, Err(OriginError::Unreachable { .. })), "{result:?}");
    }
    fs::rename(&elsewhere, &folder.root).unwrap();
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
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
    FolderOrigin::open(folder.root.clone(), &Limits::default()).unwrap();
    assert!(!uploads.join("old").exists() && uploads.join("young").exists());
}
