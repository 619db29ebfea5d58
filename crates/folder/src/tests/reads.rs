//! Reads through the folder's own interface: heads, ranges, versions.

use super::*;

#[tokio::test]
async fn a_file_is_an_object_with_a_strong_etag() {
    let folder = Fixture::with(&["dir/a b.json"]);
    let head = folder.origin.head(&object("dir/a b.json")).await.unwrap();
    assert_eq!(head.size, 12);
    let etag = head.etag.unwrap();
    assert!(etag.starts_with('"') && etag.ends_with("-1\""), "{etag}");
    assert!(head.last_modified.unwrap().ends_with(" GMT"));
    assert_eq!(
        head.headers,
        [("content-type".to_owned(), http::HeaderValue::from_static("application/json"))]
    );
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
async fn the_etag_of_an_upload_is_the_one_that_head_and_list_show() {
    let folder = Fixture::new();
    let (status, etag) = folder.put("a/k", "body", &[]).await;
    assert_eq!((status, folder.etag("a/k").await), (200, etag.clone()));
    let (_, xml) = folder.ask(Method::GET, "/b?list-type=2").await;
    assert_eq!(zonal_s3::xml::first_text(&xml, "ETag").unwrap(), etag);
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
        let elsewhere = ObjectName::new(bucket, "b/dir/k");
        assert_eq!(code(folder.origin.head(&elsewhere).await), "NoSuchBucket", "{bucket}");
    }
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

/// The folder evaluated conditions and ranges by rules of its own: a weak ETag matched If-Match, a
/// comma split an ETag in two, dates and If-Range were ignored, and DELETE ignored conditions.
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
